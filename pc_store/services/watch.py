"""Look at windows: what was cut, what became of each, what waits."""

from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from pc_store.domain.window import Consumer, Status, WindowKey
from pc_store.ledger import scopes, windows
from pc_store.ledger.database import Database
from pc_store.ledger.windows import WindowRow


def read_window(db: Database, window_id: str) -> WindowRow:
    """Return a window. Raises NotFound."""
    with db.read() as conn:
        return windows.get(conn, window_id)


def list_windows(
    db: Database,
    *,
    scope_id: str | None = None,
    consumer: Consumer | None = None,
    statuses: Iterable[Status] = (),
    before: str | None = None,
    limit: int,
) -> list[tuple[WindowKey, WindowRow]]:
    """Windows with their keys, newest first, before the given id.

    Raises:
        NotFound: no such scope.
    """
    with db.read() as conn:
        if scope_id is not None:
            scopes.get(conn, scope_id)
        rows = windows.page(
            conn,
            scope_id=scope_id,
            consumer=consumer,
            statuses=statuses,
            before=before,
            limit=limit,
        )
        return list(_keyed(conn, rows))


def ended_since(
    db: Database, consumer: Consumer, *, finished_at: int, window_id: str, limit: int
) -> list[tuple[WindowKey, WindowRow]]:
    """Windows that ended after (time, id), in that order, with their keys."""
    with db.read() as conn:
        rows = windows.ended_since(
            conn, consumer, finished_at=finished_at, window_id=window_id, limit=limit
        )
        return list(_keyed(conn, rows))


def last_beats(db: Database, run_ids: list[str]) -> dict[str, int]:
    """When each of the runs was last alive; runs that never beat are absent."""
    with db.read() as conn:
        return windows.last_beats(conn, run_ids)


def forget_beats(db: Database, *, before_us: int) -> int:
    """Forget the heartbeats of runs that were last alive before a moment; how many there were."""
    with db.write() as conn:
        return windows.drop_beats(conn, before_us=before_us)


def keyed(db: Database, rows: list[WindowRow]) -> list[tuple[WindowKey, WindowRow]]:
    """Windows with their partition keys."""
    with db.read() as conn:
        return list(_keyed(conn, rows))


def _keyed(conn: sa.Connection, rows: list[WindowRow]) -> Iterator[tuple[WindowKey, WindowRow]]:
    keys = scopes.keys(conn, {row.scope_id for row in rows})
    for row in rows:
        yield WindowKey(keys[row.scope_id], row.after + 1, row.through), row
