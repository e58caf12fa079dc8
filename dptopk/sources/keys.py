"""What every engine gives: some columns as keys of labels, and errors without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources import labels
from dptopk.sources.labels import Kind

__all__ = [
    "Keyed",
    "codes",
    "find",
    "in_engine",
    "integers",
    "is_dask",
    "named",
    "no_column",
    "no_labels",
]


class Keyed(NamedTuple):
    """Two columns of keys, and those of groups, as a lazy query.

    Attributes
    ----------
    query : narwhals.LazyFrame, or a Dask DataFrame
        Columns `user`, `item`, `by_1`, ... and `bad`: 1 where the user is null, plus 2
        where the item is, plus 4 where a group is.
    kinds : (Kind or None, Kind or None)
        Of users and items; None for a column of nulls without a type.
    by : tuple of Kind or None
        Of the columns of groups.
    """

    query: Any
    kinds: tuple[Kind | None, Kind | None]
    by: tuple[Kind | None, ...] = ()

    @classmethod
    def of(cls, query: Any, kinds: Sequence[Kind | None]) -> Keyed:
        """Return it with all kinds in the order of the columns."""
        of_user, of_item, *by = kinds
        return cls(query, (of_user, of_item), tuple(by))


def named(columns: int) -> list[str]:
    """Return what the columns of keys are called.

    Examples
    --------
    >>> named(4)
    ['user', 'item', 'by_1', 'by_2']
    """
    return ["user", "item", *(f"by_{place}" for place in range(1, columns - 1))]


def codes(columns: int) -> list[int]:
    """Return what stands in `bad` for a null in each column."""
    return [1, 2, *[4] * (columns - 2)]


def is_dask(query: Any) -> bool:
    """Whether this is a Dask DataFrame; narwhals is about to leave these to a package."""
    return type(query).__module__.startswith("dask.")


def in_engine(work: Callable[..., Any], *args: Any) -> Any:
    """Call `work`; replace an engine's error, which may quote data, by one that does not."""
    try:
        return work(*args)
    except (SourceError, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        interrupted = isinstance(error, RuntimeError) and "interrupted" in str(error)
    if interrupted:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt
    # Raised out here, so that not even __context__ holds the engine's message.
    if kind in ("MemoryError", "OutOfMemoryException"):
        raise SourceError(
            "the distinct (user, item) pairs do not fit in memory; name a directory where they "
            "may go: temp_directory of files (--temp-directory), directory of a HistogramBuilder"
        )
    raise SourceError(
        "the events could not be read and counted: a malformed, cut short or non-UTF-8 row, "
        f"or a failure of the engine ({kind})"
    )


def find(names: Sequence[Any], name: Any) -> int:
    """Return the place of the column that is named exactly so."""
    places = [place for place, other in enumerate(names) if other == name]
    if len(places) > 1:
        raise SourceError(f"two columns are named {name!r}; rename one of them")
    if not places:
        columns = f"; columns: {', '.join(map(repr, names))}"
        raise SourceError(no_column(name, names) + columns)
    return places[0]


def no_column(name: str, names: Sequence[Any]) -> str:
    """Return the words for a column that is not there, with one that differs in case only."""
    alike = [other for other in names if str(other).casefold() == name.casefold()]
    return f"no column {name!r}" + (f", but {alike[0]!r}" if alike else "")


def integers(name: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a type: Int8, UInt64, ..."""
    bits = int(name.rpartition("t")[2])
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def no_labels(name: str, dtype: Any) -> SourceError:
    """Return the error of a column whose type is no kind of label."""
    return SourceError(
        f"column {name!r} is of type {dtype}, which holds no labels: they must be "
        f"{labels.ALLOWED}; cast it to text or integers"
    )
