"""Output of a command: text, colours and styles, whoever has written it."""

from __future__ import annotations

import io
import re
import sys
from io import BytesIO, TextIOWrapper

import pytest

from mahtab_tui.cli.options import guard_terminal
from tests.hostile import HOSTILE


def printed(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Return the bytes at the terminal of a command that prints a text."""
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(written, "utf-8"))
    guard_terminal()
    print(text, file=sys.stderr, flush=True)
    return written.getvalue().decode()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_drive_the_terminal(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[\d;]*m", "", printed(monkeypatch, text))
    )


def test_terminal_codes_of_commands_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = "\r\x1b[K3 nodes \x1b[1;38;5;9mbold\x1b[0m"
    assert printed(monkeypatch, drawn) == f"{drawn}\n"
