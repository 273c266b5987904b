"""Describes what happens in a search, line by line: for `verbose`, and for those who follow a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .search_log import short_line


class TurnLines:
    """Describes the turns and the answers of a search, a line for each.

    It must get all events of the search in their order. Some lines, which end with a newline:

        1 turn 1: print(len(context)) -> ok: 91204
        1 turn 2, no code: I need to see the first page.
        1 done after 8.1 s: 42
    """

    def __init__(self) -> None:
        self._last_texts: dict[str, str] = {}
        """By the id of the call: the code of the present turn, or what the model wrote if no code
        has run yet; shortened."""

    def describe(self, event: Mapping[str, Any]) -> str:
        """Return the line that an event completes; empty if it completes none.

        A turn without code has no end of its own: the next turn of its call completes its line.

        Args:
            event: The next event of the search.
        """
        attributes = event["attrs"]
        text = short_line(event["text"].strip())
        call_id = attributes.get("node", "")
        tag = event["tag"]
        if tag in ("rlm-chat", "rlm-repl-in"):
            self._last_texts[call_id] = text
        elif tag == "rlm-repl-out":
            code = self._last_texts.pop(call_id, "")
            line = f"{call_id} turn {attributes['turn']}: {code} -> {attributes['status']}: {text}"
            return line.rstrip() + "\n"
        elif tag == "rlm-final":
            self._last_texts.pop(call_id, None)
            end = f"{attributes['state']} after {attributes['duration']:,.1f} s"
            return f"{call_id} {end}: {text}\n"
        elif attributes.get("event") == "turn" and call_id in self._last_texts:
            words = self._last_texts.pop(call_id)
            return f"{call_id} turn {attributes['turn'] - 1}, no code: {words}\n"
        return ""
