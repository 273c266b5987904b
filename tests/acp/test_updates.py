"""What an editor is told about the records of a session."""

from __future__ import annotations

from typing import Any, get_type_hints

import acp
import pytest
from acp import schema

from mahtab_tui.acp.agent import EditorAgent
from mahtab_tui.acp.updates import UpdateWriter
from mahtab_tui.bus import records
from mahtab_tui.bus.values import Change, FileChange
from tests.acp.editor import text_of

PICTURE = "cGljdHVyZQ=="
RECORDS = (
    records.UserReplIn("plot()", cell=1),
    records.UserReplOutStream("before\n", cell=1),
    records.DisplayRecord("", cell=1, mime="image/png", data=PICTURE),
    records.UserReplOutStream("after\n", cell=1),
    records.UserReplOut("before\nafter\n", cell=1, status="ok"),
    records.Namespace(cell=1, changes=(Change("items", "deleted", None),)),
    records.FileChanges("", cell=1, changes=(FileChange("new", "plot.png"),)),
)
"""A cell that prints, shows a picture and changes something."""


def test_picture_of_a_cell_is_sent_once() -> None:
    updates: list[Any] = []
    writer = UpdateWriter(updates.append, cost=lambda: 0.0)
    for record in RECORDS:
        writer.fold(record)
        if not isinstance(record, records.ReplOut | records.Namespace):
            updates += writer.take_progress()
    assert "plot.png" in text_of(updates[-1])
    pictures = [
        item.content.data
        for update in updates
        for item in update.content
        if isinstance(item.content, schema.ImageContentBlock)
    ]
    assert pictures == [PICTURE]


def test_cell_replaces_its_picture_and_clears_its_output() -> None:
    updates: list[Any] = []
    writer = UpdateWriter(updates.append, cost=lambda: 0.0)

    def display(data: str, name: str = "", action: str = "show") -> records.DisplayRecord:
        return records.DisplayRecord(
            "", cell=1, mime="image/png", data=data, name=name, action=action
        )

    for record in (
        records.UserReplIn("plot()", cell=1),
        records.UserReplOutStream("left behind\n", cell=1),
        display("Zmlyc3Q="),
        display("", action="clear"),
        *(display("cHJvZ3Jlc3M=", "bar", action) for action in ("show", *["update"] * 20)),
        display(PICTURE, "bar", "update"),
        display(PICTURE),
    ):
        writer.fold(record)
    assert "left behind" not in text_of(writer.take_progress()[0])
    writer.fold(records.UserReplOut("", cell=1, status="ok"))
    end: Any = writer.take_progress()[0]
    assert [item.content.data for item in end.content[1:]] == [PICTURE, PICTURE]


def test_end_of_a_cell_comes_before_what_follows_it() -> None:
    updates: list[Any] = []
    writer = UpdateWriter(updates.append, cost=lambda: 0.0)
    for record in (*RECORDS, records.AssistantChatStream("next", turn=1, step=0, kind="text")):
        writer.fold(record)
    assert [update.session_update for update in updates] == [
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
    ]
    assert updates[1].status == "completed"
    assert writer.progress_interval_s is None


def test_what_threads_print_later_waits_until_the_editor_has_read() -> None:
    updates: list[Any] = []
    writer = UpdateWriter(updates.append, cost=lambda: 0.0)
    for record in RECORDS:
        writer.fold(record)
    writer.take_progress()
    updates.clear()
    for number in range(100):
        writer.fold(records.UserReplOut(f"late {number}\n", cell=1, status="ok", late=True))
    assert updates == [None]
    (update,) = writer.take_progress()
    assert "late 0\nlate 1\n" in text_of(update)
    assert "late 99\n" in text_of(update)


@pytest.mark.parametrize(
    "method",
    (
        "initialize new_session load_session resume_session fork_session list_sessions"
        " set_config_option prompt"
    ).split(),
)
def test_each_request_is_answered_with_the_response_of_the_protocol(method: str) -> None:
    expected_type = get_type_hints(getattr(acp.Agent, method))["return"]
    response_type = get_type_hints(getattr(EditorAgent, method))["return"]
    # The library lets some methods return nothing.
    assert expected_type in (response_type, response_type | None)
