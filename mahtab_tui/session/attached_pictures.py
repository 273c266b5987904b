"""Loads the pictures that questions mention: files, variables, and pictures displayed by cells."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.llm.pictures import (
    HEAD,
    LARGEST_FILE,
    EncodedPicture,
    PictureError,
    PictureSize,
    is_picture,
    scaled,
    size_from_head,
)
from mahtab_tui.session.attached_texts import opened, size_of

Shown = Callable[[int], Sequence[str]]
"""Returns the pictures that a cell, by number, has displayed (base64). Raises `StoreError`."""


SizedPicture = tuple[EncodedPicture, str]
"""A picture, and its size in words: pixels and bytes."""


def measured_file(path: Path) -> str | None:
    """Return a picture's pixels and bytes from the head of its file; None for other files. Raises
    `PictureError` and `OSError`."""
    with opened(path) as file:
        if not is_picture(file.read(HEAD)):
            return None
        file.seek(0)
        return _in_words(size_from_head(file), os.fstat(file.fileno()).st_size)


def picture_of_file(path: Path) -> SizedPicture:
    """Load the picture in a file. Raises `PictureError` and `OSError`."""
    with opened(path) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise PictureError(
            f"The picture's file is too large: at most {size_of(LARGEST_FILE)} are read."
        )
    return _sized(data)


def measured_variable(kernel: Kernel, name: str) -> str | None:
    """Return the size of a variable's picture without drawing it; None if the variable is not a
    picture. Raises `KernelError`."""
    look = InspectorClient(kernel)
    found = look.measure((("name", name),))
    if found is None:
        return None
    width, height = found
    return f"{width:,} × {height:,} px" if width else "drawn when sent"


def picture_of_variable(kernel: Kernel, name: str) -> SizedPicture:
    """Draw a variable's picture, which may run its own code. Raises `PictureError` and
    `KernelError`."""
    return _sized(InspectorClient(kernel).picture((("name", name),)))


def measured_here(data: str) -> str:
    """Return the pixels and bytes of a displayed picture. Raises `PictureError`."""
    return _in_words(size_from_head(io.BytesIO(base64.b64decode(data))), len(data) * 3 // 4)


def picture_here(data: str) -> SizedPicture:
    """Load a displayed picture. Raises `PictureError`."""
    return _sized(base64.b64decode(data))


def _sized(data: bytes) -> SizedPicture:
    was, picture = size_from_head(io.BytesIO(data)), scaled(data)
    of = (
        ""
        if max(was.width, was.height) == max(picture.width, picture.height)
        else f" of {was.width:,} × {was.height:,}"
    )
    frame = ", first frame" if was.moves else ""
    return (
        picture,
        f"{picture.width:,} × {picture.height:,} px{of}, {size_of(picture.bytes)}{frame}",
    )


def _in_words(measures: PictureSize, size: int) -> str:
    return f"{measures.width:,} × {measures.height:,} px, {size_of(size)}{', first frame' if measures.moves else ''}"
