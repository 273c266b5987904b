"""Finds the places of a text on which an answer rests, by the answers of sub-calls."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from mahtab_tui.sandbox.searched_text import SearchedText, TextSpan
from mahtab_tui.worker.sandbox.answer_values import answer_values, find_once, stands_in

_MIN_QUOTE_CHARS = 16
"""A shorter answer of a sub-call is not looked for as a whole: it would match by chance."""
_MAX_ANSWER_CHARS = 5_000_000
"""Characters of sub-calls' answers to search, about a second."""
_MAX_READ_CHARS = 200_000_000
"""Characters of the text to read for one answer, a fifth of a second."""
_SEARCH_COST_CHARS = 200
"""Cost of starting to search a text, in characters."""
_MAX_SPANS = 1_000
"""Places of an answer that rests on all sub-calls."""
_NUMBER = re.compile(r"-?\d[\d,]{0,30}(\.\d{1,30})?")


def is_quoted(words: str, answer: str) -> bool:
    """Return whether words are an answer or stand in it, perhaps as a string of JSON.

    One or two characters are one only if they are all of it.
    """
    words = words.strip()
    if len(words) <= 2:
        return bool(words) and words == answer.strip()
    as_json = json.dumps(words, ensure_ascii=False)[1:-1]
    return stands_in(words, answer) or stands_in(as_json, answer)


class _ReadAnswer(NamedTuple):
    """A sub-call's answer, and what it has read of the node's text."""

    answer: str
    spans: Sequence[TextSpan]


class SubAnswers:
    """The answers of a node's sub-calls, what they rest on, and what they have read."""

    def __init__(self, text: SearchedText) -> None:
        self._text = text
        self._spans: dict[str, Sequence[TextSpan]] = {}
        """Parts of the root's text; none if equal answers rest on different ones."""
        self._read: list[_ReadAnswer] = []
        """Answers of sub-calls that have read parts of the node's text."""

    def add(self, answer: str, spans: Sequence[TextSpan], read_spans: Sequence[TextSpan]) -> None:
        """Add an answer.

        Args:
            answer: A sub-call's answer.
            spans: Parts of the root's text on which it rests.
            read_spans: Parts of the node's text that the sub-call has read.
        """
        if self._spans.setdefault(answer, spans) != spans:
            self._spans[answer] = ()
        if read_spans:
            self._read.append(_ReadAnswer(answer, read_spans))

    def evidence(self, answer: str) -> list[TextSpan]:
        """Return the spans of the root's text on which the node's answer rests.

        A number with no place of its own is computed, and rests on all that the sub-calls quote.
        """
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
        if sum(len(read.answer) for read in self._read) > _MAX_ANSWER_CHARS:
            return {}

        own_values = set(answer_values(answer))
        sub_values = [set(answer_values(read.answer)) for read in self._read]
        is_thorough = self._matching_effort(answer, own_values, sub_values) < _MAX_READ_CHARS
        candidates = set(own_values)
        if is_thorough:
            for values in sub_values:
                candidates.update(value for value in values if stands_in(value, answer))

        shared: dict[str, list[Sequence[TextSpan]]] = {}
        for read, values in zip(self._read, sub_values, strict=True):
            matching = values & candidates
            if is_thorough:
                matching = {value for value in candidates if stands_in(value, read.answer)}
            for value in matching:
                shared.setdefault(value, []).append(read.spans)
        return shared

    def _matching_effort(
        self, answer: str, own_values: Set[str], sub_values: Sequence[Set[str]]
    ) -> int:
        """Return about how many characters are read to look for each value in each answer, which
        takes the product of their lengths."""
        effort = 0
        for read, values in zip(self._read, sub_values, strict=True):
            effort += len(own_values) * (len(read.answer) + _SEARCH_COST_CHARS)
            effort += len(values) * (len(answer) + _SEARCH_COST_CHARS)
        return effort
