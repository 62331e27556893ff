"""Tables of what was asked and answered."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

idempotent_answers = sa.Table(
    "idempotent_answers",
    metadata,
    key("principal", comment="who asked; empty without authentication"),
    key("route"),
    key("key"),
    col("digest", Id, "SHA-256 of the request's body"),
    col("status", Count, "HTTP status of the answer; null while at work", null=True),
    col("answer", sa.Text, "JSON, as text; null while at work", null=True),
    col("created_at", Time),
    sa.Index(None, "created_at"),
    comment="Answers kept for idempotency keys, for 24 hours.",
)

recalls = sa.Table(
    "recalls",
    metadata,
    key("recall_id", comment="sorts by time"),
    col("scope_id", Id),
    col("surface", Id, "search, experience_search or prepare_context"),
    col("query_digest", Id, "SHA-256 of the query; the query itself is not kept"),
    col("mode", Id, "how it was searched: fts, vector or hybrid", null=True),
    col("hits", Json, "what was delivered: references, ranks and bytes"),
    col("dropped", Json, "what was found and not delivered, and why"),
    col("max_bytes", Count, null=True),
    col("content_bytes", Count, null=True),
    col("tokens", Count, "estimated, of a prepared context's content", null=True),
    col(
        "baseline_tokens",
        Count,
        "estimated, of the sources of all it holds; null unless all has some",
        null=True,
    ),
    col("took_us", Count),
    col("recalled_at", Time),
    sa.Index(None, "scope_id", "recall_id"),
    sa.Index(None, "scope_id", "surface", "recalled_at"),
    comment="What was recalled for whom, kept PC_RECALL_DAYS days.",
)

embedding_costs = sa.Table(
    "embedding_costs",
    metadata,
    key("scope_id"),
    key("day", Count, "days since 1970-01-01, UTC"),
    key("purpose", comment="memory_indexing"),
    col("requests", Count),
    col("tokens", Count, "as the endpoint counts them"),
    comment="What embedding the texts of each scope cost, by day.",
)
