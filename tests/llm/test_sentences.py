"""Splitting finds the prose of a log and always points at the very characters."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pc_store.llm.sentences import SENTENCE_MAX_CHARS, split_sentences


def texts(content):
    return [sentence.text for sentence in split_sentences(content)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("我们用整数分存储。导入错误要带行号！", ["我们用整数分存储。", "导入错误要带行号！"]),
        (
            "Amounts are integer cents. Use e.g. Decimal for that, v1.2 or later.",
            ["Amounts are integer cents.", "Use e.g. Decimal for that, v1.2 or later."],
        ),
        (
            "amount: 订单金额以整数分存储；100 表示 1 元。",
            ["amount: 订单金额以整数分存储；100 表示 1 元。"],
        ),
        ("- [x] never log access tokens", ["never log access tokens"]),
        ("1. 金额转换使用 Decimal\n2、错误要带行号", ["金额转换使用 Decimal", "错误要带行号"]),
        (
            "User: please keep it short\n用户：请用中文回答",
            ["please keep it short", "请用中文回答"],
        ),
        ("[10:32] Bob: we deploy on Tuesday", ["we deploy on Tuesday"]),
        ("Decision: use Postgres for the ledger", ["Decision: use Postgres for the ledger"]),
        (
            "The retry path was never tested on a Windows machine with\na slow disk. Fine.",
            ["The retry path was never tested on a Windows machine with\na slow disk."],
        ),
    ],
)
def test_prose_is_split_and_stripped_of_marks(content, expected):
    assert texts(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "```python\nraise ValueError('amounts must never be floats')\n```",
        "```\nthe fence that is never closed hides the rest of it",
        'Traceback (most recent call last):\n  File "a.py", line 3, in run\n    must_never()\n'
        "ValueError: this must never happen here",
        "diff --git a/x.md b/x.md\n@@ -1,2 +1,2 @@\n-we must keep the old rule\n"
        "+we must keep the new rule",
        "| rule | always use the vault |\n|---|---|",
        '{"command": "always run the tests", "timeout": 3}',
        "461930e feat: propagate trace headers in hooks",
        "2026-11-30 10:00:00,123 INFO the server always starts here",
        "src/app/main.py:12: error: the name is never defined",
        "$ pip install the whole world",
        "/usr/local/lib/python3.11/site-packages/pkg/mod.py",
        "3 1 4 1 5 9 2 6 5 3 5",
        "drwxrwxr-x 69 user user 4096 Feb 10 22:21 deps",
        "ok then",
    ],
)
def test_what_is_not_prose_is_left_out(content):
    assert texts(content) == []


def test_prose_goes_on_after_a_fence_a_diff_and_a_trace():
    content = (
        "Never use floats.\n```\nx = 1\n```\nWe keep UTC only.\n"
        "Traceback (most recent call last):\n  boom\nValueError: x\nRetries are capped at three.\n"
        "@@ -1 +1 @@\n-a b c d\n+a b c e\n\nReports use one decimal."
    )
    assert texts(content) == [
        "Never use floats.",
        "We keep UTC only.",
        "Retries are capped at three.",
        "Reports use one decimal.",
    ]


def test_the_prose_of_a_task_outcome_is_read_and_its_ids_are_not():
    outcome = {
        "schema": "powercontext.task-outcome.v1",
        "objective": "make the importer faster for everyone",
        "summary": "金额转换改用 Decimal。测试已通过。",
        "observations": [{"text": "Rounding differs on Windows.", "basis": "verified"}],
        "remaining_work": ["The retry path is untested."],
        "note": 'said "never" once',
    }
    content = json.dumps(outcome, ensure_ascii=False, indent=2)
    assert texts(content) == [
        "金额转换改用 Decimal。",
        "测试已通过。",
        "Rounding differs on Windows.",
        "The retry path is untested.",
    ]


PIECES = st.sampled_from(
    [
        *("我们用整数分存储。", "Never log tokens. ", "why? ", "e.g. ", "- ", "1. ", "\n", "\r\n"),
        *("```\n", "> ", "User: ", "{", "}", '"text": "', "\u2028", "\ufeff", "\ud800", "\x00"),
        *("Traceback (most recent call last):\n", "@@ -1 +1 @@\n", "| a | b |", "…", "😀", "　"),
    ]
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=25).map("".join))
def test_every_sentence_stands_in_the_content_where_it_says(content):
    end = 0
    for sentence in split_sentences(content):
        assert content[sentence.start :].startswith(sentence.text)
        assert sentence.text == sentence.text.strip()
        assert 0 < len(sentence.text) <= SENTENCE_MAX_CHARS
        assert sentence.start >= end
        end = sentence.start + len(sentence.text)


@pytest.mark.parametrize(
    "content",
    [
        "a" * 200_000,
        "- " * 100_000,
        " " * 200_000,
        "\n" * 200_000,
        "\n \t" * 66_000,
        "import " + " " * 199_000,
        "<" * 200_000,
        "。" * 200_000,
        "[" * 100_000 + "]" * 100_000,
        "a. " * 66_000,
        "Bob: hi\n" * 25_000,
        "We never deploy on Friday without a review. " * 4_500,
    ],
    ids=lambda content: ascii(content[:8]),
)
def test_the_longest_log_is_split_within_seconds(content):
    started_s = time.process_time()
    list(split_sentences(content))
    assert time.process_time() - started_s < 5
