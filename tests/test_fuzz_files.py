"""Files of any bytes: the counts that are in them, or one plain line that shows none of them.

Through `Histogram.from_files` and `dptopk select`. Files that are sound are compared with what
plain Python reads in them.
"""

import csv
import gzip
import io
import json
import warnings
from collections import Counter

import pytest
from fuzzing import holds
from hypothesis import strategies as st

import dptopk as dp
from dptopk.cli import main
from dptopk.errors import SourceError

pytest.importorskip("narwhals")
duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CANARY = "zzygal"
COLUMNS = {"user": "user", "item": "item"}
LABELS = st.one_of(
    st.sampled_from(
        ["a", "b", "1", "01", "1.0", "NULL", "null", "nan", "é", "a b", " a", "x,y", "it's"]
    ),
    st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=4
    ),
)
ROWS = st.lists(st.tuples(st.sampled_from("uvw"), LABELS), max_size=12)


def naive(rows):
    """How many different users each item has."""
    return Counter(item for _, item in set(rows))


def marked(rows):
    """The same with a label that no message may show."""
    return [(f"{CANARY}{user}", f"{CANARY}{item}") for user, item in rows]


def text_of(rows, delimiter, end, quoting, extra):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["user", *(["more"] * extra), "item"])
    writer.writerows([user, *(["7"] * extra), item] for user, item in rows)
    return out.getvalue().encode()


def parquet_of(rows):
    users, items = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({"user": pa.array(users, pa.string()), "item": pa.array(items, pa.string())})
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


@st.composite
def files(draw):
    """Return the ending of a file's name, its bytes, and the rows in it."""
    rows = marked(draw(ROWS))
    form = draw(st.sampled_from(["csv", "csv", "tsv", "jsonl", "json", "parquet"]))
    if form in ("csv", "tsv"):
        delimiter = "\t" if form == "tsv" else draw(st.sampled_from(",;|\t"))
        quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        end = draw(st.sampled_from(["\n", "\r\n"]))
        data = text_of(rows, delimiter, end, quoting, draw(st.integers(0, 1)))
        if draw(st.booleans()):
            data = b"\xef\xbb\xbf" + data
    elif form == "parquet":
        data = parquet_of(rows)
    else:
        lines = [json.dumps({"user": user, "item": item}) for user, item in rows]
        data = ("\n".join(lines) if form == "jsonl" else f"[{', '.join(lines)}]").encode()
    if form != "parquet" and draw(st.booleans()):
        return f"{form}.gz", gzip.compress(data, mtime=0), rows
    return form, data, rows


def counted(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        h = dp.Histogram.from_files(path, **COLUMNS)
    return {label: int(n) for label, n in zip(h.labels, h.counts, strict=True)}


def check_sound(folder, made):
    ending, data, rows = made
    path = folder / f"e.{ending}"
    path.write_bytes(data)
    assert counted(path) == naive(rows)


def test_sound_files_are_counted_as_python_counts_them(tmp_path, wide):
    def check(made):
        check_sound(tmp_path, made)

    holds(check, files(), number=10, wide=wide, times=5)


# ---- damaged ones

ENDINGS = ["csv", "tsv", "json", "jsonl", "parquet", "csv.gz", "jsonl.gz", "txt", "csv.zst", "pq"]
BITS = [
    b"\0",
    b'"',
    b"\r",
    b"\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b",",
    b"\t",
    b"{",
    b"[",
    b"\\",
    b"PAR1",
]
PICK = st.integers(0, 2**30)
HOW = ["flip", "cut", "put", "twice", "gone", "ending", "end", "noise"]
DAMAGE = st.lists(st.tuples(st.sampled_from(HOW), PICK, PICK), min_size=1, max_size=3)


def damaged(ending, data, damage):
    """The ending and bytes of a file after some accidents."""
    data = bytearray(data)
    for how, at, other in damage:
        at %= len(data) + 1
        if how == "flip" and at < len(data):
            data[at] ^= 1 << other % 8
        elif how == "cut":
            del data[at:]
        elif how == "put":
            data[at:at] = BITS[other % len(BITS)]
        elif how == "twice":
            data[at:at] = data[at : at + other % 50]
        elif how == "gone":
            del data[at : at + other % 20]
        elif how == "end":
            data += CANARY.encode() + BITS[other % len(BITS)]
        elif how == "noise":
            data[at:at] = other.to_bytes(4, "little") * (other % 9)
        elif how == "ending":
            ending = ENDINGS[other % len(ENDINGS)]
    return ending, bytes(data)


def said_of(path):
    """What from_files says of a file; nothing if it counts it."""
    try:
        counted(path)
    except SourceError as error:
        assert error.__cause__ is None  # noqa: PT017
        assert error.__context__ is None  # noqa: PT017
        return str(error)
    return ""


def check_damaged(folder, made, damage):
    ending, data = damaged(*made[:2], damage)
    path = folder / f"e.{ending}"
    path.write_bytes(data)
    said = said_of(path)
    assert CANARY not in said
    assert "\n" not in said


def test_damaged_files_are_counted_or_refused_without_their_data(tmp_path, wide):
    def check(made, damage):
        check_damaged(tmp_path, made, damage)

    holds(check, files(), DAMAGE, number=20, wide=wide, times=5)


def check_select(folder, capsys, made, damage, more):
    ending, data = damaged(*made[:2], damage)
    path = folder / f"e.{ending}"
    path.write_bytes(data)
    capsys.readouterr()
    code = main(["select", str(path), "-k", "2", "--epsilon", "1e-9", "--delta", "1e-12", *more])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    assert CANARY not in err
    assert CANARY not in out  # under this threshold, whatever is drawn: but for 1e-12
    assert "Traceback" not in err
    assert "internal error" not in err
    if code == 2:
        assert out == ""
        assert err.startswith("dptopk: error: ")
        assert err.count("\n") == 1


MORE = st.lists(
    st.sampled_from([
        ["-q"], ["--json"], ["--drop-nulls"], ["--format", "csv"], ["--format", "parquet"],
        ["--format", "json"], ["--format", "tsv"], ["--no-header", "--user", "1", "--item", "2"],
        ["--max-items-per-user", "2"], ["--min-events", "2"], ["--delimiter", ";"],
        ["--user", "item", "--item", "user"],
    ]),
    max_size=2,
).map(lambda lists: [word for words in lists for word in words])  # fmt: skip


def test_select_of_damaged_files_shows_none_of_their_data(tmp_path, capsys, wide):
    def check(made, damage, more):
        check_select(tmp_path, capsys, made, damage, more)

    holds(check, files(), DAMAGE, MORE, number=12, wide=wide, times=5)


# ---- and each of these checks sees a mistake

ONE = ("csv", b"user,item\nzzygalu,zzygala\nzzygalu,zzygala\n", [(f"{CANARY}u", f"{CANARY}a")] * 2)
CUT = [("put", 12, 4)]  # a byte that is no UTF-8


def rows_in_place_of_users(cls, path, **columns):
    with open(path, newline="") as file:
        rows = [row["item"] for row in csv.DictReader(file)]
    return dp.Histogram.from_counts(Counter(rows))


def an_error_that_quotes(cls, path, **columns):
    raise SourceError(f"what is {path.read_text(errors='replace')}?")


def test_counts_of_rows_are_found_out(tmp_path, monkeypatch):
    check_sound(tmp_path, ONE)
    monkeypatch.setattr(dp.Histogram, "from_files", classmethod(rows_in_place_of_users))
    with pytest.raises(AssertionError):
        check_sound(tmp_path, ONE)


def test_an_error_that_quotes_is_found_out(tmp_path, monkeypatch):
    check_damaged(tmp_path, ONE, CUT)
    monkeypatch.setattr(dp.Histogram, "from_files", classmethod(an_error_that_quotes))
    with pytest.raises(AssertionError):
        check_damaged(tmp_path, ONE, CUT)


def test_a_command_that_quotes_is_found_out(tmp_path, capsys, monkeypatch):
    check_select(tmp_path, capsys, ONE, CUT, [])
    monkeypatch.setattr(
        "dptopk.cli.select.open_events",
        lambda args, *_: an_error_that_quotes(None, tmp_path / "e.csv"),
    )
    with pytest.raises(AssertionError):
        check_select(tmp_path, capsys, ONE, CUT, [])
