"""The log of a search, packed into little memory, and what is read in it: calls, their turns, and spans of text.

A log is a list of events in the order in which they happened. An event is a record of the bus as plain data, with
the keys `tag`, `text`, `time` and `attrs`; `mahtab_tui/bus/records/searches.py` has the attributes of each tag.
`call_tree` builds the tree of calls from it, and `turn_lines` a line for each turn.

Saved pickles name the classes of this module.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext

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
        """Where it begins, in characters."""
        return self[0]

    @property
    def end(self) -> int:
        """Where it ends; the character there is not a part of it."""
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
    becomes Span(8, 10, "a") and Span(0, 2, "b"). What lies between them belongs to none.

    Args:
        spans: Starts and ends in the whole text.
        contexts: The named texts; without any, the spans stay as they are.
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
        return (
            f"{indent}{self.id} {self.state}: {short_line(self.query)} -> {short_line(self.answer)}"
        )

    def __repr__(self) -> str:
        query = short_line(self.query)
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


def short_line(text: str) -> str:
    """Return the beginning of a text as one line without control characters; an ellipsis says that it
    goes on."""
    beginning = text[: _MAX_SHORT_CHARS + 1]
    line = "".join(character if character.isprintable() else " " for character in beginning)
    if len(line) <= _MAX_SHORT_CHARS:
        return line
    return line[:_MAX_SHORT_CHARS] + "…"
