"""Decodes the bytes of a file: in a given encoding, or in the one that they seem to have."""

from __future__ import annotations

import codecs

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings of files by their first bytes; UTF-32 starts like UTF-16, so it comes first."""
AMBIGUOUS_BYTES = frozenset(range(0x80, 0xA0))
"""Printed in Windows-1252, controls in Latin-1."""
UNDEFINED_BYTES = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Undefined in Windows-1252."""


class BinaryFile(Exception):
    """The bytes are not text."""


def is_encoding(name: str) -> bool:
    """Return whether a codec decodes bytes to text; ``hex`` does not."""
    try:
        b"x".decode(name, "replace")
    except (LookupError, ValueError):
        return False
    return True


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that a file's byte order mark names; None without a mark."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    return None


def decode(data: bytes, encoding: str | None = None) -> str:
    """Return the text of bytes.

    Args:
        data: The bytes.
        encoding: Their encoding, such as ``cp037``; None for that of the byte order mark, or else for
            UTF-8, Windows-1252 or Latin-1.

    Raises:
        BinaryFile: They are not text.
        LookupError: There is no such encoding.
    """
    if encoding is not None:
        if not is_encoding(encoding):
            raise LookupError(encoding)
        # Mainframes end lines with NEL.
        return data.decode(codecs.lookup(encoding).name, "replace").replace("\x85", "\n")
    if (marked := marked_encoding(data)) is not None:
        return data.decode(marked, "replace")
    if b"\0" in data:
        raise BinaryFile
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(single_byte_encoding(data))


def single_byte_encoding(data: bytes) -> str:
    """Return whether text that is not UTF-8 is Windows-1252 or Latin-1."""
    ambiguous_bytes = set(data) & AMBIGUOUS_BYTES
    if ambiguous_bytes and not ambiguous_bytes & UNDEFINED_BYTES:
        return "cp1252"
    return "latin-1"


def split_lines(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends one, not a form feed or U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
