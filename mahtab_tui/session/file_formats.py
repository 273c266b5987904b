"""Recognises the format of a file: its encoding, separator, packing and sheets."""

from __future__ import annotations

import codecs
import csv
import html
import itertools
import json
import re
import unicodedata
import zipfile
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
"""Bytes after the first one that is not UTF-8, by which its encoding is guessed."""

_SPECIAL_BYTES = re.compile(rb"[\x80-\xff]+")
_SAMPLED_CHARACTERS = 2_000
_MIN_WORD_BYTES = 4
"""Special bytes in a row that are a word rather than Western quotation marks."""

_SEPARATORS = ",;\t|"
"""In the order in which they win if they fit equally well."""
_MIN_TABLE_LINES = 3
"""Lines from which a text with equally many fields in each line is probably a table."""
_MIN_JSON_LINES = 2

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}

_MAX_SHEET_LIST_BYTES = 4_000_000
_SHEET_LISTS = {
    ".xlsx": ("xl/workbook.xml", re.compile(r'<(?:\w+:)?sheet\s[^>]*?\bname="([^"]*)"')),
    ".ods": ("content.xml", re.compile(r'<table:table\s[^>]*?\btable:name="([^"]*)"')),
}
"""By suffix: the part of a workbook that names its sheets, and the form of a name."""


class TextEncoding(NamedTuple):
    name: str
    """Python's name of it; empty if the file is not a text."""
    is_guess: bool = False
    is_damaged: bool = False
    """Whether some bytes mean nothing in it."""


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
    """Open the content of a file: of an archive, that of its only file."""
    if packing.module == "zipfile":
        return zipfile.ZipFile(path).open(packing.members[0])
    if packing.module:
        opened: IO[bytes] = import_module(packing.module).open(path)
        return opened
    return path.open("rb")


def guess_encoding(beginning: bytes) -> str:
    """Guess the encoding of a text by its beginning; empty if it is not a text."""
    return _guess_encoding(beginning).name


def inspect_encoding(file: IO[bytes], beginning: bytes, max_bytes: int) -> TextEncoding:
    """Return the encoding of a whole file.

    A text that begins as UTF-8 may be in another encoding: its first special character may be far
    from its beginning.

    Args:
        file: the open file, which can seek.
        beginning: its first bytes.
        max_bytes: how much of it is read at most.
    """
    encoding = _guess_encoding(beginning)
    if encoding.name == "utf-8" and not encoding.is_damaged:
        encoding = _check_utf8(file, max_bytes)
    if not encoding.is_guess:
        return encoding
    if _find_undecodable(file, encoding.name, max_bytes) is None:
        return encoding
    if encoding.name == "cp1252":
        return encoding._replace(name="latin-1")
    return encoding._replace(is_damaged=True)


def _check_utf8(file: IO[bytes], max_bytes: int) -> TextEncoding:
    damage = _find_undecodable(file, "utf-8", max_bytes)
    if damage is None:
        return TextEncoding("utf-8")
    if damage.follows_special:
        return TextEncoding("utf-8", is_damaged=True)
    return _guess_encoding(damage.sample)


class _Damage(NamedTuple):
    """The first bytes of a file that its encoding does not have."""

    sample: bytes
    """These and the bytes after them."""
    follows_special: bool
    """Whether characters other than ASCII precede them."""


def _find_undecodable(file: IO[bytes], encoding: str, max_bytes: int) -> _Damage | None:
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
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in beginning)
    if b"\0" in beginning or controls * 20 > len(beginning):
        return TextEncoding("")
    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return _guess_older_encoding(beginning)
    return TextEncoding("utf-8")


def _guess_older_encoding(data: bytes) -> TextEncoding:
    text = data.decode("utf-8", "surrogateescape")
    invalid_count = sum("\udc80" <= character <= "\udcff" for character in text)
    special_count = sum(character > "\x7f" for character in text)
    if 2 * invalid_count < special_count:
        return TextEncoding("utf-8", is_damaged=True)
    if _has_letters_in_rows(data):
        from charset_normalizer import from_bytes

        match = from_bytes(data).best()
        if match is not None and _is_other_script(str(match)):
            return TextEncoding(match.encoding, is_guess=True)
    return TextEncoding(single_byte_encoding(data), is_guess=True)


def _has_letters_in_rows(data: bytes) -> bool:
    """Return whether most special bytes have another one beside them, as in Cyrillic, Greek and
    Asian texts. In Western ones, letters with accents stand alone."""
    lengths = [len(run) for run in _SPECIAL_BYTES.findall(data)]
    joined_count = sum(length for length in lengths if length > 1)
    return max(lengths, default=0) >= _MIN_WORD_BYTES and 2 * joined_count > sum(lengths)


def _is_other_script(text: str) -> bool:
    """Return whether most special characters are letters of another script than the Latin one."""
    specials = list(itertools.islice(filter(lambda c: c > "\x7f", text), _SAMPLED_CHARACTERS))
    letters = [c for c in specials if c.isalpha() and "LATIN" not in unicodedata.name(c, "LATIN")]
    return 2 * len(letters) > len(specials)


def guess_separator(text: str, *, is_cut: bool, preferred: str = ",") -> str:
    """Return the separator of a table by the beginning of its text.

    It is the one that gives most lines the same number of fields; if several do, the preferred
    one, and then the order `,`, `;`, tab, `|`.

    Args:
        text: the first lines.
        is_cut: whether the last line may be incomplete.
        preferred: the separator that the file's suffix stands for.
    """
    separators = sorted(_SEPARATORS, key=lambda separator: separator != preferred)
    shares = {separator: _share_of_even_lines(text, separator, is_cut) for separator in separators}
    best = max(separators, key=shares.__getitem__)
    return best if shares[best] else preferred


def looks_like_table(text: str, separator: str, *, is_cut: bool) -> bool:
    """Return whether all lines of a text have the same number of fields."""
    has_lines = text.count("\n") >= _MIN_TABLE_LINES
    return has_lines and _share_of_even_lines(text, separator, is_cut) == 1


def _share_of_even_lines(text: str, separator: str, is_cut: bool) -> float:
    """Return which part of the lines has the commonest number of fields; 0 if the first line, with
    the names of the columns, does not fit it."""
    counts: list[int] = []
    try:
        for fields in csv.reader(text.splitlines(keepends=True), delimiter=separator):
            counts.extend([len(fields)] * bool(fields))
    except csv.Error:  # a field is too long
        return 0
    if is_cut and len(counts) > 1:
        counts.pop()
    if not counts:
        return 0
    common_count, line_count = Counter(counts[1:] or counts).most_common(1)[0]
    # R writes no name for the column of row names.
    is_header = counts[0] == common_count or 1 < counts[0] == common_count - 1
    if common_count < 2 or not is_header:
        return 0
    return line_count / len(counts[1:] or counts)


def is_json_lines(text: str) -> bool:
    """Return whether a text is one JSON value a line, rather than one value."""
    lines = [line for line in itertools.islice(text.split("\n"), 50) if line.strip()]
    if len(lines) < _MIN_JSON_LINES:
        return False
    try:
        values = [json.loads(line) for line in lines[:_MIN_JSON_LINES]]
    except (ValueError, RecursionError):
        return False
    return all(isinstance(value, (dict, list)) for value in values)


def sheet_names(path: Path) -> Sequence[str]:
    """Return the names of a workbook's sheets; empty if they cannot be read."""
    part = _SHEET_LISTS.get(path.suffix.lower())
    if part is None:
        return ()
    member, name_form = part
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            text = file.read(_MAX_SHEET_LIST_BYTES).decode("utf-8", "replace")
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile):
        return ()
    return [html.unescape(name) for name in name_form.findall(text)]
