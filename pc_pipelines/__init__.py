"""The Dagster code location: it orchestrates, and holds no rule and no SQL of its own."""

import gc
import os
import warnings

# Before numpy is loaded; `pc` does the same and says why.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What imports make stays. Left to itself Python looks through all of it for garbage, over and over:
# 0.5 of the 6 CPU seconds of a run. It looks through what is loaded from here on less often.
gc.freeze()
gc.set_threshold(50_000, 10, 10)
# Partitioned checks are in preview in 1.13; the version range and the end-to-end tests guard them.
warnings.filterwarnings("ignore", message="Specifying a partitions_def on an AssetCheckSpec")
# Raised by Dagster's own decorator, whatever it is given.
warnings.filterwarnings("ignore", message="Parameter `owners` of initializer `SensorDefinition")
