"""Turns the parts of a question that an editor sends into one text, as a user would have typed it.

A file or a picture becomes a mention of a file, such as ``@/tmp/1/2/picture.png``. If the editor has sent
its content, the file is written first.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NewType
from urllib.parse import unquote, urlparse

from mahtab_tui.session.mentions import Mention

_UNMENTIONABLE = re.compile(r'["\r\n]')
"""The characters that a mention in quotation marks cannot have."""


Base64 = NewType("Base64", str)
"""Bytes as text in base64, as editors send pictures and binary files. It may be invalid."""


class PromptAttachment(NamedTuple):
    """A file or a picture that comes with a question."""

    uri: str
    """Its address, which ends with its name; or only a name."""
    content: bytes | Base64 | None
    """What it contains; None if the editor has sent only the address."""


class BadQuestion(Exception):
    """A part of a question cannot be used; the message is a sentence for the user."""


def write_question(parts: Sequence[str | PromptAttachment], folder: Path) -> str:
    """Return a question that mentions its files and pictures, as a user would type it.

    Args:
        parts: What the editor has sent, in order. Texts are taken as they are.
        folder: The folder of this question. A part with content gets a new folder in it, which is
            named by the part's number, so that files of the same name do not meet.

    Raises:
        BadQuestion: A part cannot be read or written.
    """
    words: list[str] = []
    for number, part in enumerate(parts, 1):
        try:
            words.append(_write_part(part, part_folder=folder / str(number)))
        except OSError as error:
            raise _bad_part(number, error.strerror or "it cannot be written") from None
        except ValueError as error:
            # The address or the base64 is invalid.
            raise _bad_part(number, str(error)) from None
    return "".join(words).strip()


def _bad_part(number: int, reason: str) -> BadQuestion:
    return BadQuestion(f"Part {number} of the question cannot be used: {reason}.")


def _write_part(part: str | PromptAttachment, part_folder: Path) -> str:
    """Return the words for a part: a text, or the mention of a file or an address.

    Args:
        part: What the editor has sent.
        part_folder: Where to write the content of the part, if it has one. It is made then.

    Raises:
        OSError: The content cannot be written.
        ValueError: The address or the base64 is invalid.
    """
    if isinstance(part, str):
        return part
    address = urlparse(part.uri)
    path = unquote(address.path)
    if part.content is not None:
        # The editor's content counts, also that of a file here, which may not be saved yet.
        name = _UNMENTIONABLE.sub("_", Path(path).name) or "file"
        target = str(_write_content(part.content, part_folder, name))
    elif address.scheme == "file":
        target = path or part.uri
    else:
        target = part.uri
    return f" {Mention('path', target).label} "


def _write_content(content: bytes | Base64, part_folder: Path, name: str) -> Path:
    """Write the content of a part to a file, and return its path."""
    data = base64.b64decode(content, validate=True) if isinstance(content, str) else content
    part_folder.mkdir(parents=True)
    path = part_folder / name
    path.write_bytes(data)
    return path
