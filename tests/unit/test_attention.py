"""What calls the person back to a window that they look away from."""

from __future__ import annotations

from typing import Any

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.attention import LONG, Attention, notification
from tests.records import made


def record(tag: str, **attrs: Any) -> Record:
    return made(tag, "", attrs, 0.0)


WORTH_IT = [
    (record(tags.USER_REPL_OUT, cell=3, duration=LONG), "Cell 3 ended after 10 s"),
    (record(tags.ASSISTANT_REPL_OUT, cell=4, duration=75.4), "Cell 4 ended after 75 s"),
    (record(tags.APPROVAL, state="waiting"), "Code waits for your approval"),
    (record(tags.REVIEW, cells=[4], state="waiting"), "Changes wait until you keep or undo them"),
    (record(tags.RLM_CALL, event="fan-out", node="1", state="waiting"), "A search asks before it makes many calls"),
]
NOT_WORTH_IT = [
    record(tags.USER_REPL_OUT, cell=3, duration=LONG - 0.1),
    record(tags.USER_REPL_OUT, cell=3, duration=None, cut=True),
    record(tags.USER_REPL_OUT, cell=3, late=True),
    record(tags.APPROVAL, state="run"),
    record(tags.REVIEW, cells=[4], state="kept"),
    record(tags.RLM_CALL, event="begin", node="1"),
]


@pytest.mark.parametrize(("what", "said"), WORTH_IT)
def test_what_is_worth_a_call_is_called_once_and_only_while_the_window_has_not_the_focus(what: Record, said: str) -> None:
    calls: list[str] = []
    focused = True
    attention = Attention(calls.append, lambda: focused)
    attention.fold([what])
    assert calls == []
    focused = False
    attention.fold([*NOT_WORTH_IT, what])
    assert calls == [said]


@pytest.mark.parametrize(
    ("name", "value", "sequence"),
    [("TERM_PROGRAM", "WezTerm", "\x1b]9;x\x07"), ("KITTY_WINDOW_ID", "1", "\x1b]99;;x\x1b\\"), ("TERM_PROGRAM", "Apple_Terminal", "")],
)
def test_a_notification_is_sent_where_the_terminal_is_known_to_have_one(
    name: str, value: str, sequence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERM_PROGRAM", raising=False)
    monkeypatch.delenv("KITTY_WINDOW_ID", raising=False)
    monkeypatch.setenv(name, value)
    assert notification("x") == sequence
