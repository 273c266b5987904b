"""Turns what an editor sends into the words of a question."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from mahtab_tui.session.mentions import Mention

_UNMENTIONABLE = re.compile(r'["\r\n]')
"""The characters that a mention in quotation marks cannot have."""


class PromptAttachment(NamedTuple):
    """A file or a picture that comes with a question."""

    uri: str
    """An address that ends with its name."""
    content: bytes | str | None
    """A text is base64; None if only the address comes."""


class BadQuestion(Exception):
    """A question holds what cannot be used; the message is a sentence."""


def write_question(parts: Sequence[str | PromptAttachment], folder: Path) -> str:
    """Return a question that mentions its files and pictures, as a user would type it.

    Args:
        parts: What the editor has sent.
        folder: Where the contents of pictures and embedded files are written.

    Raises:
        BadQuestion: Something cannot be read or written.
    """
    words: list[str] = []
    for number, part in enumerate(parts, 1):
        try:
            words.append(_write_part(part, folder / str(number)))
        except OSError as error:
            raise _bad_part(number, error.strerror or "it cannot be written") from None
        except ValueError as error:
            # Of base64 or of an address that cannot be read.
            raise _bad_part(number, str(error)) from None
    return "".join(words).strip()


def _bad_part(number: int, reason: str) -> BadQuestion:
    return BadQuestion(f"Part {number} of the question cannot be used: {reason}.")


def _write_part(part: str | PromptAttachment, folder: Path) -> str:
    """Return the words for a part. folder: a new one, for its content."""
    if isinstance(part, str):
        return part
    path = _local_path(part.uri)
    if part.content is not None:
        name = Path(path or unquote(urlparse(part.uri).path)).name or "file"
        name = _UNMENTIONABLE.sub("_", name)
        path = str(folder / name)
        data = part.content
        if isinstance(data, str):
            data = base64.b64decode(data, validate=True)
        folder.mkdir(parents=True)
        Path(path).write_bytes(data)
    return f" {Mention('path', path or part.uri).label} "


def _local_path(uri: str) -> str:
    """Return the path of a file's address; empty if it is something else."""
    address = urlparse(uri)
    return unquote(address.path) if address.scheme == "file" else ""
