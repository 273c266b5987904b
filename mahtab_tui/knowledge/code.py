"""Searches and reads the project's source, in a process of its own (`main`), which can be killed if
a regular expression backtracks endlessly: a JSON request on stdin, JSON lines on stdout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.knowledge.confined_folder import (
    ConfinedFolder,
    ConfinedFolderError,
    is_encoding,
    split_lines,
)
from mahtab_tui.knowledge.ripgrep import find_candidates
from mahtab_tui.settings.model import PACKAGE
from mahtab_tui.system import tie_to_parent

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    IgnoreLevels = tuple[tuple[str, GitIgnoreSpec | None], ...]
    """A folder and those above it, with their rules."""

FILES_BEFORE_RIPGREP = 300
"""Files that are searched without it, because a search for a common word, or of a small folder, ends
sooner."""
CANCEL_CHECK_INTERVAL_S = 0.05
MAX_RESULT_CHARS = 20_000_000
MAX_LINE_CHARS = 500
"""Longer lines are cut."""

ENDING_SENTENCES = {
    "limit": "There is more; narrow the pattern or raise limit.",
    "size": "There is more than can be shown; narrow the pattern or lower context_lines.",
    "time": "Time is up; there may be more.",
    "cancelled": "Cancelled.",
}


def is_wanted(path: str, file_pattern: str) -> bool:
    """Match a name, or a path if the pattern has a slash; ``**/`` stands for any folders."""
    if "/" not in file_pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], file_pattern)
    pattern = file_pattern.removeprefix("./")
    if fnmatchcase(path, pattern):
        return True
    # `*` matches slashes, too, so only the case of no folder is left.
    return "**/" in pattern and fnmatchcase(path, pattern.replace("**/", ""))


def source_files(folder: Path) -> Iterator[str]:
    """Yield the paths relative to the folder of files that are neither hidden nor ignored."""
    confined = ConfinedFolder(folder)
    # A stack, so that the paths come in order. Folders end with a slash.
    stack: list[tuple[str, IgnoreLevels]] = [("", ())]
    while stack:
        path, levels = stack.pop()
        if path and not path.endswith("/"):
            yield path
            continue
        levels = (*levels, (path, _read_ignore_rules(confined, path)))
        with suppress(OSError), os.scandir(confined.folder / path) as entries:
            for name in sorted(_visible_names(entries), key=_without_slash, reverse=True):
                if not _is_ignored(path + name, levels):
                    stack.append((path + name, levels))


def _visible_names(entries: Iterable[os.DirEntry[str]]) -> Iterator[str]:
    """Yield the names of files and folders that are neither hidden nor links."""
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield f"{entry.name}/"
        elif entry.is_file(follow_symlinks=False):
            yield entry.name


def _without_slash(name: str) -> str:
    """So that the order is that of the paths' parts."""
    return name.removesuffix("/")


def visible_files(folder: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths that `source_files` would yield, too, in the same order."""
    levels_by_folder = _FolderLevels(ConfinedFolder(folder))
    for path in sorted(paths, key=lambda path: path.split("/")):
        levels = levels_by_folder.read(path[: path.rfind("/") + 1])
        if levels is not None and not _is_ignored(path, levels):
            yield path


class _FolderLevels:
    """The rules of `.gitignore` files for the content of each folder, which are read once."""

    def __init__(self, confined: ConfinedFolder) -> None:
        self._confined = confined
        root_levels: IgnoreLevels = (("", _read_ignore_rules(confined, "")),)
        self._levels_by_folder: dict[str, IgnoreLevels | None] = {"": root_levels}

    def read(self, path: str) -> IgnoreLevels | None:
        """Return the rules for what is in a folder, whose path ends with a slash unless it is empty;
        None if the folder is ignored."""
        if path not in self._levels_by_folder:
            levels = self.read(path[: path[:-1].rfind("/") + 1])
            if levels is not None and _is_ignored(path, levels):
                levels = None
            if levels is not None:
                levels = (*levels, (path, _read_ignore_rules(self._confined, path)))
            self._levels_by_folder[path] = levels
        return self._levels_by_folder[path]


def _read_ignore_rules(confined: ConfinedFolder, path: str) -> GitIgnoreSpec | None:
    """Read the rules of a folder, whose path ends with a slash unless it is empty."""
    from pathspec import GitIgnoreSpec

    try:
        data = confined.read_bytes(f"{path}.gitignore")
    except ConfinedFolderError:
        return None
    return GitIgnoreSpec.from_lines(split_lines(data.decode("utf-8", "surrogateescape")))


def _is_ignored(path: str, levels: IgnoreLevels) -> bool:
    """Ask the nearest folder with a matching rule."""
    for folder, rules in reversed(levels):
        if rules is None:
            continue
        is_ignored = rules.check_file(path[len(folder) :]).include
        if is_ignored is not None:
            return is_ignored
    return False


class CodeError(RuntimeError):
    """A search is invalid, or a file cannot be read; the message is a sentence."""


class Match(NamedTuple):
    """A line that matches, with the lines around it."""

    path: str
    """Relative to the folder, with slashes."""
    line: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Matches(NamedTuple):
    """The result of a search, and why it ended."""

    lines: tuple[Match, ...]
    """In the order of the files; those of a file follow each other."""
    ended: Literal["all", "limit", "size", "time", "cancelled"]

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
            file_pattern: For names (``*.py``) or, with a slash, for paths.
            context_lines: How many lines to return before and after each match.
            limit: How many matches to return at most.
            seconds: After this time, the matches so far are returned.
            encoding: Of all files (``cp037``); None detects it.
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
        request = {
            "folder": str(self.folder),
            "pattern": pattern,
            "file_pattern": file_pattern,
            "context_lines": max(0, context_lines),
            "ignore_case": ignore_case,
            "limit": max(0, limit) + 1,  # one more says whether there are more
            "encoding": encoding,
        }
        cancelled = cancelled or threading.Event()
        results, ended = _run(request, seconds, cancelled.is_set)
        matches = [
            Match(path, line, text, tuple(before), tuple(after))
            for path, line, text, before, after in results
        ]
        if len(matches) > limit:
            return Matches(tuple(matches[:limit]), "limit")
        return Matches(tuple(matches), ended)

    def read_file(
        self, path: str, start: int = 1, end: int | None = None, encoding: str | None = None
    ) -> str:
        """Return numbered lines, both ends included. Raises `CodeError`."""
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
        return "\n".join(
            f"{line_number:>6}  {lines[line_number - 1]}" for line_number in range(first, last + 1)
        )


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


def _run(
    request: Mapping[str, Any], seconds: float, cancelled: Callable[[], bool]
) -> tuple[list[Any], Literal["all", "size", "time", "cancelled"]]:
    """Run the search process.

    Returns:
        The fields of each `Match`, and why the search ended.

    Raises:
        CodeError: The process failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = tie_to_parent([sys.executable, "-P", "-m", "mahtab_tui.knowledge.code"])
    request_data = json.dumps({**request, "characters": MAX_RESULT_CHARS}).encode()
    deadline = time.monotonic() + seconds
    ended: Literal["all", "size", "time", "cancelled"] = "all"
    output: bytes | None = None
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            while output is None:
                try:
                    output, _ = process.communicate(request_data, timeout=CANCEL_CHECK_INTERVAL_S)
                except subprocess.TimeoutExpired:
                    request_data = b""  # it is being sent
                    if cancelled():
                        ended = "cancelled"
                    elif time.monotonic() > deadline:
                        ended = "time"
                    if ended != "all":
                        process.kill()
        finally:
            process.kill()
    if ended == "all" and process.returncode != 0:
        raise CodeError("The search failed: its process ended early.")

    # The last line may be incomplete.
    *complete_lines, _ = output.split(b"\n")
    results = [json.loads(line) for line in complete_lines]
    if results and results[-1] is None:  # there is more
        return results[:-1], "size"
    return results, ended


def matches(request: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the fields of each `Match`."""
    confined = ConfinedFolder(request["folder"])
    compiled = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    context_lines = request["context_lines"]
    remaining = request["limit"]
    for path in _files_to_search(request):
        if remaining <= 0:
            return
        if not is_wanted(path, request["file_pattern"]):
            continue
        with suppress(ConfinedFolderError):  # it is binary, too large, or gone
            lines = split_lines(confined.read_text(path, encoding=request["encoding"]))
            for index, line in enumerate(lines):
                if remaining > 0 and compiled.search(line):
                    remaining -= 1
                    lines_before = lines[max(0, index - context_lines) : index]
                    lines_after = lines[index + 1 : index + 1 + context_lines]
                    yield [
                        path,
                        index + 1,
                        _cut(line),
                        [_cut(context_line) for context_line in lines_before],
                        [_cut(context_line) for context_line in lines_after],
                    ]


def _files_to_search(request: Mapping[str, Any]) -> Iterator[str]:
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
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}… ({len(line):,} characters)"


def main() -> None:
    """Answer the request on stdin, a line for each match; ``null`` means that there is more."""
    request = json.load(sys.stdin)
    remaining_chars = request["characters"]
    for match_fields in matches(request):
        line = json.dumps(match_fields)
        remaining_chars -= len(line)
        if remaining_chars <= 0:
            print("null", flush=True)
            return
        print(line, flush=True)


if __name__ == "__main__":
    main()
