"""Failures that come back: outcomes, matches, events, streaks."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:

    op.create_table(
        "recurrence_events",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "event_id",
            Id,
            autoincrement=False,
            nullable=False,
            comment="SHA-256 of the event's full evidence",
        ),
        sa.Column(
            "verdict_key",
            Id,
            nullable=True,
            comment="one per revision, cue and outcome; null for other events",
        ),
        sa.Column("event", Id, nullable=False, comment="selected, recurred, avoided or voided"),
        sa.Column("artifact_id", Id, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("cue_key", Id, nullable=False),
        sa.Column("outcome_position", sa.BigInteger(), nullable=False),
        sa.Column(
            "evidence",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="item locators, receipt, match; for voided the event and reason",
        ),
        sa.Column(
            "voided", sa.Boolean(), nullable=False, comment="a compensating event took it back"
        ),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "event_id", name=op.f("pk_recurrence_events")),
        sa.UniqueConstraint(
            "scope_id", "verdict_key", name=op.f("uq_recurrence_events_scope_id_verdict_key")
        ),
        comment="Append-only: what task outcomes said of the experiences that track failures.",
    )
    op.create_index(
        op.f("ix_recurrence_events_scope_id_artifact_id_revision_cue_key_outcome_position"),
        "recurrence_events",
        ["scope_id", "artifact_id", "revision", "cue_key", "outcome_position"],
        unique=False,
    )
    op.create_index(
        op.f("ix_recurrence_events_scope_id_outcome_position"),
        "recurrence_events",
        ["scope_id", "outcome_position"],
        unique=False,
    )
    op.create_table(
        "recurrence_matches",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "outcome_position",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="of the task outcome in the log",
        ),
        sa.Column(
            "item_kind", Id, autoincrement=False, nullable=False, comment="check or observation"
        ),
        sa.Column(
            "item_index", sa.BigInteger(), autoincrement=False, nullable=False, comment="from 0"
        ),
        sa.Column(
            "item_digest", Id, nullable=False, comment="SHA-256 of the item's canonical JSON"
        ),
        sa.Column(
            "cue_key",
            Id,
            nullable=False,
            comment="the item's text, normalised; empty when nothing is left",
        ),
        sa.Column(
            "mode",
            Id,
            nullable=False,
            comment="scope_heads, or receipt when the outcome names a valid one",
        ),
        sa.Column("result", Id, nullable=False, comment="matched, unmatched, ambiguous or pending"),
        sa.Column("artifact_id", Id, nullable=True, comment="the experience it matched"),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.Column(
            "eligible",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="every revision that it may count for, as {artifact_id, revision}",
        ),
        sa.Column(
            "note",
            sa.Text(),
            nullable=True,
            comment="why it is as it is, where that is not obvious",
        ),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id",
            "outcome_position",
            "item_kind",
            "item_index",
            name=op.f("pk_recurrence_matches"),
        ),
        comment="What each failing item of a task outcome was matched to; frozen once decided.",
    )
    op.create_index(
        op.f("ix_recurrence_matches_scope_id_cue_key_outcome_position"),
        "recurrence_matches",
        ["scope_id", "cue_key", "outcome_position"],
        unique=False,
    )
    op.create_index(
        op.f("ix_recurrence_matches_scope_id_result_outcome_position"),
        "recurrence_matches",
        ["scope_id", "result", "outcome_position"],
        unique=False,
    )
    op.create_table(
        "recurrence_outcomes",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "outcome_position",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="of the task outcome in the log",
        ),
        sa.Column(
            "result", Id, nullable=False, comment="judged, or malformed when it cannot be read"
        ),
        sa.Column(
            "mode", Id, nullable=True, comment="scope_heads, or receipt when it names a valid one"
        ),
        sa.Column(
            "receipt_position", sa.BigInteger(), nullable=True, comment="of that receipt in the log"
        ),
        sa.Column(
            "problem",
            sa.Text(),
            nullable=True,
            comment="why it cannot be read, or why its receipt did not count",
        ),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "outcome_position", name=op.f("pk_recurrence_outcomes")
        ),
        comment="Task outcomes that were judged; each is, once.",
    )
    op.create_index(
        op.f("ix_recurrence_outcomes_scope_id_result_outcome_position"),
        "recurrence_outcomes",
        ["scope_id", "result", "outcome_position"],
        unique=False,
    )
    op.create_table(
        "recurrence_streaks",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cue_key", Id, autoincrement=False, nullable=False),
        sa.Column(
            "surface",
            Id,
            nullable=False,
            comment="what a repair would change; experience_content asks for a review",
        ),
        sa.Column(
            "streak",
            sa.BigInteger(),
            nullable=False,
            comment="recurrences since the last avoidance, by position in the log",
        ),
        sa.Column(
            "recurred", sa.BigInteger(), nullable=False, comment="all recurrences that stand"
        ),
        sa.Column("avoided", sa.BigInteger(), nullable=False, comment="all avoidances that stand"),
        sa.Column("last_position", sa.BigInteger(), nullable=False, comment="of the last verdict"),
        sa.Column(
            "walked_position",
            sa.BigInteger(),
            nullable=False,
            comment="verdicts up to here were weighed for a review",
        ),
        sa.Column(
            "unreviewed",
            sa.BigInteger(),
            nullable=False,
            comment="recurrences in a row, up to there, that no review has seen",
        ),
        sa.Column(
            "due_position",
            sa.BigInteger(),
            nullable=False,
            comment="the recurrence that made a review due; 0 none",
        ),
        sa.Column(
            "reviewed_position",
            sa.BigInteger(),
            nullable=False,
            comment="recurrences up to here had their review; 0 none",
        ),
        sa.Column("review_id", Id, nullable=True, comment="the candidate of the last review"),
        sa.Column(
            "blocked",
            sa.Text(),
            nullable=True,
            comment="why the review that is due could not be opened",
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "artifact_id", "revision", "cue_key", name=op.f("pk_recurrence_streaks")
        ),
        comment="Running counts of each tracked failure, so that a verdict reads no others.",
    )
    op.create_index(
        op.f("ix_recurrence_streaks_due_position"),
        "recurrence_streaks",
        ["due_position"],
        unique=False,
    )
    op.create_table(
        "recurrence_waits",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "outcome_position",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="of the task outcome that could not be judged to its end",
        ),
        sa.Column(
            "waits_for",
            Id,
            autoincrement=False,
            nullable=False,
            comment="a piece of evidence that is not there: source …, artifact …",
        ),
        sa.Column("tried_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "outcome_position", "waits_for", name=op.f("pk_recurrence_waits")
        ),
        comment="Evidence that outcomes still wait for; when it arrives they are judged again.",
    )
    op.create_index(
        op.f("ix_recurrence_waits_scope_id_tried_at"),
        "recurrence_waits",
        ["scope_id", "tried_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_recurrence_waits_scope_id_waits_for"),
        "recurrence_waits",
        ["scope_id", "waits_for"],
        unique=False,
    )
