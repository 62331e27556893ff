"""What the contract over HTTP needs: bindings, creation keys, kept answers, purges, sizes."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_COUNT_ENTRIES = """
    INSERT INTO memory_sizes (scope_id, active, inactive)
    SELECT scope_id,
           SUM(CASE state WHEN 'active' THEN 1 ELSE 0 END),
           SUM(CASE state WHEN 'active' THEN 0 ELSE 1 END)
    FROM manifest_spans WHERE to_revision IS NULL GROUP BY scope_id
"""


def upgrade() -> None:
    op.create_table(
        "idempotent_answers",
        sa.Column(
            "principal",
            Id,
            autoincrement=False,
            nullable=False,
            comment="who asked; empty without authentication",
        ),
        sa.Column("route", Id, autoincrement=False, nullable=False),
        sa.Column("key", Id, autoincrement=False, nullable=False),
        sa.Column("digest", Id, nullable=False, comment="SHA-256 of the request's body"),
        sa.Column(
            "status",
            sa.BigInteger(),
            nullable=True,
            comment="HTTP status of the answer; null while at work",
        ),
        sa.Column(
            "answer",
            sa.Text(),
            nullable=True,
            comment="JSON, as text; null while at work",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "route", "key", name=op.f("pk_idempotent_answers")),
        comment="Answers kept for idempotency keys, for 24 hours.",
    )
    op.create_index(
        op.f("ix_idempotent_answers_created_at"), "idempotent_answers", ["created_at"], unique=False
    )
    op.create_table(
        "memory_sizes",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("active", sa.BigInteger(), nullable=False, comment="active entries of the head"),
        sa.Column(
            "inactive", sa.BigInteger(), nullable=False, comment="inactive entries of the head"
        ),
        sa.PrimaryKeyConstraint("scope_id", name=op.f("pk_memory_sizes")),
        comment="Running counts of each memory's entries, so that a write need not count them.",
    )
    op.execute(_COUNT_ENTRIES)
    op.create_table(
        "purges",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("entry_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "revision", sa.BigInteger(), nullable=False, comment="the memory's head after the purge"
        ),
        sa.Column("purged_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "entry_id", name=op.f("pk_purges")),
        comment="Entries whose text was erased for good; their versions have an empty text.",
    )
    op.create_table(
        "scope_bindings",
        sa.Column("integration", Id, autoincrement=False, nullable=False),
        sa.Column("kind", Id, autoincrement=False, nullable=False),
        sa.Column("external_id", Id, autoincrement=False, nullable=False),
        sa.Column("scope_id", Id, nullable=False),
        sa.Column("bound_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "integration", "kind", "external_id", name=op.f("pk_scope_bindings")
        ),
        comment="What ids of other systems, such as a repository's address, stand for.",
    )
    op.create_index(
        op.f("ix_scope_bindings_scope_id"), "scope_bindings", ["scope_id"], unique=False
    )
    op.create_table(
        "scope_creations",
        sa.Column("idempotency_key", Id, autoincrement=False, nullable=False),
        sa.Column(
            "digest", Id, nullable=False, comment="SHA-256 of the values the scope was made of"
        ),
        sa.Column("scope_id", Id, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("idempotency_key", name=op.f("pk_scope_creations")),
        comment="Keys under which scopes were made: the same key and values give the same scope.",
    )
    op.create_index(op.f("ix_scopes_parent_scope_id"), "scopes", ["parent_scope_id"], unique=False)
    op.add_column(
        "sources",
        sa.Column(
            "form",
            Id,
            nullable=True,
            comment="json: the content is JSON text, read as its value; null: text",
        ),
    )
