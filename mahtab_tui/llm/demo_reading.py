"""Reads what the demo model needs from a conversation: the question, the variables, the last error, the output of its code."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mahtab_tui.llm.prompts import COMPUTE, QUESTION, VARIABLES

_VARIABLES = re.compile(rf"^{VARIABLES}\n\n(.*)\n\n{QUESTION} ", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(r"(\w+): ([^\s,]+)(?:(?: =|,) (.*))?$")
_CONTEXT = re.compile(r"<(surroundings|recent-activity|skills|instructions|prior-session)>\n.*?\n</\1>\s*", re.DOTALL)
_CODE = re.compile(r"<(?:user|assistant)-repl-in\b([^>]*)>(.*?)</(?:user|assistant)-repl-in>", re.DOTALL)
_OUTPUT = re.compile(r"<(?:user|assistant)-repl-out\b([^>]*)>(.*?)</(?:user|assistant)-repl-out>", re.DOTALL)
_MADE = re.compile(r"\n\n(?=\w+: [A-Za-z_][\w.]*(?: = |, |$))", re.MULTILINE)
"""Precedes the description of variables that a cell has made."""
_CELL = re.compile(r'cell="(\d+)"')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning))(?:: (.*))?$", re.MULTILINE)


class KnownVariable(NamedTuple):
    """A variable as the context lists it."""

    name: str
    type: str
    summary: str


@dataclass(frozen=True)
class FailedCell:
    """A cell that raised an exception."""

    code: str
    kind: str
    """The exception's type."""
    message: str
    line: str
    """The line of the cell that raised it, if the traceback shows it."""


def read_question(text: str) -> str:
    """Return the user's words, which follow the context."""
    return _CONTEXT.sub("", _VARIABLES.sub("", text)).strip().removesuffix(COMPUTE).strip()


def read_variables(texts: Sequence[str]) -> list[KnownVariable]:
    """Return the variables from the newest message that lists them."""
    for text in reversed(texts):
        if found := _VARIABLES.findall(text):
            matches = (_VARIABLE.match(line) for line in found[-1].split("\n"))
            return [KnownVariable(m[1], m[2], m[3] or "") for m in matches if m]
    return []


def read_failure(texts: Sequence[str]) -> FailedCell | None:
    """Return the last cell that raised an exception."""
    codes: dict[str, str] = {}
    last: FailedCell | None = None
    for text in texts:
        for attrs, code in _CODE.findall(text):
            if cell := _CELL.search(attrs):
                codes[cell[1]] = html.unescape(code)
        for attrs, output in _OUTPUT.findall(text):
            cell = _CELL.search(attrs)
            if 'status="error"' in attrs and cell is not None:
                last = _failure(codes.get(cell[1], ""), html.unescape(output)) or last
    return last


def _failure(code: str, output: str) -> FailedCell | None:
    errors = _ERROR.findall(output)
    if not errors:
        return None
    lines = [line.strip() for line in output.split("\n")]
    shown = next((line for line in reversed(lines) if line and line in code), "")
    return FailedCell(code, errors[-1][0].rpartition(".")[2], errors[-1][1], shown)


def read_results(text: str) -> list[tuple[str, bool]]:
    """Return the outputs in a message, without what is told of variables after them, and whether their cells failed."""
    return [(_MADE.split(output.strip("\n"), maxsplit=1)[0], 'status="error"' in attrs) for attrs, output in _OUTPUT.findall(text)]
