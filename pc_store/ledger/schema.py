"""The ledger's tables, for SQLite and PostgreSQL alike. Migrations lead here; a test compares.

Every key starts with the scope, so a scope's rows sit together and scopes never meet.
Times are microseconds since the epoch, UTC. Positions, revisions and versions count from 1;
0 means "none yet". Identity text compares byte by byte on both databases.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Id = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Identity text: compared byte by byte."""
Json = sa.JSON(none_as_null=True)
Time = sa.BigInteger
Count = sa.BigInteger


def _key(name: str, kind: Any = Id, comment: str = "") -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False, comment=comment or None)


def _col(name: str, kind: Any, comment: str = "", *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null, comment=comment or None)


store_facts = sa.Table(
    "store_facts",
    metadata,
    _key("name"),
    _col("value", sa.Text),
    comment="Facts of this store as a whole, such as its id.",
)

scopes = sa.Table(
    "scopes",
    metadata,
    _key("scope_id"),
    _col("key", Id, "the id as partition keys and folders spell it"),
    _col("title", sa.Text),
    _col("summary", sa.Text),
    _col("parent_scope_id", Id, null=True),
    _col("context_references", Json, "sorted scope ids whose knowledge is read as well"),
    _col("external_references", Json, "list of {kind, value}"),
    _col("version", Count, "optimistic lock"),
    _col("created_at", Time),
    sa.UniqueConstraint("key"),
    sa.Index(None, "parent_scope_id"),
    comment="The isolation boundary: everything below belongs to exactly one scope.",
)

scope_creations = sa.Table(
    "scope_creations",
    metadata,
    _key("idempotency_key"),
    _col("digest", Id, "SHA-256 of the values the scope was made of"),
    _col("scope_id", Id),
    _col("created_at", Time),
    comment="Keys under which scopes were made: the same key and values give the same scope.",
)

scope_bindings = sa.Table(
    "scope_bindings",
    metadata,
    _key("integration"),
    _key("kind"),
    _key("external_id"),
    _col("scope_id", Id),
    _col("bound_at", Time),
    sa.Index(None, "scope_id"),
    comment="What ids of other systems, such as a repository's address, stand for.",
)

source_heads = sa.Table(
    "source_heads",
    metadata,
    _key("scope_id"),
    _col("position", Count, "the last position: the log's high watermark"),
    _col("updated_at", Time),
    sa.Index(None, "updated_at"),
    comment="One row a scope; its lock gives positions out, so commit order is position order.",
)

sources = sa.Table(
    "sources",
    metadata,
    _key("scope_id"),
    _key("position", Count, "dense from 1"),
    _col("source_type", Id),
    _col("source_id", Id),
    _col("content", sa.Text),
    _col("metadata", sa.Text, "JSON object, as text: what was given, digit for digit"),
    _col("digest", Id, "SHA-256 over content and metadata"),
    _col("tokens", Count, "estimated tokens of the content"),
    _col("internal", sa.Boolean, "the store's own provenance record; never shown to a model"),
    _col("received_at", Time),
    _col("form", Id, "json: the content is JSON text, read as its value; null: text", null=True),
    sa.UniqueConstraint("scope_id", "source_type", "source_id"),
    comment="The append-only log of captured material.",
)

landing_files = sa.Table(
    "landing_files",
    metadata,
    _key("scope_id"),
    _key("path", comment="relative to the scope's landing folder"),
    _col("size_bytes", Count),
    _col("modified_ns", Count),
    _col("ingested_at", Time),
    _col("accepted", Count, "sources in it, new or known"),
    _col("rejected", Count),
    comment="Landing files as they were when last ingested.",
)

cursors = sa.Table(
    "cursors",
    metadata,
    _key("scope_id"),
    _key("consumer", comment="memory, experience or recurrence; they never share one"),
    _col("position", Count, "everything up to here is processed"),
    _col("window_limit", Count, "a smaller limit while a bad window is being halved", null=True),
    _col("served_at", Time, "when a run was last asked for; 0 never. Makes planning fair"),
    _col("updated_at", Time),
    sa.Index(None, "consumer", "served_at"),
    comment="How far each consumer has read each scope's log.",
)

windows = sa.Table(
    "windows",
    metadata,
    _key("window_id"),
    _col("scope_id", Id),
    _col("consumer", Id),
    _col("after", Count, "exclusive start: the cursor it was cut at"),
    _col("through", Count, "inclusive end"),
    _col("high_watermark", Count, "the log's end when it was read"),
    _col("kind", Id, "live or replay"),
    _col("status", Id),
    _col("attempt", Count, "attempts begun"),
    _col("counted_failures", Count, "failures that say something about the input"),
    _col("requests", Count, "runs asked for; part of the run key"),
    _col("next_attempt_at", Time, "not before this; 0 at once"),
    _col("first_failed_at", Time, null=True),
    _col("error", Json, "{code, message} of the last failure", null=True),
    _col("run_id", Id, "Dagster run that has or had it", null=True),
    _col("provider", Id, null=True),
    _col("model", sa.Text, null=True),
    _col("prompt_key", Id, null=True),
    _col("prompt_revision", Id, "packaged version, or the scope's prompt revision", null=True),
    _col("counts", Json, "sources, shown, proposals, added, … of the last attempt", null=True),
    _col("rejects", Json, "proposals not kept: {ordinal, rule, reason}", null=True),
    _col("usage", Json, "calls, tokens in and out, seconds, over all attempts", null=True),
    _col("memory_revision", Count, "the head after its commit", null=True),
    _col("planned_at", Time),
    _col("started_at", Time, null=True),
    _col("answered_at", Time, "when a model last answered it, well or badly", null=True),
    _col("finished_at", Time, null=True),
    sa.Index(None, "scope_id", "consumer", "after", "through"),
    sa.Index(None, "consumer", "finished_at", "window_id"),
    sa.Index(None, "model", "answered_at"),
    sa.Index(
        "uq_windows_open",
        "scope_id",
        "consumer",
        unique=True,
        sqlite_where=sa.text("kind = 'live' AND status IN ('planned', 'running', 'failed')"),
        postgresql_where=sa.text("kind = 'live' AND status IN ('planned', 'running', 'failed')"),
    ),
    comment="Every window ever cut, and what became of it.",
)

window_drafts = sa.Table(
    "window_drafts",
    metadata,
    _key("window_id"),
    _col("basis", Id, "digest of provider, model, prompt and sources it was made from"),
    _col("answer", Json, "proposals, rejects, usage and the entry versions shown"),
    _col("created_at", Time),
    comment="What a model answered, between asking and committing; a retry does not pay twice.",
)

quarantined_sources = sa.Table(
    "quarantined_sources",
    metadata,
    _key("scope_id"),
    _key("consumer"),
    _key("position", Count),
    _col("window_id", Id),
    _col("reason", sa.Text),
    _col("quarantined_at", Time),
    _col("released_at", Time, null=True),
    comment="Sources a consumer could not process; set aside so that nothing blocks.",
)

heartbeats = sa.Table(
    "heartbeats",
    metadata,
    _key("run_id"),
    _col("beat_at", Time),
    comment="Runs at work; one that stops beating is dead, whatever its status says.",
)

artifacts = sa.Table(
    "artifacts",
    metadata,
    _key("scope_id"),
    _key("family"),
    _key("artifact_id"),
    _col("head", Count, "current revision; 0 before the first"),
    _col("lifecycle", Id, "active, deprecated or retired"),
    _col("created_at", Time),
    comment="Versioned things: the scope's memory, its prompts.",
)

artifact_revisions = sa.Table(
    "artifact_revisions",
    metadata,
    _key("scope_id"),
    _key("family"),
    _key("artifact_id"),
    _key("revision", Count),
    _col("content", Json, "null for a memory, whose content is its spans", null=True),
    _col("reason", sa.Text, null=True),
    _col("origin", Id, "explicit, extraction or replay"),
    _col("window_id", Id, null=True),
    _col("created_at", Time),
    comment="Immutable revisions.",
)

lineage = sa.Table(
    "lineage",
    metadata,
    _key("scope_id"),
    _key("family"),
    _key("artifact_id"),
    _key("revision", Count),
    _key("ordinal", Count),
    _col("kind", Id, "source, artifact or citation"),
    _col("ref", Json, "the exact reference"),
    comment="What each revision was made from.",
)

entry_versions = sa.Table(
    "entry_versions",
    metadata,
    _key("scope_id"),
    _key("entry_version_id"),
    _col("entry_id", Id),
    _col("version", Count),
    _col("previous_version_id", Id, null=True),
    _col("kind", sa.Text),
    _col("text", sa.Text),
    _col("text_digest", Id, "SHA-256 of the text"),
    _col("content_hash", Id, "SHA-256 of kind, text and evidence"),
    _col("terms", sa.Text, "search tokens of the text, blank-joined"),
    _col("terms_version", Id, "the tokeniser that made them"),
    _col("source_refs", Json),
    _col("artifact_refs", Json),
    _col("origin", Id),
    _col("created_in_revision", Count),
    _col("created_at", Time),
    sa.UniqueConstraint("scope_id", "entry_id", "version"),
    sa.Index(None, "scope_id", "text_digest"),
    comment="Immutable bodies of memory entries, shared by all revisions that show them.",
)

manifest_spans = sa.Table(
    "manifest_spans",
    metadata,
    _key("scope_id"),
    _key("entry_id"),
    _key("from_revision", Count),
    _col("to_revision", Count, "exclusive end; null while current", null=True),
    _col("entry_version_id", Id),
    _col("state", Id, "active or inactive"),
    sa.Index(None, "scope_id", "to_revision", "state"),
    sa.Index(None, "scope_id", "from_revision"),
    sa.Index(None, "scope_id", "entry_version_id"),
    comment="The memory's manifest: from one revision to another, this entry had this version.",
)

memory_changes = sa.Table(
    "memory_changes",
    metadata,
    _key("scope_id"),
    _key("revision", Count),
    _key("entry_id"),
    _col("op", Id, "add, revise, deactivate or reactivate"),
    _col("from_version_id", Id, null=True),
    _col("to_version_id", Id, null=True),
    _col("reason", sa.Text, null=True),
    comment="What each memory revision changed; at most one change an entry.",
)

vectors = sa.Table(
    "vectors",
    metadata,
    _key("text_digest"),
    _key("profile", comment="provider, model, dimensions and normalisation"),
    _col("vector", sa.LargeBinary, "little-endian float32[dims], unit length"),
    comment="Embeddings by text: no text is embedded twice under one profile.",
)

memory_sizes = sa.Table(
    "memory_sizes",
    metadata,
    _key("scope_id"),
    _col("active", Count, "active entries of the head"),
    _col("inactive", Count, "inactive entries of the head"),
    comment="Running counts of each memory's entries, so that a write need not count them.",
)

purges = sa.Table(
    "purges",
    metadata,
    _key("scope_id"),
    _key("entry_id"),
    _col("revision", Count, "the memory's head after the purge"),
    _col("purged_at", Time),
    comment="Entries whose text was erased for good; their versions have an empty text.",
)

idempotent_answers = sa.Table(
    "idempotent_answers",
    metadata,
    _key("principal", comment="who asked; empty without authentication"),
    _key("route"),
    _key("key"),
    _col("digest", Id, "SHA-256 of the request's body"),
    _col("status", Count, "HTTP status of the answer; null while at work", null=True),
    _col("answer", sa.Text, "JSON, as text; null while at work", null=True),
    _col("created_at", Time),
    sa.Index(None, "created_at"),
    comment="Answers kept for idempotency keys, for 24 hours.",
)
