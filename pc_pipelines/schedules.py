"""Schedules: the nightly upkeep and audit. Windows are not scheduled, sensors find them."""

import dagster as dg

from pc_pipelines import jobs

ALL = [
    dg.ScheduleDefinition(
        name="nightly_upkeep",
        job=jobs.upkeep,
        cron_schedule="10 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
    dg.ScheduleDefinition(
        name="nightly_audit",
        job=jobs.integrity_audit,
        cron_schedule="40 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    ),
]
