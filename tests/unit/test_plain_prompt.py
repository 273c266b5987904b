"""What the plain prompt reads, line by line."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mahtab_tui.linear import plain_prompt
from mahtab_tui.linear.line_writer import LineWriter
from mahtab_tui.linear.plain_prompt import PlainPrompt
from mahtab_tui.linear.prompts import TypedInput
from mahtab_tui.session.open_session import SessionInputHelp
from mahtab_tui.store.input_history import History


def test_lines_after_a_change_of_mode_go_through_the_inputs_of_the_new_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path / "history", "", no_trace=True)
    history.add("1 + 1", "python")
    history.add("why?", "ask")
    typed_lines = iter(["`x = (", "1)"])
    offered_inputs: list[list[str]] = []

    @contextmanager
    def note_inputs(earlier_inputs: Sequence[str], *_: object) -> Iterator[None]:
        offered_inputs.append(list(earlier_inputs))
        yield

    monkeypatch.setattr(plain_prompt, "borrowed_readline", note_inputs)
    monkeypatch.setattr(plain_prompt, "_host_input", lambda label: next(typed_lines))
    input_help = SessionInputHelp.__new__(SessionInputHelp)
    prompt = PlainPrompt(input_help, history, LineWriter(io.StringIO(), is_plain=True))
    prompt.mode = "ask"
    assert prompt.read_input(1) == TypedInput("python", "x = (\n1)")
    assert offered_inputs == [["why?"], ["1 + 1"]]
