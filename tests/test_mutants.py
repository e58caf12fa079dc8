"""Mistakes put into the library on purpose: that they can be made, and that they are noticed."""

from __future__ import annotations

import ast
import importlib.util
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dptopk
from dptopk.verification.entries import ENTRIES

reason = "the mutants stand in the sources, not in the wheel"
choose = pytest.importorskip("benchmarks.mutants.choose", reason=reason)
from benchmarks.mutants import mistakes, published, workspace  # noqa: E402
from benchmarks.mutants.sites import sites  # noqa: E402

ROOT = Path(__file__).parents[1]


def changed(path, text):
    """Each change of a text, as the pieces that differ."""
    return [(text[s.start : s.end], *s.choices) for s in sites(path, text)]


def test_places_of_python():
    text = '''"""Docs say 1 < 2."""
limit: int = 10  # a comment: 1 + 1

@decorated(3)
def f(x: "int | None" = 2.0) -> "a < b":
    """Or 5."""
    if x is not None and (x) <= 0x10:
        raise ValueError(f"not {x + 1}" + str(7))
    y = not x
    y += -x
    return "é", x[1:] in (True,)

@overload
def f(x: int = 1): ...
'''
    assert changed("f.py", text) == [
        ("10", "11", "9"),
        ("2.0", "2.5", "1.5"),
        ("is not", "is"),
        ("and", "or"),
        ("<=", "<", ">"),
        ("0x10", "17", "15"),
        ("not", ""),
        ("+=", "-="),
        ("-", ""),
        ("1", "2", "0"),
        ("in", "not in"),
        ("True", "False"),
    ]


def test_places_of_c():
    text = r"""#define N 5 + \
    6
/* 1 < 2 */ static int f(const double *x, size_t n) // 3
{
    const char *s = "4 < \" 5", c = '6';
    if (!n && n->m >= 0x1p-50) return -1;
    for (size_t i = 0; i < n; i++) sum += *x * (double)y[i];
    return a - b;
}
"""
    assert changed("f.c", text) == [
        ("!", ""),
        ("&&", "||"),
        (">=", ">", "<"),
        ("0x1p-50", "0x1p-42", "0x1p-58"),
        ("-", ""),
        ("1", "2", "0"),
        ("0", "1"),
        ("<", "<=", ">="),
        ("++", "--"),
        ("+=", "-="),
        ("*", "/"),
        ("-", "+"),
    ]


def test_places_of_cython():
    text = '''"""Docs."""
cdef int f(double[::1] x, int *p) except -1:
    if not p and <double*>q < 3:
        raise ValueError("4")
'''
    assert changed("f.pyx", text) == [
        ("not", ""), ("and", "or"), ("<", "<=", ">="), ("3", "4", "2")
    ]  # fmt: skip


def test_a_seed_chooses_mutants_that_differ_from_the_file_in_one_token():
    mutants = choose.choose(40, seed=3)
    assert mutants == choose.choose(40, seed=3)
    assert mutants != choose.choose(40, seed=4)
    assert len({(m.path, m.line, m.column) for m in mutants}) == 40
    for m in mutants:
        text = (ROOT / m.path).read_text()
        made = m.apply(text)
        assert made != text
        assert len(made) - len(text) == len(m.after) - len(m.before)
    with pytest.raises(ValueError, match="is not as it was"):
        mutants[0].apply("\n" * 10_000)


def test_every_python_mutant_is_a_program():
    rng = random.Random(5)
    everything = [place for place in choose.places() if place[0].endswith(".py")]
    for path, text, site in rng.sample(everything, 60):
        ast.parse(choose.mutant(path, text, site, rng).apply(text))


# ---- what `dptopk verify` must see

RUN = """
import sys
from dptopk.verification.entries import ENTRIES
entry, label = sys.argv[1:]
check, = [check for check in ENTRIES[entry].checks if check.label.startswith(label)]
verdict = check.run()
print(verdict.detail)
sys.exit(0 if verdict.passed else 3)
"""


def copy_of_package(folder, mistake=None):
    """The library as it is imported here, with a mistake in it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(dptopk.__file__).parent, folder / "dptopk", ignore=ignored)
    if mistake is not None:
        file = folder / mistake.path
        file.write_text(mistake.apply(file.read_text()))


def run_in(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=ENDLESS,
    )  # fmt: skip


def test_eleven_mistakes_and_six_of_them_costs():
    assert len(mistakes.VERIFIED) == 11
    assert sum(m.seen_by[0] == "charges" for m in mistakes.VERIFIED) == 6
    for mistake in mistakes.VERIFIED:
        text = (ROOT / mistake.path).read_text()
        ast.parse(mistake.apply(text))
    with pytest.raises(LookupError, match="0 times"):
        mistakes.VERIFIED[0].apply("nothing")


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("mistake", mistakes.VERIFIED, ids=lambda mistake: mistake.what)
def test_verify_rejects(mistake, tmp_path):
    """The check passes on the library as it is, and not on one with the mistake."""
    entry, label = mistake.seen_by
    (check,) = [c for c in ENTRIES[entry].checks if c.label.startswith(label)]
    assert check.run().passed
    copy_of_package(tmp_path, mistake)
    wrong = run_in(tmp_path, "-c", RUN, entry, label)
    assert wrong.returncode == 3, wrong.stdout + wrong.stderr


def test_the_command_fails_where_a_session_charges_nothing(tmp_path):
    copy_of_package(tmp_path, mistakes.VERIFIED[0])
    done = run_in(tmp_path, "-m", "dptopk", "verify", "charges", "--json")
    assert done.returncode == 1, done.stderr
    assert '"passed": false' in done.stdout


# ---- what the tests must see

OPTIONS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-n", "0", "-x"]
IN_C = [mistake for mistake in mistakes.NOTICED if mistake.path.startswith("csrc/")]
IN_PYTHON = [mistake for mistake in mistakes.NOTICED if mistake not in IN_C]
ENDLESS = 600  # seconds; who is stopped then has noticed, too


def noticed(mistake, package):
    """Whether the test that is known for it fails on a package with the mistake."""
    try:
        return fails(mistake, package)
    except subprocess.TimeoutExpired:
        return True


def fails(mistake, package):
    file, name = mistake.seen_by
    options = [*OPTIONS, "-p", "no:cacheprovider", "-m", "full or not full"]
    done = run_in(package, "-m", "pytest", *options, "-k", name, str(ROOT / "tests" / file))
    assert done.returncode in (0, 1) or done.returncode < 0, done.stdout + done.stderr
    return done.returncode != 0


def test_a_copy_without_a_mistake_passes(tmp_path, wide):
    """Else a copy that can't run at all would be noticed, whatever the mistake."""
    copy_of_package(tmp_path)
    for mistake in IN_PYTHON if wide else IN_PYTHON[:1]:
        assert not fails(mistake, tmp_path), mistake.what


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("mistake", IN_PYTHON, ids=lambda mistake: mistake.what)
def test_a_test_notices(mistake, tmp_path):
    copy_of_package(tmp_path, mistake)
    assert noticed(mistake, tmp_path)


@pytest.mark.slow
@pytest.mark.full
def test_a_test_notices_what_is_wrong_in_c(tmp_path):
    if not (shutil.which("cc") and importlib.util.find_spec("Cython")):
        pytest.skip("mistakes in C are not tested: no compiler, or no Cython")
    package = workspace.Workspace(tmp_path / "package")
    for mistake in IN_C:
        assert not fails(mistake, package.folder), f"no mistake, and not {mistake.what}"
        text = (ROOT / mistake.path).read_text()
        with package.changed(mistake.path, mistake.apply(text)):
            assert noticed(mistake, package.folder), mistake.what


def test_twelve_mistakes_each_stand_once():
    assert len(mistakes.NOTICED) == 12
    for mistake in mistakes.NOTICED:
        mistake.apply((ROOT / mistake.path).read_text())
        file, name = mistake.seen_by
        assert f"def {name}" in (ROOT / "tests" / file).read_text()


# ---- what is published


def test_every_mutant_has_an_outcome_and_every_survivor_a_reason():
    mutants = published.load()
    assert len({published.place_of(m) for m in mutants}) == len(mutants) == 320
    assert {m["how"] for m in mutants} <= {*published.NOTICED, *published.SURVIVED,
                                          "no program", "not run"}  # fmt: skip
    assert all(bool(m["test"]) == (m["how"] in published.NOTICED) for m in mutants)
    survivors = {published.place_of(m) for m in mutants if m["how"] in published.SURVIVED}
    assert survivors == set(published.WHY)
    assert sum(map(len, published.EXPLAINED.values())) == len(published.WHY)  # one reason each


def test_the_page_says_what_the_list_says():
    text, mutants = published.PAGE.read_text(), published.load()
    assert published.page(text, mutants) == text, "see docs/mutants.md: --publish"
    other = next(m for m in mutants if m["how"] == "failed")
    assert published.page(text, [m for m in mutants if m is not other]) != text
