"""The Dagster code location: it orchestrates, and holds no rule and no SQL of its own."""

import atexit
import gc
import os
import warnings

# Before numpy is loaded; `pc` does the same and says why.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What imports make stays, and a run is a process that is mostly imports. Left to itself Python
# looks through all of it for garbage, over and over and once more at the end: a sixth of a run.
gc.freeze()
gc.set_threshold(50_000, 10, 10)
atexit.register(gc.freeze)
# Partitioned checks are in preview in 1.13; the version range and the end-to-end tests guard them.
warnings.filterwarnings("ignore", message="Specifying a partitions_def on an AssetCheckSpec")
# Raised by Dagster's own decorator, whatever it is given.
warnings.filterwarnings("ignore", message="Parameter `owners` of initializer `SensorDefinition")
