"""Looks into the files that a session loads: how they are packed, the sheets of a workbook, and whether
they are what their suffix says."""

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


_MAX_SHEET_LIST_BYTES = 4_000_000
"""Bytes to read of the part of a workbook that names its sheets."""
_MAX_TESTED_BYTES = 20_000_000
"""The checksums in a larger archive are not tested."""
_ZIP_MAGIC = b"PK"
_WORKBOOK_MAGICS = (_ZIP_MAGIC, b"\xd0\xcf\x11\xe0")
"""The bytes with which workbooks begin, new ones and old ones. pandas reads each kind under the suffix
of the other."""
_MAX_MAGIC_BYTES = 8


class _SheetList(NamedTuple):
    """Where a workbook names its sheets."""

    member: str
    """The member of the workbook's archive."""
    sheet: re.Pattern[str]
    """A sheet in the member, whose group is its name."""


class _BinaryFormat(NamedTuple):
    """A format of files that no text editor shows."""

    name: str
    """With its article."""
    magics: tuple[bytes, ...]
    """Files begin with one of these."""
    ends_with_magic: bool = False
    """Whether they also end with one of these."""
    sheet_list: _SheetList | None = None
    """None if there are no sheets, or their names are not looked for."""


_BINARY_FORMATS = {
    ".xlsx": _BinaryFormat(
        "a workbook",
        _WORKBOOK_MAGICS,
        sheet_list=_SheetList(
            "xl/workbook.xml", re.compile(r'<(?:\w+:)?sheet\s[^>]*?\bname="([^"]*)"')
        ),
    ),
    ".xls": _BinaryFormat("a workbook", (*_WORKBOOK_MAGICS, b"\x09")),
    ".ods": _BinaryFormat(
        "a workbook",
        (_ZIP_MAGIC,),
        sheet_list=_SheetList(
            "content.xml", re.compile(r'<table:table\s[^>]*?\btable:name="([^"]*)"')
        ),
    ),
    ".parquet": _BinaryFormat("a Parquet file", (b"PAR1", b"PARE"), ends_with_magic=True),
    ".feather": _BinaryFormat("a Feather file", (b"ARROW1", b"FEA1")),
}
"""By suffix."""


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
    file_format = _BINARY_FORMATS.get(path.suffix.lower())
    if file_format is None or file_format.sheet_list is None:
        return ()
    sheet_list = file_format.sheet_list
    try:
        with zipfile.ZipFile(path) as archive, archive.open(sheet_list.member) as file:
            text = file.read(_MAX_SHEET_LIST_BYTES).decode("utf-8", "replace")
    except READING_ERRORS:
        return ()
    return [html.unescape(name) for name in sheet_list.sheet.findall(text)]


def damage(path: Path) -> str:
    """Return why a file cannot be what its suffix says, as the end of a sentence that begins with
    the file's name; empty if it can. Only formats that no text editor shows are checked.

    Raises:
        OSError: The file cannot be read.
    """
    file_format = _BINARY_FORMATS.get(path.suffix.lower())
    if file_format is None:
        return ""
    with path.open("rb") as file:
        beginning = file.read(_MAX_MAGIC_BYTES)
    if not beginning:
        return "is empty"
    if not beginning.startswith(file_format.magics):
        return f"is not {file_format.name}, or is damaged"
    if not _is_complete(path, file_format, is_archive=beginning.startswith(_ZIP_MAGIC)):
        return "is damaged, or was not copied completely"
    return ""


def _is_complete(path: Path, file_format: _BinaryFormat, *, is_archive: bool) -> bool:
    """Return whether nothing shows that a part of a file is missing. Raises `OSError`."""
    if is_archive:
        return zipfile.is_zipfile(path) and not _has_damaged_member(path)
    return not file_format.ends_with_magic or _ends_with(path, file_format.magics)


def _ends_with(path: Path, endings: tuple[bytes, ...]) -> bool:
    """Return whether a file ends with one of these, which have the same length."""
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
