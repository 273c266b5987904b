"""Makes the functions by which cells call the tools of MCP servers, with the parameters that each tool
has."""

from __future__ import annotations

import builtins
from typing import Any, Callable

from ..link.host_functions import define_function

# Names in the code of a tool's function that no argument of a tool has.
_OMITTED_NAME = "__not_given__"
_OTHERS_NAME = "__others__"


class OmittedArgument:
    """An argument that is left to the server."""

    def __init__(self, text: str) -> None:
        """
        Args:
            text: What signatures show as its default.
        """
        self.shown = text

    def __repr__(self) -> str:
        return self.shown


def make_tool_function(
    tool: dict[str, Any], server_name: str, send: Callable[[str, dict[str, Any]], Any]
) -> Callable[..., Any]:
    """Return the function of a tool.

    Args:
        tool: As the host describes it. A parameter has a `name` in Python and one on the wire.
        server_name: The name of its server.
        send: Calls a tool by its name on the wire, with arguments by theirs.
    """
    parameters = tool["parameters"]
    wire_names = {parameter["name"]: parameter["wire"] for parameter in parameters}

    def call(arguments: dict[str, Any], others: dict[str, Any]) -> Any:
        wire_arguments = {
            wire_names[name]: value
            for name, value in arguments.items()
            if type(value) is not OmittedArgument
        }
        return send(tool["wire"], {**wire_arguments, **others})

    arguments_code = ", ".join(
        f"{parameter['name']!r}: {parameter['name']}" for parameter in parameters
    )
    others_code = _OTHERS_NAME if tool["open"] else "{}"
    function = define_function(
        tool["name"],
        f"({_parameters_code(tool)}) -> object",
        f"{{{arguments_code}}}, {others_code}",
        {
            "__call__": call,
            _OMITTED_NAME: _omitted_arguments(parameters),
            "__name__": __name__,
            "__builtins__": builtins,
        },
    )
    function.__doc__ = tool["doc"]
    function.__qualname__ = f"{server_name}.{tool['name']}"
    return function


def _parameters_code(tool: dict[str, Any]) -> str:
    """Return the parameters of a tool's function as code; optional ones only by name."""
    required = []
    optional = []
    for parameter in tool["parameters"]:
        code = f"{parameter['name']}: {parameter['annotation']}"
        if parameter["required"]:
            required.append(code)
        else:
            optional.append(f"{code} = {_OMITTED_NAME}[{parameter['name']!r}]")
    parameters = [*required]
    if optional:
        parameters += ["*", *optional]
    if tool["open"]:
        parameters.append(f"**{_OTHERS_NAME}")
    return ", ".join(parameters)


def _omitted_arguments(parameters: list[dict[str, Any]]) -> dict[str, OmittedArgument]:
    """Return the defaults of parameters, which show what the server would take, by name."""
    return {
        parameter["name"]: OmittedArgument(
            "…" if parameter["default"] is None else repr(parameter["default"])
        )
        for parameter in parameters
    }
