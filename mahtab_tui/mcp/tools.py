"""The definition of a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    import mcp_types as types

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Claude Code hides other tools behind a search, also from a client's own agent."""
Report = Callable[[float, str], Awaitable[None]]
"""Reports progress: seconds since the call began, and a sentence."""


class Arguments(BaseModel):
    """Arguments of a tool. Unknown names are errors, so that misspelt ones are noticed."""

    model_config = ConfigDict(extra="forbid")


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


class McpToolError(Exception):
    """A tool cannot do what an agent asks; the message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers to the agent."""

    text: str
    """The answer. It has no structured form, because clients would pass only that to their
    model."""
    pictures: Sequence[str] = ()
    """PNG files as base64."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class McpTool(Generic[ArgumentsT]):
    """A tool, and what the protocol says about it."""

    name: str
    title: str
    arguments: type[ArgumentsT]
    serve: Callable[[ArgumentsT, Report], Awaitable[ToolAnswer]]
    """Does what the tool is for. Its docstring describes the tool to the agent."""
    read_only: bool = False
    """Whether it changes nothing."""
    destructive: bool = False
    """Whether it may take something away."""
    idempotent: bool = False
    """Whether a second call with the same arguments changes nothing more."""

    def to_protocol(self) -> types.Tool:
        """Return the tool as the protocol describes it."""
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
            _meta=ALWAYS_LOADED,
        )

    async def call(self, values: dict[str, Any], report: Report) -> ToolAnswer:
        """Check the arguments, and serve the call. Raises `McpToolError`."""
        try:
            arguments = self.arguments.model_validate(values)
        except ValidationError as error:
            problems: list[str] = []
            for detail in error.errors():
                argument = ".".join(map(str, detail["loc"]))
                problems.append(f"{argument}: {detail['msg']}")
            raise McpToolError(f"{self.name}: {'; '.join(problems)}.") from None
        return await self.serve(arguments, report)
