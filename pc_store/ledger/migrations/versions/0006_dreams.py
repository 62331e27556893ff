"""Dreams: background refinements of chosen memory and experience."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:

    op.create_table(
        "dream_runs",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("run_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "principal",
            Id,
            nullable=False,
            comment="who submitted it; `runtime` without authentication",
        ),
        sa.Column("idempotency_key", Id, nullable=False),
        sa.Column(
            "digest",
            Id,
            nullable=False,
            comment="SHA-256 of the request without its key, blind to order and duplicates",
        ),
        sa.Column("operation", Id, nullable=False),
        sa.Column(
            "request",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="what was asked for, normalised",
        ),
        sa.Column(
            "status",
            Id,
            nullable=False,
            comment="queued, running, succeeded or failed; the last two are final",
        ),
        sa.Column(
            "outcome",
            Id,
            nullable=True,
            comment="proposed, no_change or needs_evidence; null until succeeded",
        ),
        sa.Column("candidate_id", Id, nullable=True),
        sa.Column(
            "intent",
            Id,
            nullable=True,
            comment="what its candidate is to do: create, corroborate, refine, …",
        ),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=True,
            comment="the model's, or why the program decided otherwise",
        ),
        sa.Column(
            "error",
            Id,
            nullable=True,
            comment="code of a failure; `cancelled` if somebody cancelled it",
        ),
        sa.Column("message", sa.Text(), nullable=True, comment="what a failure says to a person"),
        sa.Column(
            "feedback",
            sa.Text(),
            nullable=True,
            comment="what the last answer broke, for the next attempt",
        ),
        sa.Column("attempts", sa.BigInteger(), nullable=False, comment="claims that started"),
        sa.Column(
            "claim", Id, nullable=True, comment="who holds it now: a new value with every claim"
        ),
        sa.Column(
            "manifest",
            sa.JSON(none_as_null=True),
            nullable=True,
            comment="the evidence graph without bodies",
        ),
        sa.Column(
            "usage", sa.JSON(none_as_null=True), nullable=True, comment="model calls and tokens"
        ),
        sa.Column(
            "budget",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="its limits, frozen at admission",
        ),
        sa.Column("prompt_version", Id, nullable=True),
        sa.Column(
            "model",
            sa.Text(),
            nullable=True,
            comment="provider and model, pinned at the first claim",
        ),
        sa.Column("accepted_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True, comment="the first claim"),
        sa.Column(
            "next_attempt_at",
            sa.BigInteger(),
            nullable=False,
            comment="queued: not before; running: when others may take it over",
        ),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("dagster_run_id", Id, nullable=True),
        sa.PrimaryKeyConstraint("scope_id", "run_id", name=op.f("pk_dream_runs")),
        sa.UniqueConstraint(
            "scope_id",
            "principal",
            "idempotency_key",
            name=op.f("uq_dream_runs_scope_id_principal_idempotency_key"),
        ),
        comment="Dreams, from submission to their truthful end.",
    )
    op.create_index(
        op.f("ix_dream_runs_scope_id_accepted_at_run_id"),
        "dream_runs",
        ["scope_id", "accepted_at", "run_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_dream_runs_scope_id_started_at"),
        "dream_runs",
        ["scope_id", "started_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_dream_runs_status_next_attempt_at_accepted_at"),
        "dream_runs",
        ["status", "next_attempt_at", "accepted_at"],
        unique=False,
    )
