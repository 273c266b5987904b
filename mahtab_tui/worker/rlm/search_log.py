"""The log of a search in little memory, and the tree of its calls."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext

_TURN_PARTS = {"rlm-chat": "words", "rlm-repl-in": "code", "rlm-repl-out": "output"}
_MAX_SHORT_CHARS = 60


class Span(tuple[int, int]):
    """Start and end in characters; `context` names what they count in, if there are several."""

    context: str

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

    def __repr__(self) -> str:
        return f"Span({self[0]}, {self[1]}{f', {self.context!r}' if self.context else ''})"

    def __reduce__(self) -> Any:
        return type(self), (self[0], self[1], self.context)


def to_context_spans(
    spans: Iterable[Iterable[int]], contexts: Iterable[NamedContext]
) -> tuple[Span, ...]:
    """Convert spans of the whole text to spans of its contexts."""
    named = list(contexts)
    if not named:
        return tuple(Span(start, end) for start, end in spans)
    context_spans = []
    for start, end in spans:
        for context in named:
            low = max(start, context.start)
            high = min(end, context.end)
            if low < high:
                context_spans.append(Span(low - context.start, high - context.start, context.name))
    return tuple(context_spans)


@dataclass
class CallTurn:
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
        waiting = [self]
        while waiting:
            call = waiting.pop()
            yield call
            waiting += reversed(call.calls)

    def __str__(self) -> str:
        return "\n".join(
            f"{'  ' * call.id.count('.')}{call.id} {call.state}: {_short(call.query)} -> {_short(call.answer)}"
            for call in self
        )

    def __repr__(self) -> str:
        query = _short(self.query)
        return f"<SearchCall {self.id} {self.state}: {query} ({len(self.calls):,} calls)>"


def pack_events(events: Sequence[Mapping[str, object]]) -> bytes:
    return zlib.compress(
        b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events), 1
    )


def unpack_events(data: bytes) -> list[dict[str, Any]]:
    lines = []
    while data:
        decompressor = zlib.decompressobj()
        lines += decompressor.decompress(data).splitlines()
        data = decompressor.unused_data
    return [json.loads(line) for line in lines]


def build_tree(
    events: Sequence[Mapping[str, Any]], contexts: Sequence[NamedContext] = ()
) -> SearchCall | None:
    calls: dict[str, SearchCall] = {}
    above: dict[str, str | None] = {}
    root: SearchCall | None = None
    for event in events:
        about = event["attrs"]
        call = calls.get(about.get("node", ""))
        if about.get("event") == "begin":
            call = calls[about["node"]] = SearchCall(
                about["node"], event["text"], about["kind"], about["model"], about["chars"]
            )
            parent = above[call.id] = about["parent"]
            if parent is None:
                root = call
            elif parent in calls:
                calls[parent].calls.append(call)
        elif call is None:
            continue
        elif event["tag"] == "rlm-final":
            call.answer = event["text"]
            call.state = about["state"]
            call.seconds = about["duration"]
            call.spans = to_context_spans(about["spans"], contexts)
        elif event["tag"] == "usage":
            name: str | None = call.id
            while name is not None and name in calls:  # this call and those above it
                calls[name].model_calls += 1
                calls[name].tokens += about.get("input_tokens", 0) + about.get("output_tokens", 0)
                calls[name].usd += about.get("cost") or 0.0
                name = above[name]
        elif event["tag"] in _TURN_PARTS:
            number = about.get("turn") or 0
            call.turns += [CallTurn() for _ in range(number - len(call.turns))]
            turn = call.turns[number - 1]
            setattr(turn, _TURN_PARTS[event["tag"]], event["text"])
            turn.status = about.get("status", turn.status)
    return root


class TurnLines:
    """Describes the turns and the answers of a search, a line for each."""

    def __init__(self) -> None:
        self._answers: dict[str, str] = {}

    def describe(self, event: Mapping[str, Any]) -> str:
        about = event["attrs"]
        text = _short(event["text"].strip())
        node = about.get("node", "")
        tag = event["tag"]
        if tag == "rlm-chat" or tag == "rlm-repl-in":
            self._answers[node] = text
        elif tag == "rlm-repl-out":
            turn = f"{node} turn {about['turn']}"
            code = self._answers.pop(node, "")
            return f"{turn}: {code} -> {about['status']}: {text}".rstrip() + "\n"
        elif tag == "rlm-final":
            self._answers.pop(node, None)
            return f"{node} {about['state']} after {about['duration']:,.1f} s: {text}\n"
        elif about.get("event") == "turn" and node in self._answers:
            return f"{node} turn {about['turn'] - 1}, no code: {self._answers.pop(node)}\n"
        return ""


def _short(text: str) -> str:
    line = "".join(
        character if character.isprintable() else " " for character in text[: _MAX_SHORT_CHARS + 1]
    )
    if len(line) <= _MAX_SHORT_CHARS:
        return line
    return line[:_MAX_SHORT_CHARS] + "…"
