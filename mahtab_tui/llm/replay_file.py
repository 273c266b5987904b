"""Files of prepared answers: JSON lines.

Each line: ``text`` (the answer) or ``error`` (the model fails with this sentence); optional
``match`` (a regular expression that the last message must contain), ``repeat`` (use this line any
number of times; otherwise once), ``tokens_per_second``, ``usage`` (``input_tokens``,
``output_tokens``, ``cost``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mahtab_tui.llm.base import ModelError


class ReplayUsage(BaseModel):
    """The usage that the model reports for an answer."""

    model_config = ConfigDict(extra="forbid")

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


class ReplayLine(BaseModel):
    """One prepared answer."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    error: str = ""
    match: str | None = None
    repeat: bool = False
    tokens_per_second: float | None = Field(None, gt=0)
    usage: ReplayUsage = ReplayUsage()

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        if isinstance(value, dict) and "text" not in value and "error" not in value:
            raise ValueError("it has neither text nor error")
        return value

    def answers(self, message: str) -> bool:
        """Tell whether this line matches a message."""
        return self.match is None or re.search(self.match, message) is not None


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
                # Not pydantic's parser, which rejects the lone surrogates that a model may send.
                lines.append(ReplayLine.model_validate(json.loads(line)))
            except json.JSONDecodeError as error:
                raise ModelError(
                    f"{path}, line {number}: invalid JSON: {error.msg} (column {error.colno})."
                ) from None
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise ModelError(
                    f"{path}, line {number}: {where + ': ' if where else ''}{first['msg']}."
                ) from None
            except (
                ValueError,
                RecursionError,
            ):  # a number of thousands of digits, or brackets nested too deeply
                raise ModelError(
                    f"{path}, line {number}: a number is too long, or the JSON is nested too deeply."
                ) from None
    if not lines:
        raise ModelError(f"The replay file {path} has no answers in it.")
    return lines
