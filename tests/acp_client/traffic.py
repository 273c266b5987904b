"""Conversations with agents, as they were recorded: the messages, and the entries that the screen
has shown.

``python -m tests.acp_client.traffic`` records those with the agent of `outside_agent.py` again, and
``python -m tests.acp_client.traffic example PROGRAM …`` those with another one."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mahtab_tui.bus.conversation import Conversation
from tests import tags
from tests.acp_client.conftest import END_STATES, ROOT, Answering
from tests.waiting import wait_for

FOLDER = Path(__file__).with_name("traffic")
SERVERS = ROOT / "tests" / "servers"
_SOCKET = re.compile(r'(?<="--attach", )"[^"]*"')
QUESTIONS = {
    "outside": (
        "think It may be a plum.",
        "plan look,answer",
        "rename ls -l",
        "write notes.txt",
        "say It is *a plum*,\\nand no quince.",
        "refuse",
        "fail The service is busy.",
    ),
    "example": ("Hello?", "What is a plum?"),
}
"""What each agent is asked."""


def recording(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def recorded(name: str, sender: str) -> list[Any]:
    """Return the messages of a sender, or the entries (sender "screen")."""
    lines = map(json.loads, recording(name).read_text().splitlines())
    return [line["message"] for line in lines if line["sender"] == sender]


def converse(it: Answering, questions: Sequence[str]) -> list[Any]:
    """Ask, allow what the agent asks about, and return the entries: what each is, and its text."""
    for question in questions:
        turn = it.begin_question(question)
        wait_for(partial(_asks_or_has_ended, it, turn))
        for request in list(it.session.approvals.waiting):
            it.decide("run", request)
        it.wait_end(turn)
    conversation = Conversation()
    conversation.fold(it.store.records)
    return [[type(entry).__name__, entry.plain_text] for entry in conversation.entries]


def _asks_or_has_ended(it: Answering, turn: int) -> bool:
    if it.session.approvals.waiting:
        return True
    states = [record.state for record in it.store.of(tags.AGENT, turn=turn)]
    return any(state in END_STATES for state in states)


def main() -> None:
    """Record a conversation."""
    name, *command = sys.argv[1:] or ("outside", sys.executable, str(SERVERS / "outside_agent.py"))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        os.chdir(folder)
        os.environ["HOME"] = home
        file = Path(home, "messages")
        recorder = [sys.executable, str(SERVERS / "recording_agent.py"), str(file), *command]
        it = Answering.begin(recorder, [], {}, approval="ask")
        entries = converse(it, QUESTIONS[name])
        it.session.close()
        messages = _SOCKET.sub('"SOCKET"', file.read_text().replace(folder, "FOLDER"))
    lines = [json.dumps({"sender": "screen", "message": entry}) + "\n" for entry in entries]
    recording(name).write_text(messages.replace(sys.executable, "python") + "".join(lines))


if __name__ == "__main__":
    main()
