"""Writes exported sessions and notebooks to files."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

from mahtab_tui.export.reading import content_digest
from mahtab_tui.export.rendering import render
from mahtab_tui.export.selection import ExportedEntries
from mahtab_tui.system import replace_file


def write(selected: ExportedEntries, path: Path, *, overwrite: bool = False) -> None:
    """Write a file atomically, in the format that its suffix names.

    Args:
        overwrite: Replace the file if it exists.

    Raises:
        OSError: It cannot be written; `FileExistsError` if it exists.
        NothingToExport: A package for the format is missing.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    text = render(selected, path.suffix.lower())
    if overwrite:
        replace_file(path, text)
        return

    # Creating the file reserves its name, so that no other program's file can be replaced.
    try:
        path.touch(exist_ok=False)
    except FileExistsError:  # also if it is a broken link
        raise FileExistsError(f"{path} already exists.") from None
    try:
        replace_file(path, text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def file_digest(path: Path) -> str:
    """Return the digest of a file's current content; empty if there is no file.

    Raises `OSError`.
    """
    try:
        return content_digest(path.read_bytes())
    except FileNotFoundError:
        return ""


def free_name(path: Path) -> Path:
    """Return a path beside another at which there is no file: ``name (2).ipynb``."""
    candidates = (
        path.with_name(f"{path.stem} ({number}){path.suffix}") for number in itertools.count(2)
    )
    return next(candidate for candidate in candidates if not os.path.lexists(candidate))


def write_text(path: Path, text: str, encoding: str = "utf-8") -> str:
    """Write a file, with escapes for what the encoding lacks; returns its digest."""
    if encoding != "utf-8":
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    replace_file(path, text, encoding=encoding)
    return content_digest(text.encode(encoding, "replace"))
