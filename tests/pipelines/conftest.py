"""The fixtures of the pipeline's tests; what they give is described in `plant.py`."""

from plant import _dagster_home, asking, new_plant, plant

__all__ = ["_dagster_home", "asking", "new_plant", "plant"]
