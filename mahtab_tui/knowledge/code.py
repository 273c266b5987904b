"""Searches and reads the project's source."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple

from mahtab_tui.knowledge.code_search_process import Match, SearchRequest
from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.text_decoding import is_encoding, split_lines
from mahtab_tui.settings.model import PACKAGE
from mahtab_tui.system import tie_to_parent

CANCEL_CHECK_INTERVAL_S = 0.05
"""Seconds between two questions whether a search is cancelled."""
MAX_RESULT_CHARS = 20_000_000
"""Characters of all matches of a search."""
Ending = Literal["all", "limit", "size", "time", "cancelled"]
"""Why a search ended. "size": its result has too many characters."""
ENDING_SENTENCES: Mapping[Ending, str] = {
    "limit": "There is more; narrow the pattern or raise limit.",
    "size": "There is more than can be shown; narrow the pattern or lower context_lines.",
    "time": "Time is up; there may be more.",
    "cancelled": "Cancelled.",
}


class CodeError(RuntimeError):
    """A search is invalid, or a file cannot be read; the message is a sentence."""


class Matches(NamedTuple):
    """The result of a search, and why it ended."""

    lines: tuple[Match, ...]
    """Lines in the order of the files; the lines of a file follow each other."""
    ended: Ending

    def as_text(self) -> str:
        """Return the lines with their numbers, below the path of their file."""
        text_lines: list[str] = []
        for path, file_matches in groupby(self.lines, key=attrgetter("path")):
            text_lines.append(path)
            text_lines += _numbered_lines(list(file_matches))
        if self.ended != "all":
            text_lines.append(f"[{ENDING_SENTENCES[self.ended]}]")
        return "\n".join(text_lines) or "No line matches."


class CodeSearcher:
    """Searches and reads the text files of one folder, for any thread."""

    def __init__(self, code_dir: Path | str = ".") -> None:
        """
        Args:
            code_dir: The folder.
        """
        self.folder = Path(code_dir).absolute()

    def search(
        self,
        pattern: str,
        file_pattern: str = "*",
        context_lines: int = 2,
        *,
        ignore_case: bool = False,
        limit: int = 100,
        seconds: float = 20.0,
        encoding: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> Matches:
        """Find lines that match a Python regular expression in files that are not hidden, binary or
        ignored.

        Args:
            pattern: The regular expression.
            file_pattern: A pattern for names (``*.py``) or, with a slash, for paths.
            context_lines: How many lines to return before and after each match.
            limit: How many matches to return at most.
            seconds: After this time, the matches so far are returned.
            encoding: The encoding of all files (``cp037``); None detects it.
            cancelled: Ends the search when it is set.

        Raises:
            CodeError: The pattern, the encoding or the folder is invalid.
        """
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise CodeError(f"{pattern!r} is not a regular expression: {error}.") from None
        if encoding is not None and not is_encoding(encoding):
            raise CodeError(f"Unknown encoding {encoding!r}.")
        if not self.folder.is_dir():
            raise CodeError(f"The folder {self.folder} does not exist.")

        request = SearchRequest(
            folder=str(self.folder),
            pattern=pattern,
            file_pattern=file_pattern,
            context_lines=max(0, context_lines),
            ignore_case=ignore_case,
            # One more says whether there are more.
            limit=max(0, limit) + 1,
            encoding=encoding,
        )
        cancelled = cancelled or threading.Event()
        matches = _run(request, seconds, cancelled.is_set)
        if len(matches.lines) > limit:
            return Matches(matches.lines[:limit], "limit")
        return matches

    def read_file(
        self, path: str, start: int = 1, end: int | None = None, encoding: str | None = None
    ) -> str:
        """Return the numbered lines of a file.

        Args:
            path: Relative to the folder.
            start: The first line, from 1.
            end: The last line, included; None for the end of the file.
            encoding: None detects it.

        Raises:
            CodeError: The file or these lines do not exist, or it cannot be read as text.
        """
        try:
            lines = split_lines(ConfinedFolder(self.folder).read_text(path, encoding=encoding))
        except ConfinedFolderError as error:
            raise CodeError(str(error)) from None
        first = max(1, start)
        last = len(lines) if end is None else min(end, len(lines))
        if lines and first > len(lines):
            raise CodeError(f"{path} has only {len(lines):,} lines, so there is no line {first:,}.")
        if lines and last < first:
            raise CodeError(f"The end, line {last:,}, comes before the start, line {first:,}.")
        numbered_lines = enumerate(lines[first - 1 : last], first)
        return "\n".join(f"{number:>6}  {line}" for number, line in numbered_lines)


def _numbered_lines(matches: Sequence[Match]) -> Iterator[str]:
    """Yield the lines of a file's matches once each, with ``--`` where lines are left out."""
    lines: dict[int, str] = {}
    for match in matches:
        context = (*match.before, match.text, *match.after)
        for line_number, text in enumerate(context, match.line - len(match.before)):
            lines.setdefault(line_number, f"{line_number:>6}- {text}")
    # A match may be in the context of another.
    for match in matches:
        lines[match.line] = f"{match.line:>6}: {match.text}"
    has_context = any(match.before or match.after for match in matches)
    previous_line_number = 0
    for line_number in sorted(lines):
        if has_context and previous_line_number and line_number > previous_line_number + 1:
            yield "--"
        yield lines[line_number]
        previous_line_number = line_number


def search_code(
    pattern: str,
    file_pattern: str = "*",
    context_lines: int = 2,
    *,
    code_dir: Path | str = ".",
    limit: int = 100,
) -> str:
    """Return the matches as text. Raises `CodeError`."""
    searcher = CodeSearcher(code_dir)
    return searcher.search(pattern, file_pattern, context_lines, limit=limit).as_text()


def _run(request: SearchRequest, seconds: float, cancelled: Callable[[], bool]) -> Matches:
    """Run the search process.

    Args:
        request: What to search.
        seconds: After this time, the process is killed.
        cancelled: Asked again and again; the process is killed when it returns True.

    Raises:
        CodeError: The process failed.
    """
    data = json.dumps({**request, "characters": MAX_RESULT_CHARS}).encode()
    with _start_process() as process:
        try:
            finished = _wait(process, data, time.monotonic() + seconds, cancelled)
        finally:
            process.kill()
    if finished.ended == "all" and process.returncode != 0:
        raise CodeError("The search failed: its process ended early.")

    # The last line may be incomplete.
    *complete_lines, _ = finished.output.split(b"\n")
    results = [json.loads(line) for line in complete_lines]
    ended: Ending = finished.ended
    if results and results[-1] is None:  # there is more
        results.pop()
        ended = "size"
    return Matches(tuple(map(Match.from_json, results)), ended)


def _start_process() -> subprocess.Popen[bytes]:
    """Start the process, which ends with this one."""
    command = [sys.executable, "-P", "-m", "mahtab_tui.knowledge.code_search_process"]
    return subprocess.Popen(
        tie_to_parent(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        start_new_session=True,
    )


class _FinishedSearch(NamedTuple):
    """What the process has written, and why it ended."""

    output: bytes
    ended: Ending


def _wait(
    process: subprocess.Popen[bytes],
    request: bytes,
    deadline: float,
    cancelled: Callable[[], bool],
) -> _FinishedSearch:
    """Wait until the process has ended, and kill it if it takes too long or is cancelled.

    Args:
        process: The process.
        request: Its input.
        deadline: When it is killed, on the monotonic clock.
        cancelled: Whether it is killed now.
    """
    ended: Ending = "all"
    unsent = request
    while True:
        try:
            output, _ = process.communicate(unsent, timeout=CANCEL_CHECK_INTERVAL_S)
        except subprocess.TimeoutExpired:
            unsent = b""  # `communicate` sends it
            if cancelled():
                ended = "cancelled"
            elif time.monotonic() > deadline:
                ended = "time"
            if ended != "all":
                process.kill()
        else:
            return _FinishedSearch(output, ended)
