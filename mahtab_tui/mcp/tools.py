"""The definition of a tool, which checks an agent's arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    import mcp_types as types


Report = Callable[[float, str], Awaitable[None]]
"""Reports progress to the agent: seconds so far, and a sentence."""


class Arguments(BaseModel):
    """Arguments of a tool. Unknown names are errors, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


A = TypeVar("A", bound=Arguments)


class McpToolError(Exception):
    """A call cannot be served; the message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a tool."""

    text: str
    """The whole answer. There is no structured output, because clients then give their model only
    that, without this text and the pictures."""
    pictures: Sequence[bytes] = ()
    """PNG."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class McpTool(Generic[A]):
    """A tool of the server."""

    name: str
    title: str
    arguments: type[A]
    serve: Callable[[A, Report], Awaitable[ToolAnswer]]
    """Its docstring is the description for agents."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def described(self) -> types.Tool:
        """Return the tool as the protocol lists it."""
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
        """Serve a call. Raises `McpToolError` for invalid arguments."""
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as error:
            raise McpToolError(f"{self.name}: {_sentence(error)}") from None
        return await self.serve(arguments, report)


def _sentence(error: ValidationError) -> str:
    return (
        "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        )
        + "."
    )
