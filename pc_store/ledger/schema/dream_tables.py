"""The table of dreams: background refinements of chosen memory and experience."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

dream_runs = sa.Table(
    "dream_runs",
    metadata,
    key("scope_id"),
    key("run_id"),
    col("principal", Id, "who submitted it; `runtime` without authentication"),
    col("idempotency_key", Id),
    col("digest", Id, "SHA-256 of the request without its key, blind to order and duplicates"),
    col("operation", Id),
    col("request", Json, "what was asked for, normalised"),
    col("status", Id, "queued, running, succeeded or failed; the last two are final"),
    col("outcome", Id, "proposed, no_change or needs_evidence; null until succeeded", null=True),
    col("candidate_id", Id, null=True),
    col("intent", Id, "what its candidate is to do: create, corroborate, refine, …", null=True),
    col("reason", sa.Text, "the model's, or why the program decided otherwise", null=True),
    col("error", Id, "code of a failure; `cancelled` if somebody cancelled it", null=True),
    col("message", sa.Text, "what a failure says to a person", null=True),
    col("feedback", sa.Text, "what the last answer broke, for the next attempt", null=True),
    col("attempts", Count, "claims that started"),
    col("claim", Id, "who holds it now: a new value with every claim", null=True),
    col("manifest", Json, "the evidence graph without bodies", null=True),
    col("usage", Json, "model calls and tokens", null=True),
    col("budget", Json, "its limits, frozen at admission"),
    col("prompt_version", Id, null=True),
    col("model", sa.Text, "provider and model, pinned at the first claim", null=True),
    col("accepted_at", Time),
    col("started_at", Time, "the first claim", null=True),
    col("next_attempt_at", Time, "queued: not before; running: when others may take it over"),
    col("completed_at", Time, null=True),
    col("dagster_run_id", Id, null=True),
    sa.UniqueConstraint("scope_id", "principal", "idempotency_key"),
    sa.Index(None, "status", "next_attempt_at", "accepted_at"),
    sa.Index(None, "scope_id", "accepted_at", "run_id"),
    sa.Index(None, "scope_id", "started_at"),
    comment="Dreams, from submission to their truthful end.",
)
