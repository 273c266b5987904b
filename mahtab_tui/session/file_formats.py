"""Recognises how a file is packed, the sheets of a workbook, and files that are not what their
suffix says."""

from __future__ import annotations

import html
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from importlib import import_module
from lzma import LZMAError
from pathlib import Path
from typing import IO, NamedTuple

HEAD_BYTES = 65_536
"""Bytes to read from the start of a file to recognise its type."""
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""The module of the standard library that reads a compressed file, by the file's suffix."""
_MAX_SHEET_LIST_BYTES = 4_000_000
_SHEET_LISTS = {
    ".xlsx": ("xl/workbook.xml", re.compile(r'<(?:\w+:)?sheet\s[^>]*?\bname="([^"]*)"')),
    ".ods": ("content.xml", re.compile(r'<table:table\s[^>]*?\btable:name="([^"]*)"')),
}
"""The member of a workbook's archive that names the sheets, and what to search it for, by
suffix."""
_MAGIC_BYTES = 8
_ZIP_MAGIC = b"PK"
_OLD_WORKBOOK_MAGIC = b"\xd0\xcf\x11\xe0"
_WORKBOOK_MAGICS = (_ZIP_MAGIC, _OLD_WORKBOOK_MAGIC)
_MAGIC = {
    ".xlsx": _WORKBOOK_MAGICS,
    ".xls": (*_WORKBOOK_MAGICS, b"\x09"),
    ".ods": (_ZIP_MAGIC,),
    ".parquet": (b"PAR1", b"PARE"),
    ".feather": (b"ARROW1", b"FEA1"),
}
"""The bytes with which files begin, by suffix; pandas reads each kind of workbook under the suffix
of another."""
_FORMAT_NAMES = {
    ".xlsx": "a workbook",
    ".xls": "a workbook",
    ".ods": "a workbook",
    ".parquet": "a Parquet file",
    ".feather": "a Feather file",
}
_MAX_TESTED_BYTES = 20_000_000
READING_ERRORS = (
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
    LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library raises if a file cannot be read, or if an archive or a compressed file
is damaged, encrypted, or packed in an unknown way."""


class Packing(NamedTuple):
    """How a file is compressed."""

    module: str = ""
    """The module of the standard library that reads it; empty if it is not compressed."""
    members: tuple[str, ...] = ()
    """The files in an archive."""


def inspect_packing(path: Path) -> Packing:
    """Return how a file is compressed, by its suffix. Raises `READING_ERRORS`."""
    suffix = path.suffix.lower()
    if suffix == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = tuple(
                info.filename for info in archive.infolist() if not info.filename.endswith("/")
            )
        return Packing("zipfile", members) if members else Packing()
    return Packing(COMPRESSIONS.get(suffix, ""))


def open_packed(path: Path, packing: Packing) -> IO[bytes]:
    """Open the content of a file, uncompressed; of an archive, the content of its only file.

    This and reading it raise `READING_ERRORS`.
    """
    if packing.module == "zipfile":
        return zipfile.ZipFile(path).open(packing.members[0])
    if packing.module:
        content: IO[bytes] = import_module(packing.module).open(path)
        return content
    return path.open("rb")


def sheet_names(path: Path) -> Sequence[str]:
    """Return the names of a workbook's sheets; empty if they cannot be read."""
    sheet_list = _SHEET_LISTS.get(path.suffix.lower())
    if sheet_list is None:
        return ()
    member, sheet_name = sheet_list
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            text = file.read(_MAX_SHEET_LIST_BYTES).decode("utf-8", "replace")
    except READING_ERRORS:
        return ()
    return [html.unescape(name) for name in sheet_name.findall(text)]


def damage(path: Path) -> str:
    """Return why a file cannot be what its suffix says, as the end of a sentence that begins with
    the file's name; empty if it can. Only formats that no text editor shows are checked.

    Raises:
        OSError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix not in _MAGIC:
        return ""
    with path.open("rb") as file:
        beginning = file.read(_MAGIC_BYTES)
    if not beginning:
        return "is empty"
    if not beginning.startswith(_MAGIC[suffix]):
        return f"is not {_FORMAT_NAMES[suffix]}, or is damaged"
    if beginning.startswith(_ZIP_MAGIC):
        is_complete = zipfile.is_zipfile(path) and not _has_damaged_member(path)
    else:
        is_complete = suffix != ".parquet" or _ends_with(path, _MAGIC[suffix])
    return "" if is_complete else "is damaged, or was not copied completely"


def _ends_with(path: Path, endings: tuple[bytes, ...]) -> bool:
    with path.open("rb") as file:
        file.seek(-len(endings[0]), os.SEEK_END)
        return file.read().endswith(endings)


def _has_damaged_member(path: Path) -> bool:
    """Return whether an archive contains a file that cannot be read. Large ones are not read."""
    if path.stat().st_size > _MAX_TESTED_BYTES:
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is not None
    except READING_ERRORS:
        return True
