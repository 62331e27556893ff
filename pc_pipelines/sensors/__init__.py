"""Sensors, one module each, under the sensor's own name.

A sensor's own cursor holds nothing that matters: what is due is read from the ledger, so a new
instance, a lost queue or a reset cursor costs at most a report that is made twice.
"""

from pc_pipelines.sensors.dead_runs import dead_runs
from pc_pipelines.sensors.dreams_queued import dreams_queued
from pc_pipelines.sensors.experience_observer import experience_observer
from pc_pipelines.sensors.experience_windows_due import experience_windows_due
from pc_pipelines.sensors.landing_files_arrived import landing_files_arrived
from pc_pipelines.sensors.memory_windows_due import memory_windows_due
from pc_pipelines.sensors.recurrence_due import recurrence_due
from pc_pipelines.sensors.review_inbox_observer import review_inbox_observer
from pc_pipelines.sensors.search_index_due import search_index_due
from pc_pipelines.sensors.source_log_observer import source_log_observer
from pc_pipelines.sensors.windows_committed_elsewhere import windows_committed_elsewhere

ALL = [
    memory_windows_due,
    experience_windows_due,
    landing_files_arrived,
    source_log_observer,
    windows_committed_elsewhere,
    experience_observer,
    recurrence_due,
    dreams_queued,
    review_inbox_observer,
    search_index_due,
    dead_runs,
]
