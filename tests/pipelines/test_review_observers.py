"""What Dagster shows of people's work: `review_inbox` as it fills, `experience` as they decide."""

import json

import dagster as dg
import sqlalchemy as sa
from plant import Plant

from pc_pipelines.partitions import scopes as scope_set
from pc_store.domain.candidate import Candidate, EvidenceRefs
from pc_store.domain.experience import parse
from pc_store.domain.refs import ArtifactRef, SourceRef
from pc_store.services.clock import now_us
from pc_store.services.experiences import set_lifecycle
from pc_store.services.propose import propose
from pc_store.services.review import approve, reject

HOUR_US = 3_600_000_000


def proposed(
    plant: Plant,
    lesson: str,
    *,
    scope: str = "shop",
    target: ArtifactRef | None = None,
    at: int = 0,
) -> Candidate:
    content = {
        "situation": "CSV amounts are imported.",
        "action": "Parsed the text as Decimal.",
        "outcome": "Every amount was right.",
        "lesson": lesson,
        "failure": None,
    }
    evidence = EvidenceRefs((SourceRef("content", "s1"),), (target,) if target else ())
    return propose(plant.db, scope, parse(content), evidence, target=target, now_us=at or now_us())


def approved(plant: Plant, candidate: Candidate, *, at: int = 0) -> ArtifactRef:
    done = approve(
        plant.db,
        candidate.scope_id,
        candidate.candidate_id,
        expected_version=candidate.version,
        now_us=at or now_us(),
    )
    assert done.result is not None
    return done.result


def inbox(plant: Plant) -> dict[str, object] | None:
    """Metadata of the observation that a tick made, if it made one."""
    events = plant.tick("review_inbox_observer").events
    if not events:
        return None
    [event] = events
    assert event.asset_key.to_user_string() == "review_inbox"
    return {name: _plain(value) for name, value in event.metadata.items()}


def _plain(value: dg.MetadataValue) -> object:
    if isinstance(value, dg.TableMetadataValue):
        return [record.data for record in value.records]
    return value.value


def shop(plant: Plant, *names: str) -> None:
    for name in names or ("shop",):
        plant.scope(name)
        plant.put(name, 1)


def test_the_inbox_is_observed_when_it_changes_and_not_otherwise(plant: Plant):
    shop(plant, "shop", "yard")
    assert inbox(plant) == {
        "pending": 0,
        "oldest, hours": 0.0,
        "stale targets": 0,
        "scopes": 0,
    }
    assert inbox(plant) is None
    three_hours_ago = now_us() - 3 * HOUR_US
    first = proposed(plant, "Decimal.", at=three_hours_ago)
    ref = approved(plant, first)
    overtaken = proposed(plant, "Decimal, always.", target=ref, at=three_hours_ago)
    approved(plant, proposed(plant, "Decimal, everywhere.", target=ref))
    proposed(plant, "Count cents.", scope="yard")
    proposed(plant, "Count them twice.", scope="yard")

    seen = inbox(plant)
    assert seen is not None
    table = seen.pop("by scope")
    assert seen == {"pending": 3, "oldest, hours": 3.0, "stale targets": 1, "scopes": 2}
    assert table == [
        {"scope": "yard", "pending": 2, "oldest, hours": 0.0, "stale targets": 0},
        {"scope": "shop", "pending": 1, "oldest, hours": 3.0, "stale targets": 1},
    ]
    assert inbox(plant) is None
    reject(
        plant.db,
        "shop",
        overtaken.candidate_id,
        expected_version=1,
        reason="overtaken",
        now_us=now_us(),
    )
    after = inbox(plant)
    assert after is not None
    assert (after["pending"], after["stale targets"]) == (2, 0)


def test_a_full_inbox_is_observed_again_every_hour(plant: Plant):
    shop(plant)
    proposed(plant, "Decimal.")
    assert inbox(plant) is not None
    assert inbox(plant) is None
    version, at = json.loads(plant.cursors["review_inbox_observer"])
    plant.cursors["review_inbox_observer"] = json.dumps([version, at - HOUR_US])
    assert inbox(plant) is not None


def reported(plant: Plant) -> list[tuple[str, dict[str, object]]]:
    """Partition and metadata of each report that a tick made."""
    events = plant.tick("experience_observer").events
    return [
        (event.partition, {name: value.value for name, value in event.metadata.items()})
        for event in events
    ]


def standing(scope: str = "shop", **counts: int) -> tuple[str, dict[str, object]]:
    none = ("active", "deprecated", "retired", "revisions", "pending_candidates")
    named = {name.replace("_", " "): counts.get(name, 0) for name in none}
    return scope, {"scope": scope, **named}


def test_approvals_and_changes_of_lifecycle_are_reported_once(plant: Plant):
    shop(plant)
    first, waits = proposed(plant, "Decimal."), proposed(plant, "Count cents.")
    assert reported(plant) == []  # a candidate is no experience
    ref = approved(plant, first)
    assert reported(plant) == [standing(active=1, revisions=1, pending_candidates=1)]
    assert (
        plant.materialized("experience", "shop")
        == standing(active=1, revisions=1, pending_candidates=1)[1]
    )
    assert plant.keys(scope_set) == ["shop"]
    assert reported(plant) == []

    ref = approved(plant, proposed(plant, "Decimal, always.", target=ref))
    approved(plant, waits)
    assert reported(plant) == [standing(active=2, revisions=3)]
    set_lifecycle(plant.db, "shop", ref, state="deprecated", reason="old", now_us=now_us())
    assert reported(plant) == [standing(active=1, deprecated=1, revisions=3)]
    set_lifecycle(plant.db, "shop", ref, state="retired", reason="wrong", now_us=now_us())
    assert reported(plant) == [standing(active=1, retired=1, revisions=3)]
    assert reported(plant) == []


def test_an_approval_that_was_stamped_before_others_but_written_after_is_still_seen(plant: Plant):
    shop(plant, "early", "late")
    early, late = proposed(plant, "a", scope="early"), proposed(plant, "b", scope="late")
    stamp = now_us() - 2_000_000
    approved(plant, late)
    assert [scope for scope, _ in reported(plant)] == ["late"]
    approved(plant, early, at=stamp)
    assert [scope for scope, _ in reported(plant)] == ["early"]
    assert reported(plant) == []


def test_two_hundred_scopes_are_reported_a_tick_until_all_are(plant: Plant):
    shop(plant)
    approved(plant, proposed(plant, "Decimal."))
    with plant.db.engine.begin() as conn:
        names = [f"s{n:03}" for n in range(250)]
        for table, changes in (("scopes", "key"), ("candidates", None), ("artifacts", None)):
            columns = [column["name"] for column in sa.inspect(conn).get_columns(table)]
            new = {"scope_id": ":name"} | ({changes: ":name"} if changes else {})
            told = ", ".join(new.get(name, name) for name in columns)
            copy = f"INSERT INTO {table} SELECT {told} FROM {table} WHERE scope_id = 'shop'"
            conn.execute(sa.text(copy), [{"name": name} for name in names])
    counts = [len(reported(plant)) for _ in range(3)]
    assert counts == [200, 51, 0]


def test_a_new_dagster_home_is_told_of_every_scope_with_experiences(new_plant):
    plant = new_plant()
    shop(plant)
    approved(plant, proposed(plant, "Decimal."))
    assert len(reported(plant)) == 1
    assert reported(new_plant()) == [standing(active=1, revisions=1)]
