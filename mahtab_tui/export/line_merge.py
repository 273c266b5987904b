"""Merges the changes of a program into a text that its user has formatted, by lines.

The library that reads a notebook from a text writes it in a format of its own. Three texts are
compared: the user's, the same content as the library writes it, and the library's text with new
content. Lines that are new come from the last, all others from the user's:

    original      read          new           merged
    #%%           # %%          # %%          #%%
    x=1           x=1           x=2           x=2
    #%%           # %%          # %%          #%%
    y             y             y             y
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_COMPARED_LINES = 3_000
MAX_REPEATED_PAIRS = 2_500
"""Pairs of equal lines in two passages without unique lines, such as 50 blank lines in each. With
more, the passages count as different, because comparing them takes cubic time."""


class LineReplacement(NamedTuple):
    """A passage of a text that has other lines in another text."""

    start: int
    """Index of its first line."""
    end: int
    """Index after its last line; the same as `start` if lines are only added."""
    lines: list[str]
    """The lines of the other text."""


class LinePair(NamedTuple):
    """A line that two texts have in common, by its index in each."""

    old: int
    new: int


class _Passages(NamedTuple):
    """A passage of each of two texts, by the indices of lines."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def preserve_lines(original: str, read_text: str, new_text: str) -> str:
    """Return a new text with the lines of the original where nothing has changed.

    Args:
        original: The file's text, which the user has formatted.
        read_text: The original's content, as the library writes it.
        new_text: The new content, as the library writes it.
    """
    if new_text == read_text:
        return original
    if original and not original.endswith("\n"):
        # Without its newline, the last line would run into one that is added after it.
        return preserve_lines(f"{original}\n", read_text, new_text).removesuffix("\n")
    original_lines = original.splitlines(keepends=True)
    read_lines = read_text.splitlines(keepends=True)
    new_lines = new_text.splitlines(keepends=True)
    line_count = max(len(original_lines), len(read_lines), len(new_lines))
    if original_lines == read_lines or line_count > MAX_COMPARED_LINES:
        return new_text

    formatting = find_replacements(read_lines, original_lines)
    merged_lines: list[str] = []
    position = 0
    for change in find_replacements(read_lines, new_lines):
        merged_lines += _formatted_lines(read_lines, formatting, position, change.start)
        merged_lines += change.lines
        position = change.end
    merged_lines += _formatted_lines(read_lines, formatting, position, len(read_lines))
    return "".join(merged_lines)


def find_replacements(old: Sequence[str], new: Sequence[str]) -> list[LineReplacement]:
    """Return what turns the lines of one text into those of another, in order."""
    replacements: list[LineReplacement] = []
    old_position = 0
    new_position = 0
    for old_index, new_index in [*match_lines(old, new), (len(old), len(new))]:
        if old_position < old_index or new_position < new_index:
            new_lines = list(new[new_position:new_index])
            replacements.append(LineReplacement(old_position, old_index, new_lines))
        old_position = old_index + 1
        new_position = new_index + 1
    return replacements


def match_lines(old: Sequence[str], new: Sequence[str]) -> list[LinePair]:
    """Return which lines of a text are which of another, as pairs of indices that both grow.

    This is Bram Cohen's patience diff: lines that are unique in both texts divide them into
    passages, which are compared in the same way.
    """
    matches: list[LinePair] = []
    waiting = [_Passages(0, len(old), 0, len(new))]
    while waiting:
        passages = waiting.pop()
        split = _split_equal_ends(old, new, passages)
        matches += split.equal_ends
        passages = split.middle
        anchors = _longest_increasing(_unique_pairs(old, new, passages))
        if not anchors:
            matches += _match_repeated(old, new, passages)
            continue
        old_start = passages.old_start
        new_start = passages.new_start
        for old_index, new_index in [*anchors, (passages.old_end, passages.new_end)]:
            waiting.append(_Passages(old_start, old_index, new_start, new_index))
            old_start = old_index + 1
            new_start = new_index + 1
        matches += anchors
    return sorted(matches)


class _SplitPassages(NamedTuple):
    """Two passages without their equal ends."""

    equal_ends: list[LinePair]
    """The indices of the equal lines at the start and the end, in pairs."""
    middle: _Passages
    """The lines between them."""


def _split_equal_ends(
    old: Sequence[str], new: Sequence[str], passages: _Passages
) -> _SplitPassages:
    """Split off the equal lines at the start and the end of two passages."""
    old_start, old_end, new_start, new_end = passages
    pairs: list[LinePair] = []
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        pairs.append(LinePair(old_start, new_start))
        old_start += 1
        new_start += 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end -= 1
        new_end -= 1
        pairs.append(LinePair(old_end, new_end))
    middle = _Passages(old_start, old_end, new_start, new_end)
    return _SplitPassages(pairs, middle)


def _unique_pairs(
    old: Sequence[str], new: Sequence[str], passages: _Passages
) -> Iterator[LinePair]:
    """Yield the pairs of equal lines that are unique in both passages, in the order of the old."""
    old_counts = Counter(old[passages.old_start : passages.old_end])
    new_counts = Counter(new[passages.new_start : passages.new_end])
    new_indices = {new[index]: index for index in range(passages.new_start, passages.new_end)}
    for old_index in range(passages.old_start, passages.old_end):
        line = old[old_index]
        if old_counts[line] == 1 and new_counts[line] == 1:
            yield LinePair(old_index, new_indices[line])


def _longest_increasing(pairs: Iterable[LinePair]) -> list[LinePair]:
    """Return the most pairs whose second indices grow, too, by patience sorting."""
    smallest_ends: list[int] = []
    """The smallest second index at which a run of one, two, … pairs ends."""
    ends: list[LinePair] = []
    """The last pairs of these runs."""
    previous_pairs: dict[LinePair, LinePair] = {}
    for pair in pairs:
        length = bisect_left(smallest_ends, pair.new)
        if length:
            previous_pairs[pair] = ends[length - 1]
        smallest_ends[length : length + 1] = [pair.new]
        ends[length : length + 1] = [pair]

    longest: list[LinePair] = []
    pair_or_none = ends[-1] if ends else None
    while pair_or_none is not None:
        longest.append(pair_or_none)
        pair_or_none = previous_pairs.get(pair_or_none)
    return longest[::-1]


def _match_repeated(
    old: Sequence[str], new: Sequence[str], passages: _Passages
) -> Iterator[LinePair]:
    """Yield the pairs of equal lines of two passages that have no unique lines in common."""
    old_lines = old[passages.old_start : passages.old_end]
    new_lines = new[passages.new_start : passages.new_end]
    new_counts = Counter(new_lines)
    if sum(new_counts[line] for line in old_lines) > MAX_REPEATED_PAIRS:
        return
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            old_index = passages.old_start + block.a + offset
            yield LinePair(old_index, passages.new_start + block.b + offset)


def _formatted_lines(
    read_lines: Sequence[str], formatting: Sequence[LineReplacement], start: int, end: int
) -> Iterator[str]:
    """Yield unchanged lines, as the user has formatted them."""
    if start == end:
        return
    position = start
    first = bisect_left(formatting, start, key=lambda replacement: replacement.start)
    for replacement in formatting[first:]:
        if replacement.start > end:
            break
        # Lines that only the original has lie between two others: they belong to the later.
        is_earlier = replacement.start < end or end == len(read_lines)
        if is_earlier and replacement.end <= end:
            yield from read_lines[position : replacement.start]
            yield from replacement.lines
            position = replacement.end
    yield from read_lines[position:end]
