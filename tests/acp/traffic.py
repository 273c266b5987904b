"""The messages of an editor and of the program, as they were recorded.

``python -m tests.acp.traffic`` records them again, in a folder of its own: the editor's messages
are those of the file."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.warm import Piped, piped

FILE = Path(__file__).with_name("traffic.jsonl")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
_VERSION = re.compile(r'(?<="version": )"[^"]*"')
_SESSION_ID = re.compile(r'(?<="sessionId": )"(\w{8,})"')


class Line(NamedTuple):
    """A message."""

    sender: Literal["editor", "program"]
    message: dict[str, Any]


def recorded() -> list[Line]:
    """Return the messages of the file."""
    return [Line(**json.loads(line)) for line in FILE.read_text().splitlines()]


def play(program: Piped, lines: list[Line]) -> list[Line]:
    """Send the editor's messages, each when its turn has come, and return all messages.

    Args:
        program: Was started just now.
        lines: Recorded messages; those of the program are ignored.
    """
    session_ids: list[str] = []
    to_send = (line.message for line in lines if line.sender == "editor")
    played: list[Line] = []
    for request in to_send:
        _send(program, request, session_ids, played)
        for message in _received(program):
            played.append(Line("program", message))
            result = message.get("result") or {}
            if "sessionId" in result:
                session_ids.append(result["sessionId"])
            if message.get("id") == request["id"] and "method" not in message:
                break
            if "method" in message and "id" in message:
                # The program asks, and the file has the user's answer.
                answer = next(to_send)
                assert answer["id"] == message["id"]
                _send(program, answer, session_ids, played)
    return normalized(played, session_ids)


def _send(
    program: Piped, message: dict[str, Any], session_ids: list[str], played: list[Line]
) -> None:
    """Send a recorded message with the folder and the sessions of this run."""
    text = json.dumps(message).replace("FOLDER", os.getcwd())
    for number, session_id in enumerate(session_ids):
        text = text.replace(f"SESSION-{number}", session_id)
    program.stdin.write(f"{text}\n")
    program.stdin.flush()
    played.append(Line("editor", json.loads(text)))


def _received(program: Piped) -> Iterator[dict[str, Any]]:
    while line := program.stdout.readline():
        yield json.loads(line)
    raise AssertionError("the program has ended")


def normalized(lines: list[Line], session_ids: list[str]) -> list[Line]:
    """Return messages without what differs from run to run, and without those that come at any
    time."""
    return [
        Line(line.sender, _normalized(line.message, session_ids))
        for line in lines
        if not _comes_at_any_time(line.message)
    ]


def _comes_at_any_time(message: dict[str, Any]) -> bool:
    """Return whether a message has the commands or the options, or shows a cell that has not ended."""
    update = message.get("params", {}).get("update", {})
    kind = update.get("sessionUpdate")
    is_progress = kind == "tool_call_update" and update["status"] in ("pending", "in_progress")
    return is_progress or kind in ("available_commands_update", "config_option_update")


def _normalized(message: dict[str, Any], session_ids: list[str]) -> dict[str, Any]:
    text = json.dumps(message).replace(os.getcwd(), "FOLDER")
    for number, session_id in enumerate(session_ids):
        text = text.replace(session_id, f"SESSION-{number}")
    text = _VERSION.sub('"VERSION"', _TIME.sub("TIME", text))
    normal = json.loads(text)
    result = normal.get("result") or {}
    for option in result.get("configOptions") or ():
        if option["id"] == "model":
            # What is installed on this machine.
            option["options"] = []
    return dict(normal)


def main() -> None:
    """Record the program's messages again."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        os.environ["MAHTAB_MODEL"] = "demo"
        with piped("acp") as program:
            lines = play(program, recorded())
    FILE.write_text("".join(f"{json.dumps(line._asdict())}\n" for line in lines))


if __name__ == "__main__":
    main()
