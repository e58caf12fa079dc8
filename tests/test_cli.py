"""The command line: what it prints, where, and with which exit code."""

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import dptopk
from dptopk.cli import main, select
from dptopk.sources import files

pytest.importorskip("duckdb")
pytest.importorskip("rich")

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
COUNTS = {"apple": 4000, "pear": 3000, "[red]plum": 2000, "rare": 1}


@pytest.fixture
def events(tmp_path):
    """A file in which three items stand out by far and one cannot be released."""
    path = tmp_path / "events.csv"
    rows = [f"{u:05d},{item}" for item, count in COUNTS.items() for u in range(count)]
    path.write_text("\n".join(["user,item", *rows]) + "\n")
    return str(path)


@pytest.fixture
def domain(tmp_path):
    path = tmp_path / "domain.txt"
    path.write_text("pear\nquince\napple\n[red]plum\n")
    return str(path)


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code, stdout and stderr."""

    def run(*argv):
        code = main([str(arg) for arg in argv])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(run):
    """Run a command that must be refused; return the one line after the prefix."""

    def refused(*argv):
        code, out, err = run(*argv)
        prefix = "dptopk: error: "
        assert (code, out) == (2, "")
        assert err.startswith(prefix)
        assert err.count("\n") == 1
        assert err.endswith("\n")
        return err[len(prefix) : -1]

    return refused


# ---- select


def test_select_prints_items_cost_and_that_it_stopped(run, events):
    code, out, err = run("select", events, "-k", 5, *BUDGET)
    lines = out.split("\n")
    assert (code, err) == (0, "")
    assert [line.split() for line in lines if line[:7].strip().isdigit()] == [
        ["1", "apple"],
        ["2", "pear"],
        ["3", "[red]plum"],
    ]
    assert "Stopped after 3 of 5: the noisy threshold (BOT) came next; the remaining" in out
    assert "limited_domain: this cost epsilon = 1, delta = 1e-06 per user (" in out
    assert "NOT PRIVATE" not in out
    assert "rare" not in out


def test_select_says_nothing_of_stopping_when_it_did_not(run, events):
    code, out, _ = run("select", events, "-k", 2, *BUDGET)
    assert code == 0
    assert "Stopped" not in out


def test_nothing_selected_is_no_error(run, tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\nann,tea\n")
    code, out, err = run("select", path, *BUDGET)
    assert (code, err) == (0, "")
    assert out.startswith("Stopped after 0 of 10:")


def test_json_holds_the_release_and_nothing_else(run, events):
    code, out, err = run("select", events, "-k", 5, *BUDGET, "--json")
    answer = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert answer["items"] == ["apple", "pear", "[red]plum"]
    assert set(answer) == {
        "items", "ordered", "complete", "cost", "mechanism", "parameters", "private", "version",
    }  # fmt: skip
    assert (answer["ordered"], answer["complete"], answer["private"]) == (True, False, True)
    assert answer["cost"].keys() == {"epsilon", "delta", "theorem"}
    assert (answer["cost"]["epsilon"], answer["cost"]["delta"]) == (1.0, 1e-6)
    assert answer["mechanism"] == "limited_domain"
    assert answer["parameters"]["k"] == 5
    assert answer["version"] == dptopk.__version__


def test_counts_come_at_their_own_cost(run, events):
    argv = ["select", events, "-k", 2, *BUDGET, "--counts-epsilon", "0.5"]
    code, out, err = run(*argv)
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.split("\n") if "appl" in line or "users" in line]
    assert head == ["rank", "item", "users", "(noisy)", "95%", "interval"]
    # Two counts at 0.5: noise of scale 4, of which one in e^25 is past 100.
    assert rows[0][:2] == ["1", "apple"]
    assert abs(int(rows[0][2]) - 4000) < 100
    low, high = map(int, rows[0][3].split("-"))
    assert (low + high) / 2 == int(rows[0][2])
    assert "this cost epsilon = 1.5, delta = 1e-06 per user" in out
    code, out, err = run(*argv, "--counts-delta", "1e-6", "--json", "-q")
    answer = json.loads(out)
    assert (code, err, answer["items"]) == (0, "", ["apple", "pear"])
    assert abs(answer["counts"][1] - 3000) < 200
    for count, (low, high) in zip(answer["counts"], answer["intervals"], strict=True):
        assert low <= count <= high
    assert answer["confidence"] == 0.95
    assert answer["cost"]["epsilon"] == 1.5
    assert "discrete Laplace counts" in answer["cost"]["theorem"]


def test_a_set_is_ranked_by_its_counts(run, events):
    argv = ["select", events, "-k", 2, *BUDGET, "--counts-epsilon", "1e9", "--mechanism",
            "top_stable"]  # fmt: skip
    code, out, _ = run(*argv, "--json")
    assert (code, json.loads(out)["ordered"]) == (0, False)
    answer = json.loads(run(*argv, "--json", "--ranked")[1])
    assert answer["ordered"]
    assert answer["items"] == ["apple", "pear"]
    assert answer["counts"] == [4000, 3000]
    code, out, _ = run(*argv, "-q", "--ranked")
    assert (code, out.split()) == (0, ["apple", "pear"])


def test_counts_of_nothing(run, tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\nann,tea\n")
    code, out, err = run("select", path, *BUDGET, "--counts-epsilon", "1")
    assert (code, err) == (0, "")
    assert out.startswith("Stopped after 0 of 10:")
    assert "epsilon = 2," in out
    code, out, err = run("select", path, *BUDGET, "--counts-epsilon", "1", "--json")
    assert json.loads(out)["counts"] == json.loads(out)["intervals"] == []


def test_counts_use_the_bound_on_a_users_items(run, events):
    argv = ["select", events, "-k", 3, *BUDGET, "--counts-epsilon", "1", "--json"]
    _, out, _ = run(*argv)
    assert json.loads(out)["counts_noise"]["scale"] == 3
    _, out, _ = run(*argv, "--max-items-per-user", "2")
    assert json.loads(out)["counts_noise"]["scale"] == 2


def test_which_rows_of_a_user_count(run, tmp_path):
    """By --min-events only tea is left of 600 users; the bound cuts, or cuts nothing."""
    path = tmp_path / "e.csv"
    rows = [f"u{u},{item}" for u in range(600) for item in ("tea", "tea", "jam", "ink")]
    path.write_text("\n".join(["user,item", *rows, ""]))
    argv = ["select", path, "-k", 3, *BUDGET, "--counts-epsilon", "9", "--json"]

    def counts(*more):
        code, out, _ = run(*argv, *more)
        assert code == 0
        return dict(zip(json.loads(out)["items"], json.loads(out)["counts"], strict=True))

    assert counts("--min-events", "2").keys() == {"tea"}
    cut = ("--max-items-per-user", "1")
    for key in ("", "another"):
        assert sum(counts(*cut, "--hash-key", key).values()) == pytest.approx(600, abs=30)
    by_nature = counts("--max-items-per-user", "3", "--bounded-by-nature")
    assert sum(by_nature.values()) == pytest.approx(1800, abs=60)


def test_quiet_prints_the_items_alone(run, events):
    assert run("select", events, "-k", 2, *BUDGET, "--quiet") == (0, "apple\npear\n", "")


@pytest.mark.parametrize("k_bar", [[], ["--k-bar", "7"], ["--k-bar", "private"]])
def test_the_engine_returns_no_more_than_k_bar_rows(run, events, monkeypatch, k_bar):
    seen = []
    truncated = dptopk.Histogram.truncated

    def spy(counts, labels, *, k_bar, **more):
        seen.append(k_bar)
        return truncated(counts, labels, k_bar=k_bar, **more)

    monkeypatch.setattr(dptopk.Histogram, "truncated", spy)
    code, out, _ = run("select", events, "-k", 3, *BUDGET, "-q", *k_bar)
    from dptopk.domain import default_k_bar, private_limit

    limit = {"7": 7, "private": private_limit(3)}.get((k_bar or [""])[-1], default_k_bar(3))
    assert (code, out) == (0, "apple\npear\n[red]plum\n")
    assert seen == [limit, limit]


def test_restricted_asks_for_as_many_rows_as_its_own_default(run, events):
    """Their cut falls with k_bar: it would be 5 times as near with that of limited_domain."""
    for name in ("restricted_gumbel", "restricted_permute_and_flip", "restricted_oneshot"):
        argv = ["-k", 30, *BUDGET, "--mechanism", name, "--json"]
        code, out, _ = run("select", events, *argv)
        answer = json.loads(out)
        assert (code, answer["parameters"]["k_bar"]) == (0, 1500)
        assert answer["mechanism"] == f"restricted({answer['mechanism'][11:-1]})"
        assert isinstance(answer["parameters"]["mechanism_parameters"], dict)
        argv[argv.index(name)] = "top_stable"
    code, out, _ = run("select", events, *argv)
    assert json.loads(out)["parameters"]["k_bar"] == 30


def test_a_range_of_k_for_top_stable(run, events):
    argv = ["select", events, *BUDGET, "--mechanism", "top_stable"]
    code, out, _ = run(*argv, "-k", "1-4", "--json")
    answer = json.loads(out)
    assert code == 0
    assert sorted(answer["items"]) == ["[red]plum", "apple", "pear"]
    assert answer["complete"]
    assert (answer["parameters"]["k_min"], answer["parameters"]["k"]) == (1, 4)
    code, out, _ = run(*argv, "-k", "4-4")
    assert code == 0
    assert "Nothing came out: the gap chosen among the sizes 4 to 4 is too small" in out
    assert "another range of -k; a larger --epsilon; or --domain" in out


def test_restricted_by_their_options(run, events):
    argv = ["select", events, "-k", 2, *BUDGET, "--k-bar", 3, "--max-items-per-user", 1, "--json"]
    bounded = (["restricted_normal"], ["restricted_oneshot", "--noise", "gaussian"])
    for name in bounded:
        code, out, _ = run(*argv, "--mechanism", *name)
        answer = json.loads(out)
        assert code == 0
        assert sorted(answer["items"]) == ["apple", "pear"]
        assert answer["ordered"] == (name == ["restricted_normal"])
        assert answer["parameters"]["mechanism_parameters"]["max_items_per_user"] == 1


def test_peel_needs_and_uses_a_domain(run, events, domain):
    argv = [
        "select",
        events,
        "--mechanism",
        "peel",
        "--domain",
        domain,
        "--epsilon",
        "5",
        "-k",
        "4",
    ]
    code, out, _ = run(*argv, "--json")
    answer = json.loads(out)
    # quince has no users, but it is in the domain; rare is not.
    assert (code, answer["items"]) == (0, ["apple", "pear", "[red]plum", "quince"])
    assert (answer["complete"], answer["cost"]["delta"]) == (True, 0.0)


def test_limited_domain_takes_a_domain_and_a_bound(run, events, domain):
    argv = ["-k", 3, *BUDGET, "-q", "--domain", domain, "--max-items-per-user", 3]
    assert run("select", events, *argv) == (0, "apple\npear\n[red]plum\n", "")
    laplace = ["--mechanism", "limited_domain_laplace"]
    assert run("select", events, *argv, *laplace) == (0, "apple\npear\n[red]plum\n", "")


def test_domain_labels_are_text_whatever_the_files_type(run, tmp_path):
    files.connect().execute(
        f"COPY (SELECT u AS user, 7 AS item FROM range(1000) t(u)) TO '{tmp_path}/e.parquet'"
    )
    (tmp_path / "d.txt").write_text("6\n7\n")
    argv = ["-k", 1, "--epsilon", 1, "--mechanism", "peel", "--domain", tmp_path / "d.txt"]
    assert run("select", tmp_path / "e.parquet", *argv, "-q") == (0, "7\n", "")


@pytest.mark.parametrize("name", select.MECHANISMS)
def test_every_mechanism_picks_what_is_far_ahead(run, tmp_path, name):
    rows = "".join(f"{u},tea\n" for u in range(3000)) + "1,mint\n2,sage\n"
    (tmp_path / "e.csv").write_text("user,item\n" + rows)
    (tmp_path / "d.txt").write_text("mint\nsage\ntea\n")
    choice = select.MECHANISMS[name]
    argv = ["-k", 1, "--epsilon", 1, "--mechanism", name, "--max-items-per-user", 1]
    argv += ["--domain", tmp_path / "d.txt"] if choice.domain == "known" else []
    argv += ["--delta", "1e-6"] if choice.delta == "required" or choice.weights else []
    argv += ["--soft-cap", 1] if choice.weights else []
    assert run("select", tmp_path / "e.csv", *argv, "-q") == (0, "tea\n", "")


def test_several_files_and_other_column_names(run, tmp_path):
    for part in range(2):
        rows = "".join(f"tea;{u}\n" for u in range(part * 2000, 2500 + part))
        (tmp_path / f"{part}.csv").write_text("drink;who\n" + rows)
    argv = ["--user", "who", "--item", "drink", "-k", 1, *BUDGET, "-q"]
    assert run("select", tmp_path / "0.csv", tmp_path / "1.csv", *argv) == (0, "tea\n", "")
    assert run("select", tmp_path / "*.csv", *argv) == (0, "tea\n", "")


def fake_release(**changes):
    cost = SimpleNamespace(epsilon=1.0, delta=0.0, theorem="Theorem 1")
    values = {"labels": ("a",), "ordered": True, "complete": True, "cost": cost, "private": True}
    values["counts"] = None
    return SimpleNamespace(**values | {"mechanism": "m", "parameters": {}} | changes)


def test_sets_are_marked_as_unordered(capsys):
    select._print_release(
        fake_release(ordered=False), SimpleNamespace(json=False, quiet=False, k=1)
    )
    out = capsys.readouterr().out
    assert "item (in no order)" in out
    assert "rank" not in out


def test_insecure_noise_is_said_plainly(capsys):
    select._print_release(
        fake_release(private=False), SimpleNamespace(json=False, quiet=False, k=1)
    )
    assert "NOT PRIVATE" in capsys.readouterr().out


@pytest.mark.parametrize("quiet", [True, False])
def test_labels_cannot_drive_the_terminal(capsys, quiet):
    release = fake_release(labels=["\x1b[31mred\nnext\u202e [bold]b"])
    select._print_release(release, SimpleNamespace(json=False, quiet=quiet, k=1))
    assert r"\x1b[31mred\nnext\u202e [bold]b" in capsys.readouterr().out


def test_labels_of_any_type_are_json(run, tmp_path):
    labels = "DATE '2020-01-02', 1.50::DECIMAL(4,2), 7::BIGINT, encode('é'), true, 0.5::DOUBLE"
    labels += ", 'inf'::DOUBLE"
    expected = ["2020-01-02", "1.5", 7, "é", True, 0.5, "inf"]
    for label, shown in zip(labels.split(", "), expected, strict=True):
        path = tmp_path / "e.parquet"
        files.connect().execute(
            f"COPY (SELECT u AS user, {label} AS item FROM range(2000) t(u)) TO '{path}'"
        )
        code, out, err = run("select", path, "-k", 1, *BUDGET, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["items"] == [shown]


# ---- refusals


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--epsilon", "nan", "--delta", "1e-6"], "epsilon must be"),
        (["--epsilon", "0", "--delta", "1e-6"], "epsilon must be"),
        (["--epsilon", "-1", "--delta", "1e-6"], "epsilon must be"),
        (["--epsilon", "x", "--delta", "1e-6"], "argument --epsilon: invalid float value: 'x'"),
        (["--delta", "1e-6"], "the following arguments are required: --epsilon"),
        (["--epsilon", "1"], "limited_domain needs --delta"),
        (["--epsilon", "1", "--delta", "1"], "delta must be"),
        ([*BUDGET, "-k", "0"], "k must be"),
        (
            [*BUDGET, "-k", "1.5"],
            "argument -k/--k: must be an integer or a range such as 5-20, got '1.5'",
        ),
        ([*BUDGET, "-k", "5-"], "argument -k/--k: must be an integer or a range such as 5-20"),
        ([*BUDGET, "-k", "1-2-3"], "argument -k/--k: must be an integer or a range such as 5-20"),
        ([*BUDGET, "-k", "5-20"], "a range of -k goes with --mechanism top_stable"),
        *(
            ([*BUDGET, "--mechanism", "top_stable", *more], message)
            for more, message in (
                (["-k", "20-5"], r"k must be a pair \(lo, hi\) with lo <= hi, got \(20, 5\)"),
                (["-k", "0-5"], r"k\[0\] must be an integer >= 1, got 0"),
                (["-k", "1-5", "--k-bar", "9"], "--k-bar goes with a single -k, not with a range"),
            )
        ),
        ([*BUDGET, "--k-bar", "5"], "k must be at most"),
        ([*BUDGET, "--k-bar", "0"], "--k-bar must be"),
        ([*BUDGET, "--k-bar", "x"], "argument --k-bar: must be an integer or private, got 'x'"),
        ([*BUDGET, "--max-items-per-user", "0"], "--max-items-per-user must be"),
        ([*BUDGET, "--min-events", "0"], "--min-events must be an integer >= 1, got 0"),
        ([*BUDGET, "--bounded-by-nature"], "--bounded-by-nature goes with --max-items-per-user"),
        ([*BUDGET, "--mechanism", "peel"], "peel needs a domain .* give --domain FILE"),
        ([*BUDGET, "--mechanism", "limited_domain_laplace"], "--max-items-per-user must be given"),
        (
            [
                *BUDGET,
                "--mechanism",
                "limited_domain_laplace",
                "--max-items-per-user",
                "2",
                "--k-bar",
                "private",
            ],
            "--k-bar must be an integer or None",
        ),
        ([*BUDGET, "--mechanism", "joint", "--domain", "d.txt"], "joint is pure: leave --delta"),
        ([*BUDGET, "--noise", "laplace"], "--noise goes with .*restricted_oneshot or oneshot$"),
        *(
            ([*BUDGET, "--mechanism", name, "--k-bar", "private"], "--k-bar must be an integer")
            for name in ("top_stable", "restricted_gumbel", "restricted_permute_and_flip")
        ),
        *(
            (["--epsilon", "1", "--mechanism", name], f"{name} needs --delta, e.g. --delta 1e-6")
            for name in ("top_stable", "restricted_gumbel", "restricted_oneshot")
        ),
        ([*BUDGET, "--mechanism", "top"], "argument --mechanism: invalid choice: 'top'"),
        ([*BUDGET, "--eps", "1"], "unrecognized arguments: --eps 1"),
        ([*BUDGET, "--item", "user"], "--user and --item must name two different columns"),
        ([*BUDGET, "-k", 10**12, "--k-bar", "private"], "k or k_bar is too large for the memory"),
        ([*BUDGET, "--k-bar", 10**30], r"--k-bar must be below 2\*\*63"),
        ([*BUDGET, "--counts-delta", "1e-6"], "--counts-delta goes with --counts-epsilon"),
        ([*BUDGET, "--ranked"], "--ranked goes with --counts-epsilon"),
        ([*BUDGET, "--counts-epsilon", "-1"], "counts-epsilon must be a finite number > 0, got -1"),
        ([*BUDGET, "--counts-epsilon", "nan"], "counts-epsilon must be a finite number > 0"),
        ([*BUDGET, "--counts-epsilon", "x"], "argument --counts-epsilon: invalid float value"),
        ([*BUDGET, "--counts-epsilon", "1", "--counts-delta", "1"], r"counts-delta must be in \[0"),
        ([*BUDGET, "--counts-epsilon", "4e-15"], "epsilon is too small: the noise scale is past"),
        ([*BUDGET, "--counts-epsilon", "1", "-k", "0"], "k must be an integer >= 1, got 0"),
        ([*BUDGET, "--counts-epsilon", "1", "-q"], "--quiet prints the items alone"),
        (
            ["--epsilon", "1", "--delta", "0.6", "--counts-epsilon", "1", "--counts-delta", "0.5"],
            "delta must be below 1 together with that of the release",
        ),
    ],
)
def test_bad_parameters_are_refused_before_any_file_is_read(refused, monkeypatch, argv, message):
    monkeypatch.setattr(files, "read_events", lambda *_, **__: pytest.fail("read a file"))
    assert re.match(message, refused("select", "none.csv", *argv))


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["pick"], "invalid choice: 'pick'"), (["select"], "FILE")],
)
def test_bad_commands(refused, argv, message):
    assert message in refused(*argv)


def test_peel_with_k_bar_or_a_small_domain(refused, events, domain):
    peel = ["select", events, "--mechanism", "peel", "--domain", domain, "--epsilon", "1"]
    assert "--k-bar goes with --mechanism limited_domain" in refused(*peel, "--k-bar", "9")
    assert refused(*peel, "-k", "5").startswith("k must be")


SECRET = "secret-4711"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", f"user,item\n{SECRET},x,y\n", "could not be read"),
        ("e.csv", f"user,item\n{SECRET},\n", "column 'item' holds nulls"),
        ("e.csv", f"user,item\n,{SECRET}\n", "column 'user' holds nulls"),
        ("e.csv", f"{SECRET},x\ny,z\n", "no column 'user'"),
        ("e.csv", "user,item\n" + "u,x\n" * 60_000 + f"{SECRET},x,y\n", "could not be read"),
        ("e.csv", "user,item\n" + "u,x\n" * 60_000 + f"{SECRET},\n", "column 'item' holds nulls"),
        ("e.csv", "", "no header line: it is empty"),
        ("e.jsonl", f'{{"user": 1, "item": "{SECRET}"}}\n{{', "not readable as JSON"),
        ("e.jsonl", f'{{"user": 1, "{SECRET}": 2}}\n', "no column 'item'"),
        ("e.parquet", f"PAR1{SECRET}PAR1", "not readable as Parquet"),
        ("e.dat", SECRET, "unknown format"),
    ],
)
def test_bad_files_give_one_line_without_data(refused, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    line = refused("select", tmp_path / name, *BUDGET)
    assert message in line
    assert SECRET not in line
    assert "60" not in line.replace(str(tmp_path), "")  # nor how many rows there are


def test_bad_domain(refused, events, tmp_path):
    assert "no such file" in refused("select", events, *BUDGET, "--domain", tmp_path / "none")
    (tmp_path / "d").write_text("a\nb\na\n")
    assert "the domain contains 'a' twice" in refused(
        "select", events, *BUDGET, "--domain", tmp_path / "d"
    )


def test_an_unexpected_failure_names_its_kind_and_nothing_else(refused, events, monkeypatch):
    """After data was read even a ValueError may quote it."""

    def broken(*_, **__):
        raise ValueError(SECRET)

    monkeypatch.setattr("dptopk.sources.frames.count_users", broken)
    line = refused("select", events, *BUDGET)
    assert line == "internal error (ValueError); please report it"


@pytest.mark.parametrize(("module", "flag"), [("duckdb", "-q"), ("narwhals", "-q"), ("rich", None)])
def test_a_missing_extra_says_what_to_install(refused, events, monkeypatch, module, flag):
    for name in [m for m in sys.modules if m.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert "pip install 'dptopk[files]'" in refused(
        "select", events, *BUDGET, *([flag] * bool(flag))
    )


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        (">&-", "dptopk: error: standard output is closed\n"),
        (">/dev/full", "dptopk: error: cannot write the result: No space left on device\n"),
        (">/dev/full 2>&-", ""),
    ],
)
def test_output_that_cannot_be_written(events, shell, message):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    command = f"exec '{sys.executable}' -m dptopk select '{events}' {' '.join(BUDGET)} {shell}"
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", message)


# ---- cost


def test_cost_tells_what_a_budget_buys_by_every_method(run):
    code, out, err = run("cost", *BUDGET, "-k", 100, "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    # Known values of the closed forms; adaptive is the best of all.
    known = {"basic": 0.01, "optimal": 0.0240, "bounded_range": 0.0356, "zcdp": 0.0441}
    methods = answer["methods"]
    assert {method: methods[method] for method in known} == pytest.approx(known, abs=6e-5)
    assert max(methods, key=methods.get) == "adaptive"
    assert answer["answer"] == "epsilon_step"

    code, out, _ = run("cost", *BUDGET, "-k", 100)
    best = [line.split()[0] for line in out.splitlines() if " * " in line and "is the" not in line]
    assert (code, best) == (0, ["adaptive"])


def test_cost_tells_what_steps_cost(run):
    code, out, _ = run(
        "cost", "--epsilon-step", "0.0471", "--delta", "1e-6", "--steps", 100, "--json"
    )
    methods = json.loads(out)["methods"]
    assert code == 0
    assert methods["basic"] == pytest.approx(4.71)
    assert min(methods.values()) == methods["adaptive"] == pytest.approx(1.0, abs=0.02)


def test_without_delta_every_method_is_the_sum(run):
    code, out, _ = run("cost", "--epsilon", 1, "-k", 10, "--json")
    assert code == 0
    assert list(json.loads(out)["methods"].values()) == pytest.approx([0.1] * 7)
    assert run("cost", "--epsilon", 1, "-k", 10)[0] == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-k", 10], "--epsilon --epsilon-step is required"),
        (["-k", 10, "--epsilon", 1, "--epsilon-step", 1], "not allowed with argument"),
        (["--epsilon", 1], "required: -k/--k/--steps"),
        (["--epsilon", "inf", "-k", 10], "epsilon must be"),
        (["--epsilon", 1, "-k", 0], "must be"),
        (["--epsilon", 1, "-k", 10, "--delta", -1], "delta must be"),
    ],
)
def test_bad_costs(refused, argv, message):
    assert message in refused("cost", *argv)


# ---- verify, version, process


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_verify_exits_by_its_worst_result(run, monkeypatch, passed, code):
    results = [
        SimpleNamespace(name="peel", check="law", passed=True, detail="fine"),
        SimpleNamespace(name="peel", check="privacy", passed=passed, detail="[why]"),
    ]
    # dptopk.verify, read as an attribute, is the function of that name.
    verify = importlib.import_module("dptopk.verify")
    monkeypatch.setattr(verify, "run", lambda names, quick: results)
    got, out, _ = run("verify", "peel")
    assert got == code
    assert ("FAILED" in out) is not passed
    assert "[why]" in out
    got, out, _ = run("verify", "--json")
    assert (got, json.loads(out)) == (code, [vars(result) for result in results])


def test_verify_lists_its_mechanisms_and_refuses_others(run, refused):
    code, out, _ = run("verify", "--list")
    assert code == 0
    assert {"peel", "limited_domain"} <= set(out.split())
    assert "'zork'" in refused("verify", "zork")


def test_version(run):
    assert run("--version") == (0, f"dptopk {dptopk.__version__}\n", "")


def test_help_names_the_commands(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(command in out for command in ("select", "cost", "verify"))


def start(*argv, **options):
    command = [sys.executable, "-m", "dptopk", *map(str, argv)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes | options)


def test_standard_input_is_read_through_a_pipe_as_from_a_file(events):
    with open(events) as stream:
        process = start("select", "-", "-k", 2, *BUDGET, "-q", stdin=stream)
        assert process.communicate(timeout=120) == ("apple\npear\n", "")
    cat = subprocess.Popen(["cat", events], stdout=subprocess.PIPE)
    process = start("select", "-", "-k", 2, *BUDGET, "-q", stdin=cat.stdout)
    cat.stdout.close()
    assert process.communicate(timeout=120) == ("apple\npear\n", "")
    assert (cat.wait(), process.returncode) == (0, 0)


def test_an_empty_pipe_is_refused_before_any_charge(tmp_path, run):
    """Not even a header: nobody's data, as a header without rows would be."""
    path = tmp_path / "budgets"
    assert (
        run("ledger", "create", path, "--budget", "team", "--k-star", 9, "--calls", 3, *BUDGET)[0]
        == 0
    )
    before = run("ledger", "show", path, "--json")
    argv = ["select", "-", "-k", 2, "--ledger", path, "--budget", "team", "-q"]
    process = start(*argv, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert (
        err == "dptopk: error: -: no header line: it is empty; the first line names the columns\n"
    )
    assert run("ledger", "show", path, "--json") == before
    process = start(*argv)
    assert process.communicate("user,item\n", timeout=120) == ("", "")
    assert run("ledger", "show", path, "--json") != before


def test_files_without_a_header_and_other_formats(run, tmp_path):
    path = tmp_path / "events.log"
    path.write_text("".join(f"x\t{u}\ttea\n" for u in range(2000)))
    argv = ["--user", 2, "--item", 3, "--no-header", "--format", "tsv", "-k", 1, *BUDGET, "-q"]
    assert run("select", path, *argv) == (0, "tea\n", "")
    path.write_text("user^item\n" + "".join(f"{u}^tea\n" for u in range(2000)))
    argv = ["--format", "csv", "--delimiter", "^", "-k", 1, *BUDGET, "-q"]
    assert run("select", path, *argv) == (0, "tea\n", "")


def test_nulls_are_refused_or_dropped(run, refused, tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\n" + "".join(f"{u},tea\n" for u in range(2000)) + ",tea\n9,\n")
    argv = ["select", path, "-k", 1, *BUDGET, "-q"]
    assert refused(*argv).endswith("leave such rows out: nulls='drop', or --drop-nulls")
    assert run(*argv, "--drop-nulls") == (0, "tea\n", "")
    assert run(*argv, "--nulls", "drop") == (0, "tea\n", "")


def test_what_helps_after_an_early_stop_follows_from_the_question_alone(run, events, domain):
    _, out, _ = run("select", events, "-k", 5, *BUDGET)
    assert "What helps: a smaller -k; a larger --epsilon; --domain with" in " ".join(out.split())
    assert "; or what `dptopk plan` ranks first." in " ".join(out.split())
    _, out, _ = run("select", events, "-k", 4, *BUDGET, "--domain", domain)
    assert "--domain" not in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--no-header"], "with --no-header --user must be the number of a column, from 1"),
        (["--no-header", "--user", "0", "--item", "1"], "--user must be the number of a column"),
        (["--no-header", "--user", "1", "--item", "1"], "must name two different columns"),
        (["--format", "xls"], "argument --format: invalid choice: 'xls'"),
        (["--nulls", "keep"], "argument --nulls: invalid choice: 'keep'"),
        (["--delimiter", "ab"], "argument --delimiter: must be one character"),
        (["--temp-directory", "/no/where"], "--temp-directory must be a directory that can be"),
        (["--memory-limit", "much"], "--memory-limit must be a size such as '2GB'"),
    ],
)
def test_bad_ways_to_read(refused, events, argv, message):
    assert message in refused("select", events, *BUDGET, *argv)


def test_an_ascii_terminal_shows_every_label(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("user,item\n" + "".join(f"{u},thé\n" for u in range(2000)), encoding="utf-8")
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = start("select", path, "-k", 1, *BUDGET, env=env)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert r"th\xe9" in out


@pytest.mark.posix
def test_ctrl_c_is_quiet(tmp_path):
    path = tmp_path / "events.csv"
    os.mkfifo(path)  # a file that does not end: DuckDB is at work for sure
    process = start("select", path, *BUDGET)
    writer = None
    while writer is None and process.poll() is None:
        with contextlib.suppress(OSError):  # nobody reads it yet
            writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    os.close(writer)
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):  # whoever opens it once more must not wait for us
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        time.sleep(0.01)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("Query interrupted")])
def test_an_interrupted_query_is_an_interrupt(run, events, monkeypatch, error):
    def interrupt(*_):
        raise error

    monkeypatch.setattr("dptopk.sources.frames._count", interrupt)
    assert run("select", events, *BUDGET) == (130, "", "")


def test_a_closed_pipe_is_quiet(events):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as stdout:
        process = start("select", events, "-k", 3, *BUDGET, "-q", stdout=stdout)
        assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == 0


# ---- real data


@pytest.mark.parametrize("name", ["gowalla_10core", "ml100k", "epinions"])
def test_real_events(run, data_dir, name):
    argv = ["-k", 20, *BUDGET, "--json"]
    code, out, err = run("select", data_dir / f"{name}.events.parquet", *argv)
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert len(answer["items"]) == 20 or not answer["complete"]
    assert len(set(answer["items"])) == len(answer["items"])


def test_cost_of_more_steps_than_one_method_can_do(run):
    code, out, _ = run("cost", "-k", 2_000_000, "--epsilon", 1, "--delta", 1e-6, "--json")
    methods = json.loads(out)["methods"]
    assert code == 0
    assert methods.pop("optimal") is None
    assert all(value > 0 for value in methods.values())
    code, out, err = run("cost", "-k", 3, "--epsilon-step", 1e308, "--delta", 1e-6, "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(out)["methods"].values()) == {None}


# ---- ledger


@pytest.fixture
def ledger(run, tmp_path):
    path = tmp_path / "budgets.sqlite"
    terms = ["--k-star", 9, "--calls", 3, "--epsilon", 2, "--delta", "1e-6"]
    code, out, err = run("ledger", "create", path, "--budget", "ann", *terms)
    assert (code, err) == (0, "")
    assert out.startswith("Each of 9 outcomes gets epsilon = ")
    assert "together they cost epsilon = 2, delta = 1e-06 per user." in out
    return path


def test_select_charges_a_ledger(run, events, ledger):
    budget = ["--ledger", ledger, "--budget", "ann"]
    code, out, err = run("select", events, "-k", 5, *budget)
    assert (code, err) == (0, "")
    assert "Stopped after 3 of 5" in out
    assert "Of budget ann, 5 outcomes and 2 calls are left." in out
    code, out, _ = run("select", events, "-k", 2, *budget, "--json", "--request-id", "mon")
    answer = json.loads(out)
    assert (code, answer["remaining"]) == (0, {"outcomes": 3, "calls": 1})
    assert answer["cost"]["theorem"].startswith("charged to a session")
    code, out, _ = run("select", events, "-k", 2, *budget, "--json", "--request-id", "mon")
    assert json.loads(out) == answer  # neither drawn nor paid again
    code, out, _ = run("ledger", "history", ledger, "--budget", "ann", "--json")
    first, second = json.loads(out)
    assert first["release"]["items"] == ["apple", "pear", "[red]plum"]
    assert (first["outcomes"], first["release"]["complete"]) == (4, False)
    assert (second["request_id"], second["outcomes"]) == ("mon", 2)
    code, out, _ = run("ledger", "history", ledger, "--budget", "ann")
    assert "apple, pear, [red]plum, BOT" in out
    code, out, _ = run("ledger", "show", ledger)
    assert "3 of 9" in out
    code, out, _ = run("ledger", "show", ledger, "--json")
    (shown,) = json.loads(out)
    assert shown["budget"] == "ann"
    assert shown["remaining"] == {"outcomes": 3, "calls": 1}


def test_peel_charges_a_ledger_no_call(run, events, ledger, domain):
    argv = ["--ledger", ledger, "--budget", "ann", "--mechanism", "peel", "--domain", domain]
    code, out, _ = run("select", events, "-k", 2, *argv, "--json")
    answer = json.loads(out)
    assert (code, answer["items"]) == (0, ["apple", "pear"])
    assert answer["remaining"] == {"outcomes": 7, "calls": 3}


def test_a_ledger_is_not_charged_for_what_is_refused(refused, run, events, ledger, monkeypatch):
    monkeypatch.setattr(files, "read_events", None)  # before any file is read
    budget = ["--ledger", ledger, "--budget", "ann"]
    for argv, message in [
        ([*budget, "--epsilon", 1], "--epsilon comes from the budget of the ledger"),
        ([*budget, "--delta", "1e-6"], "--delta comes from the budget of the ledger"),
        (["--ledger", ledger], "--ledger needs --budget NAME"),
        (["--epsilon", 1, "--budget", "ann"], "--budget goes with --ledger"),
        (["--epsilon", 1, "--request-id", "x"], "--request-id goes with --ledger"),
        ([*budget, "--counts-epsilon", 1], "--counts-epsilon is not charged to a ledger"),
        ([*budget, "--mechanism", "limited_domain_laplace"], "--ledger goes with --mechanism"),
        ([*budget, "-k", 10], "the call may cost 10 outcomes, and 9 are left"),
        ([*budget, "-k", 9, "--k-bar", "private"], "the call may cost 10 outcomes"),
        ([*budget, "-k", 0], "k must be an integer >= 1, got 0"),
        ([*budget, "-k", 3, "--k-bar", 2], "k must be at most"),
        (["--ledger", ledger, "--budget", "eve"], "there is no budget named 'eve'"),
        (["--ledger", "none.sqlite", "--budget", "a"], "there is no ledger at none.sqlite"),
        (["--ledger", events, "--budget", "a"], f"{events} is not a ledger"),
    ]:
        assert refused("select", events, *argv).startswith(message)
    _, out, _ = run("ledger", "show", ledger, "--json")
    assert json.loads(out)[0]["remaining"] == {"outcomes": 9, "calls": 3}


def test_a_ledger_of_rho_and_joint(run, events, domain, tmp_path):
    path = tmp_path / "budgets.sqlite"
    terms = ["--k-star", 9, "--calls", 3, "--rho", 2, "--delta", "1e-6"]
    code, out, err = run("ledger", "create", path, "--budget", "ann", *terms, "--json")
    assert (code, err, json.loads(out)["method"]) == (0, "", "zcdp")
    argv = ["--ledger", path, "--budget", "ann", "--mechanism", "joint", "--domain", domain]
    code, out, _ = run("select", events, "-k", 2, *argv, "--json")
    answer = json.loads(out)
    assert (code, sorted(answer["items"])) == (0, ["apple", "pear"])
    assert answer["remaining"] == {"outcomes": 8, "calls": 3}
    argv[argv.index("joint")] = "canonical"
    code, out, _ = run("select", events, "-k", 2, *argv, "--json")
    answer = json.loads(out)
    assert (code, len(answer["items"])) == (0, 2)
    assert answer["remaining"] == {"outcomes": 7, "calls": 3}
    with dptopk.Ledger(path) as ledger:  # a call without k
        dptopk.Session.bound(ledger, "ann").noisy_max(dptopk.Histogram([9, 1], ["fig", "nut"]))
    code, out, _ = run("ledger", "history", path, "--budget", "ann")
    assert code == 0
    assert "noisy_max" in out


def test_bad_ledgers(refused, ledger, tmp_path):
    terms = ["--k-star", 9, "--calls", 3, "--epsilon", 2, "--delta", "1e-6"]
    create = ["ledger", "create", ledger, "--budget"]
    assert refused(*create, "ann", *terms).startswith("there is a budget named 'ann' already")
    assert refused(*create, "", *terms) == "name must not be empty"
    new = tmp_path / "new.sqlite"
    bad = ["ledger", "create", new, "--budget", "x", *terms[:-1], "7"]
    assert refused(*bad) == "delta must be in (0, 1), got 7.0"
    assert refused("ledger", "show", new).startswith(f"there is no ledger at {new}")
    assert not new.exists()
    assert "required: ACTION" in refused("ledger")


# ---- weighted


def test_weighted_counts_users_of_many_items_less(run, events, domain):
    weighted = ["select", events, "--mechanism", "weighted", "--soft-cap", "2", "--json", *BUDGET]
    code, out, _ = run(*weighted, "-k", "4", "--max-items-per-user", "1000000")
    found = json.loads(out)
    assert (code, found["items"]) == (0, ["apple", "pear", "[red]plum"])
    assert not found["complete"]
    assert found["parameters"]["soft_cap"] == 2
    assert found["parameters"]["max_items_per_user"] == 1_000_000
    code, out, _ = run(*weighted[:-4], "--epsilon", "1", "--norm", "l1", "-k", "2",
                       "--domain", domain, "--json")  # fmt: skip
    found = json.loads(out)
    assert (code, found["items"], found["cost"]["delta"]) == (0, ["apple", "pear"], 0)
    code, out, _ = run(*weighted, "--min-users", "2500", "--max-items-per-user", "9")
    assert json.loads(out)["items"] in (["apple", "pear"], ["apple"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mechanism", "weighted"], "--max-items-per-user must be given"),
        (["--mechanism", "weighted", "-k", "0"], "k must be an integer >= 1"),
        (["--mechanism", "weighted", "--epsilon", "-1"], "epsilon must be"),
        (["--mechanism", "weighted", "--soft-cap", "0"], "--soft-cap must be an integer >= 1"),
        (["--mechanism", "weighted", "--soft-cap", "3"], "--max-items-per-user must be given"),
        (["--mechanism", "weighted", "--soft-cap", "3", "--counts-epsilon", "1"],
         "--counts-epsilon goes with mechanisms that count users"),
        (["--soft-cap", "3"], "--soft-cap goes with --mechanism weighted"),
        (["--norm", "l1"], "--norm goes with --mechanism weighted"),
        (["--min-users", "3"], "--min-users goes with --mechanism weighted"),
    ],
)  # fmt: skip
def test_weighted_is_refused_before_any_event_is_read(refused, options, message):
    assert message in refused("select", "nothing.csv", *BUDGET, *options)


def test_a_missing_column_names_the_option_for_it(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("who,what\n1,tea\n")
    (tmp_path / "w.csv").write_text("who,what\n1,2\n")
    (tmp_path / "d.txt").write_text("1\n2\n")
    select = ["select", str(tmp_path / "e.csv"), *BUDGET]
    rank = [
        "rank", str(tmp_path / "w.csv"), "--domain", str(tmp_path / "d.txt"), "-k", "1",
        "--epsilon", "1", "--degree", "1", "--comparisons-per-pair", "1",
    ]  # fmt: skip
    for argv, column in (
        (select, "user"),
        ([*select, "--user", "who"], "item"),
        (rank, "winner"),
        ([*rank, "--winner", "who"], "loser"),
    ):
        assert main(argv) == 2
        message = capsys.readouterr().err.strip()
        assert message.endswith(
            f"no column '{column}' in the header; say which column it is by --{column}"
        )


# ---- auto


@pytest.mark.parametrize(
    ("options", "mechanism", "said"),
    [
        (["-k", 3, *BUDGET], "limited_domain", ""),
        (["-k", 50, *BUDGET], "restricted_gumbel", ""),
        (["-k", 200, *BUDGET], "weighted", "soft_cap 10 norm l2 max_items_per_user 1000000"),
        (["-k", 200, *BUDGET, "--max-items-per-user", 2], "weighted", "soft_cap 2 norm l1"),
        (["-k", 200, *BUDGET, "--counts-epsilon", 1], "restricted_normal", "max_items_per_user 10"),
        (["-k", 3, *BUDGET, "--domain"], "permute_and_flip", ""),
        (["-k", 3, *BUDGET, "--unordered", "--domain"], "permute_and_flip", ""),
        (["-k", 3, "--epsilon", 1, "--domain"], "permute_and_flip", ""),
    ],
)
def test_auto_says_what_it_chose_and_runs_it(run, events, domain, options, mechanism, said):
    options = [*options, domain] if options[-1] == "--domain" else options
    code, out, err = run("select", events, "--mechanism", "auto", *options, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["mechanism"].startswith(mechanism.split("_")[0])
    assert {"apple", "pear"} <= set(found["items"])
    assert found["cost"]["epsilon"] <= 1 + ("--counts-epsilon" in options)
    assert err.startswith(f"auto: {mechanism} {said}".rstrip())
    assert err.count("\n") == 1


def said(run, file, *options):
    """What auto says of files, before it reads them."""
    return run("select", file, "--mechanism", "auto", *options)[2].splitlines()[0]


def test_auto_says_the_same_whatever_the_data_is(run, events, tmp_path, monkeypatch):
    rows = Path(events).read_text().splitlines()
    neighbour, other, none = (tmp_path / name for name in ("n.csv", "o.csv", "none.csv"))
    neighbour.write_text("\n".join(rows[:1] + [row for row in rows if "00007" not in row]))
    other.write_text("user,item\n" + "".join(f"{u},{u % 7000}\n" for u in range(9000)))
    files = (events, neighbour, other, none)
    for options in (["-k", 9, *BUDGET], ["-k", 90, *BUDGET, "--unordered"]):
        assert len({said(run, file, *options) for file in files}) == 1
    honest = select._choice

    def peeking(args):  # the broken twin
        with contextlib.suppress(OSError):
            args.k = min(
                args.k, len({row.split(",")[-1] for row in Path(args.files[0]).read_text().split()})
            )
        return honest(args)

    monkeypatch.setattr(select, "_choice", peeking)
    assert len({said(run, file, "-k", 90, *BUDGET) for file in files}) > 1


@pytest.mark.parametrize(("vouched", "k", "bound"), [(11, 5, 10), (12, 20, 12)])
def test_auto_cuts_to_a_bound_that_nobody_vouched_for(
    run, tmp_path, monkeypatch, vouched, k, bound
):
    """What holds by nature is the caller's bound, not a smaller one that auto takes."""
    file, counted = tmp_path / "e.csv", []
    rows = [f"{u},{i}\n" for u in range(40) for i in range(vouched)]
    file.write_text("user,item\n" + "".join(rows))
    read = dptopk.Histogram.from_events

    def spy(*events, **options):
        counted.append(read(*events, **options))
        return counted[0]

    monkeypatch.setattr(dptopk.Histogram, "from_events", spy)
    options = ["--max-items-per-user", vouched, "--bounded-by-nature"]
    code, _, err = run("select", file, "--mechanism", "auto", *BUDGET, "-k", k, *options)
    assert code == 0
    assert f"max_items_per_user {bound} " in err
    assert counted[0].counts.sum() == 40 * bound


def test_auto_is_quiet_when_asked(run, events):
    code, out, err = run("select", events, "--mechanism", "auto", "-k", 2, *BUDGET, "-q")
    assert (code, out, err) == (0, "apple\npear\n", "")


def test_auto_speaks_before_any_event_is_read(run):
    code, out, err = run("select", "nothing.csv", "--mechanism", "auto", *BUDGET)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("auto: limited_domain (")
    assert second.startswith("dptopk: error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mechanism", "auto", "--epsilon", "1"], "auto needs --delta, e.g. --delta 1e-6, or"),
        (["--mechanism", "auto"], "required: --epsilon"),
        (["--mechanism", "auto", *BUDGET, "-k", "2-9"], "a range of -k goes with"),
        (["--mechanism", "auto", *BUDGET, "-k", "0"], "k must be an integer >= 1"),
        (["--mechanism", "auto", *BUDGET, "--max-items-per-user", "0"], "--max-items-per-user"),
        *((["--mechanism", "auto", *BUDGET, *option], f"{option[0]} goes with a mechanism that")
          for option in (["--k-bar", "100"], ["--noise", "laplace"], ["--soft-cap", "3"],
                         ["--norm", "l1"], ["--min-users", "3"])),
        ([*BUDGET, "--unordered"], "--unordered goes with --mechanism auto"),
        (["--mechanism", "auto", *BUDGET, "-k", "50", "--bounded-by-nature"],
         "--bounded-by-nature goes with --max-items-per-user"),
    ],
)  # fmt: skip
def test_auto_is_refused_before_any_event_is_read(refused, options, message):
    assert message in refused("select", "nothing.csv", *options)


def test_auto_draws_from_a_ledger_what_a_ledger_pays(run, events, tmp_path):
    ledger = str(tmp_path / "ledger.db")
    argv = ["--budget", "b", "--k-star", 10, "--calls", 2, "--epsilon", 1, "--delta", 1e-6]
    assert run("ledger", "create", ledger, *argv)[0] == 0
    argv = ["--mechanism", "auto", "--ledger", ledger, "--budget", "b", "-k", 2, "--json"]
    code, out, err = run("select", events, *argv)
    assert (code, json.loads(out)["mechanism"]) == (0, "limited_domain")
    assert err.startswith("auto: limited_domain (")


# ---- plan


def test_plan_ranks_and_shows_the_command(run):
    code, out, err = run("plan", "-k", 5, *BUDGET, "--trials", 20)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "limited_domain is the best on the default shapes." in text
    assert "dptopk select FILE -k 5 --epsilon 1 --delta 1e-06 --mechanism limited_domain" in text
    assert "release = dp.limited_domain(h, k=5, epsilon=1.0, delta=1e-06)" in text
    assert " more with --all." in text
    code, out, _ = run("plan", "-k", 5, *BUDGET, "--trials", 20, "--json")
    found = json.loads(out)
    assert len(found["rows"]) > 10
    assert found["rows"][0]["mechanism"] == "limited_domain"
    shape = ["--zipf", 0.8, "--users", 5000, "--items", 300, "--items-per-user", 4]
    code, out, _ = run("plan", "-k", 5, "--epsilon", 1, "--domain", "known", "--all", *shape)
    assert code == 0
    assert "zipf(0.8, n_users=5000, n_items=300, items_per_user=4)" in out
    assert "--all" not in out


def test_plan_takes_public_events(run, refused, events, tmp_path):
    code, out, _ = run("plan", "-k", 3, *BUDGET, "--like", events, "--trials", 20, "--json")
    found = json.loads(out)
    assert (code, found["caption"]) == (0, f"the best on {events}")
    assert found["rows"][0]["recall"] == 1.0
    nothing = tmp_path / "none.csv"
    nothing.write_text("user,item\n")
    assert "no events" in refused("plan", *BUDGET, "--like", nothing)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--epsilon", "1"], "an unknown domain needs delta > 0"),
        ([], "required: --epsilon"),
        ([*BUDGET, "-k", "0"], "k must be an integer >= 1"),
        ([*BUDGET, "-k", "99999", "--domain", "known"], "nothing can pick 99999 items here"),
        ([*BUDGET, "--trials", "1"], "trials must be an integer >= 2"),
        ([*BUDGET, "--users", "5"], "go with --zipf"),
        ([*BUDGET, "--zipf", "1"], "--zipf needs --users and --items"),
        ([*BUDGET, "--zipf", "0", "--users", "5", "--items", "5"], "exponent must be"),
        ([*BUDGET, "--zipf", "1", "--like", "x.csv"], "--like or --zipf, not both"),
        ([*BUDGET, "--like", "nothing.csv"], "nothing.csv"),
    ],
)
def test_plan_refuses(refused, argv, message):
    assert message in refused("plan", *argv)
