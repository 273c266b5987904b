"""Loads files into variables, by cells of the user that can be read, run again and changed."""

from __future__ import annotations

import builtins
import codecs
import keyword
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.worker import toolbox
from mahtab_tui.knowledge.encodings import decoded, marked_encoding

MOST_BYTES = 500_000_000
"""Largest file that is loaded. A larger one might take all memory, so its variable is its path."""

_LOOKED_AT = 65_536
"""Bytes read from the start of a file to recognise its type."""

_SEPARATED = frozenset({".csv", ".tsv", ".tab"})
_OF_PANDAS = {".parquet": "read_parquet", ".feather": "read_feather", ".xlsx": "read_excel", ".xls": "read_excel", ".ods": "read_excel"}
_TAKEN = frozenset({"csv", "json", "pd", "Path", "In", "Out"})
"""Names that the loading cells import, or that the session defines."""


class CannotLoad(Exception):
    """A file cannot be loaded; the message is a sentence."""


class DataFile(NamedTuple):
    """A file and the variable into which it is loaded."""

    path: Path
    """Absolute."""
    name: str
    size: int
    """Bytes."""
    text: bool
    """Whether it starts like a text."""
    encoding: str
    separator: str
    """Between the values of a line, if the file is a text table."""


class LoadingCell(NamedTuple):
    """The code that creates the variable, and a note for the user."""

    code: str
    note: str = ""

    @property
    def module(self) -> str:
        """The module that it imports; empty if none."""
        words = self.code.split()
        return words[1] if words[0] in ("import", "from") else ""


def look_at_files(paths: Sequence[Path]) -> list[DataFile]:
    """Read the start of each file, and choose a different variable name for each. Raises `CannotLoad`."""
    files: list[DataFile] = []
    for path in paths:
        wanted, names = variable_name(path), {file.name for file in files}
        name = next(each for each in (wanted, *(f"{wanted}_{number}" for number in range(2, len(names) + 3))) if each not in names)
        files.append(_look_at(path, name))
    return files


def _look_at(path: Path, name: str) -> DataFile:
    shown = one_line(str(path))
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise CannotLoad(f"The folder {shown} cannot become a variable.")
        if not stat.S_ISREG(status.st_mode):
            raise CannotLoad(f"{shown} is not a regular file: it cannot become a variable.")
        with path.open("rb") as file:
            beginning = file.read(_LOOKED_AT)
    except FileNotFoundError:
        raise CannotLoad(f"There is no file {shown}.") from None
    except (OSError, ValueError) as error:
        raise CannotLoad(f"{shown} cannot be read: {error.strerror if isinstance(error, OSError) else error}.") from None
    encoding = _encoding_of(beginning)
    first = decoded(beginning, encoding).partition("\n")[0] if encoding else ""
    separator = "\t" if path.suffix.lower() in (".tsv", ".tab") else max(",;\t|", key=first.count)  # in many countries it is not a comma
    return DataFile(path.absolute(), name, status.st_size, bool(encoding), encoding, separator)


def loading_cell(file: DataFile, folder: Path, *, pandas: bool) -> LoadingCell:
    """Return the cell that loads a file. folder: the kernel's working directory. pandas: whether the kernel can import it."""
    name, suffix = file.name, file.path.suffix.lower()
    path = ascii(str(file.path.relative_to(folder) if file.path.is_relative_to(folder) else file.path))
    shown = one_line(file.path.name)
    opened = f"open({path}, encoding={file.encoding!r})"
    its_path = f"from pathlib import Path\n{name} = Path({path})"
    if file.size > MOST_BYTES:
        return LoadingCell(its_path, f"{shown} has {file.size / 1e9:,.1f} GB, too much to load: {name} is its path. rlm() can search it.")
    if reader := _OF_PANDAS.get(suffix):
        if pandas:
            return LoadingCell(f"import pandas as pd\n{name} = pd.{reader}({path})")
        return LoadingCell(its_path, f"{shown} needs pandas, which this kernel's Python does not have: {name} is its path.")
    if not file.text:
        return LoadingCell(its_path, f"{shown} is not a text: {name} is its path, and {name}.read_bytes() reads it.")
    if suffix in _SEPARATED and pandas:
        options = [f"sep={file.separator!r}"] * (file.separator != ",") + [f"encoding={file.encoding!r}"] * (file.encoding != "utf-8")
        return LoadingCell(f"import pandas as pd\n{name} = pd.read_csv({', '.join([path, *options])})")
    if suffix in _SEPARATED:
        delimiter = f", delimiter={file.separator!r}" * (file.separator != ",")
        return LoadingCell(f"import csv\n{name} = list(csv.DictReader(open({path}, encoding={file.encoding!r}, newline=''){delimiter}))")
    if suffix in (".json", ".ipynb", ".geojson"):
        return LoadingCell(f"import json\n{name} = json.load({opened})")
    if suffix in (".jsonl", ".ndjson"):
        return LoadingCell(f"import json\n{name} = [json.loads(line) for line in {opened} if line.strip()]")
    return LoadingCell(f"{name} = open({path}, encoding={file.encoding!r}, errors='replace').read()")


def variable_name(path: Path) -> str:
    """Return a Python name for a file that hides no other name: ``my-data 2.csv`` is my_data_2, ``list.txt`` is list_."""
    stem = unicodedata.normalize("NFKC", path.stem)
    name = "".join(c if f"a{c}".isidentifier() else " " for c in stem)
    name = "_".join(name.split()).strip("_")[:60] or "data"
    if not name.isidentifier():
        return f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) or name in toolbox.NAMES or name in _TAKEN else name


def _encoding_of(beginning: bytes) -> str:
    """Guess the encoding of a text; empty if it is not a text."""
    if marked := marked_encoding(beginning):
        return marked
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in beginning)
    if b"\0" in beginning or controls * 20 > len(beginning):
        return ""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)  # incremental, since the last character may be cut
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
