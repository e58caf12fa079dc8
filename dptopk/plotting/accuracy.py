"""`plot_accuracy`: the table of a simulation as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dptopk._validate import choice
from dptopk.plotting.axes import COLOURS, INTERVAL, MARKS, STROKES, axes, cut, legend, logarithmic
from dptopk.plotting.measured import name_of

__all__ = ["plot_accuracy"]

WORDS = {"recall": "recall", "score_ratio": "score ratio", "returned": "items returned"}


def plot_accuracy(
    table: Any,
    *,
    y: Literal["recall", "score_ratio", "returned"] = "recall",
    x: Literal["epsilon", "k"] | None = None,
    ax: Any = None,
) -> Any:
    """Draw how much of the top k comes out, by mechanism, over epsilon or k.

    Parameters
    ----------
    table : DataFrame, mapping of columns, or sequence of mappings
        What ``simulate`` returns, or any rows with "mechanism", "k", "epsilon" and what is
        drawn. A column named as `y` with "_se" behind it holds standard errors of the
        means, of which a 95% interval is drawn.
    y : {"recall", "score_ratio", "returned"}
        What to draw.
    x : {"epsilon", "k"}, optional
        Over what; by default epsilon, if there is more than one of them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError
        If `table` is no table.
    ValueError
        If it is empty, lacks a column or holds what is no number.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import dptopk as dp
    >>> rows = [{"mechanism": "peel", "k": 10, "epsilon": e, "recall": r, "recall_se": 0.01}
    ...         for e, r in [(0.5, 0.8), (1.0, 0.95)]]
    >>> ax = dp.plot_accuracy(rows)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epsilon', 'mean recall')
    """
    y = choice("y", y, WORDS)
    rows = _rows(table)
    if not rows:
        raise ValueError("the table is empty: there is nothing to draw")
    for name in ("mechanism", "k", "epsilon", y):
        if any(name not in row for row in rows):
            raise ValueError(
                f"the table has no column {name!r}; it needs mechanism, k, epsilon and {y}"
            )
    if x is None:
        x = "epsilon" if len({row["epsilon"] for row in rows}) > 1 else "k"
    over = choice("x", x, ("epsilon", "k"))
    other = "k" if over == "epsilon" else "epsilon"
    several = len({row[other] for row in rows}) > 1
    named = _names(rows)
    curves: dict[tuple[str, Any], list[tuple[float, float, float]]] = {}
    for row, name in zip(rows, named, strict=True):
        curve = name, (row[other] if several else None)
        try:
            point = float(row[over]), float(row[y]), float(row.get(f"{y}_se", math.nan))
        except (TypeError, ValueError):
            raise ValueError(f"{over}, {y} and its error must be numbers") from None
        curves.setdefault(curve, []).append(point)
    own, ax = ax is None, axes(ax, 8.0, 4.2)
    mechanisms = list(dict.fromkeys(mechanism for mechanism, _ in curves))
    values = list(dict.fromkeys(value for _, value in curves))
    for (mechanism, value), points in curves.items():
        place, stroke = mechanisms.index(mechanism), values.index(value)
        xs, ys, errors = zip(*sorted(points), strict=True)
        colour = COLOURS[place % len(COLOURS)]
        said = cut(mechanism) if value is None else f"{cut(mechanism)}, {other} = {value:g}"
        # A name that begins with "_" would be left out of the legend.
        ax.plot(
            xs,
            ys,
            label=f" {said}" if said.startswith("_") else said,
            color=colour,
            linestyle=STROKES[(stroke + place // len(COLOURS)) % len(STROKES)],
            marker=MARKS[place % len(MARKS)],
            markersize=5,
        )
        if not any(map(math.isnan, errors)):
            ends = [(m - INTERVAL * e, m + INTERVAL * e) for m, e in zip(ys, errors, strict=True)]
            ax.fill_between(xs, *zip(*ends, strict=True), color=colour, alpha=0.2, linewidth=0)
    logarithmic(ax, [float(row[over]) for row in rows])
    ax.set_xlabel(over)
    ax.set_ylabel(f"mean {WORDS[y]}")
    if y != "returned":
        ax.set_ylim(-0.02, 1.02)
    ax.spines[["top", "right"]].set_visible(False)
    legend(ax, outside=own)
    return ax


def _names(rows: list[Mapping[str, Any]]) -> list[str]:
    """Return whose curve each row is of: a mechanism, with what tells two of its calls apart."""
    names = [name_of(row["mechanism"]) for row in rows]
    calls = [_said(row.get("parameters")) for row in rows]
    of_each: dict[str, set[str]] = {}
    for name, call in zip(names, calls, strict=True):
        of_each.setdefault(name, set()).add(call)
    return [
        f"{name} {call}" if len(of_each[name]) > 1 else name
        for name, call in zip(names, calls, strict=True)
    ]


def _said(parameters: Any) -> str:
    if isinstance(parameters, Mapping):
        return ", ".join(f"{name_of(name)}={name_of(value)}" for name, value in parameters.items())
    return "" if parameters is None else name_of(parameters)


def _rows(table: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a table of any library as mappings."""
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        return list(table)
    if hasattr(table, "to_pylist"):  # PyArrow
        return list(table.to_pylist())
    if hasattr(table, "to_dicts"):  # Polars
        return list(table.to_dicts())
    if hasattr(table, "columns") and hasattr(table, "to_dict"):  # pandas
        return list(table.to_dict("records"))
    if isinstance(table, Mapping):
        columns = {name: list(column) for name, column in table.items()}
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("the columns of the table are not of one length")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    raise TypeError("table must be a DataFrame, a dict of columns or a list of dicts")
