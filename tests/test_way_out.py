"""The first minute: help that teaches, and errors that each name what to do."""

import re
import subprocess
import sys

import numpy as np
import pytest

import dptopk as dp
from dptopk.cli import COMMANDS, asking, main
from dptopk.mechanisms.table import MECHANISMS

pytest.importorskip("duckdb")
pytest.importorskip("rich")

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with good and bad files, in which commands run."""
    monkeypatch.chdir(tmp_path)
    files = {
        "e.csv": "user,item\n" + "".join(f"{user},tea\n" for user in range(3000)),
        "empty.csv": "",
        "nulls.csv": "user,item\nann,\nbob,tea\n",
        "bad.parquet": "no parquet",
        "e.xyz": "user,item\nann,tea\n",
        "domain.txt": "tea\nale\n",
        "nothing.txt": "",
        "twice.txt": "tea\ntea\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    with dp.Ledger("b.sqlite") as ledger:
        ledger.create("ann", k_star=2, calls=1, epsilon=1, delta=1e-6)
        ledger.create("spent", k_star=2, calls=1, epsilon=1, delta=1e-6)
        h = dp.Histogram.truncated([9], ["a"], next_count=0, k_bar=1)
        dp.Session.bound(ledger, "spent").limited_domain(h, k=1)
    return tmp_path


# What was typed, and words of the error that say what to do about it.
COMMAND_LINE = [
    ("pick", "choose from 'select', 'plan'"),
    ("select", "FILE; see dptopk select --help"),
    ("select e.csv", r"--epsilon \(or --ledger\), e.g. --epsilon 1; see dptopk select --help"),
    ("select e.csv --epsilon 1", "needs --delta, e.g. --delta 1e-6"),
    ("select e.csv --epsilo 1", "unrecognized arguments: --epsilo 1; see dptopk select --help"),
    ("select e.csv --epsilon one --delta 1e-6", "invalid float .*; see dptopk select --help"),
    ("select e.csv --epsilon 0 --delta 1e-6", "epsilon must be a finite number > 0"),
    ("select e.csv --epsilon 1 --delta 2", r"delta must be in \(0, 1\)"),
    ("select e.csv {b} -k 0", "k must be an integer >= 1"),
    ("select e.csv {b} -k some", "must be an integer or a range such as 5-20"),
    ("select none.csv {b}", "none.csv: no such file; give the path"),
    ("select empty.csv {b}", "it is empty; the first line names the columns"),
    ("select nulls.csv {b}", "--drop-nulls"),
    ("select bad.parquet {b}", "not readable as Parquet: malformed or cut short"),
    ("select e.xyz {b}", r"the name must end in \.csv, .*, or say which by format"),
    ("select folder {b}", r"name its files, as in 'folder/\*'"),
    ("select e.csv {b} --user person", "say which column it is by --user"),
    ("select e.csv {b} --item page", "say which column it is by --item"),
    ("select e.csv {b} --item user", "--user and --item must name two different columns"),
    ("select e.csv {b} --no-header", "--user must be the number of a column, from 1"),
    ("select e.csv {b} --mechanism best", "choose from 'auto', 'limited_domain'"),
    ("select e.csv {b} --mechanism peel", "give --domain FILE .*, or use --mechanism limited_dom"),
    ("select e.csv {b} --mechanism limited_domain_laplace", "--max-items-per-user must be given"),
    ("select e.csv {b} --mechanism weighted", "--max-items-per-user must be given"),
    ("select e.csv {b} --k-bar 3", "k must be at most k_bar = 3|k must be at most --k-bar = 3"),
    ("select e.csv {b} --domain none.txt", "no such file; give the path"),
    ("select e.csv {b} --domain nothing.txt", "the domain is empty; it has one item a line"),
    ("select e.csv {b} --domain twice.txt", "contains 'tea' twice"),
    ("select e.csv {b} --groups domain.txt", "--groups goes with --by"),
    ("select e.csv {b} --by item --groups domain.txt", "must name different columns"),
    ("select e.csv {b} --by day --mechanism peel", "needs --groups FILE .* weighted needs neither"),
    ("select e.csv {b} --by day --groups domain.txt", "needs --max-groups-per-user G"),
    ("select e.csv {b} --counts-delta 1e-6", "goes with --counts-epsilon"),
    ("select e.csv {b} --plot", "by --counts-epsilon E"),
    ("select e.csv {b} --plot --json", "leave --json and --quiet out"),
    ("select e.csv {b} --html none/r.html", "name a file in a folder that you may write to"),
    ("select e.csv {b} --html e.csv", "name a new file"),
    ("select e.csv {b} --unordered", "goes with --mechanism auto"),
    ("select e.csv {b} --memory-limit much", "--memory-limit must be a size such as '2GB'"),
    ("select e.csv {b} --temp-directory none", "--temp-directory must be a directory that"),
    ("select e.csv {b} --budget ann", "--budget goes with --ledger"),
    ("select e.csv --ledger b.sqlite", "--ledger needs --budget NAME"),
    ("select e.csv --ledger none --budget ann", "dptopk ledger create makes one"),
    ("select e.csv --ledger b.sqlite --budget bob", "dptopk ledger create, makes one"),
    ("select e.csv --ledger e.csv --budget ann", "is not a ledger"),
    ("select e.csv {b} --ledger b.sqlite --budget ann", "--epsilon comes from .*: leave it out"),
    ("select e.csv --ledger b.sqlite --budget ann", "a smaller -k may cost less"),
    ("select e.csv -k 1 --ledger b.sqlite --budget spent", "needs another budget"),
    ("select e.csv --ledger b.sqlite --budget ann --mechanism gamma", "--mechanism limited_domain"),
    ("cost -k 5", "--epsilon --epsilon-step is required; see dptopk cost --help"),
    ("cost --epsilon 1", "-k/--k/--steps; see dptopk cost --help"),
    ("sql", "--dialect; see dptopk sql --help"),
    ("sql --dialect oracle --table t", "choose from 'postgres'"),
    ("ledger", "ACTION; see dptopk ledger --help"),
    ("ledger show none", "dptopk ledger create makes one"),
    ("ledger create b.sqlite --budget ann --k-star 1 --calls 1 {b}", "or take another name"),
    ("ledger create b.sqlite --budget eve --k-star 0 --calls 1 {b}", "--k-star must be an integer"),
    ("rank e.csv --epsilon 1", "--domain, --degree, --comparisons-per-pair; see dptopk rank"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "way"), COMMAND_LINE, ids=[typed for typed, _ in COMMAND_LINE])
def test_an_error_of_the_command_line_names_the_way_out(place, capsys, typed, way):
    code = main(typed.format(b=" ".join(BUDGET)).split())
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("dptopk: error: ")
    assert err.count("\n") == 1
    assert re.search(way, err), err
    with dp.Ledger("b.sqlite") as ledger:
        assert ledger.budget("ann").remaining == (2, 1)  # nothing was charged


def test_every_command_is_among_them():
    names = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    # Loading what `verify` checks takes seconds: test_cli.py has its errors.
    assert names - {"plan", "verify"} <= {typed.split()[0] for typed, _ in COMMAND_LINE}


H = dp.Histogram([900, 3, 700], labels=["ant", "bee", "cat"])
READ_OFF = dp.Histogram.truncated([900, 700], ["ant", "cat"], next_count=1, k_bar=2)
PICKED = dp.peel(H, k=2, epsilon=1)
EVENTS = {"user": [1, 2], "item": ["ant", "cat"]}
BY = {"user": "user", "item": "item"}


def spent_session():
    session = dp.Session(k_star=1, calls=1, epsilon=1, delta=1e-6)
    session.limited_domain(READ_OFF, k=1)
    return session


PYTHON = [
    ("no k", lambda: dp.peel(H, epsilon=1), "'k'"),
    ("no epsilon", lambda: dp.peel(H, k=2), "give either epsilon .* or epsilon_step"),
    ("no delta", lambda: dp.limited_domain(H, k=2, epsilon=1), "'delta'"),
    ("k as text", lambda: dp.peel(H, k="2", epsilon=1), "k must be an integer, got str"),
    ("k of 0", lambda: dp.peel(H, k=0, epsilon=1), "k must be an integer >= 1, got 0"),
    ("k past the items", lambda: dp.peel(H, k=9, epsilon=1), "at most the number of items, 3"),
    ("epsilon of 0", lambda: dp.peel(H, k=2, epsilon=0), "finite number > 0"),
    ("epsilon as text", lambda: dp.peel(H, k=2, epsilon="1"), "epsilon must be a real number"),
    ("delta of 1", lambda: dp.peel(H, k=2, epsilon=1, delta=1), r"delta must be in \[0, 1\)"),
    ("no counts", lambda: dp.peel([], k=1, epsilon=1), "must hold at least one item"),
    ("words", lambda: dp.peel(["ant"], k=1, epsilon=1), "Histogram.from_events and from_files"),
    ("a dict", lambda: dp.peel({"ant": 3}, k=1, epsilon=1), "give them to .*from_counts"),
    ("a table of counts", lambda: dp.peel([[1, 2]], k=1, epsilon=1), "must have one dimension"),
    ("a negative count", lambda: dp.peel([-1, 2], k=1, epsilon=1), "must not be negative"),
    ("labels short", lambda: dp.Histogram([1, 2], ["a"]), "must be as many as the counts"),
    ("items read off", lambda: dp.peel(READ_OFF, k=2, epsilon=1), "domain=.* or use limited_dom"),
    ("a wrong noise", lambda: dp.oneshot(H, k=2, epsilon=1, noise="lapalce"), "be one of best"),
    ("a wrong rng", lambda: dp.peel(H, k=2, epsilon=1, rng=1), "must be None .secure., SeededRng"),
    ("no bound", lambda: dp.limited_domain_laplace(H, k=1, epsilon=1, delta=1e-6),
     "must be given, .*; limited_domain needs no bound"),
    ("no weights", lambda: dp.weighted(H, epsilon=1), r"from_events\(\.\.\., soft_cap=3\)"),
    ("k_bar below k", lambda: dp.limited_domain(H, k=2, epsilon=1, delta=1e-6, k_bar=1),
     "k must be at most k_bar = 1"),
    ("a wrong column", lambda: dp.Histogram.from_events(EVENTS, user="usr", item="item"),
     "no column 'usr'; columns: 'user', 'item'"),
    ("no table", lambda: dp.Histogram.from_events(5, **BY), "events must be pandas"),
    ("nulls", lambda: dp.Histogram.from_events([(1, None)], **BY), "nulls='drop'"),
    ("mixed kinds", lambda: dp.Histogram.from_events([(1, "a"), ("x", "b")], **BY),
     "make them all of one kind"),
    ("a set as domain", lambda: dp.Histogram.from_events(EVENTS, **BY, domain={"ant"}),
     "domain must be a sequence"),
    ("another kind of domain", lambda: dp.Histogram.from_events(EVENTS, **BY, domain=[1]),
     "of kind text, the domain of kind integer"),
    ("groups unknown", lambda: dp.Histogram.from_events(EVENTS, **BY, by="day"),
     "by needs groups, .* or a soft_cap"),
    ("no file", lambda: dp.Histogram.from_files("none.csv", **BY), "give the path"),
    ("no path", lambda: dp.Histogram.from_files(5, **BY), "must be a path or a sequence of paths"),
    ("no connection", lambda: dp.Histogram.from_sql("x", "t", **BY), "one of the DB-API"),
    ("an array as counts", lambda: dp.Histogram.from_counts([1, 2]), "dptopk.Histogram takes an"),
    ("no epsilon of a session", lambda: dp.Session(k_star=1, calls=1, delta=1e-6),
     "either epsilon or rho"),
    ("a spent session", lambda: spent_session().limited_domain(READ_OFF, k=1),
     "needs another budget, which adds to this one"),
    ("a call a session lacks", lambda: spent_session().oneshot,
     "a budget of its own, which adds to that of the session, or under a Filter"),
    ("intervals of nothing", lambda: PICKED.intervals(), "noisy_counts adds them"),
    ("past the end", lambda: PICKED.top(3), "at most 2, which was asked for"),
    ("the first of a set", lambda: dp.oneshot(H, k=2, epsilon=1).top(1),
     r"noisy_counts\(\.\.\., ranked=True\)"),
    ("counts of no release", lambda: dp.noisy_counts(H, H, epsilon=1), "release must be a Rel"),
    ("a wrong frame", lambda: PICKED.to_frame("panda"), "be one of pandas, polars, pyarrow"),
    ("a wrong method", lambda: dp.accounting.total_epsilon(1, 3, 0, "all"), "be one of basic"),
    ("NaN", lambda: dp.argtopk([1.0, np.nan], 1), 'nan="last" puts it behind'),
    ("no comparisons", lambda: dp.rank_pairs([[0, 1], [1, 0]], k=1, epsilon=1, degree=1),
     "comparisons_per_pair"),
    ("one group only", lambda: dp.Histograms([[1, 2]]), "max_groups_per_user"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "way"), [row[1:] for row in PYTHON], ids=[row[0] for row in PYTHON]
)
def test_an_error_in_python_names_the_way_out(call, way):
    with pytest.raises((TypeError, ValueError, AttributeError, dp.DptopkError), match=way):
        call()


def test_a_budget_that_is_not_there_says_how_to_make_one(place):
    with dp.Ledger("b.sqlite") as ledger, pytest.raises(dp.LedgerError, match=r"Ledger\.create"):
        dp.Session.bound(ledger, "bob")


EXTRAS = {
    "duckdb": ("dp.Histogram.from_files('e.csv', user='user', item='item')", "dptopk[files]"),
    "narwhals": (
        "import pandas; dp.Histogram.from_events(pandas.DataFrame({'u': [1], 'i': [2]}),"
        " user='u', item='i')",
        "dptopk[files]",
    ),
    "pandas": ("dp.peel([900, 3], k=1, epsilon=1).to_frame()", "pandas"),
    "matplotlib": ("dp.peel([900, 3], k=1, epsilon=1).plot()", "dptopk[plot]"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_extra_says_what_to_install(place, module):
    call, extra = EXTRAS[module]
    code = (
        f"import sys; sys.modules[{module!r}] = None\nimport dptopk as dp\n"
        f"try:\n    {call}\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install {extra}" in done.stdout.replace("'", "")


# ---- help


def test_without_arguments_it_teaches_and_is_no_success(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""  # which holds results alone
    assert "$ dptopk select visits.csv" in err
    assert "dptopk select --help" in err
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == err


def test_the_example_of_the_help_is_what_happens(tmp_path, monkeypatch, capsys):
    """The commands stand in the help with what they print."""
    monkeypatch.chdir(tmp_path)
    assert main(["select", "--help"]) == 0
    said = capsys.readouterr().out
    lines = re.search(r"\$ head -3 visits.csv\n((?:  .*\n){3})", said)[1].replace("  ", "")
    visits = [f"{user},/home" for user in range(3000)] + [f"{user},/news" for user in range(1500)]
    (tmp_path / "visits.csv").write_text(lines + "\n".join(visits) + "\n")
    (command,) = re.findall(r"\$ (dptopk .*)", said)
    assert main(command.split()[1:]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    example = said.split(command)[1].split("  --epsilon 1 ")[0]
    expected = [line.split() for line in example.splitlines() if line.strip()]
    assert shown[:4] != []
    for ours, theirs in zip(expected, shown, strict=True):
        if ours[-1] != "(...)" and "─" not in ours[0]:
            assert ours == theirs
        elif ours[-1] == "(...)":
            assert theirs[: len(ours) - 1] == ours[:-1]


def test_the_other_examples_are_commands_that_there_are(place, capsys):
    """Each is run on events with few rows; what it needs beside is made."""
    (place / "visits.csv").write_text(
        "user,page\n" + "".join(f"{user},/home\n" for user in range(3000))
    )
    (place / "all_pages.txt").write_text("".join(f"/{page}\n" for page in range(20)))
    text = asking.EPILOG.split("exit code")[0].replace("\\\n", "")
    commands = [line.split() for line in text.splitlines() if line.startswith("  dptopk")]
    assert len(commands) == 3
    for command in commands:
        assert main(command[1:]) == 0, command
    capsys.readouterr()
    assert (place / "report.html").exists()


def test_the_help_names_every_option_and_mechanism(capsys):
    assert main(["select", "--help"]) == 0
    said = capsys.readouterr().out
    assert set(asking.MECHANISMS) == {n for n, its in MECHANISMS.items() if its.command}
    for name in asking.MECHANISMS:
        assert name in said
    assert max(map(len, said.splitlines())) <= 100
