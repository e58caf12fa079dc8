"""A release as a page: all that was released, nothing else, and nothing that a label can break."""

import html.parser
import json
import os
import re
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
import warm
from hostile import HOSTILE

import dptopk as dp
from dptopk.cli import main
from dptopk.plotting.page import MARK

COUNTS = np.array([900, 3, 700, 5])
H = dp.Histogram(COUNTS, labels=["ant", "bee", "cat", "dog"])
PLAIN = dp.peel(H, k=2, epsilon=9.0)
COUNTED = dp.noisy_counts(PLAIN, H, epsilon=9.0)
GROUPED = dp.Histograms([[900, 3, 700], [2, 3, 4]], groups=["FR", "DE"], max_groups_per_user=1)
BY_GROUP = dp.limited_domain(GROUPED, k=2, epsilon=2, delta=1e-9)
WINS = [[0, 9000, 9900], [1000, 0, 9500], [100, 500, 0]]
COMPARED = {"k": 2, "epsilon": 1.0, "degree": 2, "comparisons_per_pair": 10_000}
EMPTY = {"meta", "rect", "path", "link", "br", "hr"}
ALL = {
    "plain": PLAIN,
    "counted": COUNTED,
    "set": dp.oneshot(COUNTS, k=2, epsilon=9.0),
    "nothing": dp.top_stable([1, 1, 1], k=2, epsilon=1.0, delta=1e-9),
    "groups": BY_GROUP,
    "groups counted": dp.noisy_counts(BY_GROUP, GROUPED, epsilon=1),
    "no group": dp.Releases([], [], cost=PLAIN.cost, mechanism="peel", private=True),
    "scores": dp.rank_pairs(WINS, **COMPARED),
    "weights": dp.weighted(
        dp.Histogram.from_weights(COUNTS << 20, list("abcd"), soft_cap=1, max_items_per_user=3),
        k=2, epsilon=9.0, delta=1e-6, release_weights=True,
    ),
    "inside": dp.restricted("peel", COUNTS, k=2, epsilon=9.0, delta=1e-3),
}  # fmt: skip


class Page(html.parser.HTMLParser):
    """Elements in order, the text of each cell, and whether every tag was closed in its place."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    @property
    def said(self):
        return re.sub(r"\s+", " ", " ".join(self.text))


@pytest.mark.parametrize("name", ALL)
def test_a_page_stands_by_itself(name):
    text = ALL[name].to_html(
        remaining=dp.Session(k_star=5, calls=5, epsilon=1, delta=1e-6).remaining
    )
    page = Page(text)
    assert text.startswith(MARK)
    used = {tag for tag, _ in page.tags}
    assert not used & {"script", "link", "img", "iframe", "object", "base", "form", "a"}
    for _, attributes in page.tags:
        assert not {"src", "href", "style", "srcset", "data"} & set(attributes)
        assert not any(given.startswith("on") for given in attributes)
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = (a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert [t for t, _ in page.tags].count("h1") == 1
    assert 'lang="en"' in text


def test_the_policy_names_the_style_that_is_there():
    import base64
    import hashlib

    text = PLAIN.to_html()
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.S)
    wanted = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{wanted}'" in text


def test_items_counts_and_intervals_are_those_released():
    page = Page(COUNTED.to_html())
    ends = COUNTED.intervals()
    rows = [
        [str(rank + 1), label, f"{count:,}", f"{low:,} – {high:,}", ""]
        for rank, (label, count, (low, high)) in enumerate(
            zip(COUNTED.labels, COUNTED.counts.tolist(), ends.tolist(), strict=True)
        )
    ]
    heads = ["rank", "item", "users (noisy)", "95% interval", ""]
    assert page.cells == [*heads, *(cell for row in rows for cell in row)]
    assert "epsilon 18" in page.said
    assert COUNTED.cost.theorem in page.said
    assert "Neighbouring data sets differ by one user more or less." in page.said
    assert "Budget left" not in page.said


@pytest.mark.parametrize("name", ALL)
def test_every_number_of_a_page_is_of_the_release(name):
    """What is not in the dict, its intervals or the fixed words is not there."""
    release = ALL[name]
    known = set(re.findall(r"\d+", json.dumps(json.loads(release.to_json()))))
    known |= set(re.findall(r"\d+", str(release.columns())))
    for number in re.findall(r"[\d.e+-]*\d", release.to_json()):
        known |= set(
            re.findall(r"\d+", f"{float(number):.6g} {float(number):.6f} {float(number):.1f}")
        )
    said = Page(release.to_html()).said.split("</style>")[-1]
    said = said[said.index("Picked privately") :].replace(",", "")
    fixed = {"95", "2", "72", "1", "0"}  # 95%, e = 2.72, ranks
    grid = getattr(release, "parameters", {}).get("grid")
    if grid:
        known |= set(re.findall(r"\d+", " ".join(f"{n / grid:.6f}" for n in (
            *release.counts.tolist(), *release.intervals().ravel().tolist()))))  # fmt: skip
    factor = f"{np.exp(min(release.cost.epsilon, 20)) + 5e-3:.2f}"
    fixed |= set(re.findall(r"\d+", factor))
    ranks = {str(n) for n in range(1, 4)}
    assert set(re.findall(r"\d+", said)) <= known | fixed | ranks


def test_what_was_left_out_is_not_there():
    text = dp.limited_domain(
        dp.Histogram.truncated([9000, 3], ["ant", "secret"], next_count=2, k_bar=2),
        k=2, epsilon=1, delta=1e-9,
    ).to_html()  # fmt: skip
    assert "ant" in text
    assert "secret" not in text
    assert "9000" not in text
    assert "Fewer items came out than were asked for" in text


@pytest.mark.parametrize("where", ["label", "group", "title"])
def test_no_text_from_outside_is_markup(where):
    labels = list(HOSTILE)
    if where == "group":
        labels = [label for label in labels if isinstance(label, str)]
        rows = np.full((len(labels), 2), 10_000)
        hs = dp.Histograms(rows, groups=labels, max_groups_per_user=1)
        page = Page(dp.peel(hs, k=1, epsilon=9).to_html())
        seen = [c for c, (t, _) in zip(
            page.cells, [t for t in page.tags if t[0] in ("td", "th")], strict=True
        ) if t == "th"][2:]  # fmt: skip
    elif where == "label":
        h = dp.Histogram(np.arange(len(labels), 0, -1) * 10_000, labels=labels)
        page = Page(dp.peel(h, k=len(labels), epsilon=999.0).to_html())
        seen = page.cells[3::2]
    else:
        seen = []
        for label in labels:
            if isinstance(label, str) and label:
                page = Page(PLAIN.to_html(title=label))
                seen.append(page.text[page.text.index("\n", 3) + 1])
        labels = [label for label in labels if isinstance(label, str) and label]
    assert seen == [HOSTILE[label] for label in labels]
    tags = {tag for tag, _ in page.tags}
    assert tags <= {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "code", "table",
        "thead", "tbody", "tr", "th", "td", "bdi", "span", "section", "dl", "div", "dt", "dd",
    }  # fmt: skip


def test_a_broken_twin_that_does_not_escape_is_seen(monkeypatch):
    from dptopk.plotting import page

    monkeypatch.setattr(page, "_E", lambda text: text)
    with pytest.raises(AssertionError):
        test_no_text_from_outside_is_markup("label")


def test_what_is_protected_is_what_the_mechanism_protects():
    assert "One comparison:" in dp.rank_pairs(WINS, **COMPARED).to_html()
    user = dp.rank_pairs(WINS, **COMPARED, max_comparisons_per_item=3).to_html()
    assert "that one user decided, at most 3 of each item" in user
    assert "all rows of one user in all groups together" in BY_GROUP.to_html()
    scores = dp.peel([9.5, 3.0], k=1, epsilon=9, sensitivity=2.0)
    assert "if one user moves each score by no more than was stated" in scores.to_html()
    assert "moves each score" not in PLAIN.to_html()
    assert "In 1 of 2 groups fewer items came out" in BY_GROUP.to_html()


def test_an_experiment_says_so():
    page = dp.peel(COUNTS, k=2, epsilon=9.0, rng=dp.SeededRng(1)).to_html()
    assert "NOT PRIVATE" in page
    assert "NOT PRIVATE" not in PLAIN.to_html()


def test_what_is_left_is_shown_where_it_is_given():
    session = dp.Session(k_star=50, calls=20, epsilon=1, delta=1e-6)
    page = Page(session.limited_domain(H, k=1).to_html(remaining=session.remaining))
    assert re.search(r"Budget left outcomes 49 calls 19 ", page.said)
    budget = dp.Filter(epsilon=1.0)
    assert "Budget left" in PLAIN.to_html(remaining=budget.remaining)


@pytest.mark.parametrize("given", [{"title": 5}, {"remaining": 5}, {"remaining": "much"}])
def test_bad_pages(given):
    for release in (PLAIN, BY_GROUP):
        with pytest.raises(TypeError, match=next(iter(given))):
            release.to_html(**given)


def test_numbers_that_have_no_end():
    """Counts at the ends of int64, and a cost without an end."""
    big = dp.Release(
        indices=np.array([0]), labels=None, ordered=True, complete=True, mechanism="x",
        cost=dp.Cost(float("inf"), 0.0, "t", rho=0.5), private=True,
        parameters={"k": 1, "scale": float("nan")}, counts=np.array([2**63 - 1]),
        counts_noise=dp.CountsNoise("laplace", 5.0),
    )  # fmt: skip
    assert "∞" in Page(big.to_html()).said


# ---- dptopk select --html


BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def events(tmp_path):
    pytest.importorskip("duckdb")
    path = tmp_path / "events.csv"
    rows = [f"{u},{item}" for item, n in (("tea", 3000), ("<b>ale", 2000)) for u in range(n)]
    path.write_text("\n".join(["user,item", *rows]) + "\n")
    return path


@pytest.mark.posix
def test_select_writes_a_page(events, tmp_path, capsys):
    path = tmp_path / "report.html"
    argv = ["select", str(events), "-k", "2", *BUDGET, "-q", "--html", str(path)]
    old = os.umask(0o027)
    try:
        assert main(argv) == 0
    finally:
        os.umask(old)
    assert capsys.readouterr().out == "tea\n<b>ale\n"
    assert Page(path.read_text(encoding="utf-8")).cells == [
        "rank", "item", "1", "tea", "2", "<b>ale",
    ]  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    first = path.read_text()
    assert main([*argv, "--counts-epsilon", "1"]) == 0  # a report is replaced, by a whole one
    assert path.read_text() != first
    assert "users (noisy)" in path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["events.csv", "report.html"]


@pytest.mark.parametrize(
    ("encoding", "full", "light"), [("utf-8", "█", "░"), ("ascii", "#", "-"), ("latin-1", "#", "-")]
)
def test_bars_are_of_what_the_terminal_can_show(monkeypatch, encoding, full, light):
    from types import SimpleNamespace

    from dptopk.cli import printing

    monkeypatch.setattr(printing, "sys", SimpleNamespace(stdout=SimpleNamespace(encoding=encoding)))
    assert printing.bars([[100, 300], [0, 100], [0, 0]]) == [
        full * 10 + light * 20, light * 10, "",
    ]  # fmt: skip
    assert printing.bars([[0, 0]]) == [""]
    assert printing.bars([]) == []


@pytest.mark.parametrize("by", [[], ["--by", "group", "--groups"]])
def test_plot_draws_a_bar_beside_each_count(events, tmp_path, capsys, by):
    lines = events.read_text().splitlines()
    groups = ["group", *("FR" for _ in lines[1:])]
    events.write_text("".join(f"{a},{b}\n" for a, b in zip(lines, groups, strict=True)))
    (tmp_path / "groups.txt").write_text("FR\nDE\n")
    if by:
        by = [*by, str(tmp_path / "groups.txt"), "--max-groups-per-user", "1"]
    argv = ["select", str(events), "-k", "2", *BUDGET, *by, "--counts-epsilon", "1"]
    assert main([*argv, "--plot"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "tea" in line or "ale" in line]
    tea, ale = (row.split()[-1] for row in rows)
    assert set(tea) | set(ale) <= set("█░#-")
    assert len(tea) == 30
    assert 17 <= len(ale) <= 23  # 2,000 of 3,000
    assert main(argv) == 0
    assert not set("█░#") & set(capsys.readouterr().out)


def test_the_page_of_a_ledger_says_what_is_left(events, tmp_path, capsys):
    ledger = str(tmp_path / "b.sqlite")
    terms = ["--k-star", "10", "--calls", "5", *BUDGET]
    assert main(["ledger", "create", ledger, "--budget", "ann", *terms]) == 0
    path = tmp_path / "report.html"
    argv = ["select", str(events), "-k", "1", "--ledger", ledger, "--budget", "ann"]
    assert main([*argv, "--html", str(path)]) == 0
    assert "Budget left outcomes 9 calls 4" in Page(path.read_text()).said
    twice = [*argv, "--request-id", "monday", "--html"]
    assert main([*twice, str(tmp_path / "one.html")]) == 0
    assert main([*twice, str(tmp_path / "two.html")]) == 0  # drawn once, paid once
    one, two = ((tmp_path / name).read_text() for name in ("one.html", "two.html"))
    assert one == two
    assert "Budget left outcomes 8 calls 3" in Page(two).said


def paths(tmp_path, events):
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.html").write_text("<!doctype html>mine")
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere.html")
    return {
        "no folder": (tmp_path / "none" / "r.html", "No such file.*name a file in a folder"),
        "a folder": (tmp_path / "folder", "something else than a report.*name a new file"),
        "a slash": (f"{tmp_path}/r/", "needs the name of a file, such as report.html"),
        "empty": ("", "needs the name of a file"),
        "dash": ("-", "needs the name of a file"),
        "the events": (events, "something else than a report"),
        "another page": (tmp_path / "other.html", "something else than a report"),
        "a link": (tmp_path / "link.html", "something else than a report"),
        "a device": ("/dev/null", "something else than a report"),
        "a long name": (tmp_path / ("x" * 255), "File name too long"),
        "under a file": (events / "r.html", "Not a directory|something else"),
    }


@pytest.mark.posix
@pytest.mark.parametrize("name", [
    "no folder", "a folder", "a slash", "empty", "dash", "the events", "another page", "a link",
    "a device", "a long name", "under a file",
])  # fmt: skip
def test_a_place_that_cannot_be_written_is_found_before_the_charge(
    events, tmp_path, capsys, monkeypatch, name
):
    from dptopk.sources import files

    path, message = paths(tmp_path, events)[name]
    ledger = str(tmp_path / "b.sqlite")
    main(["ledger", "create", ledger, "--budget", "ann", "--k-star", "9", "--calls", "5", *BUDGET])
    capsys.readouterr()
    before = {
        p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file() and p.suffix != ".sqlite"
    }
    monkeypatch.setattr(files, "read_events", lambda *_, **__: pytest.fail("read a file"))
    code = main(["select", str(events), "--ledger", ledger, "--budget", "ann", "--html", str(path)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert re.search(message, err)
    with dp.Ledger(ledger) as opened:
        assert opened.budget("ann").remaining == (9, 5)
    left = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file() and p.suffix != ".sqlite"}
    assert left == before


def start(argv, **options):
    argv = [sys.executable, "-m", "dptopk", *map(str, argv)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_no_room_on_the_disk_is_found_before_the_charge(events, tmp_path):
    """A limit on the size of files stands in for a disk that is full."""
    resource = pytest.importorskip("resource")

    def small():
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    process = start(["select", events, *BUDGET, "--html", tmp_path / "r.html"], preexec_fn=small)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, b"")
    assert b"can't be written (File too large)" in err
    assert os.listdir(tmp_path) == ["events.csv"]


def test_a_page_that_fails_after_all_costs_nobody_the_items(events, tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.html"
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    code = main(["select", str(events), "-k", "2", *BUDGET, "-q", "--html", str(path)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "tea\n<b>ale\n")
    assert f"--html {path}: it could not be written (No space)" in err
    assert os.listdir(tmp_path) == ["events.csv"]


@pytest.mark.posix
def test_ctrl_c_leaves_no_file(tmp_path):
    """While it waits for a pipe that says nothing."""
    import signal

    argv = warm.cli("select", "-", *BUDGET, "--html", tmp_path / "r.html")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(argv, **pipes)
    until = time.monotonic() + 120
    while not os.listdir(tmp_path) and time.monotonic() < until:
        time.sleep(0.02)
    assert [name.startswith(".r.html.") for name in os.listdir(tmp_path)] == [True]
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert os.listdir(tmp_path) == []
