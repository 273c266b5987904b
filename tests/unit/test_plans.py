"""Plans: read from an answer, carried out by a question, and marked by what ran."""

from __future__ import annotations

import html
from typing import Any

import pytest

from mahtab_tui.bus.entries import Entry, Question
from mahtab_tui.bus.plans import find_steps, last_named_step, plan_request, requested_steps
from mahtab_tui.bus.records import Record
from mahtab_tui.export.entries import ExportedConversation
from mahtab_tui.export.rendering import ENDINGS, render
from mahtab_tui.export.selection import select
from mahtab_tui.tui.theme import MAHTAB
from mahtab_tui.tui.transcript.fold import Transcript
from mahtab_tui.tui.transcript.layout import EntryRows
from tests import tags
from tests.unit.transcripts import answer, cell_of, folded, palette_of, record

STEPS = ["load the file", "clean it", "plot it", "say what you see"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I looked.\n\n1. load\n2. plot\n", ["load", "plot"]),
        ("My plan:\n\n- [ ] load\n- [ ] plot", ["load", "plot"]),
        ("1) load\n   - with care\n\n2) plot\nShall I?", ["load", "plot"]),
        ("Found:\n1. a\n2. b\n\nPlan:\n1. load", ["load"]),
        ("1. load\n2. plot\n\nOpen questions:\n- which year?", ["load", "plot"]),
        ("I have no plan.", []),
        ("1. " + "x" * 400, ["x" * 299 + "…"]),
    ],
)
def test_steps_are_the_items_of_the_last_list(text: str, expected: list[str]) -> None:
    assert find_steps(text) == expected


def test_request_says_the_steps_and_only_it_has_them() -> None:
    assert requested_steps(plan_request(STEPS)) == STEPS
    assert requested_steps(plan_request([])) == []
    assert requested_steps("1. load\n2. plot") == []


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("**Step 2 of 5**\n", 2),
        ("Step 2: clean it.", 2),
        ("Done.\n### Step 3\n", 3),
        ("Step 1 is done.\nStep 2:", 2),
        ("The next step 2 is hard.", None),
        ("Two steps are left.", None),
    ],
)
def test_a_step_is_named_at_the_beginning_of_a_line(words: str, number: int | None) -> None:
    assert last_named_step(words) == number


def question() -> Record:
    return record(tags.USER_CHAT, plan_request(STEPS), turn=1)


def starts(cell: int, step: int, block: int = 0) -> Record:
    return record(
        tags.ASSISTANT_REPL_IN, "a = 1", cell=cell, turn=1, step=step, block=block, party="claude"
    )


def ends(cell: int, status: str = "ok") -> Record:
    return record(tags.ASSISTANT_REPL_OUT, "", cell=cell, turn=1, status=status, party="claude")


def says(step: int, *names: str) -> Record:
    blocks = [f"**{name}**\n\n```python\na = 1\n```\n" for name in names]
    return answer("\n".join(blocks), step=step)


def skipped(step: int) -> Record:
    attrs: dict[str, Any] = {"turn": 1, "step": step, "block": 0, "state": "skipped"}
    return record(tags.APPROVAL, "a = 1", **attrs)


def drawn(entry: Entry) -> list[str]:
    rows = EntryRows(entry, 80, palette_of(MAHTAB))
    rows.update()
    return ["".join(text for text, _ in rows[index].spans).rstrip() for index in range(len(rows))]


def states(transcript: Transcript) -> list[str]:
    entry = next(entry for entry in transcript.entries if isinstance(entry, Question))
    return [step.state for step in entry.plan]


def test_steps_are_marked_by_what_runs() -> None:
    transcript = folded(question())
    assert states(transcript) == ["to do"] * 4
    for records, expected in (
        ([says(0, "Step 1")], "to do"),
        ([starts(1, 0)], "runs"),
        ([ends(1)], "done"),
    ):
        transcript.pop_changed()
        transcript.fold(records)
        assert states(transcript) == [expected, "to do", "to do", "to do"]
        assert 0 in transcript.pop_changed(), "the question is drawn again"


def test_cells_and_the_question_show_the_steps() -> None:
    transcript = folded(question(), says(0, "Step 1", "Step 2"), starts(1, 0), ends(1))
    transcript.fold([starts(2, 0, block=1), ends(2, "error")])
    lines = drawn(transcript.entries[0])
    assert lines[-5:] == [
        "You  Carry out your plan now.",
        "✓ 1. load the file  done",
        "✗ 2. clean it  failed",
        "· 3. plot it  to do",
        "· 4. say what you see  to do",
    ]
    assert "plan step 2 of 4" in drawn(cell_of(transcript, 1))[1]


def test_only_the_steps_of_a_plan_are_counted_while_it_is_carried_out() -> None:
    thinks: dict[str, Any] = {"state": "thinking", "party": "claude", "turn": 1, "step": 2}
    transcript = folded(question(), says(2, "I look around."), starts(1, 2), ends(1))
    assert "step" not in drawn(cell_of(transcript))[1]
    transcript.fold([record(tags.AGENT, "", **thinks)])
    assert transcript.activity is not None
    assert transcript.activity.brief == "thinking"

    # Without a plan, the replies are counted.
    replies = folded(record(tags.USER_CHAT, "How many?", turn=1), says(2, "So:"), starts(1, 2))
    assert "step 3" in drawn(cell_of(replies))[1]
    replies.fold([record(tags.AGENT, "", **thinks)])
    assert replies.activity is not None
    assert replies.activity.brief == "thinking · step 3"


@pytest.mark.parametrize("ending", ENDINGS)
def test_exports_show_the_states_of_steps(ending: str) -> None:
    conversation = ExportedConversation(
        [question(), says(0, "Step 1"), starts(1, 0), ends(1), says(1, "Step 2"), skipped(1)]
    )
    conversation.mask_texts(lambda text: text.replace("plot it", "••••"))
    exported = html.unescape(render(select(conversation), ending))
    for line in ("load the file · done", "clean it · skipped", "•••• · to do"):
        assert line in exported
    assert "plot it" not in exported


def test_failed_step_is_done_once_its_correction_has_run() -> None:
    transcript = folded(question(), says(0, "Step 2"), starts(1, 0), ends(1, "error"))
    assert states(transcript)[1] == "failed"
    transcript.fold([says(1, "I correct it."), starts(2, 1), ends(2)])
    assert states(transcript) == ["to do", "done", "to do", "to do"]


def test_correction_without_a_name_belongs_to_the_step_that_failed() -> None:
    transcript = folded(question(), says(0, "Step 1", "Step 2"), starts(1, 0), ends(1, "error"))
    assert states(transcript)[:2] == ["failed", "to do"]
    transcript.fold([says(1, "I correct it."), starts(2, 1), ends(2)])
    assert states(transcript)[:2] == ["done", "to do"]


def test_skipped_and_undone_steps_are_marked() -> None:
    transcript = folded(question(), says(0, "Step 1"), starts(1, 0), ends(1))
    transcript.fold([says(1, "Step 2"), skipped(1)])
    assert states(transcript)[:2] == ["done", "skipped"]
    transcript.fold([record(tags.USER_UNDO, "", cells=(1,), undone=True)])
    assert states(transcript)[:2] == ["undone", "skipped"]


def test_several_steps_of_one_answer_are_marked_each() -> None:
    transcript = folded(question(), says(0, "Step 1", "Step 2"), starts(1, 0), ends(1))
    transcript.fold([starts(2, 0, block=1), ends(2, "error")])
    assert states(transcript) == ["done", "failed", "to do", "to do"]


def test_step_in_words_is_answered_but_a_summary_marks_nothing() -> None:
    transcript = folded(question(), answer("**Step 4** The prices rose.", step=0))
    assert states(transcript) == ["to do", "to do", "to do", "answered"]
    summary = "All is done:\n\nStep 1: loaded.\nStep 2 was not needed."
    assert states(folded(question(), answer(summary, step=0))) == ["to do"] * 4


def test_code_without_a_name_marks_nothing_before_a_step_was_named() -> None:
    transcript = folded(question(), says(0, "I look first."), starts(1, 0), ends(1))
    transcript.fold([says(1, "Step 9"), starts(2, 1), ends(2)])
    assert states(transcript) == ["to do"] * 4
