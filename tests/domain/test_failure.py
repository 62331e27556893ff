"""Which items of an outcome show a failure, and when two failures are the same."""

import pytest

from pc_store.domain.failure import cue_key, failure_items
from pc_store.domain.outcome import parse

EVIDENCE = [{"kind": "source", "source_ref": {"source_type": "content", "source_id": "log"}}]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("  CSV 金额，转换。 ", "csv 金额,转换"),
        ("ＣＳＶ", "csv"),
        ("“Straße”", "strasse"),
        ("- foo (bar)", "foo (bar"),
        ("①", "1"),
        ("$100", "$100"),
        ("+x+", "+x+"),
        ("~`a`~", "~`a`~"),
        ("a\u200bb", "a\u200bb"),
        ("a\n\t b", "a b"),
        ("!!!", ""),
        (" \u3000 ", ""),
        ("ﷺ", "صلى الله عليه وسلم"),
    ],
)
def test_a_text_is_normalised_for_matching(text, key):
    assert cue_key(text) == key
    assert cue_key(key) == key


def test_only_verified_failing_items_count():
    statuses = ("passed", "failed", "skipped", "timed_out", "unavailable", "cancelled", "unknown")
    checks = [
        {"name": f"Check {status}", "status": status, "basis": "verified", "evidence": EVIDENCE}
        for status in statuses
    ] + [{"name": "declared", "status": "failed"}]
    observations = [
        {"text": "seen!", "basis": "verified", "evidence": EVIDENCE},
        {"text": "said"},
    ]
    values = {"objective": "o", "summary": "s", "observations": observations, "checks": checks}
    found = {
        status: [
            (item.kind, item.index, item.cue_key)
            for item in failure_items(parse(values | {"status": status}))
        ]
        for status in ("succeeded", "failed", "blocked", "partial", "cancelled", "unknown")
    }
    of_checks = [
        ("check", 1, "check failed"),
        ("check", 3, "check timed_out"),
        ("check", 4, "check unavailable"),
    ]
    seen = [("observation", 0, "seen")]
    assert found == {
        "succeeded": of_checks,
        "failed": of_checks + seen,
        "blocked": of_checks + seen,
        "partial": of_checks,
        "cancelled": of_checks,
        "unknown": of_checks,
    }
