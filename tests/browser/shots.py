"""Take the pictures of `docs/img`: a real `dagster dev`, its UI in headless Chromium.

    python tests/browser/shots.py docs/img [--only lineage partitions …]

Five scopes get the example log of 35 sources each through their landing folders. With a window
limit of 5 that is a backlog of 5 × 7 windows, which the sensors find and drain, and its task
outcomes become candidates; then one more window is answered by a model (the tests' stub) that
cites evidence it was never shown, and three entries are dreamt of.
Takes about four minutes. Needs Chromium at PC_CHROMIUM, by default /usr/bin/chromium.
"""

# ruff: noqa: E402, T201 - the imports need the path set first; it talks to a person

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "pipelines")]

from dagster_process import ROOT, DagsterProcess
from model_stub import ModelStub, adding, says
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import FloatRect, Page, ViewportSize, sync_playwright

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_run import dream_request
from pc_store.ledger.backlogs import first_outcome
from pc_store.ledger.database import open_database
from pc_store.services import dream
from pc_store.services.administer import create_scope, scope_status
from pc_store.services.clock import now_us
from pc_store.services.remember import list_entries
from pc_store.settings import Settings

SCOPES = ("orders-importer", "billing", "support-bot", "search-team", "logistics")
SOURCES = 35
PARTITION = "billing@00000011-00000015"
MOST_BYTES = 400_000
REPLAY = "ops:\n  memory_windows:\n    config:\n      mode: replay\n"
CLOSE_LIST = (519, 80)
WATERFALL = (309, 140)
"""Where pages have buttons without a name."""
SIZE: ViewportSize = {"width": 1600, "height": 1000}
WIDE: ViewportSize = {"width": 2100, "height": 1000}

CUT: dict[str, FloatRect] = {"rejected-run": {"x": 0, "y": 0, "width": 1600, "height": 785}}
"""Below it the page of the run has a stack trace, with the paths of the machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--only", nargs="*", default=list(SHOTS), choices=list(SHOTS))
    parser.add_argument("--home", type=Path, help="keep the instance here, and use it again")
    chosen = parser.parse_args()
    chosen.out_dir.mkdir(parents=True, exist_ok=True)
    home = chosen.home or Path(tempfile.mkdtemp(prefix="pc-shots-"))
    try:
        with prepared(home) as (dagster, rejected_run), browser() as page:
            for name in chosen.only:
                page.set_viewport_size(SIZE)
                try:
                    SHOTS[name](page, dagster, rejected_run)
                except PlaywrightError:
                    page.screenshot(path=Path(tempfile.gettempdir(), f"failed-{name}.png"))
                    raise
                path = chosen.out_dir / f"{name}.png"
                page.wait_for_timeout(700)  # animations of the UI
                page.screenshot(path=path, clip=CUT.get(name))
                shrink(path)
                print(f"{path}  {path.stat().st_size // 1000} kB", flush=True)
    finally:
        if chosen.home is None:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def prepared(home: Path) -> Iterator[tuple[DagsterProcess, str]]:
    """A running instance with a drained backlog, and the id of a run that was rejected."""
    env = {
        "PC_SOURCE_WINDOW_LIMIT": "5",
        "PC_MEMORY_SCHEDULE_SECONDS": "5",
        "PC_EXPERIENCE_SCHEDULE_SECONDS": "5",
        "PC_RETRY_BASE_S": "3600",
    }
    done = home / "prepared.json"
    if done.exists():
        for name in ("PC_MEMORY_SCHEDULE_SECONDS", "PC_EXPERIENCE_SCHEDULE_SECONDS"):
            del env[name]
        with DagsterProcess(home, env=env) as dagster:
            yield dagster, json.loads(done.read_text())
            dagster.stop()
        return
    fill(home)
    with DagsterProcess(home, env=env) as dagster:
        dagster.wait_for(
            lambda: (
                len(dagster.partitions("memory_windows")["materialized"]) == 35
                and no_outcome_waits(home)
                and not dagster.unfinished()
            ),
            "35 windows of memory, and those of experience",
            within_s=400,
        )
        dagster.stop()
    with ModelStub() as stub:
        stub.always(
            adding(
                ("Totals are compared with the ledger every night.", "e1"),
                ("Refunds above 500 EUR need a second approval.", "e99"),
            )
        )
        more = (
            "The nightly export moved to 02:30.",
            "Refunds above 500 EUR need approval.",
            "Thanks, that is all for today.",
        )
        land(home, "billing", "2026-09-05.jsonl", [{"content": one} for one in more])
        with DagsterProcess(home, env={**env, **stub.env()}) as dagster:
            dagster.wait_for(
                lambda: dagster.runs(statuses=["FAILURE"]), "the rejected run", within_s=120
            )
            dream_of_three(home, stub)
            dagster.wait_for(lambda: dreams_left(home) == 0, "the dreams")
            dagster.wait_for(lambda: not dagster.unfinished(), "the runs to end")
            run_id = dagster.runs(statuses=["FAILURE"])[0]["runId"]
            done.write_text(json.dumps(run_id))
            yield dagster, run_id
            dagster.stop()


def fill(home: Path) -> None:
    """Make the scopes, and give each 35 sources of the example log, over several days."""
    db = open_database(f"sqlite:///{home / 'ledger.db'}")
    for scope in SCOPES:
        create_scope(db, scope, now_us=now_us())
    db.close()
    lines = [
        json.loads(line)
        for path in sorted((ROOT / "examples" / "orders").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    for number, scope in enumerate(SCOPES):
        mine = [lines[(number * 9 + place) % len(lines)] for place in range(SOURCES)]
        for day in range(3):
            land(home, scope, f"2026-09-0{day + 1}.jsonl", mine[day * 12 : (day + 1) * 12])


def no_outcome_waits(home: Path) -> bool:
    """Whether experience has read every task outcome of every log."""
    with contextlib.closing(open_database(f"sqlite:///{home / 'ledger.db'}")) as db:
        at = {scope: scope_status(db, scope).cursors["experience"] for scope in SCOPES}
        with db.read() as conn:
            return all(
                first_outcome(conn, scope, after=position) is None for scope, position in at.items()
            )


def dream_of_three(home: Path, stub: ModelStub) -> None:
    """Submit dreams: one is proposed, one needs evidence, and of one nothing comes."""
    stub.reset()
    with contextlib.closing(open_database(f"sqlite:///{home / 'ledger.db'}")) as db:
        for scope, outcome in zip(SCOPES, ("", "needs_evidence", "no_change"), strict=False):
            cited = list_entries(db, scope, limit=3)[1]
            evidence = EvidenceRefs((), (), tuple(one.citation for one in cited))
            if outcome:
                reason = "No log shows what came of it, nor that anybody tried."
                stub.whenever(cited[0].entry.text, says({"outcome": outcome, "reason": reason}))
            request = dream_request("refine_experience", evidence)
            dream.submit(db, Settings(), scope, request, key="shot", now_us=now_us())


def dreams_left(home: Path) -> int:
    """How many dreams have not ended."""
    with contextlib.closing(open_database(f"sqlite:///{home / 'ledger.db'}")) as db:
        return dream.waiting(db, now_us=now_us()).pending


def land(home: Path, scope: str, name: str, said: list[dict[str, Any]]) -> None:
    """Put a file into a scope's landing folder: contents, with what is known of them."""
    from pc_store.domain.scope import partition_key

    path = home / "landing" / partition_key(scope) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    sources = [
        source | {"source_id": f"{name}#{number}"} for number, source in enumerate(said, start=1)
    ]
    path.write_text("".join(json.dumps(source, ensure_ascii=False) + "\n" for source in sources))
    old = time.time() - 60
    os.utime(path, (old, old))


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a headless Chromium, in English and light colours."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ.get("PC_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox", "--force-color-profile=srgb"],
        )
        context = chromium.new_context(viewport=SIZE, locale="en-US", color_scheme="light")
        context.set_default_timeout(20_000)
        yield context.new_page()
        chromium.close()


def lineage(page: Page, dagster: DagsterProcess, _: str) -> None:
    audit(dagster)
    page.set_viewport_size(WIDE)
    named = ("sources", "memory", "experience", "search")
    groups = ",".join(f"global@global:{name}" for name in named)
    page.goto(f"{dagster.url}/asset-groups?expanded={groups}")
    page.get_by_text("source_log").first.wait_for()
    page.mouse.click(*CLOSE_LIST)
    page.wait_for_timeout(3_000)


def partitions(page: Page, dagster: DagsterProcess, _: str) -> None:
    page.goto(f"{dagster.url}/assets/memory_windows?view=partitions")
    page.get_by_text(PARTITION, exact=True).first.click()
    page.get_by_text("first position").first.wait_for()


def rejected_run(page: Page, dagster: DagsterProcess, run_id: str) -> None:
    page.goto(f"{dagster.url}/runs/{run_id}")
    page.get_by_text("memory_windows.validate").last.wait_for()
    page.get_by_text("RUN_FAILURE").first.wait_for()
    page.mouse.click(*WATERFALL)
    page.get_by_text("memory_windows.validate").last.click()  # its events only
    page.get_by_text("STEP_FAILURE").first.wait_for()


def checks(page: Page, dagster: DagsterProcess, _: str) -> None:
    page.goto(f"{dagster.url}/assets/memory_windows?view=checks")
    page.get_by_text("Failed").first.click()
    page.get_by_text("offending proposals").first.wait_for()


def source_log_checks(page: Page, dagster: DagsterProcess, _: str) -> None:
    audit(dagster)
    page.goto(f"{dagster.url}/assets/source_log?view=checks")
    page.get_by_text("offending rows").first.wait_for()


def dreams(page: Page, dagster: DagsterProcess, _: str) -> None:
    page.goto(f"{dagster.url}/assets/dream_candidates?view=overview")
    page.get_by_text("longest wait, seconds").first.wait_for()


def plots(page: Page, dagster: DagsterProcess, _: str) -> None:
    page.goto(f"{dagster.url}/assets/memory_windows?view=overview")
    page.get_by_text("Plots", exact=True).first.click()
    page.get_by_text("first position").first.wait_for()


def backfill_dialog(page: Page, dagster: DagsterProcess, _: str) -> None:
    fill_backfill_dialog(page, dagster, "billing@")


def fill_backfill_dialog(page: Page, dagster: DagsterProcess, starting_with: str) -> None:
    """Open the dialog and choose windows and `mode: replay`, as a person would."""
    page.goto(f"{dagster.url}/assets/memory_windows?view=partitions")
    page.get_by_text("Partitions Selected").first.wait_for()
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_placeholder("Filter partitions").fill(starting_with)
    page.get_by_text("Select all (").click()
    dialog.get_by_text("Launch runs to materialize").click()  # closes the list
    dialog.get_by_text("Config", exact=True).click()
    dialog.get_by_role("button", name="Add config").click()
    editor = page.locator(".CodeMirror")
    editor.wait_for()
    editor.evaluate("(element, text) => element.CodeMirror.setValue(text)", REPLAY)
    page.get_by_text("No errors").wait_for()
    page.get_by_role("button", name="Save config").click()
    dialog.get_by_role("button", name="Launch backfill").wait_for()


def audit(dagster: DagsterProcess) -> None:
    """Run the nightly checks once, as the first night would."""
    if not dagster.runs(pipelineName="integrity_audit"):
        dagster.launch("integrity_audit")
    dagster.wait_for(
        lambda: (
            {run["status"] for run in dagster.runs(pipelineName="integrity_audit")} == {"SUCCESS"}
        ),
        "the audit",
    )


SHOTS: dict[str, Callable[[Page, DagsterProcess, str], None]] = {
    "lineage": lineage,
    "partitions": partitions,
    "rejected-run": rejected_run,
    "checks": checks,
    "source-log-checks": source_log_checks,
    "plots": plots,
    "dreams": dreams,
    "backfill-dialog": backfill_dialog,
}


def shrink(path: Path) -> None:
    """Reduce a picture to 256 colours where a tool for it is installed, and check its size."""
    if program := shutil.which("pngquant"):
        subprocess.run([program, "--force", "--ext", ".png", str(path)], check=True)
    assert path.stat().st_size < MOST_BYTES, f"{path} has {path.stat().st_size} bytes"


if __name__ == "__main__":
    main()
