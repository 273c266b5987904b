"""Reads, edits and creates text files."""

from __future__ import annotations

import codecs
import os
import re
import sys
from contextlib import suppress

from ..stdlib import late_import
from .line_diff import unified_diff
from .text_tools import mark_as_text

_LINE_END = re.compile(r"\r?\n")

_MAX_COMPARED_LINES = 20_000
"""Lines of a file that are compared with a text that does not occur in it."""


def read(path: str, start: int = 1, end: int | None = None) -> str:
    """Return the lines of a text file, each with its number.

    start, end: the first and the last line, from 1; by default all lines.
    Raises FileNotFoundError, IsADirectoryError, PermissionError.
    Example: print(read("app.py", 10, 40)).
    """
    # Split at newlines only, not at form feeds, so that line numbers match those of editors.
    text = _read_text(path)[0].removeprefix("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = lines if lines[-1] else lines[:-1]
    last_line = len(lines) if end is None else min(end, len(lines))
    first_line = max(1, start)
    numbers = range(first_line, last_line + 1)
    return mark_as_text("\n".join(f"{number:>6}  {lines[number - 1]}" for number in numbers))


def edit(path: str, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in a file, and show what changed. A module that was imported from it is reloaded.

    Raises ValueError if old is empty, does not occur, or occurs more than once; FileNotFoundError.
    Example: edit("app.py", "timeout = 3", "timeout = 30").
    """
    if not old:
        raise ValueError("old is empty: say what to replace")
    old_text, encoding = _read_text(path)
    end = "\n"
    if old_text.count("\r\n") * 2 > old_text.count("\n"):
        end = "\r\n"
    # If `old` has line ends and occurs with them, those of `new` are meant, too. A "\n" at its start
    # that follows a "\r" in the file is not a line end.
    if "\n" not in old or old not in old_text or f"\r{old}" in old_text:
        old = _LINE_END.sub(end, old)
        new = _LINE_END.sub(end, new)
    start = old_text.find(old)
    if start == -1:
        raise ValueError(f"{path}: the text to replace does not occur.{_nearest(old_text, old)}")
    # Not by `count`, which counts no occurrences that overlap.
    if old_text.find(old, start + 1) != -1:
        raise ValueError(
            f"{path}: the text to replace occurs more than once; include more of the text around it"
        )
    new_text = old_text.replace(old, new)
    _write(path, new_text, encoding)
    diff = unified_diff(old_text.splitlines(), new_text.splitlines(), context_lines=2)
    if diff:
        print("\n".join([f"--- {path}", f"+++ {path}", *diff]))
    elif new_text == old_text:
        print(f"{path}: nothing changed")
    else:
        print(f"{path}: only line ends changed")
    _reload(path)


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
    count = content.count("\n") + (bool(content) and not content.endswith("\n"))
    print(f"{name}: {count:,} lines written")
    _reload(name)


def _read_text(path: str) -> tuple[str, str]:
    """Return a file's text and its encoding, which preserves invalid bytes."""
    with open(path, "rb") as file:
        data = file.read()
    text = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= character <= "\udcff" for character in text)
    # By the order of their bytes, so that the mark at the start stays in the text.
    if data.startswith(codecs.BOM_UTF16_LE):
        encoding = "utf-16-le"
    elif data.startswith(codecs.BOM_UTF16_BE):
        encoding = "utf-16-be"
    elif 2 * invalid > sum(character > "\x7f" for character in text):
        encoding = "cp1252"
    else:
        return text, "utf-8"
    with suppress(UnicodeDecodeError):
        return data.decode(encoding), encoding
    return text, "utf-8"


def _encode(path: str, text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} is written in {encoding}, which has no {text[error.start]!r}; nothing was changed"
        ) from None


def _write(path: str, text: str, encoding: str) -> None:
    """Replace a file's text atomically. Its mode stays, and symbolic links still lead to it; other
    hard links keep the old text."""
    data = _encode(path, text, encoding)
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & 0o7777
    folder = os.path.dirname(target)
    handle, draft = late_import("tempfile").mkstemp(".draft", ".", folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        # It is missing if an interrupt came after it had been renamed.
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def _nearest(text: str, old: str) -> str:
    """Return a sentence about the line most like the first one of `old`; empty if none is, or `old`
    is blank."""
    first_line = old.strip().split("\n")[0].strip()
    if not first_line:
        return ""
    lines = [line.strip() for line in text.split("\n")[:_MAX_COMPARED_LINES]]
    close = late_import("difflib").get_close_matches(first_line, lines, n=1, cutoff=0.7)
    if close:
        return f" Line {lines.index(close[0]) + 1} is similar: {close[0]!r}"
    return ""


def _reload(path: str) -> None:
    """Reload the modules that were imported from a file."""
    real_path = os.path.realpath(path)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and os.path.realpath(file) == real_path:
            importlib = late_import("importlib")
            importlib.invalidate_caches()
            try:
                importlib.reload(module)
            except (Exception, SystemExit) as error:  # raised by the user's module
                print(f"{name} could not be reloaded: {type(error).__name__}: {error}")
            else:
                print(f"{name} was reloaded")
