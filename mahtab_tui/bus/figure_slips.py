"""Figures with a slip: which other figures one may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

_MIN_NEAR_DIGITS = 3
"""The least digits of a figure for one wrong digit to be a slip; with two, any number is near."""
_MIN_LENGTH_CHANGE_DIGITS = 4
"""The least digits of a figure for a lost or doubled digit to be a slip."""


def wrong_digits(text: str) -> Iterator[str]:
    """Yield the texts that may have been meant by a figure with a slip, the nearest first.

    They differ from it by one digit, or by two neighbouring digits that were swapped; those of long
    figures also by a digit that was lost or doubled.
    """
    positions = [index for index, char in enumerate(text) if char.isdecimal()]
    significant_digits = "".join(text[index] for index in positions).lstrip("0")
    if len(significant_digits) < _MIN_NEAR_DIGITS:
        return
    yield from _with_swapped_digits(text, positions)
    # A wrong first digit makes another number, rather than a slip.
    yield from _with_other_digits(text, positions[1:])
    # In a figure with separators, a lost digit would show.
    has_only_digits = len(positions) == len(text)
    if len(significant_digits) >= _MIN_LENGTH_CHANGE_DIGITS and has_only_digits:
        for index in positions:
            yield text[:index] + text[index + 1 :]
            yield text[:index] + text[index] + text[index:]


def _with_swapped_digits(text: str, positions: Sequence[int]) -> Iterator[str]:
    """Yield a text with each two neighbouring digits swapped, which stand at these positions."""
    for first, second in pairwise(positions):
        if text[first] != text[second]:
            # Between the two may stand a separator.
            separator = text[first + 1 : second]
            swapped = f"{text[second]}{separator}{text[first]}"
            yield f"{text[:first]}{swapped}{text[second + 1 :]}"


def _with_other_digits(text: str, positions: Sequence[int]) -> Iterator[str]:
    """Yield a text with another digit at one of these positions, the nearest digits first."""
    for distance in range(1, 10):
        for index in positions:
            for digit in (int(text[index]) - distance, int(text[index]) + distance):
                if 0 <= digit <= 9:
                    yield f"{text[:index]}{digit}{text[index + 1 :]}"
