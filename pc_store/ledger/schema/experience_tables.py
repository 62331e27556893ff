"""Tables of experience: candidates under review, and what search and recurrence ask of heads."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

candidates = sa.Table(
    "candidates",
    metadata,
    key("scope_id"),
    key("candidate_id"),
    col("family", Id, "experience"),
    col("version", Count, "the newest version; only a revision raises it"),
    col("status", Id, "pending, approved or rejected; the last two are final"),
    col("origin", Id, "propose, generate, incubation, recurrence or dream"),
    col("intent", Id, "what a dream meant to do: create, corroborate, refine, …", null=True),
    col("author", Id, "who made it; empty without authentication"),
    col("target_id", Id, "the artifact it would replace the head of; null: a new one", null=True),
    col("target_revision", Count, null=True),
    col("fingerprint", Id, "digest of the newest version's content and set of evidence"),
    col("cue_key", Id, "normalised recall cue of the newest version, if any", null=True),
    col("result_id", Id, "the artifact that approval made or revised", null=True),
    col("result_revision", Count, null=True),
    col("decision_reason", sa.Text, null=True),
    col("decided_by", Id, null=True),
    col("window_id", Id, "the incubation window it came from", null=True),
    col("created_at", Time),
    col("updated_at", Time, "of the newest version or the decision"),
    sa.Index(None, "scope_id", "status", "created_at", "candidate_id"),
    sa.Index(None, "scope_id", "target_id", "status"),
    sa.Index(None, "scope_id", "fingerprint"),
    sa.Index(None, "status", "created_at"),
    sa.Index(
        "uq_candidates_open_review",
        "scope_id",
        "target_id",
        "target_revision",
        "cue_key",
        unique=True,
        sqlite_where=sa.text("origin = 'recurrence' AND status = 'pending'"),
        postgresql_where=sa.text("origin = 'recurrence' AND status = 'pending'"),
    ),
    comment="Proposals that wait for people, or had their decision.",
)

candidate_versions = sa.Table(
    "candidate_versions",
    metadata,
    key("scope_id"),
    key("candidate_id"),
    key("version", Count),
    col("proposal", Json, "the whole content, as it would be approved"),
    col("source_refs", Json),
    col("artifact_refs", Json),
    col("citations", Json),
    col("reason", sa.Text, null=True),
    col("fingerprint", Id),
    col("author", Id),
    col("created_at", Time),
    comment="Immutable versions of each candidate.",
)

experience_documents = sa.Table(
    "experience_documents",
    metadata,
    key("scope_id"),
    key("artifact_id"),
    col("revision", Count, "the active head"),
    col("text", sa.Text, "what search reads of it"),
    col("text_digest", Id, "SHA-256 of the text"),
    col("terms", sa.Text, "search tokens of the text, blank-joined"),
    col("terms_version", Id, "the tokeniser that made them"),
    col("cue_key", Id, "normalised recall cue, if it tracks a failure", null=True),
    col("updated_at", Time),
    sa.Index(None, "scope_id", "cue_key"),
    comment="Active experience heads, and no others, as search and recurrence see them.",
)
