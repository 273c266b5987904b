"""The names that code in a sandbox has: its text, functions to read it, sub-calls, and FINAL."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from re import Pattern
from typing import Any, Callable, NoReturn

from ..text_tools import LONG_LINE, cuts
from .aliases import ALIASES, Aliases
from .evidence import EvidenceFinder
from .host import EngineHost
from .lines import compile_pattern, matching_lines, surroundings, widened
from .parts import (
    Failure,
    Final,
    Part,
    Piece,
    Source,
    SubAnswer,
    answer_of,
    place_of,
    places_of,
    plain,
)
from .read_tracker import MOST_A_CALL, ReadTracker
from .tools import tool_function
from .wording import ANSWER_LIMIT, readable, subset_text, with_items, wrong_type

__all__ = [
    "ANSWER_LIMIT",
    "FUNCTIONS",
    "Failure",
    "Final",
    "Part",
    "SandboxFunctions",
    "SubAnswer",
    "make_names",
]

_LOOKED_UP = 4_000_000_000
"""Characters of the text that are read to find where the texts of sub-calls are from, which takes a few seconds."""

FUNCTIONS = ("peek", "grep", "partition", "llm", "llm_map", "rlm", "rlm_map", "FINAL")


def make_names(
    text: str,
    kind: str,
    parts: Sequence[tuple[str, int, int]],
    host: EngineHost,
    longest_answer: int = ANSWER_LIMIT,
    *,
    contexts: Sequence[Any] = (),
    tools: Sequence[tuple[str, str, str]] = (),
    touches: ReadTracker | None = None,
) -> dict[str, object]:
    """Make the names for one text.

    kind: of `context`: "str", or "list" or "dict" of `Part`. parts: name, start and end of each document of a list or dict.
    longest_answer: the most characters of FINAL. contexts: name, kind, start, end and parts of each of the caller's contexts, if they have
    names. tools: name, signature and documentation of the functions that the caller answers. touches: what reports the parts that are seen.
    """
    touches = touches or ReadTracker(host)
    functions = SandboxFunctions(text, host, kind == "str", longest_answer, touches)
    names: dict[str, object] = {name: _as_function(getattr(functions, name)) for name in FUNCTIONS}
    aliases = Aliases(functions)
    names.update({name: _as_function(getattr(aliases, name)) for name in ALIASES})
    if kind == "str":
        names["context"] = (
            text.reporting(touches) if isinstance(text, Source) else Source.of(text, touches)
        )
    else:
        names["context"] = whole = functions.documents(kind, parts)
        for name, its_kind, _, _, its_parts, _ in contexts:
            names[name] = (
                whole[name] if its_kind == "str" else functions.documents(its_kind, its_parts)
            )
    names.update(
        {name: tool_function(host, name, signature, doc) for name, signature, doc in tools}
    )
    return names


class SandboxFunctions:
    """The functions that code can call on its text."""

    def __init__(
        self, text: str, host: EngineHost, numbered: bool, longest_answer: int, touches: ReadTracker
    ) -> None:
        """numbered: whether line numbers run through the whole text. longest_answer: the most characters of FINAL."""
        self._text = text
        self._host = host
        self._numbered = numbered
        self._longest_answer = longest_answer
        self._touches = touches
        self._evidence = EvidenceFinder(text)
        self._lookups = _LOOKED_UP // (len(text) + 1)

    def documents(self, kind: str, parts: Sequence[tuple[str, int, int]]) -> Any:
        """Return the documents of a text as a list or a dict."""
        found = [
            Source.of(part, self._touches, part.start, part.line)
            for part in self._parts((start, end) for _, start, end in parts)
        ]
        return dict(zip((name for name, _, _ in parts), found)) if kind == "dict" else found

    def peek(self, n: int = 2000, start: int = 0) -> Part:
        """Return n characters of the text from a start (negative: from the end). Example: print(peek(500, -500))."""
        if isinstance(n, str):
            raise TypeError(
                "peek reads the text itself: peek(n, start). Slice another string: s[:500]"
            )
        _whole("peek", "n", n)
        _whole("peek", "start", start)
        begin = max(0, len(self._text) + start) if start < 0 else min(start, len(self._text))
        part = self._parts([(begin, min(len(self._text), begin + max(0, n)))])[0]
        self._touches.tell("peek", [(part.start, part.end)])
        self._evidence.remember([part])
        return part

    def grep(
        self, pattern: str, context_lines: int = 0, max_matches: int | None = 100
    ) -> list[Part]:
        r"""Return the lines that match a regular expression, as a list of strings, each with .line (its number), .start and .end.

        context_lines: lines before and after each match; matches that are near each other then come as one string of several lines.
        max_matches: how many matching lines at the most (None: all); where there are more, a line says so.
        Matching is by line; a pattern with \n in it matches across lines. (?i) at its start ignores case.
        Of a line of more than 10,000 characters it returns what stands around each match.
        Example: for hit in grep(r"(?i)error|fatal", max_matches=20): print(hit.line, hit).
        """
        if isinstance(context_lines, (str, re.RegexFlag)):
            raise TypeError(
                "grep searches the text itself: grep(pattern, context_lines, max_matches). For flags write (?i) at the pattern's start"
            )
        _whole("grep", "context_lines", context_lines)
        most = len(self._text) + 1 if max_matches is None else max_matches
        _whole("grep", "max_matches", most)
        places: list[tuple[int, int]] = []
        for count, (start, end) in enumerate(self._matches(compile_pattern(pattern)), 1):
            if count > most:
                print(
                    f"[grep: stopped at max_matches={max_matches:,}; more lines match. max_matches=None returns all]"
                )
                break
            if context_lines > 0 and end - start <= LONG_LINE:
                start, end = widened(self._text, start, end, context_lines)
                if places and start <= places[-1][1] + 1:
                    start = places.pop()[0]
            places.append((start, end))
        self._touches.tell("grep", places)
        found = self._parts(places)
        self._evidence.remember(found)
        return found

    def partition(self, n: int = 10) -> list[Part]:
        """Cut the text into at most n parts of about the same size, at the ends of lines; joined, they are the text again.

        Example: parts = partition(20).
        """
        if isinstance(n, str):
            raise TypeError("partition cuts the text itself: partition(n)")
        _whole("partition", "n", n)
        if n < 1:
            raise ValueError(f"partition: n must be at least 1, not {n}")
        return self._parts(cuts(self._text, n))

    def rlm(self, query: str, subset: str) -> SubAnswer:
        """Have a model that works as you do, with code and several calls, answer a query about one part.

        Example: print(rlm("Which requests failed, and why?", context[:3_000_000])).
        """
        _query("rlm", query)
        return self._ask("rlm", [self._part("rlm", subset)], query, fan_out=False)[0]

    def rlm_map(self, query: str, subsets: Iterable[str]) -> list[SubAnswer]:
        """Ask the same as rlm of each of several parts, all at once; the answers are in the order of the parts.

        Example: found = rlm_map("Which users are named?", partition(4)).
        """
        _query("rlm_map", query)
        parts = [
            self._part("rlm_map", subset) for subset in _several("rlm_map", "subsets", subsets)
        ]
        return self._ask("rlm", parts, query, fan_out=True) if parts else []

    def llm(self, query: str, text: str = "") -> SubAnswer:
        """Have a model read a text, any string, and return its answer, a string; .failed is True if it says why there is none.

        It sees only the query and the text, so say in the query all that it must know, and which form the answer should have.
        Example: print(llm("Write these findings as one paragraph", "\\n".join(found))).
        """
        _query("llm", query)
        part = self._part("llm", text)
        self._touches.flush()
        reply = self._host.call(
            "llm", {"query": str(query), "part": None if part == {"text": ""} else part}
        )
        return answer_of(reply["answers"][0])

    def llm_map(self, query: Any, texts: Iterable[str] | None = None) -> list[SubAnswer]:
        """Have each of several texts read, all at once, and return the answers in the order of the texts: one call for each.

        Instead of one query, each text may have its own: llm_map([(query, text), ...]).
        Example: labels = llm_map("Label each line: <its number> <spam or ham>", partition(20)).
        """
        if texts is None:
            return self._ask_each(_several("llm_map", "the argument", query))
        _query("llm_map", query)
        parts = [self._part("llm_map", text) for text in _several("llm_map", "texts", texts)]
        return self._ask("llm_map", parts, query, fan_out=True) if parts else []

    def FINAL(self, answer: object) -> NoReturn:
        """Give the answer to the query, and end. Any value: a string as it is, lists and dicts as JSON, a generator as its items.

        Example: FINAL(f"{len(ids)} requests timed out: {', '.join(ids)}").
        """
        answer = with_items(answer, self._longest_answer)
        text = plain(readable(answer))
        if len(text) > self._longest_answer:
            raise ValueError(
                f"FINAL: the answer has {len(text):,} characters, and {self._longest_answer:,} is the most. Give the result instead of the material:"
                " count, filter, shorten, or have llm() condense it; then call FINAL again."
            )
        places = self._evidence.find(answer, text, self._numbered)
        self._touches.flush()
        self._host.tell("final", {"text": text, "spans": places[:MOST_A_CALL]})
        raise Final

    def _matches(self, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yield matching lines, and of long ones the parts around the matches."""
        for start, end in matching_lines(self._text, pattern):
            if end - start > LONG_LINE:
                yield from surroundings(self._text, pattern, start, end)
            else:
                yield start, end

    def _ask_each(self, pairs: list[Any]) -> list[SubAnswer]:
        """Ask a query of its own about each text."""
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
            raise TypeError(
                "llm_map takes a query and texts, llm_map(query, [a, b]), or pairs of them: llm_map([(query, a), (other, b)])"
            )
        for query, _ in pairs:
            _query("llm_map", query)
        parts = [self._part("llm_map", text) for _, text in pairs]
        return (
            self._ask("llm_map", parts, [str(query) for query, _ in pairs], fan_out=True)
            if parts
            else []
        )

    def _ask(
        self, name: str, parts: list[dict[str, object]], query: Any, *, fan_out: bool
    ) -> list[SubAnswer]:
        self._touches.flush()
        reply = self._host.call(
            name,
            {
                "query": query if isinstance(query, list) else str(query),
                "parts": parts,
                "map": fan_out,
            },
        )
        return [answer_of(answer) for answer in reply["answers"]]

    def _part(self, name: str, subset: object) -> dict[str, object]:
        """Return a text for a sub-call, as its place in the text if it has one, so that it need not be sent."""
        if places := places_of(subset):
            return {"spans": places}
        text = subset_text(name, subset)
        self._lookups -= not isinstance(text, Piece)
        place = place_of(text, self._text) if text and self._lookups >= 0 else None
        return {"span": list(place)} if place else {"text": text}

    def _parts(self, places: Iterable[tuple[int, int]]) -> list[Part]:
        """Return places as parts. Line numbers are counted on from one to the next."""
        parts: list[Part] = []
        line, counted = 1, 0
        for start, end in places:
            if start < counted:
                line, counted = 1, 0
            line += self._text.count("\n", counted, start)
            counted = start
            parts.append(Part(str.__getitem__(self._text, slice(start, end)), start, line))
        return parts


def _as_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method as a function whose help and errors show it without `self` and annotations."""
    signature = SIGNATURES[method.__name__]

    @wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
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


def _shown_signature(method: Callable[..., Any]) -> inspect.Signature:
    _, *parameters = inspect.signature(method).parameters.values()
    return inspect.Signature(
        [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    )


SIGNATURES = {
    **{name: _shown_signature(getattr(SandboxFunctions, name)) for name in FUNCTIONS},
    **{name: _shown_signature(getattr(Aliases, name)) for name in ALIASES},
}
"""Made when the module is loaded, which the fork server does once, and not in each sandbox."""


def _whole(name: str, argument: str, value: object) -> None:
    if not isinstance(value, int):
        raise wrong_type(name, argument, "a whole number", value)


def _several(name: str, argument: str, texts: Any) -> list[Any]:
    """Return several texts as a list; of a dict, its values."""
    if isinstance(texts, str):
        single = name.replace("_map", "")
        raise TypeError(
            f"{name} takes several texts: {name}(query, [a, b]). For one text use {single}(query, text)"
        )
    try:
        return list(texts.values() if isinstance(texts, dict) else texts)
    except TypeError:
        raise wrong_type(name, argument, "a list of strings", texts) from None


def _query(name: str, query: object) -> None:
    if not isinstance(query, str):
        raise wrong_type(name, "query", "the question, a str", query)
    if not query.strip():
        raise ValueError(f"{name}: query is empty")
