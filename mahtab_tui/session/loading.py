"""Writes the cells that load files into variables, which the user can read, edit and run again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.session.data_files import (
    JSON_LINES_SUFFIXES,
    JSON_SUFFIXES,
    MAX_LOADED_BYTES,
    PANDAS_READERS,
    SEPARATED_SUFFIXES,
    DataFile,
)

MAX_LISTED_NAMES = 10
"""Files of an archive, or sheets of a workbook, that a note lists."""


class LoadingCell(NamedTuple):
    """A cell that loads a file."""

    code: str
    note: str = ""
    """Sentences for the user about what is uncertain or could be done; may be empty."""

    @property
    def module(self) -> str:
        """The module that the cell imports first; empty if it imports none."""
        words = self.code.split()
        return words[1] if words[0] in ("import", "from") else ""


def make_loading_cell(file: DataFile, folder: Path, *, pandas: bool) -> LoadingCell:
    """Return the cell that loads a file into a variable.

    Args:
        file: What to load.
        folder: The kernel's working directory.
        pandas: Whether the kernel can import pandas.
    """
    path = ascii(str(file.path))
    if file.path.is_relative_to(folder):
        path = ascii(str(file.path.relative_to(folder)))
    reason = _reason_for_path(file, pandas=pandas)
    if reason:
        code = f"from pathlib import Path\n{file.name} = Path({path})"
        return LoadingCell(code, f"{one_line(file.path.name)} {reason}")

    if reader := PANDAS_READERS.get(file.suffix):
        code = f"import pandas as pd\n{file.name} = pd.{reader}({path})"
    elif file.suffix in SEPARATED_SUFFIXES and pandas:
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
    if file.suffix in PANDAS_READERS and pandas:
        return ""
    if file.suffix in PANDAS_READERS:
        return f"needs pandas, which this kernel's Python does not have: {name} is its path."
    if not file.encoding.name:
        return f"is not a text file: {name} is its path, and {name}.read_bytes() reads it."
    return ""


def _read_csv(file: DataFile, path: str) -> str:
    """Return the expression by which pandas reads a table.

    Args:
        file: The table.
        path: Its path, as a literal of Python.
    """
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
    """Return a cell that needs only the standard library.

    Args:
        file: What to load: a table, JSON, or any other text.
        path: A literal of Python.
    """
    errors = ", errors='replace'" if file.encoding.is_damaged else ""
    if file.suffix in SEPARATED_SUFFIXES:
        # The module csv needs the line breaks as they are.
        content = _open_text(file, path, errors=errors, newline=", newline=''")
        delimiter = f", delimiter={file.separator!r}" if file.separator != "," else ""
        return _assign(file, f"list(csv.DictReader({content}{delimiter}))", "csv")

    is_json_lines = file.suffix in JSON_LINES_SUFFIXES
    if is_json_lines or file.suffix in JSON_SUFFIXES:
        content = _open_text(file, path, errors=errors)
        if is_json_lines or file.is_json_lines:
            return _assign(
                file, f"[json.loads(line) for line in {content} if line.strip()]", "json"
            )
        return _assign(file, f"json.load({content})", "json")

    content = _open_text(file, path, errors=", errors='replace'")
    return _assign(file, f"{content}.read()")


def _assign(file: DataFile, value: str, *modules: str) -> str:
    """Return the cell that assigns a value to a file's variable.

    Args:
        file: What is loaded.
        value: An expression.
        *modules: The modules that it uses, besides those that unpack the file.
    """
    unpacking_modules = [file.packing.module] if file.packing.module else []
    if file.packing.members:
        unpacking_modules.append("io")
    imports = [f"import {module}\n" for module in (*modules, *unpacking_modules)]
    return f"{''.join(imports)}{file.name} = {value}"


def _open_text(file: DataFile, path: str, *, errors: str = "", newline: str = "") -> str:
    """Return the expression that opens a file as text.

    Args:
        file: What to open.
        path: Its path, as a literal of Python.
        errors: The option `errors` with a comma before it; empty for the default.
        newline: The option `newline` in the same form.
    """
    options = f"encoding={file.encoding.name!r}{errors}{newline}"
    if file.packing.members:
        member = ascii(file.packing.members[0])
        return f"io.TextIOWrapper(zipfile.ZipFile({path}).open({member}), {options})"
    if file.packing.module:
        return f"{file.packing.module}.open({path}, 'rt', {options})"
    return f"open({path}, {options})"


def _note(file: DataFile, path: str) -> str:
    """Return what the user should know about a loaded file; empty if nothing is uncertain.

    Args:
        file: What is loaded.
        path: Its path, as a literal of Python.
    """
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
