"""Windows from the log into the memory, through a real endpoint, on ledgers of both kinds."""

import json
import threading

import pytest
from extraction_rig import SCOPE, fact, usage
from model_stub import MODEL, adding, hold, says, text

from pc_store.domain.proposal import Usage
from pc_store.domain.refs import ArtifactRef
from pc_store.errors import NotFound, RevisionConflict, StoreBusy
from pc_store.ledger.database import Database
from pc_store.services import extract, instruct, settle
from pc_store.services.ask import ask
from pc_store.services.begin import open_next
from pc_store.services.clock import now_us
from pc_store.services.commit import lock_memory
from pc_store.services.extract import MEMORY
from pc_store.services.plan import plan_windows
from pc_store.settings import Settings

MEMORY_1 = ArtifactRef("memory", "memory", 1)
KEY = "sk-proj-" + "a1b2c3d4" * 4


def numbers(done: extract.Processed) -> tuple[str, int, int, int, int, ArtifactRef | None]:
    """The answer to a flush, as the contract lists it."""
    return (
        done.status,
        done.previous_cursor,
        done.current_cursor,
        done.high_watermark,
        done.processed_source_count,
        done.memory,
    )


def shown(request) -> dict:
    """What a request showed to the model."""
    messages = request["body"]["messages"]
    return json.loads(next(one["content"] for one in messages if one["role"] == "user"))


def revising(entry: str, body: str, *evidence_ids: str):
    """A reply that revises a shown entry, by its handle."""
    change = {"intent": "revise", "kind": "fact", "text": body, "entry_id": entry}
    return says({"candidates": [{**change, "evidence_ids": list(evidence_ids)}]})


# The window


def test_the_worked_example_log_of_seven_limit_three_cursor_two(rig):
    rig.put_facts(2)
    assert numbers(rig.flush()) == ("processed", 0, 2, 2, 2, MEMORY_1)
    rig.put_facts(5, first=3)
    memory_2, memory_3 = (ArtifactRef("memory", "memory", number) for number in (2, 3))
    assert numbers(rig.flush()) == ("processed", 2, 5, 7, 3, memory_2)
    assert numbers(rig.flush()) == ("processed", 5, 7, 7, 2, memory_3)
    assert numbers(rig.flush()) == ("idle", 7, 7, 7, 0, None)
    assert rig.entries() == [("fact", fact(n), (f"s{n}",)) for n in range(1, 8)]
    assert rig.ranges("processed") == [(0, 2), (2, 5), (5, 7)]
    assert len(rig.stub.requests()) == 3


def test_sources_that_arrive_during_the_model_call_wait_for_the_next_window(rig):
    rig.put_facts(2)
    rig.stub.answer(hold())
    ended = []
    thread = threading.Thread(target=lambda: ended.append(rig.flush()))
    thread.start()
    rig.stub.wait_until_held()
    rig.put_facts(2, first=3)
    rig.stub.release()
    thread.join(20)
    assert numbers(ended[0]) == ("processed", 0, 2, 2, 2, MEMORY_1)
    [request] = rig.stub.requests()
    assert [one["content"]["source_id"] for one in shown(request)["evidence"]] == ["s1", "s2"]
    assert numbers(rig.flush())[:5] == ("processed", 2, 4, 4, 2)


def test_a_scope_with_an_empty_log_is_idle_and_an_unknown_one_is_not_found(rig):
    assert numbers(rig.flush()) == ("idle", 0, 0, 0, 0, None)
    assert isinstance(rig.fails("nowhere"), NotFound)
    assert rig.windows() == []


def test_a_window_with_nothing_to_show_advances_and_asks_nobody(rig):
    rig.put_facts(1)
    rig.flush()
    rig.put("old", first=2, metadata={"expires_at": "2001-01-01T00:00:00Z"})
    rig.put("when?", first=3, metadata={"expires_at": "soon"})
    rig.put("{}", first=4, source_type="task-outcome")
    assert numbers(rig.flush()) == ("processed", 1, 4, 4, 0, None)
    assert len(rig.stub.requests()) == 1
    row = rig.last()
    assert (row.counts["positions"], row.counts["sources"], row.counts["filtered"]) == (3, 0, 3)
    assert (row.usage, row.answered_at, row.memory_revision) == (None, None, 1)


def test_sources_of_an_unknown_type_are_passed_by_and_counted(rig):
    rig.put("Fact one. Lunch.")
    rig.put("x", first=2, source_type="never-heard-of")
    rig.put("Fact three. Lunch.", first=3)
    assert numbers(rig.flush()) == ("processed", 0, 3, 3, 2, MEMORY_1)
    assert rig.last().counts == {
        "positions": 3,
        "sources": 2,
        "filtered": 1,
        "shown": 0,
        "proposals": 2,
        "accepted": 2,
        "rejected": 0,
        "added": 2,
        "revised": 0,
        "unchanged": 0,
    }


def test_an_empty_list_moves_the_cursor_and_the_memory_is_the_head_or_null(rig):
    rig.put_facts(3)
    rig.stub.answer(says({"candidates": []}), adding((fact(2), "e1")), says({"candidates": []}))
    assert [numbers(rig.flush(source_window_limit=1)) for _ in range(3)] == [
        ("processed", 0, 1, 3, 1, None),
        ("processed", 1, 2, 3, 1, MEMORY_1),
        ("processed", 2, 3, 3, 1, MEMORY_1),
    ]
    assert rig.head() == 1


def test_drain_goes_to_the_watermark_it_found_and_reports_each_window(rig):
    rig.put_facts(7)
    seen = []
    done = extract.drain(rig.db, rig.settings, rig.model, SCOPE, budget_s=60, on_window=seen.append)
    assert seen == done
    assert [(one.previous_cursor, one.current_cursor) for one in done] == [(0, 3), (3, 6), (6, 7)]
    assert extract.drain(rig.db, rig.settings, rig.model, SCOPE, budget_s=60) == []


def test_drain_does_one_window_even_without_time(rig):
    rig.put_facts(7)
    done = extract.drain(rig.db, rig.settings, rig.model, SCOPE, budget_s=0)
    assert [one.current_cursor for one in done] == [3]


# What is written


def test_an_entry_cites_what_it_names_and_the_revision_all_that_was_shown(rig):
    rig.put_facts(2)
    rig.put("x", first=3, source_type="task-outcome")
    rig.stub.answer(adding(("Two says so.", "e2")))
    rig.flush()
    assert rig.entries() == [("fact", "Two says so.", ("s2",))]
    assert rig.lineage(1) == [("source", "s1", None), ("source", "s2", None)]


def test_a_text_seen_again_adds_its_evidence_to_the_entry_as_a_new_version(rig):
    rig.put_facts(1)
    rig.flush()
    rig.put(f"{fact(1)} Again.", first=2)
    rig.flush()
    assert rig.entries() == [("fact", fact(1), ("s1", "s2"))]
    assert rig.cited(fact(1)).entry.version == 2
    assert rig.last().counts["revised"] == 1


def test_a_revise_gives_the_shown_entry_a_new_text_and_both_evidences(rig):
    rig.put_facts(1)
    rig.flush()
    old = rig.cited(fact(1))
    rig.put("Fact 1 does not hold.", first=2)
    rig.stub.answer(revising("m1", "Fact 1 held once.", "e1"))
    rig.flush()
    assert shown(rig.stub.requests()[-1])["current_entries"] == [
        {"entry_id": "m1", "kind": "fact", "text": fact(1)}
    ]
    assert rig.entries() == [("fact", "Fact 1 held once.", ("s1", "s2"))]
    new = rig.cited("Fact 1 held once.").entry
    assert (new.entry_id, new.version) == (old.entry.entry_id, 2)


def test_a_text_that_was_retired_is_not_extracted_again(rig):
    rig.put_facts(1)
    rig.flush()
    rig.retire(fact(1))
    rig.put(f"{fact(1)} Again.", first=2)
    assert numbers(rig.flush())[:5] == ("processed", 1, 2, 2, 1)
    assert rig.entries() == []
    assert rig.last().counts["unchanged"] == 1


@pytest.mark.parametrize("refuse", [True, False])
def test_a_secret_is_dropped_with_its_reason_and_the_rest_is_kept(rig, refuse):
    rig.put_facts(2)
    rig.stub.answer(adding((f"The key is {KEY}.", "e1"), (fact(2), "e2")))
    assert rig.flush(secret_detection=refuse).status == "processed"
    row = rig.last()
    if not refuse:
        assert (rig.texts(), row.rejects) == ([f"The key is {KEY}.", fact(2)], None)
        return
    assert rig.texts() == [fact(2)]
    assert row.rejects == [
        {
            "ordinal": 1,
            "rule": "no_secret_in_text",
            "reason": "text: contains a credential: OpenAI or Anthropic key",
        }
    ]
    assert (row.counts["accepted"], row.counts["rejected"]) == (1, 1)
    assert KEY not in json.dumps([row.error, row.rejects, row.counts])


# What is sent


def test_an_oversized_source_is_sent_in_chunks_that_keep_its_evidence_id(rig):
    sentences = "".join(f"Sentence {n} of the long one. " for n in range(3_000))
    rig.put(sentences)
    rig.stub.always(adding(("The long one is long.", "e1")))
    assert rig.flush(prompt_token_budget=6_000).processed_source_count == 1
    pieces = [one for request in rig.stub.requests() for one in shown(request)["evidence"]]
    assert len(pieces) > 3
    assert {one["evidence_id"] for one in pieces} == {"e1"}
    marks = [one["content"]["metadata"]["chunk"] for one in pieces]
    assert marks == [f"{n}/{len(pieces)}" for n in range(1, len(pieces) + 1)]
    assert pieces[0]["content"]["content"][:40] == sentences[:40]
    assert pieces[-1]["content"]["content"][-40:] == sentences[-40:]
    assert rig.entries() == [("fact", "The long one is long.", ("s1",))]
    assert usage(rig.last()).calls == len(pieces)


def test_of_two_chunks_that_revise_the_same_entry_the_first_counts_and_nothing_is_refused(rig):
    rig.remember("The long one is short.", kind="fact")
    rig.put("".join(f"Sentence {n} of the long one. " for n in range(1_500)))
    rig.stub.answer(*(revising("m1", f"The long one has part {n}.", "e1") for n in range(1, 20)))
    assert rig.flush(prompt_token_budget=6_000).status == "processed"
    calls = len(rig.stub.requests())
    assert calls > 2
    assert rig.texts() == ["The long one has part 1."]
    row = rig.last()
    assert (row.attempt, row.counts["accepted"], row.counts["rejected"]) == (1, 1, calls - 1)
    assert {(one["rule"], one["reason"]) for one in row.rejects} == {
        ("revisions_target_shown_entries", "entry_id is revised by an earlier candidate")
    }


def test_a_token_budget_cuts_the_window_before_the_source_that_does_not_fit(rig):
    rig.put(*(f"Source {n}. " + "x" * 7_000 for n in range(5)))
    settings = Settings(prompt_token_budget=4_000)
    [cut] = plan_windows(rig.db, settings, [SCOPE], "memory", now_us=now_us())
    assert (cut.after, cut.through, cut.high_watermark) == (0, 2, 5)


def test_a_scopes_own_prompt_is_sent_and_recorded_by_exact_revision(rig):
    rig.put_facts(3)
    rig.flush(source_window_limit=1)
    packaged = rig.last().prompt_revision
    for body in ("Keep nothing.", "Keep everything about facts."):
        instruct.set_prompt(rig.db, SCOPE, instruct.MEMORY_EXTRACT, body, now_us=now_us())
    rig.flush(source_window_limit=1)
    assert rig.stub.requests()[-1]["body"]["messages"][0]["content"].startswith(body)
    assert (rig.last().prompt_key, rig.last().prompt_revision) == (
        "memory.extract",
        "scope revision 2",
    )
    assert rig.lineage(2) == [("source", "s2", None), ("artifact", "memory.extract", 2)]
    instruct.set_prompt(rig.db, SCOPE, instruct.MEMORY_EXTRACT, None, now_us=now_us())
    rig.flush(source_window_limit=1)
    assert rig.last().prompt_revision == packaged == "packaged version 1"
    assert rig.lineage(3) == [("source", "s3", None)]


def test_a_prompt_changed_after_asking_leaves_the_lineage_with_the_one_that_was_sent(rig):
    rig.put_facts(1)
    key = instruct.MEMORY_EXTRACT
    instruct.set_prompt(rig.db, SCOPE, key, "Keep facts.", now_us=now_us())
    opened = open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us())
    ask(MEMORY, rig.db, rig.settings, rig.model, opened.window.window_id)
    instruct.set_prompt(rig.db, SCOPE, key, "Keep nothing.", now_us=now_us())
    settle.commit_window(MEMORY, rig.db, rig.settings, opened.window.window_id, run_id="r")
    assert rig.lineage(1) == [("source", "s1", None), ("artifact", "memory.extract", 1)]
    assert rig.last().prompt_revision == "scope revision 1"


# What it costs


def test_usage_is_recorded_per_window_and_adds_up_over_attempts(rig):
    rig.put_facts(4)
    rig.stub.answer(text("{}"), text("{}"))
    rig.fails()
    assert usage(rig.last()) == Usage(calls=2, tokens_in=200, tokens_out=40, reasks=1)
    rig.flush()
    assert usage(rig.last()) == Usage(calls=3, tokens_in=300, tokens_out=60, reasks=1)
    assert (rig.last().attempt, rig.last().provider, rig.last().model) == (2, "openai", MODEL)
    rig.flush()
    assert usage(rig.last()) == Usage(calls=1, tokens_in=100, tokens_out=20)


def asked_and_not_committed(rig) -> str:
    """Ask about the next window, then fail its commit for a lock that somebody else holds."""
    opened = open_next(rig.db, rig.settings, SCOPE, "memory", run_id="r", now_us=now_us())
    window_id = opened.window.window_id
    ask(MEMORY, rig.db, rig.settings, rig.model, window_id)
    impatient = Database(rig.url, wait_s=0.2)
    try:
        with rig.db.write() as conn:
            lock_memory(conn, SCOPE)
            with pytest.raises(StoreBusy):
                settle.commit_window(MEMORY, impatient, rig.settings, window_id, run_id="r")
    finally:
        impatient.close()
    assert (rig.cursor(), rig.head()) == (0, 0)
    return window_id


def test_a_commit_that_found_the_ledger_busy_is_repeated_without_asking_again(rig):
    rig.put_facts(2)
    window_id = asked_and_not_committed(rig)
    assert numbers(rig.flush()) == ("processed", 0, 2, 2, 2, MEMORY_1)
    assert len(rig.stub.requests()) == 1
    assert (rig.last().window_id, usage(rig.last()).calls) == (window_id, 1)
    assert rig.drafts() == 0


def test_an_answer_to_another_prompt_is_not_reused(rig):
    rig.put_facts(2)
    asked_and_not_committed(rig)
    body = "Keep facts only."
    instruct.set_prompt(rig.db, SCOPE, instruct.MEMORY_EXTRACT, body, now_us=now_us())
    rig.stub.answer(adding(("Asked anew.", "e1")))
    rig.flush()
    assert rig.texts() == ["Asked anew."]
    assert usage(rig.last()).calls == 2


def test_an_answer_about_an_entry_that_has_moved_is_refused_and_asked_for_anew(rig):
    rig.put_facts(1)
    rig.flush()
    rig.put("Fact 1 does not hold.", first=2)
    rig.stub.answer(hold(revising("m1", "Fact 1 held once.", "e1")))
    failed = []
    thread = threading.Thread(target=lambda: failed.append(rig.fails()))
    thread.start()
    rig.stub.wait_until_held()
    rig.revise(rig.cited(fact(1)), "Fact 1, says a person, holds on Mondays.")
    rig.stub.release()
    thread.join(20)
    [error] = failed
    assert type(error) is RevisionConflict
    row = rig.last()
    assert (rig.cursor(), rig.head(), rig.drafts()) == (1, 2, 0)
    assert (row.status, row.error["code"]) == ("failed", "revision_conflict")
    assert (row.counted_failures, row.next_attempt_at <= now_us()) == (0, True)
    rig.stub.answer(revising("m1", "Fact 1 holds on Mondays only.", "e1"))
    rig.flush()
    assert [one["text"] for one in shown(rig.stub.requests()[-1])["current_entries"]] == [
        "Fact 1, says a person, holds on Mondays."
    ]
    assert rig.texts() == ["Fact 1 holds on Mondays only."]
