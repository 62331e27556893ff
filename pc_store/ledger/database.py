"""The connection to the ledger: engines, transactions, and the schema brought up to date."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from pc_store.errors import InvalidInput, StoreBusy, StoreUnavailable

_BUSY = ("database is locked", "database table is locked", "lock timeout", "deadlock detected")
_NOT_OURS = ("file is not a database", "database disk image is malformed")


class Database:
    """One ledger, SQLite or PostgreSQL. Safe to share between threads; not across a fork."""

    def __init__(self, url: str, *, wait_s: float = 30.0) -> None:
        """Connect lazily.

        Args:
            url: `sqlite:///path`, `postgresql://…`, or `postgres://…`.
            wait_s: how long a transaction waits for another's lock.

        Raises:
            InvalidInput: the URL is of another kind.
        """
        self._wait_s = wait_s
        self._engine = _sqlite(url, wait_s) if url.startswith("sqlite") else _postgres(url, wait_s)
        self.is_sqlite = self._engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A read transaction: one consistent snapshot, never waiting for writers."""
        with _reported(), self._engine.connect() as conn:
            if self.is_sqlite:
                conn.exec_driver_sql("BEGIN")
            else:
                conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield conn
            finally:
                conn.rollback()

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A write transaction: committed when the block ends, rolled back when it raises.

        Raises:
            StoreBusy: another writer kept the lock for longer than the wait.
            StoreUnavailable: the database cannot be reached.
        """
        with _reported(), self._engine.connect() as conn:
            if self.is_sqlite:
                self._begin_immediate(conn)
            try:
                yield conn
            except BaseException:
                conn.rollback()
                raise
            conn.commit()

    def _begin_immediate(self, conn: sa.Connection) -> None:
        """Take SQLite's write lock, waiting fairly.

        SQLite's own busy handler sleeps up to 100 ms between tries and starves a waiter under
        steady writers, so the wait is cut into short, jittered ones here.
        """
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                conn.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as error:
                if "locked" not in str(error.orig) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - spreads waiters, no secret

    @contextmanager
    def joined(self) -> Iterator["Database"]:
        """One write transaction as a database: whatever uses it becomes part of the transaction.

        Each `write` on it is a savepoint, each `read` sees what was written so far.

        Raises:
            StoreBusy, StoreUnavailable: as `write`.
        """
        with self.write() as conn:
            inner = _Joined(self, conn)
            yield inner
        if inner.overwrite_due:
            self.overwrite_deleted()

    def overwrite_deleted(self) -> None:
        """Bring SQLite's write-ahead log into the file and empty it; PostgreSQL does so itself.

        Deleted content is zeroed in the file as it is deleted, but the log keeps older pages.
        A reader that is at work keeps the log from being emptied; the next one does it.
        """
        if self.is_sqlite:
            with _reported(), self._engine.connect() as conn:
                conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close idle connections."""
        self._engine.dispose()

    @property
    def engine(self) -> sa.Engine:
        """For migrations and tests; everything else uses `read` and `write`."""
        return self._engine

    @property
    def label(self) -> str:
        """The URL without its password."""
        return self._engine.url.render_as_string(hide_password=True)


class _Joined(Database):
    """A transaction that poses as a database, for `Database.joined`."""

    def __init__(self, outer: Database, conn: sa.Connection) -> None:
        self._conn = conn
        self._engine = outer.engine
        self.is_sqlite = outer.is_sqlite
        self.overwrite_due = False

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        yield self._conn

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        with self._conn.begin_nested():
            yield self._conn

    def overwrite_deleted(self) -> None:
        self.overwrite_due = True

    def close(self) -> None:
        """The outer database closes."""


def is_busy(error: BaseException) -> bool:
    """Whether a database error only says that another transaction was in the way."""
    return any(words in str(error).lower() for words in _BUSY)


@contextmanager
def _reported() -> Iterator[None]:
    """Translate driver errors into the store's own; none carries a statement or a value."""
    try:
        yield
    except OperationalError as error:
        if is_busy(error.orig or error):
            raise StoreBusy("the ledger is busy: another writer did not finish in time") from error
        raise StoreUnavailable(f"the ledger cannot be used: {_first_line(error)}") from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise StoreUnavailable("the connection to the ledger was lost") from error
        if str(error.orig) in _NOT_OURS:
            raise StoreUnavailable(f"the ledger cannot be used: {_first_line(error)}") from error
        raise


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else "no answer"


def _sqlite(url: str, wait_s: float) -> sa.Engine:
    parsed = sa.make_url(url)
    if not parsed.database or parsed.database == ":memory:":
        raise InvalidInput("PC_DATABASE_URL", "needs a file: sqlite:///path/to/ledger.db")
    path = Path(parsed.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the ledger's folder cannot be made: {error.strerror}") from None
    engine = sa.create_engine(
        parsed, poolclass=sa.QueuePool, connect_args={"timeout": 0.05, "check_same_thread": False}
    )

    @sa.event.listens_for(engine, "connect")
    def _on_connect(connection, _record):  # type: ignore[no-untyped-def]
        connection.isolation_level = None  # BEGIN is ours to send
        connection.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
        # Small pages: a write touches about twenty, each in another tree. Measured, a remembered
        # entry writes 30 KB instead of 76, and ingestion is no slower.
        connection.execute("PRAGMA page_size = 1024")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 8000")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what is purged leaves no trace
        # from here on waiting is done by Database, see _begin_immediate
        connection.execute("PRAGMA busy_timeout = 50")

    return engine


def _postgres(url: str, wait_s: float) -> sa.Engine:
    for prefix in ("postgres://", "postgresql://"):
        if url.startswith(prefix):
            url = "postgresql+psycopg2://" + url.removeprefix(prefix)
    if not url.startswith("postgresql+psycopg2://"):
        raise InvalidInput(
            "PC_DATABASE_URL", "must start with sqlite:/// or postgresql:// (or postgres://)"
        )
    parsed = sa.make_url(url)
    given = parsed.query.get("options", "")  # such as -csearch_path=ledger; it must not be lost
    return sa.create_engine(
        parsed.difference_update_query(["options"]),
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": 10,
            "options": f"{given} -c lock_timeout={int(wait_s * 1000)} -c timezone=UTC",
            "application_name": "pc-pipelines",
        },
    )


def open_database(url: str, *, wait_s: float = 30.0) -> Database:
    """Connect, and bring the schema up to date if it is behind.

    Raises:
        StoreUnavailable: the database cannot be reached, or its schema is newer than this code.
    """
    from pc_store.ledger.migrations import upgrade

    db = Database(url, wait_s=wait_s)
    try:
        upgrade(db)
    except BaseException:
        db.close()
        raise
    return db
