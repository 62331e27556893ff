"""What an agent does over MCP, tool by tool; the answers are those of the HTTP routes."""

import httpx
from model_stub import says
from talking import mcp_url, scope, talk


def test_a_memory_is_made_from_a_captured_text_and_found_again(server, model_stub):
    async def conversation(tools):
        await scope(tools, "story")
        captured = await tools.ok(
            "capture_content_source",
            scope_id="story",
            source_id="s1",
            content="We decided to store amounts as integer cents.",
            metadata={"kind": "worklog"},
        )
        flushed = await tools.ok("flush_memory", scope_id="story")
        found = await tools.ok("search_memory", scope_id="story", query="amounts")
        listed = await tools.ok("list_memory_entries", scope_id="story")
        changes = await tools.ok("list_memory_changes", scope_id="story")
        return captured, flushed, found, listed, changes

    captured, flushed, found, listed, changes = talk(mcp_url(server), conversation)
    assert captured == {
        "status": "accepted",
        "source": {"name": "content", "source_id": "s1"},
        "position": 1,
    }
    assert (flushed["status"], flushed["previous_cursor"], flushed["current_cursor"]) == (
        "processed",
        0,
        1,
    )
    assert [type(flushed[name]) for name in ("current_cursor", "high_watermark")] == [int, int]
    body = {"scope_id": "story", "query": "amounts"}
    assert found == server.post("/v1/memory/search", body).json()
    assert listed == server.post("/v1/memory/entries/list", {"scope_id": "story"}).json()
    assert changes == server.post("/v1/memory/changes", {"scope_id": "story"}).json()
    assert found["hits"][0]["citation"] == listed["entries"][0]["citation"]


def test_a_context_is_prepared_as_over_http(server):
    async def conversation(tools):
        await scope(tools, "context")
        told = {"scope_id": "context", "kind": "fact", "text": "Amounts are cents."}
        await tools.ok("remember_memory", **told)
        prepared = await tools.ok("prepare_context", scope_id="context", query="amounts")
        details = await tools.refused(
            "prepare_context", "invalid_request", scope_id="context", query="a", max_bytes=64
        )
        return prepared, details

    prepared, details = talk(mcp_url(server), conversation)
    body = {"scope_id": "context", "query": "amounts"}
    assert prepared == server.post("/v1/context/prepare", body).json()
    assert "Amounts are cents." in prepared["content"]
    assert details["field"] == "max_bytes"


def test_a_lesson_is_proposed_reviewed_and_found(server):
    lesson = {
        "situation": "An amount went through a float.",
        "action": "Parsed the text as Decimal.",
        "outcome": "The cents are right.",
        "lesson": "Parse money as Decimal.",
        "failure": None,
    }
    cited = {"source_refs": [{"name": "content", "source_id": "s1"}], "artifact_refs": []}
    here = {"scope_id": "lessons"}

    async def conversation(tools):
        await scope(tools, "lessons")
        await tools.ok("capture_content_source", **here, source_id="s1", content="0.29 became 28.")
        made = await tools.ok("propose_experience", **here, proposal=lesson, **cited)
        of = {**here, "candidate_id": made["candidate_id"]}
        assert await tools.ok("get_artifact_candidate", **of) == made
        assert (await tools.ok("list_artifact_candidates", **here))["candidates"] == [made]
        compared = await tools.ok("compare_artifact_candidate", **of)
        assert [one["after"] for one in compared["changes"]] == list(lesson.values())[:4]
        other = lesson | {"lesson": "Parse weights as Decimal, too."}
        revised = await tools.ok(
            "revise_artifact_candidate", **of, expected_version=1, proposal=other, **cited
        )
        stale = await tools.refused(
            "approve_artifact_candidate", "candidate_conflict", **of, expected_version=1
        )
        assert stale == {"expected_version": 1, "current_version": 2}
        approved = await tools.ok("approve_artifact_candidate", **of, expected_version=2)
        final = {"expected_version": 2, "reason": "no"}
        await tools.refused("reject_artifact_candidate", "candidate_terminal", **of, **final)
        history = await tools.ok("list_artifact_candidate_history", **of)
        ref = approved["result_artifact"]
        read = await tools.ok("get_experience", **here, artifact=ref)
        found = await tools.ok("search_experiences", **here, query="weights")
        rejected = await tools.ok("propose_experience", **here, proposal=lesson, **cited)
        rejected = await tools.ok(
            "reject_artifact_candidate",
            **here,
            candidate_id=rejected["candidate_id"],
            expected_version=1,
            reason="said already",
        )
        return revised, history, ref, read, found, rejected

    revised, history, ref, read, found, rejected = talk(mcp_url(server), conversation)
    assert [one["version"] for one in history["versions"]] == [1, 2]
    assert history["decision"]["result_artifact"] == ref
    assert read["content"] == revised["proposal"]
    assert [hit["artifact"] for hit in found["hits"]] == [ref]
    assert rejected["decision_reason"] == "said already"


def test_experiences_are_incubated_listed_read_explained_and_withdrawn(server, model_stub):
    failing = {
        "objective": "Import the orders.",
        "status": "failed",
        "summary": "Decimal was used.",
        "observations": [{"text": "It was tried."}],
        "checks": [
            {
                "name": "amounts are exact",
                "status": "failed",
                "basis": "verified",
                "evidence": [
                    {"kind": "source", "source_ref": {"source_type": "content", "source_id": "s1"}}
                ],
            }
        ],
    }
    lesson = {
        "situation": "Amounts are imported.",
        "action": "Decimal was used.",
        "outcome": "One was off.",
        "lesson": "Round once.",
        "failure": {
            "signature": {"recall_cue": "amounts are exact", "symptom": None},
            "repair_surface": "experience_content",
            "verification": {"condition": "it was tried", "check_subject": "amounts are exact"},
        },
    }
    model_stub.answer(says({"candidates": [{"proposal": lesson, "evidence_ids": ["e1"]}]}))
    here = {"scope_id": "a/learns"}

    async def conversation(tools):
        await scope(tools, "a/learns")
        await tools.ok("capture_content_source", **here, source_id="s1", content="28 of 29.")
        await tools.ok("record_task_outcome", **here, source_id="o1", outcome=failing)
        [made] = (await tools.ok("incubate_experience", **here))["candidate_ids"]
        approved = await tools.ok(
            "approve_artifact_candidate", **here, candidate_id=made, expected_version=1
        )
        ref = approved["result_artifact"]
        listed = await tools.ok("list_experiences", **here, limit=5)
        named = {"artifact_id": ref["artifact_id"]}
        revisions = await tools.ok("list_artifact_revisions", **here, **named)
        read = await tools.ok("get_experience", **here, artifact=ref)
        explained = await tools.ok("explain_recurrence", **here, **named, revision=1)
        await tools.refused("explain_recurrence", "artifact_not_found", **here, artifact_id="exp_0")
        withdrawn = {"artifact": ref, "state": "deprecated", "reason": "It was a rehearsal."}
        state = await tools.ok("set_experience_lifecycle", **here, **withdrawn)
        left = await tools.ok("list_experiences", **here)
        every = await tools.ok("list_experiences", **here, include_inactive=True)
        return ref, listed, revisions, read, explained, state, left, every

    ref, listed, revisions, read, explained, state, left, every = talk(
        mcp_url(server), conversation
    )
    at = "/v1/scopes/a%2Flearns"
    assert [item["artifact"] for item in listed["items"]] == [ref]
    assert [item["revision"] for item in revisions["items"]] == [1]
    assert read["content"] == lesson
    assert explained["failure"]["cue_key"] == "amounts are exact"
    path = f"{at}/experience/{ref['artifact_id']}/recurrence?revision=1"
    now = httpx.get(f"{server.url}{path}").json()
    assert now == explained | {"lifecycle": "deprecated"}
    assert state == {"artifact": ref, "state": "deprecated"}
    assert (left["items"], [item["state"] for item in every["items"]]) == ([], ["deprecated"])


def test_a_stale_citation_is_refused_with_a_fresh_one_that_works(server):
    async def conversation(tools):
        await scope(tools, "stale")
        told = {"scope_id": "stale", "kind": "fact"}
        first = (await tools.ok("remember_memory", **told, text="Amounts are cents."))["entry"]
        assert (await tools.ok("remember_memory", **told, text="Amounts are cents."))[
            "entry"
        ] is None
        await tools.ok("remember_memory", **told, text="Names are UTF-8.")
        told["text"] = "Amounts are integer cents."
        old = first["citation"]
        details = await tools.refused(
            "revise_memory_entry", "revision_conflict", citation=old, **told
        )
        revised = await tools.ok("revise_memory_entry", citation=details["citation"], **told)
        retired = await tools.ok(
            "retire_memory_entry", scope_id="stale", citation=revised["entry"]["citation"]
        )
        then = await tools.ok("get_memory_entry", scope_id="stale", citation=old)
        capacity = await tools.ok("get_memory_capacity", scope_id="stale")
        return first, details, revised, retired, then, capacity

    first, details, revised, retired, then, capacity = talk(mcp_url(server), conversation)
    assert (details["current"], details["state"], details["entry_changed"]) == (2, "active", False)
    assert (revised["entry"]["version"], revised["memory"]["revision"]) == (2, 3)
    assert (retired["entry"]["state"], retired["memory"]["revision"]) == ("inactive", 4)
    assert then == first
    assert (capacity["active_entry_count"], capacity["manifest_entry_count"]) == (1, 2)


def test_scopes_and_bindings(server):
    async def conversation(tools):
        await scope(tools, "a/b")
        got = await tools.ok("get_scope", scope_id="a/b")
        listed = await tools.ok("list_scopes", query="a/b", query_field="scope_id", limit=5)
        key = {"integration": "git", "kind": "remote", "external_id": "x"}
        await tools.ok("set_scope_binding", key=key, scope_id="a/b")
        bound = await tools.ok("resolve_scope_binding", binding_keys=[key], allow_default=False)
        assert await tools.ok("clear_scope_binding", key=key) == {"cleared": True}
        await tools.refused(
            "resolve_scope_binding", "scope_not_found", binding_keys=[key], allow_default=False
        )
        return got, listed, bound

    got, listed, bound = talk(mcp_url(server), conversation)
    assert got == bound == server_scope(server, "a%2Fb")
    assert listed == {"items": [got], "next_cursor": None}


def server_scope(server, segment):
    return httpx.get(f"{server.url}/v1/scopes/{segment}").json()
