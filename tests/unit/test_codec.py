"""Records as JSON and back: what a file or a socket says is checked before anybody relies on it."""

from __future__ import annotations

from typing import Any

import pytest

from mahtab_tui.bus.codec import InvalidRecord, as_json, decode, from_json
from mahtab_tui.bus.records import AnswerFigure, AssistantChat
from tests import tags


@pytest.mark.parametrize(
    ("tag", "attrs"),
    [
        (tags.USER_REPL_IN, {"cell": "1"}),
        (tags.USER_REPL_IN, {"cell": True}),
        (tags.USER_REPL_OUT, {"cell": 1, "kinds": 3}),
        (tags.USER_REPL_OUT, {"cell": 1, "kinds": [["stdout"]]}),
        (tags.USER_REPL_OUT, {"cell": 1, "duration": "long"}),
        (tags.USER_REPL_OUT, {"cell": 1, "frames": [["file", 1]]}),
        (tags.NAMESPACE, {"changes": [{"name": "x"}]}),
        (tags.NAMESPACE, {"changes": ["x"]}),
        (tags.NAMESPACE, {"changes": None}),
        (tags.USER_CHAT, {"turn": []}),
        (tags.USAGE, {"cost": "much"}),
        (tags.USAGE, {"input_tokens": None}),
        (tags.SKILL, {"name": "a", "loaded": True}),
        (tags.DISPLAY, {"cell": 1}),
        (tags.APPROVAL, {"guest": 0, "call": 3}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10"}]}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10", "found": 1}]}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10", "found": True, "cell": "quit()"}]}),
    ],
)
def test_malformed_attributes_are_rejected(tag: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        decode(tag, "text", attrs, 1.0)


@pytest.mark.parametrize(
    ("tag", "attrs"),
    [
        (
            tags.USER_REPL_OUT,
            {
                "cell": 1,
                "kinds": [["stdout", 3]],
                "frames": [["In [1]", 1, "", 0]],
                "duration": 1,
                "new": object(),
            },
        ),
        (
            tags.NAMESPACE,
            {"cell": None, "fresh": True, "changes": [{"name": "x", "change": "added"}]},
        ),
        (tags.APPROVAL, {"guest": 0, "call": "guest-3", "blocks": 1}),
        (tags.USER_ATTACHMENT, {"picture": "a"}),
        (tags.USAGE, {"cost": None, "input_tokens": 3}),
        (tags.NOTICE, {}),
    ],
)
def test_written_records_can_be_read(tag: str, attrs: dict[str, Any]) -> None:
    assert decode(tag, "text", attrs, 1.0) is not None


def test_figures_of_an_answer_round_trip() -> None:
    answer = AssistantChat(
        "8 or 10", turn=1, step=0, figures=(AnswerFigure("8", True, 3), AnswerFigure("10", False))
    )
    written = as_json(answer)
    assert written["attrs"]["figures"] == [
        {"text": "8", "found": True, "cell": 3},
        {"text": "10", "found": False},
    ]
    assert from_json(written) == answer


def test_an_answer_of_an_older_session_has_no_figures() -> None:
    older = decode(
        tags.ASSISTANT_CHAT, "8", {"turn": 1, "step": 0, "party": "m", "stopped": False}, 1.0
    )
    assert isinstance(older, AssistantChat)
    assert older.figures is None
    assert "figures" not in as_json(older)["attrs"]
