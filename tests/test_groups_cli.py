"""dptopk select --by: the top of every group."""

import json

import pytest

from dptopk.cli import main

pytest.importorskip("duckdb")
pytest.importorskip("rich")

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
GROUPED = ["--by", "land", "--groups", "lands.txt", "--max-groups-per-user", "1"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Two items stand out in each of two countries."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{land}{user},{item},{land},2024-01-0{1 + user % 2}"
        for land, items in (("FR", ("tea", "jam")), ("DE", ("ale", "rye")))
        for user in range(600)
        for item in (items if user < 300 else items[:1])
    ]
    (tmp_path / "events.csv").write_text("\n".join(["user,item,land,day", *rows]) + "\n")
    (tmp_path / "body.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "lands.txt").write_text("FR\nDE\nIT\n")
    (tmp_path / "all.txt").write_text("\n".join(["tea", "jam", "ale", "rye", "gin"]))


@pytest.fixture
def run(capsys):
    """Run select; return its exit code, stdout and stderr."""

    def run(*argv, file="events.csv"):
        code = main(["select", file, *map(str, argv)])
        return (code, *capsys.readouterr())

    return run


def items_of(out):
    return {row["group"]: row["items"] for row in json.loads(out)["groups"]}


def test_json_by_group(run):
    code, out, err = run("-k", 2, *GROUPED, *BUDGET, "--json")
    assert (code, err) == (0, "")
    assert items_of(out) == {"FR": ["tea", "jam"], "DE": ["ale", "rye"], "IT": []}
    assert json.loads(out)["cost"]["epsilon"] == 1.0


def test_table_by_group(run):
    code, out, _ = run("-k", 2, *GROUPED, *BUDGET, "--counts-epsilon", 5)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][:3] == ["group", "rank", "item"]
    assert [line[:3] for line in lines if line[:1] == ["FR"]] == [["FR", "1", "tea"]]
    assert "In 1 of 3 groups fewer than k came out" in out
    assert "per user, all groups together" in out
    assert "epsilon = 6" in out


def test_groups_and_items_alone(run):
    assert run("-k", 1, *GROUPED, *BUDGET, "-q") == (0, "FR\ttea\nDE\tale\n", "")


@pytest.mark.parametrize("mechanism", ["peel", "oneshot", "canonical", "restricted_gumbel"])
def test_other_mechanisms(run, mechanism):
    options = [] if mechanism == "canonical" else ["--delta", "1e-6"]
    code, out, err = run(
        "-k", 2, *GROUPED, "--epsilon", 1, *options, "--json", "--mechanism", mechanism,
        "--domain", "all.txt",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert set(items_of(out)["FR"]) == {"tea", "jam"}
    assert set(items_of(out)) == {"FR", "DE", "IT"}


def test_without_a_list_weights_find_the_groups(run):
    code, out, _ = run(
        "-k", 1, "--by", "land", *BUDGET, "--json", "--max-items-per-user", 5
    )  # fmt: skip
    assert code == 0
    assert items_of(out) == {"FR": ["tea"], "DE": ["ale"]}
    assert json.loads(out)["mechanism"] == "weighted"
    code, out, _ = run(
        "-k", 1, "--by", "land", "--by", "day", *BUDGET, "--json", "--max-items-per-user", 5
    )
    assert {tuple(row["group"]): row["items"] for row in json.loads(out)["groups"]} == {
        (land, f"2024-01-0{day}"): items
        for land, items in (("FR", ["tea"]), ("DE", ["ale"])) for day in (1, 2)
    }  # fmt: skip


def test_columns_by_number(run):
    code, out, err = run(
        "--no-header", "--user", 1, "--item", 2, "--by", 3, *GROUPED[2:], *BUDGET, "-k", 1, "-q",
        file="body.csv",
    )  # fmt: skip
    assert (code, out, err) == (0, "FR\ttea\nDE\tale\n", "")


def test_days_of_a_typed_file(run, tmp_path):
    import duckdb

    duckdb.sql(
        'COPY (SELECT "user", item, CAST(day AS TIMESTAMP) AS "when" FROM \'events.csv\') '
        "TO 'events.parquet'"
    )
    (tmp_path / "days.txt").write_text("2024-01-01\n2024-01-02\n2024-01-09\n")
    code, out, err = run(
        "-k", 1, "--by", "when", "--groups", "days.txt", "--every", "1d",
        "--max-groups-per-user", 1, *BUDGET, "--json", file="events.parquet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    found = items_of(out)
    assert list(found) == ["2024-01-01", "2024-01-02", "2024-01-09"]
    assert found["2024-01-09"] == []
    assert found["2024-01-01"][0] in ("tea", "ale")


def test_days_of_a_column_of_text_are_refused(run, tmp_path):
    (tmp_path / "days.txt").write_text("2024-01-01\n2024-01-02\n")
    code, out, err = run(
        "-k", 1, "--by", "day", "--groups", "days.txt", "--every", "1d",
        "--max-groups-per-user", 1, *BUDGET,
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert "column 'day' is of kind text" in err


def test_a_ledger_is_charged_for_the_groups_of_a_user(run, tmp_path, capsys):
    budget = ["budgets.db", "--budget", "shop"]
    assert main(["ledger", "create", *budget, "--k-star", "20", "--calls", "8", *BUDGET]) == 0
    capsys.readouterr()
    paid = ["--ledger", "budgets.db", "--budget", "shop", "--request-id", "today"]
    two = [*GROUPED[:-1], "2"]
    code, out, _ = run("-k", 2, *two, *paid, "--json")
    assert code == 0
    assert json.loads(out)["remaining"] == {"outcomes": 16, "calls": 6}
    assert run("-k", 2, *two, *paid, "--json")[1] == out
    assert main(["ledger", "history", *budget]) == 0
    assert "tea" in capsys.readouterr().out
    assert main(["ledger", "history", *budget, "--json"]) == 0
    assert "tea" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--groups", "lands.txt"], "--groups goes with --by"),
        (["--every", "1d"], "--every goes with --by"),
        (["--by", "land", "--mechanism", "peel"], "peel needs --groups FILE"),
        (["--by", "land", "--mechanism", "auto"], "auto goes without --by"),
        (
            ["--by", "land", "--max-groups-per-user", "1"],
            "--max-groups-per-user goes with --groups",
        ),
        (["--by", "land", "--groups", "lands.txt"], "--groups needs --max-groups-per-user G"),
        ([*GROUPED, "--by", "day"], "--groups goes with a single --by"),
        ([*GROUPED[:-1], "0"], "--max-groups-per-user must be an integer >= 1, got 0"),
        ([*GROUPED, "--every", "1d"], "--groups: 'FR' is no date or time such as 2024-12-31"),
        ([*GROUPED, "--every", "1y"], "--groups: 'FR' is no date or time such as 2024-12-31"),
        (["--by", "nation", *GROUPED[2:]], "say which column it is by --by"),
        (
            ["--by", "item", *GROUPED[2:]],
            "--user, --item and each --by must name different columns",
        ),
        ([*GROUPED[:2], "--groups", "none.txt", *GROUPED[4:]], "none.txt"),
    ],
)
def test_refusals(run, argv, message):
    code, out, err = run("-k", 1, *argv, *BUDGET)
    assert (code, out) == (2, "")
    assert err.startswith("dptopk: error: ")
    assert message in err
    assert err.count("\n") == 1
