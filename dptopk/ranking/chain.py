"""A random walk from losers to winners: its matrix, where it stays, how fast it forgets.

Nothing here is private.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph, linalg
from scipy.spatial import distance

from dptopk._validate import integer, positive, probability

__all__ = [
    "checked_chain",
    "closed_classes",
    "ergodicity_coefficient",
    "least_overlap",
    "overlap_work",
    "stationary",
    "stationary_distribution",
    "transition_matrix",
    "walk",
]

Array = npt.NDArray[np.float64]
CELLS = 2**24  # of the overlaps held at once: 128 MB
MOST_WORK = 2**34  # least_overlap: minutes
STEPS = 2000  # of the walk, before the equations are solved directly
DENSE = 8  # how much dearer an entry is in the sparse computation than in the dense one


def transition_matrix(wins: Any, *, degree: int, comparisons_per_pair: int) -> Any:
    """Return the transition matrix of Qiao, Su and Zhang 2021, equation 3.2.

    P[i, j] is the share of the comparisons of i and j that j won, over the
    degree: the walk goes from losers to winners, so it stays longest at the best.

    Parameters
    ----------
    wins : sparse or dense array of integers, shape (n, n)
        wins[i, j] is how often i beat j.
    degree : int
        d, at least the most items that any item was compared with.
    comparisons_per_pair : int
        L, the same for every pair that was compared.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (n, n)
        Rows add up to 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or `wins` is not
        such a table (see `rank_pairs`).

    Examples
    --------
    >>> from dptopk.ranking import transition_matrix
    >>> transition_matrix([[0, 3], [1, 0]], degree=1, comparisons_per_pair=4).toarray()
    array([[0.75, 0.25],
           [0.75, 0.25]])
    """
    from dptopk.ranking.table import checked_table

    degree = integer("degree", degree)
    comparisons_per_pair = integer("comparisons_per_pair", comparisons_per_pair)
    table = checked_table(wins, degree=degree, comparisons_per_pair=comparisons_per_pair)
    return walk(table, degree * comparisons_per_pair) / float(degree * comparisons_per_pair)


def walk(table: Any, total: int) -> Any:
    """Return `total` times the transition matrix, in integers: csr_array of int64."""
    losses = np.asarray(table.sum(axis=0), dtype=np.int64).ravel()
    stays = sparse.csr_array(sparse.diags(total - losses, dtype=np.int64))
    return sparse.csr_array(table.T) + stays


def stationary_distribution(
    transition: Any, *, restart: float = 0.0, tolerance: float = 1e-12
) -> Array:
    """Return the stationary distribution of a Markov chain. Not private.

    By steps of the chain; if these come too slowly, by a sparse LU
    factorisation. Either way the answer is checked: it moves by at most
    `tolerance` in a step, all states together, so that it is within
    tolerance / (1 - tau) of the true one, tau = `ergodicity_coefficient`.

    Parameters
    ----------
    transition : sparse or dense array of floats, shape (n, n)
        Rows add up to 1.
    restart : float, default 0
        The chance that a step goes to a state drawn uniformly, instead.
    tolerance : float, default 1e-12
        Roundings alone are about 1e-15 times the entries of a column.

    Returns
    -------
    ndarray of float64, shape (n,)
        Adds up to 1.

    Raises
    ------
    TypeError, ValueError
        If `transition` is no transition matrix, or has several stationary
        distributions, or an argument is out of range.
    ArithmeticError
        If the tolerance is not reached.

    Examples
    --------
    >>> from dptopk.ranking import stationary_distribution
    >>> stationary_distribution([[0.9, 0.1], [0.3, 0.7]]).round(6).tolist()
    [0.75, 0.25]
    """
    chain = checked_chain(transition)
    restart = probability("restart", restart, zero=True)
    tolerance = positive("tolerance", tolerance)
    if restart == 0.0 and closed_classes(chain) > 1:
        raise ValueError("transition has more than one stationary distribution")
    place, moved = stationary(chain, restart, tolerance)
    if not moved <= tolerance:
        raise ArithmeticError("the tolerance was not reached; choose a larger one")
    return place


def ergodicity_coefficient(transition: Any) -> float:
    """Return tau_1, half of the largest L1 distance between two rows. Not private.

    In one step the chain brings any two distributions nearer by this factor at
    least: 0 if all rows are equal, 1 if two rows have nothing in common.

    Parameters
    ----------
    transition : sparse or dense array of floats, shape (n, n)
        Rows add up to 1.

    Returns
    -------
    float
        From 0 to 1, good to about 1e-15 times the entries of a row.

    Raises
    ------
    TypeError, ValueError
        If `transition` is no transition matrix, or too large: more than 2^34
        operations, one for each column and two rows that share it.

    Notes
    -----
    tau_1 = 1 - min over i, j of sum over l of min(P[i, l], P[j, l]), which a sparse
    matrix gives column by column. Source: Ipsen and Selee 2011. (The paper on
    one-shot selection says that tau_1 is 1 at rank one; it is 0.)

    Examples
    --------
    >>> from dptopk.ranking import ergodicity_coefficient
    >>> round(ergodicity_coefficient([[0.9, 0.1], [0.3, 0.7]]), 9)
    0.6
    """
    chain = checked_chain(transition)
    if overlap_work(chain) > MOST_WORK:
        raise ValueError("transition is too large: more than 2**34 operations")
    return min(1.0, max(0.0, 1.0 - float(least_overlap(chain))))


def checked_chain(transition: Any) -> Any:
    """Return a transition matrix as a csr_array of float64; refuse what is none."""
    chain: Any = transition
    if not sparse.issparse(transition):
        try:
            chain = np.asarray(transition)
        except ValueError:
            raise ValueError("transition must be a square matrix") from None
    if chain.dtype.kind not in "biuf":
        raise TypeError(f"transition must be a matrix of floats, got {chain.dtype.type.__name__}")
    if chain.ndim != 2 or chain.shape[0] != chain.shape[1] or not chain.shape[0]:
        raise ValueError("transition must be a square matrix")
    chain = sparse.csr_array(chain.astype(np.float64))
    chain.sum_duplicates()
    if not (np.isfinite(chain.data).all() and (chain.data >= 0).all()):
        raise ValueError("transition must hold finite numbers >= 0")
    if not np.allclose(chain.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        raise ValueError("the rows of transition must add up to 1")
    return chain


# ---- the stationary distribution


def closed_classes(chain: Any) -> int:
    """Return how many sets of states there are that the chain never leaves, none in another."""
    return len(_closed_states(chain))


def _closed_states(chain: Any) -> npt.NDArray[np.int64]:
    """Return one state of each of them."""
    n, label = csgraph.connected_components(chain, directed=True, connection="strong")
    edges = chain.tocoo()
    rows, columns = edges.row, edges.col
    leaves = (label[rows] != label[columns]) & (edges.data > 0)
    closed = np.setdiff1d(np.arange(n), label[rows[leaves]])
    return np.array([(label == one).argmax() for one in closed], dtype=np.int64)


def stationary(chain: Any, restart: float, tolerance: float) -> tuple[Array, float]:
    """Return a distribution, and how far one step moves it in L1, as computed in doubles."""
    back = sparse.csr_array(chain.T)
    n = back.shape[0]
    place = np.full(n, 1.0 / n)
    for _ in range(STEPS):
        after, moved = _step(back, place, restart)
        if moved <= tolerance:
            return place, moved
        place = after
    solved = _solved(back, restart)
    for _ in range(3):  # a step also smooths the roundings of the solver
        if solved is None:
            break
        after, distance_moved = _step(back, solved, restart)
        if distance_moved < moved:
            place, moved = solved, distance_moved
        solved = after
    return place, moved


def _step(back: Any, place: Array, restart: float) -> tuple[Array, float]:
    """Return where a step leads from a distribution, and how far that is in L1."""
    after = back @ place
    if restart:
        after = (1.0 - restart) * after + restart / place.size
    return after / after.sum(), float(np.abs(after - place).sum())


def _solved(back: Any, restart: float) -> Array | None:
    """Solve for the stationary distribution by sparse LU; None if that fails."""
    n = back.shape[0]
    one = sparse.csc_array(sparse.identity(n))
    try:
        if restart:
            system = sparse.csc_array(one - (1.0 - restart) * back)
            solved = linalg.splu(system).solve(np.full(n, restart / n))
        else:
            # One state has weight 1: one that is come back to, so that all others follow from it.
            fixed = int(_closed_states(back.T)[0])
            others = np.delete(np.arange(n), fixed)
            column = sparse.csc_array(back)[:, [fixed]].toarray().ravel()
            system = sparse.csc_array((one - back)[others][:, others])
            solved = np.ones(n)
            solved[others] = linalg.splu(system).solve(column[others])
    except (RuntimeError, MemoryError):
        return None
    solved = np.maximum(solved, 0.0)
    total = solved.sum()
    return solved / total if np.isfinite(total) and total > 0 else None


# ---- the ergodicity coefficient


def overlap_work(chain: Any) -> int:
    """Return about how many operations `least_overlap` takes: from the sparsity alone."""
    n = chain.shape[0]
    sizes = np.bincount(chain.tocoo().col, minlength=n).astype(np.float64)
    return int(min(float((sizes**2).sum()), float(n) ** 3 / DENSE))


def least_overlap(chain: Any) -> Any:
    """Return min over rows i != j of sum over l of min(chain[i, l], chain[j, l]).

    Rows add up to the same, entries are at least 0. In integers it is exact,
    if the rows add up to at most 2^52. For one row alone it is what that adds up to.
    """
    n = chain.shape[0]
    columns = sparse.csc_array(chain)
    columns.sort_indices()
    least = chain[[0]].sum()
    sizes = np.diff(columns.indptr).astype(np.float64)
    dense = float((sizes**2).sum()) > float(n) ** 3 / DENSE
    rows = chain.toarray().astype(np.float64) if dense else None
    block = max(1, CELLS // n)
    for start in range(0, n, block):
        stop = min(n, start + block)
        if rows is not None:
            apart = distance.cdist(rows[start:stop], rows[start:], "cityblock")
            least = min(least, chain[[0]].sum() - chain.dtype.type(apart.max() / 2))
            continue
        shared = np.zeros((stop - start, n - start), chain.dtype)
        for low, high in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
            items, values = columns.indices[low:high] - start, columns.data[low:high]
            first, last = np.searchsorted(items, (0, stop - start))
            if first < last:
                some = np.minimum.outer(values[first:last], values[first:])
                shared[np.ix_(items[first:last], items[first:])] += some
        np.fill_diagonal(shared, least)
        # The block's own rows stand twice in it, all later ones once.
        least = min(least, shared.min())
    return least
