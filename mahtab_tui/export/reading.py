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
from typing import Any, NamedTuple

from mahtab_tui.bus.records import PICTURES
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export.entries import BASE64, LONGEST, Output, shorten

ENDINGS = (".ipynb", ".py", ".md")
MOST_BYTES = 200_000_000
_MOST_TEXT, _MOST_CELLS = 2_000_000, 5_000
_LARGEST = 20_000_000
_OUTPUTS = 200

_PERCENT = re.compile(r"^# ?%%", re.MULTILINE)
HEADER = re.compile(r"\A(?:#!.*\n)?(?:#.*coding[:=].*\n)?(?:((?:# )?---)\n(?:.*\n)*?\1\n+)?")
"""Interpreter, encoding and metadata of a script or Markdown file."""
_INDENT = re.compile(r"\{\r?\n([ \t]*)")
KINDS = ("code", "markdown", "raw")

Node = dict[str, Any]


class NotebookError(Exception):
    """A file cannot be opened as a notebook; the message is a sentence."""


class Style(NamedTuple):
    """A file's formatting, so that saving changes as few lines as possible."""

    indent: str | None = " "
    """Indentation of the JSON; None if it is a single line."""
    windows: bool = False
    ends: bool = True
    encoding: str = "utf-8"
    """Declared by a script."""


AS_JUPYTER = Style()


@dataclass(frozen=True)
class NotebookFile:
    """A file as read."""

    path: Path
    """Absolute."""
    digest: str
    content: Node
    """Never modified."""
    form: str = "ipynb"
    """ "ipynb", or the name of jupytext's format; "script" for Python without cells."""
    style: Style = AS_JUPYTER
    rewritable: bool = False
    header: str = ""
    text: str = ""

    @property
    def language(self) -> str:
        """In lower case; empty for Python, or if none is declared."""
        metadata = self.content.get("metadata")
        for key, name in (("kernelspec", "language"), ("language_info", "name")):
            about = metadata.get(key) if isinstance(metadata, dict) else None
            named = about.get(name) if isinstance(about, dict) else None
            if isinstance(named, str) and (language := named.strip().lower()):
                is_python = language in ("python", "ipython", "python3")
                return "" if is_python else one_line(language)
        return ""

    @property
    def cells(self) -> list[Node]:
        found: list[Node] = self.content["cells"]
        return found


def content_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_notebook(path: Path) -> NotebookFile:
    """Read a file whose suffix is one of `ENDINGS`. Raises `NotebookError`."""
    shown = one_line(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise NotebookError(f"{shown} is not a regular file.")
        if status.st_size > MOST_BYTES:
            size, most = (f"{each / 1e6:,.0f} MB" for each in (status.st_size, MOST_BYTES))
            raise NotebookError(f"{shown} has {size}; a notebook may have at most {most}.")
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotebookError(f"There is no file {shown}.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NotebookError(f"{shown} cannot be read: {reason}.") from None
    if path.suffix.lower() != ".ipynb":
        return _text_file(path, content, shown)
    return _file(path, content, _notebook(content, shown))


def cell_source(cell: Node) -> str:
    return _text(cell.get("source")) or ""


def cell_outputs(cell: Node) -> Iterator[Output]:
    """Yield the outputs that the session shows."""
    outputs = cell.get("outputs")
    if not isinstance(outputs, list):
        return
    shown = (_output(output if isinstance(output, dict) else {}) for output in outputs[:_OUTPUTS])
    for kind, same in groupby(shown, key=lambda output: output.kind):
        if kind == "stdout":  # some programs store each line as an output of its own
            yield Output(kind, shorten("".join(output.text for output in same)))
        else:
            yield from same
    if (more := len(outputs) - _OUTPUTS) > 0:
        yield Output("stdout", f"… {more:,} more outputs are in the file\n")


def _notebook(content: bytes, shown: str) -> Node:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        raise NotebookError(f"{shown} is not a notebook: it is not valid JSON.") from None
    if not json.detect_encoding(content).startswith("utf-8"):
        raise NotebookError(f"{shown} is not UTF-8 text.")
    if (
        not isinstance(read, dict)
        or read.get("nbformat") != 4
        or not isinstance(cells := read.get("cells"), list)
    ):
        raise NotebookError(f"{shown} is not a notebook of version 4 of the format.")
    for number, cell in enumerate(cells, 1):
        is_known = isinstance(cell, dict) and cell.get("cell_type") in KINDS
        if not is_known or _text(cell.get("source")) is None:
            why = f"its cell {number} has no known type or no source."
            raise NotebookError(f"{shown} is not a valid notebook: {why}")
    return read


def _file(
    path: Path,
    content: bytes,
    read: Node,
    form: str = "ipynb",
    header: str = "",
    text: str = "",
    encoding: str = "utf-8-sig",
) -> NotebookFile:
    start = content[:1000].decode("utf-8-sig", "replace")
    indent, ends = _INDENT.match(start), content.endswith(b"\n")
    encoding = encoding.removesuffix("-sig")
    style = Style(indent[1] if indent else None, "\r\n" in start, ends, encoding)
    return NotebookFile(
        path.absolute(), content_digest(content), read, form, style, header=header, text=text
    )


def _text_file(path: Path, content: bytes, shown: str) -> NotebookFile:
    import jupytext

    python = path.suffix.lower() == ".py"
    encoding = _declared_encoding(content) if python else "utf-8-sig"
    try:
        text = content.decode(encoding).replace("\r\n", "\n")
    except ValueError:
        name = encoding.removesuffix("-sig").upper()
        raise NotebookError(f"{shown} is not {name} text.") from None
    if "\0" in text:
        raise NotebookError(f"{shown} is not a text file.")
    if python and not _PERCENT.search(text):
        cell = {"cell_type": "code", "source": text, "metadata": {}}
        cells = [{**cell, "outputs": [], "execution_count": None}] if text.strip() else []
        whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        return _file(path, content, whole, "script", encoding=encoding)
    form = "py:percent" if python else "md"
    count = max(len(_PERCENT.findall(text)), text.count("```") // 2)
    if len(text) > _MOST_TEXT or count > _MOST_CELLS:
        how = f"--load={shown} loads it as a variable."
        raise NotebookError(f"{shown} is too large to be shown as cells. {how}")
    found = HEADER.match(text)
    header = found[0] if found else ""
    body = text.removeprefix(header)
    # Below a cell that we insert, jupytext finds no header. It would parse one as YAML, in which a
    # few lines can expand without limit.
    above = "x\n\n\n"
    if python:
        above = "# %%\nx\n\n" if _PERCENT.match(body) else "# %%\nx\n\n# %%\n"
    try:
        read = json.loads(json.dumps(jupytext.reads(above + body, fmt=form)))
    except Exception as error:  # a library reading an untrusted file
        raise NotebookError(f"{shown} cannot be read as cells: {one_line(str(error))}.") from None
    del read["cells"][0]
    return _file(path, content, read, form, header, body, encoding)


def _declared_encoding(content: bytes) -> str:
    """Return the encoding that a script declares; UTF-8 if Python does not know it, or if it does
    not keep ASCII, such as "hex"."""
    ascii_text = "".join(map(chr, range(128)))
    with suppress(SyntaxError, LookupError, ValueError):
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content[:10_000]).readline)
        if encoding != "utf-8" and ascii_text.encode(encoding).decode("ascii") == ascii_text:
            return encoding
    return "utf-8-sig"


def _text(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else None


def _output(output: Node) -> Output:
    kind = output.get("output_type")
    if kind == "stream" and (text := _text(output.get("text"))) is not None:
        return Output("stdout", shorten(text))
    if kind == "error":
        traceback = output.get("traceback")
        lines = traceback if isinstance(traceback, list) else []
        lines = [line for line in lines if isinstance(line, str)]
        lines = lines or [f"{output.get('ename')}: {output.get('evalue')}"]
        return Output("traceback", shorten("\n".join(lines) + "\n"))
    data, is_value = output.get("data"), kind == "execute_result"
    if isinstance(data, dict) and (is_value or kind in ("display_data", "update_display_data")):
        return _value(data, "value" if is_value else "stdout")
    return Output("stdout", "[an output that cannot be shown]\n")


def _value(data: Node, kind: str) -> Output:
    plain = _text(data.get("text/plain"))
    text = f"[{', '.join(map(one_line, list(data)[:5]))}]\n"
    if plain is not None:
        text = shorten(plain.rstrip("\n")) + "\n"
    for mime in sorted(PICTURES):
        picture = _text(data.get(mime)) or ""
        if picture and len(picture) <= _LARGEST and BASE64.fullmatch(picture):
            return Output("display", text, mime, "".join(picture.split()))
    for mime in ("text/html", "text/markdown"):
        if (rich := _text(data.get(mime))) and len(rich) <= LONGEST:
            return Output("display", text, mime, rich)
    return Output(kind, text)
