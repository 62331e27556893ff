"""The code location: everything Dagster loads, and nothing else."""

import dagster as dg

from pc_pipelines import checks, jobs, schedules, sensors
from pc_pipelines.assets.dream_candidates import dream_candidates
from pc_pipelines.assets.experience import experience
from pc_pipelines.assets.experience_windows import experience_windows
from pc_pipelines.assets.failure_recurrences import failure_recurrences
from pc_pipelines.assets.memory import memory
from pc_pipelines.assets.memory_windows import memory_windows
from pc_pipelines.assets.recurrence_reviews import recurrence_reviews
from pc_pipelines.assets.review_inbox import review_inbox
from pc_pipelines.assets.search_index import search_index
from pc_pipelines.assets.source_log import source_log
from pc_pipelines.resources import StoreResource

defs = dg.Definitions(
    assets=[
        source_log,
        memory_windows,
        memory,
        experience_windows,
        failure_recurrences,
        recurrence_reviews,
        dream_candidates,
        review_inbox,
        experience,
        search_index,
    ],
    asset_checks=checks.ALL,
    jobs=jobs.ALL,
    sensors=sensors.ALL,
    schedules=schedules.ALL,
    resources={"store": StoreResource()},
    executor=dg.in_process_executor,
)
