"""Distinct (user, item) pairs, kept exactly while batches of events come in.

They stand as keys in a DuckDB of their own. Past its memory limit it writes to a
directory that the caller named, in a folder of its own that only the owner can
read and that is removed at the end; where none was named nothing is written.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from typing import Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources.batches import Batch, Held, held_with
from dptopk.sources.files import closed, connect
from dptopk.sources.keys import Keyed, in_engine
from dptopk.sources.labels import Kind
from dptopk.sources.paths import checked, literal
from dptopk.sources.readers import rows_of

__all__ = ["Pairs", "Saved", "read_header"]

Both = tuple[Held | None, Held | None]

_FORMAT = 1
_HEADER = "dptopk_pairs"
_COLUMNS = ('"user"', '"item"')
# Repeated pairs are put together when there are so many rows, and four times what was left then.
_FIRST, _GROWTH = 4_000_000, 4


class Saved(NamedTuple):
    """A file of pairs: its path, the names of the two columns, and how they are held."""

    path: str
    names: tuple[str, str]
    held: Both


class Pairs:
    """Pairs of users and items, and how many events there were of each.

    Not for several threads at once.
    """

    def __init__(
        self,
        names: tuple[str, str],
        *,
        directory: str | None = None,
        memory_limit: str | None = None,
        in_order: bool = False,
    ):
        self.names = names
        self.in_order = in_order
        self._held: Both = (None, None)
        self._types: list[str] = []  # of the tables' columns, once there are tables
        self._last: Any = None  # the user whose events may still go on
        self._limit = _FIRST
        self._process = os.getpid()
        folder = None if directory is None else tempfile.mkdtemp(prefix="dptopk-", dir=directory)
        try:
            self._con = connect(temp_directory=folder, memory_limit=memory_limit)
            self._con.execute("ATTACH ':memory:' AS kept (COMPRESS)")
        except BaseException:
            _remove(folder)
            raise
        # At the exit of the process too, but not of one that was forked from it.
        self.close = weakref.finalize(self, _close, self._con, folder, self._process)

    @property
    def is_ours(self) -> bool:
        """Whether they were made in this process, and not in one that it was forked from."""
        return os.getpid() == self._process

    def check_usable(self) -> None:
        """Refuse pairs that are closed, or of another process."""
        if not self.is_ours:
            raise ValueError(
                "a builder can't be used in a forked process: make one there, save it, and merge"
            )
        if not self.close.alive:
            raise ValueError("this builder is closed")

    def interrupt(self) -> None:
        """Ask DuckDB to stop what it does."""
        self._con.interrupt()

    def progress(self) -> float:
        """Return the percentage done of what DuckDB does, negative while it is not known."""
        return float(self._con.query_progress())

    # ---- in

    def add(self, batch: Batch) -> None:
        """Add a batch: all of it or, where it raises, nothing."""
        held = self._joined(batch.held)
        if batch.table.num_rows:
            users = batch.table.column("user")
            if self.in_order:
                _check_order(self.names[0], users, self._last)
            self._take(batch.table, "1", held)
            self._last = users[-1].as_py()
        self._held = held

    def merge(self, other: Pairs) -> None:
        """Add the pairs of another."""
        held = self._joined(other._held)
        if other._types:
            self._take(other._con.sql(other._portable()).to_arrow_reader(), "events", held)
        self._held = held

    def load(self, file: Saved) -> None:
        """Add the pairs of a file."""
        held = self._joined(file.held)
        if all(file.held):
            self._take(None, "events", held, f"read_parquet({literal(file.path)})")
        self._held = held

    def _joined(self, held: Both) -> Both:
        user, item = (
            held_with(name, before, now)
            for name, before, now in zip(self.names, self._held, held, strict=True)
        )
        return user, item

    def _take(self, rows: Any, events: str, held: Both, source: str = "incoming") -> None:
        types = [its.dtype for its in held if its is not None]
        cast = (f"CAST({c} AS {t}) AS {c}" for c, t in zip(_COLUMNS, types, strict=True))
        query = (
            f"SELECT {', '.join(cast)}, CAST(sum({events}) AS BIGINT) AS events "
            f"FROM {source} GROUP BY ALL"
        )
        if rows is not None:
            self._con.register("incoming", rows)
        try:
            in_engine(self._store, query, types)
        finally:
            if rows is not None:
                self._con.unregister("incoming")
        self._types = types

    def _store(self, rows: str, types: list[str]) -> None:
        """Store rows in one transaction."""
        run = self._con.execute
        run("BEGIN")
        try:
            self._make(types)
            if self.in_order:
                self._store_in_order(rows)
            else:
                self._put_together()
                run(f"INSERT INTO kept.pairs {rows}")
            run("COMMIT")
        except BaseException:
            run("ROLLBACK")
            raise

    def _make(self, types: list[str]) -> None:
        """Make the tables, or widen their columns."""
        for table in ("kept.pairs", "kept.open"):
            if not self._types:
                columns = ", ".join(f"{c} {t}" for c, t in zip(_COLUMNS, types, strict=True))
                self._con.execute(f"CREATE TABLE {table} ({columns}, events BIGINT)")
                continue
            for column, before, now in zip(_COLUMNS, self._types, types, strict=True):
                if before != now:
                    self._con.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {now}")

    def _store_in_order(self, rows: str) -> None:
        """Store the pairs of all users but the last, who may have more events to come."""
        run, last = self._con.execute, '(SELECT max("user") FROM kept.open)'
        run(f"INSERT INTO kept.open {rows}")
        run(
            'INSERT INTO kept.pairs SELECT "user", "item", sum(events) FROM kept.open '
            f'WHERE "user" < {last} GROUP BY ALL'
        )
        run(f'CREATE TABLE kept.rest AS FROM kept.open WHERE "user" = {last}')
        run("DROP TABLE kept.open")
        run("ALTER TABLE kept.rest RENAME TO open")

    def _put_together(self) -> None:
        """Keep each pair once, when many may be there more than once."""
        run = self._con.execute
        if _number(run("SELECT count(*) FROM kept.pairs")) > self._limit:
            run(f"CREATE TABLE kept.once AS {_GROUPED} FROM kept.pairs GROUP BY ALL")
            run("DROP TABLE kept.pairs")
            run("ALTER TABLE kept.once RENAME TO pairs")
            left = _number(run("SELECT count(*) FROM kept.pairs"))
            self._limit = max(_FIRST, _GROWTH * left)

    # ---- out

    @property
    def _rows(self) -> str:
        if not self._types:
            return '(SELECT 0 AS "user", 0 AS "item", 0 AS events LIMIT 0)'
        return f"(FROM kept.pairs UNION ALL {_GROUPED} FROM kept.open GROUP BY ALL)"

    def _portable(self) -> str:
        """Return the query of each pair once; Arrow and Parquet have no integers of 128 bits."""
        columns = (
            f"CAST({name} AS DECIMAL(38, 0)) AS {name}" if dtype == "HUGEINT" else name
            for name, dtype in zip(_COLUMNS, self._types or ["", ""], strict=True)
        )
        once = f"({_GROUPED} FROM {self._rows} GROUP BY ALL)"
        return f"SELECT {', '.join(columns)}, events FROM {once}"

    def keyed(self, min_events: int) -> Keyed:
        """Return the pairs, without those of fewer than `min_events` events, to be counted."""
        import narwhals as nw

        rows = self._rows
        if min_events > 1:
            rows = f"({_GROUPED} FROM {rows} GROUP BY ALL HAVING sum(events) >= {min_events})"
        relation = self._con.sql(f'SELECT "user", "item", CAST(0 AS TINYINT) AS "bad" FROM {rows}')
        user, item = (None if its is None else its.kind for its in self._held)
        return Keyed(nw.from_native(relation).lazy(), (user, item))

    def save(self, path: str) -> None:
        """Write the pairs to a Parquet file that only the owner can read, whole or not at all."""
        header = {
            "format": _FORMAT,
            "names": self.names,
            "held": [None if its is None else _plain(its) for its in self._held],
        }
        folder = tempfile.mkdtemp(prefix="dptopk-", dir=os.path.dirname(os.path.abspath(path)))
        try:
            part = os.path.join(folder, "pairs")
            in_engine(
                self._con.execute,
                f"COPY ({self._portable()}) TO {literal(part)} "
                f"(FORMAT parquet, KV_METADATA {{{_HEADER}: {literal(json.dumps(header))}}})",
            )
            os.chmod(part, 0o600)
            os.replace(part, path)
        finally:
            _remove(folder)


_GROUPED = 'SELECT "user", "item", CAST(sum(events) AS BIGINT) AS events'


def read_header(path: str) -> Saved:
    """Return what a file of pairs says of itself; a SourceError if it is none."""
    name = checked(path)
    query = f"SELECT value FROM parquet_kv_metadata({literal(name)}) WHERE key = '{_HEADER}'::BLOB"
    rows = rows_of(connect(), query)
    try:
        header = json.loads(rows[0][0])  # type: ignore[index]
        if header["format"] != _FORMAT:
            raise ValueError
        user, item = map(str, header["names"])
        users, items = (None if its is None else _read(its) for its in header["held"])
    except (TypeError, LookupError, ValueError):
        raise SourceError(f"{name}: not a file that a builder of this version saved") from None
    return Saved(name, (user, item), (users, items))


def _plain(held: Held) -> dict[str, Any]:
    kind = held.kind
    return {
        "kind": kind.name,
        "unit": kind.unit,
        "limits": kind.limits and list(kind.limits),
        "single": kind.single,
        "type": held.dtype,
    }


def _read(said: dict[str, Any]) -> Held:
    limits = said["limits"] and (int(said["limits"][0]), int(said["limits"][1]))
    kind = Kind(str(said["kind"]), str(said["unit"]), limits or None, bool(said["single"]))
    return Held(kind, _checked_type(str(said["type"])))


def _checked_type(dtype: str) -> str:
    if not dtype.replace("(", "").replace(")", "").replace(", ", "").isalnum():
        raise ValueError
    return dtype


def _check_order(name: str, users: Any, last: Any) -> None:
    """Refuse users that do not ascend: one could come back whose events were put together."""
    import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]

    falls = pc.any(pc.less(users.slice(1), users.slice(0, len(users) - 1))).as_py()
    if falls or (last is not None and users[0].as_py() < last):
        raise SourceError(
            f"column {name!r} does not ascend, and a user may have come back; sort the events by "
            "it, text by its bytes, or leave sorted_by_user out"
        )


def _number(result: Any) -> int:
    return int(result.fetchall()[0][0])


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _close(con: Any, folder: str | None, process: int) -> None:
    if os.getpid() == process:
        closed(con)
        _remove(folder)
