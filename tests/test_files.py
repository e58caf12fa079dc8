"""Files to relations: every format says the same, nothing is guessed, one person stays one."""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
import warm
from doors import counts_of, piped
from grids import thinned

import dptopk as dp
from dptopk.errors import SourceError
from dptopk.sources.domains import fitted, read_domain
from dptopk.sources.files import connect, read_events
from dptopk.sources.frames import Counted, count_users

pytest.importorskip("narwhals")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

COLUMNS = {"user": "user", "item": "item"}


def rows_of(counted: Counted):
    return list(zip(counted.labels, counted.counts.tolist(), strict=True))


USERS = ["00123", "123", "ann, b", 'say "hi"', "ann, b"]
ITEMS = ["007", "7", "é;\t|", "2020-01-01", "é;\t|"]
ROWS = [("007", 1), ("2020-01-01", 1), ("7", 1), ("é;\t|", 1)]
ODD = ('us"er', "it'em é")  # column names that need quoting
WRITERS = {
    "csv": "(HEADER, DELIMITER ',')",
    "tsv": "(HEADER, DELIMITER '\t')",
    "csv.gz": "(HEADER, DELIMITER ';')",
    "csv.zst": "(HEADER, DELIMITER '|')",
    "parquet": "(FORMAT parquet)",
    "jsonl": "(FORMAT json)",
    "json": "(FORMAT json, ARRAY true)",
    "ndjson.gz": "(FORMAT json)",
}
if duckdb.__version__ < "2":
    del WRITERS["csv.zst"]  # refused


def write(path, options, users=USERS, items=ITEMS, names=ODD):
    table = pa.table([users, items], names=list(names))
    con = connect()
    con.register("events", table)
    literal = str(path).replace("'", "''")
    con.execute(f"COPY (FROM events) TO '{literal}' {options}")


def read(paths, names=ODD, **options):
    user, item = names
    return count_users(read_events(paths, user=user, item=item, **options), user=user, item=item)


@pytest.mark.parametrize("ext", WRITERS)
def test_every_format_holds_the_same_table(tmp_path, ext):
    """Identifiers stay as written (007 is not 7); names and paths need quoting."""
    path = tmp_path / f"it's [1] *odd* ü.{ext}"
    write(path, WRITERS[ext])
    assert rows_of(read(path)) == ROWS


def test_several_files_and_globs_are_one_table(tmp_path):
    for n, (ext, options) in enumerate(WRITERS.items()):
        write(tmp_path / f"part{n}.{ext}", options, users=[f"u{n}"], items=["x"])
    everything = [("x", len(WRITERS))]
    assert rows_of(read(tmp_path / "part*")) == everything
    assert rows_of(read(sorted(tmp_path.iterdir()))) == everything
    assert rows_of(read([tmp_path / "*.csv*", str(tmp_path / "part1.tsv")])) == [
        ("x", 1 + sum("csv" in ext for ext in WRITERS))
    ]
    # The same file twice adds nothing: users are distinct over all files.
    assert rows_of(read([tmp_path / "*.csv", tmp_path / "*.csv"])) == [("x", 1)]


def test_columns_are_found_by_name_in_each_file(tmp_path):
    (tmp_path / "1.csv").write_text("user,item\nu1,x\n")
    (tmp_path / "2.csv").write_text("item,more,user\nx,0,u2\n")
    assert rows_of(read(tmp_path / "*.csv", ("user", "item"))) == [("x", 2)]


PEOPLE = range(40)
SCHEMAS = {
    "8-bit": pa.int8(),
    "integer": pa.int64(),
    "unsigned": pa.uint64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "microseconds": pa.timestamp("us"),
    "nanoseconds": pa.timestamp("ns"),
    "zoned": pa.timestamp("us", "UTC"),
    "decimal": pa.decimal128(14, 2),
    "wider decimal": pa.decimal128(20, 4),
}
INTEGERS = {"8-bit", "integer", "unsigned"}


@pytest.mark.parametrize(
    ("one", "other", "column"),
    thinned(SCHEMAS, [*SCHEMAS, "csv", "jsonl"], ["user", "item"], keep=2),
)
def test_a_person_is_one_whatever_the_types_of_files(tmp_path, one, other, column):
    """Users 0 to 39 in both files: 40 people, or an error; pandas writes floats after a null."""
    for place, dtype in enumerate((one, other)):
        kind = SCHEMAS.get(dtype, pa.int64())
        values = pa.array([n % 2 for n in PEOPLE] if kind == pa.bool_() else list(PEOPLE))
        if pa.types.is_date32(kind) or pa.types.is_decimal(kind):
            values = values.cast(pa.int32())
        table = pa.table({column: values.cast(kind), "other": ["x"] * 40})
        ext = dtype if dtype in ("csv", "jsonl") else "parquet"
        options = {"csv": "(HEADER)", "jsonl": "(FORMAT json)", "parquet": "(FORMAT parquet)"}[ext]
        write(
            tmp_path / f"{place}.{ext}", options, table["other"], table[column], ("other", column)
        )
    names = {"user": (column, "other"), "item": ("other", column)}[column]
    if one == other or {one, other} <= INTEGERS or (one == "text" and other in ("csv", "jsonl")):
        got = read([tmp_path / "0*", tmp_path / "1*"], names)
        assert sum(got.counts) == (2 if one == "boolean" else 40)
    else:
        with pytest.raises(SourceError, match=f"column '{column}' is .* in .* and .* in .*: equal"):
            read([tmp_path / "0*", tmp_path / "1*"], names)


def test_parquet_keeps_its_types(tmp_path):
    names = ("user", "item")
    one, two = (tmp_path / f"{n}.parquet" for n in (1, 2))
    big = 2**53 + 1  # as a double it would be another label
    write(one, "(FORMAT parquet)", ["u1", "u1"], [10, 9], names)
    write(two, "(FORMAT parquet)", ["u2", "u2"], pa.array([9, big], pa.uint64()), names)
    assert rows_of(read([one, two], names)) == [(9, 2), (10, 1), (big, 1)]


def test_parquet_columns_that_differ_in_case_only(tmp_path):
    import pyarrow.parquet as pq

    nested = pa.array([{"user": 7, "deep": {"item": 8}}])
    table = pa.table({"n": nested, "User": [1], "user": [2], "ITEM": ["a"], "item": ["b"]})
    pq.write_table(table, tmp_path / "e.parquet")
    assert rows_of(read(tmp_path / "e.parquet", ("User", "ITEM"))) == [("a", 1)]
    assert rows_of(read(tmp_path / "e.parquet", ("user", "item"))) == [("b", 1)]
    with pytest.raises(SourceError, match="no column 'USER', but 'User'; columns: 'n', 'User'"):
        read(tmp_path / "e.parquet", ("USER", "item"))


def test_folders_named_like_columns_add_none(tmp_path):
    (tmp_path / "user=7").mkdir()
    path = tmp_path / "user=7" / "e.parquet"
    write(path, "(FORMAT parquet)", ["u1", "u2"], ["x", "x"], ("user", "item"))
    assert rows_of(read(path, ("user", "item"))) == [("x", 2)]
    (tmp_path / "user=7" / "e.csv").write_text("user,item\nu1,x\nu2,x\n")
    assert rows_of(read(tmp_path / "user=7" / "e.csv", ("user", "item"))) == [("x", 2)]


# ---- headers


@pytest.mark.parametrize(
    ("header", "columns", "place"),
    [
        ("User,user,item,Item", ("user", "item"), (1, 2)),
        ("User,user,item,Item", ("User", "Item"), (0, 3)),
        ("\ufeffuser,item,a,b", ("user", "item"), (0, 1)),
        ('"us""er",a,"it,em",b', ('us"er', "it,em"), (0, 2)),
        ("user;item;a,b;c", ("user", "item"), (0, 1)),
        ("a|user|item|a", ("user", "item"), (1, 2)),
        ('"user\nid",item,a,b', ("user\nid", "item"), (0, 1)),
        ("item,a,b,user", (4, 1), (3, 0)),
    ],
)
def test_columns_of_a_csv_go_by_their_exact_name(tmp_path, header, columns, place):
    delimiter = next((c for c in ";|" if c in header), ",")
    row = delimiter.join(f"v{n}" for n in range(4))
    (tmp_path / "e.csv").write_text(f"{header}\n{row}\n")
    relation = read_events(tmp_path / "e.csv", user=columns[0], item=columns[1])
    assert relation.fetchall() == [(f"v{place[0]}", f"v{place[1]}")]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("user,item,item\n", ("user", "item"), "e.csv: two columns are named 'item'; rename"),
        ("User,item\n", ("user", "item"), "e.csv: no column 'user', but 'User' in the header"),
        ("secret,item\n", ("user", "item"), "e.csv: no column 'user' in the header$"),
        ("a,b\n", (3, 1), "e.csv: no column 3; there are 2"),
    ],
)
def test_bad_headers(tmp_path, text, columns, message):
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(SourceError, match=message):
        read_events(tmp_path / "e.csv", user=columns[0], item=columns[1])


@pytest.mark.parametrize("ext", ["csv", "tsv", "csv.gz"])
def test_files_without_a_header(tmp_path, ext):
    path = tmp_path / f"e.{ext}"
    text = "u1,x,7\nu2,x,8\n".replace(",", "\t" if ext == "tsv" else ",").encode()
    path.write_bytes(gzip.compress(text, mtime=0) if ext.endswith("gz") else text)
    relation = read_events(path, user=1, item=2, header=False)
    assert rows_of(count_users(relation, user="1", item="2")) == [("x", 2)]
    with pytest.raises(SourceError, match="no column 4; there are 3"):
        read_events(path, user=1, item=4, header=False)
    with pytest.raises(SourceError, match="without a header columns go by number, from 1"):
        read_events(path, user="user", item="item", header=False)
    with pytest.raises(ValueError, match="user must be an integer >= 1, got 0"):
        read_events(path, user=0, item=1, header=False)


def test_whether_there_are_events_is_data(tmp_path):
    """A header without rows, lines of JSON without any: no events, and no error."""
    for name, content in (
        ("e.csv", b"user,item\n"),
        ("e.jsonl", b""),
        ("e.json", b"[]"),
        ("e.jsonl.gz", gzip.compress(b"", mtime=0)),
    ):
        (tmp_path / name).write_bytes(content)
        assert rows_of(read(tmp_path / name, ("user", "item"))) == []
    (tmp_path / "h.csv").write_bytes(b"")
    relation = read_events(tmp_path / "h.csv", user=1, item=2, header=False)
    assert relation.fetchall() == []


@pytest.mark.parametrize("value", ['{"a": 1}', "[1]"])
def test_nested_json_is_no_label(tmp_path, value):
    """One object can be written in many ways: one person would be many."""
    (tmp_path / "e.jsonl").write_text(f'{{"user": {value}, "item": "x"}}\n')
    with pytest.raises(SourceError, match="could not be read and counted"):
        read(tmp_path / "e.jsonl", ("user", "item"))


@pytest.mark.parametrize(
    ("delimiter", "text"), [("^", "user^item\n1^x,y\n"), (",", 'user,item\n1,"x,y"\n')]
)
def test_a_delimiter_that_is_given(tmp_path, delimiter, text):
    (tmp_path / "e.csv").write_text(text)
    relation = read_events(tmp_path / "e.csv", user="user", item="item", delimiter=delimiter)
    assert relation.fetchall() == [("1", "x,y")]


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n"])
def test_bad_delimiters(tmp_path, delimiter):
    with pytest.raises(ValueError, match="delimiter must be one character"):
        read_events(tmp_path / "e.csv", user="user", item="item", delimiter=delimiter)


# ---- streams

COUNT = (
    "import dptopk as dp, sys; h = dp.Histogram.from_files(sys.argv[1], user='user', item='item', "
    "format=sys.argv[2] if len(sys.argv) > 2 else None); print(h.labels, h.counts.tolist())"
)
STREAMED = {
    "csv": (b"user,item\r\n1,x\r\n2,x\r\n", []),
    "semicolons": (b"user;item\n1;x\n2;x\n", []),
    "tsv": (b"user\titem\n1\tx\n2\tx\n", ["tsv"]),
    "json lines": (b'{"user": 1, "item": "x"}\n{"item": "x", "user": 2}\n', ["json"]),
    "json array": (b'[{"user": 1, "item": "x"},\n {"item": "x", "user": 2}]', ["json"]),
}


def shell(line):
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False
    )


WAYS = {
    "pipe": "cat '{0}' | {1} - {2}",
    "file": "{1} - {2} < '{0}'",
    "substitution": "{1} <(cat '{0}') {2}",
}


@pytest.mark.parametrize(
    ("way", "form", "packed"),
    [
        *(("pipe", form, False) for form in STREAMED),
        ("pipe", "csv", True),
        ("file", "csv", False),
        ("file", "tsv", True),
        ("substitution", "csv", False),
        ("substitution", "json lines", True),
    ],
)
def test_a_stream_is_read_once_from_its_first_byte(tmp_path, way, form, packed):
    data, named = STREAMED[form]
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
    python = f"'{sys.executable}' -c \"{COUNT}\""
    done = shell(WAYS[way].format(path, python, " ".join(named)))
    assert (done.stdout, done.stderr) == ("['x'] [2]\n", "")


BIG = b"user,item\n" + b"".join(b"%d,item %d\n" % (n, n % 7) for n in range(300_000))


def test_a_long_stream(tmp_path):
    """Past what pipes and DuckDB's first look hold."""
    (tmp_path / "e.gz").write_bytes(gzip.compress(BIG, 1, mtime=0))
    done = shell(f"cat '{tmp_path}/e.gz' | '{sys.executable}' -c \"{COUNT}\" -")
    assert "[42858, 42857, 42857, 42857, 42857, 42857, 42857]" in done.stdout


@pytest.mark.parametrize(
    ("data", "form", "message"),
    [
        (b"", None, "no header line: it is empty"),
        (b"secret,item\n1,2\n", None, "no column 'user' in the header"),
        (b"user,item\nsecret\n", None, "not readable as CSV: malformed or not UTF-8"),
        (b"user,item\nsecret,\xff\n", None, "not readable as CSV: malformed or not UTF-8"),
        (gzip.compress(BIG, 1, mtime=0)[:-300], None, "not readable"),
        (b"\x1f\x8bsecret", None, "not readable as CSV: malformed or cut short"),
        (b'{"user": 1, "itm": "secret"}\n', "json", "no column 'item'"),
        (b'{"user": 1, "item": "secret"', "json", "not readable as JSON"),
    ],
)
def test_bad_streams_give_an_error_and_no_counts(tmp_path, data, form, message):
    with (
        piped(data, tmp_path / "f") as fifo,
        pytest.raises(SourceError, match=f"^{re.escape(str(fifo))}: {message}") as caught,
    ):
        read_events(fifo, user="user", item="item", format=form)
    assert "secret" not in str(caught.value)


def test_parquet_needs_a_file():
    with pytest.raises(SourceError, match=r"^-: Parquet can't be read from a stream; save it"):
        read_events("-", user="user", item="item", format="parquet")


def test_an_endless_stream_is_given_up_at_its_first_bad_row():
    python = f"'{sys.executable}' -c \"{COUNT}\""
    done = shell(f"(echo user,item; yes 1,2,3) | timeout 60 {python} -")
    assert "-: not readable as CSV" in done.stderr


def test_streams_and_files_together(tmp_path):
    (tmp_path / "e.csv").write_text("item,user\nx,2\ny,1\n")
    code = COUNT.replace("sys.argv[1]", "['-', sys.argv[1]]").replace("sys.argv[2]", "None")
    done = shell(
        f"printf 'user,item\n1,x\n2,x\n' | '{sys.executable}' -c \"{code}\" {tmp_path}/e.csv"
    )
    assert (done.stdout, done.stderr) == ("['x', 'y'] [2, 1]\n", "")


def test_rows_do_not_decide_how_a_csv_is_read(tmp_path):
    """No comment, quote, type or delimiter is guessed from what users wrote."""
    path = tmp_path / "e.csv"
    rows = ["user,item", "#1,a;b", "2,a;b", "3,'x", "4,NULL", "5,1e3", "6,01/02/2020"]
    path.write_text("\n".join(rows) + "\n")
    assert rows_of(read(path, ("user", "item"))) == [
        ("'x", 1), ("01/02/2020", 1), ("1e3", 1), ("NULL", 1), ("a;b", 2),
    ]  # fmt: skip


def test_a_csv_of_numbers_is_text(tmp_path):
    (tmp_path / "e.csv").write_text("user,item\n1,1.50\n1,1.5\n2,7\n")
    rows = rows_of(read(tmp_path / "e.csv", ("user", "item")))
    assert rows == [("1.5", 1), ("1.50", 1), ("7", 1)]


def test_a_file_is_taken_before_a_pattern(tmp_path):
    (tmp_path / "e*.csv").write_text("user,item\n1,x\n")
    (tmp_path / "ee.csv").write_text("user,item\n2,y\n")
    assert rows_of(read(tmp_path / "e*.csv", ("user", "item"))) == [("x", 1)]
    assert rows_of(read(tmp_path / "e?.csv", ("user", "item"))) == [("x", 1), ("y", 1)]


def test_header_without_rows_is_an_empty_table(tmp_path):
    (tmp_path / "e.csv").write_text("user,item\n")
    assert rows_of(read(tmp_path / "e.csv", ("user", "item"))) == []


LONG = b"user,item\n" + b"u,x\n" * 60_000  # past what DuckDB looks at before it starts


def test_duckdb_1_is_not_trusted_with_packed_files(tmp_path, monkeypatch):
    """It takes a cut for the end of the file: we read to the end before it, or refuse."""
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(LONG))
    assert rows_of(read(path, ("user", "item"))) == [("x", 1)]
    path.write_bytes(gzip.compress(LONG)[:-200])
    with pytest.raises(SourceError, match="not readable as gzip: malformed or cut short"):
        read(path, ("user", "item"))
    other = tmp_path / "e.csv.zst"
    other.write_bytes(b"anything")
    with pytest.raises(SourceError, match=r"\.zst needs DuckDB 2"):
        read(other, ("user", "item"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "none.csv: no such file"),
        ("none*.csv", None, r"none\*.csv: no file matches"),
        ("http://host/x.csv", None, "no such file"),
        ("", None, "is a directory; name its files"),
        ("e.csv", b"", "e.csv: no header line: it is empty"),
        ("e.log", b"user,item\nsecret,x\n", r"e.log: unknown format; the name must end in \.csv"),
        ("e.parquet.gz", b"secret", "unknown format"),
        ("e.parquet", b"PAR1secret", "e.parquet: not readable as Parquet: malformed or cut short"),
        ("e.csv.gz", b"secret", "e.csv.gz: not readable as"),
        ("e.csv.gz", gzip.compress(LONG, mtime=0)[:-200], "could not be read|not readable as"),
        (
            "e.csv",
            b"user,item\nsecret,\xff\n",
            r"malformed, cut short or non-UTF-8 row.*\(InvalidInput",
        ),
        (
            "e.csv",
            b"user,item\nsecret,b,c\n",
            r"malformed, cut short or non-UTF-8 row.*\(InvalidInput",
        ),
        ("e.csv", b"secret,item\n1,2\n", "e.csv: no column 'user' in the header$"),
        ("e.csv", b"user,secret\n1,2\n", "e.csv: no column 'item' in the header$"),
        ("e.csv", b"secret;item\n1;2\n", "e.csv: no column 'user' in the header$"),
        ("e.csv", b"user;secret\n1;2\n", "e.csv: no column 'item' in the header$"),
        ("e.tsv", b"user,item\nsecret,2\n", "e.tsv: no column 'user' in the header$"),
        ("e.csv", b"user,item\nsecret,\n", "column 'item' holds nulls"),
        ("e.csv", LONG + b"secret,b,c\n", r"malformed, cut short or non-UTF-8 row.*\(InvalidInput"),
        ("e.csv", LONG + b"secret,\xff\n", "malformed, cut short or non-UTF-8 row"),
        ("e.jsonl", b'{"user": "secret", "item": 1}\n{"us', "e.jsonl: not readable as JSON"),
        ("e.jsonl", b'{"user": "secret", "itm": 1}\n', "e.jsonl: no column 'item'$"),
        ("e.jsonl", b'{"user": "secret", "item": null}\n', "column 'item' holds nulls"),
        ("e.jsonl", b"[1, 2]\n", "not readable as JSON|no column"),
    ],
)
def test_bad_files_give_one_clear_line_without_data(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        read(name or str(tmp_path), ("user", "item"))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_parquet_names_its_columns(tmp_path):
    write(tmp_path / "e.parquet", "(FORMAT parquet)")
    with pytest.raises(SourceError, match=re.escape(f"no column 'who'; columns: {ODD[0]!r}, ")):
        read(tmp_path / "e.parquet", ("who", "item"))


def test_unreadable_file(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text("user,item\n")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(SourceError, match=r"e\.csv: permission denied"):
        read(tmp_path / "e.csv", ("user", "item"))


def test_no_files_given():
    with pytest.raises(SourceError, match="no files given"):
        read([])


def test_connection_loads_no_code_and_spills_nowhere():
    con = connect()
    for setting, value in (
        ("autoinstall_known_extensions", False),
        ("autoload_known_extensions", False),
        ("temp_directory", ""),
    ):
        assert con.execute("SELECT current_setting(?)", [setting]).fetchone() == (value,)


def test_more_pairs_than_memory_is_said_so():
    con = connect()
    con.execute("SET memory_limit = '12MB'; SET threads = 1")
    con.execute("CREATE VIEW e AS SELECT u AS user, u % 7 AS item FROM range(2_000_000) t(u)")
    with pytest.raises(SourceError, match="pairs do not fit in memory"):
        count_users(con.table("e"), **COLUMNS)


# ---- domains


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.txt", "é 1\r\n\r\nb,c\r\n007\r\n".encode()),
        ("d", "\ufeffé 1\nb,c\n007".encode()),
        ("d.txt.gz", gzip.compress("é 1\nb,c\n007\n".encode(), mtime=0)),
        ("d.csv", 'label,more\né 1,x\n"b,c",y\n007,z\n'.encode()),
        ("d.tsv", "label\tmore\né 1\tx\nb,c\ty\n007\tz\n".encode()),
    ],
)
def test_domain_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_domain(tmp_path / name) == ["é 1", "b,c", "007"]


def test_domain_of_a_parquet_file_has_its_type(tmp_path):
    write(tmp_path / "d.parquet", "(FORMAT parquet)", [3, 12], ["x", "y"], ("label", "more"))
    assert read_domain(tmp_path / "d.parquet") == [3, 12]


@pytest.mark.parametrize(
    ("column", "labels", "fit"),
    [
        ("7::INTEGER", ["7", "-1"], [7, -1]),
        ("'7'", ["007", "x"], ["007", "x"]),
        ("'7'", [7], ["7"]),
        ("DATE '2024-01-01'", ["2024-02-29"], [date(2024, 2, 29)]),
        ("0.5::DOUBLE", ["0.50", "inf"], [0.5, float("inf")]),
        ("true", ["true", "False"], [True, False]),
        ("1.5::DECIMAL(4,2)", ["1.50"], [Decimal("1.5")]),
        ("uuid()", [str(UUID(int=7))], [UUID(int=7)]),
        ("7::INTEGER", ["x"], None),
        ("DATE '2024-01-01'", ["yesterday"], None),
        ("true", ["yes"], None),
        ("1.5::DECIMAL(4,2)", ["one"], None),
        ("uuid()", ["7"], None),
    ],
)
def test_a_domain_of_text_fits_the_column(column, labels, fit):
    relation = duckdb.sql(f"SELECT 1 AS user, {column} AS item")
    if fit is None:
        with pytest.raises(SourceError, match=f"the domain's '{labels[0]}' is no .*, which column"):
            fitted(labels, relation, "item")
    else:
        assert fitted(labels, relation, "item") == fit


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.txt", None, "no such file"),
        ("d.txt", b"", "the domain is empty"),
        ("d.txt", b"a\nb\na\n", "the domain contains 'a' twice"),
        ("d.txt", b"\n \n", "the domain is empty"),
        ("d.txt", b"a\n\xff\n", "not readable as text, one label per line"),
        ("d.txt.gz", b"a\nb\n", "not readable as text"),
        ("d.csv", b"label,x\n,1\n", "holds nulls or empty values"),
        ("d.csv", b"label\n", "the domain is empty"),
        ("d.parquet", b"PAR1", "not readable as Parquet"),
    ],
)
def test_bad_domain_files(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=f"{re.escape(name)}: .*{message}"):
        read_domain(tmp_path / name)


# ---- what stands in the first line, and how lines end

FIRST_LINES = {
    "a stray quote": b'user,item,5" pipes\nu,a,x\nv,a,x\nw,b,"q"\nu,b,x\n',
    "a stray quote, and none after it": b'user,item,5" pipes\nu,a,x\nv,a,x\nw,b,q\nu,b,x\n',
    "a quoted line break": b'user,item,"5\npipes"\nu,a,x\nv,a,x\nw,b,q\nu,b,x\n',
    "CR": b"user,item\ru,a\rv,a\rw,b\ru,b\r",
    "CRLF, and LF in quotes": b'user,item,x\r\nu,a,"x\ny"\r\nv,a,x\r\nw,b,x\r\nu,b,x\r\n',
    "BOM": b"\xef\xbb\xbfuser,item\nu,a\nv,a\nw,b\nu,b\n",
    "a line separator": "user,item,x\u2028y\nu,a,x\nv,a,x\nw,b,x\nu,b,x\n".encode(),
}


@pytest.mark.parametrize("stream", [False, True], ids=["file", "FIFO"])
@pytest.mark.parametrize("first", FIRST_LINES)
def test_no_row_is_lost_behind_the_first_line(tmp_path, first, stream):
    """A quote in a header joins lines; how many is up to the rows."""
    data = FIRST_LINES[first]
    (tmp_path / "e.csv").write_bytes(data)
    with piped(data, tmp_path / "fifo") if stream else nullcontext(tmp_path / "e.csv") as path:
        h = dp.Histogram.from_files(path, user="user", item="item")
    assert counts_of(h) == {"a": 2, "b": 2}


def test_a_first_line_too_long_to_be_one(tmp_path):
    (tmp_path / "e.csv").write_bytes(b'user,item,"x\n' + b"secret,b\n" * 30_000)
    with pytest.raises(SourceError, match=r"e\.csv: not readable as CSV: its first line is mal"):
        read_events(tmp_path / "e.csv", user="user", item="item")


@pytest.mark.parametrize("user", ["user", "User"])
def test_columns_of_json_go_by_their_exact_name(tmp_path, user):
    (tmp_path / "e.jsonl").write_text('{"User": "User", "user": "user", "item": 1}\n')
    relation = read_events(tmp_path / "e.jsonl", user=user, item="item")
    assert relation.fetchall() == [(user, "1")]
    with pytest.raises(SourceError, match=r"e\.jsonl: no column 'USER', but 'User'"):
        read_events(tmp_path / "e.jsonl", user="USER", item="item")


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"us", b"user,item\nu,a\n"], ids=repr)
def test_one_ctrl_c_ends_a_wait_for_a_pipe(sent):
    """DuckDB itself waits for bytes without a look at signals."""
    command = ["select", "-", "-k", "1", "--epsilon", "1", "--delta", "1e-6", "-q"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(warm.cli(*command), **pipes)
    assert process.stdout.readline() == b"on\n"
    process.stdin.write(sent)
    process.stdin.flush()
    time.sleep(4)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in process.stderr.read()
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


# ---- more than memory holds

WIDE = (
    "COPY (SELECT 'a user of a long name ' || range AS user, 'an item ' || range % 999_999 AS item"
)


@pytest.mark.posix
@pytest.mark.slow
def test_what_does_not_fit_goes_to_the_named_directory_and_is_removed(tmp_path, monkeypatch):
    path, folder = tmp_path / "e.csv", tmp_path / "spill"
    folder.mkdir()
    connect().execute(f"{WIDE} FROM range(1_000_000)) TO '{path}' (HEADER)")
    monkeypatch.chdir(folder)
    seen = []
    real = dp.Histogram.from_events.__func__

    def spy(cls, events, **options):
        (private,) = folder.iterdir()
        h = real(cls, events, **options)
        seen.append(private.stat().st_mode & 0o777)
        return h

    read = {**COLUMNS, "k_bar": 3, "memory_limit": "80MB"}
    with pytest.raises(SourceError, match="do not fit in memory; name a directory where they may"):
        dp.Histogram.from_files(path, **read)
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(dp.Histogram, "from_events", classmethod(spy))
    h = dp.Histogram.from_files(path, temp_directory=folder, **read)
    assert (h.labels, h.counts.tolist()) == (("an item 0", "an item 1", "an item 10"), [2, 1, 1])
    assert list(folder.iterdir()) == []
    assert seen == [0o700]

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dp.Histogram, "from_events", fail)
    with pytest.raises(KeyboardInterrupt):
        dp.Histogram.from_files(path, temp_directory=folder, **read)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temp_directory": "/no/where"}, ValueError, "temp_directory must be a directory that"),
        ({"temp_directory": 7}, TypeError, "temp_directory must be a path, got int"),
        ({"memory_limit": "2"}, ValueError, "memory_limit must be a size such as '2GB'"),
        ({"memory_limit": "-1GB"}, ValueError, "memory_limit must be a size"),
        ({"memory_limit": 2}, TypeError, "memory_limit must be a text such as '2GB', got int"),
    ],
)
def test_bad_limits(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        dp.Histogram.from_files(tmp_path / "none.csv", **COLUMNS, **options)
