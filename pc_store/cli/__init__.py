"""The `pc` command: an edge that parses arguments, calls a service and prints."""

import os

# Before numpy is loaded. Our matrices are small: a second thread of OpenBLAS makes nothing faster,
# and waiting for it costs the packaged encoder 20 ms a text instead of 3, 120 on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
