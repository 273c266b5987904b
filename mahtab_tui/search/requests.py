"""Checks messages of sandboxes, which may be forged, and finds the evidence for answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple, Protocol

from mahtab_tui.llm.base import make_encodable
from mahtab_tui.sandbox.base import CallRefusedError, SearchedText, TextRun, TextSpan
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool, NotPlainError, plain_data
from mahtab_tui.worker.sandbox.evidence import answer_values, find_once, named_lines, stands_in
from mahtab_tui.worker.sandbox.line_search import find_line

MAX_TOOL_CALLS = 1_000
"""Calls of tools in one search."""
_TOOL_CONCURRENCY = 8

MAX_PARTS = 5_000
"""Parts of one fan-out."""
_MAX_QUERY_CHARS = 100_000
_MAX_MADE_CHARS = 50_000_000
"""Characters of one text that code has made."""
_MAX_SPANS = 1_000

_MIN_QUOTE_CHARS = 16
"""A shorter answer of a sub-call is not looked for as a whole: it would match by chance."""
_MAX_ANSWER_CHARS = 5_000_000
"""Characters of sub-calls' answers to search, about a second."""
_MAX_READ_CHARS = 200_000_000
"""Characters of the text to read for one answer, a fifth of a second."""
_SEARCH_COST_CHARS = 200
"""Cost of starting to search a text, in characters."""
_NO_PARTS = "The parts must be a list of texts."
_NUMBER = re.compile(r"-?\d[\d,]{0,30}(\.\d{1,30})?")


class ToolRunner(Protocol):
    described: list[DescribedTool]

    def start(
        self,
        call: int,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Start a call. done: gets {"value": …} or {"error": a sentence}, on any thread, unless the
        call has been stopped."""

    def stop(self, call: int) -> None:
        """End a call."""


class SearchTools:
    """The caller's functions that a search may call."""

    def __init__(self, runner: ToolRunner) -> None:
        self.descriptions = tuple(runner.described)
        self._runner = runner
        self._names = {tool.name for tool in self.descriptions}
        self._ids = itertools.count(1)
        self._gate = asyncio.Semaphore(_TOOL_CONCURRENCY)

    async def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a tool; cancelling ends it. Raises `CallRefusedError` with what went wrong."""
        if name not in self._names:
            raise CallRefusedError("There is no such tool.")
        number = next(self._ids)
        if number > MAX_TOOL_CALLS:
            raise CallRefusedError(
                f"The tools of a search may be called {MAX_TOOL_CALLS:,} times, and have been."
            )
        async with self._gate:
            future: Future[Mapping[str, Any]] = Future()

            def done(result: Mapping[str, Any]) -> None:
                with contextlib.suppress(InvalidStateError):  # it has been stopped
                    future.set_result(result)

            self._runner.start(number, name, args, kwargs, done)
            try:
                result = await asyncio.wrap_future(future)
            finally:
                if not future.done() or future.cancelled():
                    self._runner.stop(number)
        if "error" in result:
            raise CallRefusedError(str(result["error"]))
        return _check_plain_data(result.get("value"), f"What {name} returned")


class Request(NamedTuple):
    """Sub-calls that a node's code asks for."""

    queries: tuple[str, ...]
    parts: tuple[tuple[TextSpan, ...] | SearchedText, ...]
    """Each is a text that code has made, or spans of the node's text."""
    read: tuple[tuple[TextSpan, ...], ...]
    """Spans of the node's text that are known to be in each part."""
    plain: bool
    many: bool
    """Whether it is a fan-out, perhaps of one part."""


def read_call(name: str, args: Any, text: SearchedText) -> Request:
    """Check a request for sub-calls. Raises `CallRefusedError`."""
    if name not in ("rlm", "llm") or not isinstance(args, Mapping):
        raise CallRefusedError("There is no such call.")
    query = args.get("query")
    parts = args.get("parts")
    is_many = args.get("map")
    if not isinstance(parts, list) or not isinstance(is_many, bool):
        raise CallRefusedError(_NO_PARTS)
    if not is_many and len(parts) != 1:
        raise CallRefusedError(_NO_PARTS)
    if len(parts) > MAX_PARTS:
        raise CallRefusedError(
            f"There are {len(parts):,} parts; at most {MAX_PARTS:,} are allowed at once. Filter by code first, or make larger parts."
        )

    if name == "llm" and is_many and isinstance(query, list):
        if len(query) != len(parts):
            raise CallRefusedError("There must be one query for each text.")
        queries = tuple(map(_read_query, query))
    else:
        queries = (_read_query(query),) * len(parts)

    checked_parts = [_read_part(part, text) for part in parts]
    return Request(
        queries,
        parts=tuple(part for part, _ in checked_parts),
        read=tuple(spans for _, spans in checked_parts),
        plain=name == "llm",
        many=is_many,
    )


def read_tool_call(args: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """Check a call of a tool: its name, and arguments of plain data. Raises `CallRefusedError`."""
    if not isinstance(args, Mapping) or not isinstance(args.get("name"), str):
        raise CallRefusedError("There is no such tool.")
    positional = args.get("args")
    named = args.get("kwargs")
    if not isinstance(positional, list) or not isinstance(named, dict):
        raise CallRefusedError("The arguments of a tool must be a list and a dict.")
    return (
        args["name"],
        _check_plain_data(positional, "An argument"),
        _check_plain_data(named, "An argument"),
    )


def _check_plain_data(value: object, subject: str) -> Any:
    """Return data that is plain. subject: begins the sentence of the error."""
    try:
        return plain_data(value, subject)
    except NotPlainError as error:
        raise CallRefusedError(str(error)) from None


def read_final(args: Any, text: SearchedText, max_chars: int) -> tuple[str, list[TextSpan]] | None:
    """Check an answer.

    Args:
        args: what the sandbox sent.
        text: the node's text.
        max_chars: the longest answer that is allowed.

    Returns:
        The answer, and the spans that it quotes or whose lines it names; None if it is invalid or
        too long.
    """
    answer = args.get("text") if isinstance(args, Mapping) else None
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
    return make_encodable(answer), spans


def is_quoted(words: str, answer: str) -> bool:
    """Return whether words are an answer or stand in it, perhaps as a string of JSON; one or two
    characters only if they are all of it."""
    words = words.strip()
    if len(words) <= 2:
        return bool(words) and words == answer.strip()
    as_json = json.dumps(words, ensure_ascii=False)[1:-1]
    return stands_in(words, answer) or stands_in(as_json, answer)


def _read_query(query: object) -> str:
    if not isinstance(query, str) or not query.strip():
        raise CallRefusedError("The query must be a string, and not an empty one.")
    if len(query) > _MAX_QUERY_CHARS:
        raise CallRefusedError(
            f"The query has {len(query):,} characters; at most {_MAX_QUERY_CHARS:,} are allowed. Put the text in the second argument."
        )
    return make_encodable(query)


def _read_part(
    part: object, text: SearchedText
) -> tuple[tuple[TextSpan, ...] | SearchedText, tuple[TextSpan, ...]]:
    """Check a part. Returns it, and the spans of the node's text that are in it."""
    if isinstance(part, Mapping):
        made_text = part.get("text")
        if isinstance(made_text, str):
            _check_length(len(made_text))
            return _read_made_text(made_text, part.get("runs"), text)

        span = _read_span(part.get("span"), text)
        if span is not None:
            return (span,), (span,)

        raw_spans = part.get("spans")
        if isinstance(raw_spans, list) and 0 < len(raw_spans) <= _MAX_SPANS:
            checked_spans = [_read_span(raw_span, text) for raw_span in raw_spans]
            spans = tuple(span for span in checked_spans if span is not None)
            if len(spans) == len(raw_spans):
                _check_length(sum(end - start for start, end in spans))
                return spans, spans
    raise CallRefusedError("A part must be a text.")


def _read_made_text(
    made_text: str, raw_runs: object, text: SearchedText
) -> tuple[SearchedText, tuple[TextSpan, ...]]:
    """Return a text that code has made, and what it has in common with the node's text.

    Args:
        made_text: the text.
        raw_runs: where it has runs of the node's text, as `EvidenceFinder.find_runs` returns them;
            wrong ones are ignored.
        text: the node's text.
    """
    origin: list[TextRun] = []
    read_spans: list[TextSpan] = []
    covered_chars = 0
    for raw_run in raw_runs[:_MAX_SPANS] if isinstance(raw_runs, list) else ():
        if not isinstance(raw_run, list) or [*map(type, raw_run[:4])] != [int] * 3:
            continue
        offset, start, length = raw_run
        words = made_text[offset : offset + length]
        if offset < covered_chars or start < 0 or length < 1 or len(words) < length:
            continue
        if text.text[start : start + length] != words:
            continue

        covered_chars = offset + length
        read_spans.append((start, start + length))
        for piece in text.pieces(start, start + length):
            origin.append(piece._replace(start=offset + piece.start - start))
    return SearchedText(made_text, origin=tuple(origin)), tuple(read_spans)


def _check_length(chars: int) -> None:
    if chars > _MAX_MADE_CHARS:
        raise CallRefusedError(
            f"A part has {chars:,} characters; at most {_MAX_MADE_CHARS:,} are allowed unless it is one part of `context`."
        )


def _read_span(span: object, text: SearchedText) -> TextSpan | None:
    """Return a span, cut at the text's end; None if it is invalid."""
    if not isinstance(span, (list, tuple)) or [*map(type, span[:3])] != [int, int]:
        return None
    start, end = span
    text_chars = len(text.text)
    if not 0 <= start <= end or start > text_chars:
        return None
    return start, min(end, text_chars)


class SubAnswers:
    """The answers of a node's sub-calls, what they rest on, and what they have read."""

    def __init__(self, text: SearchedText) -> None:
        self._text = text
        self._spans: dict[str, Sequence[TextSpan]] = {}
        """Parts of the root's text; none if equal answers rest on different ones."""
        self._read: list[tuple[str, Sequence[TextSpan]]] = []

    def add(self, answer: str, spans: Sequence[TextSpan], read_spans: Sequence[TextSpan]) -> None:
        """Add an answer.

        Args:
            answer: a sub-call's answer.
            spans: parts of the root's text on which it rests.
            read_spans: parts of the node's text that the sub-call has read.
        """
        if self._spans.setdefault(answer, spans) != spans:
            self._spans[answer] = ()
        if read_spans:
            self._read.append((answer, read_spans))

    def evidence(self, answer: str) -> list[TextSpan]:
        """Return the spans of the root's text on which the node's answer rests. A number with no
        place of its own is computed, and rests on all that the sub-calls quote."""
        evidence = self._text.to_root(list(self._value_spans(answer)))
        max_sub_answers = 5 * _MAX_READ_CHARS // (len(answer) + 1)
        for sub_answer, spans in itertools.islice(self._spans.items(), max_sub_answers):
            is_same = sub_answer.strip() == answer.strip()
            is_long = len(sub_answer) >= _MIN_QUOTE_CHARS
            if spans and (is_same or (is_long and is_quoted(sub_answer, answer))):
                evidence += spans

        if not evidence and _NUMBER.fullmatch(answer.strip()):
            all_spans = itertools.chain.from_iterable(self._spans.values())
            return list(itertools.islice(all_spans, _MAX_SPANS))
        return evidence

    def _value_spans(self, answer: str) -> Iterator[TextSpan]:
        """Yield the spans of values of the answer that occur exactly once in the text of a sub-call
        with them, unless sub-calls have them from different places."""
        remaining_chars = _MAX_READ_CHARS
        shared_values = self._shared_values(answer)
        for value in sorted(shared_values, key=lambda value: (-len(value), value)):
            texts_read = shared_values[value]
            remaining_chars -= sum(end - start for spans in texts_read for start, end in spans)
            if remaining_chars < 0:
                return
            places = {find_once(value, self._text.text, spans) for spans in texts_read}
            if len(places) == 1:
                (place,) = places
                if place is not None:
                    yield place

    def _shared_values(self, answer: str) -> dict[str, list[Sequence[TextSpan]]]:
        """Return the values that are in the answer and in a sub-call's, and what each such sub-call
        has read. If that takes too long, only values of both."""
        if sum(len(sub_answer) for sub_answer, _ in self._read) > _MAX_ANSWER_CHARS:
            return {}

        # To look for each value in each answer takes the product of their lengths.
        own_values = set(answer_values(answer))
        sub_values = [set(answer_values(sub_answer)) for sub_answer, _ in self._read]
        effort = 0
        for (sub_answer, _), values in zip(self._read, sub_values, strict=True):
            effort += len(own_values) * (len(sub_answer) + _SEARCH_COST_CHARS)
            effort += len(values) * (len(answer) + _SEARCH_COST_CHARS)
        is_thorough = effort < _MAX_READ_CHARS

        candidates = set(own_values)
        if is_thorough:
            for values in sub_values:
                candidates.update(value for value in values if stands_in(value, answer))

        shared: dict[str, list[Sequence[TextSpan]]] = {}
        for (sub_answer, read_spans), values in zip(self._read, sub_values, strict=True):
            if is_thorough:
                matching = {value for value in candidates if stands_in(value, sub_answer)}
            else:
                matching = values & candidates
            for value in matching:
                shared.setdefault(value, []).append(read_spans)
        return shared
