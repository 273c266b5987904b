"""The tree and the spans that are read from the log of a search."""

from __future__ import annotations

from typing import Any

import pytest

from mahtab_tui.worker.rlm.call_tree import build_tree
from mahtab_tui.worker.rlm.search_log import Span

BEGIN = {
    "tag": "rlm-call",
    "text": "how many?",
    "attrs": {
        "event": "begin",
        "node": "1",
        "kind": "rlm",
        "model": "m",
        "chars": 9,
        "parent": None,
    },
}


def chat(text: str, **attributes: Any) -> dict[str, Any]:
    """Return the event of a model's answer in the first call."""
    return {"tag": "rlm-chat", "text": text, "attrs": {"node": "1", **attributes}}


@pytest.mark.parametrize("attributes", [{}, {"turn": None}, {"turn": 0}, {"turn": -1}])
def test_answers_outside_turns_change_no_turn(attributes: dict[str, Any]) -> None:
    outside = chat("elsewhere", **attributes)
    tree = build_tree([BEGIN, outside, chat("one", turn=1), chat("two", turn=2), outside])
    assert tree is not None
    assert [turn.words for turn in tree.turns] == ["one", "two"]


def test_spans_of_different_texts_differ() -> None:
    spans = [Span(0, 4, "mails"), Span(0, 4, "notes"), Span(0, 4), Span(0, 5, "mails")]
    assert len(set(spans)) == len(spans)
    for position, span in enumerate(spans):
        assert [other == span for other in spans].index(True) == position
        assert [other != span for other in spans].index(False) == position
        assert span == Span(*span, span.context)


@pytest.mark.parametrize("context", ["", "mails"])
def test_a_span_equals_its_start_and_end(context: str) -> None:
    span = Span(3, 9, context)
    assert span == (3, 9)
    assert span != (3, 8)
    assert span != "3-9"
    assert {(3, 9): "part"}[span] == "part"
