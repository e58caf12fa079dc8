"""`Release.plot` and `Releases.plot`: the items, and the noisy numbers that came out with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from dptopk._validate import probability
from dptopk.plotting.axes import COLOURS, LITERAL, axes, cut
from dptopk.plotting.measured import Measured, name_of, shown, shown_group, titled

__all__ = ["ROWS", "plot_release", "plot_releases"]

ROWS = 60  # that one figure holds


class _Row(NamedTuple):
    name: str
    value: float | None = None
    ends: Any = None
    item: bool = True


def plot_release(release: Any, ax: Any, confidence: float) -> Any:
    """Draw one release; see `Release.plot`."""
    confidence = probability("confidence", confidence, zero=False)
    measured = shown(release, confidence)
    return _draw(release, _rows(release, measured), measured, ax, confidence)


def plot_releases(releases: Any, ax: Any, confidence: float) -> Any:
    """Draw the releases of groups below each other; see `Releases.plot`."""
    confidence = probability("confidence", confidence, zero=False)
    rows, measured = [], None
    for group, release in releases.items():
        here = shown(release, confidence)
        measured = here or measured
        nothing = "" if len(release) else " (nothing came out)"
        rows.append(_Row(shown_group(group) + nothing, item=False))
        rows += _rows(release, here)
    return _draw(releases, rows, measured, ax, confidence)


def _rows(release: Any, measured: Measured | None) -> list[_Row]:
    rows = []
    for place, item in enumerate(release.items):
        name = name_of(item)
        if release.ordered:
            name = f"{place + 1}. {name}"
        if measured is None:
            rows.append(_Row(name))
        else:
            ends = None if measured.intervals is None else measured.intervals[place]
            rows.append(_Row(name, measured.values[place], ends))
    return rows


def _draw(
    released: Any, rows: list[_Row], measured: Measured | None, ax: Any, confidence: float
) -> Any:
    every, rows = len(rows), rows[:ROWS]
    ax = axes(ax, 7.0, 1.3 + 0.27 * max(2, len(rows)))
    line = ax.xaxis.label.get_color()  # that of the style in force: dark or light
    places = [place for place, row in enumerate(rows) if row.value is not None]
    if measured is None:
        dots = [place for place, row in enumerate(rows) if row.item]
        ax.plot([0.0] * len(dots), dots, "o", color=COLOURS[0], clip_on=False)
        ax.set_xlim(0, 1)
        ax.set_xticks([])
        said = "ranks" if getattr(released, "ordered", True) else "items"
        ax.set_xlabel(f"no counts were released: {said} only" if rows else "nothing came out")
    else:
        values = [float(rows[place].value) for place in places]  # type: ignore[arg-type]
        ax.barh(places, values, height=0.62, color=COLOURS[0], label=measured.title)
        ends = [[float(end) for end in rows[place].ends] for place in places if rows[place].ends]
        title = measured.title
        if ends:
            reach = list(zip(*ends, strict=True))
            ax.hlines(places, *reach, color=line, linewidth=1.4)
            for side in reach:
                ax.plot(side, places, "|", color=line, markersize=7, markeredgewidth=1.4)
            title += f", {100 * confidence:.6g}% intervals"
        if measured.threshold is not None:
            at = measured.threshold
            ax.axvline(at, color=COLOURS[1], linestyle="--", linewidth=1.6)
            title += f"; dashed: the threshold, {at:.4g}"
        ax.set_xlabel(title)
        ax.margins(x=0.04)
    ax.set_ylim(max(0, len(rows) - 1) + 0.6, -0.6)  # the first on top
    ax.set_yticks(range(len(rows)), [cut(row.name) for row in rows], **LITERAL)
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        if not row.item:
            text.set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"] if measured else ["top", "right", "bottom", "left"]].set_visible(
        False
    )
    more = f"; {ROWS} of {every} rows" if every > ROWS else ""
    order = "" if getattr(released, "ordered", True) else "; in no order"
    ax.set_title(titled(released) + order + more, loc="left", fontsize="medium", **LITERAL)
    return ax
