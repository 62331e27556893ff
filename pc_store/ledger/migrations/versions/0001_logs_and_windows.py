"""Scopes, their logs, and the windows that read them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Json = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "cursors",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "consumer",
            Id,
            autoincrement=False,
            nullable=False,
            comment="memory, experience or recurrence; they never share one",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="everything up to here is processed",
        ),
        sa.Column(
            "window_limit",
            sa.BigInteger(),
            nullable=True,
            comment="a smaller limit while a bad window is being halved",
        ),
        sa.Column(
            "served_at",
            sa.BigInteger(),
            nullable=False,
            comment="when a run was last asked for; 0 never. Makes planning fair",
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "consumer", name=op.f("pk_cursors")),
        comment="How far each consumer has read each scope's log.",
    )
    op.create_index(
        op.f("ix_cursors_consumer_served_at"), "cursors", ["consumer", "served_at"], unique=False
    )
    op.create_table(
        "heartbeats",
        sa.Column("run_id", Id, autoincrement=False, nullable=False),
        sa.Column("beat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_heartbeats")),
        comment="Runs at work; one that stops beating is dead, whatever its status says.",
    )
    op.create_table(
        "landing_files",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "path",
            Id,
            autoincrement=False,
            nullable=False,
            comment="relative to the scope's landing folder",
        ),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("modified_ns", sa.BigInteger(), nullable=False),
        sa.Column("ingested_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "accepted", sa.BigInteger(), nullable=False, comment="sources in it, new or known"
        ),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "path", name=op.f("pk_landing_files")),
        comment="Landing files as they were when last ingested.",
    )
    op.create_table(
        "quarantined_sources",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("consumer", Id, autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("window_id", Id, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("quarantined_at", sa.BigInteger(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint(
            "scope_id", "consumer", "position", name=op.f("pk_quarantined_sources")
        ),
        comment="Sources a consumer could not process; set aside so that nothing blocks.",
    )
    op.create_table(
        "scopes",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "key", Id, nullable=False, comment="the id as partition keys and folders spell it"
        ),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("parent_scope_id", Id, nullable=True),
        sa.Column(
            "context_references",
            Json,
            nullable=False,
            comment="sorted scope ids whose knowledge is read as well",
        ),
        sa.Column("external_references", Json, nullable=False, comment="list of {kind, value}"),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="optimistic lock"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", name=op.f("pk_scopes")),
        sa.UniqueConstraint("key", name=op.f("uq_scopes_key")),
        comment="The isolation boundary: everything below belongs to exactly one scope.",
    )
    op.create_table(
        "source_heads",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="the last position: the log's high watermark",
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", name=op.f("pk_source_heads")),
        comment="One row a scope; its lock gives positions out, so commit order is position order.",
    )
    op.create_index(
        op.f("ix_source_heads_updated_at"), "source_heads", ["updated_at"], unique=False
    )
    op.create_table(
        "sources",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "position", sa.BigInteger(), autoincrement=False, nullable=False, comment="dense from 1"
        ),
        sa.Column("source_type", Id, nullable=False),
        sa.Column("source_id", Id, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column(
            "metadata",
            sa.Text(),
            nullable=False,
            comment="JSON object, as text: what was given, digit for digit",
        ),
        sa.Column("digest", Id, nullable=False, comment="SHA-256 over content and metadata"),
        sa.Column(
            "tokens", sa.BigInteger(), nullable=False, comment="estimated tokens of the content"
        ),
        sa.Column(
            "internal",
            sa.Boolean(),
            nullable=False,
            comment="the store's own provenance record; never shown to a model",
        ),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "position", name=op.f("pk_sources")),
        sa.UniqueConstraint(
            "scope_id",
            "source_type",
            "source_id",
            name=op.f("uq_sources_scope_id_source_type_source_id"),
        ),
        comment="The append-only log of captured material.",
    )
    op.create_table(
        "store_facts",
        sa.Column("name", Id, autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_store_facts")),
        comment="Facts of this store as a whole, such as its id.",
    )
    op.create_table(
        "window_drafts",
        sa.Column("window_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "basis",
            Id,
            nullable=False,
            comment="digest of provider, model, prompt and sources it was made from",
        ),
        sa.Column(
            "answer",
            Json,
            nullable=False,
            comment="proposals, rejects, usage and the entry versions shown",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("window_id", name=op.f("pk_window_drafts")),
        comment="What a model answered, between asking and committing; a retry does not pay twice.",
    )
    op.create_table(
        "windows",
        sa.Column("window_id", Id, autoincrement=False, nullable=False),
        sa.Column("scope_id", Id, nullable=False),
        sa.Column("consumer", Id, nullable=False),
        sa.Column(
            "after",
            sa.BigInteger(),
            nullable=False,
            comment="exclusive start: the cursor it was cut at",
        ),
        sa.Column("through", sa.BigInteger(), nullable=False, comment="inclusive end"),
        sa.Column(
            "high_watermark",
            sa.BigInteger(),
            nullable=False,
            comment="the log's end when it was read",
        ),
        sa.Column("kind", Id, nullable=False, comment="live or replay"),
        sa.Column("status", Id, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False, comment="attempts begun"),
        sa.Column(
            "counted_failures",
            sa.BigInteger(),
            nullable=False,
            comment="failures that say something about the input",
        ),
        sa.Column(
            "requests",
            sa.BigInteger(),
            nullable=False,
            comment="runs asked for; part of the run key",
        ),
        sa.Column(
            "next_attempt_at", sa.BigInteger(), nullable=False, comment="not before this; 0 at once"
        ),
        sa.Column("first_failed_at", sa.BigInteger(), nullable=True),
        sa.Column("error", Json, nullable=True, comment="{code, message} of the last failure"),
        sa.Column("run_id", Id, nullable=True, comment="Dagster run that has or had it"),
        sa.Column("provider", Id, nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("prompt_key", Id, nullable=True),
        sa.Column(
            "prompt_revision",
            Id,
            nullable=True,
            comment="packaged version, or the scope's prompt revision",
        ),
        sa.Column(
            "counts",
            Json,
            nullable=True,
            comment="sources, shown, proposals, added, … of the last attempt",
        ),
        sa.Column(
            "rejects", Json, nullable=True, comment="proposals not kept: {ordinal, rule, reason}"
        ),
        sa.Column(
            "usage",
            Json,
            nullable=True,
            comment="calls, tokens in and out, seconds, over all attempts",
        ),
        sa.Column(
            "memory_revision", sa.BigInteger(), nullable=True, comment="the head after its commit"
        ),
        sa.Column("planned_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "answered_at",
            sa.BigInteger(),
            nullable=True,
            comment="when a model last answered it, well or badly",
        ),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("window_id", name=op.f("pk_windows")),
        comment="Every window ever cut, and what became of it.",
    )
    op.create_index(
        op.f("ix_windows_consumer_finished_at_window_id"),
        "windows",
        ["consumer", "finished_at", "window_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_windows_model_answered_at"), "windows", ["model", "answered_at"], unique=False
    )
    op.create_index(
        op.f("ix_windows_scope_id_consumer_after_through"),
        "windows",
        ["scope_id", "consumer", "after", "through"],
        unique=False,
    )
    op.create_index(
        "uq_windows_open",
        "windows",
        ["scope_id", "consumer"],
        unique=True,
        sqlite_where=sa.text("kind = 'live' AND status IN ('planned', 'running', 'failed')"),
        postgresql_where=sa.text("kind = 'live' AND status IN ('planned', 'running', 'failed')"),
    )
