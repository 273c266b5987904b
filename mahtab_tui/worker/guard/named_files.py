"""Finds the files that the words of a shell command stand for, also those that patterns match.

A command that names more than can be looked at in time counts as one that may change any of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

from ..stdlib import late_import
from .shell_words import Word

_MAX_PATTERN_LEVELS = 4
"""Levels of folders for which a pattern in a command has wildcards: more could stand for the whole
disk."""
_TOO_MANY_FILES = (
    "The command may change protected files: it names too many to look at."
    " Name the files in the command, and the user will be asked"
)


class MatchingDeadline:
    """The time until which files are looked for that the patterns in commands match."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise `PermissionError` if the time is over."""
        if time.monotonic() > self._end:
            raise too_many_files()


def too_many_files() -> PermissionError:
    """Return the error for a command that names more files than are looked at."""
    return PermissionError(_TOO_MANY_FILES)


def find_files(words: Iterable[Word], deadline: MatchingDeadline) -> Iterator[str]:
    """Yield the paths that words stand for, and the files that patterns match.

    Raises `PermissionError` after the deadline, and for patterns that could match the whole disk.
    """
    for word in words:
        deadline.check()
        yield word.text
        if not word.is_pattern:
            continue
        pattern = "/".join(map(_without_brackets, word.text.split("/")))
        if sum(map(_has_wildcard, pattern.split("/"))) > _MAX_PATTERN_LEVELS:
            raise too_many_files()
        folder, *parts = os.path.expanduser(pattern).split("/")
        if folder:
            yield from _matching_paths("", [folder, *parts], deadline)
        else:
            yield from _matching_paths("/", parts, deadline)


def _matching_paths(folder: str, parts: Sequence[str], deadline: MatchingDeadline) -> Iterator[str]:
    """Yield the files in a folder that a pattern matches, as in `glob.iglob`, which may be silent
    for minutes. Raises `PermissionError` after the deadline.

    Args:
        parts: The pattern, split at each slash.
    """
    if not parts:
        if os.path.lexists(folder):
            yield folder
        return
    plain_count = next((n for n, part in enumerate(parts) if _has_wildcard(part)), len(parts))
    if plain_count:
        inner_folder = os.path.join(folder, *parts[:plain_count])
        yield from _matching_paths(inner_folder, parts[plain_count:], deadline)
        return
    part, *inner_parts = parts
    fnmatch = late_import("fnmatch")
    for name in _names_in(folder):
        deadline.check()
        is_hidden = name.startswith(".") and not part.startswith(".")
        if not is_hidden and fnmatch.fnmatchcase(name, part):
            yield from _matching_paths(os.path.join(folder, name), inner_parts, deadline)


def _names_in(folder: str) -> Iterator[str]:
    """Yield the names in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                yield entry.name
    except (OSError, ValueError):
        return


def _has_wildcard(part: str) -> bool:
    return "*" in part or "?" in part


def _without_brackets(pattern: str) -> str:
    """Return a pattern that matches as many names, or more, but has no sets of letters: shells know
    more of them than Python."""
    before, bracket, rest = pattern.partition("[")
    return f"{before}*{rest.rpartition(']')[2]}" if bracket and "]" in rest else pattern
