"""What the prompt takes of what a terminal sends."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from mahtab_tui.linear.keyboard import Keyboard
from mahtab_tui.pictures import terminal_answers
from mahtab_tui.pictures.terminal_answers import TerminalAnswers


class Line(NamedTuple):
    """Both ends of a terminal."""

    keyboard: Keyboard
    terminal: int
    answers: TerminalAnswers

    def send(self, text: str) -> list[Keys | str]:
        """Send what one read gets, and return the keys of it."""
        os.write(self.terminal, text.encode())
        assert select.select([self.keyboard.fileno()], [], [], 60)[0]
        return keys_of(self.keyboard.read_keys())

    def fall_silent(self) -> list[Keys | str]:
        """Return the keys that were held back."""
        return keys_of(self.keyboard.flush_keys())


def keys_of(presses: list[KeyPress]) -> list[Keys | str]:
    return [press.key for press in presses]


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    terminal, descriptor = os.openpty()
    answers = TerminalAnswers()
    with open(descriptor, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        keyboard = Keyboard(answers)
        with keyboard.raw_mode():
            yield Line(keyboard, terminal, answers)
    os.close(terminal)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("\x1b", "_Gi=31;OK\x1b\\"),
        ("\x1b_", "Gi=31;OK\x1b\\"),
        ("\x1b_Gi=31;OK\x1b", "\\"),
        ("\x1b[", "?62;22c"),
        ("\x1b[?6", "2;22c"),
        ("\x1b]", "11;rgb:00/00/00\x07"),
        ("\x1b]11;rgb:00", "/00/00\x07"),
        ("\x1bP", ">|term 1.0\x1b\\"),
    ],
)
def test_awaited_answer_in_two_pieces_is_no_key(line: Line, start: str, end: str) -> None:
    line.answers.ask()
    assert line.send(start) == []
    assert line.send(end) == []
    assert line.fall_silent() == []


def test_keys_that_look_like_an_answer_come_when_nothing_follows(line: Line) -> None:
    line.answers.ask()
    assert line.send("\x1bP3") == []
    assert line.fall_silent() == [Keys.Escape, "P", "3"]


def test_beginning_of_an_answer_is_kept_from_the_keys_for_two_seconds(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_answers, "ANSWER_TIMEOUT_S", 600.0)
    line.answers.ask()
    assert line.send("\x1b_Gi=31;O") == []
    assert line.fall_silent() == []
    assert line.send("K\x1b\\") == []
    monkeypatch.setattr(terminal_answers, "ANSWER_TIMEOUT_S", 0.0)
    line.answers.ask()
    assert line.send("\x1b]1") == [Keys.Escape, "]", "1"]


def test_control_characters_are_never_held_back(line: Line) -> None:
    line.answers.ask()
    assert line.send("\x1bP3") == []
    assert line.send("x\x03") == [Keys.Escape, "P", "3", "x", Keys.ControlC]
    assert line.send("\x1b]1\x04") == [Keys.Escape, "]", "1", Keys.ControlD]


def test_nothing_is_held_back_unless_answers_are_awaited(line: Line) -> None:
    assert line.send("\x1bP3") == [Keys.Escape, "P", "3"]
    assert line.send("\x1b[?62;22c") == []
