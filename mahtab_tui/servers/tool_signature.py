"""How tools are called from Python, by their JSON schema, which may be hostile."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

MAX_PARAMETERS = 100
MAX_DOC_CHARS = 4_000
_MAX_SUMMARY_CHARS = 200
_MAX_PARAMETER_DOC_CHARS = 500
_MAX_CHOICES = 20
_MAX_CHOICE_CHARS = 100
_MAX_DEFAULT_CHARS = 100
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
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_OPEN_KEYWORDS = frozenset(
    {"$ref", "allOf", "anyOf", "dependentSchemas", "if", "oneOf", "patternProperties"}
)


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
            items.append("**arguments")
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
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    is_closed = additional is False or (
        isinstance(properties, Mapping) and not additional and not schema.keys() & _OPEN_KEYWORDS
    )
    if not isinstance(properties, Mapping):
        properties = {}
    if len(properties) > MAX_PARAMETERS:
        properties = {}
        is_closed = False
    required = schema.get("required")
    required_names = set(map(str, required)) if isinstance(required, list) else set()

    parameters: dict[str, ToolParameter] = {}
    parameter_docs: list[str] = []
    for parameter_wire_name, about in properties.items():
        if not isinstance(about, Mapping):
            about = {}
        parameter_name = identifier(str(parameter_wire_name), parameters, private="argument")
        default = about.get("default")
        parameters[parameter_name] = ToolParameter(
            parameter_name,
            str(parameter_wire_name),
            _annotation(about),
            required=parameter_wire_name in required_names,
            default=default if _is_plain(default) else None,
        )
        parameter_doc = _describe_parameter(about)
        if parameter_doc:
            parameter_docs.append(f"{parameter_name}: {parameter_doc}")

    words = description.strip() or f"The tool {wire_name} has no description."
    doc = "\n".join([words[:MAX_DOC_CHARS], "", *parameter_docs])
    return ToolSignature(
        name,
        wire_name,
        tuple(sorted(parameters.values(), key=lambda parameter: not parameter.required)),
        open=not is_closed,
        doc=doc[: 2 * MAX_DOC_CHARS].rstrip(),
        summary=words.partition("\n")[0][:_MAX_SUMMARY_CHARS],
        read_only=read_only,
    )


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
