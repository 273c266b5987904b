"""Recognises the format of a file: its encoding, separator, packing and sheets."""

from __future__ import annotations

import codecs
import csv
import html
import itertools
import json
import os
import re
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

from mahtab_tui.knowledge.confined_folder import marked_encoding, single_byte_encoding

HEAD_BYTES = 65_536
"""Bytes to read from the start of a file to recognise its type."""
_CHUNK_BYTES = 1_048_576
_SAMPLE_BYTES = 65_536
"""Bytes, from the first one that is not UTF-8, by which the encoding is guessed."""

_CONTROL_BYTES_IN_TEXT = b"\t\n\r\f\x1b"
"""Control characters that texts contain; many others mean that a file is not a text."""
_MAX_CONTROL_SHARE = 0.05
_SPECIAL_BYTES = re.compile(rb"[\x80-\xff]+")
_SAMPLED_CHARACTERS = 2_000
_MIN_WORD_BYTES = 4
"""Special bytes in a row that are a word rather than Western quotation marks."""

_SEPARATORS = ",;\t|"
"""If several fit equally well, the first one is chosen."""
_RARE_SEPARATORS = "^:"
"""Chosen only if no other one separates anything, and all lines fit."""
_COLUMN_NAME = re.compile(r"[^\W\d][\w .()/%-]{0,60}")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
_DECIMAL_POINT = re.compile(r"[-+]?\d+\.\d+", re.ASCII)
_MIN_TABLE_LINES = 3
"""A text of at least so many lines is a table if all have equally many fields."""
_MIN_JSON_LINES = 2
_EXAMINED_JSON_LINES = 50
"""Lines at the start of a text among which the first JSON values are looked for."""

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""By suffix: the module of the standard library that reads a compressed file."""

_MAX_SHEET_LIST_BYTES = 4_000_000
_SHEET_LISTS = {
    ".xlsx": ("xl/workbook.xml", re.compile(r'<(?:\w+:)?sheet\s[^>]*?\bname="([^"]*)"')),
    ".ods": ("content.xml", re.compile(r'<table:table\s[^>]*?\btable:name="([^"]*)"')),
}
"""By suffix: the member of a workbook's archive that names the sheets, and what to search it for."""

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
"""By suffix: the bytes with which a file begins; pandas reads each kind of workbook under the suffix
of another."""
_FORMAT_NAMES = {
    ".xlsx": "a workbook",
    ".xls": "a workbook",
    ".ods": "a workbook",
    ".parquet": "a Parquet file",
    ".feather": "a Feather file",
}
_MAX_TESTED_BYTES = 20_000_000


class TextEncoding(NamedTuple):
    """The encoding of a file, as far as it can be recognised."""

    name: str
    """Python's name of it; empty if the file is not a text."""
    is_guess: bool = False
    is_damaged: bool = False
    """Whether some bytes are not valid in this encoding."""


class Packing(NamedTuple):
    """How a file is compressed."""

    module: str = ""
    """The module of the standard library that reads it; empty if it is not compressed."""
    members: tuple[str, ...] = ()
    """The files in an archive."""


def inspect_packing(path: Path) -> Packing:
    """Return how a file is compressed, by its suffix. Raises `OSError`, `ValueError`."""
    suffix = path.suffix.lower()
    if suffix == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = tuple(info.filename for info in archive.infolist() if not info.is_dir())
        return Packing("zipfile", members) if members else Packing()
    return Packing(COMPRESSIONS.get(suffix, ""))


def open_packed(path: Path, packing: Packing) -> IO[bytes]:
    """Open the content of a file, uncompressed; of an archive, the content of its only file."""
    if packing.module == "zipfile":
        return zipfile.ZipFile(path).open(packing.members[0])
    if packing.module:
        content: IO[bytes] = import_module(packing.module).open(path)
        return content
    return path.open("rb")


def guess_encoding(beginning: bytes) -> str:
    """Guess the encoding of a text by its beginning; empty if it is not a text."""
    return _guess_encoding(beginning).name


def inspect_encoding(file: IO[bytes], beginning: bytes, max_bytes: int) -> TextEncoding:
    """Return the encoding of a whole file.

    A text that begins as UTF-8 may be in another encoding: its first special character may be far
    from its beginning.

    Args:
        file: the open file, which must be seekable.
        beginning: its first bytes.
        max_bytes: how many bytes to read at most.
    """
    encoding = _guess_encoding(beginning)
    if encoding.name == "utf-8" and not encoding.is_damaged:
        encoding = _check_utf8(file, max_bytes)
    if not encoding.is_guess:
        return encoding

    # The guess comes from a sample; the rest of the file may refute it.
    if _find_undecodable(file, encoding.name, max_bytes) is None:
        return encoding
    if encoding.name == "cp1252":
        # Latin-1 has the same letters, and a character for every byte.
        return encoding._replace(name="latin-1")
    return encoding._replace(is_damaged=True)


def _check_utf8(file: IO[bytes], max_bytes: int) -> TextEncoding:
    """Return the encoding of a file that begins as UTF-8."""
    damage = _find_undecodable(file, "utf-8", max_bytes)
    if damage is None:
        return TextEncoding("utf-8")
    # A text that has valid characters of UTF-8 before the damage is UTF-8.
    if damage.follows_special:
        return TextEncoding("utf-8", is_damaged=True)
    return _guess_encoding(damage.sample)


class _Damage(NamedTuple):
    """The first place in a file whose bytes are not valid in an encoding."""

    sample: bytes
    """The invalid bytes, and those after them."""
    follows_special: bool
    """Whether characters other than ASCII precede the place."""


def _find_undecodable(file: IO[bytes], encoding: str, max_bytes: int) -> _Damage | None:
    """Return the first bytes of a file that cannot be decoded; None if all can."""
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    is_ascii = True
    byte_count = 0
    while byte_count < max_bytes:
        data = file.read(_CHUNK_BYTES)
        byte_count += len(data)
        try:
            decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            sample = error.object[error.start :] + file.read(_SAMPLE_BYTES)
            is_ascii = is_ascii and error.object[: error.start].isascii()
            return _Damage(sample[:_SAMPLE_BYTES], not is_ascii)
        if not data:
            break
        is_ascii = is_ascii and data.isascii()
    return None


def _guess_encoding(beginning: bytes) -> TextEncoding:
    if marked := marked_encoding(beginning):
        return TextEncoding(marked)
    control_count = sum(byte < 32 and byte not in _CONTROL_BYTES_IN_TEXT for byte in beginning)
    if b"\0" in beginning or control_count > _MAX_CONTROL_SHARE * len(beginning):
        return TextEncoding("")

    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return _guess_older_encoding(beginning)
    return TextEncoding("utf-8")


def _guess_older_encoding(data: bytes) -> TextEncoding:
    """Guess the encoding of a text that is not valid UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    invalid_count = sum("\udc80" <= character <= "\udcff" for character in text)
    special_count = sum(character > "\x7f" for character in text)
    if 2 * invalid_count < special_count:
        return TextEncoding("utf-8", is_damaged=True)

    if _has_special_words(data):
        from charset_normalizer import from_bytes

        match = from_bytes(data).best()
        if match is not None and _is_other_script(str(match)):
            return TextEncoding(match.encoding, is_guess=True)
    return TextEncoding(single_byte_encoding(data), is_guess=True)


def _has_special_words(data: bytes) -> bool:
    """Return whether most special bytes have another one beside them, as in Cyrillic, Greek and
    Asian texts. In Western ones, letters with accents stand alone."""
    run_lengths = [len(run) for run in _SPECIAL_BYTES.findall(data)]
    if max(run_lengths, default=0) < _MIN_WORD_BYTES:
        return False
    joined_count = sum(length for length in run_lengths if length > 1)
    return 2 * joined_count > sum(run_lengths)


def _is_other_script(text: str) -> bool:
    """Return whether most special characters are letters of a script other than Latin."""
    special_characters = (character for character in text if character > "\x7f")
    sample = list(itertools.islice(special_characters, _SAMPLED_CHARACTERS))
    letters = [
        character
        for character in sample
        if character.isalpha() and "LATIN" not in unicodedata.name(character, "LATIN")
    ]
    return 2 * len(letters) > len(sample)


def guess_separator(
    text: str, *, is_cut: bool, preferred: str = ",", tries_rare: bool = True
) -> str:
    """Guess the separator of a table by the beginning of its text.

    It is the one that gives the most lines the same number of fields. If several are equally good,
    the preferred one wins, then the first of `,`, `;`, tab, `|`. If none of these separates
    anything, `^` or `:` may, below a line of names.

    Args:
        text: the first lines.
        is_cut: whether the last line may be incomplete.
        preferred: the separator that the file's suffix stands for.
        tries_rare: whether `^` and `:` are considered, which prose and settings have, too.
    """
    # A stable sort, and `max` returns the first of several equal ones.
    separators = sorted(_SEPARATORS, key=lambda separator: separator != preferred)
    shares = {separator: _even_line_share(text, separator, is_cut) for separator in separators}
    best = max(separators, key=shares.__getitem__)
    if shares[best]:
        return best
    if tries_rare:
        for separator in _RARE_SEPARATORS:
            if _has_names(text, separator) and _even_line_share(text, separator, is_cut) == 1:
                return separator
    return preferred


def _has_names(text: str, separator: str) -> bool:
    """Return whether the first line is one of names, and not a time or an address."""
    first_line = text.lstrip("\ufeff").partition("\n")[0].rstrip("\r")
    return all(_COLUMN_NAME.fullmatch(name.strip('"')) for name in first_line.split(separator))


def read_decimal_comma(text: str, separator: str) -> str:
    """Return a number of a table that has a decimal comma, such as ``307,5``; empty if the separator
    is a comma, or if other numbers have a point."""
    if separator == ",":
        return ""
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    except csv.Error:  # a field is too long
        return ""
    fields = [field.strip() for row in rows for field in row]
    if any(map(_DECIMAL_POINT.fullmatch, fields)):
        return ""
    return next(filter(_DECIMAL_COMMA.fullmatch, fields), "")


def looks_like_table(text: str, separator: str, *, is_cut: bool) -> bool:
    """Return whether all lines of a text have the same number of fields."""
    has_lines = text.count("\n") >= _MIN_TABLE_LINES
    return has_lines and _even_line_share(text, separator, is_cut) == 1


def _even_line_share(text: str, separator: str, is_cut: bool) -> float:
    """Return the share of the lines that have the commonest number of fields, from 0 to 1; 0 if the
    first line, with the names of the columns, does not fit them."""
    lines = text.splitlines(keepends=True)
    try:
        rows = csv.reader(lines, delimiter=separator)
        field_counts = [len(fields) for fields in rows if fields]
    except csv.Error:  # a field is too long
        return 0
    if is_cut and len(field_counts) > 1:
        field_counts.pop()
    if not field_counts:
        return 0

    header_count = field_counts[0]
    data_counts = field_counts[1:] or field_counts
    common_count, line_count = Counter(data_counts).most_common(1)[0]
    if common_count < 2:
        return 0
    # R writes no name for the column of row names.
    lacks_one_name = 1 < header_count == common_count - 1
    if header_count != common_count and not lacks_one_name:
        return 0
    return line_count / len(data_counts)


def is_json_lines(text: str) -> bool:
    """Return whether a text has a JSON value in each line, rather than being one value."""
    first_lines = itertools.islice(text.split("\n"), _EXAMINED_JSON_LINES)
    lines = [line for line in first_lines if line.strip()]
    if len(lines) < _MIN_JSON_LINES:
        return False
    try:
        values = [json.loads(line) for line in lines[:_MIN_JSON_LINES]]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, (dict, list)) for value in values)


def sheet_names(path: Path) -> Sequence[str]:
    """Return the names of a workbook's sheets; empty if they cannot be read."""
    sheet_list = _SHEET_LISTS.get(path.suffix.lower())
    if sheet_list is None:
        return ()
    member, sheet_name = sheet_list
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            text = file.read(_MAX_SHEET_LIST_BYTES).decode("utf-8", "replace")
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile):
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
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
        return True
