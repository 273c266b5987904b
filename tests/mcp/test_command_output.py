"""What an agent is told while commands run."""

from __future__ import annotations

import asyncio

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.mcp.command_output import MAX_PROGRESS_CHARS, CommandOutput

SECRET = "correct-horse-battery-staple"


def reported(*pieces: str) -> list[str]:
    """Return what is reported of output that comes in pieces."""
    secrets = Secrets()
    secrets.add(SECRET)
    sentences: list[str] = []

    async def report(seconds: float, sentence: str) -> None:
        sentences.append(sentence)

    async def add_all() -> None:
        output = CommandOutput(report, secrets)
        for piece in pieces:
            await output.add(piece)

    asyncio.run(add_all())
    return sentences


def test_whole_lines_are_reported_as_they_come() -> None:
    assert reported("$ pip\nColl", "ecting numpy\n", "Done") == ["$ pip", "Collecting numpy"]


@pytest.mark.parametrize("line_end", ["\n", "x\n"])
def test_a_secret_is_masked_wherever_the_report_is_cut(line_end: str) -> None:
    rest = "." * (MAX_PROGRESS_CHARS - len(SECRET) // 2)
    pieces = [SECRET + rest, line_end]
    assert len(reported(*pieces)) == 1
    assert SECRET[-8:] not in reported(*pieces)[0]
