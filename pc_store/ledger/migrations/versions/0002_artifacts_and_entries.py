"""Artifacts, memory entries and vectors."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Json = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "artifact_revisions",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("family", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "content", Json, nullable=True, comment="null for a memory, whose content is its spans"
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("origin", Id, nullable=False, comment="explicit, extraction or replay"),
        sa.Column("window_id", Id, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "scope_id", "family", "artifact_id", "revision", name=op.f("pk_artifact_revisions")
        ),
        comment="Immutable revisions.",
    )
    op.create_table(
        "artifacts",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("family", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column(
            "head", sa.BigInteger(), nullable=False, comment="current revision; 0 before the first"
        ),
        sa.Column("lifecycle", Id, nullable=False, comment="active, deprecated or retired"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "family", "artifact_id", name=op.f("pk_artifacts")),
        comment="Versioned things: the scope's memory, its prompts.",
    )
    op.create_table(
        "entry_versions",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("entry_version_id", Id, autoincrement=False, nullable=False),
        sa.Column("entry_id", Id, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("previous_version_id", Id, nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_digest", Id, nullable=False, comment="SHA-256 of the text"),
        sa.Column("content_hash", Id, nullable=False, comment="SHA-256 of kind, text and evidence"),
        sa.Column(
            "terms", sa.Text(), nullable=False, comment="search tokens of the text, blank-joined"
        ),
        sa.Column("terms_version", Id, nullable=False, comment="the tokeniser that made them"),
        sa.Column("source_refs", Json, nullable=False),
        sa.Column("artifact_refs", Json, nullable=False),
        sa.Column("origin", Id, nullable=False),
        sa.Column("created_in_revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "entry_version_id", name=op.f("pk_entry_versions")),
        sa.UniqueConstraint(
            "scope_id",
            "entry_id",
            "version",
            name=op.f("uq_entry_versions_scope_id_entry_id_version"),
        ),
        comment="Immutable bodies of memory entries, shared by all revisions that show them.",
    )
    op.create_index(
        op.f("ix_entry_versions_scope_id_text_digest"),
        "entry_versions",
        ["scope_id", "text_digest"],
        unique=False,
    )
    op.create_table(
        "lineage",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("family", Id, autoincrement=False, nullable=False),
        sa.Column("artifact_id", Id, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", Id, nullable=False, comment="source, artifact or citation"),
        sa.Column("ref", Json, nullable=False, comment="the exact reference"),
        sa.PrimaryKeyConstraint(
            "scope_id", "family", "artifact_id", "revision", "ordinal", name=op.f("pk_lineage")
        ),
        comment="What each revision was made from.",
    )
    op.create_table(
        "manifest_spans",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("entry_id", Id, autoincrement=False, nullable=False),
        sa.Column("from_revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "to_revision",
            sa.BigInteger(),
            nullable=True,
            comment="exclusive end; null while current",
        ),
        sa.Column("entry_version_id", Id, nullable=False),
        sa.Column("state", Id, nullable=False, comment="active or inactive"),
        sa.PrimaryKeyConstraint(
            "scope_id", "entry_id", "from_revision", name=op.f("pk_manifest_spans")
        ),
        comment="The memory's manifest: from one revision to another, this entry had this version.",
    )
    op.create_index(
        op.f("ix_manifest_spans_scope_id_entry_version_id"),
        "manifest_spans",
        ["scope_id", "entry_version_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_manifest_spans_scope_id_from_revision"),
        "manifest_spans",
        ["scope_id", "from_revision"],
        unique=False,
    )
    op.create_index(
        op.f("ix_manifest_spans_scope_id_to_revision_state"),
        "manifest_spans",
        ["scope_id", "to_revision", "state"],
        unique=False,
    )
    op.create_table(
        "memory_changes",
        sa.Column("scope_id", Id, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("entry_id", Id, autoincrement=False, nullable=False),
        sa.Column("op", Id, nullable=False, comment="add, revise, deactivate or reactivate"),
        sa.Column("from_version_id", Id, nullable=True),
        sa.Column("to_version_id", Id, nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("scope_id", "revision", "entry_id", name=op.f("pk_memory_changes")),
        comment="What each memory revision changed; at most one change an entry.",
    )
    op.create_table(
        "vectors",
        sa.Column("text_digest", Id, autoincrement=False, nullable=False),
        sa.Column(
            "profile",
            Id,
            autoincrement=False,
            nullable=False,
            comment="provider, model, dimensions and normalisation",
        ),
        sa.Column(
            "vector",
            sa.LargeBinary(),
            nullable=False,
            comment="little-endian float32[dims], unit length",
        ),
        sa.PrimaryKeyConstraint("text_digest", "profile", name=op.f("pk_vectors")),
        comment="Embeddings by text: no text is embedded twice under one profile.",
    )
