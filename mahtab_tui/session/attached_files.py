"""Finds and reads the files that go with a question, without following a link out of the project."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.knowledge.confined_folder import FOLDER_FLAGS, open_stepwise
from mahtab_tui.knowledge.text_decoding import BinaryFile
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
"""Maximum characters of an attached text."""
_MAX_READ_BYTES = 50_000_000
"""Maximum bytes of a text file that are read."""


class NotAttached(Exception):
    """Something is not attached. The message is a clause that gives the reason."""


class ResolvedPath(NamedTuple):
    """Where a path leads."""

    target: Path
    """The absolute path without links."""
    link_target: str
    """The target's path relative to the folder that its links must not leave; empty if no
    link below that folder is followed."""


def resolve_links(path: Path, projects: Iterable[Path]) -> ResolvedPath:
    """Follow all links in a path, but not out of its project.

    Args:
        path: An absolute path.
        projects: Folders that links must not leave. A link in a path outside them must not leave the
            folder that the path is in.

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
    has_link = relative_target != path.relative_to(folder)
    return ResolvedPath(target, str(relative_target) if has_link else "")


def describe_picture_size(path: Path) -> str | None:
    """Return how large a picture is, such as "1,234 × 56 px, 8.1 kB"; None for a file that is not a
    picture.

    Raises:
        PictureError: The picture is damaged or too large.
        OSError: The file cannot be read.
    """
    with _open_without_links(path) as file:
        if not is_picture(file.read(PICTURE_HEAD_BYTES)):
            return None
        file.seek(0)
        picture = size_from_head(file)
        file_bytes = os.fstat(file.fileno()).st_size
    return f"{picture.width:,} × {picture.height:,} px, {format_size(file_bytes)}"


def read_picture(path: Path) -> bytes:
    """Return the content of a picture's file.

    Raises:
        PictureError: The file is too large.
        OSError: The file cannot be read.
    """
    with _open_without_links(path) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        max_size = format_size(MAX_FILE_BYTES)
        raise PictureError(f"The picture's file is too large: at most {max_size} are read.")
    return data


def read_text(path: Path) -> str:
    """Return the text of a file.

    The middle of a long text is left out, and the end of a very large file.

    Raises:
        BinaryFile: The file is not a text.
        OSError: The file cannot be read.
    """
    with _open_without_links(path) as file:
        data = file.read(_MAX_READ_BYTES)
        unread_bytes = os.fstat(file.fileno()).st_size - len(data)
    encoding = guess_encoding(data[:HEAD_BYTES])
    if not encoding:
        raise BinaryFile
    text = shorten(data.decode(encoding, "replace"), MAX_ATTACHMENT_CHARS)
    if unread_bytes > 0:
        text += f"\n[… {unread_bytes:,} bytes left out]"
    return text


@contextmanager
def _open_without_links(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and close it at the end.

    Args:
        path: An absolute path without links, as `resolve_links` returns it.

    Raises:
        OSError: The file cannot be opened. Since its path was resolved, something else may have
            replaced it, such as a pipe, or a link may have replaced it or a folder above it.
    """
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
