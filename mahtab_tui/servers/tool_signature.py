"""How the tools of MCP servers are called from Python.

A server describes each tool by a JSON schema, which may be malformed or hostile.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

MAX_PARAMETERS = 100
"""A tool with more parameters is called with any arguments."""
MAX_DOC_CHARS = 4_000
"""Characters of a tool's description; its parameters may take as many again."""
_MAX_SUMMARY_CHARS = 200
_MAX_PARAMETER_DOC_CHARS = 500
"""Characters of a parameter's description, without its choices."""
_MAX_CHOICES = 20
"""Choices of a parameter that are listed."""
_MAX_CHOICE_CHARS = 100
_MAX_DEFAULT_CHARS = 100
"""A longer default is not shown in the signature."""
_MAX_NAME_CHARS = 60

_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "None",
}
"""Python's types by the names of JSON schemas."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_OPEN_KEYWORDS = frozenset(
    {"$ref", "allOf", "anyOf", "dependentSchemas", "if", "oneOf", "patternProperties"}
)
"""Keywords by which a schema may have properties that it does not list."""


class ToolParameter(NamedTuple):
    """A parameter of a tool."""

    name: str
    """Its name in Python."""
    wire: str
    """Its name on the server."""
    annotation: str
    """Its type, as in code."""
    required: bool
    default: Any = None


class ToolSignature(NamedTuple):
    """How a tool is called from Python."""

    name: str
    """Its name in Python."""
    wire: str
    """Its name on the server."""
    parameters: tuple[ToolParameter, ...]
    """Its parameters, the required ones first."""
    open: bool
    """Whether it accepts arguments that are not among its parameters."""
    doc: str
    """The server's description of it and of its parameters."""
    summary: str
    """The first line of its description."""
    read_only: bool
    """Whether the server says that it changes nothing."""

    @property
    def written(self) -> str:
        """The signature as in code: ``(query: str, *, page: int = 1)``."""
        required = [parameter for parameter in self.parameters if parameter.required]
        optional = [parameter for parameter in self.parameters if not parameter.required]
        items = [f"{parameter.name}: {parameter.annotation}" for parameter in required]
        if optional:
            items.append("*")
        for parameter in optional:
            default = "..." if parameter.default is None else repr(parameter.default)
            items.append(f"{parameter.name}: {parameter.annotation} = {default}")
        if self.open:
            names = [parameter.name for parameter in self.parameters]
            items.append(f"**{identifier('arguments', names)}")
        return f"({', '.join(items)})"


def identifier(name: str, used_names: Container[str] = (), *, private: str = "tool") -> str:
    """Return an unused Python name.

    Args:
        name: What it is made of.
        used_names: Names that are taken.
        private: Put before an underscore or a digit.
    """
    base = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME_CHARS]
    if not base.strip("_") or base[0] in "_0123456789":
        base = f"{private}_{base.lstrip('_')}".rstrip("_")
    if keyword.iskeyword(base):
        base += "_"
    unused_name = base
    number = 1
    while unused_name in used_names:
        number += 1
        unused_name = f"{base}_{number}"
    return unused_name


def with_required(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add required arguments that a schema does not describe to its properties."""
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return schema
    names = [name for name in required[: MAX_PARAMETERS + 1] if isinstance(name, str)]
    missing: dict[str, Any] = {name: {} for name in names if name not in properties}
    return {**schema, "properties": {**properties, **missing}} if missing else schema


def build_signature(
    wire_name: str, schema: Any, description: str, *, read_only: bool, name: str
) -> ToolSignature:
    """Make the Python signature of a tool.

    Args:
        wire_name: The tool's name on the server.
        schema: The JSON schema of its arguments.
        description: The server's words about it.
        read_only: Whether the server says that it changes nothing.
        name: Its name in Python.
    """
    if not isinstance(schema, Mapping):
        schema = {}
    is_closed = _is_closed(schema)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        properties = {}
    elif len(properties) > MAX_PARAMETERS:
        properties = {}
        is_closed = False

    parameters = _read_parameters(properties, schema.get("required"))
    words = description.strip() or f"The tool {wire_name} has no description."
    return ToolSignature(
        name,
        wire_name,
        tuple(sorted(parameters, key=lambda parameter: not parameter.required)),
        open=not is_closed,
        doc=_write_doc(words, parameters, properties),
        summary=words.partition("\n")[0][:_MAX_SUMMARY_CHARS],
        read_only=read_only,
    )


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Return whether a tool takes no other arguments than the properties of its schema."""
    additional = schema.get("additionalProperties")
    if additional is False:
        return True
    if additional or not isinstance(schema.get("properties"), Mapping):
        return False
    return not schema.keys() & _OPEN_KEYWORDS


def _read_parameters(properties: Mapping[str, Any], required: object) -> list[ToolParameter]:
    """Return the parameters of a tool, in the order of its schema.

    Args:
        properties: What the schema says about each, by its name on the server.
        required: The names of those that must be given, if it is a list.
    """
    required_names = set(map(str, required)) if isinstance(required, list) else set()
    parameters: dict[str, ToolParameter] = {}
    for wire_name, about in properties.items():
        name = identifier(str(wire_name), parameters, private="argument")
        schema = about if isinstance(about, Mapping) else {}
        default = schema.get("default")
        parameters[name] = ToolParameter(
            name,
            str(wire_name),
            _annotation(schema),
            required=wire_name in required_names,
            default=default if _is_plain(default) else None,
        )
    return list(parameters.values())


def _write_doc(
    words: str, parameters: Iterable[ToolParameter], properties: Mapping[str, Any]
) -> str:
    """Return the description of a tool, followed by those of its parameters.

    Args:
        words: The description of the tool itself.
        parameters: In the order of the schema.
        properties: What the schema says about each of them.
    """
    lines = [words[:MAX_DOC_CHARS], ""]
    for parameter, about in zip(parameters, properties.values(), strict=True):
        parameter_doc = _describe_parameter(about) if isinstance(about, Mapping) else ""
        if parameter_doc:
            lines.append(f"{parameter.name}: {parameter_doc}")
    return "\n".join(lines)[: 2 * MAX_DOC_CHARS].rstrip()


def _annotation(about: Mapping[str, Any]) -> str:
    """Return a parameter's type as in code."""
    json_types = about.get("type")
    if not isinstance(json_types, list):
        json_types = [json_types]
    python_types = [_TYPES[name] for name in json_types if isinstance(name, str) and name in _TYPES]

    items = about.get("items")
    item_type = items.get("type") if isinstance(items, Mapping) else None
    if python_types == ["list"] and isinstance(item_type, str) and item_type in _TYPES:
        return f"list[{_TYPES[item_type]}]"
    return " | ".join(dict.fromkeys(python_types)) or "object"


def _describe_parameter(about: Mapping[str, Any]) -> str:
    """Return what a schema says about a parameter, in one line."""
    description = about.get("description")
    if not isinstance(description, str):
        description = ""
    words = " ".join(description.split())[:_MAX_PARAMETER_DOC_CHARS]

    choices = about.get("enum")
    if isinstance(choices, list) and choices:
        listed = ", ".join(repr(choice)[:_MAX_CHOICE_CHARS] for choice in choices[:_MAX_CHOICES])
        omission = ", …" if len(choices) > _MAX_CHOICES else ""
        words = f"{words} One of {listed}{omission}.".strip()
    return words


def _is_plain(default: object) -> bool:
    """Return whether a default value is short enough for a signature."""
    if isinstance(default, str):
        return len(default) <= _MAX_DEFAULT_CHARS
    return isinstance(default, bool | int | float) and -(2**63) < default < 2**63
