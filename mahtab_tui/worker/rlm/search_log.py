"""The log of a search in little memory, and the tree of its calls."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext

_TURN_FIELDS = {"rlm-chat": "words", "rlm-repl-in": "code", "rlm-repl-out": "output"}
"""The fields of a `CallTurn`, by the tags of events."""
_MAX_SHORT_CHARS = 60
"""Characters of a query or an answer in a line."""
_COMPRESSION_LEVEL = 1
"""The level of zlib: a low one, because logs are packed while a search waits."""


class Span(tuple[int, int]):
    """A part of a text that was searched: its start and end in characters, end exclusive.

    It equals the pair of its start and end, so that code for pairs works; but spans of different
    texts differ.
    """

    context: str
    """The name of the text; empty if only one text was searched."""

    def __new__(cls, start: int, end: int, context: str = "") -> Span:
        span = super().__new__(cls, (start, end))
        span.context = context
        return span

    @property
    def start(self) -> int:
        return self[0]

    @property
    def end(self) -> int:
        return self[1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Span) and self.context != other.context:
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of tuples ignores the context

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        context = f", {self.context!r}" if self.context else ""
        return f"Span({self[0]}, {self[1]}{context})"

    def __reduce__(self) -> Any:
        return type(self), (self[0], self[1], self.context)


def to_context_spans(
    spans: Iterable[Iterable[int]], contexts: Iterable[NamedContext]
) -> tuple[Span, ...]:
    """Convert spans of the whole text to spans of its contexts; one over several contexts becomes
    several."""
    named_contexts = list(contexts)
    if not named_contexts:
        return tuple(Span(start, end) for start, end in spans)
    context_spans = []
    for start, end in spans:
        for context in named_contexts:
            inner_start = max(start, context.start) - context.start
            inner_end = min(end, context.end) - context.start
            if inner_start < inner_end:
                context_spans.append(Span(inner_start, inner_end, context.name))
    return tuple(context_spans)


@dataclass
class CallTurn:
    """One run of code of a call, and what the model wrote before it."""

    words: str = ""
    code: str = ""
    output: str = ""
    """Only both ends of a long output."""
    status: str = ""
    """How the code ended: "ok", "error", "final", "timed out" and others."""


@dataclass
class SearchCall:
    """One call of a search, with its sub-calls. `print` shows them as a tree."""

    id: str
    query: str
    kind: str
    """Either "rlm", which explores its text with code, or "llm", which reads it."""
    model: str = ""
    chars: int = 0
    """Length of its text."""
    state: str = "stopped"
    """"done", "partial", "error" or "stopped"."""
    answer: str = ""
    """The answer, or a sentence that says why there is none."""
    spans: tuple[Span, ...] = ()
    """The parts of the text that support the answer."""
    seconds: float = 0.0
    model_calls: int = 0
    """Including sub-calls, like tokens and dollars."""
    tokens: int = 0
    usd: float = 0.0
    turns: list[CallTurn] = field(default_factory=list)
    calls: list[SearchCall] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return the call as plain data, without its sub-calls."""
        data = {name: value for name, value in vars(self).items() if name not in ("calls", "spans")}
        return {**data, "turns": [dict(vars(turn)) for turn in self.turns]}

    def __iter__(self) -> Iterator[SearchCall]:
        """Iterate over this call and all below it, parents first."""
        pending = [self]
        while pending:
            call = pending.pop()
            yield call
            pending += reversed(call.calls)

    def __str__(self) -> str:
        return "\n".join(call._tree_line() for call in self)

    def _tree_line(self) -> str:
        indent = "  " * self.id.count(".")
        return f"{indent}{self.id} {self.state}: {_short(self.query)} -> {_short(self.answer)}"

    def __repr__(self) -> str:
        query = _short(self.query)
        return f"<SearchCall {self.id} {self.state}: {query} ({len(self.calls):,} calls)>"


def pack_events(events: Sequence[Mapping[str, object]]) -> bytes:
    """Return events as compressed JSON lines. Packed logs may be joined."""
    lines = [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events]
    return zlib.compress(b"".join(lines), _COMPRESSION_LEVEL)


def unpack_events(data: bytes) -> list[dict[str, Any]]:
    """Return the events of packed logs."""
    lines: list[bytes] = []
    while data:
        decompressor = zlib.decompressobj()
        lines += decompressor.decompress(data).splitlines()
        data = decompressor.unused_data
    return [json.loads(line) for line in lines]


def build_tree(
    events: Sequence[Mapping[str, Any]], contexts: Sequence[NamedContext] = ()
) -> SearchCall | None:
    """Return the first call of a search, with all others below it.

    Args:
        events: The events of the search.
        contexts: The texts that were searched, if they have names.

    Returns:
        None if the search ended before its first call.
    """
    tree = _TreeBuilder(contexts)
    for event in events:
        tree.add(event)
    return tree.root


class _TreeBuilder:
    """Folds the events of a search to its calls."""

    def __init__(self, contexts: Sequence[NamedContext]) -> None:
        self.root: SearchCall | None = None
        self._contexts = contexts
        self._calls: dict[str, SearchCall] = {}
        self._parent_ids: dict[str, str | None] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Note what an event says of its call, or of the usage of the calls above it."""
        attributes = event["attrs"]
        if attributes.get("event") == "begin":
            self._begin(event["text"], attributes)
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

    def _begin(self, query: str, attributes: Mapping[str, Any]) -> None:
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
        """Count a model call for a call of the search and for those above it."""
        tokens = attributes.get("input_tokens", 0) + attributes.get("output_tokens", 0)
        call_id: str | None = call.id
        while call_id is not None and call_id in self._calls:
            counted_call = self._calls[call_id]
            counted_call.model_calls += 1
            counted_call.tokens += tokens
            counted_call.usd += attributes.get("cost") or 0.0
            call_id = self._parent_ids[call_id]


def _add_to_turn(call: SearchCall, event: Mapping[str, Any]) -> None:
    """Note the words, the code or the output of a turn. Events without a number of a turn, which
    counts from 1, are left out."""
    attributes = event["attrs"]
    number = attributes.get("turn") or 0
    if number < 1:
        return
    while len(call.turns) < number:
        call.turns.append(CallTurn())
    turn = call.turns[number - 1]
    setattr(turn, _TURN_FIELDS[event["tag"]], event["text"])
    turn.status = attributes.get("status", turn.status)


class TurnLines:
    """Describes the turns and the answers of a search, a line for each."""

    def __init__(self) -> None:
        self._last_texts: dict[str, str] = {}
        """What the model of each call wrote last, or its code."""

    def describe(self, event: Mapping[str, Any]) -> str:
        """Return the line that an event completes; empty if it completes none."""
        attributes = event["attrs"]
        text = _short(event["text"].strip())
        node = attributes.get("node", "")
        tag = event["tag"]
        if tag in ("rlm-chat", "rlm-repl-in"):
            self._last_texts[node] = text
        elif tag == "rlm-repl-out":
            code = self._last_texts.pop(node, "")
            line = f"{node} turn {attributes['turn']}: {code} -> {attributes['status']}: {text}"
            return line.rstrip() + "\n"
        elif tag == "rlm-final":
            self._last_texts.pop(node, None)
            return f"{node} {attributes['state']} after {attributes['duration']:,.1f} s: {text}\n"
        elif attributes.get("event") == "turn" and node in self._last_texts:
            words = self._last_texts.pop(node)
            return f"{node} turn {attributes['turn'] - 1}, no code: {words}\n"
        return ""


def _short(text: str) -> str:
    """Return the beginning of a text in one line."""
    beginning = text[: _MAX_SHORT_CHARS + 1]
    line = "".join(character if character.isprintable() else " " for character in beginning)
    if len(line) <= _MAX_SHORT_CHARS:
        return line
    return line[:_MAX_SHORT_CHARS] + "…"
