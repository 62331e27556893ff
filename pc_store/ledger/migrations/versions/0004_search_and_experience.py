"""Search and experience: candidates, recalls, and what search reads."""

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
    op.create_index(
        op.f("ix_candidate_versions_scope_id_fingerprint"),
        "candidate_versions",
        ["scope_id", "fingerprint"],
        unique=False,
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
        op.f("ix_candidates_scope_id_result_id_result_revision"),
        "candidates",
        ["scope_id", "result_id", "result_revision"],
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
        op.f("ix_candidates_scope_id_window_id"),
        "candidates",
        ["scope_id", "window_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_candidates_status_created_at"),
        "candidates",
        ["status", "created_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_candidates_status_updated_at"),
        "candidates",
        ["status", "updated_at"],
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
        "embedding_costs",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "day",
            sa.BigInteger(),
            autoincrement=False,
            nullable=False,
            comment="days since 1970-01-01, UTC",
        ),
        sa.Column("purpose", Id, autoincrement=False, nullable=False, comment="memory_indexing"),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False, comment="as the endpoint counts them"),
        sa.PrimaryKeyConstraint("scope_id", "day", "purpose", name=op.f("pk_embedding_costs")),
        comment="What embedding the texts of each scope cost, by day.",
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
        "experience_lifecycles",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "ordinal", sa.BigInteger(), autoincrement=False, nullable=False, comment="from 1"
        ),
        sa.Column("state", Id, nullable=False, comment="active, deprecated or retired"),
        sa.Column("revision", sa.BigInteger(), nullable=False, comment="the head at that time"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "author", Id, nullable=False, comment="who decided it; empty without authentication"
        ),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "artifact_id", "ordinal", name=op.f("pk_experience_lifecycles")
        ),
        comment="Every change of an experience's lifecycle; none before the first means active.",
    )
    op.create_index(
        op.f("ix_experience_lifecycles_changed_at"),
        "experience_lifecycles",
        ["changed_at"],
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
        sa.Column(
            "tokens",
            sa.BigInteger(),
            nullable=True,
            comment="estimated, of a prepared context's content",
        ),
        sa.Column(
            "baseline_tokens",
            sa.BigInteger(),
            nullable=True,
            comment="estimated, of the sources of all it holds; null unless all has some",
        ),
        sa.Column("took_us", sa.BigInteger(), nullable=False),
        sa.Column("recalled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("recall_id", name=op.f("pk_recalls")),
        comment="What was recalled for whom, kept PC_RECALL_DAYS days.",
    )
    op.create_index(
        op.f("ix_recalls_scope_id_recall_id"), "recalls", ["scope_id", "recall_id"], unique=False
    )
    op.create_index(
        op.f("ix_recalls_scope_id_surface_recalled_at"),
        "recalls",
        ["scope_id", "surface", "recalled_at"],
        unique=False,
    )
    op.add_column(
        "artifact_revisions",
        sa.Column(
            "log_position",
            sa.BigInteger(),
            nullable=True,
            comment="where the log ended when it was approved",
        ),
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
