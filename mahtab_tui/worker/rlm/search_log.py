"""The log of a search, packed into little memory, and the tree of calls that is built from it.

A log is a list of events in the order in which they happened. An event is a record of the bus as plain
data, with the keys `tag`, `text`, `time` and `attrs`; `mahtab_tui/bus/records/searches.py` has the
attributes of each tag.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext

_TURN_FIELDS = {"rlm-chat": "words", "rlm-repl-in": "code", "rlm-repl-out": "output"}
"""The field of a `CallTurn` that the text of an event becomes, by the tag of the event."""
_MAX_SHORT_CHARS = 60
"""A query or an answer longer than this is cut where it is shown in a line."""
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
    """Convert spans of the whole text to spans of the named texts of which it consists.

    A span over several named texts becomes one for each: if "a" is at 0 to 10 and "b" at 11 to 20, (8, 13)
    becomes Span(8, 10, "a") and Span(0, 2, "b"). What lies between them belongs to none. Without named
    texts, the spans stay as they are.
    """
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
    """One turn of a call: what the model wrote, and the code in it that ran."""

    words: str = ""
    """The model's answer, with its code."""
    code: str = ""
    """Empty if the answer had no code that ran."""
    output: str = ""
    """What the code printed; of a long output, only its start and end."""
    status: str = ""
    """How the code ended: "ok", "error", "final", "timed out" and others; empty if none ended."""


@dataclass
class SearchCall:
    """One call of a search, with its sub-calls. `print` shows them as a tree."""

    id: str
    """The first call is "1", its third sub-call "1.3"."""
    query: str
    kind: str
    """Either "rlm", which explores its text with code, or "llm", which reads it."""
    model: str = ""
    chars: int = 0
    """Length of the text that it reads."""
    state: str = "stopped"
    """"done", "partial", "error" or "stopped". A call whose end is not in the log was stopped."""
    answer: str = ""
    """The answer, or a sentence that says why there is none; empty if the call did not end."""
    spans: tuple[Span, ...] = ()
    """The parts of the text that support the answer."""
    seconds: float = 0.0
    """From the start of the call to its end; 0 if it did not end."""
    model_calls: int = 0
    """Includes the model calls of its sub-calls, as `tokens` and `usd` do."""
    tokens: int = 0
    """Tokens of prompts and of answers."""
    usd: float = 0.0
    """Cost in US dollars; a model call whose price is unknown counts as 0."""
    turns: list[CallTurn] = field(default_factory=list)
    calls: list[SearchCall] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return the call as data for JSON, without its sub-calls and without `spans`, whose `context`
        a list in JSON would lose."""
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
    """Return events as compressed lines of JSON. Two packed logs, one after the other, are the packed
    log of the events of both."""
    lines = [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events]
    return zlib.compress(b"".join(lines), _COMPRESSION_LEVEL)


def unpack_events(data: bytes) -> list[dict[str, Any]]:
    """Return the events of one packed log, or of several that were joined."""
    lines: list[bytes] = []
    while data:
        decompressor = zlib.decompressobj()
        lines += decompressor.decompress(data).splitlines()
        data = decompressor.unused_data  # another packed log
    return [json.loads(line) for line in lines]


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
        """Return the line that an event completes; empty if it completes none. A turn without code
        has no end of its own: the next turn of its call completes its line."""
        attributes = event["attrs"]
        text = _short(event["text"].strip())
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


def _short(text: str) -> str:
    """Return the beginning of a text as one line without control characters; an ellipsis says that it
    goes on."""
    beginning = text[: _MAX_SHORT_CHARS + 1]
    line = "".join(character if character.isprintable() else " " for character in beginning)
    if len(line) <= _MAX_SHORT_CHARS:
        return line
    return line[:_MAX_SHORT_CHARS] + "…"
