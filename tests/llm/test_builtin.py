"""The builtin proposer keeps the right sentences, word for word, and revises with care."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import train_builtin
from benchmarks.builtin_quality import HELD_OUT, measure
from pc_store.domain.proposal import KINDS, Evidence, Proposal, ShownEntry
from pc_store.llm.builtin import PROPOSALS_PER_SOURCE_MAX, BuiltinProposer
from pc_store.llm.cues import count_cues
from pc_store.llm.embeddings import PackagedEncoder

ENCODER = PackagedEncoder()
PROPOSER = BuiltinProposer(ENCODER)

DURABLE = [
    "订单金额以整数分存储。",
    "金额转换使用 Decimal，避免二进制浮点误差。",
    "导入错误要包含 CSV 原始行号。",
    "amount: 订单金额以整数分存储；100 表示 1 元。",
    "Order amounts are stored as integer cents.",
    "Import errors must include the original CSV row number.",
    "Never commit generated files to the repository.",
    "We agreed to ship the mobile app in two steps.",
    "I prefer explanations with a short example.",
    "我不喜欢太长的回答。",
    "仓库的盘点数据只保留最近两年。",
    "Turns out the vendor's API counts pages from zero.",
]
NOISE = [
    "ok, running the tests now",
    "Let me look at importer.py",
    "午饭吃什么",
    "3 passed in 0.12s",
    "Thanks, that was quick!",
    "我先看一下日志。",
    "稍等，正在重启服务。",
    "Which branch should I use for this?",
    "Now I'll open the second file and compare both.",
    "早上好，各位。",
    "The build finished a minute ago.",
    "You could try a short walk after lunch.",
]

# An entry, and a later sentence that changes what it says.
REVISIONS = """\
amount: 金额以整数分存储。|金额转换改用 Decimal，仍然以整数分存储。
Retry at most 3 times, then fail the job.|Retries are now limited to 5 before the job fails.
Releases happen weekly on Tuesday.|From next month we release on Thursday instead of Tuesday.
The nightly job runs at midnight.|The nightly job now runs at 02:30 Berlin time instead of midnight.
User prefers short answers.|I prefer longer answers with examples from now on.
默认超时 5 秒。|默认超时由 5 秒改为 30 秒。
消息队列用 RabbitMQ。|消息队列换成 Kafka。
上传文件不能超过 20MB。|上传上限调整为 50MB。
Staging DB is read only after 18:00.|The staging database is no longer read only in the evening.
用户住在北京。|我去年搬到成都了，在高新区上班。
Amounts are stored as integer cents.|Amounts are now stored as strings instead of integer cents.
分页每页 50 条。|分页改为每页 100 条。
Line length limit is 80.|Line length limit is now 100.
导入错误要包含 CSV 原始行号。|导入错误除了原始行号，还要包含列名。
We use MySQL for the ledger.|We switched the ledger from MySQL to Postgres.
My weight is 82 kilos.|My weight is now 78 kilos.
短期会话保留 7 天。|短期会话保留时间改成 14 天。
Support hours are 8 to 18 CET.|Support hours are 7 to 20 CET, weekdays only.
Passwords are hashed with bcrypt.|Passwords: argon2id, never bcrypt.
Backups run daily.|Backups must run every six hours.
"""
# An entry, and a sentence that says something else of the same subject.
NEIGHBOURS = """\
amount: 金额以整数分存储。|金额转换使用 Decimal，避免二进制浮点误差。
amount: 金额以整数分存储。|导入错误要包含 CSV 原始行号。
Order amounts are stored as integer cents.|Order identifiers are opaque strings.
Order amounts are stored as integer cents.|Order amounts must never be negative.
Order amounts are stored as integer cents.|Orders are archived after 90 days.
Retry at most 3 times, then fail the job.|Failed jobs are kept for 30 days.
The nightly job runs at midnight.|The nightly backup is encrypted.
User prefers short answers.|User prefers pytest over unittest.
I love jazz and old vinyl records.|I love hiking and taking photos of birds.
默认超时 5 秒。|默认重试 3 次。
消息队列用 RabbitMQ。|消息体最大 256KB。
上传文件不能超过 20MB。|上传文件必须扫描病毒。
测试库每周一凌晨重置。|测试库账号由王工保管。
分页每页 50 条。|导出每次最多 5000 条。
The customer number has a check digit in the last position.|The customer number is never reused.
Import errors must include the CSV row number.|Import errors are written to a separate file.
Postgres is the ledger database.|Redis is the cache.
我喜欢画画和弹钢琴。|我喜欢看科幻小说。
我对花生过敏。|我男朋友对海鲜过敏。
Sam prefers tabs.|Sam works in Leeds.
Access to the audit log is restricted to compliance.|The audit log is kept for seven years.
客户编号最后一位是校验位。|客户编号不区分大小写。
Every PR needs two reviewers.|Every PR needs a changelog entry.
短期会话保留 7 天。|长期记忆默认不展示。
"""


def source(content, number=1):
    return Evidence(f"source:{number}", "content", f"s{number}", content)


def propose(*contents, entries=()):
    evidence = [source(content, number) for number, content in enumerate(contents, 1)]
    return PROPOSER.propose(evidence, entries, policy="").proposals


@pytest.mark.parametrize("sentence", DURABLE)
def test_a_rule_fact_decision_or_preference_is_proposed(sentence):
    assert [proposal.text for proposal in propose(sentence)] == [sentence]


@pytest.mark.parametrize("sentence", NOISE)
def test_talk_about_the_moment_is_not_proposed(sentence):
    assert propose(sentence) == ()


def test_a_proposal_says_its_kind_its_source_and_why():
    (proposal,) = propose("Import errors must include the original CSV row number.")
    assert proposal == Proposal(
        intent="add",
        kind="constraint",
        text="Import errors must include the original CSV row number.",
        evidence_ids=("source:1",),
        reason=proposal.reason,
    )
    assert proposal.reason.startswith("extracted by builtin: constraint cue 'must', chance 0.")


def test_a_label_in_front_decides_the_kind():
    kinds = [
        propose(text)[0].kind
        for text in (
            "Decision: order amounts are stored as integer cents.",
            "约束：订单金额以整数分存储。",
            "TODO: the retry path is untested on Windows.",
        )
    ]
    assert kinds == ["decision", "constraint", "working_note"]


def test_a_sentence_said_in_two_sources_is_one_proposal_citing_both():
    proposals = propose("- 订单金额以整数分存储。", "User: 你好\nAssistant: 订单金额以整数分存储。")
    assert [(one.text, one.evidence_ids) for one in proposals] == [
        ("订单金额以整数分存储。", ("source:1", "source:2"))
    ]


def test_a_changed_rule_revises_the_entry_it_is_about():
    entries = [
        ShownEntry("e1", "decision", "amount: 金额以整数分存储。"),
        ShownEntry("e2", "constraint", "导入错误要包含 CSV 原始行号。"),
    ]
    (proposal,) = propose("金额转换改用 Decimal，仍然以整数分存储。", entries=entries)
    assert (proposal.intent, proposal.entry_id) == ("revise", "e1")


def test_another_rule_on_the_same_subject_does_not_revise():
    entries = [ShownEntry("e1", "decision", "Order amounts are stored as integer cents.")]
    proposals = propose(
        "Order amounts must never be negative. Every PR needs two reviewers.", entries=entries
    )
    assert [proposal.intent for proposal in proposals] == ["add", "add"]


def revised(pairs):
    """For each pair, whether the sentence is proposed as a revision of the entry."""
    split = [line.split("|") for line in pairs.splitlines()]
    answers = [propose(text, entries=[ShownEntry("e", "fact", shown)]) for shown, text in split]
    return [any(one.entry_id == "e" for one in proposals) for proposals in answers]


def test_no_neighbouring_rule_is_overwritten():
    assert not any(revised(NEIGHBOURS))


def test_most_changes_of_a_rule_are_seen_as_revisions():
    assert sum(revised(REVISIONS)) >= 14


def test_a_shown_entry_said_again_is_an_addition_of_the_same_text_and_kind():
    entries = [ShownEntry("e1", "policy", "订单金额以整数分存储。")]
    (proposal,) = propose("订单金额以整数分存储。", entries=entries)
    assert (proposal.intent, proposal.kind, proposal.text) == ("add", "policy", entries[0].text)


def test_a_shown_entry_in_other_punctuation_is_said_in_its_own_spelling():
    entries = [ShownEntry("e1", "fact", "Order amounts are stored as integer cents")]
    (proposal,) = propose("order amounts are stored as integer cents.", entries=entries) or (None,)
    assert proposal is None
    (proposal,) = propose("Order amounts are stored as integer cents.", entries=entries)
    assert proposal.text == entries[0].text


def test_an_entry_is_revised_once_by_the_latest_word():
    entries = [ShownEntry("e1", "constraint", "Retry at most 3 times, then fail the job.")]
    proposals = propose(
        "Retry at most 5 times now, then fail the job.",
        "Retry at most 8 times now, then fail the job.",
        entries=entries,
    )
    assert [(one.intent, one.text, one.evidence_ids) for one in proposals] == [
        ("revise", "Retry at most 8 times now, then fail the job.", ("source:2",))
    ]


def test_a_secret_is_never_proposed():
    token = "ghp_" + "a1B2" * 10
    assert propose(f"The deploy token must always be {token} in CI.") == ()


def test_a_task_outcome_gives_what_it_says_in_prose():
    outcome = {"summary": "Order amounts are stored as integer cents.", "status": "succeeded"}
    (proposal,) = propose(json.dumps(outcome, indent=2))
    assert proposal.text == outcome["summary"]


def test_one_long_source_gives_a_bounded_number_of_proposals():
    rules = [f"Service number {n} must never store floats for amounts." for n in range(600)]
    assert len(propose("\n".join(rules))) == PROPOSALS_PER_SOURCE_MAX


def test_no_evidence_gives_an_empty_answer():
    assert propose() == ()
    assert propose("", "   ", "```\ncode\n```") == ()


@pytest.mark.parametrize(
    "word", ["since ", "since a ", "ok, ", "switch a b ", "我的", "is quickly "]
)
def test_wording_made_to_confuse_the_cue_patterns_costs_no_time(word):
    started_s = time.process_time()
    count_cues((word * 200)[:400])
    assert time.process_time() - started_s < 0.5


LINES = st.sampled_from([*DURABLE, *NOISE, "```", "- ", "User: ", "  ", '{"text": "', "\ud800"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.lists(st.one_of(LINES, st.text(max_size=30)), max_size=8).map("\n".join), max_size=4
    ),
    st.lists(st.sampled_from(DURABLE), max_size=3, unique=True),
)
def test_every_proposal_is_verbatim_cites_its_source_and_keeps_the_rules(contents, shown):
    entries = [ShownEntry(f"e{place}", "fact", text) for place, text in enumerate(shown)]
    proposals = propose(*contents, entries=entries)
    by_id = {f"source:{number}": content for number, content in enumerate(contents, 1)}
    for proposal in proposals:
        assert proposal.text in by_id[proposal.evidence_ids[0]]
        bare = proposal.text.rstrip(".。!！ ").casefold()
        assert all(bare in by_id[cited].casefold() for cited in proposal.evidence_ids)
        assert proposal.kind in KINDS
        assert len(proposal.text.encode()) <= 8192
        assert 0 < len(proposal.reason) <= 512
        assert (proposal.intent == "revise") == (proposal.entry_id is not None)
    revised = [one.entry_id for one in proposals if one.entry_id]
    assert len(revised) == len(set(revised))
    assert len({one.text for one in proposals}) == len(proposals)


def test_weights_for_other_vectors_are_refused():
    class Other(PackagedEncoder):
        profile = "other:512"

    with pytest.raises(ValueError, match="other:512"):
        BuiltinProposer(Other())


@pytest.mark.slow
def test_the_shipped_weights_are_those_a_retrain_gives():
    assert train_builtin.main(["--check"]) == 0


@pytest.mark.skipif(not Path(HELD_OUT[0]).is_file(), reason="the held-out sentences are not here")
def test_quality_on_sentences_never_trained_on_stays_above_the_floor():
    quality = measure(train_builtin.read_labelled(HELD_OUT[0]))["all"]
    assert quality.precision >= 0.88
    assert quality.recall >= 0.90
