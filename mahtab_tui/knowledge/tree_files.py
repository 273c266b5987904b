"""Lists the source files of a folder by path, without links, hidden files, and files that a
``.gitignore`` names."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.knowledge.confined_folder import READ_LIMIT, ConfinedFolder, HeldError
from mahtab_tui.knowledge.encodings import lines_of
from mahtab_tui.system.processes import tie_to_parent

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_RIPGREP = (
    "--json --max-count=1 --crlf --no-config --no-messages --no-require-git --no-ignore-global --no-ignore-parent --no-ignore-exclude "
    f"--no-ignore-dot --max-filesize={READ_LIMIT}"
).split()
_NOT_ASCII = r"(?-u)[\x80-\xff]"
"""Files that are not ASCII are decoded and searched here, however ripgrep would decode them."""


class RipgrepError(Exception):
    """ripgrep does not accept the pattern."""


class _Level(NamedTuple):
    """A folder and its ignore rules."""

    path: str
    """With a slash at the end; empty for the topmost folder."""
    ignored: GitIgnoreSpec | None
    is_repository: bool


def is_wanted(path: str, file_pattern: str) -> bool:
    """Match a file's name, or its path if the pattern has a slash. ``**/`` stands for any
    folders."""
    if "/" not in file_pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], file_pattern)
    pattern = file_pattern.removeprefix("./")
    return fnmatchcase(path, pattern) or (
        "**/" in pattern and fnmatchcase(path, pattern.replace("**/", ""))
    )


def source_files(folder: Path) -> Iterator[str]:
    """Yield the paths relative to the folder."""
    held = ConfinedFolder(folder)
    waiting: list[tuple[str, tuple[_Level, ...] | None]] = [("", ())]
    """Paths still to visit, the next one last: folders with the levels above them, and files."""
    while waiting:
        path, above = waiting.pop()
        if above is None:
            yield path
        else:
            waiting += reversed(list(_in(held, (*above, _level(held, path)))))


def _in(
    held: ConfinedFolder, levels: tuple[_Level, ...]
) -> Iterator[tuple[str, tuple[_Level, ...] | None]]:
    """Yield a folder's contents: folders with the levels above them, and files."""
    here = levels[-1].path
    try:
        with os.scandir(held.folder / here) as entries:
            # Sort folders by name without a slash, so that the order is that of the paths' parts.
            found = sorted(
                (
                    entry.name,
                    entry.is_dir(follow_symlinks=False),
                    entry.is_file(follow_symlinks=False),
                )
                for entry in entries
            )
    except OSError:
        return
    for name, is_folder, is_file in found:
        path = here + name + "/" * is_folder
        if not name.startswith(".") and (is_folder or is_file) and not _is_ignored(path, levels):
            yield path, levels if is_folder else None


def _level(held: ConfinedFolder, path: str) -> _Level:
    from pathspec import GitIgnoreSpec

    try:
        lines = lines_of(held.read_bytes(f"{path}.gitignore").decode("utf-8", "surrogateescape"))
    except HeldError:
        ignored = None
    else:
        ignored = GitIgnoreSpec.from_lines(lines)
    return _Level(path, ignored, (held.folder / path / ".git").exists())


def _is_ignored(path: str, levels: tuple[_Level, ...]) -> bool:
    """Apply the nearest folder with a matching rule; a nested repository does not inherit rules."""
    for level in reversed(levels):
        if level.ignored is not None:
            said = level.ignored.check_file(path[len(level.path) :]).include
            if said is not None:
                return said
        if level.is_repository:
            return False
    return False


def ripgrep_files(ripgrep: str, folder: Path, pattern: str, ignore_case: bool) -> list[str]:
    """Return the files that may match: those that ripgrep finds, and those that are not ASCII.
    Raises `RipgrepError`."""
    case = ["--ignore-case"] if ignore_case else ["--case-sensitive"]
    command = tie_to_parent(
        [ripgrep, *_RIPGREP, *case, f"--regexp={pattern}", f"--regexp={_NOT_ASCII}", "./"]
    )
    found, is_silent = [], True
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            is_silent = False
            if line.startswith(b'{"type":"begin"'):
                path = _path(json.loads(line)["data"]["path"])
                if not any(part.startswith(".") for part in path.split("/")):
                    found.append(path)
    if is_silent and running.returncode not in (0, 1):
        raise RipgrepError
    return sorted(found, key=lambda path: path.split("/"))


def _path(data: dict[str, str]) -> str:
    name = data["text"] if "text" in data else os.fsdecode(base64.b64decode(data["bytes"]))
    return name.removeprefix("./")
