"""Recognises the formats of files that a session loads, and names their variables."""

from __future__ import annotations

import builtins
import itertools
import keyword
import stat
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.knowledge.text_decoding import decode
from mahtab_tui.session.file_formats import (
    COMPRESSIONS,
    HEAD_BYTES,
    READING_ERRORS,
    Packing,
    damage,
    inspect_packing,
    open_packed,
    sheet_names,
)
from mahtab_tui.session.text_encodings import TextEncoding, inspect_encoding
from mahtab_tui.session.text_tables import (
    guess_separator,
    is_json_lines,
    looks_like_table,
    read_decimal_comma,
)
from mahtab_tui.worker.tools import toolbox

MAX_LOADED_BYTES = 500_000_000
"""A larger file is not loaded; its variable is its path."""
LONG_TEXT_BYTES = 20_000
"""A larger text is too long for a person to read."""
MAX_NAME_CHARS = 60
"""Maximum length of a variable's name, without the number that keeps it apart from another name."""

TAB_SEPARATED_SUFFIXES = frozenset({".tsv", ".tab"})
SEPARATED_SUFFIXES = TAB_SEPARATED_SUFFIXES | {".csv"}
PANDAS_READERS = {
    ".parquet": "read_parquet",
    ".feather": "read_feather",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "read_excel"),
}
"""The functions of pandas that read a format, by its suffix."""
JSON_SUFFIXES = frozenset({".json", ".ipynb", ".geojson"})
JSON_LINES_SUFFIXES = frozenset({".jsonl", ".ndjson"})
TEXT_SUFFIXES = frozenset({".txt", ".log", ".md", ".xml", ".html"})
_READABLE_SUFFIXES = SEPARATED_SUFFIXES | TEXT_SUFFIXES | JSON_SUFFIXES | JSON_LINES_SUFFIXES
"""Suffixes that are left out of the name of a compressed file's variable."""
_RESERVED_NAMES = frozenset("csv json gzip bz2 lzma zipfile io pd Path In Out".split())
"""Names that a variable must not take: cells that load files import them, or the session defines
them."""


class CannotLoad(Exception):
    """A file cannot be loaded into a variable. The message is a sentence."""


@dataclass(frozen=True)
class DataFile:
    """A file to load, and what its content tells about its format."""

    path: Path
    """The absolute path."""
    name: str
    """The name of its variable."""
    size: int
    """The size of the file in bytes, compressed if it is."""
    suffix: str
    """The suffix of its content, in lower case. For `data.csv.gz`, it is `.csv`."""
    packing: Packing
    """How it is compressed, if it is."""
    encoding: TextEncoding
    """The encoding of its text. It has no name if the file is not a text."""
    separator: str = ","
    """What separates the fields of a table."""
    decimal_comma: str = ""
    """The first number of a table that has a decimal comma; empty if none has."""
    is_json_lines: bool = False
    """Whether each line is a JSON object."""
    looks_like_table: bool = False
    """Whether a text is a table although its suffix does not say so."""
    sheets: Sequence[str] = ()
    """The names of a workbook's sheets."""
    damage: str = ""
    """Why it cannot be read as its suffix says, such as "is empty"; empty if it can be."""

    @property
    def is_table(self) -> bool:
        """Whether its suffix is that of a format of tables."""
        return self.suffix in SEPARATED_SUFFIXES or self.suffix in PANDAS_READERS

    @property
    def is_long_text(self) -> bool:
        """Whether its variable will be a text that is too long to read."""
        return (
            bool(self.encoding.name)
            and self.suffix in TEXT_SUFFIXES
            and self.size > LONG_TEXT_BYTES
        )


def inspect_files(paths: Sequence[Path]) -> list[DataFile]:
    """Recognise the formats of files, and choose a unique name for each variable.

    Raises:
        CannotLoad: A file does not exist, cannot be read, or is not a regular file.
    """
    files: list[DataFile] = []
    used_names: set[str] = set()
    for path in paths:
        name = _unused_name(variable_name(path), used_names)
        used_names.add(name)
        files.append(_inspect(path, name))
    return files


def _unused_name(name: str, used_names: Collection[str]) -> str:
    """Return a name, or if it is used, the name with the first number that makes it unique."""
    unique_name = name
    numbers = itertools.count(2)
    while unique_name in used_names:
        unique_name = f"{name}_{next(numbers)}"
    return unique_name


def _inspect(path: Path, name: str) -> DataFile:
    """Recognise the format of a file.

    Args:
        path: The file.
        name: The name of its variable.

    Raises:
        CannotLoad: It does not exist, cannot be read, or is not a regular file.
    """
    displayed_path = one_line(str(path))
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise CannotLoad(f"The folder {displayed_path} cannot be loaded as a variable.")
        if not stat.S_ISREG(status.st_mode):
            raise CannotLoad(
                f"{displayed_path} is not a regular file: it cannot be loaded as a variable."
            )
        return _inspect_content(path, name, status.st_size)
    except FileNotFoundError:
        raise CannotLoad(f"There is no file {displayed_path}.") from None
    except READING_ERRORS as error:
        reason = one_line(str(error)) or "it is damaged"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        raise CannotLoad(f"{displayed_path} cannot be read: {reason}.") from None


def _inspect_content(path: Path, name: str, size: int) -> DataFile:
    """Recognise the format of a regular file.

    Args:
        path: The file.
        name: The name of its variable.
        size: The size of the file in bytes.

    Raises:
        READING_ERRORS: It cannot be read.
    """
    packing = inspect_packing(path)
    suffix = _content_suffix(path, packing)
    file = DataFile(
        path=path.absolute(),
        name=name,
        size=size,
        suffix=suffix,
        packing=packing,
        encoding=TextEncoding(""),
    )
    # An archive of several files is loaded as an archive, whatever is in them.
    if len(packing.members) > 1:
        return file

    with open_packed(path, packing) as content:
        beginning = content.read(HEAD_BYTES)
        # A file that will not be loaded need not be read to its end.
        max_bytes = MAX_LOADED_BYTES if size <= MAX_LOADED_BYTES else 0
        encoding = inspect_encoding(content, beginning, max_bytes)
    if suffix in PANDAS_READERS:
        return replace(file, sheets=sheet_names(path), damage=damage(path))
    if not encoding.name:
        return file
    if not beginning and (suffix in SEPARATED_SUFFIXES or suffix in JSON_SUFFIXES):
        return replace(file, damage="is empty")

    text = decode(beginning, encoding.name)
    file = replace(file, encoding=encoding, is_json_lines=is_json_lines(text))
    return _inspect_table(file, text, is_cut=len(beginning) == HEAD_BYTES)


def _inspect_table(file: DataFile, text: str, *, is_cut: bool) -> DataFile:
    """Recognise how the lines of a text are separated into fields.

    Args:
        file: The file, as far as its format is recognised.
        text: The beginning of the file.
        is_cut: Whether the file goes on after this text.
    """
    has_table_suffix = file.suffix in SEPARATED_SUFFIXES
    separator = guess_separator(
        text,
        is_cut=is_cut,
        preferred="\t" if file.suffix in TAB_SEPARATED_SUFFIXES else ",",
        tries_rare=has_table_suffix,
    )
    file = replace(file, separator=separator)
    if has_table_suffix:
        return replace(file, decimal_comma=read_decimal_comma(text, separator))
    # Programs also write tables into files of these suffixes.
    if file.suffix in ("", ".txt"):
        is_table = looks_like_table(text, separator, is_cut=is_cut)
        return replace(file, looks_like_table=is_table)
    return file


def _content_suffix(path: Path, packing: Packing) -> str:
    """Return the suffix of a file, or if it is compressed, the suffix of the file in it."""
    if not packing.module:
        return path.suffix.lower()
    packed_name = path.stem
    if len(packing.members) == 1:
        packed_name = packing.members[0]
    suffix = Path(packed_name).suffix.lower()
    # pandas reads a compressed CSV file, but not a compressed workbook.
    if suffix in PANDAS_READERS:
        return ""
    return suffix


def variable_name(path: Path) -> str:
    """Return a name for the variable of a file.

    It hides no name of Python or of the session: ``my-data 2.csv`` becomes ``my_data_2``, and
    ``list.txt`` becomes ``list_``.
    """
    stem = path.stem
    if path.suffix.lower() in COMPRESSIONS and Path(stem).suffix.lower() in _READABLE_SUFFIXES:
        stem = Path(stem).stem

    # Python normalises names in this way, too.
    stem = unicodedata.normalize("NFKC", stem)
    words = "".join(map(_identifier_character, stem)).split()
    name = "_".join(words).strip("_")[:MAX_NAME_CHARS] or "data"
    # A name that begins with a digit needs something before it. It is not an underscore, because names
    # such as `_1` are those of cells' results, and lists of variables leave out such names.
    if not name.isidentifier():
        return f"data_{name}"

    is_taken_by_python = keyword.iskeyword(name) or hasattr(builtins, name)
    if is_taken_by_python or name in toolbox.NAMES or name in _RESERVED_NAMES:
        return f"{name}_"
    return name


def _identifier_character(character: str) -> str:
    """Return a character that names can have, or a blank in place of any other."""
    if f"a{character}".isidentifier():
        return character
    return " "
