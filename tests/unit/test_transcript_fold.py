"""Records become entries: cells, answers, calls of tools, skills and what went with a question."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from mahtab_tui.bus import conversation
from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.entries import AnswerText, AttachmentChip, Cell, Note, Question, ToolUse
from mahtab_tui.bus.records import KINDS, Record
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.tui.transcript import long_outputs
from mahtab_tui.tui.transcript.entry_menu import entry_menu
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.unit.transcripts import (
    NOW,
    answer,
    cell_of,
    ended,
    entered,
    folded,
    outline,
    output_of,
    printed,
    record,
)

ANSWER = "First words.\n\n```python\na = 1\n```\n\nMore words.\n\n```python\nb = 2\n```\n"


def token(text: str, kind: str = "chat", block: int = 0, step: int = 0) -> Record:
    return record(
        tags.ASSISTANT_CHAT_STREAM, text, turn=1, step=step, party="claude", kind=kind, block=block
    )


def approval(state: str, code: str, block: int = 0, **fields: Any) -> Record:
    return record(tags.APPROVAL, code, turn=1, step=0, block=block, state=state, **fields)


def runs(code: str, cell: int, block: int, step: int = 0) -> Record:
    return record(
        tags.ASSISTANT_REPL_IN, code, cell=cell, turn=1, step=step, block=block, party="claude"
    )


def test_a_cell_has_its_output_its_end_and_its_changes() -> None:
    changes = [{"name": "x", "change": "added", "type": "int", "summary": "1"}]
    transcript = folded(
        entered("x = 1; x", 3),
        printed("printed\n", cell=3),
        printed("1\n", "value", cell=3),
        ended("printed\n1\n", 3, status="ok", duration=0.08, kinds=[["stdout", 8], ["value", 2]]),
        record(tags.NAMESPACE, cell=3, party="you", changes=changes),
    )
    cell = cell_of(transcript)
    assert (cell.number, cell.person, cell.status, cell.duration) == (3, True, "ok", 0.08)
    assert output_of(cell) == [("stdout", "printed"), ("value", "1")]
    assert cell.changes == (Change("x", "added", Variable("x", "int", "1", "data")),)
    assert transcript.running == {}


def thought(text: str, tag: str = tags.ASSISTANT_THOUGHT_STREAM) -> Record:
    return record(tag, text, turn=1, step=0, party="claude")


def test_thoughts_appear_before_their_answer_and_collapse_at_its_end() -> None:
    transcript = folded(thought("Let "), thought("me see."), token("So."))
    first_entry, second_entry = (
        entry for entry in transcript.entries if isinstance(entry, AnswerText)
    )
    assert (first_entry.is_thought, first_entry.source, first_entry.collapsed) == (
        True,
        "Let me see.",
        False,
    )
    assert (second_entry.is_thought, second_entry.source) == (False, "So.")
    transcript.fold([thought("Let me see.", tags.ASSISTANT_THOUGHT), answer("So it is.")])
    assert (first_entry.source, first_entry.collapsed, first_entry.hidden) == (
        "Let me see.",
        True,
        False,
    )
    assert second_entry.source == "So it is."


def test_thoughts_go_back_and_come_again_with_their_answer() -> None:
    transcript = folded(
        entered("x = 1", 1),
        thought("Let me see.", tags.ASSISTANT_THOUGHT),
        answer("So it is."),
        record(tags.REPLACE, "Gone.", entry="answer 1.0"),
    )

    def removals() -> list[str]:
        entries = [entry for entry in transcript.entries if not isinstance(entry, Note)]
        return [entry.removed for entry in entries]

    assert removals() == ["", "replaced", "replaced"]
    transcript.fold([record(tags.REPLACE, "Back.", entry="answer 1.0", restored=True)])
    assert removals() == ["", "", ""]


def test_thought_of_a_restarted_answer_is_hidden() -> None:
    transcript = folded(
        thought("Let"),
        token("So"),
        record(tags.ASSISTANT_CHAT_STREAM, turn=1, step=0, party="claude", fresh=True),
        thought("Once"),
    )
    hidden = [entry.hidden for entry in transcript.entries if isinstance(entry, AnswerText)]
    assert hidden == [True, True, False]


def test_resumed_cell_gets_its_output_from_the_full_record() -> None:
    transcript = folded(
        entered("x", at=NOW - 60),
        ended(
            "aTraceback\n", status="error", kinds=[["stdout", 1], ["traceback", 10]], at=NOW - 60
        ),
    )
    assert output_of(cell_of(transcript)) == [("stdout", "a"), ("traceback", "Traceback")]


def test_unfinished_work_of_a_resumed_session_is_not_running() -> None:
    transcript = folded(
        entered("while True: pass", at=NOW - 60),
        answer(ANSWER),
        approval("waiting", "a = 1", at=NOW - 60),
        record(tags.AGENT, turn=1, step=1, state="thinking", party="claude", at=NOW - 60),
    )
    assert transcript.running == {}
    assert transcript.activity is None
    assert cell_of(transcript, 1).approval == "not run"


def test_background_output_appears_under_the_last_cell() -> None:
    transcript = folded(
        entered("t.start()"),
        ended("", status="ok", duration=0.0),
        record(tags.USER_REPL_OUT, "from a thread\n", late=True),
        ended("again\n", late=True),
    )
    cell = cell_of(transcript)
    assert cell.late_output is not None
    assert [line.text for line in cell.late_output] == ["from a thread", "again"]
    assert (cell.status, len(cell.output)) == ("ok", 0)
    menu = {command.id for command in entry_menu(cell, transcript)}
    # Only the output of the cell itself opens in a screen.
    assert "entry-copy-output" in menu
    assert "entry-open" not in menu


def test_words_and_code_stream_into_separate_entries() -> None:
    transcript = folded(
        token("\n"), token("First "), token("words."), token("a = ", "code"), token("1", "code"),
        token("More"), token("b = 2", "code", block=1),
    )  # fmt: skip
    assert outline(transcript) == [
        *(("words", "First words."), ("code", "a = 1"), ("words", "More"), ("code", "b = 2"))
    ]
    assert [entry.joined for entry in transcript.entries] == [False, True, True, True]
    named = [entry.shows_author for entry in transcript.entries if isinstance(entry, AnswerText)]
    assert named == [True, False]


@pytest.mark.parametrize(
    "streamed",
    [
        [],
        [token("First wor"), token("a =", "code")],
        [token("First words."), token("a = 1", "code"), token("More"), token("b", "code", block=1)],
    ],
)
def test_full_answer_replaces_the_streamed_text(streamed: list[Record]) -> None:
    assert outline(folded(*streamed, answer(ANSWER))) == [
        *(("words", "First words."), ("code", "a = 1")),
        *(("words", "More words."), ("code", "b = 2")),
    ]


def test_thought_and_following_words_are_one_entry_streamed_or_not() -> None:
    thought = "<think>\n```python\nno\n```\n</think>\n"
    whole_answer = answer(f"{thought}So:\n```python\nx\n```")
    streamed = folded(token(thought), token("So:\n"), token("x\n", "code"), whole_answer)
    assert (
        outline(streamed)
        == outline(folded(whole_answer))
        == [("words", f"{thought}\nSo:"), ("code", "x")]
    )


def test_streamed_entries_missing_from_the_final_answer_vanish() -> None:
    transcript = folded(
        token("First words."), token("x", "code"), token("more"), answer("First words.\n\nmore")
    )
    assert outline(transcript) == [("words", "First words.\n\nmore")]
    transcript = folded(token("a tag"), token("x = 1", "code"), answer("```python\nx = 1\n```"))
    assert outline(transcript) == [("code", "x = 1")]


def test_a_block_waits_runs_and_becomes_a_cell() -> None:
    transcript = folded(answer(ANSWER), approval("waiting", "a = 1"))
    assert [cell_of(transcript, number).approval for number in (0, 1)] == ["waiting", ""]
    transcript.fold(
        [
            approval("run", "a = 1"),
            runs("a = 1", 4, 0),
            record(tags.ASSISTANT_REPL_OUT_STREAM, "out\n", cell=4, kind="stdout"),
            record(tags.ASSISTANT_REPL_OUT, "out\n", cell=4, status="ok", duration=0.2),
            approval("skipped", "b = 2", block=1, reason="no need"),
        ]
    )
    first_cell = cell_of(transcript, 0)
    second = cell_of(transcript, 1)
    assert (first_cell.number, first_cell.approval, output_of(first_cell)) == (
        4,
        "",
        [("stdout", "out")],
    )
    assert (second.number, second.approval, second.reason) == (None, "skipped", "no need")
    assert len(outline(transcript)) == 4


def test_an_edited_block_shows_the_code_that_runs() -> None:
    transcript = folded(
        answer(ANSWER),
        approval("edited", "a = 99"),
        runs("a = 99", 4, 0),
    )
    assert outline(transcript)[1] == ("code", "a = 99")
    assert [cell_of(transcript, step).edited for step in (0, 1)] == [True, False]


def test_a_stopped_answer_is_marked_once() -> None:
    stopped = record(tags.AGENT, turn=1, step=0, state="stopped", party="claude")
    transcript = folded(token("Half an ans"), answer("Half an ans", stopped=True), stopped)
    (words,) = transcript.entries
    assert isinstance(words, AnswerText)
    assert words.mark == "stopped"
    assert outline(folded(stopped)) == [("note", "stopped")]


def test_entries_cut_off_by_the_end_of_the_program_are_marked() -> None:
    transcript = folded(answer("Half", cut=True), entered("x"), ended("1\n", cut=True))
    assert isinstance(words := transcript.entries[0], AnswerText)
    assert words.mark == "cut off"
    assert cell_of(transcript).status == "cut off"


@pytest.mark.parametrize("state", ["thinking", "reflecting", "max-turns", "stalled"])
def test_spinner_turns_until_the_answer_arrives(state: str) -> None:
    begin = record(tags.AGENT, turn=1, step=0, state=state, party="claude")
    transcript = folded(begin)
    assert transcript.activity is not None
    assert transcript.activity.since == NOW
    for end in (answer("x"), record(tags.AGENT, turn=1, step=0, state="done", party="claude")):
        transcript = folded(begin, end)
        assert transcript.activity is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [("max-turns", "its steps are used up"), ("stalled", "its last steps brought nothing new")],
)
def test_transcript_says_why_no_more_code_runs(state: str, reason: str) -> None:
    transcript = folded(record(tags.AGENT, turn=1, step=3, state=state, party="claude"))
    assert outline(transcript) == [
        ("note", f"Claude runs no more code for this question: {reason}.")
    ]


def test_model_is_writing_after_its_first_word_and_its_seconds_continue() -> None:
    transcript = folded(
        record(tags.AGENT, turn=1, step=0, state="thinking", party="claude"), token("x"), token("y")
    )
    assert transcript.activity is not None
    assert (transcript.activity.doing, transcript.activity.since) == ("is writing", NOW)
    assert folded(token("x")).activity is None, "the start of the stream is unknown"


def test_model_waits_for_the_user_while_code_waits() -> None:
    waits = approval("waiting", "x = 1", request="1", blocks=1, party="claude")
    transcript = folded(answer("```python\nx = 1\n```\n"), waits)
    assert transcript.activity is not None
    activity = transcript.activity
    assert (activity.doing, activity.waits_for_person) == ("waits for you", True)
    transcript.fold([waits.changed(state="run")])
    assert transcript.activity is None


def test_notices_and_deaths_are_notes_unlike_routine_kernel_events() -> None:
    transcript = folded(
        record(tags.NOTICE, "mind this", level="warning"),
        record(tags.KERNEL, "", state="busy", cell=1),
        record(tags.KERNEL, "The kernel died: segmentation fault.", state="dead"),
        record(tags.KERNEL, "A new one runs.", state="idle"),
        record(tags.QUEUE, items=[]),
        record(tags.USAGE, model="x"),
        record(tags.INPUT, "name? ", request="1", state="waiting"),
    )
    assert outline(transcript) == [
        ("note", "mind this"),
        ("note", "The kernel died: segmentation fault."),
        ("note", "A new one runs."),
    ]
    assert not any(entry.gap for entry in transcript.entries)
    levels = [entry.level for entry in transcript.entries if isinstance(entry, Note)]
    assert levels == ["warning", "error", "info"]


def test_records_with_missing_attributes_do_no_harm() -> None:
    read = []
    for tag, _ in KINDS:
        with contextlib.suppress(InvalidRecord):
            read += [decode(tag, text, {}, NOW) for text in ("text", "")]
    assert len(read) > len(KINDS)
    for record_read in filter(None, read):
        folded(record_read, record_read)


def test_only_changed_entries_are_reported() -> None:
    transcript = folded(entered("a"), entered("b", 2))
    assert transcript.pop_changed() == [0, 1]
    transcript.fold([printed("x")])
    assert transcript.pop_changed() == [0]
    assert transcript.pop_changed() == []


def test_old_outputs_are_shortened_when_the_total_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_outputs, "MAX_LONG_OUTPUTS_CHARS", 1_000)
    transcript = Transcript(since=NOW)
    for number in range(5):
        transcript.fold([entered("x", number), ended("a line\n" * 100, number, status="ok")])
    cells = [entry for entry in transcript.entries if isinstance(entry, Cell)]
    assert [len(cell.output) for cell in cells] == [40, 40, 40, 40, 100]
    assert cells[0].output.omitted_lines == 60


def test_later_parts_of_a_hidden_answer_are_hidden_too() -> None:
    hide = record(tags.HIDE, entry="answer 1.0", hidden=True)
    streamed = (token("a = 1", "code"), token("More words.", block=1))
    transcript = folded(token("First words."), hide, *streamed, answer(ANSWER))
    resumed = folded(hide, answer(ANSWER))
    for view in (transcript, resumed):
        assert [entry.removed for entry in view.entries] == ["hidden", "", "hidden", ""]
    resumed.fold([record(tags.HIDE, entry="answer 1.0", hidden=False), answer("Again.", step=1)])
    assert not any(entry.removed for entry in resumed.entries)


def test_clearing_leaves_running_cells() -> None:
    transcript = folded(record(tags.NOTICE, "gone", level="info"), entered("long()")).copy_running()
    transcript.fold([printed("more\n")])
    assert outline(transcript) == [("code", "long()")]
    assert output_of(cell_of(transcript)) == [("stdout", "more")]


def test_resumed_session_with_restarted_turn_numbers_keeps_old_answers() -> None:
    question = record(tags.USER_CHAT, "again?", turn=1)
    transcript = folded(
        question, answer("Old words."), question, token("New wor"), answer("New words.")
    )
    assert outline(transcript) == [
        ("question", "again?"),
        ("words", "Old words."),
        ("question", "again?"),
        ("words", "New words."),
    ]


def test_only_the_users_last_error_shows_the_key_for_asking_about_it() -> None:
    def cell(number: int, status: str, tag: str = tags.USER_REPL_IN) -> list[Record]:
        out = tags.USER_REPL_OUT if tag == tags.USER_REPL_IN else tags.ASSISTANT_REPL_OUT
        attrs: Any = {"cell": number, "party": "x", "turn": 1, "step": number, "block": 0}
        return [
            record(tag, f"c{number}", **attrs),
            record(out, "E\n", **attrs, status=status, kinds=[["traceback", 2]]),
        ]

    transcript = folded(*cell(1, "error"))
    assert transcript.last_error is cell_of(transcript)
    assert cell_of(transcript).offers_explanation
    transcript.pop_changed()
    transcript.fold(cell(2, "ok"))
    assert not cell_of(transcript).offers_explanation
    assert transcript.pop_changed() == [0, 1]
    assert transcript.last_error is cell_of(transcript)
    transcript.fold(cell(3, "error", tags.ASSISTANT_REPL_IN))
    assert not cell_of(transcript, 2).offers_explanation, "the model mends its own"
    transcript.fold([record(tags.HIDE, entry="cell 3", hidden=True)])
    assert transcript.last_error is cell_of(transcript), "the other one is hidden"


def test_overwritten_output_matches_its_full_record() -> None:
    transcript = Transcript(since=0.0)
    transcript.fold([entered("bars()"), printed("one\ntwo"), printed("\x1b["), printed("A\rONE")])
    (cell,) = transcript.entries
    assert isinstance(cell, Cell)
    assert [line.text for line in cell.output] == ["ONE", "two"]
    end = ended("1\n2\n", status="ok", duration=0.1, kinds=[["stdout", 4]], rewritten=True)
    transcript.fold([end])
    assert [line.text for line in cell.output] == ["1", "2"]


def test_cell_left_running_by_an_earlier_screen_shows_its_start_time() -> None:
    transcript = folded(entered("train()", 3, at=NOW - 60))
    assert transcript.running == {}
    transcript.fold([record(tags.KERNEL, state="busy", cell=3, since=NOW - 60, at=NOW + 1)])
    cell = transcript.running[3]
    assert cell.started == NOW - 60
    transcript.fold([record(tags.USER_REPL_OUT, cell=3, status="ok", duration=70.0, at=NOW + 10)])
    assert not transcript.running


def test_waiting_blocks_of_an_answer_are_numbered() -> None:
    transcript = folded(
        answer("```python\na\n```\nand\n```python\nb\n```"),
        approval("waiting", "a", request="r", blocks=2),
    )
    cells = [cell_of(transcript, number) for number in (0, 1)]
    assert [(cell.block_position, cell.approval) for cell in cells] == [
        ("1/2", "waiting"),
        ("2/2", ""),
    ]


def tool(state: str, text: str = "", call: str = "1.0.0", at: float = NOW) -> Record:
    attrs = {"party": "claude", "name": "read_file", "arguments": "{}", "state": state}
    return record(tags.ASSISTANT_TOOL, text, at=at, call=call, turn=1, step=0, **attrs)


def doing(transcript: Transcript) -> str:
    return "" if transcript.activity is None else transcript.activity.doing


def test_tool_call_is_one_entry_from_start_to_end() -> None:
    transcript = folded(answer("Let me see."), tool("running"))
    assert doing(transcript) == "waits for read_file"
    transcript.pop_changed()
    transcript.fold([tool("ok", "     1  x = 1")])
    assert doing(transcript) == ""
    assert transcript.pop_changed() == [1]
    transcript.fold([tool("error", "File not found: y", call="1.0.1")])
    _, first_use, second_use = transcript.entries
    assert isinstance(first_use, ToolUse)
    assert isinstance(second_use, ToolUse)
    assert [(use.state, use.text, use.key, use.collapsed) for use in (first_use, second_use)] == [
        ("ok", "     1  x = 1", "tool 1.0.0", True),
        ("error", "File not found: y", "tool 1.0.1", True),
    ]
    assert first_use.joined


def test_unfinished_old_tool_call_is_cut_off() -> None:
    transcript = folded(tool("running", at=NOW - 1))
    [use] = transcript.entries
    assert isinstance(use, ToolUse)
    assert (use.state, transcript.activity) == ("cut off", None)


def test_attachments_appear_under_their_question() -> None:
    def attached(turn: int, label: str) -> Record:
        return record(tags.USER_ATTACHMENT, "abc", turn=turn, label=label, size="3 B", problem="")

    transcript = folded(record(tags.USER_CHAT, "see @a.txt", turn=1))
    transcript.pop_changed()
    transcript.fold([attached(1, "@a.txt")])
    assert list(transcript.pop_changed()) == [0]
    transcript.fold([attached(7, "@b.txt")])
    [question] = transcript.entries
    assert isinstance(question, Question)
    assert question.attachments == [AttachmentChip("@a.txt", "3 B", "")]


def test_a_call_can_be_hidden_from_the_model() -> None:
    transcript = folded(tool("ok", "x"), record(tags.HIDE, entry="tool 1.0.0", hidden=True))
    assert transcript.entries[0].removed == "hidden"


def test_the_streamed_pieces_of_a_very_long_answer_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [token("Streamed."), token("a = 1\n", "code")]
    whole_text = "Whole.\n\n```python\nb = 2\n```\n"
    corrected = folded(*pieces, answer(whole_text))
    assert [entry.plain_text for entry in corrected.entries] == ["Whole.", "b = 2"]
    monkeypatch.setattr(conversation, "MAX_CORRECTED_CHARS", 5)
    transcript_kept = folded(*pieces, answer(whole_text))
    assert [entry.plain_text for entry in transcript_kept.entries] == ["Streamed.", "a = 1"]
    resumed = folded(answer(whole_text))
    assert [entry.plain_text for entry in resumed.entries] == ["Whole.", "b = 2"]


# The steps of a question.


def question_of_two_steps(*later_records: Record) -> Transcript:
    """A question whose first cell drew nothing and whose second failed."""
    first_text = "Let me look.\n\n```python\na = 1\n```\n"
    second = "Now this.\n\n```python\nb = nonesuch\n```\n"
    return folded(
        record(tags.USER_CHAT, "clean it", turn=1),
        answer(first_text),
        runs("a = 1", cell=1, block=0),
        record(tags.ASSISTANT_REPL_OUT, "1", cell=1, status="ok"),
        answer(second, step=1),
        runs("b = nonesuch", cell=2, block=0, step=1),
        record(tags.ASSISTANT_REPL_OUT, "NameError", cell=2, status="error"),
        *later_records,
    )


def cells_of(transcript: Transcript) -> list[Cell]:
    return [entry for entry in transcript.entries if isinstance(entry, Cell)]


def test_steps_fold_when_their_question_has_ended_unless_they_failed() -> None:
    transcript = question_of_two_steps()
    assert [cell.collapsed for cell in cells_of(transcript)] == [False, False]
    transcript.fold([answer("Done.", step=2), record(tags.AGENT, turn=1, state="done")])
    assert [cell.collapsed for cell in cells_of(transcript)] == [True, False]
    assert [cell.step for cell in cells_of(transcript)] == [0, 1]


def test_a_step_that_drew_a_picture_stays_open() -> None:
    picture = record(tags.DISPLAY, "<Figure>", cell=3, mime="image/png", data="aGk=")
    transcript = question_of_two_steps(
        answer("And:\n\n```python\nplot()\n```\n", step=2),
        runs("plot()", cell=3, block=0, step=2),
        picture,
        record(tags.ASSISTANT_REPL_OUT_STREAM, "<Figure>", cell=3, kind="display"),
        record(tags.ASSISTANT_REPL_OUT, "<Figure>", cell=3, status="ok", kinds=[["display", 8]]),
        record(tags.AGENT, turn=1, state="done"),
    )
    assert [cell.collapsed for cell in cells_of(transcript)] == [True, False, False]


def question_of_two_outputs(first_output: str, last_output: str) -> Transcript:
    return folded(
        record(tags.USER_CHAT, "how many?", turn=1),
        answer("```python\na\n```\n"),
        runs("a", cell=1, block=0),
        record(tags.ASSISTANT_REPL_OUT, first_output, cell=1, status="ok"),
        answer("```python\nb\n```\n", step=1),
        runs("b", cell=2, block=0, step=1),
        record(tags.ASSISTANT_REPL_OUT, last_output, cell=2, status="ok"),
        answer("As the table above says.", step=2),
        record(tags.AGENT, turn=1, state="done"),
    )


def test_the_table_of_the_last_step_stays_open() -> None:
    table = "city  rows\nRome     3\nOslo     4\n"
    transcript = question_of_two_outputs(table, table)
    assert [cell.collapsed for cell in cells_of(transcript)] == [True, False]
    transcript = question_of_two_outputs(table, "7")
    assert [cell.collapsed for cell in cells_of(transcript)] == [True, True]


def test_the_output_that_is_the_answer_stays_open() -> None:
    transcript = folded(
        record(tags.USER_CHAT, "how many?", turn=1),
        answer("```python\na\n```\n"),
        runs("a", cell=1, block=0),
        record(tags.ASSISTANT_REPL_OUT, "6", cell=1, status="ok"),
        answer("```python\nb\n```\n", step=1),
        runs("b", cell=2, block=0, step=1),
        record(tags.ASSISTANT_REPL_OUT, "7", cell=2, status="ok"),
        record(tags.AGENT, turn=1, state="done"),
    )
    assert [cell.collapsed for cell in cells_of(transcript)] == [True, False]


def test_the_only_cell_of_a_question_stays_open() -> None:
    transcript = folded(
        answer("```python\na = 1\n```"),
        runs("a = 1", cell=1, block=0),
        record(tags.ASSISTANT_REPL_OUT, "1", cell=1, status="ok"),
        record(tags.AGENT, turn=1, state="done"),
    )
    assert not cell_of(transcript).collapsed


def test_a_stop_between_steps_says_what_ran() -> None:
    transcript = question_of_two_steps(record(tags.AGENT, turn=1, state="stopped"))
    assert outline(transcript)[-1] == ("note", "stopped; until then, In 1, In 2 ran")


def test_code_of_the_last_answer_is_marked_as_not_run() -> None:
    last_answer = answer("It would be:\n\n```python\nc = 3\n```\n", step=2)
    transcript = question_of_two_steps(last_answer, record(tags.AGENT, turn=1, state="done"))
    assert [cell.approval for cell in cells_of(transcript)] == ["", "", "not run"]
