"""Tables of generations: what replays would make of a memory, kept beside it."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

generations = sa.Table(
    "generations",
    metadata,
    key("scope_id"),
    key("name"),
    col("status", Id, "open, promoted or discarded; the last two are final"),
    col("provider", Id, "of all its windows, as the first was asked; null before", null=True),
    col("model", sa.Text, null=True),
    col("prompt_key", Id, null=True),
    col("prompt_revision", Id, "packaged version, or the scope's prompt revision", null=True),
    col("scope_prompt", Count, "that revision, where the prompt is the scope's own", null=True),
    col("created_at", Time),
    col("ended_at", Time, null=True),
    col("memory_revision", Count, "the head after its promotion", null=True),
    col("outcome", Json, "what its promotion changed, and left out; no texts", null=True),
    comment="Shadows of a memory: replayed windows whose results wait to be promoted or discarded.",
)


generation_windows = sa.Table(
    "generation_windows",
    metadata,
    key("scope_id"),
    key("generation"),
    key("after", Count),
    key("through", Count),
    col("window_id", Id),
    col("sources", Json, "those that were shown"),
    comment="The windows that a generation has replayed, each once.",
)


generation_drafts = sa.Table(
    "generation_drafts",
    metadata,
    key("scope_id"),
    key("generation"),
    key("window_id"),
    key("ordinal", Count),
    col("intent", Id, "add or revise"),
    col("kind", sa.Text),
    col("text", sa.Text),
    col("text_digest", Id, "SHA-256 of the text"),
    col("sources", Json, "its evidence"),
    col("entry_id", Id, "revise: the entry", null=True),
    col("against", Id, "revise: the version of it that was shown", null=True),
    col("reason", sa.Text, null=True),
    comment="Accepted proposals of an open generation; erased when it ends.",
)
