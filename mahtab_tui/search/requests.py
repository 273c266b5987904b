"""Checks messages of sandboxes, which may be forged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mahtab_tui.llm.base import make_encodable
from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.sandbox.searched_text import SearchedText, TextRun, TextSpan
from mahtab_tui.search.search_tools import check_plain_data
from mahtab_tui.search.sub_answers import is_quoted
from mahtab_tui.worker.sandbox.answer_values import named_lines
from mahtab_tui.worker.sandbox.line_search import find_line

MAX_PARTS = 5_000
"""Parts of one fan-out."""
_MAX_QUERY_CHARS = 100_000
"""Characters of one query."""
_MAX_PART_CHARS = 50_000_000
"""Characters of one part that code has made, or put together from several spans."""
_MAX_SPANS = 1_000
"""Spans of one part, or of an answer."""

Spans = tuple[TextSpan, ...]
"""Places in a text."""


class Request(NamedTuple):
    """Sub-calls that a node's code asks for."""

    queries: tuple[str, ...]
    parts: tuple[Spans | SearchedText, ...]
    """Each is a text that code has made, or spans of the node's text."""
    known_spans: tuple[Spans, ...]
    """For each part, the spans of the node's text that are known to be in it."""
    must_read_at_once: bool
    """Whether each part is read by one call of a model, without code."""
    is_fan_out: bool
    """Whether the code asks about a list of parts, perhaps of only one."""


def read_call(name: str, args: object, text: SearchedText) -> Request:
    """Check a request for sub-calls. Raises `CallRefusedError`."""
    if name not in ("rlm", "llm") or not isinstance(args, Mapping):
        raise CallRefusedError("There is no such call.")
    query = args.get("query")
    parts = args.get("parts")
    is_fan_out = args.get("map")
    if not isinstance(parts, list):
        raise CallRefusedError("The parts must be a list.")
    if not isinstance(is_fan_out, bool):
        raise CallRefusedError("`map` must be True or False.")
    if not is_fan_out and len(parts) != 1:
        raise CallRefusedError(
            f"There are {len(parts):,} parts; a call that is not a fan-out has one."
        )
    if len(parts) > MAX_PARTS:
        raise CallRefusedError(
            f"There are {len(parts):,} parts; at most {MAX_PARTS:,} are allowed at once. Filter by code first, or make larger parts."
        )

    if name == "llm" and is_fan_out and isinstance(query, list):
        if len(query) != len(parts):
            raise CallRefusedError("There must be one query for each part.")
        queries = tuple(map(_read_query, query))
    else:
        queries = (_read_query(query),) * len(parts)

    checked_parts = [_read_part(part, text) for part in parts]
    return Request(
        queries,
        parts=tuple(checked.part for checked in checked_parts),
        known_spans=tuple(checked.known_spans for checked in checked_parts),
        must_read_at_once=name == "llm",
        is_fan_out=is_fan_out,
    )


class ToolRequest(NamedTuple):
    """A call of a tool, whose arguments are numbers, texts and containers of them."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]


def read_tool_call(args: object) -> ToolRequest:
    """Check a call of a tool. Raises `CallRefusedError`."""
    if not isinstance(args, Mapping) or not isinstance(args.get("name"), str):
        raise CallRefusedError("There is no such tool.")
    positional = args.get("args")
    named = args.get("kwargs")
    if not isinstance(positional, list) or not isinstance(named, dict):
        raise CallRefusedError("The arguments of a tool must be a list and a dict.")
    return ToolRequest(
        args["name"],
        check_plain_data(positional, "An argument"),
        check_plain_data(named, "An argument"),
    )


class FinalAnswer(NamedTuple):
    """The answer of a node's code."""

    answer: str
    spans: list[TextSpan]
    """Spans of the node's text that it quotes, or whose lines it names."""


def read_final(args: object, text: SearchedText, max_chars: int) -> FinalAnswer | None:
    """Check an answer.

    Args:
        args: What the sandbox sent.
        text: The node's text.
        max_chars: The longest answer that is allowed.

    Returns:
        The answer; None if it is invalid or too long.
    """
    if not isinstance(args, Mapping):
        return None
    answer = args.get("text")
    if not isinstance(answer, str) or len(answer) > max_chars:
        return None

    raw_spans = args.get("spans")
    if not isinstance(raw_spans, list):
        raw_spans = []
    checked_spans = [_read_span(raw_span, text) for raw_span in raw_spans[:_MAX_SPANS]]
    candidates = sorted(span for span in checked_spans if span is not None and span[0] < span[1])

    # In order, so that each line break is counted once.
    named = named_lines(answer)
    spans: list[TextSpan] = []
    line = 1
    counted_chars = 0
    for start, end in candidates:
        line += text.text.count("\n", counted_chars, start)
        counted_chars = start
        is_named = line in named and (start, end) == find_line(text.text, start)
        if is_named or (end - start <= len(answer) and is_quoted(text.text[start:end], answer)):
            spans.append((start, end))
    return FinalAnswer(make_encodable(answer), spans)


def _read_query(query: object) -> str:
    """Check a query. Raises `CallRefusedError`."""
    if not isinstance(query, str) or not query.strip():
        raise CallRefusedError("The query must be a string, and not an empty one.")
    if len(query) > _MAX_QUERY_CHARS:
        raise CallRefusedError(
            f"The query has {len(query):,} characters; at most {_MAX_QUERY_CHARS:,} are allowed. Put the text in the second argument."
        )
    return make_encodable(query)


class _CheckedPart(NamedTuple):
    """What a sub-call reads."""

    part: Spans | SearchedText
    """Spans of the node's text, or a text that code has made."""
    known_spans: Spans
    """Spans of the node's text that are known to be in it."""


def _read_part(part: object, text: SearchedText) -> _CheckedPart:
    """Check a part that a sub-call shall read. Raises `CallRefusedError`."""
    if not isinstance(part, Mapping):
        raise CallRefusedError("A part must be a text, or spans of `context`.")
    made_text = part.get("text")
    if isinstance(made_text, str):
        _check_part_length(len(made_text))
        return _read_made_text(made_text, part.get("runs"), text)
    if "span" in part:
        spans = _read_spans([part["span"]], text)
    else:
        spans = _read_spans(part.get("spans"), text)
        _check_part_length(sum(end - start for start, end in spans))
    return _CheckedPart(spans, spans)


def _read_spans(raw_spans: object, text: SearchedText) -> Spans:
    """Check the spans of a part. Raises `CallRefusedError`."""
    if not isinstance(raw_spans, list) or not raw_spans:
        raise CallRefusedError("A part must be a text, or spans of `context`.")
    if len(raw_spans) > _MAX_SPANS:
        raise CallRefusedError(
            f"A part has {len(raw_spans):,} spans; at most {_MAX_SPANS:,} are allowed."
        )
    spans: list[TextSpan] = []
    for raw_span in raw_spans:
        span = _read_span(raw_span, text)
        if span is None:
            raise CallRefusedError("A span must be its start and its end in `context`.")
        spans.append(span)
    return tuple(spans)


def _read_made_text(made_text: str, raw_runs: object, text: SearchedText) -> _CheckedPart:
    """Return a text that code has made, and what it has in common with the node's text.

    Args:
        made_text: The text.
        raw_runs: Where it has runs of the node's text, as `EvidenceFinder.find_runs` returns them;
            wrong ones are ignored.
        text: The node's text.
    """
    origin: list[TextRun] = []
    known_spans: list[TextSpan] = []
    covered_chars = 0
    for raw_run in raw_runs[:_MAX_SPANS] if isinstance(raw_runs, list) else ():
        if not isinstance(raw_run, list) or not _are_integers(raw_run, 3):
            continue
        offset, start, length = raw_run
        run_text = made_text[offset : offset + length]
        if offset < covered_chars or start < 0 or length < 1 or len(run_text) < length:
            continue
        if text.text[start : start + length] != run_text:
            continue

        covered_chars = offset + length
        known_spans.append((start, start + length))
        for piece in text.pieces(start, start + length):
            origin.append(piece._replace(start=offset + piece.start - start))
    part = SearchedText(made_text, origin=tuple(origin))
    return _CheckedPart(part, tuple(known_spans))


def _check_part_length(chars: int) -> None:
    """Raise `CallRefusedError` if a part that code has made, or put together from spans, is too long."""
    if chars > _MAX_PART_CHARS:
        raise CallRefusedError(
            f"A part has {chars:,} characters; at most {_MAX_PART_CHARS:,} are allowed unless it is one part of `context`."
        )


def _read_span(span: object, text: SearchedText) -> TextSpan | None:
    """Return a span, cut at the text's end; None if it is invalid."""
    if not isinstance(span, (list, tuple)) or not _are_integers(span, 2):
        return None
    start, end = span
    text_chars = len(text.text)
    if not 0 <= start <= end or start > text_chars:
        return None
    return start, min(end, text_chars)


def _are_integers(values: Sequence[object], count: int) -> bool:
    """Return whether values are this many integers. A bool, which is an `int`, does not count."""
    return len(values) == count and all(type(value) is int for value in values)
