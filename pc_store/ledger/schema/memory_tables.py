"""Tables of artifacts, and of the entries that a memory is made of."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

artifacts = sa.Table(
    "artifacts",
    metadata,
    key("scope_id"),
    key("family"),
    key("artifact_id"),
    col("head", Count, "current revision; 0 before the first"),
    col("lifecycle", Id, "active, deprecated or retired"),
    col("created_at", Time),
    comment="Versioned things: the scope's memory, its prompts.",
)


artifact_revisions = sa.Table(
    "artifact_revisions",
    metadata,
    key("scope_id"),
    key("family"),
    key("artifact_id"),
    key("revision", Count),
    col("content", Json, "null for a memory, whose content is its spans", null=True),
    col("reason", sa.Text, null=True),
    col("origin", Id, "explicit, extraction or replay"),
    col("window_id", Id, null=True),
    col("created_at", Time),
    col("log_position", Count, "where the log ended when it was approved", null=True),
    comment="Immutable revisions.",
)


lineage = sa.Table(
    "lineage",
    metadata,
    key("scope_id"),
    key("family"),
    key("artifact_id"),
    key("revision", Count),
    key("ordinal", Count),
    col("kind", Id, "source, artifact or citation"),
    col("ref", Json, "the exact reference"),
    comment="What each revision was made from.",
)


entry_versions = sa.Table(
    "entry_versions",
    metadata,
    key("scope_id"),
    key("entry_version_id"),
    col("entry_id", Id),
    col("version", Count),
    col("previous_version_id", Id, null=True),
    col("kind", sa.Text),
    col("text", sa.Text),
    col("text_digest", Id, "SHA-256 of the text"),
    col("content_hash", Id, "SHA-256 of kind, text and evidence"),
    col("terms", sa.Text, "search tokens of the text, blank-joined"),
    col("terms_version", Id, "the tokeniser that made them"),
    col("source_refs", Json),
    col("artifact_refs", Json),
    col("origin", Id),
    col("created_in_revision", Count),
    col("created_at", Time),
    sa.UniqueConstraint("scope_id", "entry_id", "version"),
    sa.Index(None, "scope_id", "text_digest"),
    comment="Immutable bodies of memory entries, shared by all revisions that show them.",
)


manifest_spans = sa.Table(
    "manifest_spans",
    metadata,
    key("scope_id"),
    key("entry_id"),
    key("from_revision", Count),
    col("to_revision", Count, "exclusive end; null while current", null=True),
    col("entry_version_id", Id),
    col("state", Id, "active or inactive"),
    sa.Index(None, "scope_id", "to_revision", "state"),
    sa.Index(None, "scope_id", "from_revision"),
    sa.Index(None, "scope_id", "entry_version_id"),
    comment="The memory's manifest: from one revision to another, this entry had this version.",
)


memory_changes = sa.Table(
    "memory_changes",
    metadata,
    key("scope_id"),
    key("revision", Count),
    key("entry_id"),
    col("op", Id, "add, revise, deactivate or reactivate"),
    col("from_version_id", Id, null=True),
    col("to_version_id", Id, null=True),
    col("reason", sa.Text, null=True),
    comment="What each memory revision changed; at most one change an entry.",
)


memory_sizes = sa.Table(
    "memory_sizes",
    metadata,
    key("scope_id"),
    col("active", Count, "active entries of the head"),
    col("inactive", Count, "inactive entries of the head"),
    comment="Running counts of each memory's entries, so that a write need not count them.",
)


purges = sa.Table(
    "purges",
    metadata,
    key("scope_id"),
    key("entry_id"),
    col("revision", Count, "the memory's head after the purge"),
    col("purged_at", Time),
    comment="Entries whose text was erased for good; their versions have an empty text.",
)


vectors = sa.Table(
    "vectors",
    metadata,
    key("text_digest"),
    key("profile", comment="provider, model, dimensions and normalisation"),
    col("vector", sa.LargeBinary, "little-endian float32[dims], unit length"),
    comment="Embeddings by text: no text is embedded twice under one profile.",
)
