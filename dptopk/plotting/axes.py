"""Axes of matplotlib, colours, and texts that are drawn as they stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "COLOURS",
    "INTERVAL",
    "LITERAL",
    "LONGEST",
    "MARKS",
    "STROKES",
    "axes",
    "cut",
    "legend",
    "logarithmic",
]

#: Four colours that the colour-blind tell apart (Okabe and Ito 2008), each with a contrast of 3
#: or more to white and to black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
STROKES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
#: Of text from outside: `$` begins no formula, a backslash no command of TeX.
LITERAL = {"parse_math": False, "usetex": False}
LONGEST = 32  # characters of a label
TICKS = 12  # that one axis has room for
INTERVAL = 1.96  # standard errors of a mean on either side, for 95%


def axes(ax: Any, width: float, height: float) -> Any:
    """Return the axes given, or those of a new figure of this size in inches."""
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'dptopk[plot]'") from None
    if ax is None:
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be Axes of matplotlib or None, got {type(ax).__name__}")
    return ax


def cut(text: str) -> str:
    """Return a text that is short enough for an axis."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def legend(ax: Any, *, outside: bool, title: str | None = None) -> None:
    """Name what was drawn, names as they stand; beside the axes on a figure of our own."""
    where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if outside else {}
    for text in ax.legend(frameon=False, title=title, **where).get_texts():
        text.set(**LITERAL)


def logarithmic(ax: Any, values: Iterable[float]) -> None:
    """Lay x out by its logarithm, with ticks at these values if there is room for them."""
    ax.set_xscale("log")
    ticks = sorted(set(values))
    if len(ticks) <= TICKS:
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks([], minor=True)
