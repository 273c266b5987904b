"""Files that go with a question: found without following a link out of the project, and read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.kernel.values import FolderEntry, FolderListing
from mahtab_tui.knowledge.confined_folder import FOLDER_FLAGS, BinaryFile, open_stepwise
from mahtab_tui.llm.pictures import (
    MAX_FILE_BYTES,
    PICTURE_HEAD_BYTES,
    PictureError,
    is_picture,
    size_from_head,
)
from mahtab_tui.session.file_formats import HEAD_BYTES
from mahtab_tui.session.mentions import Mention
from mahtab_tui.session.text_encodings import guess_encoding

MAX_ATTACHMENT_CHARS = 60_000
"""Maximum characters of an attachment."""
_DIGITS = re.compile(r"[0-9]+")
_MIN_GROUP_FILES = 4
"""Fewer files whose names differ only in digits are named one by one."""
_MAX_READ_BYTES = 50_000_000
"""Bytes of a text file that are read."""


def render_folder(listing: FolderListing, max_words: int) -> str:
    """Format the names and sizes of files and folders in one line. Files whose names differ only in
    their digits stand together.

    Args:
        max_words: Files, folders and groups of files that are named; the others are counted.
    """
    groups: dict[tuple[str, bool], list[FolderEntry]] = {}
    for entry in listing.entries:
        form = _DIGITS.sub("0", entry.name)
        groups.setdefault((form, entry.size is None), []).append(entry)

    words: list[str] = []
    named_count = 0
    for entries in groups.values():
        is_group = len(entries) >= _MIN_GROUP_FILES
        for part in [entries] if is_group else [[entry] for entry in entries]:
            if len(words) < max_words:
                words.append(_describe_files(part))
                named_count += len(part)
    omitted_count = listing.total - named_count
    if omitted_count > 0:
        words.append(f"… and {omitted_count:,} more")
    return ", ".join(words)


def _describe_files(entries: Sequence[FolderEntry]) -> str:
    """Return ``a.csv (1.1 kB)``, ``data/``, or ``a-00.log … a-39.log (40 files, 1.0–1.1 kB)``."""
    first = entries[0]
    last = entries[-1]
    sizes = sorted(entry.size for entry in entries if entry.size is not None)
    if not sizes:
        names = f"{first.name}/"
        return names if first is last else f"{names} … {last.name}/ ({len(entries):,} folders)"
    size_text = _describe_sizes(sizes[0], sizes[-1])
    if first is last:
        return f"{first.name} ({size_text})"
    if sizes[0] == sizes[-1]:
        size_text += " each"
    return f"{first.name} … {last.name} ({len(entries):,} files, {size_text})"


def _describe_sizes(smallest: int, largest: int) -> str:
    low = format_size(smallest)
    high = format_size(largest)
    if low == high:
        return low
    low_number, _, low_unit = low.partition(" ")
    is_same_unit = low_unit == high.partition(" ")[2]
    return f"{low_number if is_same_unit else low}–{high}"


@contextmanager
def open_without_links(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose absolute path contains no links. Raises `OSError`, also if a pipe has since
    replaced the file, or a link has replaced the file or a folder above it."""
    root = os.open("/", FOLDER_FLAGS)
    try:
        descriptor = open_stepwise(root, path.parts[1:])
    finally:
        os.close(root)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a file")
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_text(path: Path) -> str:
    """Read a text file; the middle of a long one is left out. Raises `OSError` and `BinaryFile`."""
    with open_without_links(path) as file:
        data = file.read(_MAX_READ_BYTES)
        omitted_bytes = os.fstat(file.fileno()).st_size - len(data)
    encoding = guess_encoding(data[:HEAD_BYTES])
    if not encoding:
        raise BinaryFile
    text = shorten(data.decode(encoding, "replace"), MAX_ATTACHMENT_CHARS)
    if omitted_bytes > 0:
        text += f"\n[… {omitted_bytes:,} bytes left out]"
    return text


def measure_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes; None for other files. Raises `PictureError` and
    `OSError`."""
    with open_without_links(path) as file:
        if not is_picture(file.read(PICTURE_HEAD_BYTES)):
            return None
        file.seek(0)
        picture = size_from_head(file)
        byte_count = os.fstat(file.fileno()).st_size
    return f"{picture.width:,} × {picture.height:,} px, {format_size(byte_count)}"


def read_picture(path: Path) -> bytes:
    """Read the file of a picture. Raises `PictureError` if it is too large, and `OSError`."""
    with open_without_links(path) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        max_size = format_size(MAX_FILE_BYTES)
        raise PictureError(f"The picture's file is too large: at most {max_size} are read.")
    return data


class NotAttached(Exception):
    """Something is not attached. The message says why."""


def resolve_links(path: Path, projects: Iterable[Path]) -> tuple[Path, str]:
    """Follow all links in a path, but not out of its project.

    Args:
        path: An absolute path.
        projects: Folders that links must not leave. A path outside them must not leave the folder
            that it is in.

    Returns:
        The target; and if there was a link, the target's path relative to the folder, else "".

    Raises:
        NotAttached: A link leads out of the folder.
    """
    # Resolved before ``..`` is removed, as the system does: it follows a link that comes before it.
    target = Path(os.path.realpath(path))
    path = Path(os.path.normpath(path))
    folder = path.parent
    for project in projects:
        if path.is_relative_to(project):
            folder = project
            break

    real_folder = Path(os.path.realpath(folder))
    if not target.is_relative_to(real_folder):
        label = Mention("path", str(target)).label
        raise NotAttached(
            f"a link to {target}, which is outside {folder}; write {label} to send it"
        )
    relative_target = target.relative_to(real_folder)
    if relative_target == path.relative_to(folder):
        return target, ""
    return target, str(relative_target)
