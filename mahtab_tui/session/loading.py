"""Loads files into variables, by cells that the user can read, edit and run again."""

from __future__ import annotations

import builtins
import itertools
import keyword
import stat
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from lzma import LZMAError
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.knowledge.confined_folder import decode
from mahtab_tui.session.file_formats import (
    COMPRESSIONS,
    HEAD_BYTES,
    Packing,
    TextEncoding,
    damage,
    guess_separator,
    inspect_encoding,
    inspect_packing,
    is_json_lines,
    looks_like_table,
    open_packed,
    read_decimal_comma,
    sheet_names,
)
from mahtab_tui.worker.tools import toolbox

MAX_LOADED_BYTES = 500_000_000
"""A larger file is not loaded: its variable is its path."""

_TAB_SEPARATED = frozenset({".tsv", ".tab"})
_SEPARATED = _TAB_SEPARATED | {".csv"}
_PANDAS_READERS = {
    ".parquet": "read_parquet",
    ".feather": "read_feather",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "read_excel"),
}
_JSON = frozenset({".json", ".ipynb", ".geojson"})
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_TEXTS = frozenset({".txt", ".log", ".md", ".xml", ".html"})
LONG_TEXT_BYTES = 20_000
"""A larger text is too long for a person to read."""
_READABLE = _SEPARATED | _TEXTS | _JSON | _JSON_LINES
"""Suffixes that are left out of the name of a compressed file's variable."""
MAX_LISTED_NAMES = 10
"""Files of an archive, or sheets of a workbook, that a note lists."""
MAX_NAME_CHARS = 60
_RESERVED = frozenset("csv json gzip bz2 lzma zipfile io pd Path In Out".split())
"""Names that a file's variable would hide: loading cells import them, or the session defines them."""


class CannotLoad(Exception):
    """The message is a sentence."""


@dataclass(frozen=True)
class DataFile:
    """A file to load, and what is known of its format."""

    path: Path
    name: str
    """The name of its variable."""
    size: int
    """In bytes, as stored."""
    suffix: str
    """The suffix of its content: of `data.csv.gz`, it is `.csv`."""
    packing: Packing
    encoding: TextEncoding
    separator: str = ","
    decimal_comma: str = ""
    """A number of a table that has a decimal comma; empty if there is none."""
    is_json_lines: bool = False
    looks_like_table: bool = False
    """Whether a text is a table, though its suffix does not say so."""
    sheets: Sequence[str] = ()
    damage: str = ""
    """Why it cannot be read as its suffix says, such as "is empty"; empty if it can."""

    @property
    def is_table(self) -> bool:
        return self.suffix in _SEPARATED or self.suffix in _PANDAS_READERS

    @property
    def is_long_text(self) -> bool:
        """Whether its variable will be a text that is too long to read."""
        return bool(self.encoding.name) and self.suffix in _TEXTS and self.size > LONG_TEXT_BYTES


class LoadingCell(NamedTuple):
    code: str
    note: str = ""
    """Sentences for the user about what is uncertain or could be done; may be empty."""

    @property
    def module(self) -> str:
        """The module that the cell imports first; empty if it imports none."""
        words = self.code.split()
        return words[1] if words[0] in ("import", "from") else ""


def inspect_files(paths: Sequence[Path]) -> list[DataFile]:
    """Recognise the formats of files, and choose a unique name for each variable. Raises
    `CannotLoad`."""
    files: list[DataFile] = []
    used_names: set[str] = set()
    for path in paths:
        name = _unused_name(variable_name(path), used_names)
        used_names.add(name)
        files.append(_inspect(path, name))
    return files


def _unused_name(name: str, used_names: Collection[str]) -> str:
    """Return a name, with a number after it if it is used."""
    if name not in used_names:
        return name
    numbered_names = (f"{name}_{number}" for number in itertools.count(2))
    return next(candidate for candidate in numbered_names if candidate not in used_names)


def _inspect(path: Path, name: str) -> DataFile:
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
    except (OSError, EOFError, ValueError, LZMAError, RuntimeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise CannotLoad(f"{displayed_path} cannot be read: {reason}.") from None


def _inspect_content(path: Path, name: str, size: int) -> DataFile:
    packing = inspect_packing(path)
    suffix = _content_suffix(path, packing)
    file = DataFile(path.absolute(), name, size, suffix, packing, TextEncoding(""))
    if len(packing.members) > 1:
        return file

    with open_packed(path, packing) as content:
        beginning = content.read(HEAD_BYTES)
        # A file that will not be loaded is not worth reading to its end.
        max_bytes = MAX_LOADED_BYTES if size <= MAX_LOADED_BYTES else 0
        encoding = inspect_encoding(content, beginning, max_bytes)
    if suffix in _PANDAS_READERS:
        return replace(file, sheets=sheet_names(path), damage=damage(path))
    if not encoding.name:
        return file
    if not beginning and (suffix in _SEPARATED or suffix in _JSON):
        return replace(file, damage="is empty")

    text = decode(beginning, encoding.name)
    is_cut = len(beginning) == HEAD_BYTES
    preferred = "\t" if suffix in _TAB_SEPARATED else ","
    separator = guess_separator(
        text, is_cut=is_cut, preferred=preferred, tries_rare=suffix in _SEPARATED
    )
    may_be_table = suffix in ("", ".txt")
    return replace(
        file,
        encoding=encoding,
        separator=separator,
        decimal_comma=read_decimal_comma(text, separator) if suffix in _SEPARATED else "",
        is_json_lines=is_json_lines(text),
        looks_like_table=may_be_table and looks_like_table(text, separator, is_cut=is_cut),
    )


def _content_suffix(path: Path, packing: Packing) -> str:
    """Return the suffix of what is in a file: that of its name, or that of the packed file."""
    if not packing.module:
        return path.suffix.lower()
    packed_name = packing.members[0] if len(packing.members) == 1 else path.stem
    suffix = Path(packed_name).suffix.lower()
    # pandas reads a compressed CSV file, but not a compressed workbook.
    return "" if suffix in _PANDAS_READERS else suffix


def make_loading_cell(file: DataFile, folder: Path, *, pandas: bool) -> LoadingCell:
    """Return the cell that loads a file into a variable.

    Args:
        file: what to load.
        folder: the kernel's working directory.
        pandas: whether the kernel can import it.
    """
    path = ascii(str(file.path))
    if file.path.is_relative_to(folder):
        path = ascii(str(file.path.relative_to(folder)))
    reason = _reason_for_path(file, pandas=pandas)
    if reason:
        code = f"from pathlib import Path\n{file.name} = Path({path})"
        return LoadingCell(code, f"{one_line(file.path.name)} {reason}")

    if reader := _PANDAS_READERS.get(file.suffix):
        code = f"import pandas as pd\n{file.name} = pd.{reader}({path})"
    elif file.suffix in _SEPARATED and pandas:
        code = f"import pandas as pd\n{file.name} = {_read_csv(file, path)}"
    else:
        code = _code_without_pandas(file, path)
    return LoadingCell(code, _note(file, path))


def _reason_for_path(file: DataFile, *, pandas: bool) -> str:
    """Return why a file's variable is its path, as the end of a sentence that begins with the file's
    name; empty if the file is loaded."""
    name = file.name
    if file.size > MAX_LOADED_BYTES:
        return f"is {file.size / 1e9:,.1f} GB, too much to load: {name} is its path. rlm() can search it."
    if len(file.packing.members) > 1:
        members = one_line(", ".join(file.packing.members[:MAX_LISTED_NAMES]))
        first_member = one_line(repr(file.packing.members[0]))
        return f"holds {len(file.packing.members):,} files: {members}. {name} is its path, and zipfile.ZipFile({name}).read({first_member}) reads the first."
    if file.damage:
        return f"{file.damage}: {name} is its path."
    if file.suffix in _PANDAS_READERS and pandas:
        return ""
    if file.suffix in _PANDAS_READERS:
        return f"needs pandas, which this kernel's Python does not have: {name} is its path."
    if not file.encoding.name:
        return f"is not a text file: {name} is its path, and {name}.read_bytes() reads it."
    return ""


def _read_csv(file: DataFile, path: str) -> str:
    """Return the expression that reads a table. path: a literal of Python."""
    options = ""
    if file.separator != ",":
        options += f", sep={file.separator!r}"
    if file.decimal_comma:
        options += ", decimal=','"
    if file.encoding.name != "utf-8":
        options += f", encoding={file.encoding.name!r}"
    if file.encoding.is_damaged:
        options += ", encoding_errors='replace'"
    return f"pd.read_csv({path}{options})"


def _code_without_pandas(file: DataFile, path: str) -> str:
    """Return a cell that needs only the standard library. path: a literal of Python."""
    is_table = file.suffix in _SEPARATED
    is_json = file.suffix in _JSON or file.suffix in _JSON_LINES
    is_text = not is_table and not is_json
    errors = ", errors='replace'" if is_text or file.encoding.is_damaged else ""
    # The module csv needs the line breaks as they are.
    newline = ", newline=''" if is_table else ""
    content = _open_text(file, path, errors=errors, newline=newline)
    if is_table:
        delimiter = f", delimiter={file.separator!r}" if file.separator != "," else ""
        value = f"list(csv.DictReader({content}{delimiter}))"
    elif file.suffix in _JSON_LINES or (is_json and file.is_json_lines):
        value = f"[json.loads(line) for line in {content} if line.strip()]"
    elif is_json:
        value = f"json.load({content})"
    else:
        value = f"{content}.read()"

    imports: list[str] = []
    if is_table:
        imports.append("csv")
    if is_json:
        imports.append("json")
    if file.packing.module:
        imports.append(file.packing.module)
    if file.packing.members:
        imports.append("io")
    return "".join(f"import {module}\n" for module in imports) + f"{file.name} = {value}"


def _open_text(file: DataFile, path: str, *, errors: str, newline: str) -> str:
    """Return the expression that opens a file as text.

    Args:
        file: what to open.
        path: its path, as a literal of Python.
        errors: the option `errors` with a comma before it, or nothing; so for `newline`.
    """
    options = f"encoding={file.encoding.name!r}{errors}{newline}"
    if file.packing.members:
        member = ascii(file.packing.members[0])
        return f"io.TextIOWrapper(zipfile.ZipFile({path}).open({member}), {options})"
    if file.packing.module:
        return f"{file.packing.module}.open({path}, 'rt', {options})"
    return f"open({path}, {options})"


def _note(file: DataFile, path: str) -> str:
    """Return what the user should know about a loaded file; empty if nothing is uncertain."""
    displayed_name = one_line(file.path.name)
    notes: list[str] = []
    if len(file.sheets) > 1:
        sheets = one_line(", ".join(file.sheets[:MAX_LISTED_NAMES]))
        last_sheet = one_line(repr(file.sheets[-1]))
        notes.append(
            f"{displayed_name} has {len(file.sheets):,} sheets: {sheets}. {file.name} is the first; pd.read_excel({path}, sheet_name={last_sheet}) loads another."
        )
    if file.encoding.is_guess:
        notes.append(
            f"The encoding of {displayed_name} is a guess: {file.encoding.name}. If letters look wrong, change it in the cell."
        )
    elif file.encoding.is_damaged:
        notes.append(
            f"Some bytes of {displayed_name} are not {file.encoding.name.upper()}: they became �."
        )
    if file.looks_like_table:
        notes.append(
            f"{displayed_name} looks like a table: pd.read_csv({path}, sep={file.separator!r}) reads it as one."
        )
    return " ".join(notes)


def variable_name(path: Path) -> str:
    """Return a name for a file's variable that hides no other name: ``my-data 2.csv`` becomes
    my_data_2, ``list.txt`` becomes list_."""
    stem = path.stem
    if path.suffix.lower() in COMPRESSIONS and Path(stem).suffix.lower() in _READABLE:
        stem = Path(stem).stem

    # Python normalises names in this way, too.
    stem = unicodedata.normalize("NFKC", stem)
    words = "".join(
        character if f"a{character}".isidentifier() else " " for character in stem
    ).split()
    name = "_".join(words).strip("_")[:MAX_NAME_CHARS] or "data"
    if not name.isidentifier():
        return f"_{name}"

    is_pythons = keyword.iskeyword(name) or hasattr(builtins, name)
    is_used = is_pythons or name in toolbox.NAMES or name in _RESERVED
    return f"{name}_" if is_used else name
