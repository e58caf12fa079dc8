"""Rows that came out, handed on as JSON and as a frame of any library."""

from __future__ import annotations

from typing import Any

from dptopk._show import BACKENDS, Backend, frame, json_of
from dptopk._validate import choice

__all__ = ["Framed"]


class Framed:
    """What stands in a table: its `columns`, by name and of equal length."""

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns by name."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return `to_dict` as one line of JSON; labels that JSON lacks are written as text."""
        return json_of(self.to_dict())

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return a frame of `columns`.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            The library whose frame it is; it must be installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table

        Raises
        ------
        ImportError
            If the library is not installed.
        ValueError
            If `backend` is none of these.
        """
        return frame(self.columns(), choice("backend", backend, BACKENDS))
