"""Search and experience: candidates, recurrences, recalls, and what search reads."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:

    op.create_table(
        "candidate_versions",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("candidate_id", Id, autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "proposal",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="the whole content, as it would be approved",
        ),
        sa.Column("source_refs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("artifact_refs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("citations", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("fingerprint", Id, nullable=False),
        sa.Column("author", Id, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "candidate_id", "version", name=op.f("pk_candidate_versions")
        ),
        comment="Immutable versions of each candidate.",
    )
    op.create_table(
        "candidates",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("candidate_id", Id, autoincrement=False, nullable=False),
        sa.Column("family", Id, nullable=False, comment="experience"),
        sa.Column(
            "version",
            sa.BigInteger(),
            nullable=False,
            comment="the newest version; only a revision raises it",
        ),
        sa.Column(
            "status",
            Id,
            nullable=False,
            comment="pending, approved or rejected; the last two are final",
        ),
        sa.Column(
            "origin",
            Id,
            nullable=False,
            comment="propose, generate, incubation, recurrence or dream",
        ),
        sa.Column(
            "intent",
            Id,
            nullable=True,
            comment="what a dream meant to do: create, corroborate, refine, …",
        ),
        sa.Column(
            "author", Id, nullable=False, comment="who made it; empty without authentication"
        ),
        sa.Column(
            "target_id",
            Id,
            nullable=True,
            comment="the artifact it would replace the head of; null: a new one",
        ),
        sa.Column("target_revision", sa.BigInteger(), nullable=True),
        sa.Column(
            "fingerprint",
            Id,
            nullable=False,
            comment="digest of the newest version's content and set of evidence",
        ),
        sa.Column(
            "cue_key",
            Id,
            nullable=True,
            comment="normalised recall cue of the newest version, if any",
        ),
        sa.Column(
            "result_id", Id, nullable=True, comment="the artifact that approval made or revised"
        ),
        sa.Column("result_revision", sa.BigInteger(), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.Column("decided_by", Id, nullable=True),
        sa.Column("window_id", Id, nullable=True, comment="the incubation window it came from"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "updated_at",
            sa.BigInteger(),
            nullable=False,
            comment="of the newest version or the decision",
        ),
        sa.PrimaryKeyConstraint("scope_id", "candidate_id", name=op.f("pk_candidates")),
        comment="Proposals that wait for people, or had their decision.",
    )
    op.create_index(
        op.f("ix_candidates_scope_id_fingerprint"),
        "candidates",
        ["scope_id", "fingerprint"],
        unique=False,
    )
    op.create_index(
        op.f("ix_candidates_scope_id_status_created_at_candidate_id"),
        "candidates",
        ["scope_id", "status", "created_at", "candidate_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_candidates_scope_id_target_id_status"),
        "candidates",
        ["scope_id", "target_id", "status"],
        unique=False,
    )
    op.create_index(
        op.f("ix_candidates_status_created_at"),
        "candidates",
        ["status", "created_at"],
        unique=False,
    )
    op.create_index(
        "uq_candidates_open_review",
        "candidates",
        ["scope_id", "target_id", "target_revision", "cue_key"],
        unique=True,
        sqlite_where=sa.text("origin = 'recurrence' AND status = 'pending'"),
        postgresql_where=sa.text("origin = 'recurrence' AND status = 'pending'"),
    )
    op.create_table(
        "experience_documents",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False, comment="the active head"),
        sa.Column("text", sa.Text(), nullable=False, comment="what search reads of it"),
        sa.Column("text_digest", Id, nullable=False, comment="SHA-256 of the text"),
        sa.Column(
            "terms", sa.Text(), nullable=False, comment="search tokens of the text, blank-joined"
        ),
        sa.Column("terms_version", Id, nullable=False, comment="the tokeniser that made them"),
        sa.Column(
            "cue_key", Id, nullable=True, comment="normalised recall cue, if it tracks a failure"
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "artifact_id", name=op.f("pk_experience_documents")),
        comment="Active experience heads, and no others, as search and recurrence see them.",
    )
    op.create_index(
        op.f("ix_experience_documents_scope_id_cue_key"),
        "experience_documents",
        ["scope_id", "cue_key"],
        unique=False,
    )
    op.create_table(
        "recalls",
        sa.Column("recall_id", Id, autoincrement=False, nullable=False, comment="sorts by time"),
        sa.Column("scope_id", Id, nullable=False),
        sa.Column(
            "surface", Id, nullable=False, comment="search, experience_search or prepare_context"
        ),
        sa.Column(
            "query_digest",
            Id,
            nullable=False,
            comment="SHA-256 of the query; the query itself is not kept",
        ),
        sa.Column("mode", Id, nullable=True, comment="how it was searched: fts, vector or hybrid"),
        sa.Column(
            "hits",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="what was delivered: references, ranks and bytes",
        ),
        sa.Column(
            "dropped",
            sa.JSON(none_as_null=True),
            nullable=False,
            comment="what was found and not delivered, and why",
        ),
        sa.Column("max_bytes", sa.BigInteger(), nullable=True),
        sa.Column("content_bytes", sa.BigInteger(), nullable=True),
        sa.Column("took_us", sa.BigInteger(), nullable=False),
        sa.Column("recalled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("recall_id", name=op.f("pk_recalls")),
        comment="What was recalled for whom, kept PC_RECALL_DAYS days.",
    )
    op.create_index(op.f("ix_recalls_recalled_at"), "recalls", ["recalled_at"], unique=False)
    op.create_index(
        op.f("ix_recalls_scope_id_recalled_at"),
        "recalls",
        ["scope_id", "recalled_at"],
        unique=False,
    )
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
            comment="every revision whose cue it equals, as {artifact_id, revision}",
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
        op.f("ix_recurrence_matches_scope_id_artifact_id_revision_outcome_position"),
        "recurrence_matches",
        ["scope_id", "artifact_id", "revision", "outcome_position"],
        unique=False,
    )
    op.create_index(
        op.f("ix_recurrence_matches_scope_id_result_outcome_position"),
        "recurrence_matches",
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
            "reviewed_position",
            sa.BigInteger(),
            nullable=False,
            comment="recurrences up to here had their review; 0 none",
        ),
        sa.Column(
            "blocked", sa.Text(), nullable=True, comment="why the last review could not be opened"
        ),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "artifact_id", "revision", "cue_key", name=op.f("pk_recurrence_streaks")
        ),
        comment="Running counts of each tracked failure, so that a verdict reads no others.",
    )
    op.create_index(
        op.f("ix_recurrence_streaks_streak"), "recurrence_streaks", ["streak"], unique=False
    )
    op.add_column(
        "sources",
        sa.Column(
            "role",
            Id,
            nullable=True,
            comment="receipt: this server wrote it as one; no caller can set it",
        ),
    )
