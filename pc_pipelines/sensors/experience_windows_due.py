"""`experience_windows_due`: asks for the runs of due experience windows."""

from pc_pipelines import jobs
from pc_pipelines.sensors.windows_due import windows_due
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS
from pc_store.settings import Settings

experience_windows_due = windows_due(
    EXPERIENCE_WINDOWS,
    jobs=[jobs.experience_incubation, jobs.experience_drain],
    every_s=Settings.load().experience_schedule_seconds,
)
