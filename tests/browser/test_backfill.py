"""A person replays windows: the partitions page, the dialog, the backfill's page."""

import os
import re
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from dagster_process import DagsterProcess  # noqa: E402
from shots import browser, fill_backfill_dialog, land  # noqa: E402 - after the check above

from pc_store.ledger.database import open_database  # noqa: E402
from pc_store.services.administer import create_scope, scope_status  # noqa: E402
from pc_store.services.clock import now_us  # noqa: E402
from pc_store.services.watch import list_windows  # noqa: E402

CHROMIUM = Path(os.environ.get("PC_CHROMIUM", "/usr/bin/chromium"))
BACKFILLS = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status } } } }"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
]


def test_windows_are_replayed_through_the_dialog(tmp_path):
    db = open_database(f"sqlite:///{tmp_path / 'ledger.db'}")
    for scope in ("shop", "other"):
        create_scope(db, scope, now_us=now_us())
        land(tmp_path, scope, "a.jsonl", [f"We decided on rule {n}." for n in range(1, 6)])
    env = {"PC_SOURCE_WINDOW_LIMIT": "3", "PC_MEMORY_SCHEDULE_SECONDS": "2"}
    with DagsterProcess(tmp_path, env=env) as dagster, browser() as page:
        dagster.wait_for(
            lambda: len(dagster.partitions("memory_windows")["materialized"]) == 4,
            "the windows",
            within_s=180,
        )
        fill_backfill_dialog(page, dagster, "shop@")
        page.get_by_role("button", name="Launch").last.click()
        (backfill,) = dagster.wait_for(
            lambda: dagster.graphql(BACKFILLS)["partitionBackfillsOrError"]["results"],
            "the backfill to be launched",
        )
        page.goto(f"{dagster.url}/runs/b/{backfill['id']}")
        page.get_by_text("shop@").first.wait_for(timeout=60_000)
        dagster.wait_for(
            lambda: dagster.backfill_status(backfill["id"]) == "COMPLETED_SUCCESS",
            "the backfill",
            within_s=180,
        )
        page.reload()
        page.get_by_text(re.compile("Succeeded|Completed")).first.wait_for(timeout=60_000)
        assert dagster.stop() == 0
    replayed = [str(key) for key, row in list_windows(db, limit=50) if row.kind == "replay"]
    assert sorted(replayed) == ["shop@00000001-00000003", "shop@00000004-00000005"]
    assert scope_status(db, "shop").cursors["memory"] == 5
    db.close()
