"""Reads, edits and creates text files."""

from __future__ import annotations

import codecs
import os
import re
import sys
from contextlib import suppress
from typing import NamedTuple

from ..stdlib import late_import
from .line_diff import unified_diff
from .text_tools import mark_as_text

_LINE_END = re.compile(r"\r?\n")
_BYTE_ORDER_MARK = "\ufeff"
_PERMISSION_BITS = 0o7777
"""The part of a file's mode that can be changed."""
_DIFF_CONTEXT_LINES = 2
_MAX_COMPARED_LINES = 20_000
"""Maximum lines of a file that are compared with a text that does not occur in it."""
_MIN_SIMILARITY = 0.7
"""How similar a line must be to be named in place of a text that does not occur, from 0 to 1."""


class _DecodedFile(NamedTuple):
    """A text file that was read."""

    text: str
    encoding: str
    """The encoding with which the text becomes the same bytes again; invalid bytes are
    surrogates in it (see the error handler ``surrogateescape``)."""


class _Replacement(NamedTuple):
    """A text to replace, and what takes its place."""

    old: str
    new: str


def read(path: str, start: int = 1, end: int | None = None) -> str:
    """Return the lines of a text file, each with its number.

    start, end: the first and the last line, from 1; by default all lines.
    Raises FileNotFoundError, IsADirectoryError, PermissionError.
    Example: print(read("app.py", 10, 40)).
    """
    text = _read_file(path).text.removeprefix(_BYTE_ORDER_MARK)
    # Split at newlines only, not at form feeds, so that line numbers match those of editors.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()
    first_line = max(1, start)
    last_line = len(lines) if end is None else min(end, len(lines))
    numbers = range(first_line, last_line + 1)
    return mark_as_text("\n".join(f"{number:>6}  {lines[number - 1]}" for number in numbers))


def edit(path: str, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in a file, and show what changed. A module that was imported from it is reloaded.

    Raises ValueError if old is empty, does not occur, or occurs more than once; FileNotFoundError.
    Example: edit("app.py", "timeout = 3", "timeout = 30").
    """
    if not old:
        raise ValueError("old is empty: say what to replace")
    old_text, encoding = _read_file(path)
    replacement = _adopt_line_ends(_Replacement(old, new), old_text)
    start = old_text.find(replacement.old)
    if start == -1:
        hint = _describe_similar_line(old_text, replacement.old)
        raise ValueError(f"{path}: the text to replace does not occur.{hint}")
    # Not by `count`, which counts no occurrences that overlap.
    if old_text.find(replacement.old, start + 1) != -1:
        raise ValueError(
            f"{path}: the text to replace occurs more than once; include more of the text around it"
        )
    new_text = old_text.replace(replacement.old, replacement.new)
    _replace_file(path, new_text, encoding)
    _print_difference(path, old_text, new_text)
    _reload_modules(path)


def create(name: str, content: str) -> None:
    """Write a new file and make its folders; an existing file is not changed.

    Raises FileExistsError, and ValueError if UTF-8 cannot encode the content.
    Example: create("notes/plan.md", "# Plan\\n").
    """
    data = _encode(name, content, "utf-8")
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    try:
        file = open(name, "xb")  # noqa: SIM115  (an error here must not delete the file)
    except FileExistsError:
        raise FileExistsError(
            f"{name} already exists; change it with edit(path, old, new)"
        ) from None
    try:
        with file:
            file.write(data)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    line_count = content.count("\n")
    if content and not content.endswith("\n"):
        line_count += 1
    noun = "line" if line_count == 1 else "lines"
    print(f"{name}: {line_count:,} {noun} written")
    _reload_modules(name)


def _read_file(path: str) -> _DecodedFile:
    """Read a text file, and guess its encoding: UTF-8, Windows-1252, or UTF-16 with a byte order
    mark."""
    with open(path, "rb") as file:
        data = file.read()
    text = data.decode("utf-8", "surrogateescape")
    invalid_byte_count = sum("\udc80" <= character <= "\udcff" for character in text)
    special_character_count = sum(character > "\x7f" for character in text)
    # Not as "utf-16", which would take the mark out of the text that is written again.
    if data.startswith(codecs.BOM_UTF16_LE):
        encoding = "utf-16-le"
    elif data.startswith(codecs.BOM_UTF16_BE):
        encoding = "utf-16-be"
    elif 2 * invalid_byte_count > special_character_count:
        encoding = "cp1252"
    else:
        return _DecodedFile(text, "utf-8")
    with suppress(UnicodeDecodeError):
        return _DecodedFile(data.decode(encoding), encoding)
    return _DecodedFile(text, "utf-8")


def _adopt_line_ends(replacement: _Replacement, text: str) -> _Replacement:
    """Return a replacement whose line ends are those of the text in which it is made, unless those of
    the replaced text are meant as they are."""
    old = replacement.old
    # A "\n" at the start of `old` that follows a "\r" in the text is not a line end.
    splits_line_end = f"\r{old}" in text
    if "\n" in old and old in text and not splits_line_end:
        return replacement
    line_end = "\n"
    is_mostly_crlf = text.count("\r\n") * 2 > text.count("\n")
    if is_mostly_crlf:
        line_end = "\r\n"
    return _Replacement(_LINE_END.sub(line_end, old), _LINE_END.sub(line_end, replacement.new))


def _describe_similar_line(text: str, old: str) -> str:
    """Return a sentence about the line that is most like the first line of `old`, with a blank before
    it; empty if no line is similar, or `old` is blank."""
    first_line = old.strip().split("\n")[0].strip()
    if not first_line:
        return ""
    lines = [line.strip() for line in text.split("\n")[:_MAX_COMPARED_LINES]]
    similar_lines = late_import("difflib").get_close_matches(
        first_line, lines, n=1, cutoff=_MIN_SIMILARITY
    )
    if not similar_lines:
        return ""
    similar_line = similar_lines[0]
    return f" Line {lines.index(similar_line) + 1} is similar: {similar_line!r}"


def _encode(path: str, text: str, encoding: str) -> bytes:
    """Return a text as the bytes of a file. Raises `ValueError` if the encoding cannot write it."""
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} is written in {encoding}, which has no {text[error.start]!r}; nothing was changed"
        ) from None


def _replace_file(path: str, text: str, encoding: str) -> None:
    """Replace the text of a file at once, so that no program reads a part of it. The mode of the file
    stays, and symbolic links still lead to it; other hard links keep the old text."""
    data = _encode(path, text, encoding)
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & _PERMISSION_BITS
    folder = os.path.dirname(target)
    descriptor, draft_path = late_import("tempfile").mkstemp(".draft", ".", folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(draft_path, mode)
        os.replace(draft_path, target)
    except BaseException:
        # The draft is gone if an interrupt came after it had been renamed.
        with suppress(FileNotFoundError):
            os.unlink(draft_path)
        raise


def _print_difference(path: str, old_text: str, new_text: str) -> None:
    """Print how a file has changed, as a diff, or that its lines are the same."""
    diff_lines = unified_diff(
        old_text.splitlines(), new_text.splitlines(), context_lines=_DIFF_CONTEXT_LINES
    )
    if diff_lines:
        print("\n".join([f"--- {path}", f"+++ {path}", *diff_lines]))
    elif new_text == old_text:
        print(f"{path}: nothing changed")
    else:
        print(f"{path}: only line ends changed")


def _reload_modules(path: str) -> None:
    """Reload the modules that were imported from a file, and print which."""
    real_path = os.path.realpath(path)
    for name, module in list(sys.modules.items()):
        module_file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(module_file, str):
            continue
        if os.path.realpath(module_file) != real_path:
            continue
        importlib = late_import("importlib")
        importlib.invalidate_caches()
        try:
            importlib.reload(module)
        except (Exception, SystemExit) as error:
            # The user's module has raised it.
            print(f"{name} could not be reloaded: {type(error).__name__}: {error}")
        else:
            print(f"{name} was reloaded")
