"""The tables of mechanisms and noises say what the code does, in every place that names them."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import dptopk as dp
from dptopk import _core, discrete
from dptopk.mechanisms.table import DISCRETE_NOISES, MECHANISMS, NOISES

ROOT = Path(__file__).parents[1]
ENOUGH = {
    "k": 2, "epsilon": 1.0, "delta": 1e-3, "max_items_per_user": 2, "scale": 1.0,
    "threshold": 2, "distance": 3, "stop": "unstable", "degree": 2, "comparisons_per_pair": 3,
    "mechanism_epsilon": 0.5,
}  # fmt: skip
COUNTS = np.array([900, 3, 700, 0, 5])
FIRST = {
    "restricted": (lambda h, k: range(k), COUNTS),
    "noisy_counts": (dp.peel(COUNTS, k=2, epsilon=1), COUNTS),
    "stable_release": ("ant",),
    "stable_queries": ([("ant", 3)],),
    "rank_pairs": ([[0, 2, 1], [1, 0, 3], [2, 0, 0]],),
    "weighted": (
        dp.Histogram.from_weights(COUNTS << 20, soft_cap=1, norm="l1", domain_is_public=True),
    ),
}
#: Names of the package that are called, and no mechanisms: all others must stand in the table.
OTHERS = {"argtopk", "count_sets", "plan", "plot_accuracy", "plot_costs", "simulate", "topk",
          "trials", "verify", "zipf"}  # fmt: skip


def arguments(name):
    return inspect.signature(getattr(dp, name)).parameters


def run(name, first=None, **changes):
    """Call a mechanism with what it needs and no more."""
    given = {
        argument: ENOUGH[argument]
        for argument, its in arguments(name).items()
        if its.kind is its.KEYWORD_ONLY and argument in ENOUGH
        and (its.default is its.empty or argument in ("epsilon", "max_items_per_user"))
    }  # fmt: skip
    if "k" in arguments(name):
        given["k"] = 2
    if name == "restricted":
        given["mechanism_epsilon"] = 0.5
    return getattr(dp, name)(*(first or FIRST.get(name, (COUNTS,))), **{**given, **changes})


def test_every_function_is_in_the_table_or_no_mechanism():
    functions = {name for name in dp.__all__ if inspect.isfunction(getattr(dp, name))}
    assert functions - OTHERS == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_delta_is_as_in_the_signature(name):
    its = arguments(name).get("delta")
    found = "none" if its is None else "required" if its.default is its.empty else "optional"
    assert found == MECHANISMS[name].delta
    assert found != "optional" or its.default == 0.0


@pytest.mark.parametrize("name", MECHANISMS)
def test_options_are_those_of_the_signature(name):
    every, its = arguments(name), MECHANISMS[name]
    if its.command:
        assert its.domain  # else a file of events alone would not do
        options = {"k_bar", "max_items_per_user", "noise"} & set(every)
        assert set(its.options) == options
        assert (its.rows is not None) == (its.domain == "any" and not its.weights)
    else:
        assert its.options == ()


@pytest.mark.parametrize("name", MECHANISMS)
def test_noises_are_those_that_are_taken(name):
    its = MECHANISMS[name]
    assert bool(its.noises) == ("noise" in arguments(name))
    if its.noises:
        assert arguments(name)["noise"].default in (its.noises[0], None)
    for noise in its.noises:
        bound = {"delta": 1e-3, "max_items_per_user": 2} if noise in ("gaussian", "shared") else {}
        scores = name == "noisy_topk"
        assert run(name, noise=noise, **({} if scores else bound)) is not None
    for noise in {*NOISES, "lapalce"} - set(its.noises) if its.noises else ():
        with pytest.raises(ValueError, match=r"^noise must be one of"):
            run(name, noise=noise)


UNKNOWN = dp.Histogram.truncated([900, 700, 9], ["a", "b", "c"], next_count=1, k_bar=3)


def run_on(counts, name):
    if MECHANISMS[name].weights and isinstance(counts, dp.Histogram):
        counts = dp.Histogram.from_weights(
            counts.counts << 20, counts.labels, soft_cap=1, domain_is_public=counts.known_domain
        )
    first = (FIRST[name][0], counts) if name == "restricted" else (counts,)
    return run(name, first, **({"delta": 1e-3} if MECHANISMS[name].weights else {}))


@pytest.mark.parametrize("name", [n for n, its in MECHANISMS.items() if its.domain])
def test_domain_and_order_are_as_said(name):
    its = MECHANISMS[name]
    if its.domain == "known":
        with pytest.raises(dp.UnknownDomainError):
            run_on(UNKNOWN, name)
    else:
        assert run_on(UNKNOWN, name).indices is None
    assert its.order == "either" or run(name).ordered == (its.order == "ordered")


@pytest.mark.parametrize("name", [n for n, its in MECHANISMS.items() if its.domain])
def test_scores_are_taken_where_it_is_said(name):
    scores = np.array([9.5, -3.0, 700.0])
    if MECHANISMS[name].scores:
        assert len(run_on(scores, name)) > 0
    else:
        wanted = "Histogram" if MECHANISMS[name].weights else "counts must be an array of integers"
        with pytest.raises(TypeError, match=wanted):
            run_on(scores, name)


@pytest.mark.parametrize("name", [n for n, its in MECHANISMS.items() if its.domain])
def test_a_release_says_whether_it_is_by_counts_of_users(name):
    """What a user may move by more than 1, or either way, gets no noisy counts."""
    assert run(name).by_counts
    if "sensitivity" in arguments(name):
        for changes in ({"sensitivity": 1.5}, {"monotone": False}):
            release = run(name, **changes)
            assert not release.by_counts
            with pytest.raises(ValueError, match=r"^the release is not by counts of users"):
                dp.noisy_counts(release, COUNTS, epsilon=1.0)
        assert run(name, sensitivity=0.5).by_counts


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_session_has_it_or_says_why_not(name):
    session = dp.Session(k_star=5, calls=5, epsilon=1.0, delta=1e-6)
    reason = MECHANISMS[name].no_session
    if reason:
        with pytest.raises(AttributeError, match=f"^{name} can't be called through a session: "):
            getattr(session, name)
    else:
        assert callable(getattr(session, name))
        assert MECHANISMS[name].bounded_range


# ---- the table in README.md


def rows_of_readme():
    text = (ROOT / "README.md").read_text().split("## Mechanisms", 1)[1].split("\n\n")[1]
    for line in text.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`(\w+)`", cells[0]):
            yield (
                name,
                dict(zip(("releases", "domain", "noise", "guarantee"), cells[1:], strict=True)),
            )


README = dict(rows_of_readme()) if (ROOT / "README.md").exists() else {}


def test_the_readme_names_every_mechanism():
    families = {"restricted": "restricted_gumbel"}
    of_a_family = {n for n in MECHANISMS if any(n.startswith(f + "_") for f in families)}
    assert set(README) >= set(MECHANISMS) - of_a_family
    assert set(README) <= set(MECHANISMS)


@pytest.mark.parametrize("name", README)
def test_the_readme_says_what_the_table_says(name):
    row, its = README[name], MECHANISMS[name]
    if its.domain:
        assert row["domain"] == its.domain
        said = {word for word in ("set", "order") if word in row["releases"]}
        if its.order == "either" and its.command:
            assert said == {"set", "order"}
        elif said:  # not of one item, nor by reference to another row
            assert said == {"set" if its.order == "set" else "order"}
        assert ("delta" in row["guarantee"] or "composed" in row["guarantee"]) == (
            its.delta != "none"
        )
    for noise in its.noises:
        assert noise in row["noise"].lower()


# ---- noises: the C enumeration, the binding, the race, the references


def enumerated(first):
    text = (ROOT / "csrc" / "dptk.h").read_text()
    (names,) = re.findall(r"enum \{ (" + first + r"[^}]*) \}", text)
    return [name.strip() for name in names.split(",")]


def test_noises_are_the_same_in_every_layer():
    from dptopk.reference import noise, race

    names = [f"DPTK_{name.upper()}" for name in NOISES]
    assert enumerated("DPTK_GUMBEL") == names
    assert {name: i for i, name in enumerate(NOISES)} == _core.NOISES
    assert tuple(noise.LAWS) == NOISES
    assert set(race.LAWS) == set(NOISES)


def test_integer_noises_are_the_same_in_every_layer():
    from dptopk.reference import discrete as reference

    names = [f"DPTK_DISCRETE_{name.upper()}" for name in DISCRETE_NOISES]
    assert enumerated("DPTK_DISCRETE_LAPLACE") == names
    assert {name: i for i, name in enumerate(DISCRETE_NOISES)} == _core.DISCRETE
    assert set(reference.SAMPLERS) == set(DISCRETE_NOISES) == set(discrete.NOISES)
