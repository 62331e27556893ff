"""Tables of failures that come back: outcomes judged, matches, events, streaks, drafts."""

import sqlalchemy as sa

from pc_store.ledger.schema.columns import Count, Id, Json, Time, col, key, metadata

recurrence_outcomes = sa.Table(
    "recurrence_outcomes",
    metadata,
    key("scope_id"),
    key("outcome_position", Count, "of the task outcome in the log"),
    col("result", Id, "judged, or malformed when it cannot be read"),
    col("mode", Id, "scope_heads, or receipt when it names a valid one", null=True),
    col("receipt_position", Count, "of that receipt in the log", null=True),
    col("problem", sa.Text, "why it cannot be read, or why its receipt did not count", null=True),
    col("decided_at", Time),
    sa.Index(None, "scope_id", "result", "outcome_position"),
    comment="Task outcomes that were judged; each is, once.",
)

recurrence_matches = sa.Table(
    "recurrence_matches",
    metadata,
    key("scope_id"),
    key("outcome_position", Count, "of the task outcome in the log"),
    key("item_kind", comment="check or observation"),
    key("item_index", Count, "from 0"),
    col("item_digest", Id, "SHA-256 of the item's canonical JSON"),
    col("cue_key", Id, "the item's text, normalised; empty when nothing is left"),
    col("mode", Id, "scope_heads, or receipt when the outcome names a valid one"),
    col("result", Id, "matched, unmatched, ambiguous or pending"),
    col("artifact_id", Id, "the experience it matched", null=True),
    col("revision", Count, null=True),
    col("eligible", Json, "every revision that it may count for, as {artifact_id, revision}"),
    col("note", sa.Text, "why it is as it is, where that is not obvious", null=True),
    col("decided_at", Time),
    sa.Index(None, "scope_id", "result", "outcome_position"),
    sa.Index(None, "scope_id", "cue_key", "outcome_position"),
    comment="What each failing item of a task outcome was matched to; frozen once decided.",
)

recurrence_waits = sa.Table(
    "recurrence_waits",
    metadata,
    key("scope_id"),
    key("outcome_position", Count, "of the task outcome that could not be judged to its end"),
    key("waits_for", comment="a piece of evidence that is not there: source …, artifact …"),
    col("tried_at", Time),
    sa.Index(None, "scope_id", "waits_for"),
    sa.Index(None, "scope_id", "tried_at"),
    comment="Evidence that outcomes still wait for; when it arrives they are judged again.",
)

recurrence_events = sa.Table(
    "recurrence_events",
    metadata,
    key("scope_id"),
    key("event_id", comment="SHA-256 of the event's full evidence"),
    col("verdict_key", Id, "one per revision, cue and outcome; null for other events", null=True),
    col("event", Id, "selected, recurred, avoided or voided"),
    col("artifact_id", Id),
    col("revision", Count),
    col("cue_key", Id),
    col("outcome_position", Count),
    col("evidence", Json, "item locators, receipt, match; for voided the event and reason"),
    col("voided", sa.Boolean, "a compensating event took it back"),
    col("recorded_at", Time),
    sa.UniqueConstraint("scope_id", "verdict_key"),
    sa.Index(None, "scope_id", "artifact_id", "revision", "cue_key", "outcome_position"),
    sa.Index(None, "scope_id", "outcome_position"),
    comment="Append-only: what task outcomes said of the experiences that track failures.",
)

recurrence_streaks = sa.Table(
    "recurrence_streaks",
    metadata,
    key("scope_id"),
    key("artifact_id"),
    key("revision", Count),
    key("cue_key"),
    col("surface", Id, "what a repair would change; experience_content asks for a review"),
    col("streak", Count, "recurrences since the last avoidance, by position in the log"),
    col("recurred", Count, "all recurrences that stand"),
    col("avoided", Count, "all avoidances that stand"),
    col("last_position", Count, "of the last verdict"),
    col("walked_position", Count, "verdicts up to here were weighed for a review"),
    col("unreviewed", Count, "recurrences in a row, up to there, that no review has seen"),
    col("due_position", Count, "the recurrence that made a review due; 0 none"),
    col("reviewed_position", Count, "recurrences up to here had their review; 0 none"),
    col("review_id", Id, "the candidate of the last review", null=True),
    col("blocked", sa.Text, "why the review that is due could not be opened", null=True),
    col("updated_at", Time),
    sa.Index(None, "due_position"),
    comment="Running counts of each tracked failure, so that a verdict reads no others.",
)

review_drafts = sa.Table(
    "review_drafts",
    metadata,
    key("scope_id"),
    key("candidate_id", comment="the review"),
    col("version", Count, "of the review, whose evidence the model is shown"),
    col("status", Id, "waiting, asked, failed, drafted, unsupported or overtaken"),
    col("attempts", Count, "begun for this version; each is counted before the model is asked"),
    col("due_at", Time, "the model is not asked before; while it is asked: when another may ask"),
    col("why", sa.Text, "why there is no draft", null=True),
    col("model", Id, "the provider and model asked last", null=True),
    col("tokens_in", Count, "sent for all versions"),
    col("tokens_out", Count, "answered for all versions"),
    col("updated_at", Time),
    sa.Index(None, "status", "due_at"),
    comment="What a model was asked to draft for each review of a failure that comes back.",
)
