"""A store in a schema of a PostgreSQL server: budgets for many machines.

One table holds the lines, in a schema that is named in full in every statement: a search
path can't lead to another record. A transaction that appends to a log first takes an
advisory lock on its name, so appends to one budget take turns, and those to different budgets
don't wait for each other. Clocks of clients are only written down.

The answer to COMMIT may be lost while the transaction was committed. The store then
says so (UncertainError), and the ledger, on a new connection, waits for the lock of the
old transaction and looks whether its lines are there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dptopk.budget import fork
from dptopk.budget.sql import SqlLog
from dptopk.budget.store import Log, Store, UncertainError
from dptopk.errors import LedgerError, LedgerUnavailableError

__all__ = ["PostgresStore", "is_address"]

VERSION = 2
_PLAIN = re.compile("[a-z_][a-z0-9_]{0,62}")


def is_address(path: object) -> bool:
    """Return whether it is the address of a PostgreSQL server."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


class PostgresStore(fork.Connected, Store):
    """A schema of a database.

    Parameters
    ----------
    address : str
        How libpq reaches it: postgresql://...
    schema : str
        The schema; it and its tables are made if they do not exist.
    timeout : float
        Seconds to wait for a connection, a lock or an answer.
    """

    def __init__(self, address: str, schema: str, timeout: float):
        try:
            import psycopg
        except ImportError:
            raise ImportError(
                "a ledger in PostgreSQL needs psycopg: pip install 'dptopk[postgres]'"
            ) from None
        if not isinstance(schema, str):
            raise TypeError(f"schema must be a string, got {type(schema).__name__}")
        if not _PLAIN.fullmatch(schema):
            raise ValueError(
                "schema must be a name of small letters, digits and _, such as dptopk_ledger"
            )
        super().__init__()
        self._psycopg, self._address, self._schema = psycopg, address, schema
        self._timeout = timeout
        try:
            known = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.Error:
            raise ValueError("the address is not one of PostgreSQL") from None
        place = f"{known.get('host', '')}:{known.get('port', '')}/{known.get('dbname', '')}"
        self._name = f"postgresql://{place}, schema {schema}"  # without a password
        self._table = f"{schema}.lines"
        self._connect = _connector(psycopg)
        with fork.transaction():
            fork.opened(self)
        try:
            with self._connection() as db:
                self._prepare(db)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, names: Sequence[str] = ()) -> Iterator[Log]:
        """Run a transaction; one that writes keeps writers of the same logs out."""
        with self._connection(reads=not names) as db:

            def query(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
                fork.check()
                cursor = db.execute(statement, values)
                return [] if cursor.description is None else cursor.fetchall()

            for name in sorted(names):
                # Held until the transaction's end, also where no client waits for it any more.
                query("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._lock(name),))
            yield SqlLog(query, self._table, "%s")

    def _lock(self, name: str) -> str:
        return f"{self._schema}.{name}"

    def __repr__(self) -> str:
        return repr(self._name)

    @contextmanager
    def _connection(self, *, reads: bool = False) -> Iterator[Any]:
        """Run a transaction on a connection that no other thread is using."""
        with fork.transaction():
            if self._closed:
                raise LedgerUnavailableError("the ledger is closed")
            try:
                with self._borrowed(self._begun(_READS if reads else _WRITES)) as db:
                    yield db
            except (self._psycopg.Error, TimeoutError) as error:
                raise self._explained(error, reads) from None  # its words may quote a line

    def _begun(self, begin: str) -> Any:
        """Return a connection that has begun a transaction; idle ones may have been cut."""
        seconds = max(1, int(1000 * self._timeout))
        begin = begin.format(seconds)
        while True:
            try:
                db = self._idle.pop()
            except IndexError:
                break
            try:
                db.execute(begin)
                return db
            except (self._psycopg.Error, TimeoutError):
                db.close()
        try:
            db = self._connect.connect(
                self._address, autocommit=True, prepare_threshold=None, client_encoding="utf8",
                connect_timeout=max(2, int(self._timeout)),
            )  # fmt: skip
        except self._psycopg.Error as error:
            said = str(error).strip().partition("\n")[0]
            raise LedgerUnavailableError(f"{self._name} can't be reached ({said})") from None
        # Longer than the server waits, which can say why.
        db.seconds = self._timeout + 2.0
        try:
            (fsync, standby) = db.execute(
                "SELECT current_setting('fsync'), pg_is_in_recovery()"
            ).fetchone()
            if fsync != "on":
                raise LedgerError(f"{self._name} has fsync off: a crash would give budgets back")
            if standby:
                raise LedgerUnavailableError(f"{self._name} is a standby: it may be behind")
            db.execute(begin)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: Any) -> None:
        """Make the tables of a new schema; check the version of an old one."""
        schema = self._schema
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._lock("")])
        (there,) = db.execute("SELECT to_regclass(%s)", [f"{schema}.dptopk_ledger"]).fetchone()
        if there is not None:
            found = db.execute(f"SELECT version FROM {schema}.dptopk_ledger").fetchall()
            if found != [(VERSION,)]:
                raise LedgerError(f"{self._name} is a ledger of another version of dptopk")
            return
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for statement in _SCHEMA:
            db.execute(statement.format(schema=schema))
        db.execute(f"INSERT INTO {schema}.dptopk_ledger VALUES (%s)", [VERSION])

    def _explained(self, error: Exception, reads: bool) -> LedgerError:
        """Return an error that says what to do, without the words of the server."""
        errors = self._psycopg.errors
        state = getattr(error, "sqlstate", None)
        said = f" (SQLSTATE {state})" if state else ""
        again = (errors.UniqueViolation, errors.SerializationFailure, errors.DeadlockDetected)
        if isinstance(error, again):
            return UncertainError(f"{self._name} has undone a transaction{said}")
        if isinstance(error, (errors.QueryCanceled, errors.LockNotAvailable)):
            return LedgerUnavailableError(f"{self._name} is locked by other clients{said}")
        if isinstance(error, errors.InsufficientPrivilege):
            return LedgerUnavailableError(f"{self._name} does not let this user do that{said}")
        lost = (self._psycopg.OperationalError, self._psycopg.InterfaceError, TimeoutError)
        if isinstance(error, lost):
            kind = LedgerUnavailableError if reads else UncertainError
            return kind(f"the connection to {self._name} was lost{said}")
        return LedgerError(f"{self._name} can't be used as a ledger{said}")


# Of each transaction, as a pooler may hand on connections between them.
_LIMITS = "SET LOCAL lock_timeout = {0}; SET LOCAL statement_timeout = {0}"
_READS = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_LIMITS}"
_WRITES = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; {_LIMITS}"
)

_SCHEMA = (
    "CREATE TABLE {schema}.dptopk_ledger (version integer NOT NULL)",
    'CREATE TABLE {schema}.lines (name text COLLATE "C" NOT NULL, seq bigint NOT NULL, '
    'request_id text COLLATE "C", text text NOT NULL, body text, PRIMARY KEY (name, seq))',
    "CREATE INDEX requests ON {schema}.lines (name, request_id) WHERE request_id IS NOT NULL",
    "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the record is append-only'; END $$",
    "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.lines "
    "FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse()",
)


def _connector(psycopg: Any) -> Any:
    """Return a class of connections that do not wait for an answer for ever."""

    class Connection(psycopg.Connection):
        seconds = float("inf")

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(_within(gen, self.seconds), *args, **options)

    return Connection


def _within(gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Run what waits for a socket, but not for longer, and not on in a forked child."""
    end = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            fork.check()
            if not ready and time.monotonic() > end:
                raise TimeoutError
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value
