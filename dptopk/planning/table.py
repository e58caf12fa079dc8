"""Rows of a table, for other programs and for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from dptopk._framed import Framed
from dptopk._show import table

__all__ = ["Rows", "Simulation", "said"]

SHOWN = ("mechanism", "parameters", "k", "epsilon", "recall", "score_ratio", "returned")


class Rows(Framed, Sequence[Mapping[str, Any]]):
    """A table: a sequence of rows, each a mapping of the names of columns to values."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], *, caption: str):
        self._rows = tuple(dict(row) for row in rows)
        self.caption = caption

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Mapping[str, Any], ...]: ...
    def __getitem__(self, place: Any) -> Any:
        """Return a row, or those of a slice."""
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns by name; parameters as text."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return {
            name: [said(row[name]) if name == "parameters" else row[name] for row in self._rows]
            for name in names
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the caption and the rows, as plain values."""
        return {"caption": self.caption, "rows": [dict(row) for row in self._rows]}

    def texts(self) -> dict[str, list[str]]:
        """Return the columns that people read first, their numbers rounded."""
        columns = self.columns()
        return {name: [_short(x) for x in columns[name]] for name in SHOWN if name in columns}

    def _repr_html_(self) -> str:
        return table(self.texts(), self.caption)

    def __repr__(self) -> str:
        columns = [[name, *cells] for name, cells in self.texts().items()]
        wide = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()
            for row in zip(*columns, strict=True)
        ]
        return "\n".join([self.caption, *lines])


class Simulation(Rows):
    """What a mechanism finds, by epsilon and k: the table that `simulate` returns."""

    def plot(self, **options: Any) -> Any:
        """Draw what was found over epsilon or k: `dptopk.plot_accuracy`, with its arguments."""
        from dptopk.plotting import plot_accuracy

        return plot_accuracy(self, **options)


def said(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line of text."""
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
