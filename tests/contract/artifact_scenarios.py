"""Revisions of the memory as artifacts, and prompt configurations."""

import hashlib
import json
from typing import Any

from caller import EMPTY_ITEMS, Caller


def _memory(pc: Caller) -> dict[str, Any]:
    return {"scope_id": pc.scope, "family": "memory", "artifact_id": "memory"}


def before_the_first_entry_there_is_none(pc: Caller) -> None:
    assert pc.ok("list_artifacts", {}, scope_id=pc.scope, family="memory") == EMPTY_ITEMS
    pc.refused(404, "artifact_not_found", "get_artifact", **_memory(pc))
    pc.refused(404, "artifact_not_found", "list_artifact_revisions", {}, **_memory(pc))
    pc.refused(404, "artifact_not_found", "get_artifact_revision", **_memory(pc), revision=1)


def the_head_is_the_whole_manifest(pc: Caller) -> None:
    entries = [pc.entry("one"), pc.entry("two", "decision")]
    gone = pc.memory("retire_memory_entry", citation=entries[1]["citation"], reason="old")["entry"]
    found = pc.ok("get_artifact", **_memory(pc))
    content = found["content"]
    assert (found["scope_id"], found["family"], found["artifact_id"]) == (
        pc.scope,
        "memory",
        "memory",
    )
    assert found["revision"] == 3
    assert content["schema"] == "powercontext.memory.v1"
    assert content["manifest"]["format"] == "flat-v1"
    shown = content["manifest"]["entries"]
    assert [one["entry_id"] for one in shown] == sorted(
        entry["citation"]["entry_id"] for entry in entries
    )
    for one in shown:
        assert one.keys() == {"entry_id", "entry_version_id", "entry_content_hash", "state"}
        assert len(one["entry_content_hash"]) == 64
    states = {one["entry_id"]: one["state"] for one in shown}
    assert states[gone["citation"]["entry_id"]] == "inactive"
    assert content["changes"] == [
        {
            "op": "deactivate",
            "entry_id": gone["citation"]["entry_id"],
            "from_entry_version_id": gone["citation"]["entry_version_id"],
            "to_entry_version_id": None,
            "reason": "old",
        }
    ]
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    assert found["content_digest"] == f"sha256:{digest}"
    assert (found["sources"], found["artifacts"], found["memory_citations"]) == ([], [], [])


def every_revision_reads_as_it_was(pc: Caller) -> None:
    seen = {}
    for revision in range(1, 5):
        pc.entry(f"text {revision}")
        seen[revision] = pc.ok("get_artifact", **_memory(pc))
    for revision, was in seen.items():
        assert was["revision"] == revision
        found = pc.ok("get_artifact_revision", **_memory(pc), revision=revision)
        assert found == was
        assert len(found["content"]["manifest"]["entries"]) == revision
        assert len(found["content"]["changes"]) == 1
    pc.refused(404, "artifact_not_found", "get_artifact_revision", **_memory(pc), revision=5)


def an_etag_that_is_current_spares_the_body(pc: Caller) -> None:
    pc.entry("one")
    current = '"revision:1"'
    assert pc.call("get_artifact", **_memory(pc), if_none_match=current).status == 304
    pc.entry("two")
    assert pc.ok("get_artifact", **_memory(pc), if_none_match=current)["revision"] == 2


def revisions_page_from_the_newest(pc: Caller) -> None:
    for number in range(5):
        pc.entry(f"text {number}")
    seen, cursor = [], None
    while True:
        asked = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = pc.ok("list_artifact_revisions", asked, **_memory(pc))
        seen += [item["revision"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [5, 4, 3, 2, 1]


def the_collection_has_the_head(pc: Caller) -> None:
    pc.entry("one")
    pc.entry("two")
    page = pc.ok("list_artifacts", {}, scope_id=pc.scope, family="memory")
    [item] = page["items"]
    assert (item["artifact_id"], item["revision"]) == ("memory", 2)
    assert item["content_digest"] == pc.ok("get_artifact", **_memory(pc))["content_digest"]
    assert page["next_cursor"] is None


def an_unknown_scope_or_artifact_is_404_and_an_unknown_family_422(pc: Caller) -> None:
    pc.entry("one")
    other = {"scope_id": pc.scope, "family": "memory", "artifact_id": "other"}
    pc.refused(404, "artifact_not_found", "get_artifact", **other)
    pc.refused(404, "scope_not_found", "get_artifact", **_memory(pc) | {"scope_id": "nowhere"})
    answer = pc.call("get_artifact", **_memory(pc) | {"family": "unheard-of"})
    assert answer.status == 422, answer


def the_prompt_in_force_is_the_packaged_one_unless_set(pc: Caller) -> None:
    named = {"scope_id": pc.scope, "prompt_key": "memory.extract"}
    found = pc.ok("get_prompt_configuration", **named)
    assert (found["scope_id"], found["prompt_key"]) == (pc.scope, "memory.extract")
    assert (found["artifact"], found["artifact_etag"]) == (None, None)
    assert found["effective"]["instructions"] == found["builtin"]["instructions"]
    assert found["effective"]["demonstrations"] == []
    elsewhere = named | {"scope_id": "nowhere"}
    pc.refused(404, "scope_not_found", "get_prompt_configuration", **elsewhere)


def a_prompt_of_the_scopes_own_is_shown_with_its_revision(pc: Caller) -> None:
    named = {"scope_id": pc.scope, "prompt_key": "memory.extract"}
    path = f"/v1/scopes/{pc.scope}/prompts/memory.extract"
    packaged = pc.ok("get_prompt_configuration", **named)
    assert pc.put(path, {"instructions": "Keep decisions about money only."}) == 200
    found = pc.ok("get_prompt_configuration", **named)
    assert found["artifact"]["revision"] == 1
    assert found["artifact_etag"] == '"revision:1"'
    assert found["mode"] == "custom"
    assert found["effective"]["instructions"] == "Keep decisions about money only."
    assert found["builtin"] == packaged["builtin"]
    assert pc.put(path, {"instructions": None}) == 200
    assert pc.ok("get_prompt_configuration", **named)["effective"] == packaged["effective"]


def other_prompts_are_read_as_unsupported(pc: Caller) -> None:
    found = pc.ok("get_prompt_configuration", scope_id=pc.scope, prompt_key="handoff.generate")
    assert found["status"] == "unsupported"
    assert found["effective"] is None
