"""Command lines of real options with odd values: done, or refused in one plain line."""

import argparse
import os
import sys

import pytest
from fuzzing import holds
from hypothesis import strategies as st

import dptopk as dp
from dptopk.cli import _parser, main

pytest.importorskip("duckdb")
pytest.importorskip("narwhals")
pytest.importorskip("rich")

CANARY = "zzygal"
ODD = [
    "", " ", "0", "1", "2", "3", "-1", "1.5", "1e-6", "1e400", "nan", "inf", "-inf", "x", "é",
    "9" * 30, "9" * 5000, str(2**63), "0x1", "1_0", "1:3", "3:1", "1/3", "\x1b[31m", "\udcff",
    "a=b", "--", "-", "user", "item", "peel", "limited_domain", "auto", "ann", "rho", "true", "%s",
    "'", "SELECT 1", "*", "postgresql", "none", "١",
]  # fmt: skip


def parsers(parser, words=()):
    """All commands, and theirs, by the words that call them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from parsers(inner, (*words, name))
            return
    yield words, parser


COMMANDS = {words: parser for words, parser in parsers(_parser()) if words != ("verify",)}
# What must be given, so that a line comes further than the parser.
NEEDED = {
    ("select",): ["e.csv", "-k", "2", "--epsilon", "1e-9", "--delta", "1e-12"],
    ("plan",): ["-k", "2", "--epsilon", "1", "--delta", "1e-6"],
    ("cost",): ["--k-star", "5", "--epsilon", "1", "--delta", "1e-6"],
    ("sql",): ["events", "--dialect", "postgres", "--k-bar", "9"],
    ("ledger", "create"): ["new.sqlite", "--budget", "bob", "--k-star", "9", "--calls", "3",
                           "--epsilon", "1", "--delta", "1e-6"],
}  # fmt: skip
FILES = ["e.csv", "l.sqlite", "none.csv", "new.sqlite", "page.html", "export", "."]


@st.composite
def lines(draw):
    """A command with some of its options, and values of other kinds than they take."""
    words = draw(st.sampled_from(list(COMMANDS)))
    parser = COMMANDS[words]
    values = st.sampled_from(ODD + FILES)
    line = list(words)
    if draw(st.integers(0, 3)):
        line += NEEDED.get(words, ["l.sqlite"] if words[0] == "ledger" else ["e.csv"])
    for action in draw(st.lists(st.sampled_from(parser._actions), max_size=5)):
        if action.option_strings:
            line.append(draw(st.sampled_from(action.option_strings)))
        if action.nargs != 0:
            choices = list(action.choices or [])
            line.append(draw(st.one_of(st.sampled_from(choices), values) if choices else values))
    if draw(st.integers(0, 5)) == 0 and len(line) > 1:
        del line[draw(st.integers(1, len(line) - 1))]
    return line


def check(folder, capsys, line):
    (folder / "e.csv").write_text(f"user,item\n{CANARY}1,{CANARY}2\n{CANARY}3,{CANARY}2\n")
    capsys.readouterr()
    sys.stderr.reconfigure(errors="backslashreplace")  # as it is outside of pytest
    code = main(line)
    out, err = capsys.readouterr()
    assert code in (0, 2)
    assert CANARY not in err
    assert CANARY not in out
    assert "Traceback" not in err
    assert "internal error" not in err
    if code == 2:
        assert err.splitlines()[-1].startswith("dptopk: error: ") or not line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with dp.Ledger("l.sqlite") as ledger:
        ledger.create("ann", k_star=20, calls=5, epsilon=1.0, delta=1e-6)
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield tmp_path


def test_odd_command_lines_are_refused_plainly(folder, capsys, wide):
    def one(line):
        check(folder, capsys, line)

    holds(one, lines(), number=30, wide=wide, times=4)


def quotes(args):
    raise dp.errors.SourceError(f"what is {CANARY}?")


def fails(args):
    raise RuntimeError


def says_nothing(args):
    return 2


def has_another_code(args):
    return 1


@pytest.mark.parametrize("broken", [quotes, fails, says_nothing, has_another_code])
def test_a_broken_command_is_found_out(folder, capsys, broken, monkeypatch):
    line = ["select", *NEEDED[("select",)]]
    check(folder, capsys, line)
    monkeypatch.setattr("dptopk.cli.select._run", broken)
    with pytest.raises((AssertionError, IndexError)):
        check(folder, capsys, line)
