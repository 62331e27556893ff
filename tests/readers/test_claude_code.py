"""Session logs of Claude Code."""

import json

import pytest

from pc_store.readers import claude_code
from pc_store.readers.reading import Read, Reject, Tally

SESSION = "0b6fd2c6-1111-4222-8333-444455556666"


def record(uuid: str, role: str, content, **more) -> dict:
    message = {"role": role, "content": content}
    return {"type": role, "uuid": uuid, "sessionId": SESSION, "message": message, **more}


def call(identity: str, tool: str, **arguments) -> dict:
    return {"type": "tool_use", "id": identity, "name": tool, "input": arguments}


def result(identity: str, content, **more) -> dict:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


@pytest.fixture
def read(tmp_path):
    def reader(*records, tally: Tally | None = None):
        path = tmp_path / "session.jsonl"
        lines = [item if isinstance(item, str) else json.dumps(item) for item in records]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return list(claude_code.read(path, root=tmp_path, tally=tally))

    return reader


def test_a_prompt_an_answer_and_a_tool_result_are_a_source_each(read):
    context = {"cwd": "/home/a", "gitBranch": "main", "timestamp": "2026-02-10T21:54:53.186Z"}
    prompt, answer, output = read(
        record("u1", "user", "run the tests 请", **context),
        record("a1", "assistant", [{"type": "text", "text": "Running them."}]),
        record("a2", "assistant", [call("t1", "Bash", command="pytest", timeout=5)]),
        record("u2", "user", [result("t1", "  2 failed\n", is_error=True)]),
    )
    assert prompt.source.source_id == f"{SESSION}:u1"
    assert prompt.source.content == "run the tests 请"
    assert dict(prompt.source.metadata) == {
        "kind": "prompt",
        "role": "user",
        "session": SESSION,
        "cwd": "/home/a",
        "git_branch": "main",
        "timestamp": "2026-02-10T21:54:53.186Z",
    }
    assert answer.source.metadata["kind"] == "assistant"
    assert output.line == 4
    assert output.source.content == "Call: Bash command=pytest timeout=5\nError:\n  2 failed"
    assert dict(output.source.metadata) == {
        "kind": "tool-result",
        "role": "user",
        "session": SESSION,
        "tool": "Bash",
        "is_error": True,
    }


def test_parts_of_one_record_are_one_source(read):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    (only,) = read(record("a1", "assistant", parts))
    assert only.source.content == "one\n\ntwo"


def test_noise_is_dropped_and_counted(read):
    tally = Tally()
    assert (
        read(
            {"type": "progress", "uuid": "p"},
            {"type": "file-history-snapshot", "snapshot": {}},
            {"type": "system", "content": "x"},
            {"type": "something-new"},
            record("a1", "assistant", [{"type": "thinking", "thinking": "hmm"}]),
            record("a2", "assistant", [{"type": "text", "text": "\n\n"}]),
            record("a3", "assistant", "API Error: 500", isApiErrorMessage=True),
            record("a4", "assistant", [call("t9", "Bash", command="sleep 9")]),
            record("u1", "user", "Base directory for this skill: …", isMeta=True),
            record("u2", "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
            record(
                "u3", "user", "<command-name>/clear</command-name><command-args></command-args>"
            ),
            record("u4", "user", "<local-command-stdout>ok</local-command-stdout>"),
            record("u5", "user", [{"type": "image", "source": {}}]),
            tally=tally,
        )
        == []
    )
    assert tally.dropped == {
        "progress": 1,
        "file-history-snapshot": 1,
        "system": 1,
        "other record": 1,
        "thinking": 1,
        "blank turn": 1,
        "api error": 1,
        "tool call without result": 1,
        "injected instruction": 1,
        "command or interruption": 3,
        "image": 1,
    }


@pytest.mark.parametrize(
    ("said", "kept", "kind"),
    [
        (
            "<command-name>/fix</command-name>\n <command-message>fix</command-message>\n"
            "<command-args>the rounding\nbug</command-args>",
            "/fix the rounding\nbug",
            "prompt",
        ),
        ("<bash-input>ls -l</bash-input>", "! ls -l", "prompt"),
        ("<bash-stdout>a b</bash-stdout><bash-stderr></bash-stderr>", "a b", "tool-result"),
        ("fix it<system-reminder>be nice</system-reminder>", "fix it", "prompt"),
        ("what does <system-reminder> mean?", "what does <system-reminder> mean?", "prompt"),
    ],
)
def test_wrappers_are_taken_off_what_a_person_said(read, said, kept, kind):
    (only,) = read(record("u1", "user", said))
    assert only.source.content == kept
    assert only.source.metadata["kind"] == kind


def test_escapes_and_rewritten_progress_are_taken_out(read):
    (only,) = read(record("u1", "user", [result("t1", "\x1b[32m 10%\r 100%\x1b[0m\ndone")]))
    assert only.source.content == " 100%\ndone"


def test_a_compaction_summary_is_the_models_text(read):
    (only,) = read(record("u1", "user", "This session is being…", isCompactSummary=True))
    assert only.source.metadata["kind"] == "assistant"
    assert only.source.metadata["compact_summary"] is True


def test_a_sub_agents_turns_say_so(read):
    (only,) = read(record("u1", "user", "look it up", isSidechain=True, agentId="a7"))
    assert only.source.metadata["sidechain"] is True
    assert only.source.metadata["agent"] == "a7"


def test_results_in_parts_and_several_results_in_one_record(read):
    (only,) = read(
        record("a1", "assistant", [call("t1", "Read", path="x"), call("t2", "Grep", q="y")]),
        record(
            "u1",
            "user",
            [
                result("t1", [{"type": "text", "text": "a"}, {"type": "image"}]),
                result("t2", "b", is_error=False),
            ],
        ),
    )
    assert only.source.content == (
        "Call: Read path=x\nResult:\na\n[image]\n\nCall: Grep q=y\nResult:\nb"
    )
    assert only.source.metadata["tool"] == "Read, Grep"
    assert only.source.metadata["is_error"] is False


def test_long_arguments_are_shortened(read):
    (only,) = read(
        record("a1", "assistant", [call("t1", "Write", path="x", content="y" * 5_000)]),
        record("u1", "user", [result("t1", "written")]),
    )
    assert only.source.content == f"Call: Write path=x content={'y' * 300}…\nResult:\nwritten"


def test_a_long_result_is_cut_into_parts(read):
    parts = read(record("u1", "user", [result("t1", "line\n" * 100_000)]))
    assert [part.source.source_id for part in parts] == [
        f"{SESSION}:u1#part1/3",
        f"{SESSION}:u1#part2/3",
        f"{SESSION}:u1#part3/3",
    ]


def test_a_growing_log_keeps_its_sources_and_a_repeated_record_is_the_same(read):
    records = [
        record("a1", "assistant", [call("t1", "Bash", command="ls")]),
        record("u1", "user", [result("t1", "a b")]),
    ]
    short = read(*records)
    long = read(*records, record("u2", "user", "thanks"), records[1])
    assert long[: len(short)] == short
    assert long[-1].source == short[0].source


def test_bad_lines_are_rejected_and_the_rest_is_read(read):
    items = read(
        record("u1", "user", "one"),
        '{"type": "user", "message":',
        {"no": "type"},
        {"type": "user", "uuid": "u2"},
        "[" * 100_000,
        record("u3", "user", "a NUL \x00 and half a pair \ud83d"),
    )
    assert [type(item) for item in items] == [Read, Reject, Reject, Reject, Reject, Read]
    reasons = [item.reason for item in items if isinstance(item, Reject)]
    assert reasons == [
        "record: is not JSON: expecting value at line 1 column 28",
        "record: has no type, so it is no record of a session",
        "message: has no content, neither text nor a list of parts",
        "record: nests too deep to be read",
    ]
    assert items[-1].source.content == "a NUL  and half a pair \ufffd"


def test_records_without_ids_are_named_by_file_and_line(read):
    (only,) = read({"type": "user", "message": {"content": "hello"}})
    assert only.source.source_id == "session:line-1"
