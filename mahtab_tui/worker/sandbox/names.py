"""The names available to code in a sandbox: its text, functions to read it, sub-calls, and
FINAL."""

from __future__ import annotations

import builtins
import inspect
import json
import keyword
import math
import operator
import pprint
import re
import sys
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from functools import wraps
from re import Pattern
from typing import Any, Callable, NamedTuple, NoReturn

from ..text_tools import LONG_LINE, partition_spans
from .text import (
    MOST_A_CALL,
    AnswerList,
    EngineHost,
    EvidenceFinder,
    Final,
    Hit,
    Part,
    Piece,
    Source,
    SubAnswer,
    compile_pattern,
    context_spans,
    extend_lines,
    find_span,
    find_spans,
    matching_lines,
    to_answer,
    to_plain_str,
)

ANSWER_LIMIT = 40_000
"""Maximum characters of a sub-call's answer."""

_ONE_LINE = 120
_ITEMS = (Iterator, KeysView, ValuesView, ItemsView, deque, range)
"""Types whose values stand for their items, although Python does not show them."""


def materialize(value: object, most: int) -> object:
    """Return the items of a generator, a dict view and the like; other values unchanged. Raises
    ValueError for more than `most` items."""
    if not isinstance(value, _ITEMS):
        return value
    items: list[object] = []
    for item in value:
        items.append(item)
        if len(items) > most:  # perhaps it is infinite
            raise ValueError(
                f"FINAL: there are more than {most:,} items. Give fewer, or what they come to"
            )
    return items


def readable(value: object) -> str:
    """Return a value as text: strings unchanged, data as JSON if possible, everything else as
    Python shows it."""
    try:
        data = _as_data(value)
        return _as_json(data) if isinstance(data, (list, tuple, dict)) else str(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return pprint.pformat(value, width=_ONE_LINE)


def _as_data(value: Any) -> Any:
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, dict):
        data = {_as_data(name): _as_data(each) for name, each in value.items()}
        if len({name if isinstance(name, str) else json.dumps(name) for name in data}) < len(data):
            raise ValueError("JSON would have a key twice")  # {1: 2, "1": 3}
        return data
    if isinstance(value, (list, tuple)):
        return [_as_data(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return [_as_data(each) for each in sorted(value)]
    if hasattr(kind, "__dataclass_fields__"):
        return {name: _as_data(getattr(value, name)) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__members__"):  # an enum
        return _as_data(value.value)
    if hasattr(kind, "isoformat"):
        return value.isoformat()
    if hasattr(kind, "as_integer_ratio") and hasattr(kind, "is_nan"):  # a Decimal
        return float(value) if str(float(value)) == str(value) else str(value)
    if hasattr(kind, "limit_denominator"):  # a Fraction
        return value.numerator if value.denominator == 1 else float(value)
    if hasattr(kind, "__fspath__") or hasattr(kind, "urn"):  # a path, a UUID
        return str(value)
    return value


def _as_json(data: Any) -> str:
    line = json.dumps(data, ensure_ascii=False)
    if len(line) <= _ONE_LINE:
        return line
    if isinstance(data, dict):
        items = [json.dumps({name: item}, ensure_ascii=False)[1:-1] for name, item in data.items()]
    else:
        items = [json.dumps(item, ensure_ascii=False) for item in data]
    return f"{line[0]}\n  {f',{chr(10)}  '.join(items)}\n{line[-1]}"


def subset_text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(item.rstrip("\n") for item in value)
    if isinstance(value, (list, tuple, dict, set, frozenset, int, float)):
        return readable(value)
    raise TypeError(
        f"{name} reads a text: give a str (a part of context, or text of your own), not {_kind(value)}"
    )


def wrong_type(name: str, argument: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{name}: {argument} must be {wanted}, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


ALIASES = ("llm_query", "llm_query_batched", "rlm_query", "FINAL_VAR", "SUBMIT", "SHOW_VARS")

_PROMPT = 20_000
"""A longer prompt contains a text, so that the query is made of its ends."""


def _query_and_text(prompt: Any) -> tuple[str, str]:
    if not isinstance(prompt, str) or len(prompt) <= _PROMPT:
        return prompt, ""
    half = _PROMPT // 10
    return (
        f"Do what the text asks, which is a prompt. It begins: {prompt[:half]}\n…\nIt ends: {prompt[-half:]}",
        prompt,
    )


_LOOKED_UP = 4_000_000_000
"""Characters to read to find where the texts of sub-calls come from: a few seconds."""

_READERS = ("peek", "grep", "partition")
FUNCTIONS = ("peek", "grep", "partition", "llm", "llm_map", "rlm", "rlm_map", "FINAL")
_FUNCTIONS = (*FUNCTIONS, *ALIASES)


def make_names(
    text: str,
    kind: str,
    parts: Sequence[tuple[str, int, int]],
    host: EngineHost,
    longest_answer: int = ANSWER_LIMIT,
    *,
    contexts: Sequence[Any] = (),
    tools: Sequence[tuple[str, str, str]] = (),
) -> dict[str, object]:
    """Create the names for a text. kind: of `context`: "str", or "list" or "dict" of `Part`.
    contexts: name, kind, start, end and parts of each."""
    functions = SandboxFunctions(text, host, kind == "str", longest_answer)
    names: dict[str, object] = {name: _as_function(getattr(functions, name)) for name in _FUNCTIONS}
    if kind == "str":
        names["context"] = text if isinstance(text, Source) else Source(text)
    else:
        names["context"] = whole = functions.documents(kind, parts)
        for name, its_kind, _, _, its_parts, _ in contexts:
            names[name] = (
                whole[name] if its_kind == "str" else functions.documents(its_kind, its_parts)
            )
    names.update((tool[0], tool_function(host, *tool)) for tool in tools)
    return names


class SandboxFunctions:
    def __init__(self, text: str, host: EngineHost, numbered: bool, longest_answer: int) -> None:
        """numbered: whether line numbers run through the whole text. longest_answer: maximum
        characters of FINAL."""
        self._text = text
        self._host = host
        self._numbered = numbered
        self._longest_answer = longest_answer
        self._evidence = EvidenceFinder(text)
        self._refused_empty = False
        self._lookups = _LOOKED_UP // (len(text) + 1)

    def documents(self, kind: str, parts: Sequence[tuple[str, int, int]]) -> Any:
        found = [
            Source(part, part.start, part.line)
            for part in self._parts(self._text, ((start, end) for _, start, end in parts))
        ]
        return dict(zip((name for name, _, _ in parts), found)) if kind == "dict" else found

    def peek(self, n: int = 2000, start: int = 0, *, text: str | None = None) -> str:
        """Return n characters of the text from start (negative: from the end).

        text: another text to read: peek(s, 500) or peek(500, text=s). Example: print(peek(500, -500)).
        """
        _check_int("peek", "n", n)
        _check_int("peek", "start", start)
        source = self._source("peek", text)
        begin = max(0, len(source) + start) if start < 0 else min(start, len(source))
        parts = self._parts(source, [(begin, min(len(source), begin + max(0, n)))])
        self._evidence.remember(parts)
        part: str = parts[0]
        return part

    def grep(
        self,
        pattern: str,
        context_lines: int = 0,
        max_matches: int | None = 100,
        *,
        text: str | None = None,
    ) -> list[Any]:
        r"""Return the lines that match a regular expression, as a list of strings with .line (the number), .start and .end. (?i) in front ignores case; max_matches=None returns all.

        context_lines: lines before and after each match; matches that are near each other then come as one string of several lines.
        max_matches: how many matching lines at the most; where there are more, a line says so.
        text: another text to search: grep(pattern, s) or grep(pattern, text=s).
        Matching is by line; a pattern with \n in it matches across lines. Of a line of more than 10,000 characters it returns what
        stands around each match. Example: for hit in grep(r"(?i)error|fatal", max_matches=20): print(hit.line, hit).
        """
        if isinstance(context_lines, re.RegexFlag):
            raise TypeError("grep: write flags at the pattern's start, as in (?i)")
        source = self._source("grep", text)
        _check_int("grep", "context_lines", context_lines)
        most = len(source) + 1 if max_matches is None else max_matches
        _check_int("grep", "max_matches", most)
        spans: list[tuple[int, int]] = []
        for count, (start, end) in enumerate(_matches(source, compile_pattern(pattern)), 1):
            if count > most:
                print(
                    f"[grep: stopped at max_matches={max_matches:,}; more lines match. max_matches=None returns all]"
                )
                break
            if context_lines > 0 and end - start <= LONG_LINE:
                start, end = extend_lines(source, start, end, context_lines)
                if spans and start <= spans[-1][1] + 1:
                    start = spans.pop()[0]
            spans.append((start, end))
        found = self._parts(source, spans)
        self._evidence.remember(found)
        return found

    def partition(self, n: int = 10, *, text: str | None = None) -> list[Any]:
        """Cut the text into at most n parts of about the same size, at the ends of lines.

        Joined, they are the text again. text: another text to cut: partition(s, 20). Example: parts = partition(20).
        """
        _check_int("partition", "n", n)
        if n < 1:
            raise ValueError(f"partition: n must be at least 1, not {n}")
        source = self._source("partition", text)
        return self._parts(source, partition_spans(source, n))

    def rlm(self, query: str, subset: str) -> SubAnswer:
        """Have a model that works as you do, with code, answer a query about a part that is too long to be read.

        Example: print(rlm("Which requests failed, and why?", context[:3_000_000])).
        """
        _check_query("rlm", query)
        return self._ask("rlm", [self._part("rlm", subset)], query, fan_out=False)[0]

    def rlm_map(self, query: str, subsets: Iterable[str]) -> list[SubAnswer]:
        """Ask rlm about several parts at once; the answers are in the order of the parts.

        Example: found = rlm_map("Which users are named?", partition(4)).
        """
        _check_query("rlm_map", query)
        texts = _as_texts("rlm_map", "subsets", subsets)
        parts = [self._part("rlm_map", text) for text in texts]
        return self._ask("rlm", parts, query, fan_out=True)

    def llm(self, query: str, text: str = "") -> SubAnswer:
        """Have a model read one text and answer the query. It sees only these two, so the query must say everything, and the form of the answer.

        Returns a str; its .failed is True if it says why there is no answer.
        Example: print(llm("Write these findings as one paragraph", "\\n".join(found))).
        """
        _check_query("llm", query)
        return self._ask("llm", [self._part("llm", text)], query, fan_out=False)[0]

    def llm_map(self, query: Any, texts: Iterable[str] | None = None) -> list[SubAnswer]:
        """Have each of several texts read, all at once, one call each; returns the answers in order. llm_map([(query, text), ...]) asks each its own query.

        Example: labels = llm_map("Label each line: <its number> <spam or ham>", partition(20)).
        """
        queries = [query]
        if texts is None:
            pairs = _as_texts("llm_map", "the argument", query)
            if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
                raise TypeError(
                    "llm_map takes a query and texts, llm_map(query, [a, b]), or pairs of them: llm_map([(query, a), (other, b)])"
                )
            query = queries = [each for each, _ in pairs]
            texts = [text for _, text in pairs]
        for each in queries:
            _check_query("llm_map", each)
        parts = [self._part("llm_map", text) for text in _as_texts("llm_map", "texts", texts)]
        return self._ask("llm", parts, query, fan_out=True)

    def FINAL(self, answer: object) -> NoReturn:
        """Give the answer to the query, and end. Any value: a string as it is, lists and dicts as JSON.

        Example: FINAL(f"{len(ids)} requests timed out: {', '.join(ids)}").
        """
        answer = materialize(answer, self._longest_answer)
        empty = isinstance(answer, (str, list, tuple, dict, set)) and not answer
        if (empty or answer is None) and not self._refused_empty:
            self._refused_empty = True
            raise ValueError(
                f"FINAL got {answer!r}, which is no answer. Search with other words; if nothing is to be found, call FINAL again, or say so in words"
            )
        text = to_plain_str(readable(answer))
        if len(text) > self._longest_answer:
            raise ValueError(
                f"FINAL: the answer has {len(text):,} characters, and {self._longest_answer:,} is the most. Give the result instead of the material:"
                " count, filter, shorten, or have llm() condense it; then call FINAL again."
            )
        spans = self._evidence.find(answer, text, self._numbered)
        self._host.send("final", {"text": text, "spans": spans[:MOST_A_CALL]})
        raise Final

    # The functions under other names, with prompts that contain both query and text.

    def llm_query(self, prompt: str) -> SubAnswer:
        """Call llm with a prompt that has its text in it."""
        return self.llm(*_query_and_text(prompt))

    def llm_query_batched(self, prompts: Iterable[str]) -> list[SubAnswer]:
        """Call llm_map with prompts that have their texts in them."""
        return self.llm_map([_query_and_text(prompt) for prompt in prompts])

    def rlm_query(self, prompt: str) -> SubAnswer:
        """Call rlm with a prompt that has its text in it."""
        return self.rlm(*_query_and_text(prompt))

    def FINAL_VAR(self, variable: object) -> NoReturn:
        """Call FINAL with a variable, or with the one that has this name."""
        if isinstance(variable, str) and variable.isidentifier():
            caller = sys._getframe(2)  # the caller of the wrapper
            names = {**caller.f_globals, **caller.f_locals}
            if variable not in names:
                raise NameError(
                    f"FINAL_VAR: there is no variable {variable}. FINAL({variable!r}) answers with that text"
                )
            variable = names[variable]
        self.FINAL(variable)

    def SUBMIT(self, *values: object, **fields: object) -> NoReturn:
        """Call FINAL with one value, or with several by name."""
        everything: list[Any] = [*values, *fields.values()]
        self.FINAL(everything[0] if len(everything) == 1 else fields if not values else everything)

    def SHOW_VARS(self) -> str:
        """Return the names of the variables, with their types."""
        names = sys._getframe(2).f_globals  # beyond the wrapper
        types = {
            name: type(value).__name__
            for name, value in names.items()
            if not name.startswith("_") and name not in _FUNCTIONS
        }
        return f"Available variables: {types}"

    def _source(self, name: str, text: Any) -> str:
        if text is None:
            return self._text
        if isinstance(text, (list, tuple)) and all(isinstance(each, str) for each in text):
            return subset_text(name, text)
        if not isinstance(text, str):
            raise wrong_type(name, "text", "a str", text)
        return text

    def _ask(
        self, name: str, parts: list[dict[str, object]], query: Any, *, fan_out: bool
    ) -> list[SubAnswer]:
        if not parts:
            return []
        query = [*map(str, query)] if isinstance(query, list) else str(query)
        reply = self._host.call(name, {"query": query, "parts": parts, "map": fan_out})
        return AnswerList(map(to_answer, reply["answers"]))

    def _part(self, name: str, subset: object) -> dict[str, object]:
        if spans := find_spans(subset):
            return {"spans": spans}
        text = subset_text(name, subset)
        self._lookups -= not isinstance(text, Piece)
        span = find_span(text, self._text) if text and self._lookups >= 0 else None
        if span:
            return {"span": list(span)}
        runs = self._evidence.find_runs(text)
        return {"text": text, "runs": runs} if runs else {"text": text}

    def _parts(self, source: str, spans: Iterable[tuple[int, int]]) -> list[Any]:
        offset = 0 if source is self._text else source.start if isinstance(source, Piece) else None
        whole = source if offset is None else self._text
        parts: list[Any] = []
        line, counted = 1, 0
        for start, end in ((start + (offset or 0), end + (offset or 0)) for start, end in spans):
            if start < counted:
                line, counted = 1, 0
            line += str.count(whole, "\n", counted, start)
            counted = start
            kind = Hit if offset is None else Part
            parts.append(kind(str.__getitem__(whole, slice(start, end)), start, line))
        return parts


def _matches(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    for start, end in matching_lines(text, pattern):
        if end - start > LONG_LINE:
            yield from context_spans(text, pattern, start, end)
        else:
            yield start, end


def _name_text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Move a text among the first arguments to `text`: models write grep(pattern, context) and grep(context, pattern)."""
    texts = [number for number, each in enumerate(args[:2]) if isinstance(each, (str, list))]
    if name == "grep":
        if len(texts) < 2:
            return args
        first, second = args[:2]
        pieces = isinstance(first, Piece), isinstance(second, Piece)
        swapped = pieces[0] if pieces[0] != pieces[1] else len(first) > len(second)
        texts = [0 if swapped else 1]
    if not texts or "text" in kwargs:
        return args
    kwargs["text"] = args[texts[0]]
    return args[: texts[0]] + args[texts[0] + 1 :]


def _as_function(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = SIGNATURES[method.__name__]

    @wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        if method.__name__ in _READERS:
            args = _name_text(method.__name__, args, kwargs)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{method.__name__}: {error}. Call it as {method.__name__}({', '.join(signature.parameters)})"
            ) from None
        return method(*args, **kwargs)

    function.__qualname__, function.__module__ = method.__name__, "builtins"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


SIGNATURES = {
    name: inspect.Signature(
        [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(getattr(SandboxFunctions, name)).parameters.values()
            if parameter.name != "self"
        ]
    )
    for name in _FUNCTIONS
}


def _check_int(name: str, argument: str, value: object) -> None:
    if not isinstance(value, int):
        raise wrong_type(name, argument, "a whole number", value)


def _as_texts(name: str, argument: str, texts: Any) -> list[Any]:
    if isinstance(texts, str):
        single = name.replace("_map", "")
        raise TypeError(
            f"{name} takes several texts: {name}(query, [a, b]). For one text use {single}(query, text)"
        )
    try:
        return list(texts.values() if isinstance(texts, dict) else texts)
    except TypeError:
        raise wrong_type(name, argument, "a list of strings", texts) from None


def _check_query(name: str, query: object) -> None:
    if not isinstance(query, str):
        raise wrong_type(name, "query", "the question, a str", query)
    if not query.strip():
        raise ValueError(f"{name}: query is empty")


def name_problem(name: str) -> str:
    """Say why a variable of a sandbox cannot have this name; empty if it can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "it is no name in Python"
    if not name.isascii() or len(name) > 50:
        return "a name has at most 50 letters, without accents"
    if name.startswith("_"):
        return "it begins with an underscore"
    if name in _FUNCTIONS or name in ("context", "Part"):
        return "a search has that name already"
    if hasattr(builtins, name):
        return "Python has that name already"
    return ""


# The caller's functions, and the data that they exchange

_DEEPEST_DATA = 20
_MOST_DATA = 1_000_000


class NotPlainError(TypeError):
    """A value is not plain data; the message says which one."""


def plain_data(value: object, what: str, most: int = _MOST_DATA) -> Any:
    """Return a copy that consists of None, bool, int, float, str, list and dict. most: maximum
    characters of all texts. Raises `NotPlainError`."""
    left = most

    def copy(value: Any, depth: int) -> Any:
        nonlocal left
        if depth > _DEEPEST_DATA:
            raise NotPlainError(f"{what} is nested more than {_DEEPEST_DATA} levels deep.")
        left -= 1 + (len(value) if isinstance(value, str) else 0)
        if left < 0:
            raise NotPlainError(f"{what} has more than {most:,} characters.")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotPlainError(f"{what} has {float(value)} in it, which is no number.")
            return float(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    raise NotPlainError(
                        f"{what} has a dict in it with a key that is no text, but a {type(name).__name__}."
                    )
            return {copy(name, depth): copy(item, depth + 1) for name, item in value.items()}
        if hasattr(type(value), "tolist"):  # arrays and scalars of NumPy, a Series
            return copy(value.tolist(), depth + 1)
        if hasattr(type(value), "__index__"):
            number = operator.index(value)
            if number.bit_length() > 4_000:
                raise NotPlainError(f"{what} has a number in it that is too long.")
            return int(number)
        raise NotPlainError(
            f"{what} has a {type(value).__name__} in it. Only plain data passes: numbers, text, true, false, None, lists, and dicts by text."
        )

    return copy(value, 0)


class DescribedTool(NamedTuple):
    """A function of the caller as described to models and sandboxes: signature is like "(city, year=2026)"."""

    name: str
    signature: str
    doc: str


def tool_function(host: EngineHost, name: str, signature: str, doc: str) -> Callable[..., Any]:
    """Create the function. A call may raise `NotPlainError`, and `CallError` with the caller's sentence."""

    def tool(*args: Any, **kwargs: Any) -> Any:
        given, named = (plain_data(each, f"{name}: an argument") for each in (args, kwargs))
        return host.call("tool", {"name": name, "args": given, "kwargs": named})["value"]

    tool.__name__ = tool.__qualname__ = name
    tool.__module__ = "builtins"
    tool.__doc__ = f"{name}{signature}\n\n{doc}"
    return tool
