"""Builds the tree of calls of a search from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .search_log import CallTurn, SearchCall, to_context_spans

if TYPE_CHECKING:
    from .contexts import NamedContext

_TURN_FIELDS = {"rlm-chat": "words", "rlm-repl-in": "code", "rlm-repl-out": "output"}
"""The field of a `CallTurn` that the text of an event becomes, by the tag of the event."""


def build_tree(
    events: Sequence[Mapping[str, Any]], contexts: Sequence[NamedContext] = ()
) -> SearchCall | None:
    """Return the first call of a search, with all others below it.

    Args:
        events: The events of the search.
        contexts: The texts that were searched, if they have names.

    Returns:
        The call without a parent; None if the search ended before its first call.
    """
    builder = _TreeBuilder(contexts)
    for event in events:
        builder.add(event)
    return builder.root


class _TreeBuilder:
    """Builds the tree of calls from the events of a search, one after the other."""

    def __init__(self, contexts: Sequence[NamedContext]) -> None:
        """Begin without calls.

        Args:
            contexts: The texts that were searched, if they have names.
        """
        self.root: SearchCall | None = None
        """The call without a parent; None as long as it has not begun."""
        self._contexts = contexts
        self._calls: dict[str, SearchCall] = {}
        """The calls that have begun, by their ids."""
        self._parent_ids: dict[str, str | None] = {}
        """The ids of the calls that made them, by their ids; None for the first call."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Write what an event says into its call, and the usage also into the calls above it. Events of
        calls that have not begun are left out."""
        attributes = event["attrs"]
        if attributes.get("event") == "begin":
            self._add_call(event["text"], attributes)
            return
        call = self._calls.get(attributes.get("node", ""))
        if call is None:
            return
        if event["tag"] == "rlm-final":
            call.answer = event["text"]
            call.state = attributes["state"]
            call.seconds = attributes["duration"]
            call.spans = to_context_spans(attributes["spans"], self._contexts)
        elif event["tag"] == "usage":
            self._add_usage(call, attributes)
        elif event["tag"] in _TURN_FIELDS:
            _add_to_turn(call, event)

    def _add_call(self, query: str, attributes: Mapping[str, Any]) -> None:
        """Add a call that begins to the sub-calls of its parent, or as the root."""
        call = SearchCall(
            attributes["node"],
            query,
            attributes["kind"],
            attributes["model"],
            attributes["chars"],
        )
        parent_id = attributes["parent"]
        self._calls[call.id] = call
        self._parent_ids[call.id] = parent_id
        if parent_id is None:
            self.root = call
        elif parent_id in self._calls:
            self._calls[parent_id].calls.append(call)

    def _add_usage(self, call: SearchCall, attributes: Mapping[str, Any]) -> None:
        """Count a model call in the call that made it and in those above it."""
        tokens = attributes.get("input_tokens", 0) + attributes.get("output_tokens", 0)
        call_id: str | None = call.id
        while call_id is not None and call_id in self._calls:
            counted_call = self._calls[call_id]
            counted_call.model_calls += 1
            counted_call.tokens += tokens
            counted_call.usd += attributes.get("cost") or 0.0
            call_id = self._parent_ids[call_id]


def _add_to_turn(call: SearchCall, event: Mapping[str, Any]) -> None:
    """Write the words, the code or the output of a turn into the call. Events without the number of a
    turn, which counts from 1, are left out."""
    attributes = event["attrs"]
    number = attributes.get("turn") or 0
    if number < 1:
        return
    while len(call.turns) < number:
        call.turns.append(CallTurn())
    turn = call.turns[number - 1]
    setattr(turn, _TURN_FIELDS[event["tag"]], event["text"])
    turn.status = attributes.get("status", turn.status)
