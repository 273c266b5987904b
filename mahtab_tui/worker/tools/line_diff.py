"""The lines by which two texts differ, in linear time.

`difflib` needs ten seconds for a file of 50 kB in which every other line has changed. This pairs the
lines that occur once in each text (as "patience diff" does), then their equal neighbours, and
compares all lines with each other only in the small gaps that remain."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_GAP_PAIRS = 2_500
"""What is left of a gap between the equal lines at its two ends is compared if the number of its old
lines times that of its new lines is at most this; otherwise all of it counts as changed."""


class _Block(NamedTuple):
    """Lines that are equal."""

    old_start: int
    new_start: int
    length: int = 1


class _LineRanges(NamedTuple):
    """A part of each text. The ends are exclusive."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def pair_count(self) -> int:
        return (self.old_end - self.old_start) * (self.new_end - self.new_start)


def unified_diff(old: Sequence[str], new: Sequence[str], context_lines: int) -> list[str]:
    """Return the lines of a unified diff, without those that name files.

    Args:
        old: The lines of a text.
        new: The lines of another text.
        context_lines: How many equal lines are shown before and after each change.
    """
    diff: list[str] = []
    for changes in _group(_find_changes(old, new), context_lines):
        first = changes[0]
        last = changes[-1]
        before = min(context_lines, first.old_start)
        after = min(context_lines, len(old) - last.old_end)
        old_range = _format_range(first.old_start - before, last.old_end + after)
        new_range = _format_range(first.new_start - before, last.new_end + after)
        diff.append(f"@@ -{old_range} +{new_range} @@")
        position = first.old_start - before
        for change in changes:
            diff += [f" {line}" for line in old[position : change.old_start]]
            diff += [f"-{line}" for line in old[change.old_start : change.old_end]]
            diff += [f"+{line}" for line in new[change.new_start : change.new_end]]
            position = change.old_end
        diff += [f" {line}" for line in old[position : position + after]]
    return diff


def _format_range(start: int, end: int) -> str:
    """Return the first line and the number of lines, as a unified diff has them."""
    count = end - start
    if count == 1:
        return f"{start + 1}"
    return f"{start + 1 if count else start},{count}"


def _group(changes: Iterable[_LineRanges], context_lines: int) -> Iterator[list[_LineRanges]]:
    """Yield the changes whose equal lines before and after them overlap or touch."""
    group: list[_LineRanges] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * context_lines:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _find_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_LineRanges]:
    """Yield what lies between equal lines."""
    whole = _LineRanges(0, len(old), 0, len(new))
    old_position = 0
    new_position = 0
    for block in [*_find_equal_lines(old, new, whole), _Block(len(old), len(new), 0)]:
        if block.old_start > old_position or block.new_start > new_position:
            yield _LineRanges(old_position, block.old_start, new_position, block.new_start)
        old_position = block.old_start + block.length
        new_position = block.new_start + block.length


def _find_equal_lines(old: Sequence[str], new: Sequence[str], whole: _LineRanges) -> list[_Block]:
    """Return lines that are equal, in order."""
    ends = _find_equal_ends(old, new, whole)
    middle = ends.middle
    blocks = [ends.before]
    old_position = middle.old_start
    new_position = middle.new_start
    for line in _find_unique_lines(old, new, middle):
        gap = _LineRanges(old_position, line.old_start, new_position, line.new_start)
        blocks += _find_gap_lines(old, new, gap)
        blocks.append(line)
        old_position = line.old_start + 1
        new_position = line.new_start + 1
    last_gap = _LineRanges(old_position, middle.old_end, new_position, middle.new_end)
    return [*blocks, *_find_gap_lines(old, new, last_gap), ends.after]


class _EqualEnds(NamedTuple):
    """The equal lines with which two parts begin and end, and what lies between."""

    before: _Block
    middle: _LineRanges
    after: _Block


def _find_equal_ends(old: Sequence[str], new: Sequence[str], part: _LineRanges) -> _EqualEnds:
    old_start, old_end, new_start, new_end = part
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start += 1
        new_start += 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end -= 1
        new_end -= 1
    return _EqualEnds(
        _Block(part.old_start, part.new_start, old_start - part.old_start),
        _LineRanges(old_start, old_end, new_start, new_end),
        _Block(old_end, new_end, part.old_end - old_end),
    )


def _find_unique_lines(old: Sequence[str], new: Sequence[str], part: _LineRanges) -> list[_Block]:
    """Return the most lines that occur once in each part and have the same order in both."""
    old_counts = Counter(old[part.old_start : part.old_end])
    new_counts = Counter(new[part.new_start : part.new_end])
    new_positions = {new[index]: index for index in range(part.new_start, part.new_end)}
    unique_lines: list[_Block] = []
    """In the order of the old text. Below, a line is named by its index in this list."""
    # The longest sequence of them whose new positions increase. The lists are for the sequences of one
    # line, of two lines, and so on.
    smallest_ends: list[int] = []
    """For each length, the smallest new position at which a sequence of that length ends."""
    end_indexes: list[int] = []
    """For each length, the index of the line at that position."""
    previous_indexes: list[int] = []
    """For each line, the index of the one before it in its sequence; -1 for the first."""
    for index in range(part.old_start, part.old_end):
        line = old[index]
        if old_counts[line] != 1 or new_counts[line] != 1:
            continue
        position = new_positions[line]
        earlier_count = bisect_left(smallest_ends, position)
        """The length of the longest sequence that this line continues."""
        # Replaces the end of the sequences with one line more, or appends the first such end.
        smallest_ends[earlier_count : earlier_count + 1] = [position]
        end_indexes[earlier_count : earlier_count + 1] = [len(unique_lines)]
        previous_indexes.append(end_indexes[earlier_count - 1] if earlier_count else -1)
        unique_lines.append(_Block(index, position))

    sequence: list[_Block] = []
    line_index = end_indexes[-1] if end_indexes else -1
    while line_index >= 0:
        sequence.append(unique_lines[line_index])
        line_index = previous_indexes[line_index]
    return sequence[::-1]


def _find_gap_lines(old: Sequence[str], new: Sequence[str], gap: _LineRanges) -> list[_Block]:
    """Return equal lines in a gap between equal lines, in order."""
    ends = _find_equal_ends(old, new, gap)
    common_lines: list[_Block] = []
    if 0 < ends.middle.pair_count <= MAX_GAP_PAIRS:
        common_lines = _find_longest_common_lines(old, new, ends.middle)
    return [ends.before, *common_lines, ends.after]


def _find_longest_common_lines(
    old: Sequence[str], new: Sequence[str], part: _LineRanges
) -> list[_Block]:
    """Return the most lines that are equal and have the same order, by comparing all."""
    old_lines = old[part.old_start : part.old_end]
    new_lines = new[part.new_start : part.new_end]
    # How many lines are common to what follows each pair of positions.
    counts = [[0] * (len(new_lines) + 1) for _ in range(len(old_lines) + 1)]
    for row in reversed(range(len(old_lines))):
        for column in reversed(range(len(new_lines))):
            if old_lines[row] == new_lines[column]:
                counts[row][column] = counts[row + 1][column + 1] + 1
            else:
                counts[row][column] = max(counts[row + 1][column], counts[row][column + 1])

    common_lines: list[_Block] = []
    row = 0
    column = 0
    while row < len(old_lines) and column < len(new_lines):
        if old_lines[row] == new_lines[column]:
            common_lines.append(_Block(part.old_start + row, part.new_start + column))
            row += 1
            column += 1
        elif counts[row + 1][column] >= counts[row][column + 1]:
            row += 1
        else:
            column += 1
    return common_lines
