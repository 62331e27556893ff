"""The code location: everything Dagster loads, and nothing else."""

import dagster as dg

from pc_pipelines import checks, jobs, schedules, sensors
from pc_pipelines.assets.memory import memory
from pc_pipelines.assets.memory_windows import memory_windows
from pc_pipelines.assets.source_log import source_log
from pc_pipelines.resources import StoreResource

defs = dg.Definitions(
    assets=[source_log, memory_windows, memory],
    asset_checks=checks.ALL,
    jobs=jobs.ALL,
    sensors=sensors.ALL,
    schedules=schedules.ALL,
    resources={"store": StoreResource()},
    executor=dg.in_process_executor,
)
