"""Generations: replays whose results are kept beside the memory until people decide."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:

    op.add_column(
        "windows",
        sa.Column(
            "generation",
            Id,
            nullable=True,
            comment="of a shadow: the generation that its results go to",
        ),
    )
    if op.get_bind().dialect.name == "postgresql":  # SQLite keeps no comments
        op.alter_column(
            "windows",
            "kind",
            existing_type=Id,
            existing_nullable=False,
            comment="live, replay or shadow",
            existing_comment="live or replay",
        )

    op.create_table(
        "generations",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("name", Id, autoincrement=False, nullable=False),
        sa.Column(
            "status",
            Id,
            nullable=False,
            comment="open, promoted or discarded; the last two are final",
        ),
        sa.Column(
            "provider",
            Id,
            nullable=True,
            comment="of all its windows, as the first was asked; null before",
        ),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("prompt_key", Id, nullable=True),
        sa.Column(
            "prompt_revision",
            Id,
            nullable=True,
            comment="packaged version, or the scope's prompt revision",
        ),
        sa.Column(
            "scope_prompt",
            sa.BigInteger(),
            nullable=True,
            comment="that revision, where the prompt is the scope's own",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "memory_revision",
            sa.BigInteger(),
            nullable=True,
            comment="the head after its promotion",
        ),
        sa.Column(
            "outcome",
            sa.JSON(none_as_null=True),
            nullable=True,
            comment="what its promotion changed, and left out; no texts",
        ),
        sa.PrimaryKeyConstraint("scope_id", "name", name=op.f("pk_generations")),
        comment=(
            "Shadows of a memory: replayed windows whose results wait to be promoted or discarded."
        ),
    )

    op.create_table(
        "generation_windows",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("generation", Id, autoincrement=False, nullable=False),
        sa.Column("after", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("through", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("window_id", Id, nullable=False),
        sa.Column(
            "sources",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="those that were shown",
        ),
        sa.PrimaryKeyConstraint(
            "scope_id", "generation", "after", "through", name=op.f("pk_generation_windows")
        ),
        comment="The windows that a generation has replayed, each once.",
    )

    op.create_table(
        "generation_drafts",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("generation", Id, autoincrement=False, nullable=False),
        sa.Column("window_id", Id, autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("intent", Id, nullable=False, comment="add or revise"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_digest", Id, nullable=False, comment="SHA-256 of the text"),
        sa.Column("sources", sa.JSON(none_as_null=True), nullable=False, comment="its evidence"),
        sa.Column("entry_id", Id, nullable=True, comment="revise: the entry"),
        sa.Column("against", Id, nullable=True, comment="revise: the version of it that was shown"),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(
            "scope_id",
            "generation",
            "window_id",
            "ordinal",
            name=op.f("pk_generation_drafts"),
        ),
        comment="Accepted proposals of an open generation; erased when it ends.",
    )
