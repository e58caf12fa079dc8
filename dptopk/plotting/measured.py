"""What can be drawn of a release: noisy numbers that came out with its items, if any did."""

from __future__ import annotations

from typing import Any, NamedTuple

from dptopk._show import plain, printable

__all__ = ["Measured", "name_of", "shown", "shown_group", "stopped", "titled", "whom"]


class Measured(NamedTuple):
    """Noisy numbers of the items picked.

    Attributes
    ----------
    title : str
        What they are, and of what.
    values : list
        One for each item.
    intervals : list of (low, high), or None
        None where no interval can be told from what was released.
    threshold : float or None
        What values had to pass to come out, where that is a public number.
    form : str
        A format specification for each number.
    """

    title: str
    values: list[Any]
    intervals: list[Any] | None
    threshold: float | None
    form: str


def shown(release: Any, confidence: float) -> Measured | None:
    """Return the numbers that were released; None if none were."""
    if release.counts is not None:
        values = release.counts.tolist()
        intervals = release.intervals(confidence).tolist()
        grid = release.parameters.get("grid")
        if grid is None:
            return Measured("users (noisy)", values, intervals, None, "d")
        scores = [value / grid for value in values]  # of rank_pairs: shares of a walk's time
        ends = [[low / grid, high / grid] for low, high in intervals]
        return Measured("score (noisy)", scores, ends, None, ".6f")
    if release.weights is not None:
        # The thresholds of other mechanisms lie above a count of the data, or are drawn.
        threshold = release.parameters.get("threshold")
        return Measured("weight in users (noisy)", release.weights.tolist(), None, threshold, ".1f")
    return None


def name_of(label: Any) -> str:
    """Return a label as text that can stand anywhere: nothing in it moves or turns a line."""
    return printable(str(plain(label)))


def shown_group(group: Any) -> str:
    """Return a group as text; one of several columns is their parts."""
    parts = group if isinstance(group, tuple) else (group,)
    return ", ".join(map(name_of, parts))


def titled(released: Any) -> str:
    """Return what a picture shows, by whom it was picked and at which cost."""
    cost, unsafe = released.cost, "" if released.private else "; NOT PRIVATE"
    return f"{released.mechanism}: epsilon = {cost.epsilon:g}, delta = {cost.delta:g}{unsafe}"


def whom(released: Any, *, groups: bool) -> str:
    """Say whose presence a release hides: its neighbouring relation, in words."""
    if released.mechanism == "rank_pairs":
        most = released.parameters["max_comparisons_per_item"]
        if most == 1:
            return (
                "One comparison: neighbouring data sets differ in how one comparison of two items "
                "ended. Not who was compared with whom, and not a person who decided several."
            )
        return (
            "One user: neighbouring data sets differ in how the comparisons ended that one user "
            f"decided, at most {most} of each item. Not who was compared with whom."
        )
    every = " in all groups together" if groups else ""
    said = (
        f"One user: all rows of one user{every}, however many they are. Neighbouring data sets "
        "differ by one user more or less."
    )
    if all(release.by_counts for release in (released.values() if groups else [released])):
        return said
    return f"{said} That is so if one user moves each score by no more than was stated."


def stopped(released: Any) -> str:
    """Say that fewer came out than were asked for, if so, by what came out alone."""
    if hasattr(released, "complete"):
        if released.complete:
            return ""
        return (
            "Fewer items came out than were asked for: what is left is too near the cut to be "
            "told privately."
        )
    short = sum(not release.complete for release in released.values())
    if not short:
        return ""
    return (
        f"In {short} of {len(released)} groups fewer items came out than were asked for: what is "
        "left is too near the cut to be told privately."
    )
