"""Searches files in a separate process, which can be killed if a regular expression backtracks
endlessly.

A request is one JSON object on stdin; matches, or the paths of files, are JSON lines on stdout, as
they are found.
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

from mahtab_tui.knowledge.code import RipgrepError, is_wanted, ripgrep_files, source_files
from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError, split_lines

LINE_WIDTH = 500
"""Characters of a line that are returned."""

_AMBIGUOUS = re.compile(r"\[\[|&&|--|~~|\{,|\(\?[a-zA-Z]*x")
"""Syntax that Python and ripgrep interpret differently."""


def matches(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield matching lines, by path and line."""
    confined = ConfinedFolder(request["folder"])
    compiled = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    around, left = request["context_lines"], request["limit"]
    for path in _files(request):
        if left <= 0:
            return
        if not is_wanted(path, request["file_pattern"]):
            continue
        with suppress(ConfinedFolderError):  # it is binary, too large, or gone
            lines = split_lines(confined.read_text(path, encoding=request["encoding"]))
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
    """Yield the paths of source files: patterns in a ``.gitignore`` may backtrack, too."""
    return itertools.islice(source_files(Path(request["folder"])), request["most"])


def _files(request: Mapping[str, Any]) -> Iterable[str]:
    folder = Path(request["folder"])
    # With a given encoding, no file can be skipped because of its bytes.
    if request["ripgrep"] and not request["encoding"] and not _AMBIGUOUS.search(request["pattern"]):
        with suppress(RipgrepError, OSError):
            return ripgrep_files(
                request["ripgrep"], folder, request["pattern"], request["ignore_case"]
            )
    return source_files(folder)


def _cut(line: str) -> str:
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}… ({len(line):,} characters)"


def main() -> None:
    request = json.load(sys.stdin)
    for found in listed(request) if "most" in request else matches(request):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
