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

from mahtab_tui.bus.records import PICTURES
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

_PERCENT = re.compile(r"^# ?%%", re.MULTILINE)
HEADER = re.compile(
    r"\A(?:#!.*\n)?(?:(?=.*\n)#.*coding[:=].*\n)?(?:((?:# )?---)\n(?:.*\n)*?\1\n+)?"
)
"""Interpreter, encoding and metadata of a script or Markdown file.

The lookahead makes a last line without a newline fail at once, instead of at each "coding:" in it.
"""
_INDENT = re.compile(r"\{\r?\n([ \t]*)")
CELL_TYPES = ("code", "markdown", "raw")

Node = dict[str, Any]
"""An object of a notebook's JSON, which may have any keys."""

FileFormat = Literal["ipynb", "py:percent", "md", "script"]
"""A format by jupytext's name; "script" is Python without cells."""


class NotebookError(Exception):
    """A file cannot be opened as a notebook; the message is a sentence."""


class Style(NamedTuple):
    """A file's formatting, so that saving changes as few lines as possible."""

    indent: str | None = " "
    """Indentation of the JSON; None if it is a single line."""
    has_crlf: bool = False
    """Whether lines end with ``\\r\\n``."""
    ends_with_newline: bool = True
    """Whether the last line ends, too."""
    encoding: str = "utf-8"
    """Declared by a script."""


JUPYTER_STYLE = Style()
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
    style: Style = JUPYTER_STYLE
    rewritable: bool = False
    header: str = ""
    """What precedes the cells of a script or Markdown file."""
    text: str = ""
    """A script or Markdown file without its header."""

    @property
    def language(self) -> str:
        """In lower case; empty for Python, or if none is declared."""
        metadata = self.content.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        for section, key in (("kernelspec", "language"), ("language_info", "name")):
            fields = metadata.get(section)
            value = fields.get(key) if isinstance(fields, dict) else None
            language = value.strip().lower() if isinstance(value, str) else ""
            if language:
                is_python = language in ("python", "ipython", "python3")
                return "" if is_python else one_line(language)
        return ""

    @property
    def cells(self) -> list[Node]:
        cells: list[Node] = self.content["cells"]
        return cells


def content_digest(content: bytes) -> str:
    """Return a hash by which a changed file is noticed."""
    return hashlib.sha256(content).hexdigest()


def read_notebook(path: Path) -> LoadedNotebook:
    """Read a file whose suffix is one of `ENDINGS`. Raises `NotebookError`."""
    name = one_line(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise NotebookError(f"{name} is not a regular file.")
        if status.st_size > MAX_FILE_BYTES:
            size = f"{status.st_size / 1e6:,.0f} MB"
            max_size = f"{MAX_FILE_BYTES / 1e6:,.0f} MB"
            raise NotebookError(f"{name} has {size}; a notebook may have at most {max_size}.")
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotebookError(f"There is no file {name}.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NotebookError(f"{name} cannot be read: {reason}.") from None

    if path.suffix.lower() == ".ipynb":
        return _make_file(path, data, _parse_notebook(data, name))
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


def _make_file(
    path: Path,
    data: bytes,
    content: Node,
    file_format: FileFormat = "ipynb",
    header: str = "",
    text: str = "",
    encoding: str = "utf-8-sig",
) -> LoadedNotebook:
    """Return a file as read, with its formatting."""
    start = data[:1000].decode("utf-8-sig", "replace")
    indent = _INDENT.match(start)
    style = Style(
        indent=indent[1] if indent else None,
        has_crlf="\r\n" in start,
        ends_with_newline=data.endswith(b"\n"),
        encoding=encoding.removesuffix("-sig"),
    )
    return LoadedNotebook(
        path.absolute(), content_digest(data), content, file_format, style, header=header, text=text
    )


def _read_text_file(path: Path, data: bytes, name: str) -> LoadedNotebook:
    """Read a script or Markdown file. Raises `NotebookError`."""
    is_python = path.suffix.lower() == ".py"
    encoding = _declared_encoding(data) if is_python else "utf-8-sig"
    try:
        text = data.decode(encoding).replace("\r\n", "\n")
    except ValueError:
        encoding_name = encoding.removesuffix("-sig").upper()
        raise NotebookError(f"{name} is not {encoding_name} text.") from None
    if "\0" in text:
        raise NotebookError(f"{name} is not a text file.")
    cell_count = len(_PERCENT.findall(text))
    is_single_cell = is_python and cell_count == 0
    if not is_single_cell:
        cell_count = max(cell_count, text.count("```") // 2)
    if len(text) > MAX_TEXT_CHARS or cell_count > MAX_TEXT_CELLS:
        advice = f"--load={name} loads it as a variable."
        raise NotebookError(f"{name} is too large to be shown as cells. {advice}")
    if is_single_cell:
        return _make_file(path, data, _single_cell(text), "script", encoding=encoding)

    match = HEADER.match(text)
    header = match[0] if match else ""
    body = text.removeprefix(header)
    file_format: FileFormat = "py:percent" if is_python else "md"
    content = _parse_cells(body, file_format, name)
    return _make_file(path, data, content, file_format, header, body, encoding)


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
    """Return the encoding that a script declares; UTF-8 if Python does not know it, or if it does
    not keep ASCII, such as "hex"."""
    ascii_text = "".join(map(chr, range(128)))
    with suppress(SyntaxError, LookupError, ValueError):
        start = io.BytesIO(data[:MAX_DECLARATION_BYTES])
        encoding, _ = tokenize.detect_encoding(start.readline)
        if encoding != "utf-8" and ascii_text.encode(encoding).decode("ascii") == ascii_text:
            return encoding
    return "utf-8-sig"


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


def _read_data(data: Node, kind: str) -> OutputPart:
    """Return the richest form of a value that the session shows. kind: of a value that is only
    text."""
    plain_text = _join_lines(data.get("text/plain"))
    if plain_text is not None:
        text = shorten(plain_text.rstrip("\n")) + "\n"
    else:
        text = f"[{', '.join(map(one_line, list(data)[:5]))}]\n"

    for mime in sorted(PICTURES):
        picture = _join_lines(data.get(mime)) or ""
        if picture and len(picture) <= MAX_PICTURE_CHARS and BASE64.fullmatch(picture):
            return OutputPart("display", text, mime, "".join(picture.split()))
    for mime in ("text/html", "text/markdown"):
        rich_text = _join_lines(data.get(mime))
        if rich_text and len(rich_text) <= MAX_OUTPUT_CHARS:
            return OutputPart("display", text, mime, rich_text)
    return OutputPart(kind, text)
