"""Decodes source files of any encoding."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_SPECIAL = frozenset(range(0x80, 0xA0))
"""Bytes of quotes, dashes and the Euro sign in Windows-1252, and of control characters in
Latin-1."""
_UNUSED = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Bytes of these that are undefined in Windows-1252."""


class BinaryFile(Exception):
    """The bytes are not text."""


def is_encoding(name: str) -> bool:
    """Tell whether a codec decodes bytes to text; some do not (``hex``), and one always fails
    (``undefined``)."""
    try:
        b"x".decode(name, "replace")
    except (LookupError, ValueError):
        return False
    return True


def mark_of(data: bytes) -> bytes:
    """Return the byte order mark at the start; empty if there is none."""
    return next((mark for mark, _ in _MARKS if data.startswith(mark)), b"")


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that the byte order mark indicates, if any."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def decoded(data: bytes, encoding: str | None = None) -> str:
    """Decode bytes with the given encoding (such as ``cp037`` for EBCDIC), or by the byte order
    mark, or as UTF-8, or as Windows-1252 or Latin-1.

    Raises `BinaryFile` for a zero byte without a known encoding, `LookupError` for an encoding that
    `is_encoding` rejects.
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
    """Return the encoding of a Western text that is not UTF-8: of Windows if it has its characters,
    otherwise Latin-1."""
    special = set(data) & _SPECIAL
    return "cp1252" if special and not special & _UNUSED else "latin-1"


def lines_of(text: str) -> list[str]:
    """Split a text into lines as editors do: only a line feed ends one, not a form feed or
    U+2028."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
