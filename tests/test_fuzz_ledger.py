"""A ledger whose record or file was damaged: it opens and charges as before, or says so.

Never with more budget than there was, never with an error of another kind, and no message quotes
what was released. Whoever forges a whole record is another matter: the signature of an export.
"""

import contextlib
import json
import sqlite3

import pytest
from fuzzing import holds
from hypothesis import strategies as st

import dptopk as dp
from dptopk import errors
from dptopk.budget import book, lines
from dptopk.budget.audit import verify_export

CANARY = "tincture of lynx"
COUNTS = dp.Histogram([9000, 8000, 40], labels=[f"{CANARY} {n}" for n in range(3)])
CALL = {"mechanism": "limited_domain", "k": 2, "k_bar": None, "max_items_per_user": None}
NAMES = ("ann", "eve", "new", "sales")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return a file that has lines of every kind, and its rows."""
    path = tmp_path_factory.mktemp("sound") / "sound.sqlite"
    with dp.Ledger(path) as ledger:
        ledger.create_filter("sales", epsilon=2.0, delta=1e-6)
        ledger.create("ann", k_star=20, calls=5, epsilon=1.0, delta=1e-7, cap="sales")
        ledger.create_filter("eve", epsilon=2.0)
        ledger.create("new", k_star=9, calls=3, epsilon=1.0, delta=1e-7)
        session = dp.Session.bound(ledger, "ann")
        session.limited_domain(COUNTS, k=2, k_bar=3, request_id="one")
        ledger.account("ann")[1].reserve(2, 1, "lost", CALL)
        ledger.renew("ann", "the second")
        session.limited_domain(COUNTS, k=2, k_bar=3, request_id="two")
        other = dp.Filter.bound(ledger, "eve")
        other.peel(COUNTS, k=2, epsilon_step=0.1, request_id="one")
        other.charge(epsilon=0.1)
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT name, seq, request_id, text, body FROM lines").fetchall()
    assert CANARY in str(rows)
    return path.read_bytes(), rows, dict(answers(path))


def opened(ledger, name):
    kind = dp.Filter if name in ("eve", "sales") else dp.Session
    return kind.bound(ledger, name)


def spend(ledger, name):
    if name == "sales":
        return opened(ledger, name).joint(COUNTS, k=1, epsilon_step=0.01)
    step = {"epsilon_step": 0.01} if name == "eve" else {}
    return opened(ledger, name).peel(COUNTS, k=1, **step)


def again(ledger, name):
    if name == "ann":
        return opened(ledger, name).limited_domain(COUNTS, k=2, k_bar=3, request_id="two")
    return None


def left(ledger, name):
    budget = opened(ledger, name)
    return budget.remaining, None if name in ("eve", "sales") else budget.terms


# What a damaged ledger must answer as before, or with less left; and what else it may be asked.
ASKS = {
    "bound": left,
    "budget": lambda ledger, name: ledger.budget(name)[1:3][::-1],
    "again": again,
}
MORE = {
    "history": lambda ledger, name: ledger.history(name),
    "lost": lambda ledger, name: ledger.lost(name),
    "export": lambda ledger, name: list(ledger.export([name])),
    "names": lambda ledger, name: ledger.names(),
    "charge": spend,
}


def answers(path):
    with dp.Ledger(path, timeout=1.0) as ledger:
        for name in NAMES:
            for how, ask in ASKS.items():
                yield (how, name), ask(ledger, name)


def check_file(path, before, names=NAMES):
    """Ask and charge all that can be asked and charged of a file that may be damaged."""
    try:
        ledger = dp.Ledger(path, timeout=1.0)
    except dp.LedgerError as error:
        assert CANARY not in str(error)  # noqa: PT017
        return
    with ledger:
        for name in names:
            for how, ask in (ASKS | MORE).items():
                try:
                    found = ask(ledger, name)
                except dp.LedgerError as error:
                    assert CANARY not in str(error)  # noqa: PT017
                    continue
                if how == "again":
                    assert found == before[how, name]
                elif how in ASKS:
                    room, terms = before[how, name]
                    assert all(a <= b for a, b in zip(found[0], room, strict=True)), (how, name)
                    assert found[1] == terms, (how, name)


# ---- rows

ODD = st.sampled_from([
    None, True, False, 0, 1, -1, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "1", "999",
    "-1", "1/0", "1/3", "1e9", "1" * 5000, [], {}, ["ann", 1], {"calls": "999", "outcomes": "999"},
    {"rho": "9", "delta": "1"}, "create", "charge", "release", "renew", "ann", "sales", "\\#1",
])  # fmt: skip
PICK = st.integers(0, 2**30)


def places(value, path=()):
    """All places in what JSON holds."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from places(inner, (*path, place))


def changed(text, pick, new, drop):
    """The text of JSON with one value changed or left out."""
    value = json.loads(text)
    where = list(places(value))
    *path, last = where[1 + pick % (len(where) - 1)]
    inner = value
    for name in path:
        inner = inner[name]
    if drop:
        del inner[last]
    else:
        inner[last] = new
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@st.composite
def mangled_texts(draw, text):
    """A text of JSON that was damaged."""
    how = draw(st.sampled_from(["change", "drop", "cut", "flip", "digit", "deep", "other"]))
    if how in ("change", "drop"):
        return changed(text, draw(PICK), draw(ODD), how == "drop")
    at = draw(PICK) % len(text)
    if how == "cut":
        return text[:at]
    if how == "flip":
        return text[:at] + chr(ord(text[at]) ^ 1 << draw(st.integers(0, 6))) + text[at + 1 :]
    if how == "digit":
        digits = [place for place, letter in enumerate(text) if letter.isdigit()]
        at = digits[draw(PICK) % len(digits)]
        return text[:at] + draw(st.sampled_from("0123456789")) + text[at + 1 :]
    return "[" * 20_000 if how == "deep" else draw(st.sampled_from(["", "null", "[]", "{}", "7"]))


@st.composite
def damaged_rows(draw, rows):
    """The rows of a ledger, one of which was changed, lost or moved.

    The last line of a budget is not lost: what is left then is an old copy, which is sound.
    """
    rows = [list(row) for row in rows]
    place = draw(PICK) % len(rows)
    row = rows[place]
    last = place + 1 == len(rows) or rows[place + 1][0] != row[0]
    how = draw(st.sampled_from(["text"] * 6 + ["body", "swap", "twice", "column", "gone"]))
    if last and how == "gone":
        how = "text"
    if how == "text":
        row[3] = draw(mangled_texts(row[3]))
    elif how == "body":
        answered = [row for row in rows if row[4] is not None]
        row = answered[draw(PICK) % len(answered)]
        row[4] = draw(mangled_texts(row[4]))
    elif how == "gone":
        del rows[place]
    elif how == "swap":
        other = rows[draw(PICK) % len(rows)]
        row[3], other[3] = other[3], row[3]
    elif how == "twice":
        length = sum(other[0] == row[0] for other in rows)
        rows.append([row[0], length, *row[2:]])
    else:
        column = draw(st.sampled_from([2, 4] if last else [0, 1, 2, 4]))
        new = {
            0: st.sampled_from(["ann", "eve", "new", "sales", "", "\\", b"ann"]),
            1: st.sampled_from([0, 1, 5, 99, -1, 2**62, "x", 1.5]),
            2: st.sampled_from([None, "one", "two", "\\#1", b"one", 7]),
            4: st.sampled_from([None, "", "{}", b"{}", 7]),
        }
        row[column] = draw(new[column])
    return rows


def write(path, sound_bytes, rows):
    """Make a file that holds these rows, whatever its triggers say."""
    path.write_bytes(sound_bytes)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        for event in ("update", "delete", "replace"):
            db.execute(f"DROP TRIGGER lines_{event}")
        db.execute("DELETE FROM lines")
        db.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?)", rows)


def of_rows(sound, path):
    def check(rows):
        write(path, sound[0], rows)
        check_file(path, sound[2])

    return check, damaged_rows(sound[1])


def test_a_damaged_row_gives_no_budget_back(sound, tmp_path, wide):
    check, rows = of_rows(sound, tmp_path / "l.sqlite")
    holds(check, rows, number=25, wide=wide, times=4)


class Equal:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None


def believe(replay, line):
    """Follow a line whatever it says."""
    fields = json.loads(line.text)
    replay.state = lines.state_in(line, fields)


def plain(line):
    return json.loads(line.text)


# What is damaged, and what no longer looks: a balance, an answer, a text, what a message says.
TWINS = {
    "a balance": (
        ("text", '"outcomes":"18"', '"outcomes":"19"'),
        [(lines.Replay, "follow", believe), (book, "fields_of", plain)],
    ),
    "an answer": (
        ("body", "lynx 0", "lynx 9"),
        [(lines.Replay, "follow", believe), (book, "digest", lambda text: Equal())],
    ),
    "no JSON": (
        ("text", "{", ""), [(lines, "sound", lambda *_: contextlib.nullcontext())]
    ),
    "a row that is quoted": (
        ("text", "{", ""), [(errors.LedgerError, "__str__", lambda error: CANARY)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TWINS)
def test_a_ledger_that_looks_less_closely_is_found_out(sound, tmp_path, what, monkeypatch):
    (column, old, new), patches = TWINS[what]
    rows = [list(row) for row in sound[1]]
    last = max(place for place, row in enumerate(rows) if row[0] == "ann")
    at = {"text": 3, "body": 4}[column]
    assert old in rows[last][at]
    rows[last][at] = rows[last][at].replace(old, new, 1)
    check, _ = of_rows(sound, tmp_path / "l.sqlite")
    check(rows)
    for where, name, broken in patches:
        monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, ValueError)):
        check(rows)


@pytest.mark.parametrize("column", ["text", "body"])
@pytest.mark.parametrize("how", [lambda t: t[:-1], lambda t: "é" + t], ids=["cut", "not ASCII"])
def test_an_error_does_not_even_hold_what_it_is_about(sound, tmp_path, column, how):
    """As its context would, which debuggers and reporters of errors show."""
    rows = [list(row) for row in sound[1]]
    last = max(place for place, row in enumerate(rows) if row[0] == "ann")
    at = {"text": 3, "body": 4}[column]
    rows[last][at] = how(rows[last][at])
    path = tmp_path / "l.sqlite"
    write(path, sound[0], rows)
    with dp.Ledger(path, timeout=1.0) as ledger:
        for ask in (ASKS["budget"], again, MORE["history"], MORE["export"]):
            with pytest.raises(dp.LedgerError) as caught:
                ask(ledger, "ann")
            assert caught.value.__context__ is None
            assert caught.value.__cause__ is None


# ---- bytes of the file


def damaged_file(data, how, at, other):
    """The bytes of a file, some of which turned, or are gone."""
    data = bytearray(data)
    at %= len(data)
    page = at // 4096 * 4096
    if how == "flip":
        data[at] ^= 1 << other % 8
    elif how == "byte":
        data[at] = other % 256
    elif how == "header":  # of a page: how many rows it has, and where
        data[page + (100 if page == 0 else 0) + other % 40] ^= 1 << at % 8
    elif how == "cut":
        del data[at:]
    elif how == "page":
        other = other % len(data) // 4096 * 4096
        data[page : page + 4096] = data[other : other + 4096]
    elif how == "zeros":
        data[at : at + 100] = bytes(len(data[at : at + 100]))
    else:
        data += bytes(other % 5000)
    return bytes(data)


HOW = st.sampled_from(["flip", "flip", "byte", "cut", "page", "zeros", "more", "header"])


def test_a_damaged_file_gives_no_budget_back(sound, tmp_path, wide):
    path = tmp_path / "l.sqlite"

    def check(how, at, other):
        path.write_bytes(damaged_file(sound[0], how, at, other))
        check_file(path, sound[2])

    holds(check, HOW, PICK, PICK, number=25, wide=wide, times=4)


# ---- exports


def test_a_damaged_export_is_refused(sound, tmp_path, wide):
    """Whatever is changed but a key, of which nothing is left to see."""
    path = tmp_path / "l.sqlite"
    path.write_bytes(sound[0])
    with dp.Ledger(path) as ledger:
        export = list(ledger.export(key=b"secret"))
    assert verify_export(export, key=b"secret").signed

    @st.composite
    def damaged(draw):
        lines = list(export)
        place = draw(PICK) % len(lines)
        how = draw(st.sampled_from(["text"] * 4 + ["gone", "twice", "swap"]))
        if how == "text":
            lines[place] = draw(mangled_texts(lines[place]))
        elif how == "gone":
            del lines[place]
        elif how == "twice":
            lines.insert(place, lines[place])
        else:
            other = draw(PICK) % len(lines)
            lines[place], lines[other] = lines[other], lines[place]
        return lines

    def check(lines):
        if lines == export:
            return
        try:
            verify_export(lines, key=b"secret")
        except dp.LedgerError as error:
            assert CANARY not in str(error)  # noqa: PT017
        else:
            assert [json.loads(line) for line in lines] == [json.loads(line) for line in export]

    holds(check, damaged(), number=100, wide=wide)
