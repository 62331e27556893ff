"""What only the published client can ask: the parts of it that we do not offer."""

from caller import Caller


def what_we_do_not_offer_is_refused_cleanly(pc: Caller) -> None:
    """Not a 500, and an error body that the client can read."""
    asked = {"scope_id": pc.scope}
    for operation, request, arguments in (
        ("search_topic_memory", asked | {"query": "a"}, {}),
        ("flush_topic_memory", asked, {}),
        ("flush_profile", asked, {}),
        ("get_profile_policy", None, asked),
        ("list_external_skills", asked, {}),
        ("query_artifact_tags", {"tags": ["a"]}, asked),
        ("list_artifacts", {}, asked | {"family": "skill"}),
        ("list_artifacts", {}, asked | {"family": "topic-memory"}),
        ("list_artifact_candidates", asked | {"family": "skill"}, {}),
        ("get_access_principal", None, {}),
    ):
        answer = pc.call(operation, request, **arguments)
        assert answer.status in {200, 404, 405, 422}, f"{operation}: {answer}"
        assert answer.status == 200 or answer.code, f"{operation}: {answer}"
        details = answer.details or {}
        assert "refused_by_client" not in details, f"{operation}: {answer}"


def a_memory_cannot_be_created_beside_the_scopes_own(pc: Caller) -> None:
    """1.2.0 makes a second artifact, which nothing searches."""
    asked = {"family": "memory", "content": {"entries": [{"kind": "fact", "text": "a"}]}}
    answer = pc.call("create_artifact", asked, scope_id=pc.scope)
    assert answer.status in {404, 405, 422}, answer
    assert answer.code


def an_experience_cannot_be_created_past_its_review(pc: Caller) -> None:
    """1.2.0 writes it as it is given."""
    said = dict.fromkeys(("situation", "action", "outcome", "lesson"), "text")
    asked = {"family": "experience", "content": said}
    answer = pc.call("create_artifact", asked, scope_id=pc.scope)
    assert answer.status in {404, 405, 422}, answer
    assert answer.code
    assert pc.ok("list_artifacts", {}, scope_id=pc.scope, family="experience")["items"] == []
