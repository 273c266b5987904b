"""The files of a project that are neither hidden nor links, nor ignored by a `.gitignore`.

Paths are relative to the project's folder and have slashes. Those of folders end with a slash, except the
project's own, which is empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.text_decoding import split_lines

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    IgnoreLevels = tuple[tuple[str, GitIgnoreSpec | None], ...]
    """The project's folder, the folders from there down to one, and that one, each with the rules of its
    `.gitignore`; None if it has no such file."""


def is_wanted(path: str, file_pattern: str) -> bool:
    """Return whether a file matches a pattern.

    Args:
        path: The file's path.
        file_pattern: A pattern for the file's name, or, if it has a slash, for its path. ``*`` also
            matches slashes, and ``**/`` stands for any number of folders, also none.
    """
    if "/" not in file_pattern:
        return fnmatchcase(path.rsplit("/", 1)[-1], file_pattern)
    pattern = f"/{file_pattern.removeprefix('./')}"
    while "/**/**/" in pattern:
        pattern = pattern.replace("/**/**/", "/**/")
    # `*` of `fnmatchcase` matches slashes, too, so `/*/` nearly does what `/**/` should. But it needs two
    # slashes, and a path without folders in between has only one there. So all slashes are doubled:
    #
    #     src/**/*.py     //src/*/*.py
    #     src/a.py        //src//a.py         * is empty
    #     src/b/c/a.py    //src//b//c//a.py   * is /b//c/
    pieces = [piece.replace("/", "//") for piece in pattern.split("/**/")]
    return fnmatchcase(f"/{path}".replace("/", "//"), "/*/".join(pieces))


def source_files(folder: Path) -> Iterator[str]:
    """Yield the paths of a project's files.

    They come in the order of their parts, so that what is in a folder comes together. Folders that
    cannot be read are left out.
    """
    confined = ConfinedFolder(folder)
    # Files and folders that are still to come, the next one last.
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
    """Return the name of a file or a folder, so that `a/` comes before `a.py`, as its part `a` does."""
    return name.removesuffix("/")


def visible_files(folder: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield those of the paths that are not ignored, in the order of `source_files`.

    Only `.gitignore` files are read: the paths must be those of files that exist and are neither
    hidden nor links.
    """
    levels_by_folder = _FolderLevels(ConfinedFolder(folder))
    for path in sorted(paths, key=lambda path: path.split("/")):
        levels = levels_by_folder.read(path[: path.rfind("/") + 1])
        if levels is not None and not _is_ignored(path, levels):
            yield path


class _FolderLevels:
    """Reads the `.gitignore` files of folders, each once."""

    def __init__(self, confined: ConfinedFolder) -> None:
        self._confined = confined
        root_levels: IgnoreLevels = (("", _read_ignore_rules(confined, "")),)
        self._levels_by_folder: dict[str, IgnoreLevels | None] = {"": root_levels}
        """The rules for what is in each folder; None if the folder itself is ignored."""

    def read(self, path: str) -> IgnoreLevels | None:
        """Return the rules for what is in a folder; None if the folder itself is ignored."""
        if path not in self._levels_by_folder:
            parent_path = path[: path[:-1].rfind("/") + 1]
            levels = self.read(parent_path)
            if levels is not None and _is_ignored(path, levels):
                levels = None
            if levels is not None:
                levels = (*levels, (path, _read_ignore_rules(self._confined, path)))
            self._levels_by_folder[path] = levels
        return self._levels_by_folder[path]


def _read_ignore_rules(confined: ConfinedFolder, path: str) -> GitIgnoreSpec | None:
    """Return the rules in the `.gitignore` of a folder; None if there is none that can be read."""
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
