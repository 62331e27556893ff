"""`memory_windows_due`: asks for the runs of due memory windows."""

from pc_pipelines import jobs
from pc_pipelines.sensors.windows_due import windows_due
from pc_pipelines.window_sets import MEMORY_WINDOWS
from pc_store.settings import Settings

memory_windows_due = windows_due(
    MEMORY_WINDOWS,
    jobs=[jobs.memory_extraction, jobs.memory_drain],
    every_s=Settings.load().memory_schedule_seconds,
)
