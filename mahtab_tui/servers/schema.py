"""Arguments and results of tools by their JSON schema, which may be hostile."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Container, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import UnknownType, best_match

from mahtab_tui.worker.link.frames import check_bare

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_MAX_PROBLEM_CHARS = 300
_MAX_ERRORS = 20
"""Errors among which the most important is looked for."""
_MAX_STEPS = 5_000_000
"""Values of a schema times values of arguments; the server checks more."""
MAX_PARAMETERS = 100
MAX_DOC_CHARS = 4_000
_MAX_SUMMARY_CHARS = 200
_MAX_PARAMETER_DOC_CHARS = 500
_MAX_CHOICES = 20
_MAX_CHOICE_CHARS = 100
_MAX_DEFAULT_CHARS = 100
_MAX_NAME_CHARS = 60
MAX_ERROR_CHARS = 4_000
MAX_BARE_BYTES = 2 * 1024 * 1024
"""Bytes of JSON outside its strings; more would keep other threads waiting."""

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
_PLAIN_KEYWORDS = (
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength"
    " minItems maxItems"
).split()
_OPEN_KEYWORDS = frozenset(
    {"$ref", "allOf", "anyOf", "dependentSchemas", "if", "oneOf", "patternProperties"}
)


class ArgumentsError(Exception):
    """The message is a sentence that names the argument."""


def check_arguments(arguments: Mapping[str, Any], schema: Any) -> None:
    """Raise `ArgumentsError` if arguments do not fit.

    Patterns, references and alternatives, which may take endless time, are left to the server.
    """
    if _count_values(schema) * _count_values(arguments) > _MAX_STEPS:
        return
    try:
        errors = Draft202012Validator(_plain_schema(schema)).iter_errors(dict(arguments))
        error = best_match(islice(errors, _MAX_ERRORS))
    except (UnknownType, RecursionError, TypeError, ValueError, AttributeError, LookupError):
        return
    if error is not None:
        raise ArgumentsError(_describe_problem(error))


def _count_values(value: object) -> int:
    """Count the values in a JSON value, up to a limit."""
    count = 0
    uncounted: list[object] = [value]
    while uncounted and count <= _MAX_STEPS:
        item = uncounted.pop()
        count += 1
        if isinstance(item, Mapping):
            uncounted.extend(item.values())
        elif isinstance(item, list):
            uncounted.extend(item)
    return count


def _plain_schema(schema: Any) -> dict[str, Any]:
    """Return the part that is checked in linear time."""
    if not isinstance(schema, Mapping):
        return {}
    plain = {name: schema[name] for name in _PLAIN_KEYWORDS if name in schema}
    for bound in ("Minimum", "Maximum"):
        _read_draft_4_bound(plain, bound.lower(), f"exclusive{bound}")
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        plain["properties"] = {
            name: _plain_schema(property_schema) for name, property_schema in properties.items()
        }
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            plain["additionalProperties"] = False
    if "items" in schema:
        plain["items"] = _plain_schema(schema["items"])
    return plain


def _read_draft_4_bound(schema: dict[str, Any], bound: str, exclusive: str) -> None:
    """Rewrite a bound of draft 4, where `exclusiveMinimum` may be true and says that `minimum` is
    excluded, in the form of later drafts, where it is the number itself."""
    if isinstance(schema.get(exclusive), bool):
        is_excluded = schema.pop(exclusive)
        if is_excluded and bound in schema:
            schema[exclusive] = schema.pop(bound)


def _describe_problem(error: ValidationError) -> str:
    """Return a sentence for an error, which names the argument."""
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required" and isinstance(error.validator_value, list):
        missing = [str(name) for name in error.validator_value if name not in error.instance]
        return f"The argument {'.'.join([*path, *missing[:1]])} is missing."
    subject = f"The argument {'.'.join(path)} is" if path else "The arguments are"
    return f"{subject} wrong: {error.message[:_MAX_PROBLEM_CHARS]}."


class ToolParameter(NamedTuple):
    name: str
    wire: str
    """Its name on the server."""
    annotation: str
    """Its type, as in code."""
    required: bool
    default: Any = None


class ToolSignature(NamedTuple):
    """How a tool is called from Python."""

    name: str
    wire: str
    """Its name on the server."""
    parameters: tuple[ToolParameter, ...]
    """The required ones first."""
    open: bool
    """Whether it may take other arguments, too."""
    doc: str
    summary: str
    """The first line of its description."""
    read_only: bool

    @property
    def written(self) -> str:
        """As in code: ``(query: str, *, page: int = 1)``."""
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
        name: what it is made of.
        used_names: names that are taken.
        private: put before an underscore or a digit.
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
    wire: str, schema: Any, description: str, *, read_only: bool, name: str
) -> ToolSignature:
    """Make the Python signature of a tool.

    Args:
        wire: the tool's name on the server.
        schema: the JSON schema of its arguments.
        description: the server's words about it.
        read_only: whether the server says that it changes nothing.
        name: its name in Python.
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
    for parameter_wire, about in properties.items():
        if not isinstance(about, Mapping):
            about = {}
        parameter_name = identifier(str(parameter_wire), parameters, private="argument")
        default = about.get("default")
        parameters[parameter_name] = ToolParameter(
            parameter_name,
            str(parameter_wire),
            _annotation(about),
            required=parameter_wire in required_names,
            default=default if _is_plain(default) else None,
        )
        parameter_doc = _describe_parameter(about)
        if parameter_doc:
            parameter_docs.append(f"{parameter_name}: {parameter_doc}")

    words = description.strip() or f"The tool {wire} has no description."
    doc = "\n".join([words[:MAX_DOC_CHARS], "", *parameter_docs])
    return ToolSignature(
        name,
        wire,
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


def result_parts(result: CallToolResult, output_schema: Any) -> list[dict[str, Any]]:
    """Return text, JSON, pictures, and other data as base64."""
    value: Any = result.structured_content
    if value is None:
        return [_part(block) for block in result.content]
    properties = output_schema.get("properties") if isinstance(output_schema, Mapping) else None
    # Structured content must be an object, so a server has put another value into one.
    is_wrapped = isinstance(properties, Mapping) and set(properties) == {"result"}
    if is_wrapped and isinstance(value, Mapping) and set(value) == {"result"}:
        value = value["result"]
    # The text of a structured result may itself be JSON.
    value_part: dict[str, Any] = {"kind": "json", "value": value}
    if isinstance(value, str):
        value_part = _text_part(value)
    other_parts = [_part(block) for block in result.content if block.type != "text"]
    return [value_part, *other_parts]


def error_text(content: Sequence[ContentBlock]) -> str:
    """Return the text of an error, shortened."""
    text = "\n".join(map(_block_text, content)).strip()
    if len(text) <= MAX_ERROR_CHARS:
        return text
    return f"{text[:MAX_ERROR_CHARS]}… ({len(text):,} characters)"


def _block_text(block: ContentBlock) -> str:
    """Return the text of a block, or of the resource embedded in it; empty if it has none."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return str(getattr(block.resource, "text", ""))
    return ""


def _part(block: ContentBlock) -> dict[str, Any]:
    """Return a block of a result as the kernel gets it."""
    match block.type:
        case "text":
            return _text_part(block.text)
        case "image":
            return {"kind": "picture", "mime": block.mime_type, "data": block.data}
        case "audio":
            return {"kind": "bytes", "data": block.data}
        case "resource":
            text = getattr(block.resource, "text", None)
            if text is not None:
                return {"kind": "text", "text": text}
            return {"kind": "bytes", "data": getattr(block.resource, "blob", "")}
        case "resource_link":
            link = {"uri": str(block.uri), "name": block.name, "mime": block.mime_type}
            return {"kind": "json", "value": link}


def _text_part(text: str) -> dict[str, Any]:
    """Return a text as JSON, if it is an object or a list."""
    if text[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]"):
        try:
            check_bare(text.encode(errors="replace"), MAX_BARE_BYTES)
            return {"kind": "json", "value": json.loads(text)}
        except (ValueError, RecursionError):
            pass
    return {"kind": "text", "text": text}
