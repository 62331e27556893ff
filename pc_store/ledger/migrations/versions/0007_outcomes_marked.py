"""Task outcomes are marked, so that finding the next one does not read the log."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_SOURCES = sa.table(
    "sources",
    *(sa.column(name) for name in ("scope_id", "position", "source_type", "role", "metadata")),
    sa.column("internal", sa.Boolean),
    sa.column("kind"),
)
_READ = 10_000


def upgrade() -> None:
    op.add_column(
        "sources",
        sa.Column(
            "kind",
            Id,
            nullable=True,
            comment="task-outcome: its metadata says it is one; null: anything else",
        ),
    )
    _mark_outcomes(op.get_bind())
    op.create_index(
        op.f("ix_sources_scope_id_kind_position"),
        "sources",
        ["scope_id", "kind", "position"],
        unique=False,
        sqlite_where=sa.text("kind IS NOT NULL"),
        postgresql_where=sa.text("kind IS NOT NULL"),
    )


def _mark_outcomes(conn: sa.Connection) -> None:
    """The text search finds every outcome, and what has such a text deeper in its metadata."""
    table = _SOURCES
    maybe = (
        sa.select(table.c.scope_id, table.c.position, table.c.metadata)
        .where(
            table.c.source_type == "content",
            table.c.internal.is_(False),
            table.c.role.is_(None),
            table.c.metadata.like('%"kind":"task-outcome"%'),
        )
        .order_by(table.c.scope_id, table.c.position)
    )
    mark = (
        sa.update(table)
        .where(table.c.scope_id == sa.bindparam("of_scope"), table.c.position == sa.bindparam("at"))
        .values(kind="task-outcome")
    )
    last = ("", 0)
    while True:
        after = sa.tuple_(table.c.scope_id, table.c.position) > sa.tuple_(*map(sa.literal, last))
        rows = conn.execute(maybe.where(after).limit(_READ)).all()
        marked = [
            {"of_scope": row.scope_id, "at": row.position}
            for row in rows
            if json.loads(row.metadata).get("kind") == "task-outcome"
        ]
        if marked:
            conn.execute(mark, marked)
        if len(rows) < _READ:
            return
        last = (rows[-1].scope_id, rows[-1].position)
