"""The definition of a tool, and text formatting for agents."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mahtab_tui.bus.terminal_screen import escape_for_model

if TYPE_CHECKING:
    import mcp_types as types

SHORT = 200

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_TICKS = re.compile("`{3,}")


def strip_colours(text: str) -> str:
    return _COLOURS.sub("", text)


def shorten_line(text: str, most: int = SHORT) -> str:
    text = escape_for_model(text).replace("\n", " ")
    return text if len(text) <= most else text[: most - 1] + "…"


def fenced(code: str, language: str = "python") -> str:
    """Return a Markdown block that the code cannot close."""
    ticks = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(code))])
    end = "" if code.endswith("\n") else "\n"
    return f"{ticks}{language}\n{code}{end}{ticks}"


Report = Callable[[float, str], Awaitable[None]]


class Arguments(BaseModel):
    """Arguments of a tool. Unknown names are errors, so that misspelt ones are noticed."""

    model_config = ConfigDict(extra="forbid")


A = TypeVar("A", bound=Arguments)


class McpToolError(Exception):
    """The message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    text: str
    """There is no structured output, because clients then pass only that to their model."""
    pictures: Sequence[str] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class McpTool(Generic[A]):
    name: str
    title: str
    arguments: type[A]
    serve: Callable[[A, Report], Awaitable[ToolAnswer]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def to_protocol(self) -> types.Tool:
        import mcp_types as types

        return types.Tool(
            name=self.name,
            title=self.title,
            description=" ".join((self.serve.__doc__ or "").split()),
            input_schema=self.arguments.model_json_schema(),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=not self.read_only,
            ),
        )

    async def call(self, values: dict[str, Any], report: Report) -> ToolAnswer:
        try:
            arguments = self.arguments.model_validate(values)
        except ValidationError as error:
            problems = (
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
            raise McpToolError(f"{self.name}: {'; '.join(problems)}.") from None
        return await self.serve(arguments, report)
