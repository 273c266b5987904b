"""Completes strings: keys of a dict, columns of a table, and paths of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from .candidates import Candidate, column_candidate, fixed_candidate, key_candidates
from .point import CompletionPoint
from .preceding_lines import NamesAtCursor
from .ranking import list_best
from .resolve import resolve
from .table_columns import list_columns

_MAX_FOLDER_ENTRIES = 20_000
"""Files of a folder that are looked at."""
_STRING_PREFIX_LETTERS = "rRbBuUfFtT"
_UNSAFE_IN_PATHS = frozenset("\"'\\")
"""Files with these in their names are not completed, because a string would change them."""


def complete_string(
    names: NamesAtCursor, point: CompletionPoint, code_after: str
) -> dict[str, Any]:
    """Complete a string: a key, a column or a path."""
    quoted_keys = [
        key._replace(text=_quote(key.label, point.quote, code_after))
        for key in _string_keys(names, point)
        if _can_quote(key.label, point.quote)
    ]
    if quoted_keys:
        listing = list_best(quoted_keys, point.stem, point.start)
        if listing["items"]:
            return listing
    if point.target or "\n" in point.stem:
        return list_best((), "", point.start)

    folder, separator, name = point.stem.rpartition("/")
    folder += separator
    paths = (_close_path(path, point.quote, code_after) for path in _find_paths(folder, name))
    return list_best(paths, name, point.start + len(folder))


def _string_keys(names: NamesAtCursor, point: CompletionPoint) -> list[Candidate]:
    """Return the keys and columns that a string may name."""
    keys: list[Candidate] = []
    if point.target:
        value = resolve(point.target, names.values)
        keys = [key for key in key_candidates(value) if key.text is not None]
    if not keys and "." in point.call:
        # The string may name a column of a table whose method is called, as in `df.groupby("`.
        table = resolve(point.call.rpartition(".")[0], names.values)
        keys = [column_candidate(name, order=1) for name in list_columns(table)]
    return keys


class _Quote(NamedTuple):
    """How a string is opened."""

    prefix: str
    """The prefix in lower case."""
    marks: str
    """One quotation mark, or three."""


def _split_quote(quote: str) -> _Quote:
    marks = quote.lstrip(_STRING_PREFIX_LETTERS)
    return _Quote(quote[: -len(marks)].lower(), marks)


def _can_quote(text: str, quote: str) -> bool:
    """Return whether a string opened with `quote` can hold a text: bytes hold none, and a raw string
    has no escapes."""
    prefix, marks = _split_quote(quote)
    if "b" in prefix:
        return False
    if "r" not in prefix:
        return True
    # Backslashes at the end would escape the closing mark.
    return text.isprintable() and marks[0] not in text and not text.endswith("\\")


def _quote(text: str, quote: str, code_after: str) -> str:
    """Escape a text for a string opened with `quote`, and close it if it is open.

    Args:
        text: The text.
        quote: Prefix and quotes of the string.
        code_after: What follows the cursor.
    """
    prefix, marks = _split_quote(quote)
    if "r" not in prefix:
        text = "".join(map(_escape, text)).replace(marks[0], "\\" + marks[0])
    if "f" in prefix or "t" in prefix:
        text = text.replace("{", "{{").replace("}", "}}")
    if code_after.startswith(marks):
        return text
    return text + marks


def _escape(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape").decode("ascii")


def _find_paths(folder: str, name: str) -> Iterator[Candidate]:
    """Yield the files and folders in a folder.

    Args:
        name: The typed beginning, which shows hidden files if it has a dot.
    """
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except (OSError, ValueError):
        return
    with entries:
        for entry in islice(entries, _MAX_FOLDER_ENTRIES):
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            is_folder = _is_folder(entry)
            label = f"{entry.name}/" if is_folder else entry.name
            if label.isprintable() and _UNSAFE_IN_PATHS.isdisjoint(label):
                yield fixed_candidate(label, "folder" if is_folder else "file")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _close_path(path: Candidate, quote: str, code_after: str) -> Candidate:
    """Return a path that closes the string, unless it is a folder, in which one may go on."""
    if path.label.endswith("/"):
        return path
    return path._replace(text=_quote(path.label, quote, code_after))
