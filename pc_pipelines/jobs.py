"""Jobs: one window, one landing folder, a backlog drained in one run, and the nightly upkeep."""

from typing import Any

import dagster as dg

from pc_pipelines.drain import drain
from pc_pipelines.upkeep import delete_old_runs, forget_heartbeats, prune_window_partitions

memory_extraction = dg.define_asset_job(
    "memory_extraction",
    selection=["memory_windows"],
    description="Extract one window, the partition, into its scope's memory.",
)

source_ingestion = dg.define_asset_job(
    "source_ingestion",
    selection=dg.AssetSelection.assets("source_log").without_checks(),  # they read every scope
    description="Take in the landing files of one scope, the partition.",
)

integrity_audit = dg.define_asset_job(
    "integrity_audit",
    selection=dg.AssetSelection.checks_for_assets("source_log", "memory"),
    description="Run every check on the ledger's state.",
)


@dg.job(description="Drain one scope's backlog, or sweep the windows of many, in one run.")
def memory_drain() -> None:
    """The drain op."""
    drain()


@dg.job(description="Nightly upkeep: prune old window partitions, runs and heartbeats.")
def upkeep() -> None:
    """The upkeep ops."""
    delete_old_runs(prune_window_partitions())
    forget_heartbeats()


ALL: list[Any] = [memory_extraction, source_ingestion, memory_drain, upkeep, integrity_audit]
