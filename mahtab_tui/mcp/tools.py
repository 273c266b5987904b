"""The definition of a tool, and text formatting for agents."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mahtab_tui.bus.terminal_screen import escape_for_model, escape_output

if TYPE_CHECKING:
    import mcp_types as types

Format = Literal["ansi", "markdown", "plain"]

SHORT = 200

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_RED, _END = "\x1b[31m", "\x1b[0m"
_TICKS = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    format: Format = "plain"
    highlight: bool = True

    @property
    def colour(self) -> bool:
        return self.format == "ansi" and self.highlight

    def code(self, text: str, language: str = "python") -> str:
        bare = escape_for_model(_COLOURS.sub("", text))
        if self.format == "markdown" and text:
            return fenced(bare, language if self.highlight else "")
        if not self.colour:
            return bare
        has_colours = _COLOURS.search(text) is not None
        return escape_output_keep_colours(text) if has_colours else highlighted(bare, language)

    def traceback(self, text: str) -> str:
        if not self.colour or _COLOURS.search(text):
            return self.code(text, "pytb")
        head, newline, last = escape_for_model(text).rpartition("\n")
        return f"{head}{newline}{_RED}{last}{_END}" if last else ""

    def output(self, text: str) -> str:
        if not text:
            return ""
        if self.colour:
            return escape_output_keep_colours(text)
        bare = escape_output(_COLOURS.sub("", text))
        return fenced(bare, "text") if self.format == "markdown" else bare


def shorten_line(text: str, most: int = SHORT) -> str:
    text = escape_for_model(text).replace("\n", " ")
    return text if len(text) <= most else text[: most - 1] + "…"


def fenced(text: str, language: str) -> str:
    """Return a Markdown code block that the text cannot close."""
    ticks = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(text))])
    end = "" if text.endswith("\n") else "\n"
    return f"{ticks}{language}\n{text}{end}{ticks}"


def highlighted(text: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return str(highlight(text, lexer, TerminalFormatter())).rstrip("\n")


def escape_output_keep_colours(text: str) -> str:
    pieces: list[str] = []
    start = 0
    for code in _COLOURS.finditer(text):
        pieces += (escape_for_model(text[start : code.start()]), code[0])
        start = code.end()
    pieces.append(escape_for_model(text[start:]))
    return "".join(pieces) + (_END if start else "")


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

    async def call(self, given: dict[str, Any], report: Report) -> ToolAnswer:
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as error:
            problems = (
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
            raise McpToolError(f"{self.name}: {'; '.join(problems)}.") from None
        return await self.serve(arguments, report)
