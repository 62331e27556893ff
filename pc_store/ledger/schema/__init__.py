"""The ledger's tables, for SQLite and PostgreSQL alike. Migrations lead here; a test compares.

Every key starts with the scope, so a scope's rows sit together and scopes never meet.
Times are microseconds since the epoch, UTC. Positions, revisions and versions count from 1;
0 means "none yet". Identity text compares byte by byte on both databases.
"""

from pc_store.ledger.schema.columns import metadata as metadata
from pc_store.ledger.schema.dream_tables import dream_runs as dream_runs
from pc_store.ledger.schema.experience_tables import candidate_versions as candidate_versions
from pc_store.ledger.schema.experience_tables import candidates as candidates
from pc_store.ledger.schema.experience_tables import experience_documents as experience_documents
from pc_store.ledger.schema.experience_tables import (
    experience_lifecycles as experience_lifecycles,
)
from pc_store.ledger.schema.generation_tables import generation_drafts as generation_drafts
from pc_store.ledger.schema.generation_tables import generation_windows as generation_windows
from pc_store.ledger.schema.generation_tables import generations as generations
from pc_store.ledger.schema.log_tables import cursors as cursors
from pc_store.ledger.schema.log_tables import heartbeats as heartbeats
from pc_store.ledger.schema.log_tables import landing_files as landing_files
from pc_store.ledger.schema.log_tables import quarantined_sources as quarantined_sources
from pc_store.ledger.schema.log_tables import scope_bindings as scope_bindings
from pc_store.ledger.schema.log_tables import scope_creations as scope_creations
from pc_store.ledger.schema.log_tables import scopes as scopes
from pc_store.ledger.schema.log_tables import source_heads as source_heads
from pc_store.ledger.schema.log_tables import sources as sources
from pc_store.ledger.schema.log_tables import store_facts as store_facts
from pc_store.ledger.schema.log_tables import window_drafts as window_drafts
from pc_store.ledger.schema.log_tables import windows as windows
from pc_store.ledger.schema.memory_tables import artifact_revisions as artifact_revisions
from pc_store.ledger.schema.memory_tables import artifacts as artifacts
from pc_store.ledger.schema.memory_tables import entry_versions as entry_versions
from pc_store.ledger.schema.memory_tables import lineage as lineage
from pc_store.ledger.schema.memory_tables import manifest_spans as manifest_spans
from pc_store.ledger.schema.memory_tables import memory_changes as memory_changes
from pc_store.ledger.schema.memory_tables import memory_sizes as memory_sizes
from pc_store.ledger.schema.memory_tables import purges as purges
from pc_store.ledger.schema.memory_tables import vectors as vectors
from pc_store.ledger.schema.recurrence_tables import recurrence_events as recurrence_events
from pc_store.ledger.schema.recurrence_tables import recurrence_matches as recurrence_matches
from pc_store.ledger.schema.recurrence_tables import recurrence_outcomes as recurrence_outcomes
from pc_store.ledger.schema.recurrence_tables import recurrence_streaks as recurrence_streaks
from pc_store.ledger.schema.recurrence_tables import recurrence_waits as recurrence_waits
from pc_store.ledger.schema.recurrence_tables import review_drafts as review_drafts
from pc_store.ledger.schema.service_tables import embedding_costs as embedding_costs
from pc_store.ledger.schema.service_tables import idempotent_answers as idempotent_answers
from pc_store.ledger.schema.service_tables import recalls as recalls
