"""Searches files in a process of its own, which can be killed: no regular expression holds up the program, however it backtracks.

A request is one JSON object on stdin; matches, or the paths of files, are JSON lines on stdout, as they are found.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mahtab_tui.knowledge.encodings import lines_of
from mahtab_tui.knowledge.held import HeldError, HeldFolder
from mahtab_tui.knowledge.tree_files import RipgrepRefuses, is_wanted, ripgrep_files, source_files

LINE_WIDTH = 500
"""Characters of a line that are told."""

_OWN_MEANING = re.compile(r"\[\[|&&|--|~~|\{,|\(\?[a-zA-Z]*x")
"""What both kinds of expressions know and take for different things."""


def matches(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One for each line that matches, in the order of paths and lines: path, line (from 1), text, before, after."""
    held = HeldFolder(request["folder"])
    compiled = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    around, left = request["context_lines"], request["limit"]
    for path in _files(request):
        if left <= 0:
            return
        if not is_wanted(path, request["file_pattern"]):
            continue
        with suppress(HeldError):  # it is binary or too large, or has gone meanwhile
            lines = lines_of(held.read_text(path, encoding=request["encoding"]))
            for number, line in enumerate(lines):
                if left > 0 and compiled.search(line):
                    left -= 1
                    yield {
                        "path": path,
                        "line": number + 1,
                        "text": _cut(line),
                        "before": [_cut(text) for text in lines[max(0, number - around) : number]],
                        "after": [_cut(text) for text in lines[number + 1 : number + 1 + around]],
                    }


def listed(request: Mapping[str, Any]) -> Iterator[str]:
    """The paths of the source files, as many as are wanted at most. The patterns of a ``.gitignore`` backtrack, too."""
    return itertools.islice(source_files(Path(request["folder"])), request["most"])


def _files(request: Mapping[str, Any]) -> Iterable[str]:
    folder = Path(request["folder"])
    # An encoding that is named holds for every file: then no file can be passed over by its bytes.
    if request["ripgrep"] and not request["encoding"] and not _OWN_MEANING.search(request["pattern"]):
        with suppress(RipgrepRefuses, OSError):
            return ripgrep_files(request["ripgrep"], folder, request["pattern"], request["ignore_case"])
    return source_files(folder)


def _cut(line: str) -> str:
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}… ({len(line):,} characters)"


def main() -> None:
    request = json.load(sys.stdin)
    for found in listed(request) if "most" in request else matches(request):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
