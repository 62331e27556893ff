"""Jobs: one window, one landing folder, a backlog drained in one run, and the nightly upkeep."""

from typing import Any, get_args

import dagster as dg

from pc_pipelines.drain import drain
from pc_pipelines.upkeep import (
    delete_old_runs,
    forget_heartbeats,
    forget_old_recalls,
    prune_vectors,
    prune_window_partitions,
    remove_index_leftovers,
)
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS, MEMORY_WINDOWS
from pc_store.services.audit import Part

memory_extraction = dg.define_asset_job(
    MEMORY_WINDOWS.window_job,
    selection=dg.AssetSelection.assets(MEMORY_WINDOWS.asset),
    description="Extract one window, the partition, into its scope's memory.",
)

experience_incubation = dg.define_asset_job(
    EXPERIENCE_WINDOWS.window_job,
    selection=dg.AssetSelection.assets(EXPERIENCE_WINDOWS.asset),
    description="Make candidates of the task outcomes of one window, the partition.",
)

source_ingestion = dg.define_asset_job(
    "source_ingestion",
    selection=dg.AssetSelection.assets("source_log").without_checks(),  # they read every scope
    description="Take in the landing files of one scope, the partition.",
)

recurrence = dg.define_asset_job(
    "recurrence",
    selection=dg.AssetSelection.assets(
        "failure_recurrences", "recurrence_reviews"
    ).without_checks(),
    description="Judge the task outcomes of one scope, the partition, and open due reviews.",
)

dream = dg.define_asset_job(
    "dream",
    selection=dg.AssetSelection.assets("dream_candidates").without_checks(),  # of all dreams
    description="Work on the dreams that wait, of all scopes.",
)

search_index_build = dg.define_asset_job(
    "search_index_build",
    selection=dg.AssetSelection.assets("search_index").without_checks(),  # they read every shard
    description="Build the search index file of one shard, the partition.",
)

integrity_audit = dg.define_asset_job(
    "integrity_audit",
    selection=dg.AssetSelection.checks_for_assets(*get_args(Part), "search_index"),
    description="Run every check on the ledger's state and on the search index.",
)


_drain_memory = drain(MEMORY_WINDOWS)
_drain_experience = drain(EXPERIENCE_WINDOWS)


@dg.job(
    name=MEMORY_WINDOWS.drain_job,
    description="Drain one scope's backlog, or sweep the windows of many, in one run.",
)
def memory_drain() -> None:
    """The drain op."""
    _drain_memory.alias("drain")()


@dg.job(
    name=EXPERIENCE_WINDOWS.drain_job,
    description="As memory_drain, of experience windows.",
)
def experience_drain() -> None:
    """The drain op."""
    _drain_experience.alias("drain")()


@dg.job(
    description="Nightly upkeep: prune old window partitions, runs, heartbeats, recalls, vectors."
)
def upkeep() -> None:
    """The upkeep ops."""
    delete_old_runs(prune_window_partitions())
    forget_heartbeats()
    forget_old_recalls()
    remove_index_leftovers()
    prune_vectors()


ALL: list[Any] = [
    memory_extraction,
    source_ingestion,
    memory_drain,
    experience_incubation,
    experience_drain,
    upkeep,
    recurrence,
    dream,
    search_index_build,
    integrity_audit,
]
