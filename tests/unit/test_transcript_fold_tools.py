"""Calls of tools, skills and what went with a question become entries."""

from __future__ import annotations

from typing import Any

from mahtab_tui.bus.conversation import AttachmentChip, Question, ToolUse
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.unit.transcripts import NOW, answer, folded, outline, record


def tool(state: str, text: str = "", call: str = "1.0.0", at: float = NOW) -> Record:
    return record(
        tags.ASSISTANT_TOOL,
        text,
        at=at,
        call=call,
        turn=1,
        step=0,
        party="claude",
        name="read_file",
        arguments="{}",
        state=state,
    )


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
    _, first, second = transcript.entries
    assert isinstance(first, ToolUse)
    assert isinstance(second, ToolUse)
    assert [(use.state, use.text, use.key, use.collapsed) for use in (first, second)] == [
        ("ok", "     1  x = 1", "tool 1.0.0", True),
        ("error", "File not found: y", "tool 1.0.1", True),
    ]
    assert first.joined


def test_unfinished_old_tool_call_is_cut_off() -> None:
    transcript = folded(tool("running", at=NOW - 1))
    [use] = transcript.entries
    assert isinstance(use, ToolUse)
    assert (use.state, transcript.activity) == ("cut off", None)


def test_a_call_can_be_hidden_from_the_model() -> None:
    transcript = folded(tool("ok", "x"), record(tags.HIDE, entry="tool 1.0.0", hidden=True))
    assert transcript.entries[0].removed == "hidden"


def test_loaded_skill_is_noted() -> None:
    loaded: dict[str, Any] = {"name": "tidy", "chars": 1_200, "budget": 60_000}
    transcript = folded(
        record(tags.SKILL, loaded=True, **loaded), record(tags.SKILL, loaded=False, **loaded)
    )
    assert outline(transcript) == [
        ("note", "the skill tidy is loaded (1,200 characters)"),
        ("note", "the skill tidy is no longer loaded"),
    ]


def test_attachments_appear_under_their_question() -> None:
    transcript = Transcript(0.0)
    transcript.fold([record(tags.USER_CHAT, "see @a.txt", turn=1)])
    transcript.pop_changed()
    transcript.fold(
        [record(tags.USER_ATTACHMENT, "abc", turn=1, label="@a.txt", size="3 B", problem="")]
    )
    assert list(transcript.pop_changed()) == [0]
    transcript.fold(
        [record(tags.USER_ATTACHMENT, "abc", turn=7, label="@b.txt", size="3 B", problem="")]
    )
    [question] = transcript.entries
    assert isinstance(question, Question)
    assert question.attached == [AttachmentChip("@a.txt", "3 B", "")]
