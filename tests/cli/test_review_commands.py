"""`pc review`: candidates before a person, verb by verb and one after the other."""

import json
import sys

import pytest
from proposed import PROPOSAL, learn, proposal, propose
from rich.cells import cell_len
from running_pc import Command


@pytest.fixture(autouse=True)
def _shop(shop):
    shop("An amount of 0.29 became 28 cents.", "Another one did.")


@pytest.fixture
def editor(tmp_path):
    """An editor that puts other words into the lesson, as `$EDITOR` has it."""

    def make(lesson):
        program = tmp_path / "editor.py"
        program.write_text(
            "import json, pathlib, sys\n"
            "file = pathlib.Path(sys.argv[1])\n"
            "value = json.loads(file.read_text('utf-8'))\n"
            f"file.write_text({lesson!r} if {lesson!r} == '{{' else "
            f"json.dumps(value | {{'lesson': {lesson!r}}}), 'utf-8')\n"
        )
        return f"{sys.executable} {program}"

    return make


def editing(pc, command):
    return Command(*pc.before, **pc.env | {"EDITOR": command, "VISUAL": ""})


def statuses(pc):
    return {
        row["candidate_id"]: status
        for status in ("pending", "approved", "rejected")
        for row in pc.rows("review", "list", "shop", "--status", status)
    }


def test_candidates_are_listed_with_what_speaks_against_them(pc):
    assert pc.ok("review", "list", "shop") == "no pending candidates\n"
    first = learn(pc)
    one = propose(pc, "--target", first, lesson="One.")
    two = propose(pc, "--target", first, lesson="Two.")
    rows = pc.rows("review", "list", "shop")
    assert [row["candidate_id"] for row in rows] == [one, two]
    assert pc.ok("review", "list", "shop").count(", rival\n") == 2
    pc.ok("review", "approve", "shop", one)
    assert pc.ok("review", "list", "shop") == (
        f"{two}  An amount went through a float.\n"
        "    Two.\n"
        f"    propose just now, for {first}@1, 1 source, stale target\n"
    )
    assert f"made {first}@2" in pc.ok("review", "list", "shop", "--status", "approved")
    assert len(pc.rows("review", "list", "shop", "--limit", "1")) == 1


def test_one_is_shown_with_the_texts_it_stands_on(pc):
    (entry,) = pc.rows("memory", "remember", "shop", "Amounts are cents.", "--kind", "decision")
    entry_id = entry["entry"]["citation"]["entry_id"]
    candidate = propose(pc, "--entry", entry_id, "--reason", "seen twice", lesson="a\x1b[2Jb")
    shown = pc.ok("review", "show", "shop", candidate)
    for text in (
        candidate,
        "a new experience",
        "by propose",
        "because seen twice",
        "An amount went through a float.",
        "content s1\n  An amount of 0.29 became 28 cents.\n",
        f"entry {entry_id} in memory/memory@1\n  decision: Amounts are cents.\n",
        "a␛[2Jb",  # it is shown, and the terminal does not obey it
    ):
        assert text in shown
    assert "\x1b" not in shown
    (row,) = pc.rows("review", "show", "shop", candidate)
    assert (row["candidate_id"], row["origin"]) == (candidate, "propose")


def test_a_list_keeps_to_its_lines_and_says_what_is_a_copy(pc):
    first = learn(pc)
    (entry,) = pc.rows("memory", "remember", "shop", "Amounts are cents.", "--kind", "decision")
    one = propose(
        *(pc, "--entry", entry["entry"]["citation"]["entry_id"]),
        situation="金额 " * 60,
        lesson="a\nb " * 90,
    )
    propose(pc, "--target", first)
    told = pc.ok("review", "list", "shop").splitlines()
    assert [cell_len(line) for line in told[:2]] == [300, 300]  # as wide as `running_pc` has it
    assert told[0].startswith(f"{one}  金额 金额")
    assert told[1].startswith("    a b a b")
    assert told[2] == "    propose just now, new, 1 source, 1 entry"
    assert told[5].endswith(f", for {first}@1, 1 source, unchanged")


def test_the_outcome_behind_a_candidate_is_shown_in_lines(pc):
    seen = [{"kind": "source", "source_ref": {"name": "content", "source_id": "s1"}}]
    outcome = {
        "objective": "Import the orders.",
        "status": "failed",
        "summary": "One was off.",
        "observations": [{"text": "It ran."}],
        "checks": [
            {
                "name": "sums",
                "status": "failed",
                "details": "28 of 29",
                "basis": "verified",
                "evidence": seen,
            }
        ],
        "remaining_work": ["Negative amounts."],
    }
    pc.ok("outcome", "record", "shop", "o1", "-", stdin=json.dumps(outcome))
    assert (
        "content o1\n"
        "  task outcome, failed\n"
        "  objective  Import the orders.\n"
        "  summary    One was off.\n"
        "  observed   It ran. (declared, not verified)\n"
        "  check      sums, failed (verified by s1): 28 of 29\n"
        "  still open Negative amounts.\n"
    ) in pc.ok("review", "show", "shop", propose(pc, "--source", "o1"))


def test_what_changes_is_shown_beside_what_is(pc):
    first = learn(pc)
    candidate = propose(pc, "--target", first, lesson="Weights too.")
    shown = pc.ok("review", "show", "shop", candidate)
    assert f"would replace {first}@1" in shown
    assert "- Parse money as Decimal." in shown
    assert "+ Weights too." in shown
    told = pc.ok("review", "diff", "shop", candidate)
    assert told.startswith(f"{candidate} v1 beside {first}@1\n")
    assert "+ Weights too." in told
    (row,) = pc.rows("review", "diff", "shop", candidate)
    assert [one["field"] for one in row["changes"] if one["changed"]] == ["lesson"]
    assert "beside nothing: it is a new experience" in pc.ok("review", "diff", "shop", propose(pc))


def test_a_candidate_is_corrected_and_its_history_kept(pc, editor):
    candidate = propose(pc, "--reason", "first")
    told = editing(pc, editor("Parse weights, too.")).ok("review", "revise", "shop", candidate)
    assert told == f"{candidate} is at version 2\n"
    (row,) = pc.rows(
        *("review", "revise", "shop", candidate, "-", "--add-source", "s2", "--reason", "third"),
        stdin=proposal(lesson="Third."),
    )
    assert (row["version"], row["reason"]) == (3, "third")
    assert [ref["source_id"] for ref in row["source_refs"]] == ["s1", "s2"]
    same = editing(pc, editor("Third.")).ok("review", "revise", "shop", candidate)
    assert same == "nothing was changed\n"
    assert pc.refused(1, "review", "approve", "shop", candidate, "--version", "2") == (
        f"pc: the candidate {candidate} is at version 3, 2 was expected"
    )
    pc.ok("review", "reject", "shop", candidate, "--reason", "once is not enough")

    (found,) = pc.rows("review", "history", "shop", candidate)

    said = [(one["version"], one["proposal"]["lesson"]) for one in found["versions"]]
    assert said == [(1, PROPOSAL["lesson"]), (2, "Parse weights, too."), (3, "Third.")]
    told = pc.ok("review", "history", "shop", candidate)
    assert told.count("\n  because first\n") == 2
    assert told.rstrip().endswith(": once is not enough")
    assert "version 3, " in told


@pytest.mark.parametrize(
    ("command", "told"),
    [("false", "pc: $EDITOR: 'false' failed"), ("no-such-editor", "pc: $EDITOR: 'no-such-editor'")],
)
def test_an_editor_that_fails_changes_nothing(pc, command, told):
    candidate = propose(pc)
    line = editing(pc, command).refused(2, "review", "revise", "shop", candidate)
    assert line.startswith(told)
    assert pc.rows("review", "show", "shop", candidate)[0]["version"] == 1


def test_all_are_gone_through_by_what_the_input_says(pc, editor):
    first, second, third, fourth, fifth = (propose(pc, lesson=f"Lesson {n}.") for n in range(5))
    choices = [
        "a",
        "what?",
        "e",
        "j not enough evidence",
        "reject",
        "one run only",
        "revise",
        "approve",
        "skip",
    ]

    told = editing(pc, editor("Better.")).ok("review", "shop", stdin="\n".join(choices))

    assert statuses(pc) == {
        first: "approved",
        second: "rejected",
        third: "rejected",
        fourth: "approved",
        fifth: "pending",
    }
    assert "'what?' is none of the choices" in told
    assert told.splitlines()[-1] == "2 approved, 2 rejected, 1 skipped"
    assert "1 of 5" in told
    (row,) = pc.rows("review", "show", "shop", fourth)
    assert (row["version"], row["proposal"]["lesson"]) == (2, "Better.")
    reasons = [
        row["decision_reason"] for row in pc.rows("review", "list", "shop", "--status", "rejected")
    ]
    assert reasons == ["not enough evidence", "one run only"]


@pytest.mark.parametrize("stdin", ["", "\n", "q\na\n", "s\n", "j\n\n", "j\n", "y\n", "e\n"])
def test_nothing_is_decided_without_a_word(pc, stdin):
    candidate = propose(pc)
    pc.ok("review", "start", "shop", stdin=stdin)
    assert statuses(pc) == {candidate: "pending"}


def test_nothing_waits(pc):
    assert pc.ok("review", "shop") == "nothing waits for review\n"
    assert pc.refused(1, "review", "nowhere")


def test_who_comes_second_is_told_what_to_do(pc):
    first = learn(pc)
    one = propose(pc, "--target", first, lesson="One.")
    two = propose(pc, "--target", first, lesson="Two.")

    told = pc.ok("review", "shop", stdin="a\na\nj overtaken\n")

    assert f"{one} is approved as {first}@2\n" in told
    assert "it can only be rejected" in told
    assert (
        f" is not the head, which is revision 2. It can be neither approved nor revised: read "
        f"{first}@2, reject this one, and propose again with that revision as target if it still "
        "holds\n"
    ) in told
    assert statuses(pc).items() >= {one: "approved", two: "rejected"}.items()


def test_a_proposal_that_changes_nothing_stays(pc):
    first = learn(pc)
    same = propose(pc, "--target", first)
    told = pc.ok("review", "shop", stdin="a\n")
    assert "proposal: says what its target says already\n" in told
    assert told.splitlines()[-1] == "1 left"
    assert statuses(pc)[same] == "pending"


def test_a_text_that_the_editor_breaks_is_not_taken(pc, editor):
    candidate = propose(pc)
    told = editing(pc, editor("{")).ok("review", "shop", stdin="r\n")
    assert "proposal: is not JSON" in told
    assert statuses(pc) == {candidate: "pending"}


def test_what_was_decided_or_revised_elsewhere_is_seen(pc, tmp_path):
    """The editor is where a person takes long; meanwhile somebody else decides."""
    one, two = propose(pc), propose(pc, lesson="Two.")
    program = tmp_path / "elsewhere.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "from typer.testing import CliRunner\n"
        "from pc_store.cli.app import app\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "value = json.loads(file.read_text())\n"
        f"run = [*{pc.before!r}, 'review', 'reject', 'shop', {one!r}, '--reason', 'no']\n"
        "if value['lesson'] == 'Two.':\n"
        f"    run = [*{pc.before!r}, 'review', 'revise', 'shop', {two!r}, '-']\n"
        "done = CliRunner().invoke(app, run, input=json.dumps(value | {'lesson': 'Theirs.'}))\n"
        "assert done.exit_code == 0, done.output\n"
        "file.write_text(json.dumps(value | {'lesson': 'Mine.'}))\n"
    )
    command = editing(pc, f"{sys.executable} -W ignore {program}")

    told = command.ok("review", "shop", stdin="r\nr\na\n")

    assert f"the candidate {one} is rejected, which is final" in told
    assert "somebody revised it in the meantime" in told
    assert told.splitlines()[-1] == "1 decided elsewhere, 1 approved"
    (row,) = pc.rows("review", "show", "shop", two)
    assert (row["version"], row["proposal"]["lesson"]) == (2, "Theirs.")


def test_long_evidence_is_cut_until_asked_for(pc):
    text = "x" * 2_000 + "END"
    pc.ok("source", "add", "shop", "long", text)
    pc.rows("experience", "propose", "shop", "-", "--source", "long", stdin=proposal())
    told = pc.ok("review", "shop", stdin="")
    assert "… (503 characters more)" in told
    assert "END" not in told
    assert "END" in pc.ok("review", "shop", stdin="e\n")


def test_the_rows_are_json(pc):
    propose(pc)
    for line in pc.ok("review", "list", "shop", "--json").splitlines():
        assert json.loads(line)["proposal"] == PROPOSAL
