"""What a tool is to the server, and checking what an agent gives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mahtab_tui.mcp.place import Report

if TYPE_CHECKING:
    import mcp_types as types


class Arguments(BaseModel):
    """What a tool takes. Unknown names are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


A = TypeVar("A", bound=Arguments)


class ToolError(Exception):
    """The call cannot be served; the message is a sentence for the agent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers."""

    text: str
    """All of it. There is no structured output: a client that gets some shows its model that alone, as JSON, without this text and the pictures."""
    pictures: Sequence[bytes] = ()
    """PNG."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool."""

    name: str
    title: str
    description: str
    arguments: type[A]
    serve: Callable[[A, Report], Awaitable[Answer]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def described(self) -> types.Tool:
        """The tool as the protocol lists it."""
        import mcp_types as types

        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=not self.read_only,
            ),
        )

    async def call(self, given: dict[str, Any], report: Report) -> Answer:
        """Serve a call. Raises `ToolError` for arguments that do not fit."""
        try:
            arguments = self.arguments.model_validate(given)
        except ValidationError as error:
            raise ToolError(f"{self.name}: {_sentence(error)}") from None
        return await self.serve(arguments, report)


def _sentence(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()) + "."
