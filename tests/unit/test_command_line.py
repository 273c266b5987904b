"""What a command prints: text, colours and styles, whoever has written it."""

from __future__ import annotations

import io
import re
import sys
from io import BytesIO, TextIOWrapper

import pytest

from mahtab_tui.command_line import guard_terminal
from tests.hostile import HOSTILE


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> BytesIO:
    """What arrives at the terminal of a command."""
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(written, "utf-8"))
    guard_terminal()
    return written


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_drives_the_terminal(stderr: BytesIO, text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    shown = re.sub(r"\x1b\[[\d;]*m", "", stderr.getvalue().decode())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)


def test_what_commands_draw_themselves_passes(stderr: BytesIO) -> None:
    drawn = "\r\x1b[K3 nodes \x1b[1;38;5;9mbold\x1b[0m\n"
    sys.stderr.write(drawn)
    sys.stderr.flush()
    assert stderr.getvalue().decode() == drawn
