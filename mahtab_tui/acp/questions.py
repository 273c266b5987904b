"""Turns what an editor sends into the words of a question."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from acp import schema

from mahtab_tui.session.mentions import Mention

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)

_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


class BadQuestion(Exception):
    """A question holds what cannot be used; the message is a sentence."""


def write_question(blocks: Sequence[Block], folder: Path) -> str:
    """Return a question that mentions its files and pictures, as a user would type it.

    Args:
        blocks: What the editor has sent.
        folder: Where the contents of pictures and embedded files are written.

    Raises:
        BadQuestion: Something cannot be read or written.
    """
    words: list[str] = []
    for number, block in enumerate(blocks, 1):
        try:
            words.append(_write_block(block, folder / str(number)))
        except OSError as error:
            raise _bad_part(number, error.strerror or "it cannot be written") from None
        except ValueError as error:
            # Of base64 or of an address that cannot be read.
            raise _bad_part(number, str(error)) from None
    return "".join(words).strip()


def _bad_part(number: int, reason: str) -> BadQuestion:
    return BadQuestion(f"Part {number} of the question cannot be used: {reason}.")


def _write_block(block: Block, folder: Path) -> str:
    """Return the words for a block. folder: a new one, for its content."""
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return _mention(_local_path(block.uri) or block.uri)
        case schema.ImageContentBlock():
            name = f"picture{_SUFFIXES.get(block.mime_type, '')}"
            return _mention(_write(folder, name, base64.b64decode(block.data, validate=True)))
        case schema.EmbeddedResourceContentBlock():
            resource = block.resource
            name = Path(_local_path(resource.uri) or urlparse(resource.uri).path).name or "file"
            if isinstance(resource, schema.TextResourceContents):
                # The editor's text, which need not be saved.
                data = resource.text.encode("utf-8", "replace")
            else:
                data = base64.b64decode(resource.blob, validate=True)
            return _mention(_write(folder, name, data))
        case _:
            raise BadQuestion("Sound cannot be used.")


def _mention(path: str) -> str:
    return f" {Mention('path', path).label} "


def _write(folder: Path, name: str, data: bytes) -> str:
    folder.mkdir(parents=True)
    (folder / name).write_bytes(data)
    return str(folder / name)


def _local_path(uri: str) -> str:
    """Return the path of a file's address; empty if it is something else."""
    address = urlparse(uri)
    return unquote(address.path) if address.scheme == "file" else ""
