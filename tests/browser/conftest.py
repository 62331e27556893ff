"""Lets the browser tests use the harness of the live tests, which is the next folder's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines"))
