"""The service itself: health, capabilities, statistics."""

from caller import Caller


def it_is_alive_and_ready(pc: Caller) -> None:
    assert pc.ok("get_liveness") == {"status": "ok"}
    found = pc.ok("get_readiness")
    assert found["status"] in {"ready", "degraded"}
    assert {"runtime", "database"} <= found["checks"].keys()


def capabilities_name_what_is_there(pc: Caller) -> None:
    found = pc.ok("get_capabilities")
    assert "content" in found["source_types"]
    assert "memory" in found["artifact_families"]
    assert found["memory_extraction"] is True
    assert found["search_modes"] == ["auto", "fts"]
    assert found["handoff_generation"] is False
    assert found["external_skill_registry"] is False
    assert "memory.extract" in found["prompts"]
    assert found["prompts"]["memory.extract"].keys() == {
        "status",
        "reason",
        "definition_version",
        "builtin_version",
        "builtin_profile",
    }


def stats_count_what_a_scope_holds(pc: Caller) -> None:
    gone = pc.entry("one", "decision")
    pc.memory("retire_memory_entry", citation=gone["citation"])
    pc.entry("two")
    for number in range(1, 5):
        pc.capture(f"s{number}", f"We decided on thing number {number}.")
    pc.memory("flush_memory")
    for period in ("today", "7d", "30d"):
        selection = {"mode": "exact", "scope_ids": [pc.scope]}
        found = pc.ok("get_stats", {"selection": selection, "period": period})
        assert found["scope_ids"] == [pc.scope]
        assert found["selection"] == selection
        inventory = found["inventory"]
        assert inventory["sources"] == {"total": 4, "memory_processed": 3, "memory_pending": 1}
        entries = inventory["memory"]["entries"]
        assert (entries["total"], entries["active"], entries["inactive"]) == (5, 4, 1)
        kinds = {one["kind"]: (one["active"], one["inactive"]) for one in entries["by_kind"]}
        assert kinds == {"decision": (3, 1), "fact": (1, 0)}
        assert found["usage"]["period"]["preset"] == period
        assert found["usage"]["totals"]["generation"]["requests"] == 1
        [only] = found["by_scope"]
        assert only["scope_id"] == pc.scope
        assert only["inventory"] == inventory


def stats_of_a_subtree_and_of_all(pc: Caller) -> None:
    child = pc.new_scope(parent_scope_id=pc.scope)["scope_id"]
    selection = {"mode": "subtree", "root_scope_id": pc.scope}
    found = pc.ok("get_stats", {"selection": selection})
    assert set(found["scope_ids"]) == {pc.scope, child}
    found = pc.ok("get_stats", {"selection": {"mode": "all"}})
    assert {pc.scope, child} <= set(found["scope_ids"])
    missing = {"selection": {"mode": "exact", "scope_ids": ["nowhere"]}}
    pc.refused(404, "scope_not_found", "get_stats", missing)
