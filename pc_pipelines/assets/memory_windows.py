"""`memory_windows`: one partition is one window of one scope's log, extracted into its memory."""

from pc_pipelines.window_asset import window_asset
from pc_pipelines.window_sets import MEMORY_WINDOWS

memory_windows = window_asset(
    MEMORY_WINDOWS,
    description=(
        "One partition is one window (SCOPE@FIRST-LAST) of a scope's log: its sources are shown "
        "to the model, the proposals validated, and the memory committed together with the cursor."
    ),
)
