"""Tools for files, which work in the kernel's working directory with the user's permissions."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress

from .stdlib import late_import
from .text_forms import mark_as_text

_LINE_END = re.compile(r"\r?\n")
_DECLARED = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks. That of UTF-8 is a character of the text, so that it stays."""


def read(path: str, start: int = 1, end: int | None = None) -> str:
    """Return the lines of a text file, each with its number.

    start, end: the first and the last line, from 1; by default all lines.
    Raises FileNotFoundError, IsADirectoryError, PermissionError.
    Example: print(read("app.py", 10, 40)).
    """
    lines = [
        line.removesuffix("\r") for line in _text(path)[0].split("\n")
    ]  # not at form feeds, so that the numbers match those of editors
    lines = lines if lines[-1] else lines[:-1]
    last = len(lines) if end is None else min(end, len(lines))
    first = max(1, start)
    return mark_as_text(
        "\n".join(f"{number:>6}  {lines[number - 1]}" for number in range(first, last + 1))
    )


def edit(path: str, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in a file, and show what changed. A module that was imported from it is reloaded.

    Raises ValueError if old is empty, does not occur, or occurs more than once; FileNotFoundError.
    Example: edit("app.py", "timeout = 3", "timeout = 30").
    """
    if not old:
        raise ValueError("old is empty: say what to replace")
    before, encoding = _text(path)
    end = "\r\n" if before.count("\r\n") * 2 > before.count("\n") else "\n"
    if old not in before:
        old = _LINE_END.sub(end, old)
    new = _LINE_END.sub(end, new)
    count = before.count(old)
    if count == 0:
        raise ValueError(f"{path}: the text to replace does not occur.{_nearest(before, old)}")
    if count > 1:
        raise ValueError(
            f"{path}: the text to replace occurs {count} times; include more of the text around it"
        )
    after = before.replace(old, new)
    _write(path, after, encoding)
    diff = late_import("difflib").unified_diff(
        before.splitlines(), after.splitlines(), path, path, lineterm="", n=2
    )
    print("\n".join(diff))
    _reload(path)


def create(name: str, content: str) -> None:
    """Write a new file and make its folders; an existing file is not changed.

    Raises FileExistsError.
    Example: create("notes/plan.md", "# Plan\\n").
    """
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    try:
        with open(name, "x", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(content)
    except FileExistsError:
        raise FileExistsError(
            f"{name} already exists; change it with edit(path, old, new)"
        ) from None
    print(
        f"{name}: {content.count(chr(10)) + (not content.endswith(chr(10)) and bool(content))} lines written"
    )
    _reload(name)


def _text(path: str) -> tuple[str, str]:
    """Return a file's text and its encoding, in which bytes that are not valid stay as they are."""
    with open(path, "rb") as file:
        data = file.read()
    encoding = _encoding_of(data)
    return data.decode(encoding, "surrogateescape"), encoding


def _encoding_of(data: bytes) -> str:
    """Return the encoding of a file: by its byte order mark, by the line of a script that names it, or by its bytes."""
    marked = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    if marked:
        return marked
    text = data.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= each <= "\udcff" for each in text)
    if not invalid or b"\0" in data:
        return "utf-8"
    declared = next(
        (
            found[1].decode()
            for line in data.split(b"\n", 2)[:2]
            if (found := _DECLARED.match(line))
        ),
        "",
    )
    for encoding in (declared, "cp1252"):
        with suppress(LookupError, ValueError):
            if encoding and data.decode(encoding).encode(encoding) == data:
                valid = sum(each > "\x7f" for each in text) - invalid
                return encoding if encoding == declared or invalid > valid else "utf-8"
    return "latin-1" if invalid > sum(each > "\x7f" for each in text) - invalid else "utf-8"


def _write(path: str, text: str, encoding: str) -> None:
    """Replace a file's text atomically, keeping its mode; a link stays a link."""
    try:
        data = text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} is written in {encoding}, which has no {text[error.start]!r}; nothing was changed"
        ) from None
    target = os.path.realpath(path)
    mode = os.stat(target).st_mode & 0o7777
    handle, draft = late_import("tempfile").mkstemp(
        dir=os.path.dirname(target), prefix=".", suffix=".draft"
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def _nearest(text: str, old: str) -> str:
    """Describe the line that is most similar to the first line of the searched text."""
    wanted = old.strip().split("\n")[0].strip()
    lines = text.splitlines()
    close = late_import("difflib").get_close_matches(
        wanted, [line.strip() for line in lines[:20000]], n=1, cutoff=0.7
    )
    if not close:
        return ""
    number = next(number for number, line in enumerate(lines, 1) if line.strip() == close[0])
    return f" Line {number} is similar: {close[0]!r}"


def _reload(path: str) -> None:
    """Reload a module that was imported from this file; an error is printed, not raised."""
    real = os.path.realpath(path)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and os.path.realpath(file) == real:
            importing = late_import("importlib")
            importing.invalidate_caches()
            try:
                importing.reload(module)
            except Exception as error:  # raised by the user's module
                print(f"{name} could not be reloaded: {type(error).__name__}: {error}")
            else:
                print(f"{name} was reloaded")
