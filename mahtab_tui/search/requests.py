"""What comes out of a sandbox, checked: whoever wrote it may be hostile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mahtab_tui.kernel.worker.sandbox.names import ANSWER_LIMIT
from mahtab_tui.llm.chunks import encodable
from mahtab_tui.sandbox.base import CallRefused
from mahtab_tui.sandbox.text import Span, Text

MAX_PARTS = 5_000
"""Parts of one fan-out."""
_MAX_QUERY = 100_000
_MAX_MADE = 50_000_000
"""Characters of a part that was made on the way."""
_MAX_SPANS = 1_000


class Request(NamedTuple):
    """A call for sub-nodes."""

    query: str
    parts: tuple[tuple[Span, ...] | str, ...]
    """Each a text, or places of the node's text that are handed on together."""
    plain: bool
    """It asks for a plain call."""
    many: bool
    """It is a fan-out, also where it has one part."""


def read_call(name: str, args: Any, text: Text) -> Request:
    """Check a call. Raises `CallRefused`."""
    if name not in ("rlm", "rlm_map", "llm") or not isinstance(args, Mapping):
        raise CallRefused("There is no such call.")
    query = args.get("query")
    if not isinstance(query, str) or not query.strip():
        raise CallRefused("The query must be a string that says something.")
    if len(query) > _MAX_QUERY:
        raise CallRefused(f"The query has {len(query):,} characters; at most {_MAX_QUERY:,} are allowed. Put the text in the second argument.")
    query = encodable(query)
    if name == "llm":
        part = args.get("part")
        return Request(query, (_part(part, text) if part is not None else "",), plain=True, many=False)
    parts, many = args.get("parts"), args.get("map")
    if not isinstance(parts, list) or not isinstance(many, bool) or (not many and len(parts) != 1):
        raise CallRefused("The parts must be a list of texts.")
    if len(parts) > MAX_PARTS:
        raise CallRefused(f"There are {len(parts):,} parts; at most {MAX_PARTS:,} are allowed at once. Filter by code first, or make larger parts.")
    return Request(query, tuple(_part(part, text) for part in parts), plain=False, many=many)


def read_final(args: Any, text: Text) -> tuple[str, list[Span]] | None:
    """Check an answer; None where it is none."""
    if not isinstance(args, Mapping) or not isinstance(args.get("text"), str) or len(args["text"]) > ANSWER_LIMIT:
        return None
    return encodable(args["text"]), read_spans(args.get("spans"), text)


def read_touch(args: Any, text: Text) -> tuple[str, list[Span]] | None:
    """Check what a node says that it has seen; None where it says nothing."""
    if not isinstance(args, Mapping) or args.get("how") not in ("peek", "grep"):
        return None
    spans = read_spans(args.get("spans"), text)
    return (args["how"], spans) if spans else None


def read_spans(given: Any, text: Text) -> list[Span]:
    """The spans that are some, cut to the text."""
    if not isinstance(given, list):
        return []
    return [span for one in given[:_MAX_SPANS] if (span := _span(one, text)) is not None and span[0] < span[1]]


def _part(given: Any, text: Text) -> tuple[Span, ...] | str:
    if isinstance(given, Mapping):
        made = given.get("text")
        if isinstance(made, str):
            _not_too_long(len(made))
            return made
        if (span := _span(given.get("span"), text)) is not None:
            return (span,)
        spans = given.get("spans")
        if isinstance(spans, list) and 0 < len(spans) <= _MAX_SPANS:
            places = tuple(place for one in spans if (place := _span(one, text)) is not None)
            if len(places) == len(spans):
                _not_too_long(sum(end - start for start, end in places))
                return places
    raise CallRefused("A part must be a text.")


def _not_too_long(chars: int) -> None:
    if chars > _MAX_MADE:
        raise CallRefused(f"A part has {chars:,} characters; at most {_MAX_MADE:,} are allowed where it is not one part of `context`.")


def _span(given: Any, text: Text) -> Span | None:
    if not isinstance(given, (list, tuple)) or len(given) != 2 or any(type(place) is not int for place in given):
        return None
    start, end = given
    return (start, min(end, len(text.text))) if 0 <= start <= end and start <= len(text.text) else None
