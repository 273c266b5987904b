"""What an editor and the program say to each other, as it was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from acp import schema

from tests.acp.traffic import play, recorded
from tests.warm import piped


def test_program_says_what_was_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHTAB_MODEL", "demo")
    lines = recorded()
    with piped("acp") as program:
        assert play(program, lines) == lines


def test_recorded_messages_are_those_of_the_protocol() -> None:
    updates = [
        line.message["params"]
        for line in recorded()
        if line.message.get("method") == "session/update"
    ]
    assert len(updates) > 50
    for params in updates:
        schema.SessionNotification.model_validate(params)
