"""Files of prepared answers, for tests, talks and repeatable runs.

Each line: ``text`` (the answer) or ``error`` (the model fails with this sentence); optional
``match`` (a regular expression that the last message must contain), ``repeat`` (use this line any
number of times; otherwise once), ``tokens_per_second``, ``usage`` (``input_tokens``,
``output_tokens``, ``cost``)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from mahtab_tui.llm.base import ModelError

_FIELDS = ("text", "error", "match", "repeat", "tokens_per_second", "usage")
_COUNTS = ("input_tokens", "output_tokens", "cost")
_TOKENS = re.compile(r"\s*\S{1,12}|\s+\Z")
"""Small pieces of a text; joined, they are the text again."""


def split_tokens(text: str) -> list[str]:
    """Cut a text into the pieces in which it is streamed."""
    return _TOKENS.findall(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


@dataclass(frozen=True, config=ConfigDict(strict=True))
class ReplayLine:
    """One prepared answer, and the usage that the model reports for it."""

    text: str = ""
    error: str = ""
    match: Annotated[str, AfterValidator(_pattern)] | None = None
    repeat: bool = False
    tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class Replay:
    """Gives each line once, or again and again. Several threads may use it."""

    def __init__(self, lines: Sequence[ReplayLine], source: str) -> None:
        """source: the file's name."""
        self._lines = lines
        self._source = source
        self._used: set[int] = set()
        self._lock = threading.Lock()

    def next(self, message: str) -> ReplayLine:
        """Return the first unused line that matches a message. Raises `ModelError` if there is
        none, or if the line is an error."""
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
        """Return the cost of the most expensive answer left; None if one has no cost."""
        with self._lock:
            left = [line for number, line in enumerate(self._lines) if number not in self._used]
        costs = [line.cost for line in left if not line.error]
        return None if None in costs else max((cost or 0.0 for cost in costs), default=0.0)


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
    try:
        given = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):  # a number of thousands of digits
        raise ValueError("a number is too long, or the JSON is nested too deeply") from None
    found = _checked(given, _FIELDS, "a line")
    usage = _checked(found.pop("usage", {}), _COUNTS, "usage")
    if "text" not in found and "error" not in found:
        raise ValueError("it has neither text nor error")
    try:
        return ReplayLine(**found, **usage)
    except ValidationError as error:
        raise ValueError(_describe(error)) from None


def _checked(given: Any, names: Collection[str], what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{what} must be a JSON object")
    if unknown := sorted(given.keys() - set(names)):
        raise ValueError(f"{unknown[0]}: there is no such field; there are {', '.join(names)}")
    return dict(given)


def _describe(error: ValidationError) -> str:
    problem = error.errors()[0]
    name, kind = problem["loc"][0], problem["type"]
    if kind == "value_error":
        return f"{name}: {problem['ctx']['error']}"
    if kind == "greater_than":
        return f"{name}: it must be more than 0"
    return f"{name}: {type(problem['input']).__name__} is not what belongs there"
