"""Adapts tools to LangChain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from mahtab_tui.tools.tool import Tool, ToolError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

_SUPERFLUOUS_KEYS = frozenset({"title", "default", "minimum", "maximum"})
"""The keys of an argument's schema that a model does not need. A call with a number outside its range
fails with an error that names the range."""

RunTool = Callable[[str, Mapping[str, Any]], str]
"""Runs a tool, by its name and its arguments. Raises `ToolError`."""


def as_langchain_tool(tool: Tool, run_tool: RunTool, *, short: bool = False) -> BaseTool:
    """Return a LangChain tool, which returns errors as text. LangChain cannot cancel a call.

    Args:
        tool: The tool.
        run_tool: Runs the tool when LangChain calls it.
        short: Whether to use only the first paragraph of the description, and `short_schema`.
    """
    from langchain_core.tools import StructuredTool

    def run(**arguments: Any) -> str:
        try:
            return run_tool(tool.name, arguments)
        except ToolError as error:
            return str(error)

    description = tool.description
    schema: type[BaseModel] | dict[str, Any] = tool.arguments
    if short:
        description, *_ = description.split("\n\n")
        schema = short_schema(tool.arguments)
    return StructuredTool.from_function(
        run,
        name=tool.name,
        description=description,
        args_schema=schema,
        handle_validation_error=True,
    )


def short_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments without what a model does not need, because the
    schema is sent with every request. Optional arguments have no description."""
    schema = arguments.model_json_schema()
    required = schema.get("required", [])
    properties: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        superfluous_keys = _SUPERFLUOUS_KEYS
        if name not in required:
            superfluous_keys = superfluous_keys | {"description"}
        properties[name] = {
            key: value for key, value in field.items() if key not in superfluous_keys
        }
    result = {"type": "object", "properties": properties, "required": required}
    if "$defs" in schema:
        result["$defs"] = schema["$defs"]
    return result
