"""`experience_windows`: one partition is one window, its task outcomes made into candidates."""

from pc_pipelines.window_asset import window_asset
from pc_pipelines.window_sets import EXPERIENCE_WINDOWS

experience_windows = window_asset(
    EXPERIENCE_WINDOWS,
    description=(
        "One partition is one window (SCOPE@FIRST-LAST) of a scope's log: its task outcomes are "
        "shown to the model, the proposals validated, and candidates for review committed together "
        "with the verdicts on failures that came back and the cursor. Nothing here approves any."
    ),
)
