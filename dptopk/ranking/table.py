"""Tables of comparisons: who beat whom how often, from a matrix or from rows.

Who was compared with whom, and how often, is public: a neighbouring data set
has the same comparisons, one of them with another outcome. Messages here tell
about that alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from dptopk._validate import labels_array
from dptopk.errors import StatementError

__all__ = ["MOST_TOTAL", "checked_table", "compared", "is_complete", "read_table"]

MOST_TOTAL = 2**52  # degree * comparisons_per_pair: what doubles count exactly


def read_table(
    wins: Any, *, winner: str | None, loser: str | None, items: Any
) -> tuple[Any, Sequence[Any] | np.ndarray | None]:
    """Return the table of wins, not yet checked against any statement, and the labels."""
    if winner is None and loser is None:
        matrix = _matrix(wins)
        return matrix, labels_array(items, matrix.shape[0])
    if winner is None or loser is None:
        raise TypeError("give both winner and loser, the columns of a frame, or neither")
    if items is None:
        raise TypeError(
            "rows of winners and losers need items, all there are: items read off the data "
            "are an unknown domain"
        )
    from dptopk.sources.comparisons import count_pairs

    labels, rows, columns, counts = count_pairs(wins, winner=winner, loser=loser, items=items)
    n = len(labels)
    if n < 2:
        raise ValueError(f"items must be at least 2, got {n}")
    table = sparse.coo_array((counts, (rows, columns)), shape=(n, n), dtype=np.int64)
    return sparse.csr_array(table), labels


def _matrix(wins: Any) -> Any:
    matrix: Any = wins
    if isinstance(wins, np.ma.MaskedArray):
        raise TypeError("wins must be a plain matrix, got a masked array: its mask would be lost")
    if not sparse.issparse(wins):
        try:
            matrix = np.asarray(wins)
        except ValueError:
            raise ValueError("wins must be a square matrix") from None
        if matrix.dtype == object or matrix.dtype.names is not None or matrix.dtype.kind in "SUmM":
            raise TypeError(
                "wins must be a matrix of integers; for rows of winners and losers name the "
                "columns winner and loser"
            )
    if matrix.dtype.kind not in "iu":
        raise TypeError(f"wins must be a matrix of integers, got {matrix.dtype.type.__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError("wins must be a square matrix")
    if matrix.shape[0] < 2:
        raise ValueError(f"wins must be of at least 2 items, got {matrix.shape[0]}")
    matrix = sparse.csr_array(matrix.astype(np.int64))  # what is past it becomes negative
    if matrix.nnz and (matrix.data.min() < 0 or int(matrix.data.max()) > MOST_TOTAL):
        raise ValueError("wins must be from 0 to 2**52")
    return matrix


def checked_table(wins: Any, *, degree: int, comparisons_per_pair: int) -> Any:
    """Return wins as a csr_array of int64 whose comparisons are as stated.

    Raises
    ------
    ValueError
        If `degree` times `comparisons_per_pair` is past 2^52.
    StatementError
        An item compared with itself, a pair compared another number of times,
        an item compared with more others than `degree`, or a graph that is not
        connected. All of this is public.
    """
    if degree * comparisons_per_pair > MOST_TOTAL:
        raise ValueError("degree times comparisons_per_pair must be at most 2**52")
    table = _matrix(wins)
    table.sum_duplicates()
    table.eliminate_zeros()
    if table.diagonal().any():
        raise StatementError("wins holds comparisons of an item with itself")
    graph = compared(table)
    if graph.nnz and (graph.data != comparisons_per_pair).any():
        raise StatementError(
            f"comparisons_per_pair = {comparisons_per_pair} does not hold: some pair was "
            "compared another number of times"
        )
    if int(np.diff(graph.indptr).max()) > degree:
        raise StatementError(
            f"degree = {degree} does not hold: some item was compared with more others"
        )
    if csgraph.connected_components(graph, directed=False)[0] > 1:
        raise StatementError(
            "the comparisons do not connect all items: no ranking relates those that were "
            "never compared, directly or by way of others"
        )
    return table


def compared(table: Any) -> Any:
    """Return how often each two items were compared: symmetric, what is public of a table."""
    graph = sparse.csr_array(table + table.T)
    graph.sum_duplicates()
    return graph


def is_complete(table: Any) -> bool:
    """Tell whether every item was compared with every other: public, as the graph is."""
    n = table.shape[0]
    return bool(compared(table).nnz == n * (n - 1))
