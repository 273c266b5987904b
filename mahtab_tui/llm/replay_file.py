"""Files of prepared answers, for tests, talks and repeatable runs.

Each line is a JSON object with these fields:

text               the answer
error              instead of it, a sentence with which the model fails
match              a regular expression that the last message must contain (optional)
repeat             true for a line that is used any number of times, instead of once (optional)
tokens_per_second  how fast the answer comes (optional)
usage              `input_tokens`, `output_tokens` and `cost` (optional)
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mahtab_tui.llm.base import ModelError

_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "error": (str,),
    "match": (str, type(None)),
    "repeat": (bool,),
    "tokens_per_second": (int, float, type(None)),
    "input_tokens": (int,),
    "output_tokens": (int,),
    "cost": (int, float, type(None)),
}
"""The types that the fields may have; those of the usage are among them."""
_TOKENS = re.compile(r"\s*\S{1,12}|\s+\Z")
"""Small pieces of a text; joined, they are the text again."""


def split_tokens(text: str) -> list[str]:
    """Return a text in small pieces."""
    return _TOKENS.findall(text)


@dataclass(frozen=True)
class ReplayLine:
    """A prepared answer, or an error; see the module's docstring."""

    text: str = ""
    error: str = ""
    match: str | None = None
    repeat: bool = False
    tokens_per_second: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class Replay:
    """Gives each line once, or again and again, to any threads."""

    def __init__(self, lines: Sequence[ReplayLine], source: str) -> None:
        """
        Args:
            lines: The lines.
            source: The name of their file, for errors.
        """
        self._lines = lines
        self._source = source
        self._used: set[int] = set()
        """The indexes of the lines that are not used again."""
        self._lock = threading.Lock()

    def next(self, message: str) -> ReplayLine:
        """Return the first unused line that matches a message.

        Raises `ModelError` if there is none, or if the line is an error.
        """
        with self._lock:
            for number, line in enumerate(self._lines):
                if number in self._used or not re.search(line.match or "", message):
                    continue
                if not line.repeat:
                    self._used.add(number)
                if line.error:
                    raise ModelError(line.error)
                return line
        raise ModelError(f"The replay file {self._source} has no matching answer left.")

    def worst_cost(self) -> float | None:
        """Return the US dollars of the most expensive unused line; None if one has no price."""
        with self._lock:
            unused_lines = [
                line for number, line in enumerate(self._lines) if number not in self._used
            ]
        costs = [line.cost for line in unused_lines if not line.error]
        if None in costs:
            return None
        return max((cost or 0.0 for cost in costs), default=0.0)


def read_replay(path: Path) -> list[ReplayLine]:
    """Read a replay file. Raises `ModelError` with file, line and reason."""
    try:
        if path.exists() and not path.is_file():
            raise ModelError(f"The replay file {path} is not a file.")
        text = path.read_text("utf-8")
    except OSError as error:
        raise ModelError(f"The replay file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ModelError(f"The replay file {path} is not UTF-8 text.") from None
    lines = []
    # Only a line feed ends a line: JSON may contain U+2028 and the like.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                lines.append(_parse_line(line))
            except ValueError as error:
                raise ModelError(f"{path}, line {number}: {error}.") from None
    if not lines:
        raise ModelError(f"The replay file {path} has no answers in it.")
    return lines


def _parse_line(line: str) -> ReplayLine:
    """Parse a line. Raises `ValueError` with the reason."""
    fields = _parse_fields(line)
    for name, value in fields.items():
        if name not in _TYPES:
            raise ValueError(f"{name}: there is no such field; there are {', '.join(_TYPES)}")
        if type(value) not in _TYPES[name]:
            raise ValueError(f"{name}: {type(value).__name__} is not what belongs there")
    if "text" not in fields and "error" not in fields:
        raise ValueError("it has neither text nor error")

    answer = ReplayLine(**fields)
    if answer.tokens_per_second is not None and not answer.tokens_per_second > 0:
        raise ValueError("tokens_per_second: it must be more than 0")
    try:
        re.compile(answer.match or "")
    except re.error as error:
        raise ValueError(f"match: not a regular expression: {error}") from None
    return answer


def _parse_fields(line: str) -> dict[str, Any]:
    """Return the fields of a line, and those of its usage among them. Raises `ValueError`."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):  # a number of thousands of digits
        raise ValueError("a number is too long, or the JSON is nested too deeply") from None
    usage = fields.pop("usage", {}) if isinstance(fields, dict) else None
    if not isinstance(usage, dict):
        raise ValueError("a line, and its usage, must be a JSON object")
    return {**fields, **usage}
