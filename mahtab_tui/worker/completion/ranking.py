"""Lists the candidates that fit a typed text, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Any, NamedTuple

from .candidates import Candidate

MAX_COMPLETIONS = 200
"""Candidates that are listed; the others are counted."""

# How well a candidate fits what is typed, best first.
_EQUAL = 0
_BEGINS = 1
_BEGINS_IN_OTHER_CASE = 2
_HAS_LETTERS = 3


class _Rank(NamedTuple):
    """By which candidates are sorted."""

    is_special: bool
    """Whether its name begins with two underscores that are not typed."""
    fit: int
    """One of the constants above."""
    letters_end: int
    """Where the last typed letter is in it, if it only has the letters."""
    order: int
    lower_label: str
    label: str
    number: int
    """Its number; of several completions with the same label, the first one counts."""


def list_best(candidates: Iterable[Candidate], stem: str, start: int) -> dict[str, Any]:
    """Return the best matches, and the number of others.

    Args:
        candidates: What may complete the stem.
        stem: The typed text.
        start: Where it begins in the code, in characters.
    """
    matches = _MatchingCandidates(candidates, stem)
    # Not sorted as a whole: ten thousand live tuples would start the garbage collector.
    best = nsmallest(MAX_COMPLETIONS, matches)
    by_label: dict[str, Candidate] = {}
    for _, candidate in best:
        by_label.setdefault(candidate.label, candidate)

    items = []
    for candidate in by_label.values():
        kind, doc = candidate.describe()
        text = candidate.label if candidate.text is None else candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": matches.count - len(items)}


class _MatchingCandidates:
    """The candidates that fit a typed text, with their ranks; `count` is their number afterwards."""

    def __init__(self, candidates: Iterable[Candidate], stem: str) -> None:
        self._candidates = candidates
        self._stem = stem
        self._lower_stem = stem.lower()
        self.count = 0

    def __iter__(self) -> Iterator[tuple[_Rank, Candidate]]:
        for number, candidate in enumerate(self._candidates):
            rank = self._rank(candidate, number)
            if rank is not None:
                self.count += 1
                yield rank, candidate

    def _rank(self, candidate: Candidate, number: int) -> _Rank | None:
        """Return the place of a candidate in the list; None if it does not fit.

        Private names are listed once an underscore is typed; names with two come last, until two
        are typed.
        """
        label = candidate.label
        is_private = candidate.is_name and label.startswith("_")
        if is_private and not self._stem.startswith("_"):
            return None

        lower_label = label.lower()
        letters_end = 0
        if label.startswith(self._stem):
            fit = _EQUAL if label == self._stem else _BEGINS
        elif lower_label.startswith(self._lower_stem):
            fit = _BEGINS_IN_OTHER_CASE
        elif len(self._stem) > 1 and (
            letters_end := _end_of_letters(self._lower_stem, lower_label)
        ):
            fit = _HAS_LETTERS
        else:
            return None
        is_special = is_private and label.startswith("__") and not self._stem.startswith("__")
        return _Rank(is_special, fit, letters_end, candidate.order, lower_label, label, number)


def _end_of_letters(letters: str, label: str) -> int:
    """Return where the last of some letters is in a label that has all of them in this order, at its
    end; 0 if it has not."""
    end = 0
    for letter in letters:
        end = label.find(letter, end) + 1
        if not end:
            break
    return end
