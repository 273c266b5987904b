"""The functions that code in a sandbox calls: to read its text, to have models read parts of it,
and to answer."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NoReturn

from ..tools.text_tools import LONG_LINE_CHARS, partition_spans
from .engine import AnswerList, EngineHost, Final, SubAnswer, to_answer
from .evidence import MAX_ANSWER_SPANS, EvidenceFinder
from .line_search import compile_pattern, extend_lines, find_matches
from .pieces import Hit, Part, Piece, Source, find_span, piece_spans, to_plain_str
from .value_text import materialize, value_text

MAX_ANSWER_CHARS = 40_000
"""Characters of an answer that code gives with FINAL."""
FUNCTIONS = ("peek", "grep", "partition", "llm", "llm_map", "rlm", "rlm_map", "FINAL")
"""The functions that a model is told about."""
ALIASES = ("llm_query", "llm_query_batched", "rlm_query", "FINAL_VAR", "SUBMIT", "SHOW_VARS")
"""Functions that models call because other programs have them."""
_MAX_PROMPT_CHARS = 20_000
"""A longer prompt contains a text, so that its beginning and its end become the query."""
_QUOTED_PROMPT_CHARS = 2_000
"""Characters of the beginning of such a prompt that become the query, and as many of its end."""
_MAX_SEARCHED_CHARS = 4_000_000_000
"""Maximum characters to read to find where the texts of sub-calls come from; that takes a few
seconds."""
ALL_FUNCTIONS = (*FUNCTIONS, *ALIASES)
"""The methods of `SandboxFunctions` that become functions in a sandbox."""


class SandboxFunctions:
    """The functions for one text. The docstrings of the public ones are written for models."""

    def __init__(
        self, text: str, host: EngineHost, *, numbered: bool, max_answer_chars: int
    ) -> None:
        """Create the functions.

        Args:
            text: The whole text.
            host: Answers the calls.
            numbered: Whether line numbers run through the whole text.
            max_answer_chars: Maximum characters of FINAL.
        """
        self._text = text
        self._host = host
        self._has_line_numbers = numbered
        self._max_answer_chars = max_answer_chars
        self._evidence = EvidenceFinder(text)
        self._has_refused_empty = False
        """Whether an empty answer was refused, which happens once."""
        self._remaining_lookups = _MAX_SEARCHED_CHARS // (len(text) + 1)
        """How many more strings may be looked for in the text."""

    def documents(self, kind: str, parts: Sequence[tuple[str, int, int]]) -> Any:
        """Return parts of the text as a "list", or as a "dict" by their names.

        Args:
            kind: "list" or "dict".
            parts: The name, the start and the end (in characters) of each.
        """
        spans = [(start, end) for _name, start, end in parts]
        sources = [Source(part, part.start, part.line) for part in self._parts(self._text, spans)]
        if kind != "dict":
            return sources
        names = [part[0] for part in parts]
        return dict(zip(names, sources))

    def peek(self, n: int = 2000, start: int = 0, *, text: str | None = None) -> str:
        """Return n characters of the text from start (negative: from the end).

        text: another text to read: peek(s, 500) or peek(500, text=s). Example: print(peek(500, -500)).
        """
        _check_int("peek", "n", n)
        _check_int("peek", "start", start)
        source = self._source("peek", text)
        if start < 0:
            begin = max(0, len(source) + start)
        else:
            begin = min(start, len(source))
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
        max_lines = len(source) + 1  # no text has more lines
        if max_matches is not None:
            _check_int("grep", "max_matches", max_matches)
            max_lines = min(max(0, max_matches), max_lines)
        matches = find_matches(source, compile_pattern(pattern))
        spans = _with_context(source, islice(matches, max_lines), context_lines)
        if next(matches, None) is not None:
            print(
                f"[grep: stopped at max_matches={max_matches:,}; more lines match. max_matches=None returns all]"
            )
        line_parts = self._parts(source, spans)
        self._evidence.remember(line_parts)
        return line_parts

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
        if texts is None:
            queries, texts = _split_pairs(query)
            query = queries
        else:
            queries = [query]
        for question in queries:
            _check_query("llm_map", question)
        parts = [self._part("llm_map", text) for text in _as_texts("llm_map", "texts", texts)]
        return self._ask("llm", parts, query, fan_out=True)

    def FINAL(self, answer: object) -> NoReturn:
        """Give the answer to the query, and end. Any value: a string as it is, lists and dicts as JSON.

        Example: FINAL(f"{len(ids)} requests timed out: {', '.join(ids)}").
        """
        answer = materialize(answer, self._max_answer_chars)
        is_empty = isinstance(answer, (str, list, tuple, dict, set)) and not answer
        if (is_empty or answer is None) and not self._has_refused_empty:
            self._has_refused_empty = True
            raise ValueError(
                f"FINAL got {answer!r}, which is no answer. Search with other words; if nothing is to be found, call FINAL again, or say so in words"
            )
        text = to_plain_str(value_text(answer))
        if len(text) > self._max_answer_chars:
            raise ValueError(
                f"FINAL: the answer has {len(text):,} characters, and {self._max_answer_chars:,} is the most. Give the result instead of the material:"
                " count, filter, shorten, or have llm() condense it; then call FINAL again."
            )
        spans = self._evidence.find(answer, text, self._has_line_numbers)
        self._host.send("final", {"text": text, "spans": spans[:MAX_ANSWER_SPANS]})
        raise Final

    # `ALIASES`. The first three take prompts that contain both query and text.

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
        all_values: list[Any] = [*values, *fields.values()]
        answer: Any = all_values
        if len(all_values) == 1:
            answer = all_values[0]
        elif not values:
            answer = fields
        self.FINAL(answer)

    def SHOW_VARS(self) -> str:
        """Return the names of the variables, with their types."""
        names = sys._getframe(2).f_globals  # beyond the wrapper
        types = {
            name: type(value).__name__
            for name, value in names.items()
            if not name.startswith("_") and name not in ALL_FUNCTIONS
        }
        return f"Available variables: {types}"

    def _source(self, name: str, text: Any) -> str:
        """Return the text that a function is to read. name: the function's."""
        if text is None:
            return self._text
        if isinstance(text, (list, tuple)) and all(isinstance(item, str) for item in text):
            return _subset_text(name, text)
        if not isinstance(text, str):
            raise _wrong_type(name, "text", "a str", text)
        return text

    def _ask(
        self, name: str, parts: list[dict[str, object]], query: Any, *, fan_out: bool
    ) -> list[SubAnswer]:
        """Have the host make sub-calls. query: one for all parts, or a list with one for each."""
        if not parts:
            return []
        if isinstance(query, list):
            query = [*map(str, query)]
        else:
            query = str(query)
        reply = self._host.call(name, {"query": query, "parts": parts, "map": fan_out})
        return AnswerList(map(to_answer, reply["answers"]))

    def _part(self, name: str, subset: object) -> dict[str, object]:
        """Return the text of a sub-call as the host gets it: where it is in the whole text, or else
        the text itself, and where runs of it come from."""
        if spans := piece_spans(subset):
            return {"spans": spans}
        text = _subset_text(name, subset)
        # A piece knows where it is; anything else must be looked for.
        if not isinstance(text, Piece):
            self._remaining_lookups -= 1
        span = None
        if text and self._remaining_lookups >= 0:
            span = find_span(text, self._text)
        if span:
            return {"span": list(span)}
        runs = list(map(list, self._evidence.find_runs(text)))
        if runs:
            return {"text": text, "runs": runs}
        return {"text": text}

    def _parts(self, source: str, spans: Iterable[tuple[int, int]]) -> list[Any]:
        """Return parts of the text, or of another one, that know their position and line.

        Args:
            source: The text, a piece of it, or another one.
            spans: Start and end of each part in the source, in characters.
        """
        kind: type[Part] | type[Hit] = Part
        whole_text = self._text
        offset = 0
        if isinstance(source, Piece) and source is not self._text:
            offset = source.start
        elif source is not self._text:
            kind = Hit
            whole_text = source

        parts: list[Any] = []
        line = 1
        counted_chars = 0
        for source_start, source_end in spans:
            start = source_start + offset
            end = source_end + offset
            # Count line breaks from the part before, unless this one begins earlier.
            if start < counted_chars:
                line = 1
                counted_chars = 0
            line += str.count(whole_text, "\n", counted_chars, start)
            counted_chars = start
            parts.append(kind(str.__getitem__(whole_text, slice(start, end)), start, line))
        return parts


def _query_and_text(prompt: Any) -> tuple[str, str]:
    """Return the query and the text for a prompt that contains both. Anything but a string is
    returned as the query, because the query is checked later."""
    if not isinstance(prompt, str) or len(prompt) <= _MAX_PROMPT_CHARS:
        return prompt, ""
    start = prompt[:_QUOTED_PROMPT_CHARS]
    end = prompt[-_QUOTED_PROMPT_CHARS:]
    query = f"Do what the text asks, which is a prompt. It begins: {start}\n…\nIt ends: {end}"
    return query, prompt


def _split_pairs(argument: Any) -> tuple[list[Any], list[Any]]:
    """Return the queries and the texts of pairs, as `llm_map` takes them. Raises `TypeError`."""
    pairs = _as_texts("llm_map", "the argument", argument)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise TypeError(
            "llm_map takes a query and texts, llm_map(query, [a, b]), or pairs of them: llm_map([(query, a), (other, b)])"
        )
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _with_context(
    source: str, matches: Iterable[tuple[int, int]], context_lines: int
) -> list[tuple[int, int]]:
    """Return the start and end of matching lines, with lines around them. Those that touch are one.

    Args:
        source: The text.
        matches: The start and end of each matching line, or of a part of a long one.
        context_lines: Lines before and after each; 0 or less for none.
    """
    if context_lines <= 0:
        return list(matches)
    spans: list[tuple[int, int]] = []
    for start, end in matches:
        if end - start > LONG_LINE_CHARS:
            spans.append((start, end))
            continue
        first, last = extend_lines(source, start, end, context_lines)
        if spans and first <= spans[-1][1] + 1:
            first = spans.pop()[0]
        spans.append((first, last))
    return spans


def _check_int(name: str, argument: str, value: object) -> None:
    """Raise `TypeError` if an argument is not a whole number. name: the function's name."""
    if not isinstance(value, int):
        raise _wrong_type(name, argument, "a whole number", value)


def _as_texts(name: str, argument: str, texts: Any) -> list[Any]:
    """Return an argument as a list. Raises `TypeError`. name: the function's name."""
    if isinstance(texts, str):
        single = name.replace("_map", "")
        raise TypeError(
            f"{name} takes several texts: {name}(query, [a, b]). For one text use {single}(query, text)"
        )
    try:
        return list(texts.values() if isinstance(texts, dict) else texts)
    except TypeError:
        raise _wrong_type(name, argument, "a list of strings", texts) from None


def _check_query(name: str, query: object) -> None:
    """Raise `TypeError` or `ValueError` if a query is not a text. name: the function's name."""
    if not isinstance(query, str):
        raise _wrong_type(name, "query", "the question, a str", query)
    if not query.strip():
        raise ValueError(f"{name}: query is empty")


def _subset_text(name: str, value: object) -> str:
    """Return the text for a sub-call. Raises TypeError, with the function's name."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(item.rstrip("\n") for item in value)
    if isinstance(value, (list, tuple, dict, set, frozenset, int, float)):
        return value_text(value)
    raise TypeError(
        f"{name} reads a text: give a str (a part of context, or text of your own), not {_type_name(value)}"
    )


def _wrong_type(name: str, argument: str, expected: str, value: object) -> TypeError:
    """Return the error for an argument of another type. name: the function's."""
    return TypeError(f"{name}: {argument} must be {expected}, not {_type_name(value)}")


def _type_name(value: object) -> str:
    if value is None:
        return "None"
    return type(value).__name__
