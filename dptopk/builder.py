"""Histograms of events that come batch by batch, on one machine or on several."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NoReturn

from dptopk._validate import boolean, choice, integer
from dptopk.histogram import Histogram, Norm, Nulls
from dptopk.sources.batches import read_batch
from dptopk.sources.files import checked_directory
from dptopk.sources.interrupt import interruptible, stopping
from dptopk.sources.pairs import Pairs, read_header

__all__ = ["HistogramBuilder"]


class HistogramBuilder:
    """Distinct (user, item) pairs, collected batch by batch and kept exactly.

    For events that come in pieces, do not fit into memory, or are spread over
    several processes. Users may come in any order, and again in later batches
    or in other builders: what is kept and merged is pairs, never counts, of
    which one user would have two. Nothing is estimated, evicted or taken back.

    Parameters
    ----------
    user, item : str
        Names of the columns, in every batch.
    directory : path, optional
        An existing directory for what does not fit into memory. The builder
        makes a folder in it that only you can read, and removes it when it is
        closed. It holds private events, not encrypted; if the process is killed
        outright it stays. By default no file is ever written, and what does not
        fit is an error.
    memory_limit : str, optional
        Such as "2GB": what the pairs may take; by default 80% of the machine's.
    sorted_by_user : bool, default False
        Whether all events come in ascending order of their users, text by its
        bytes. Then a pair is final as soon as its user is past. It is checked:
        an event of a user before the last one is refused.
    nulls : {"error", "drop"}, default "error"
        Whether a row whose user or item is null is an error, or is left out.

    Raises
    ------
    ImportError
        If DuckDB, narwhals or PyArrow are not installed
        (``pip install 'dptopk[builder]'``).
    TypeError, ValueError
        If an argument is not as described.

    See Also
    --------
    Histogram.from_files : files that are there already; it writes to a directory, too.

    Notes
    -----
    Each kind of label is fixed by the first batch that has one, and checked in
    each later one. A method that raises has changed nothing, but that Ctrl-C
    may come when a batch is just in; to add it again does no harm, unless you
    use `min_events`.

    Use it in a ``with`` statement. Threads may share a builder, they take
    turns; processes may not: save, load and merge.

    Examples
    --------
    >>> import dptopk as dp
    >>> with dp.HistogramBuilder(user="who", item="what") as builder:
    ...     builder.add({"who": [1, 1, 2], "what": ["tea", "jam", "tea"]})
    ...     builder.add({"who": [2, 1], "what": ["tea", "tea"]})
    ...     h = builder.histogram(k_bar=10)
    >>> h.labels, h.counts.tolist()
    (('tea', 'jam'), [2, 1])
    """

    def __init__(
        self,
        *,
        user: str,
        item: str,
        directory: str | os.PathLike[str] | None = None,
        memory_limit: str | None = None,
        sorted_by_user: bool = False,
        nulls: Nulls = "error",
    ):
        for name, value in (("user", user), ("item", item)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be the name of a column, got {type(value).__name__}")
        if user == item:
            raise ValueError("user and item must be two different columns")
        self._nulls = choice("nulls", nulls, ("error", "drop"))
        in_order = boolean("sorted_by_user", sorted_by_user)
        folder = None if directory is None else checked_directory(directory, "directory")
        try:
            import pyarrow  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
        except ImportError:
            raise ImportError("a builder needs PyArrow: pip install 'dptopk[builder]'") from None
        self._lock = threading.Lock()
        self._pairs = Pairs(
            (user, item), directory=folder, memory_limit=memory_limit, in_order=in_order
        )

    def add(self, batch: Any) -> None:
        """Add a batch of events.

        Parameters
        ----------
        batch : table, record batch, relation or plain container
            What `Histogram.from_events` takes, and PyArrow record batches; its
            rows in any order, unless the builder is `sorted_by_user`.

        Raises
        ------
        SourceError
            As in `Histogram.from_events`; if a column is of another kind than
            in the batches before, or does not ascend where it should; and for
            labels that can't be stored: tuples, numbers of more than 38 digits,
            text that UTF-8 can't write. No value of the data is in the message.
        TypeError
            If it is no batch of events.
        ValueError
            If the builder is closed.

        Examples
        --------
        >>> import dptopk as dp
        >>> builder = dp.HistogramBuilder(user="user", item="item")
        >>> builder.add([("ann", "tea"), ("bob", "tea")])
        >>> builder.add([(7, "tea")])
        Traceback (most recent call last):
        dptopk.errors.SourceError: column 'user' is of kind integer, and of kind text in the \
batches before: equal labels would not meet; make the batches of one type
        >>> builder.close()
        """
        self._pairs.check_usable()
        read = interruptible(lambda: read_batch(batch, *self._pairs.names, self._nulls))
        self._do(lambda: self._pairs.add(read))

    def extend(self, batches: Iterable[Any]) -> None:
        """Add batches one by one, as an iterator or a PyArrow reader gives them.

        Where one is refused, those before it are in.

        Parameters
        ----------
        batches : iterable
            Of what `add` takes.

        Raises
        ------
        TypeError
            If it is one batch, or nothing to go through.
        SourceError, ValueError
            As in `add`.
        """
        if isinstance(batches, (str, bytes, dict)) or hasattr(batches, "columns"):
            raise TypeError(f"extend takes batches, and add one; got {type(batches).__name__}")
        for batch in batches:
            self.add(batch)

    def merge(self, other: HistogramBuilder | str | os.PathLike[str]) -> None:
        """Add the pairs of another builder, or of a file that one has saved.

        Parameters
        ----------
        other : HistogramBuilder or path
            With columns of the same kinds; what they are called does not
            matter. It stays as it is.

        Raises
        ------
        TypeError
            If it is something else. Histograms can't be merged: they hold
            counts, and a user of two of them would count twice.
        ValueError
            If this builder is `sorted_by_user`, as pairs come in no order; is
            the other one, or is closed.
        SourceError
            If the kinds differ, or the file is none of a builder.
        """
        if self._pairs.in_order:
            raise ValueError("a builder that is sorted_by_user takes no pairs of others; merge it "
                             "into one that is not")  # fmt: skip
        if isinstance(other, Histogram):
            raise TypeError(
                "a Histogram can't be merged: it holds counts, and a user of two of them would "
                "count twice; merge builders, which hold pairs"
            )
        if isinstance(other, (str, os.PathLike)):
            file = read_header(os.fspath(other))
            self._do(lambda: self._pairs.load(file))
            return
        if not isinstance(other, HistogramBuilder):
            raise TypeError(f"merge takes a builder or its file, got {type(other).__name__}")
        if other is self:
            raise ValueError("a builder can't be merged with itself")

        other._pairs.check_usable()
        self._do(lambda: self._pairs.merge(other._pairs), other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pairs to a file, for `load` or for `merge` in another process.

        A Parquet file of private data that only its owner can read; it stands
        there whole, or not at all.

        Parameters
        ----------
        path : path
            A file that is there already is replaced.

        Raises
        ------
        OSError
            If it can't be written.
        """
        name = os.fspath(path)
        if not isinstance(name, str):
            raise TypeError("path must be a text or a path of text")
        self._do(lambda: self._pairs.save(name))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        directory: str | os.PathLike[str] | None = None,
        memory_limit: str | None = None,
        nulls: Nulls = "error",
    ) -> HistogramBuilder:
        """Return a builder with the pairs of a file that another one has saved.

        Parameters
        ----------
        path : path
            The file.
        directory, memory_limit, nulls
            As of a new builder.

        Returns
        -------
        HistogramBuilder

        Raises
        ------
        SourceError
            If it is not such a file.

        Examples
        --------
        >>> import dptopk as dp, os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> part = os.path.join(folder.name, "monday")
        >>> with dp.HistogramBuilder(user="user", item="item") as monday:
        ...     monday.add([("ann", "tea"), ("bob", "tea")])
        ...     monday.save(part)
        >>> with dp.HistogramBuilder.load(part) as week:
        ...     week.add([("ann", "tea"), ("ann", "jam")])
        ...     week.histogram(domain=["ink", "jam", "tea"]).counts.tolist()
        [0, 1, 2]
        >>> folder.cleanup()
        """
        file = read_header(os.fspath(path))
        builder = cls(
            user=file.names[0],
            item=file.names[1],
            directory=directory,
            memory_limit=memory_limit,
            nulls=nulls,
        )
        try:
            builder.merge(path)
        except BaseException:
            builder.close()
            raise
        return builder

    def histogram(
        self,
        *,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        progress: bool | Callable[[], float] = False,
    ) -> Histogram:
        """Count the distinct users of each item, over all events that were added.

        It is what `Histogram.from_events` gives of all of them in one table. The
        builder stays as it is, and can go on. Each histogram is exact; what is
        released of it has its own cost, as a user is in all of them.

        Parameters
        ----------
        domain, k_bar, max_items_per_user, soft_cap, norm
            As in `Histogram.from_events`.
        min_events, hash_key, bounded_by_nature, progress
            As in `Histogram.from_events`.

        Returns
        -------
        Histogram

        Raises
        ------
        TypeError, ValueError, SourceError
            As in `Histogram.from_events`.
        """
        min_events = integer("min_events", min_events)
        user, item = self._pairs.names
        result: Histogram = self._do(
            lambda: Histogram.from_events(
                self._pairs.keyed(min_events),
                user=user,
                item=item,
                domain=domain,
                k_bar=k_bar,
                max_items_per_user=max_items_per_user,
                soft_cap=soft_cap,
                norm=norm,
                hash_key=hash_key,
                bounded_by_nature=bounded_by_nature,
                progress=self._pairs.progress if progress is True else progress,
            )
        )
        return result

    def close(self) -> None:
        """Forget all pairs, and remove what was written to the directory."""
        if self._pairs.is_ours:  # in a forked process somebody may hold the lock for ever
            with self._lock:
                self._pairs.close()

    def _do(self, work: Callable[[], Any], *others: HistogramBuilder) -> Any:
        """Do what needs the pairs, when nobody else is at them."""
        builders = sorted({self, *others}, key=id)  # in one order: nobody waits in a circle

        def alone() -> Any:
            with contextlib.ExitStack() as stack:
                for builder in builders:
                    stack.enter_context(builder._lock)
                    builder._pairs.check_usable()
                return work()

        self._pairs.check_usable()
        with stopping(self._pairs.interrupt):
            return interruptible(alone)

    def __enter__(self) -> HistogramBuilder:
        self._pairs.check_usable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a builder can't be pickled: save it to a file, which another loads")

    def __repr__(self) -> str:
        user, item = self._pairs.names
        state = "" if self._pairs.close.alive else ", closed"
        return f"HistogramBuilder(user={user!r}, item={item!r}{state})"
