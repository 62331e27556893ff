"""Drafts that a model writes for reviews of failures that come back."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:

    op.create_table(
        "review_drafts",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("candidate_id", Id, autoincrement=False, nullable=False, comment="the review"),
        sa.Column(
            "version",
            sa.BigInteger(),
            nullable=False,
            comment="of the review, whose evidence the model is shown",
        ),
        sa.Column(
            "status",
            Id,
            nullable=False,
            comment="waiting, asked, failed, drafted, unsupported or overtaken",
        ),
        sa.Column(
            "attempts",
            sa.BigInteger(),
            nullable=False,
            comment="begun for this version; each is counted before the model is asked",
        ),
        sa.Column(
            "due_at",
            sa.BigInteger(),
            nullable=False,
            comment="the model is not asked before; while it is asked: when another may ask",
        ),
        sa.Column("why", sa.Text(), nullable=True, comment="why there is no draft"),
        sa.Column("model", Id, nullable=True, comment="the provider and model asked last"),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False, comment="sent for all versions"),
        sa.Column(
            "tokens_out", sa.BigInteger(), nullable=False, comment="answered for all versions"
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "candidate_id", name=op.f("pk_review_drafts")),
        comment="What a model was asked to draft for each review of a failure that comes back.",
    )
    op.create_index(
        op.f("ix_review_drafts_status_due_at"),
        "review_drafts",
        ["status", "due_at"],
        unique=False,
    )
    # Reviews that are open already get a draft, too.
    op.execute(
        "INSERT INTO review_drafts (scope_id, candidate_id, version, status, attempts, due_at, "
        "tokens_in, tokens_out, updated_at) "
        "SELECT scope_id, candidate_id, version, 'waiting', 0, 0, 0, 0, updated_at "
        "FROM candidates WHERE origin = 'recurrence' AND status = 'pending'"
    )
