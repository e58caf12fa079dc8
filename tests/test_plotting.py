"""Pictures: they show what was released, labels as they stand, in colours that all can tell."""

import io
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from hostile import HOSTILE  # noqa: E402
from matplotlib import pyplot  # noqa: E402

import dptopk as dp  # noqa: E402
from dptopk.plotting.axes import COLOURS, LONGEST  # noqa: E402
from dptopk.plotting.released import ROWS  # noqa: E402

COUNTS = np.array([900, 3, 700, 5])
PLAIN = dp.peel(COUNTS, k=2, epsilon=9.0)
COUNTED = dp.noisy_counts(PLAIN, COUNTS, epsilon=9.0)
SET = dp.oneshot(COUNTS, k=2, epsilon=9.0)
NOTHING = dp.top_stable([1, 1, 1], k=2, epsilon=1.0, delta=1e-9)
WINS = [[0, 9000, 9900], [1000, 0, 9500], [100, 500, 0]]
RANKED = dp.rank_pairs(WINS, k=2, epsilon=1.0, degree=2, comparisons_per_pair=10_000)
WEIGHTS = dp.Histogram.from_weights(
    COUNTS << 20, ["a", "b", "c", "d"], soft_cap=1, max_items_per_user=3
)
WEIGHTED = dp.weighted(WEIGHTS, k=2, epsilon=9.0, delta=1e-6, release_weights=True)
GROUPED = dp.Histograms([[900, 3, 700], [2, 3, 4]], groups=["<x>", "$y$"], max_groups_per_user=1)
BY_GROUP = dp.limited_domain(GROUPED, k=2, epsilon=2, delta=1e-9)
GROUPS_COUNTED = dp.noisy_counts(BY_GROUP, GROUPED, epsilon=1)
ALL = {
    "plain": PLAIN, "counted": COUNTED, "set": SET, "nothing": NOTHING, "ranked": RANKED,
    "weighted": WEIGHTED, "groups": BY_GROUP, "groups counted": GROUPS_COUNTED,
}  # fmt: skip
TABLE = [
    {"mechanism": name, "k": k, "epsilon": e, "recall": 0.5, "recall_se": 0.01, "returned": k}
    for name in ("peel", "$auto$") for k in (5, 10) for e in (0.5, 1.0)
]  # fmt: skip


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def bars(ax):
    return [bar.get_width() for bar in ax.patches]


def texts(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def svg(ax):
    """The figure as SVG whose texts are texts, parsed."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        ax.figure.savefig(file, format="svg")
    return ElementTree.fromstring(file.getvalue())


@pytest.mark.parametrize("name", ALL)
def test_any_release_is_drawn_on_axes_of_its_own_or_given(name):
    pyplot.close("all")  # what another file of tests left open
    ax = ALL[name].plot()
    assert isinstance(ax, matplotlib.axes.Axes)
    assert svg(ax).tag.endswith("svg")
    _, given = pyplot.subplots()
    assert ALL[name].plot(ax=given) is given
    assert pyplot.get_fignums() == [1, 2]


def test_bars_are_the_counts_that_were_released():
    ax = COUNTED.plot(confidence=0.9)
    assert bars(ax) == COUNTED.counts.tolist()
    assert texts(ax) == ["1. 0", "2. 2"]
    low, high = (line.get_xdata() for line in ax.get_lines())
    assert np.array_equal(np.stack([low, high], 1), COUNTED.intervals(0.9))
    assert ax.get_xlabel() == "users (noisy), 90% intervals"
    assert ax.get_title(loc="left").startswith("peel: epsilon = 18, delta = 0")
    assert ax.yaxis_inverted()


@pytest.mark.parametrize("name", ["plain", "set", "nothing", "groups"])
def test_without_counts_there_are_no_numbers(name):
    ax = ALL[name].plot()
    assert bars(ax) == []
    assert ax.get_xticks().size == 0
    assert ax.get_xlabel() in (
        "no counts were released: ranks only", "no counts were released: items only",
        "nothing came out",
    )  # fmt: skip


def test_a_set_has_no_ranks():
    assert texts(SET.plot()) == ["0", "2"]
    assert "in no order" in SET.plot().get_title(loc="left")


def test_the_threshold_is_a_line_where_it_is_a_number_of_the_release():
    ax = WEIGHTED.plot()
    (line,) = ax.get_lines()
    assert line.get_xdata() == [WEIGHTED.parameters["threshold"]] * 2
    assert bars(ax) == WEIGHTED.weights.tolist()
    # Those of others lie above a count of the data: a line at the number would be wrong.
    h = dp.Histogram.truncated([900, 700], ["a", "b"], next_count=3, k_bar=2)
    laplace = dp.limited_domain_laplace(
        h, k=2, epsilon=2, delta=1e-6, max_items_per_user=1, release_counts=True
    )
    assert laplace.parameters["threshold"] > 0
    assert not any("threshold" in text for text in (laplace.plot().get_xlabel(),))
    assert len(laplace.plot().get_lines()) == 2  # the ends of the intervals


def test_scores_of_a_ranking_are_scores():
    grid = RANKED.parameters["grid"]
    assert bars(RANKED.plot()) == [count / grid for count in RANKED.counts.tolist()]
    assert RANKED.plot().get_xlabel().startswith("score (noisy)")


def test_groups_stand_below_each_other():
    ax = GROUPS_COUNTED.plot()
    assert texts(ax) == ["<x>", "1. 0", "2. 2", "$y$ (nothing came out)"]
    assert bars(ax) == GROUPS_COUNTED["<x>"].counts.tolist()


def test_an_experiment_is_said_not_to_be_private():
    release = dp.peel(COUNTS, k=2, epsilon=9.0, rng=dp.SeededRng(1))
    assert "NOT PRIVATE" in release.plot().get_title(loc="left")
    assert "NOT PRIVATE" not in PLAIN.plot().get_title(loc="left")


def test_more_rows_than_one_figure_holds_are_cut_and_that_is_said():
    ax = dp.peel(np.arange(90) * 1000, k=ROWS + 1, epsilon=99.0).plot()
    assert len(texts(ax)) == ROWS
    assert f"{ROWS} of {ROWS + 1} rows" in ax.get_title(loc="left")


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_labels_stand_there_as_they_are(style):
    labels = list(HOSTILE)
    h = dp.Histogram(np.arange(len(labels), 0, -1) * 10_000, labels=labels)
    release = dp.peel(h, k=len(labels), epsilon=999.0)
    with pyplot.style.context(style):
        root = svg(release.plot())
    found = {"".join(node.itertext()) for node in root.iter() if node.tag.endswith("}text")}
    for rank, (label, seen) in enumerate(HOSTILE.items(), 1):
        wanted = f"{rank}. {seen}"
        if len(wanted) > LONGEST:
            wanted = wanted[: LONGEST - 1] + "…"
        assert wanted.rstrip() in {text.rstrip() for text in found}, label


def luminance(colour):
    return sum(
        share * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for share, c in zip((0.2126, 0.7152, 0.0722), matplotlib.colors.to_rgb(colour), strict=True)
    )


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_are_seen_on_white_and_on_black(colour):
    own = luminance(colour) + 0.05
    assert min(1.05 / own, own / 0.05) >= 3  # WCAG 2, 1.4.11


# ---- costs and accuracy


def test_costs_are_those_of_the_accounting():
    ax = dp.plot_costs([1, 10], epsilon=2.0, delta=1e-5)
    by_name = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    assert set(by_name) == set(dp.accounting.METHODS) - {"best"}
    for name, drawn in by_name.items():
        assert list(drawn) == [dp.accounting.step_epsilon(2.0, k, 1e-5, name) for k in (1, 10)]
    styles = {
        (line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.get_lines()
    }
    assert len(styles) == len(by_name)
    ax = dp.plot_costs([3], epsilon_step=0.1, methods=["zcdp"])
    assert ax.get_lines()[0].get_ydata() == [dp.accounting.total_epsilon(0.1, 3, 1e-6, "zcdp")]
    assert ax.get_ylabel() == "total epsilon"


def test_a_method_that_cannot_do_so_many_steps_has_no_point_there():
    ax = dp.plot_costs([10, 10**7], methods=["optimal", "basic"])
    optimal, basic = (line.get_ydata() for line in ax.get_lines())
    assert math.isfinite(optimal[0])
    assert math.isnan(optimal[1])
    assert np.isfinite(basic).all()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"epsilon": 1, "epsilon_step": 1}, ValueError, "not both"),
        ({"ks": 5}, TypeError, "ks must be a sequence of integers, such as"),
        ({"ks": []}, TypeError, "ks must be a sequence of integers, such as"),
        ({"ks": [0]}, ValueError, "ks must be an integer >= 1"),
        ({"ks": [1.5]}, TypeError, "ks must be an integer"),
        ({"epsilon": -1}, ValueError, "epsilon must be"),
        ({"epsilon_step": 0}, ValueError, "epsilon_step must be"),
        ({"delta": 1}, ValueError, "delta must be"),
        ({"delta": "x", "methods": ["optimal"]}, TypeError, "delta must be"),
        ({"delta": 2, "methods": ["optimal"]}, ValueError, "delta must be"),
        ({"methods": "basic"}, TypeError, "methods must be a sequence of names"),
        ({"methods": ["bassic"]}, ValueError, "method must be one of"),
        ({"ax": 5}, TypeError, "ax must be Axes of matplotlib or None, got int"),
    ],
)
def test_bad_costs(given, error, message):
    with pytest.raises(error, match=message):
        dp.plot_costs(**given)
    assert pyplot.get_fignums() == []


def frames():
    yield "rows", TABLE
    yield "columns", {name: [row[name] for row in TABLE] for name in TABLE[0]}
    for library, make in (("pandas", "DataFrame"), ("polars", "DataFrame")):
        yield library, getattr(pytest.importorskip(library), make)(TABLE)
    yield "pyarrow", pytest.importorskip("pyarrow").Table.from_pylist(TABLE)


def test_accuracy_is_drawn_of_any_table():
    drawn = {}
    for name, table in frames():
        ax = dp.plot_accuracy(table)
        drawn[name] = [(line.get_label(), list(line.get_xdata())) for line in ax.get_lines()]
        assert len(ax.collections) == 4  # the intervals
    assert all(lines == drawn["rows"] for lines in drawn.values())
    assert drawn["rows"][0] == ("peel, k = 5", [0.5, 1.0])
    assert [label for label, _ in drawn["rows"]][2] == "$auto$, k = 5"


def test_calls_of_one_mechanism_that_differ_are_curves_of_their_own():
    rows = [
        {**row, "mechanism": "weighted", "parameters": {"soft_cap": cap}}
        for cap in (1, 3)
        for row in TABLE[:2]
    ]
    labels = [line.get_label() for line in dp.plot_accuracy(rows).get_lines()]
    assert labels == ["weighted soft_cap=1", "weighted soft_cap=3"]


def test_accuracy_over_k_and_of_what_was_returned():
    ax = dp.plot_accuracy(TABLE, x="k", y="returned")
    assert ax.get_xlabel() == "k"
    assert ax.get_ylabel() == "mean items returned"
    assert list(ax.get_lines()[0].get_ydata()) == [5, 10]
    assert len(ax.collections) == 0
    one = [row for row in TABLE if row["epsilon"] == 1.0]
    assert dp.plot_accuracy(one).get_xlabel() == "k"


@pytest.mark.parametrize(
    ("table", "given", "error", "message"),
    [
        ([], {}, ValueError, "table is empty"),
        (5, {}, TypeError, "table must be a DataFrame, a dict of columns or a list of dicts"),
        ("recall", {}, TypeError, "table must be"),
        ([1, 2], {}, TypeError, "table must be"),
        ([{"k": 1}], {}, ValueError, "no column 'mechanism'; it needs mechanism, k, epsilon"),
        (TABLE, {"y": "score_ratio"}, ValueError, "no column 'score_ratio'"),
        (TABLE, {"y": "recal"}, ValueError, "y must be one of"),
        (TABLE, {"x": "delta"}, ValueError, "x must be one of"),
        ([{**TABLE[0], "recall": "much"}], {}, ValueError, "must be numbers"),
        ({"mechanism": ["a"], "k": []}, {}, ValueError, "not of one length"),
        (TABLE, {"ax": "here"}, TypeError, "ax must be Axes"),
    ],
)
def test_bad_tables(table, given, error, message):
    with pytest.raises(error, match=message):
        dp.plot_accuracy(table, **given)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: COUNTED.plot(ax=3), "ax must be Axes"),
        (lambda: COUNTED.plot(confidence="x"), "confidence must be"),
        (lambda: PLAIN.plot(confidence=1.0), "confidence must be"),
        (lambda: BY_GROUP.plot(confidence=0), "confidence must be"),
    ],
)
def test_bad_plots(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
    assert pyplot.get_fignums() == []


def test_without_matplotlib_it_is_said_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import dptopk as dp\n"
        "r = dp.peel([900, 3, 700], k=1, epsilon=1)\n"
        "r.to_html()\n"
        "for call in (r.plot, dp.plot_costs, lambda: dp.plot_accuracy([dict(mechanism='a', k=1,"
        " epsilon=1, recall=1)])):\n"
        "    try: call()\n"
        "    except ImportError as error: assert \"pip install 'dptopk[plot]'\" in str(error)\n"
        "    else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")
def test_the_figures_of_the_docs_are_there():
    """`python -m benchmarks figures` draws them; they hold texts, and nothing of a machine."""
    named = re.findall(r"\]\((figures/\w+\.svg)\)", (DOCS / "pictures.md").read_text())
    assert named
    for name in named:
        text = (DOCS / name).read_text()
        root = ElementTree.fromstring(text)
        assert any(node.tag.endswith("}text") for node in root.iter())
        assert len(text) < 50_000
        assert "<dc:date>" not in text
