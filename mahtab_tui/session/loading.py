"""Loads files into variables, by cells that the user can read, edit and run again."""

from __future__ import annotations

import builtins
import codecs
import itertools
import keyword
import stat
import unicodedata
from collections.abc import Sequence
from importlib import import_module
from lzma import LZMAError
from pathlib import Path
from typing import IO, NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.knowledge.confined_folder import decode, marked_encoding, single_byte_encoding
from mahtab_tui.worker import toolbox

MOST_BYTES = 500_000_000
"""The variable of a larger file is its path."""

HEAD_BYTES = 65_536
"""Bytes to read from the start of a file to recognise its type."""

_SEPARATED = frozenset({".csv", ".tsv", ".tab"})
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
_PANDAS_READERS = {
    ".parquet": "read_parquet",
    ".feather": "read_feather",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "read_excel"),
}
_TEXTS = frozenset({".txt", ".log", ".md", ".xml", ".html"})
LONG_TEXT = 20_000
"""Bytes from which a text is too long to read."""
_READABLE = _SEPARATED | _TEXTS | {".json", ".geojson", ".jsonl", ".ndjson"}
"""Suffixes of files that can be loaded even if they are compressed."""
_RESERVED = frozenset({"csv", "json", "gzip", "bz2", "lzma", "pd", "Path", "In", "Out"})
"""Names that loading cells import, or that the session defines."""


class CannotLoad(Exception):
    """The message is a sentence."""


class DataFile(NamedTuple):
    path: Path
    name: str
    size: int
    encoding: str
    """Empty if it does not start like a text."""
    separator: str

    @property
    def is_table(self) -> bool:
        return _suffix(self.path) in _SEPARATED or _suffix(self.path) in _PANDAS_READERS

    @property
    def is_long_text(self) -> bool:
        """Whether its variable will be a text that is too long to read."""
        return bool(self.encoding) and _suffix(self.path) in _TEXTS and self.size > LONG_TEXT


class LoadingCell(NamedTuple):
    code: str
    note: str = ""

    @property
    def module(self) -> str:
        words = self.code.split()
        return words[1] if words[0] in ("import", "from") else ""


def inspect_files(paths: Sequence[Path]) -> list[DataFile]:
    """Read the start of each file, and choose unique names. Raises `CannotLoad`."""
    files: list[DataFile] = []
    for path in paths:
        wanted, names = variable_name(path), {file.name for file in files}
        numbered = (f"{wanted}_{number}" for number in itertools.count(2))
        name = next(each for each in itertools.chain([wanted], numbered) if each not in names)
        files.append(_inspect(path, name))
    return files


def _inspect(path: Path, name: str) -> DataFile:
    shown = one_line(str(path))
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise CannotLoad(f"The folder {shown} cannot be loaded as a variable.")
        if not stat.S_ISREG(status.st_mode):
            raise CannotLoad(f"{shown} is not a regular file: it cannot be loaded as a variable.")
        with _open(path) as file:
            beginning = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise CannotLoad(f"There is no file {shown}.") from None
    except (OSError, EOFError, ValueError, LZMAError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise CannotLoad(f"{shown} cannot be read: {reason}.") from None
    encoding = guess_encoding(beginning)
    first = decode(beginning, encoding).partition("\n")[0] if encoding else ""
    # In many countries the separator is not a comma.
    separator = "\t" if _suffix(path) in (".tsv", ".tab") else max(",;\t|", key=first.count)
    return DataFile(path.absolute(), name, status.st_size, encoding, separator)


def _open(path: Path) -> IO[bytes]:
    if (module := _COMPRESSED.get(path.suffix.lower())) and _suffix(path) in _READABLE:
        opened: IO[bytes] = import_module(module).open(path)
        return opened
    return path.open("rb")


def _suffix(path: Path) -> str:
    inner = Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else ""
    return inner if inner in _READABLE else path.suffix.lower()


def make_loading_cell(file: DataFile, folder: Path, *, pandas: bool) -> LoadingCell:
    """folder: the kernel's working directory. pandas: whether the kernel can import it."""
    name, suffix = file.name, _suffix(file.path)
    module = _COMPRESSED[file.path.suffix.lower()] if suffix != file.path.suffix.lower() else ""
    inside = file.path.is_relative_to(folder)
    path = ascii(str(file.path.relative_to(folder) if inside else file.path))
    shown = one_line(file.path.name)
    opening = f"{module}.open({path}, 'rt', " if module else f"open({path}, "
    encoded = f"{opening}encoding={file.encoding!r}"
    imports = f"import {module}\n" if module else ""

    def only_path(why: str) -> LoadingCell:
        return LoadingCell(f"from pathlib import Path\n{name} = Path({path})", f"{shown} {why}")

    if file.size > MOST_BYTES:
        why = f"is {file.size / 1e9:,.1f} GB, too much to load: {name} is its path."
        return only_path(f"{why} rlm() can search it.")
    if reader := _PANDAS_READERS.get(suffix):
        if pandas:
            return LoadingCell(f"import pandas as pd\n{name} = pd.{reader}({path})")
        why = f"needs pandas, which this kernel's Python does not have: {name} is its path."
        return only_path(why)
    if not file.encoding:
        why = f"is not a text file: {name} is its path, and {name}.read_bytes() reads it."
        return only_path(why)
    if suffix in _SEPARATED and pandas:
        separator = f", sep={file.separator!r}" * (file.separator != ",")
        encoding = f", encoding={file.encoding!r}" * (file.encoding != "utf-8")
        code = f"import pandas as pd\n{name} = pd.read_csv({path}{separator}{encoding})"
    elif suffix in _SEPARATED:
        delimiter = f", delimiter={file.separator!r}" * (file.separator != ",")
        rows = f"csv.DictReader({encoded}, newline=''){delimiter})"
        code = f"import csv\n{imports}{name} = list({rows})"
    elif suffix in (".json", ".ipynb", ".geojson"):
        code = f"import json\n{imports}{name} = json.load({encoded}))"
    elif suffix in (".jsonl", ".ndjson"):
        parsed = f"[json.loads(line) for line in {encoded}) if line.strip()]"
        code = f"import json\n{imports}{name} = {parsed}"
    else:
        code = f"{imports}{name} = {encoded}, errors='replace').read()"
    return LoadingCell(code)


def variable_name(path: Path) -> str:
    """Return a name that hides no other: ``my-data 2.csv`` becomes my_data_2, ``list.txt``
    list_."""
    compressed = path.suffix.lower() in _COMPRESSED
    stem = path.stem.removesuffix(_suffix(path)) if compressed else path.stem
    stem = unicodedata.normalize("NFKC", stem)
    name = "".join(c if f"a{c}".isidentifier() else " " for c in stem)
    name = "_".join(name.split()).strip("_")[:60] or "data"
    if not name.isidentifier():
        return f"_{name}"
    used = keyword.iskeyword(name) or hasattr(builtins, name)
    return f"{name}_" if used or name in toolbox.NAMES or name in _RESERVED else name


def guess_encoding(beginning: bytes) -> str:
    """Guess the encoding of a text; empty if it is not a text."""
    if marked := marked_encoding(beginning):
        return marked
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in beginning)
    if b"\0" in beginning or controls * 20 > len(beginning):
        return ""
    try:
        # Incremental, because the last character may be incomplete.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return single_byte_encoding(beginning)
    return "utf-8"
