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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import groupby, islice
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

    _Levels = tuple[tuple[str, GitIgnoreSpec | None], ...]
    """A folder and those above it, with their rules."""


def is_wanted(path: str, file_pattern: str) -> bool:
    """Match a name, or a path if the pattern has a slash; ``**/`` stands for any folders."""
    if "/" not in file_pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], file_pattern)
    pattern = file_pattern.removeprefix("./")
    return fnmatchcase(path, pattern) or (
        "**/" in pattern and fnmatchcase(path, pattern.replace("**/", ""))
    )


def source_files(folder: Path) -> Iterator[str]:
    """Yield the paths relative to the folder of files that are neither hidden nor ignored."""
    confined = ConfinedFolder(folder)
    waiting: list[tuple[str, _Levels]] = [("", ())]
    while waiting:  # the last one is next; the names of folders end with a slash
        path, levels = waiting.pop()
        if path and not path.endswith("/"):
            yield path
            continue
        levels = (*levels, (path, _ignore_rules(confined, path)))
        with suppress(OSError), os.scandir(confined.folder / path) as entries:
            # By name without a slash, so that the order is that of the paths' parts.
            visible = (each for each in entries if not each.name.startswith("."))
            found = sorted(
                (each.name, is_folder)
                for each in visible
                if (is_folder := each.is_dir(follow_symlinks=False))
                or each.is_file(follow_symlinks=False)
            )
            inside = (path + name + "/" * is_folder for name, is_folder in reversed(found))
            waiting += [(each, levels) for each in inside if not _is_ignored(each, levels)]


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
        root_levels: _Levels = (("", _ignore_rules(confined, "")),)
        self._levels_by_folder: dict[str, _Levels | None] = {"": root_levels}

    def read(self, path: str) -> _Levels | None:
        """Return the rules for what is in a folder, whose path ends with a slash unless it is empty;
        None if the folder is ignored."""
        if path not in self._levels_by_folder:
            levels = self.read(path[: path[:-1].rfind("/") + 1])
            if levels is not None and _is_ignored(path, levels):
                levels = None
            if levels is not None:
                levels = (*levels, (path, _ignore_rules(self._confined, path)))
            self._levels_by_folder[path] = levels
        return self._levels_by_folder[path]


def _ignore_rules(confined: ConfinedFolder, path: str) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec

    try:
        data = confined.read_bytes(f"{path}.gitignore")
    except ConfinedFolderError:
        return None
    return GitIgnoreSpec.from_lines(split_lines(data.decode("utf-8", "surrogateescape")))


def _is_ignored(path: str, levels: _Levels) -> bool:
    """Ask the nearest folder with a matching rule."""
    for folder, rules in reversed(levels):
        ignored = None if rules is None else rules.check_file(path[len(folder) :]).include
        if ignored is not None:
            return ignored
    return False


FILES_BEFORE_RIPGREP = 300
"""Files that are searched without it, because a search for a common word, or of a small folder, ends
sooner."""
_CHECK_CANCELLED = 0.05
"""Seconds between checks for cancellation."""
_MOST = 20_000_000
"""Characters of results."""


_ENDED = {
    "limit": "There is more; narrow the pattern or raise limit.",
    "size": "There is more than can be shown; narrow the pattern or lower context_lines.",
    "time": "Time is up; there may be more.",
    "cancelled": "Cancelled.",
}


class CodeError(RuntimeError):
    """A search is invalid, or a file cannot be read; the message is a sentence."""


class Match(NamedTuple):
    path: str
    """Relative to the folder, with slashes."""
    line: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Matches(NamedTuple):
    found: tuple[Match, ...]
    ended: Literal["all", "limit", "size", "time", "cancelled"]

    def as_text(self) -> str:
        parts: list[str] = []
        for path, found in groupby(self.found, key=lambda match: match.path):
            parts += [path, *_numbered_lines(list(found))]
        if self.ended != "all":
            parts.append(f"[{_ENDED[self.ended]}]")
        return "\n".join(parts) or "No line matches."


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
        ignored. Raises `CodeError`. file_pattern: for names (``*.py``) or, with a slash, for paths.
        encoding: of all files (``cp037``)."""
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
            "limit": max(0, limit) + 1,
            "encoding": encoding,
        }
        lines, ended = _run(request, seconds, (cancelled or threading.Event()).is_set)
        found = [
            Match(path, line, text, tuple(before), tuple(after))
            for path, line, text, before, after in lines
        ]
        return Matches(tuple(found[:limit]), "limit" if len(found) > limit else ended)

    def read_file(
        self, path: str, start: int = 1, end: int | None = None, encoding: str | None = None
    ) -> str:
        """Return numbered lines, both ends included. Raises `CodeError`."""
        try:
            lines = split_lines(ConfinedFolder(self.folder).read_text(path, encoding=encoding))
        except ConfinedFolderError as error:
            raise CodeError(str(error)) from None
        first, last = max(1, start), len(lines) if end is None else min(end, len(lines))
        if lines and first > len(lines):
            raise CodeError(f"{path} has only {len(lines):,} lines, so there is no line {first:,}.")
        if lines and last < first:
            raise CodeError(f"The end, line {last:,}, comes before the start, line {first:,}.")
        return "\n".join(f"{number:>6}  {lines[number - 1]}" for number in range(first, last + 1))


def _numbered_lines(matches: Sequence[Match]) -> Iterator[str]:
    lines: dict[int, str] = {}
    for match in matches:
        around = (*match.before, match.text, *match.after)
        for number, text in enumerate(around, match.line - len(match.before)):
            lines.setdefault(number, f"{number:>6}- {text}")
    for match in matches:
        lines[match.line] = f"{match.line:>6}: {match.text}"
    has_context = any(match.before or match.after for match in matches)
    last = 0
    for number in sorted(lines):
        if has_context and last and number > last + 1:
            yield "--"
        yield lines[number]
        last = number


def search_code(
    pattern: str,
    file_pattern: str = "*",
    context_lines: int = 2,
    *,
    code_dir: Path | str = ".",
    limit: int = 100,
) -> str:
    """Return the matches as text. Raises `CodeError`."""
    return (
        CodeSearcher(code_dir).search(pattern, file_pattern, context_lines, limit=limit).as_text()
    )


def _run(
    request: Mapping[str, Any], seconds: float, cancelled: Callable[[], bool]
) -> tuple[list[Any], Literal["all", "size", "time", "cancelled"]]:
    """Run the search process. Raises `CodeError`."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = tie_to_parent([sys.executable, "-P", "-m", "mahtab_tui.knowledge.code"])
    until = time.monotonic() + seconds
    ended: Literal["all", "size", "time", "cancelled"] = "all"
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        message, written = json.dumps({**request, "characters": _MOST}).encode(), None
        try:
            while written is None:
                try:
                    written, _ = process.communicate(message, timeout=_CHECK_CANCELLED)
                except subprocess.TimeoutExpired:
                    message = b""  # it is being sent
                    if cancelled():
                        ended = "cancelled"
                    elif time.monotonic() > until:
                        ended = "time"
                    if ended != "all":
                        process.kill()
        finally:
            process.kill()
    if ended == "all" and process.returncode != 0:
        raise CodeError("The search failed: its process ended early.")
    *whole, _ = written.split(b"\n")
    found = [json.loads(line) for line in whole]
    if found and found[-1] is None:  # there is more
        return found[:-1], "size"
    return found, ended


LINE_WIDTH = 500
"""Characters of a line."""


def matches(request: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the fields of each `Match`."""
    confined = ConfinedFolder(request["folder"])
    compiled = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    around, left = request["context_lines"], request["limit"]
    for path in _files_to_search(request):
        if left <= 0:
            return
        if not is_wanted(path, request["file_pattern"]):
            continue
        with suppress(ConfinedFolderError):  # it is binary, too large, or gone
            lines = split_lines(confined.read_text(path, encoding=request["encoding"]))
            for number, line in enumerate(lines):
                if left > 0 and compiled.search(line):
                    left -= 1
                    before = lines[max(0, number - around) : number]
                    after = lines[number + 1 : number + 1 + around]
                    context = [*map(_cut, before)], [*map(_cut, after)]
                    yield [path, number + 1, _cut(line), *context]


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
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}… ({len(line):,} characters)"


def main() -> None:
    request = json.load(sys.stdin)
    room = request["characters"]
    for each in matches(request):
        line = json.dumps(each)
        room -= len(line)
        print(line if room > 0 else "null", flush=True)
        if room <= 0:
            return


if __name__ == "__main__":
    main()
