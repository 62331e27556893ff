"""Tables of scopes, their logs, and how far and in which windows each was read."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

store_facts = sa.Table(
    "store_facts",
    metadata,
    key("name"),
    col("value", sa.Text),
    comment="Facts of this store as a whole, such as its id.",
)


scopes = sa.Table(
    "scopes",
    metadata,
    key("scope_id"),
    col("key", Id, "the id as partition keys and folders spell it"),
    col("title", sa.Text),
    col("summary", sa.Text),
    col("parent_scope_id", Id, null=True),
    col("context_references", Json, "sorted scope ids whose knowledge is read as well"),
    col("external_references", Json, "list of {kind, value}"),
    col("version", Count, "optimistic lock"),
    col("created_at", Time),
    sa.UniqueConstraint("key"),
    sa.Index(None, "parent_scope_id"),
    comment="The isolation boundary: everything below belongs to exactly one scope.",
)


scope_creations = sa.Table(
    "scope_creations",
    metadata,
    key("idempotency_key"),
    col("digest", Id, "SHA-256 of the values the scope was made of"),
    col("scope_id", Id),
    col("created_at", Time),
    comment="Keys under which scopes were made: the same key and values give the same scope.",
)


scope_bindings = sa.Table(
    "scope_bindings",
    metadata,
    key("integration"),
    key("kind"),
    key("external_id"),
    col("scope_id", Id),
    col("bound_at", Time),
    sa.Index(None, "scope_id"),
    comment="What ids of other systems, such as a repository's address, stand for.",
)


source_heads = sa.Table(
    "source_heads",
    metadata,
    key("scope_id"),
    col("position", Count, "the last position: the log's high watermark"),
    col("updated_at", Time),
    sa.Index(None, "updated_at"),
    comment="One row a scope; its lock gives positions out, so commit order is position order.",
)


sources = sa.Table(
    "sources",
    metadata,
    key("scope_id"),
    key("position", Count, "dense from 1"),
    col("source_type", Id),
    col("source_id", Id),
    col("content", sa.Text),
    col("metadata", sa.Text, "JSON object, as text: what was given, digit for digit"),
    col("digest", Id, "SHA-256 over content and metadata"),
    col("tokens", Count, "estimated tokens of the content"),
    col("internal", sa.Boolean, "the store's own provenance record; never shown to a model"),
    col("received_at", Time),
    col("form", Id, "json: the content is JSON text, read as its value; null: text", null=True),
    col("role", Id, "receipt: this server wrote it as one; no caller can set it", null=True),
    col("kind", Id, "task-outcome: its metadata says it is one; null: anything else", null=True),
    sa.UniqueConstraint("scope_id", "source_type", "source_id"),
    sa.Index(
        None,
        "scope_id",
        "kind",
        "position",
        sqlite_where=sa.text("kind IS NOT NULL"),
        postgresql_where=sa.text("kind IS NOT NULL"),
    ),
    comment="The append-only log of captured material.",
)


landing_files = sa.Table(
    "landing_files",
    metadata,
    key("scope_id"),
    key("path", comment="relative to the scope's landing folder"),
    col("size_bytes", Count),
    col("modified_ns", Count),
    col("ingested_at", Time),
    col("accepted", Count, "sources in it, new or known"),
    col("rejected", Count),
    comment="Landing files as they were when last ingested.",
)


cursors = sa.Table(
    "cursors",
    metadata,
    key("scope_id"),
    key("consumer", comment="memory, experience or recurrence; they never share one"),
    col("position", Count, "everything up to here is processed"),
    col("window_limit", Count, "a smaller limit while a bad window is being halved", null=True),
    col("served_at", Time, "when a run was last asked for; 0 never. Makes planning fair"),
    col("updated_at", Time),
    sa.Index(None, "consumer", "served_at"),
    comment="How far each consumer has read each scope's log.",
)


windows = sa.Table(
    "windows",
    metadata,
    key("window_id"),
    col("scope_id", Id),
    col("consumer", Id),
    col("after", Count, "exclusive start: the cursor it was cut at"),
    col("through", Count, "inclusive end"),
    col("high_watermark", Count, "the log's end when it was read"),
    col("kind", Id, "live, replay or shadow"),
    col("status", Id),
    col("attempt", Count, "attempts begun"),
    col("counted_failures", Count, "failures that say something about the input"),
    col("requests", Count, "runs asked for; part of the run key"),
    col("next_attempt_at", Time, "not before this; 0 at once"),
    col("first_failed_at", Time, null=True),
    col("error", Json, "{code, message} of the last failure", null=True),
    col("run_id", Id, "Dagster run that has or had it", null=True),
    col("provider", Id, null=True),
    col("model", sa.Text, null=True),
    col("prompt_key", Id, null=True),
    col("prompt_revision", Id, "packaged version, or the scope's prompt revision", null=True),
    col("counts", Json, "sources, shown, proposals, added, … of the last attempt", null=True),
    col("rejects", Json, "proposals not kept: {ordinal, rule, reason}", null=True),
    col("usage", Json, "calls, tokens in and out, seconds, over all attempts", null=True),
    col("memory_revision", Count, "the head after its commit", null=True),
    col("planned_at", Time),
    col("started_at", Time, null=True),
    col("answered_at", Time, "when a model last answered it, well or badly", null=True),
    col("finished_at", Time, null=True),
    col("generation", Id, "of a shadow: the generation that its results go to", null=True),
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
    key("window_id"),
    col("basis", Id, "digest of provider, model, prompt and sources it was made from"),
    col("answer", Json, "proposals, rejects, usage and the entry versions shown"),
    col("created_at", Time),
    comment="What a model answered, between asking and committing; a retry does not pay twice.",
)


quarantined_sources = sa.Table(
    "quarantined_sources",
    metadata,
    key("scope_id"),
    key("consumer"),
    key("position", Count),
    col("window_id", Id),
    col("reason", sa.Text),
    col("quarantined_at", Time),
    col("released_at", Time, null=True),
    comment="Sources a consumer could not process; set aside so that nothing blocks.",
)


heartbeats = sa.Table(
    "heartbeats",
    metadata,
    key("run_id"),
    col("beat_at", Time),
    comment="Runs at work; one that stops beating is dead, whatever its status says.",
)
