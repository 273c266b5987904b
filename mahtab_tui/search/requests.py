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
from mahtab_tui.sandbox.base import CallRefusedError, Text, TextRun, TextSpan
from mahtab_tui.worker.sandbox.names import DescribedTool, NotPlainError, plain_data
from mahtab_tui.worker.sandbox.text import (
    answer_values,
    find_line,
    find_once,
    named_lines,
    stands_in,
)

MOST_CALLS = 1_000
_AT_A_TIME = 8


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


class Tools:
    def __init__(self, runner: ToolRunner) -> None:
        self.described = tuple(runner.described)
        self._runner = runner
        self._names = {tool.name for tool in self.described}
        self._ids = itertools.count(1)
        self._gate = asyncio.Semaphore(_AT_A_TIME)

    async def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a tool; cancelling ends it. Raises `CallRefusedError` with what went wrong."""
        if name not in self._names:
            raise CallRefusedError("There is no such tool.")
        number = next(self._ids)
        if number > MOST_CALLS:
            raise CallRefusedError(
                f"The tools of a search may be called {MOST_CALLS:,} times, and have been."
            )
        async with self._gate:
            answered: Future[Mapping[str, Any]] = Future()

            def done(result: Mapping[str, Any]) -> None:
                with contextlib.suppress(InvalidStateError):  # it has been stopped
                    answered.set_result(result)

            self._runner.start(number, name, args, kwargs, done)
            try:
                result = await asyncio.wrap_future(answered)
            finally:
                if not answered.done() or answered.cancelled():
                    self._runner.stop(number)
        if "error" in result:
            raise CallRefusedError(str(result["error"]))
        return _plain(result.get("value"), f"What {name} returned")


MAX_PARTS = 5_000
_MAX_QUERY = 100_000
_MAX_MADE = 50_000_000
_MAX_SPANS = 1_000


class Request(NamedTuple):
    queries: tuple[str, ...]
    parts: tuple[tuple[TextSpan, ...] | Text, ...]
    """Each is a text that code has made, or spans of the node's text."""
    read: tuple[tuple[TextSpan, ...], ...]
    """Spans of the node's text that are known to be in each part."""
    plain: bool
    many: bool
    """Whether it is a fan-out, perhaps of one part."""


def read_call(name: str, args: Any, text: Text) -> Request:
    """Check a request for sub-calls. Raises `CallRefusedError`."""
    if name not in ("rlm", "llm") or not isinstance(args, Mapping):
        raise CallRefusedError("There is no such call.")
    query, given, many = args.get("query"), args.get("parts"), args.get("map")
    if not isinstance(given, list) or not isinstance(many, bool) or (not many and len(given) != 1):
        raise CallRefusedError("The parts must be a list of texts.")
    if len(given) > MAX_PARTS:
        raise CallRefusedError(
            f"There are {len(given):,} parts; at most {MAX_PARTS:,} are allowed at once. Filter by code first, or make larger parts."
        )
    if name == "llm" and many and isinstance(query, list):
        if len(query) != len(given):
            raise CallRefusedError("There must be one query for each text.")
        queries = tuple(map(_query, query))
    else:
        queries = (_query(query),) * len(given)
    checked = [_part(part, text) for part in given]
    parts, read = tuple(part for part, _ in checked), tuple(spans for _, spans in checked)
    return Request(queries, parts, read, plain=name == "llm", many=many)


def read_tool_call(args: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """Check a call of a tool: its name, and arguments of plain data. Raises `CallRefusedError`."""
    if not isinstance(args, Mapping) or not isinstance(args.get("name"), str):
        raise CallRefusedError("There is no such tool.")
    given, named = args.get("args"), args.get("kwargs")
    if not isinstance(given, list) or not isinstance(named, dict):
        raise CallRefusedError("The arguments of a tool must be a list and a dict.")
    return args["name"], _plain(given, "An argument"), _plain(named, "An argument")


def _plain(value: object, what: str) -> Any:
    try:
        return plain_data(value, what)
    except NotPlainError as error:
        raise CallRefusedError(str(error)) from None


def read_final(args: Any, text: Text, longest: int) -> tuple[str, list[TextSpan]] | None:
    """Check an answer; None if it is invalid or too long. Its spans are those that it quotes, and
    the lines that it names."""
    answer = args.get("text") if isinstance(args, Mapping) else None
    if not isinstance(answer, str) or len(answer) > longest:
        return None
    named, given = named_lines(answer), args.get("spans")
    found = [_span(each, text) for each in given[:_MAX_SPANS]] if isinstance(given, list) else []
    spans, line, counted = [], 1, 0
    for start, end in sorted(span for span in found if span is not None and span[0] < span[1]):
        line, counted = line + text.text.count("\n", counted, start), start
        is_named = line in named and (start, end) == find_line(text.text, start)
        if is_named or (end - start <= len(answer) and is_quoted(text.text[start:end], answer)):
            spans.append((start, end))
    return make_encodable(answer), spans


def is_quoted(words: str, answer: str) -> bool:
    """Tell whether words are an answer or stand in it, perhaps as a string of JSON; one or two
    characters only if they are all of it."""
    words = words.strip()
    if len(words) <= 2:
        return bool(words) and words == answer.strip()
    as_json = json.dumps(words, ensure_ascii=False)[1:-1]
    return stands_in(words, answer) or stands_in(as_json, answer)


def _query(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise CallRefusedError("The query must be a string, and not an empty one.")
    if len(given) > _MAX_QUERY:
        raise CallRefusedError(
            f"The query has {len(given):,} characters; at most {_MAX_QUERY:,} are allowed. Put the text in the second argument."
        )
    return make_encodable(given)


def _part(given: Any, text: Text) -> tuple[tuple[TextSpan, ...] | Text, tuple[TextSpan, ...]]:
    """Check a part. Returns it, and the spans of the node's text that are in it."""
    if isinstance(given, Mapping):
        made = given.get("text")
        if isinstance(made, str):
            _check_length(len(made))
            return _made_text(made, given.get("runs"), text)
        if (span := _span(given.get("span"), text)) is not None:
            return (span,), (span,)
        spans = given.get("spans")
        if isinstance(spans, list) and 0 < len(spans) <= _MAX_SPANS:
            checked = tuple(found for one in spans if (found := _span(one, text)) is not None)
            if len(checked) == len(spans):
                _check_length(sum(end - start for start, end in checked))
                return checked, checked
    raise CallRefusedError("A part must be a text.")


def _made_text(made: str, runs: Any, text: Text) -> tuple[Text, tuple[TextSpan, ...]]:
    """Return a text that code has made. runs: as `EvidenceFinder.find_runs` returns them; wrong ones are ignored."""
    origin: list[TextRun] = []
    read: list[TextSpan] = []
    done = 0
    for run in runs[:_MAX_SPANS] if isinstance(runs, list) else ():
        if not isinstance(run, list) or [*map(type, run[:4])] != [int] * 3:
            continue
        offset, start, length = run
        words = made[offset : offset + length]
        if offset < done or start < 0 or length < 1 or len(words) < length:
            continue
        if text.text[start : start + length] != words:
            continue
        done = offset + length
        read.append((start, start + length))
        origin += (
            piece._replace(start=offset + piece.start - start)
            for piece in text.pieces(start, start + length)
        )
    return Text(made, origin=tuple(origin)), tuple(read)


def _check_length(chars: int) -> None:
    if chars > _MAX_MADE:
        raise CallRefusedError(
            f"A part has {chars:,} characters; at most {_MAX_MADE:,} are allowed unless it is one part of `context`."
        )


def _span(given: Any, text: Text) -> TextSpan | None:
    if not isinstance(given, (list, tuple)) or [*map(type, given[:3])] != [int, int]:
        return None
    start, end = given
    length = len(text.text)
    return (start, min(end, length)) if 0 <= start <= end and start <= length else None


# Evidence for answers that are made of sub-calls' answers

_SHORTEST_QUOTE = 16
"""Fewest characters of a sub-call's answer that is looked for as a whole: shorter ones match by chance."""
_MOST_ANSWERS = 5_000_000
"""Characters of answers to search, about a second."""
_READ = 200_000_000
"""Characters of the text to read for one answer, a fifth of a second."""
_CALL = 200
"""Cost of starting a text, in characters."""


_NUMBER = re.compile(r"-?\d[\d,]{0,30}(\.\d{1,30})?")


class SubAnswers:
    """The answers of a node's sub-calls, what they rest on, and what they have read."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._spans: dict[str, Sequence[TextSpan]] = {}
        """Parts of the root's text; none if equal answers rest on different ones."""
        self._read: list[tuple[str, Sequence[TextSpan]]] = []

    def add(self, answer: str, spans: Sequence[TextSpan], read: Sequence[TextSpan]) -> None:
        if self._spans.setdefault(answer, spans) != spans:
            self._spans[answer] = ()
        if read:
            self._read.append((answer, read))

    def evidence(self, answer: str) -> list[TextSpan]:
        """Return the spans of the root's text on which the node's answer rests. A number with no
        place of its own is computed, and rests on all that the sub-calls quote."""
        found = self._text.to_root(list(self._value_spans(answer)))
        for each, spans in itertools.islice(self._spans.items(), 5 * _READ // (len(answer) + 1)):
            same = each.strip() == answer.strip()
            if spans and (same or (len(each) >= _SHORTEST_QUOTE and is_quoted(each, answer))):
                found += spans
        if not found and _NUMBER.fullmatch(answer.strip()):
            every = (span for spans in self._spans.values() for span in spans)
            return list(itertools.islice(every, _MAX_SPANS))
        return found

    def _value_spans(self, answer: str) -> Iterator[TextSpan]:
        """Yield the spans of values of the answer that occur exactly once in the text of a sub-call
        with them, unless sub-calls have them from different places."""
        left, shared = _READ, self._shared_values(answer)
        for value in sorted(shared, key=lambda value: (-len(value), value)):
            parts = shared[value]
            left -= sum(end - start for read in parts for start, end in read)
            if left < 0:
                return
            first, *others = {find_once(value, self._text.text, read) for read in parts}
            if first is not None and not others:
                yield first

    def _shared_values(self, answer: str) -> dict[str, list[Sequence[TextSpan]]]:
        """Return the values that are in the answer and in a sub-call's, and what each such sub-call
        has read. If that takes too long, only values of both."""
        if sum(len(each) for each, _ in self._read) > _MOST_ANSWERS:
            return {}
        wanted = set(answer_values(answer))
        given = [(each, set(answer_values(each)), read) for each, read in self._read]
        effort = sum(
            len(wanted) * (len(each) + _CALL) + len(own) * (len(answer) + _CALL)
            for each, own, _ in given
        )
        thorough = effort < _READ
        values = set(wanted)
        if thorough:
            values.update(value for _, own, _ in given for value in own if stands_in(value, answer))
        shared: dict[str, list[Sequence[TextSpan]]] = {}
        for each, own, read in given:
            found = {value for value in values if stands_in(value, each)} if thorough else own
            for value in found & values:
                shared.setdefault(value, []).append(read)
        return shared
