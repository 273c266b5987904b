"""The process that searches a project's source.

A search is a process of its own, because it can be killed if a regular expression backtracks
endlessly: a JSON request on stdin, JSON lines on stdout.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.project_files import is_wanted, source_files, visible_files
from mahtab_tui.knowledge.ripgrep import find_candidates
from mahtab_tui.knowledge.text_decoding import split_lines

FILES_BEFORE_RIPGREP = 300
"""Files that are searched without it, because a search for a common word, or of a small folder, ends
sooner."""
MAX_LINE_CHARS = 500
"""Longer lines are cut."""


class SearchRequest(TypedDict):
    """What to search."""

    folder: str
    pattern: str
    """A regular expression."""
    file_pattern: str
    """A pattern for names or, with a slash, for paths."""
    context_lines: int
    """Lines before and after each match."""
    ignore_case: bool
    limit: int
    """Matches after which the search ends."""
    encoding: str | None
    """The encoding of all files; None detects it."""


class Match(NamedTuple):
    """A line that matches, with the lines around it. It is written as a JSON list."""

    path: str
    """Relative to the folder, with slashes."""
    line: int
    """The number of the line, from 1."""
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> Match:
        """Return a match that the process has written."""
        path, line, text, before, after = fields
        return cls(path, line, text, tuple(before), tuple(after))


def find_matches(request: SearchRequest) -> Iterator[Match]:
    """Yield the matches in the order of the files."""
    confined = ConfinedFolder(request["folder"])
    flags = re.IGNORECASE if request["ignore_case"] else 0
    pattern = re.compile(request["pattern"], flags)
    remaining = request["limit"]
    for path in _files_to_search(request):
        if not is_wanted(path, request["file_pattern"]):
            continue
        try:
            text = confined.read_text(path, encoding=request["encoding"])
        except ConfinedFolderError:  # it is binary, too large, or gone
            continue

        lines = split_lines(text)
        for index, line in enumerate(lines):
            if remaining <= 0:
                return
            if pattern.search(line):
                remaining -= 1
                yield _make_match(path, lines, index, request["context_lines"])


def _make_match(path: str, lines: Sequence[str], index: int, context_lines: int) -> Match:
    """Return the match of a line.

    Args:
        index: Its place in the lines of its file, from 0.
    """
    lines_before = lines[max(0, index - context_lines) : index]
    lines_after = lines[index + 1 : index + 1 + context_lines]
    return Match(
        path,
        index + 1,
        _cut(lines[index]),
        tuple(map(_cut, lines_before)),
        tuple(map(_cut, lines_after)),
    )


def _files_to_search(request: SearchRequest) -> Iterator[str]:
    """Yield the files of a search. After the first ones, ripgrep says which are worth reading."""
    folder = Path(request["folder"])
    files = source_files(folder)
    first_files = set[str]()
    for path in islice(files, FILES_BEFORE_RIPGREP):
        first_files.add(path)
        yield path
    if len(first_files) < FILES_BEFORE_RIPGREP:
        return

    # In another encoding, ripgrep would have to search for other bytes.
    candidates = None
    if request["encoding"] is None:
        candidates = find_candidates(folder, request["pattern"], ignore_case=request["ignore_case"])
    if candidates is None:
        yield from files
        return
    for path in visible_files(folder, candidates):
        if path not in first_files:
            yield path


def _cut(line: str) -> str:
    """Return the beginning of a long line, and its length."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}… ({len(line):,} characters)"


def main() -> None:
    """Answer the request on stdin, a line for each match; ``null`` means that there is more."""
    request = json.load(sys.stdin)
    remaining_chars = request.pop("characters")
    for match in find_matches(request):
        line = json.dumps(match)
        remaining_chars -= len(line)
        if remaining_chars <= 0:
            print("null", flush=True)
            return
        print(line, flush=True)


if __name__ == "__main__":
    main()
