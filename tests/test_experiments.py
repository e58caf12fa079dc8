"""The papers' experiments run, and what the docs print is what their records say."""

from __future__ import annotations

import copy
import importlib
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

reason = "the benchmarks stand in the sources, not in the wheel"
command = pytest.importorskip("benchmarks.paper.command", reason=reason)
from benchmarks.paper import charts, page, quotes, record, top_stable  # noqa: E402
from benchmarks.paper.record import Scale  # noqa: E402

PUBLISHED = page.load()


@pytest.mark.parametrize("name", command.NAMES)
def test_each_experiment_runs_and_leaves_a_record(name, tmp_path, capsys):
    runner = importlib.import_module(command.NAMES[name]).run
    made = command.run_one(name, runner, Scale("tiny"), tmp_path, command=f"paper {name}")
    assert record.read(tmp_path) == [made]
    assert page.table(made["tables"][0]) in page.section(made)
    assert made["tables"][0]["columns"][0] in capsys.readouterr().out


@pytest.mark.parametrize("its", PUBLISHED, ids=lambda its: its["name"])
def test_what_is_published_is_a_record(its):
    record.check(its)
    assert "--quick" not in its["command"]  # of the full run
    for part in ("processor", "cores", "simd", "load"):
        assert part in its["machine"]
    assert {"python", "numpy", "dptopk"} <= set(its["versions"])


def test_all_are_published_and_small():
    assert {its["name"] for its in PUBLISHED} == {*command.NAMES, *command.OTHERS}
    assert sum(path.stat().st_size for path in page.RECORDS.iterdir()) < 300_000


def _without(key):
    return lambda its: its.pop(key)


BROKEN = {
    "a key is missing": _without("seed"),
    "a row is short": lambda its: its["tables"][0]["rows"][0].pop(),
    "no rows": lambda its: its["tables"][0]["rows"].clear(),
    "a cell is a list": lambda its: its["tables"][0]["rows"][0].__setitem__(0, []),
    "no table": lambda its: its["tables"].clear(),
    "seconds is a word": lambda its: its.update(seconds="1"),
    "y is not a number": lambda its: its["figures"][0]["panels"][0]["lines"][0]["y"].__setitem__(
        0, float("nan")
    ),
    "an x too many": lambda its: its["figures"][0]["panels"][0]["lines"][0]["x"].append(1),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
def test_what_is_not_a_record_is_refused(fault):
    its = copy.deepcopy(next(its for its in PUBLISHED if its["figures"]))
    record.check(its)
    fault(its)
    with pytest.raises(ValueError, match=r"row|cell|key|table|seconds|finite"):
        record.check(its)


def test_pages_and_readme_say_what_the_records_say():
    for path, text in page.pages(PUBLISHED).items():
        assert path.read_text() == text, f"{path.name}: run python -m benchmarks publish page"


QUOTES = {
    f"{name}, {of}": (name, of, make)
    for name, makers in quotes.BY_PAGE.items()
    for of, make in makers.items()
}


@pytest.mark.parametrize(("name", "of", "make"), QUOTES.values(), ids=QUOTES)
def test_what_a_page_quotes_is_of_the_record(name, of, make):
    by_name = {its["name"]: its for its in PUBLISHED}
    quoted = make(by_name)
    assert quoted in (page.ROOT / name).read_text()
    changed = copy.deepcopy(by_name)
    for its in changed.values():
        its["facts"] = {fact: value + 1 for fact, value in its["facts"].items()}
        for number, row in enumerate(its["tables"][0]["rows"], 2):
            row[2:] = [x * number if isinstance(x, int | float) else f"X{number}" for x in row[2:]]
    assert make(changed) != quoted


def test_a_page_without_its_marks_is_an_error():
    makers = {"a.json": lambda by_name: "new\n"}
    begin, end = quotes.marks("a.json")
    assert quotes.put(f"1\n{begin}old\n{end}2\n", makers, {}) == f"1\n{begin}new\n{end}2\n"
    for text in ("no marks", begin, end):
        with pytest.raises((ValueError, IndexError)):
            quotes.put(text, makers, {})


def test_a_changed_record_changes_the_page():
    changed = copy.deepcopy(PUBLISHED)
    for its in changed:
        its["facts"] = {name: value + 1 for name, value in its["facts"].items()}
        its["tables"][0]["rows"][0][-1] = 0.1234
    for path, text in page.pages(changed).items():
        assert path.read_text() != text


def test_every_plot_is_drawn_from_its_record():
    for its in PUBLISHED:
        for figure in its["figures"]:
            drawn = (page.FIGURES / charts.name_of(its, figure)).read_text()
            assert charts.identifier(figure) in drawn
    here = {path.name for path in page.FIGURES.glob("*.svg")}
    names = {its["name"] for its in PUBLISHED}
    ours = {name for name in here if any(name.startswith(f"{its}-") for its in names)}
    assert ours == {path.name for path in page.paths(PUBLISHED)}


def test_a_plot_is_drawn_the_same_again(tmp_path):
    pytest.importorskip("matplotlib")
    its = next(its for its in PUBLISHED if its["name"] == "oneshot")
    drawn = [charts.draw(its, its["figures"][0], tmp_path / str(n)).read_bytes() for n in (0, 1)]
    assert drawn[0] == drawn[1]
    assert charts.identifier(its["figures"][0]) in drawn[0].decode()


def test_stopped_by_ctrl_c_what_was_done_is_kept(tmp_path, monkeypatch, capsys):
    import benchmarks.paper.ranking
    from benchmarks.paper import oneshot

    small = oneshot.run(Scale("tiny"), lambda text: None)
    monkeypatch.setattr(oneshot, "run", lambda scale, say: small)

    def stop(scale, say):
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmarks.paper.ranking, "run", stop)
    assert command.main(["oneshot", "ranking", "--quick", "--out", str(tmp_path)]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["oneshot.json"]
    assert json.loads((tmp_path / "oneshot.json").read_text())["command"].endswith("--quick")
    assert "stopped" in capsys.readouterr().err


@pytest.mark.parametrize("papers", [True, False])
@pytest.mark.parametrize("words", [["nothing"], ["oneshot", "Oneshot"], ["--fast"]])
def test_what_it_cannot_run_is_refused(words, papers, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(words, papers=papers)
    assert stop.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_publish_runs_what_paper_does_not(tmp_path, monkeypatch, capsys):
    from benchmarks import bench_server
    from benchmarks.paper import oneshot

    small = oneshot.run(Scale("tiny"), lambda text: None)
    monkeypatch.setattr(bench_server, "run", lambda scale, say: small)
    words = ["server", "--quick", "--out", str(tmp_path)]
    assert command.main(words) == 0
    (made,) = record.read(tmp_path)
    assert made["command"] == "python -m benchmarks publish server --quick"
    with pytest.raises(SystemExit):
        command.main(words, papers=True)


@pytest.mark.full
@pytest.mark.parametrize("name", ["speed", "utility", "plan"])
def test_what_is_measured_beside_the_papers_leaves_a_record(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("duckdb")
    module = importlib.import_module(command.OTHERS[name])
    if name in ("utility", "plan"):
        monkeypatch.setattr(module, "SETS", ("debian12_sections",))
        monkeypatch.setattr(module, "TRIALS", 4)
        monkeypatch.setattr(module, "ProcessPoolExecutor", ThreadPoolExecutor, raising=False)
    else:
        monkeypatch.setattr(module, "N", 100_000)
        monkeypatch.setattr(module, "rivals", lambda: iter(()))  # they set threads of libraries
    words = command.command_of(name)
    made = command.run_one(name, module.run, Scale("tiny"), tmp_path, command=words)
    assert record.read(tmp_path) == [made]


def test_the_rule_of_k_bar_is_the_one_that_is_named():
    """Counts with a cliff: the lowest threshold is past it, the highest before it."""
    from benchmarks.paper.sets import Counts

    counts = np.repeat([5000, 4960, 1], [10, 20, 1000])
    its = Counts("cliff", counts, 1000, True)
    came = {rule: (top_stable.limited(its, 10, 1.0, 100, highest=rule) >= 0).sum(axis=1).mean()
            for rule in (False, True)}  # fmt: skip
    assert came[False] > 9.9  # nothing near the threshold
    assert came[True] < 5  # the threshold is above most of the 10
