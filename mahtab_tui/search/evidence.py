"""Finds the places of a text on which an answer rests that was made from answers of sub-calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from mahtab_tui.sandbox.base import Text, TextSpan
from mahtab_tui.search.requests import is_quoted
from mahtab_tui.worker.sandbox.text import answer_values, find_once, stands_in

_SHORTEST_QUOTE = 16
"""Characters of a sub-call's answer that is looked for in the answer as a whole; shorter ones stand
in many answers by chance."""
_MOST_ANSWERS = 5_000_000
"""Characters of answers that are looked through, about a second."""
_READ = 200_000_000
"""Characters of the text that are read to find the places of one answer, a fifth of a second."""
_CALL = 200
"""Characters that are read in the time in which a text is begun."""


class SubAnswers:
    """The answers of a node's sub-calls, and what they rest on."""

    def __init__(self, text: Text) -> None:
        """text: of the node."""
        self._text = text
        self._spans: dict[str, Sequence[TextSpan]] = {}
        """The parts of the root's text on which each answer rests; none if equal answers rest on
        different ones."""
        self._read: list[tuple[str, Sequence[TextSpan]]] = []
        """Each answer with the parts of the node's text that its sub-call has read."""

    def add(self, answer: str, spans: Sequence[TextSpan], read: Sequence[TextSpan]) -> None:
        """Add an answer. spans: of the root's text, on which it rests. read: spans of the node's
        text."""
        if self._spans.setdefault(answer, spans) != spans:
            self._spans[answer] = ()
        if read:
            self._read.append((answer, read))

    def evidence(self, answer: str) -> list[TextSpan]:
        """Return the spans of the root's text on which the node's answer rests: what the answers in
        it rest on, and the places of single values from them, which code may have put together
        anew."""
        found = self._text.to_root(list(self._value_spans(answer)))
        for each, spans in islice(self._spans.items(), 5 * _READ // (len(answer) + 1)):
            if spans and (
                each.strip() == answer.strip()
                or (len(each) >= _SHORTEST_QUOTE and is_quoted(each, answer))
            ):
                found += spans
        return found

    def _value_spans(self, answer: str) -> Iterator[TextSpan]:
        """Yield the places of the values that stand in the answer and in one of a sub-call, and
        exactly once in what that sub-call has read; but not of those which sub-calls have from
        different places, of which it is unknown which one is meant."""
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
        """Return the values that stand in the answer and in one of a sub-call, and what each such
        sub-call has read. Where there is too much to look for all of them, only those that both
        give as values."""
        if sum(len(each) for each, _ in self._read) > _MOST_ANSWERS:
            return {}
        wanted = set(answer_values(answer))
        given = [(each, set(answer_values(each)), read) for each, read in self._read]
        thorough = (
            sum(
                len(wanted) * (len(each) + _CALL) + len(own) * (len(answer) + _CALL)
                for each, own, _ in given
            )
            < _READ
        )
        values = set(wanted)
        if thorough:
            values.update(value for _, own, _ in given for value in own if stands_in(value, answer))
        shared: dict[str, list[Sequence[TextSpan]]] = {}
        for each, own, read in given:
            found = {value for value in values if stands_in(value, each)} if thorough else own
            for value in found & values:
                shared.setdefault(value, []).append(read)
        return shared
