"""Checks what comes out of a sandbox, which may be hostile, and finds on what answers rest."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple, Protocol

from mahtab_tui.llm.base import make_encodable
from mahtab_tui.sandbox.base import CallRefusedError, Text, TextRun, TextSpan
from mahtab_tui.worker.sandbox.names import DescribedTool, NotPlainError, plain_data
from mahtab_tui.worker.sandbox.text import (
    find_line,
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
        try:
            return plain_data(result.get("value"), f"What {name} returned")
        except NotPlainError as error:
            raise CallRefusedError(str(error)) from None


MAX_PARTS = 5_000
_MAX_QUERY = 100_000
_MAX_MADE = 50_000_000
_MAX_SPANS = 1_000


class Request(NamedTuple):
    queries: tuple[str, ...]
    parts: tuple[tuple[TextSpan, ...] | Text, ...]
    """Each is a text that code has made, or places in the node's text, handed on together."""
    plain: bool
    many: bool
    """Whether it is a fan-out, perhaps of one part."""


def read_call(name: str, args: Any, text: Text) -> Request:
    """Check a request for sub-calls. Raises `CallRefusedError`."""
    if name not in ("rlm", "rlm_map", "llm", "llm_map") or not isinstance(args, Mapping):
        raise CallRefusedError("There is no such call.")
    query = args.get("query")
    if name == "llm":
        given = args.get("part")
        part = _part({"text": ""} if given is None else given, text)
        return Request((_query(query),), (part,), plain=True, many=False)
    given, many = args.get("parts"), args.get("map")
    if not isinstance(given, list) or not isinstance(many, bool) or (not many and len(given) != 1):
        raise CallRefusedError("The parts must be a list of texts.")
    if len(given) > MAX_PARTS:
        raise CallRefusedError(
            f"There are {len(given):,} parts; at most {MAX_PARTS:,} are allowed at once. Filter by code first, or make larger parts."
        )
    if name == "llm_map" and isinstance(query, list):
        if len(query) != len(given):
            raise CallRefusedError("There must be one query for each text.")
        queries = tuple(map(_query, query))
    else:
        queries = (_query(query),) * len(given)
    parts = tuple(_part(part, text) for part in given)
    return Request(queries, parts, plain=name == "llm_map", many=many)


def read_tool_call(args: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """Check a call of a tool: its name, and arguments of plain data. Raises `CallRefusedError`."""
    if not isinstance(args, Mapping) or not isinstance(args.get("name"), str):
        raise CallRefusedError("There is no such tool.")
    given, named = args.get("args"), args.get("kwargs")
    if not isinstance(given, list) or not isinstance(named, dict):
        raise CallRefusedError("The arguments of a tool must be a list and a dict.")
    try:
        return args["name"], plain_data(given, "An argument"), plain_data(named, "An argument")
    except NotPlainError as error:
        raise CallRefusedError(str(error)) from None


def read_final(args: Any, text: Text, longest: int) -> tuple[str, list[TextSpan]] | None:
    """Check an answer; None if it is invalid or too long. Its spans are those that it quotes, and
    the lines that it names."""
    answer = args.get("text") if isinstance(args, Mapping) else None
    if not isinstance(answer, str) or len(answer) > longest:
        return None
    named = named_lines(answer)
    spans, line, counted = [], 1, 0
    for start, end in sorted(read_spans(args.get("spans"), text)):
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


def read_spans(given: Any, text: Text) -> list[TextSpan]:
    spans = [_span(one, text) for one in given[:_MAX_SPANS]] if isinstance(given, list) else []
    return [span for span in spans if span is not None and span[0] < span[1]]


def _query(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise CallRefusedError("The query must be a string, and not an empty one.")
    if len(given) > _MAX_QUERY:
        raise CallRefusedError(
            f"The query has {len(given):,} characters; at most {_MAX_QUERY:,} are allowed. Put the text in the second argument."
        )
    return make_encodable(given)


def _part(given: Any, text: Text) -> tuple[TextSpan, ...] | Text:
    if isinstance(given, Mapping):
        made = given.get("text")
        if isinstance(made, str):
            _check_length(len(made))
            return _made_text(made, given.get("runs"), text)
        if (span := _span(given.get("span"), text)) is not None:
            return (span,)
        spans = given.get("spans")
        if isinstance(spans, list) and 0 < len(spans) <= _MAX_SPANS:
            checked = tuple(found for one in spans if (found := _span(one, text)) is not None)
            if len(checked) == len(spans):
                _check_length(sum(end - start for start, end in checked))
                return checked
    raise CallRefusedError("A part must be a text.")


def _made_text(made: str, runs: Any, text: Text) -> Text:
    """Return a text that code has made. runs: as `EvidenceFinder.find_runs` returns them; wrong ones are ignored."""
    origin: list[TextRun] = []
    done = 0
    for run in runs[:_MAX_SPANS] if isinstance(runs, list) else ():
        if not isinstance(run, list) or len(run) != 3 or any(type(each) is not int for each in run):
            continue
        offset, start, length = run
        if offset < done or start < 0 or length < 1:
            continue
        words = made[offset : offset + length]
        if len(words) < length or text.text[start : start + length] != words:
            continue
        done = offset + length
        origin += (
            piece._replace(start=offset + piece.start - start)
            for piece in text.pieces(start, start + length)
        )
    return Text(made, origin=tuple(origin))


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


_SHORTEST_QUOTE = 16
"""Characters of a sub-call's answer that is looked for as a whole; many answers have shorter ones by chance."""
_READ = 1_000_000_000


class SubAnswers:
    """The answers of a node's sub-calls, and what they rest on."""

    def __init__(self) -> None:
        self._spans: dict[str, Sequence[TextSpan]] = {}
        """Parts of the root's text; none if equal answers rest on different ones."""

    def add(self, answer: str, spans: Sequence[TextSpan]) -> None:
        if self._spans.setdefault(answer, spans) != spans:
            self._spans[answer] = ()

    def evidence(self, answer: str) -> list[TextSpan]:
        """Return the spans of the sub-calls' answers that the node's answer quotes."""
        found: list[TextSpan] = []
        for each, spans in itertools.islice(self._spans.items(), _READ // (len(answer) + 1)):
            if spans and (
                each.strip() == answer.strip()
                or (len(each) >= _SHORTEST_QUOTE and is_quoted(each, answer))
            ):
                found += spans
        return found
