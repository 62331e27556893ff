"""The readers on real logs, which lie beside the repository and not in it."""

from collections import Counter
from pathlib import Path

import pytest

from pc_store import limits
from pc_store.domain import outcome
from pc_store.readers import detect
from pc_store.readers.reading import Read, Reject, Tally
from pc_store.readers.walk import files_in

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "real"
CLAUDE = "claude_code_spotter"
MAIN = f"{CLAUDE}/ae4a77f8-aedd-4bc1-888f-c94edc91af04"

SOURCES = {
    f"{MAIN}.jsonl": 387,
    f"{MAIN}/subagents/agent-aac57f5.jsonl": 16,
    f"{MAIN}/subagents/agent-acompact-946d2b.jsonl": 2,
    f"{CLAUDE}/short.jsonl": 4,
    f"{CLAUDE}/subagent.jsonl": 25,
    f"{CLAUDE}/tool_heavy.jsonl": 9,
}


@pytest.fixture(scope="module")
def real() -> Path:
    if not REAL.is_dir():
        pytest.skip(f"REAL LOGS SKIPPED: there is no {REAL}")
    return REAL


def _read(root: Path, name: str) -> tuple[list[Read], list[Reject], Tally]:
    tally = Tally()
    items = list(detect.read(root / name, root=root, tally=tally))
    reads = [item for item in items if isinstance(item, Read)]
    return reads, [item for item in items if isinstance(item, Reject)], tally


@pytest.mark.parametrize("name", SOURCES)
def test_sessions_of_claude_code_are_read_whole(real, name):
    assert detect.detect(real / name) == "claude-code"
    reads, rejects, tally = _read(real, name)
    assert (len(reads), rejects) == (SOURCES[name], [])
    assert tally.bytes_done == (real / name).stat().st_size
    for item in reads:
        assert "\x1b" not in item.source.content
        assert "<system-reminder>" not in item.source.content
        assert item.source.metadata["kind"] in ("prompt", "assistant", "tool-result")


def test_most_of_the_long_session_is_noise(real):
    reads, _, tally = _read(real, f"{MAIN}.jsonl")
    assert tally.lines == 2_385
    assert dict(tally.dropped) == {
        "progress": 1_697,
        "file-history-snapshot": 26,
        "blank turn": 19,
        "thinking": 6,
        "system": 5,
        "injected instruction": 2,
        "command or interruption": 1,
    }
    kinds = Counter(item.source.metadata["kind"] for item in reads)
    assert kinds == {"prompt": 3, "assistant": 159, "tool-result": 225}
    prompts = [i.source.content for i in reads if i.source.metadata["kind"] == "prompt"]
    assert prompts[1:] == [
        "/compact and continue with the reamining tasks",
        "continue implementation",
    ]
    assert all(
        item.source.metadata["tool"]
        for item in reads
        if item.source.metadata["kind"] == "tool-result"
    )


def test_trajectories_of_swe_agent_give_every_step(real):
    names = sorted(f"swe_agent/{path.name}" for path in (real / "swe_agent").glob("*.traj"))
    assert len(names) == 21
    kinds: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for name in names:
        assert detect.detect(real / name) == "swe-agent"
        reads, rejects, tally = _read(real, name)
        assert rejects == []
        kinds.update(item.source.metadata["kind"] for item in reads)
        dropped += tally.dropped
    assert kinds == {"prompt": 21, "step": 219, "result": 20}
    assert dropped == {"system prompt": 21, "demonstration": 2}


def test_results_of_tau_bench_are_one_outcome_a_trial(real):
    name = "tau_bench/gpt-4o-airline.json.gz"
    assert detect.detect(real / name) == "tau-bench"
    reads, rejects, tally = _read(real, name)
    assert rejects == []
    assert not tally.dropped
    told = [item.source for item in reads if item.source.metadata["kind"] == outcome.KIND]
    assert len(told) == 200
    assert len(reads) == 200
    assert [source.source_id for source in told[:2]] == ["tau-airline-0-t0", "tau-airline-1-t0"]
    parsed = [outcome.loads(source.content) for source in told]
    assert Counter(one.status for one in parsed) == {"succeeded": 84, "failed": 116}


def test_every_source_is_within_the_limits_once_and_the_same_twice(real):
    found = files_in([real])
    sources = []
    for item in found:
        reads, _, _ = _read(real, item.name)
        again, _, _ = _read(real, item.name)
        assert again == reads
        sources += [read.source for read in reads]
    ids = [source.source_id for source in sources]
    assert len(ids) == len(set(ids))
    assert all(len(source.content) <= limits.SOURCE_CONTENT_MAX_CHARS for source in sources)
    assert all(len(source_id) <= limits.SOURCE_ID_MAX_CHARS for source_id in ids)


def test_json_of_no_known_format_is_rejected_and_says_so(real):
    _, (reject,), _ = _read(real, "evermem_zh_chat/team_chat_zh.json")
    assert reject.reason.startswith("file: is JSON of no known format")
