"""Schedules: the nightly upkeep and audit. Windows are not scheduled, sensors find them."""

import dagster as dg

from pc_pipelines import jobs

ALL = [
    dg.ScheduleDefinition(
        name="nightly_upkeep",
        description="Prunes old window partitions and runs, at 03:10 UTC.",
        job=jobs.upkeep,
        cron_schedule="10 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
    dg.ScheduleDefinition(
        name="nightly_audit",
        description="Runs every check on the ledger's state, at 03:40 UTC.",
        job=jobs.integrity_audit,
        cron_schedule="40 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
]
