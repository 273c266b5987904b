"""Completes and explains code at the cursor from the live namespace, without running user code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple

from ..values.objects import MISSING
from .candidates import (
    Candidate,
    column_candidate,
    find_candidates,
    fixed_candidate,
    is_server,
    key_candidates,
)
from .explanations import explain
from .instances import Instance
from .point import CompletionPoint, point_at
from .preceding_lines import NamesAtCursor, names_at
from .resolve import resolve
from .table_columns import list_columns
from .tokens import call_at

MAX_COMPLETIONS = 200
"""Candidates that are listed; the others are counted."""
_MAX_FOLDER_ENTRIES = 20_000
"""Files of a folder that are looked at."""
_STRING_PREFIX_LETTERS = "rRbBuUfFtT"
_UNSAFE_IN_PATHS = frozenset("\"'\\")
"""Files with these in their names are not completed, because a string would change them."""

# How well a candidate fits what is typed, best first
_EQUAL = 0
_BEGINS = 1
_BEGINS_IN_OTHER_CASE = 2
_HAS_LETTERS = 3


def complete(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, Any]:
    """Complete the text before the cursor.

    Args:
        namespace: The user's namespace.
        code: The whole code.
        cursor: An offset in it, in characters.

    Returns:
        The fields of the host's `Completions`.
    """
    point = point_at(code[:cursor])
    names = names_at(namespace, code[: point.start])
    if point.kind == "string":
        return _complete_string(names, point, code[cursor:])

    # Checked first, so that tools that arrive meanwhile are listed.
    is_pending = False
    if point.kind == "attribute":
        server = resolve(point.target, names.values)
        is_pending = is_server(server) and server.load_in_background()
    candidates = find_candidates(namespace, names, point, code)
    return {**_list_best(candidates, point.stem, point.start), "pending": is_pending}


def explain_at(namespace: dict[str, object], code: str, cursor: int) -> dict[str, str] | None:
    """Explain the call around the cursor, or the name at it.

    Args:
        namespace: The user's namespace.
        code: The whole code.
        cursor: An offset in it, in characters.

    Returns:
        The fields of the host's `Explanation`; None if nothing is known.
    """
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    if type(value) is Instance:
        value = value.cls
    if value is MISSING:
        return None
    return {**explain(value, expression), "name": expression, "source": ""}


# The list


class _Rank(NamedTuple):
    """By which candidates are sorted."""

    is_special: bool
    """Whether its name begins with two underscores that are not typed."""
    fit: int
    """One of the constants above."""
    letters_end: int
    """Where the last typed letter is in it, if it only has the letters."""
    order: int
    lower_label: str
    label: str
    number: int
    """Its number; of several completions with the same label, the first one counts."""


def _list_best(candidates: Iterable[Candidate], stem: str, start: int) -> dict[str, Any]:
    """Return the best matches, and the number of others.

    Args:
        candidates: What may complete the stem.
        stem: The typed text.
        start: Where it begins in the code, in characters.
    """
    matches = _MatchingCandidates(candidates, stem)
    # Not sorted as a whole: ten thousand live tuples would start the garbage collector.
    best = nsmallest(MAX_COMPLETIONS, matches)
    by_label: dict[str, Candidate] = {}
    for _, candidate in best:
        by_label.setdefault(candidate.label, candidate)

    items = []
    for candidate in by_label.values():
        kind, doc = candidate.describe()
        text = candidate.label if candidate.text is None else candidate.text
        items.append({"label": candidate.label, "text": text, "kind": kind, "doc": doc})
    return {"start": start, "items": items, "more": matches.count - len(items)}


class _MatchingCandidates:
    """The candidates that fit a typed text, with their ranks; `count` is their number afterwards."""

    def __init__(self, candidates: Iterable[Candidate], stem: str) -> None:
        self._candidates = candidates
        self._stem = stem
        self._lower_stem = stem.lower()
        self.count = 0

    def __iter__(self) -> Iterator[tuple[_Rank, Candidate]]:
        for number, candidate in enumerate(self._candidates):
            rank = self._rank(candidate, number)
            if rank is not None:
                self.count += 1
                yield rank, candidate

    def _rank(self, candidate: Candidate, number: int) -> _Rank | None:
        """Return the place of a candidate in the list; None if it does not fit.

        Private names are listed once an underscore is typed; names with two come last, until two
        are typed.
        """
        label = candidate.label
        is_private = candidate.is_name and label.startswith("_")
        if is_private and not self._stem.startswith("_"):
            return None

        lower_label = label.lower()
        letters_end = 0
        if label.startswith(self._stem):
            fit = _EQUAL if label == self._stem else _BEGINS
        elif lower_label.startswith(self._lower_stem):
            fit = _BEGINS_IN_OTHER_CASE
        elif len(self._stem) > 1 and (
            letters_end := _end_of_letters(self._lower_stem, lower_label)
        ):
            fit = _HAS_LETTERS
        else:
            return None
        is_special = is_private and label.startswith("__") and not self._stem.startswith("__")
        return _Rank(is_special, fit, letters_end, candidate.order, lower_label, label, number)


def _end_of_letters(letters: str, label: str) -> int:
    """Return where the last of some letters is in a label that has all of them in this order, at its
    end; 0 if it has not."""
    end = 0
    for letter in letters:
        end = label.find(letter, end) + 1
        if not end:
            break
    return end


# Strings


def _complete_string(
    names: NamesAtCursor, point: CompletionPoint, code_after: str
) -> dict[str, Any]:
    """Complete a string: a key, a column or a path."""
    quoted_keys = [
        key._replace(text=_quote(key.label, point.quote, code_after))
        for key in _string_keys(names, point)
        if _can_quote(key.label, point.quote)
    ]
    if quoted_keys:
        listing = _list_best(quoted_keys, point.stem, point.start)
        if listing["items"]:
            return listing
    if point.target or "\n" in point.stem:
        return _list_best((), "", point.start)

    folder, separator, name = point.stem.rpartition("/")
    folder += separator
    paths = (_close_path(path, point.quote, code_after) for path in _find_paths(folder, name))
    return _list_best(paths, name, point.start + len(folder))


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
