"""Reads an untrusted notebook, script or Markdown file whose cells a session shows and runs."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus.records import PICTURE_MIMES
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export.outputs import BASE64, MAX_OUTPUT_CHARS, OutputPart, shorten

ENDINGS = (".ipynb", ".py", ".md")
UNREADABLE_OUTPUT = "[an output that cannot be shown]\n"
MAX_FILE_BYTES = 200_000_000
MAX_TEXT_CHARS = 2_000_000
"""Characters of a script or Markdown file."""
MAX_TEXT_CELLS = 5_000
"""Cells of a script or Markdown file."""
MAX_PICTURE_CHARS = 20_000_000
MAX_CELL_OUTPUTS = 200
MAX_DECLARATION_BYTES = 10_000
"""Bytes in which a script may declare its encoding."""

CELL_TYPES = ("code", "markdown", "raw")
HEADER = re.compile(
    r"""
    \A
    (?:[#]!.*\n)?                  # the interpreter
    (?:
        (?=.*\n)                   # lets a last line without a newline fail at once, instead of
                                   # at each "coding:" in it
        [#].*coding[:=].*\n        # the encoding
    )?
    (?:
        ((?:[#][ ])?---)\n         # the metadata, between two lines of hyphens
        (?:.*\n)*?
        \1\n+
    )?
    """,
    re.VERBOSE,
)
"""What may stand before the cells of a script or Markdown file."""

_PERCENT = re.compile(r"^# ?%%", re.MULTILINE)
_INDENT = re.compile(r"\{\r?\n([ \t]*)")
_PYTHON_LANGUAGES = ("python", "ipython", "python3")
_DEFAULT_ENCODING = "utf-8-sig"

Node = dict[str, Any]
"""An object of a notebook's JSON, which may have any keys."""

FileFormat = Literal["ipynb", "py:percent", "md", "script"]
"""A format by jupytext's name; "script" is Python without cells."""


class NotebookError(Exception):
    """A file cannot be opened as a notebook; the message is a sentence."""


class FileStyle(NamedTuple):
    """A file's formatting, so that saving changes as few lines as possible."""

    indent: str | None = " "
    """Indentation of the JSON; None if it is a single line."""
    has_crlf: bool = False
    """Whether lines end with ``\\r\\n``."""
    ends_with_newline: bool = True
    """Whether the last line ends with a line break."""
    encoding: str = "utf-8"
    """Declared by a script."""


JUPYTER_STYLE = FileStyle()
"""How Jupyter writes notebooks."""


@dataclass(frozen=True)
class LoadedNotebook:
    """A file as read."""

    path: Path
    """Absolute."""
    digest: str
    content: Node
    """Never modified."""
    format: FileFormat = "ipynb"
    style: FileStyle = JUPYTER_STYLE
    rewritable: bool = False
    """Whether the user lets the session write the file."""
    header: str = ""
    """What precedes the cells of a script or Markdown file."""
    text: str = ""
    """A script or Markdown file without its header."""

    @property
    def language(self) -> str:
        """In lower case; empty for Python, or if none is declared."""
        metadata = self.content.get("metadata")
        language = _metadata_text(metadata, "kernelspec", "language")
        if not language:
            language = _metadata_text(metadata, "language_info", "name")
        language = language.lower()
        if language in _PYTHON_LANGUAGES:
            return ""
        return one_line(language)

    @property
    def cells(self) -> list[Node]:
        cells: list[Node] = self.content["cells"]
        return cells


def _metadata_text(metadata: object, section: str, key: str) -> str:
    """Return a text in a section of a notebook's metadata; empty if it is missing or blank."""
    if not isinstance(metadata, dict):
        return ""
    fields = metadata.get(section)
    if not isinstance(fields, dict):
        return ""
    value = fields.get(key)
    if not isinstance(value, str):
        return ""
    return value.strip()


def content_digest(content: bytes) -> str:
    """Return a hash by which a changed file is noticed."""
    return hashlib.sha256(content).hexdigest()


def read_notebook(path: Path) -> LoadedNotebook:
    """Read a file whose suffix is one of `ENDINGS`. Raises `NotebookError`."""
    name = one_line(str(path))
    try:
        file_stat = path.stat()
        if not stat.S_ISREG(file_stat.st_mode):
            raise NotebookError(f"{name} is not a regular file.")
        if file_stat.st_size > MAX_FILE_BYTES:
            size = f"{file_stat.st_size / 1e6:,.0f} MB"
            max_size = f"{MAX_FILE_BYTES / 1e6:,.0f} MB"
            raise NotebookError(f"{name} is {size}; a notebook may be at most {max_size}.")
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotebookError(f"There is no file {name}.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NotebookError(f"{name} cannot be read: {reason}.") from None

    if path.suffix.lower() == ".ipynb":
        return LoadedNotebook(
            path=path.absolute(),
            digest=content_digest(data),
            content=_parse_notebook(data, name),
            style=_read_style(data),
        )
    return _read_text_file(path, data, name)


def cell_source(cell: Node) -> str:
    """Return the source of a cell, which may be stored as a list of lines."""
    return _join_lines(cell.get("source")) or ""


def cell_outputs(cell: Node) -> Iterator[OutputPart]:
    """Yield the outputs that the session shows."""
    nodes = cell.get("outputs")
    if not isinstance(nodes, list):
        return
    outputs = (
        _read_output(node if isinstance(node, dict) else {}) for node in nodes[:MAX_CELL_OUTPUTS]
    )
    for kind, same_kind in groupby(outputs, key=lambda output: output.kind):
        if kind == "stdout":  # some programs store each line as an output of its own
            yield OutputPart(kind, shorten("".join(output.text for output in same_kind)))
        else:
            yield from same_kind
    omitted_count = len(nodes) - MAX_CELL_OUTPUTS
    if omitted_count > 0:
        yield OutputPart("stdout", f"… {omitted_count:,} more outputs are in the file\n")


def _parse_notebook(data: bytes, name: str) -> Node:
    """Parse and check an ``.ipynb`` file. Raises `NotebookError`."""
    # Decoded here, because `json.loads` accepts lone surrogates in bytes.
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotebookError(f"{name} is not UTF-8 text.") from None
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise NotebookError(f"{name} is not a notebook: it is not valid JSON.") from None

    is_version_4 = isinstance(content, dict) and content.get("nbformat") == 4
    cells = content.get("cells") if is_version_4 else None
    if not isinstance(cells, list):
        raise NotebookError(f"{name} is not a notebook of version 4 of the format.")
    for number, cell in enumerate(cells, 1):
        has_type = isinstance(cell, dict) and cell.get("cell_type") in CELL_TYPES
        if not has_type or _join_lines(cell.get("source")) is None:
            problem = f"its cell {number} has no known type or no source."
            raise NotebookError(f"{name} is not a valid notebook: {problem}")
    notebook: Node = content
    return notebook


def _read_style(data: bytes, encoding: str = _DEFAULT_ENCODING) -> FileStyle:
    """Return the formatting of a file.

    Args:
        encoding: In which it was decoded.
    """
    first_line_end = data.find(b"\n")
    has_crlf = first_line_end > 0 and data[first_line_end - 1 : first_line_end] == b"\r"
    indent = _INDENT.match(data[:1000].decode("utf-8-sig", "replace"))
    return FileStyle(
        indent=indent[1] if indent else None,
        has_crlf=has_crlf,
        ends_with_newline=data.endswith(b"\n"),
        encoding=encoding.removesuffix("-sig"),
    )


def _read_text_file(path: Path, data: bytes, name: str) -> LoadedNotebook:
    """Read a script or Markdown file. Raises `NotebookError`."""
    is_python = path.suffix.lower() == ".py"
    encoding = _declared_encoding(data) if is_python else _DEFAULT_ENCODING
    text = _decode(data, encoding, name)
    percent_count = len(_PERCENT.findall(text))
    is_single_cell = is_python and percent_count == 0

    cell_count = 1
    if not is_single_cell:
        # An upper bound, without parsing.
        cell_count = max(percent_count, text.count("```") // 2)
    if len(text) > MAX_TEXT_CHARS or cell_count > MAX_TEXT_CELLS:
        advice = f"--load={name} loads it as a variable."
        raise NotebookError(f"{name} is too large to be shown as cells. {advice}")

    file_format: FileFormat
    header = ""
    body = ""
    if is_single_cell:
        file_format = "script"
        content = _single_cell(text)
    else:
        file_format = "py:percent" if is_python else "md"
        match = HEADER.match(text)
        header = match[0] if match else ""
        body = text.removeprefix(header)
        content = _parse_cells(body, file_format, name)
    return LoadedNotebook(
        path=path.absolute(),
        digest=content_digest(data),
        content=content,
        format=file_format,
        style=_read_style(data, encoding),
        header=header,
        text=body,
    )


def _decode(data: bytes, encoding: str, name: str) -> str:
    r"""Return the text of a file with lines that end with ``\n``. Raises `NotebookError`."""
    try:
        text = data.decode(encoding).replace("\r\n", "\n")
    except ValueError:
        encoding_name = encoding.removesuffix("-sig").upper()
        raise NotebookError(f"{name} is not {encoding_name} text.") from None
    if "\0" in text:
        raise NotebookError(f"{name} is not a text file.")
    return text


def _single_cell(text: str) -> Node:
    """Return a script without cells as a notebook of one cell, or none if it is blank."""
    cell: Node = {
        "cell_type": "code",
        "source": text,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    cells = [cell] if text.strip() else []
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def _parse_cells(body: str, file_format: FileFormat, name: str) -> Node:
    """Parse the cells of a script or Markdown file without its header. Raises `NotebookError`."""
    import jupytext

    # Below a cell that we insert, jupytext finds no header. It would parse one as YAML, in which a
    # few lines can expand without limit.
    first_cell = "x\n\n\n"
    if file_format == "py:percent":
        first_cell = "# %%\nx\n\n" if _PERCENT.match(body) else "# %%\nx\n\n# %%\n"
    try:
        content: Node = json.loads(json.dumps(jupytext.reads(first_cell + body, fmt=file_format)))
    except Exception as error:  # a library reading an untrusted file
        raise NotebookError(f"{name} cannot be read as cells: {one_line(str(error))}.") from None
    del content["cells"][0]
    return content


def _declared_encoding(data: bytes) -> str:
    """Return the encoding that a script declares.

    UTF-8 if Python does not know it, or if it does not keep ASCII, such as "hex".
    """
    ascii_text = "".join(map(chr, range(128)))
    with suppress(SyntaxError, LookupError, ValueError):
        start = io.BytesIO(data[:MAX_DECLARATION_BYTES])
        encoding, _ = tokenize.detect_encoding(start.readline)
        if encoding != "utf-8" and ascii_text.encode(encoding).decode("ascii") == ascii_text:
            return encoding
    return _DEFAULT_ENCODING


def _join_lines(value: object) -> str | None:
    """Return a text that may be stored as a list of lines; None if it is neither."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else None


def _read_output(node: Node) -> OutputPart:
    """Return an output of a notebook, whatever it contains."""
    output_type = node.get("output_type")
    if output_type == "stream":
        text = _join_lines(node.get("text"))
        if text is not None:
            return OutputPart("stdout", shorten(text))
    if output_type == "error":
        return _read_traceback(node)
    data = node.get("data")
    if isinstance(data, dict):
        if output_type == "execute_result":
            return _read_data(data, "value")
        if output_type in ("display_data", "update_display_data"):
            return _read_data(data, "stdout")
    return OutputPart("stdout", UNREADABLE_OUTPUT)


def _read_traceback(node: Node) -> OutputPart:
    """Return an error of a notebook, whatever its fields contain."""
    traceback = node.get("traceback")
    lines: list[str] = []
    if isinstance(traceback, list):
        lines = [line for line in traceback if isinstance(line, str)]
    if not lines:
        lines = [f"{node.get('ename')}: {node.get('evalue')}"]
    return OutputPart("traceback", shorten("\n".join(lines) + "\n"))


def _read_data(data: Node, text_kind: str) -> OutputPart:
    """Return a value as the session shows it: as a picture, else as HTML or Markdown, else as text.

    Args:
        data: The forms of the value, by MIME type.
        text_kind: The kind of the output if the value is only text.
    """
    plain_text = _join_lines(data.get("text/plain"))
    if plain_text is not None:
        text = shorten(plain_text.rstrip("\n")) + "\n"
    else:
        # It has no text, so name the forms that it has.
        mime_types = map(one_line, list(data)[:5])
        text = f"[{', '.join(mime_types)}]\n"

    for mime in sorted(PICTURE_MIMES):
        picture = _join_lines(data.get(mime)) or ""
        if picture and len(picture) <= MAX_PICTURE_CHARS and BASE64.fullmatch(picture):
            return OutputPart("display", text, mime, "".join(picture.split()))
    for mime in ("text/html", "text/markdown"):
        rich_text = _join_lines(data.get(mime))
        if rich_text and len(rich_text) <= MAX_OUTPUT_CHARS:
            return OutputPart("display", text, mime, rich_text)
    return OutputPart(text_kind, text)
