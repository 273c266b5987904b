"""The files of a project that are neither hidden nor ignored by `.gitignore`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError, split_lines

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    IgnoreLevels = tuple[tuple[str, GitIgnoreSpec | None], ...]
    """A folder and those above it, with their rules."""


def is_wanted(path: str, file_pattern: str) -> bool:
    """Return whether a file matches a pattern: by its name, or by its path if the pattern has a
    slash. ``**/`` stands for any folders."""
    if "/" not in file_pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], file_pattern)
    pattern = f"/{file_pattern.removeprefix('./')}"
    while "/**/**/" in pattern:
        pattern = pattern.replace("/**/**/", "/**/")
    # `*` matches slashes, too. With two slashes between folders, it may also stand for no folder.
    pieces = [piece.replace("/", "//") for piece in pattern.split("/**/")]
    return fnmatchcase(f"/{path}".replace("/", "//"), "/*/".join(pieces))


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
    specs: list[GitIgnoreSpec] = []
    for line in split_lines(data.decode("utf-8", "surrogateescape")):
        # Git, too, leaves out rules that are invalid.
        with suppress(ValueError, re.error):
            specs.append(GitIgnoreSpec.from_lines([line]))
    return GitIgnoreSpec(pattern for spec in specs for pattern in spec.patterns)


def _is_ignored(path: str, levels: IgnoreLevels) -> bool:
    """Return whether a path is ignored, as the nearest folder with a matching rule says."""
    for folder, rules in reversed(levels):
        if rules is None:
            continue
        is_ignored = rules.check_file(path[len(folder) :]).include
        if is_ignored is not None:
            return is_ignored
    return False
