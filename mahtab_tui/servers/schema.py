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

from mahtab_tui.worker.frames import check_bare

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_LONGEST = 300
_MOST_ERRORS = 20
_MOST_STEPS = 5_000_000
"""Values of a schema times values of arguments; the server checks more."""
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
    if _size(schema) * _size(arguments) > _MOST_STEPS:
        return
    try:
        errors = Draft202012Validator(_plain_schema(schema)).iter_errors(dict(arguments))
        error = best_match(islice(errors, _MOST_ERRORS))
    except (UnknownType, RecursionError, TypeError, ValueError, AttributeError, LookupError):
        return
    if error is not None:
        raise ArgumentsError(_sentence(error))


def _size(value: Any) -> int:
    count, left = 0, [value]
    while left and count <= _MOST_STEPS:
        each = left.pop()
        count += 1
        if isinstance(each, Mapping | list):
            left.extend(each.values() if isinstance(each, Mapping) else each)
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
        plain["properties"] = {name: _plain_schema(each) for name, each in properties.items()}
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


def _sentence(error: ValidationError) -> str:
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required" and isinstance(error.validator_value, list):
        missing = [str(name) for name in error.validator_value if name not in error.instance]
        return f"The argument {'.'.join([*path, *missing[:1]])} is missing."
    what = f"The argument {'.'.join(path)} is" if path else "The arguments are"
    return f"{what} wrong: {error.message[:_LONGEST]}."


MOST_PARAMETERS = 100
LONGEST_DOC = 4_000
_LONGEST_ABOUT = 500
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "None",
}
_MOST_CHOICES = 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_NAME = 60


class Parameter(NamedTuple):
    name: str
    wire: str
    annotation: str
    required: bool
    default: Any = None


class ToolSignature(NamedTuple):
    name: str
    wire: str
    parameters: tuple[Parameter, ...]
    open: bool
    doc: str
    summary: str
    read_only: bool

    @property
    def written(self) -> str:
        """As in code: ``(query: str, *, page: int = 1)``."""
        required = [each for each in self.parameters if each.required]
        optional = [each for each in self.parameters if not each.required]
        parts = [f"{each.name}: {each.annotation}" for each in required]
        if optional:
            parts.append("*")
        for each in optional:
            default = "..." if each.default is None else repr(each.default)
            parts.append(f"{each.name}: {each.annotation} = {default}")
        if self.open:
            parts.append("**arguments")
        return f"({', '.join(parts)})"


def identifier(name: str, used: Container[str] = (), *, private: str = "tool") -> str:
    """Return an unused Python name. private: put before an underscore or a digit."""
    base = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]
    if not base.strip("_") or base[0] in "_0123456789":
        base = f"{private}_{base.lstrip('_')}".rstrip("_")
    if keyword.iskeyword(base):
        base += "_"
    found, number = base, 1
    while found in used:
        number += 1
        found = f"{base}_{number}"
    return found


def with_required(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return schema
    names = [name for name in required[: MOST_PARAMETERS + 1] if isinstance(name, str)]
    missing: dict[str, Any] = {name: {} for name in names if name not in properties}
    return {**schema, "properties": {**properties, **missing}} if missing else schema


def build_signature(
    wire: str, schema: Any, description: str, *, read_only: bool, name: str
) -> ToolSignature:
    schema = schema if isinstance(schema, Mapping) else {}
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    closed = others is False or (
        isinstance(properties, Mapping) and not others and not schema.keys() & _OPEN_KEYWORDS
    )
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    required = set(map(str, required)) if isinstance(required, list) else set()
    if len(properties) > MOST_PARAMETERS:
        properties, closed = {}, False
    names: dict[str, Parameter] = {}
    lines = []
    for each, about in properties.items():
        about = about if isinstance(about, Mapping) else {}
        parameter = identifier(str(each), names, private="argument")
        default = about.get("default")
        default = default if _is_plain(default) else None
        names[parameter] = Parameter(
            parameter, str(each), _annotation(about), each in required, default
        )
        if documentation := _about(about):
            lines.append(f"{parameter}: {documentation}")
    parameters = tuple(sorted(names.values(), key=lambda each: not each.required))
    words = description.strip() or f"The tool {wire} has no description."
    doc = "\n".join([words[:LONGEST_DOC], "", *lines])[: 2 * LONGEST_DOC].rstrip()
    return ToolSignature(
        name, wire, parameters, not closed, doc, words.partition("\n")[0][:200], read_only
    )


def _annotation(about: Mapping[str, Any]) -> str:
    kind = about.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = [_TYPES[each] for each in kinds if isinstance(each, str) and each in _TYPES]
    items = about.get("items")
    inner = items.get("type") if isinstance(items, Mapping) else None
    if found == ["list"] and isinstance(inner, str) and inner in _TYPES:
        return f"list[{_TYPES[inner]}]"
    return " | ".join(dict.fromkeys(found)) or "object"


def _about(about: Mapping[str, Any]) -> str:
    description = about.get("description")
    words = " ".join(description.split())[:_LONGEST_ABOUT] if isinstance(description, str) else ""
    choices = about.get("enum")
    if isinstance(choices, list) and choices:
        listed = ", ".join(repr(each)[:100] for each in choices[:_MOST_CHOICES])
        words = f"{words} One of {listed}{', …' if len(choices) > _MOST_CHOICES else ''}.".strip()
    return words


def _is_plain(default: Any) -> bool:
    if isinstance(default, str):
        return len(default) <= 100
    return isinstance(default, bool | int | float) and -(2**63) < default < 2**63


LONGEST_ERROR = 4_000
MOST_OUTSIDE_TEXTS = 2 * 1024 * 1024
"""Bytes of JSON outside its strings; more would keep other threads waiting."""


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
    others = [_part(block) for block in result.content if block.type != "text"]
    # The text of a structured result may itself be JSON.
    first = _text(value) if isinstance(value, str) else {"kind": "json", "value": value}
    return [first, *others]


def error_text(content: Sequence[ContentBlock]) -> str:
    """Return the text of an error, shortened."""
    text = "\n".join(map(_block_text, content)).strip()
    if len(text) <= LONGEST_ERROR:
        return text
    return f"{text[:LONGEST_ERROR]}… ({len(text):,} characters)"


def _block_text(block: ContentBlock) -> str:
    """Return the text of a block, or of the resource embedded in it; empty if it has none."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return str(getattr(block.resource, "text", ""))
    return ""


def _part(block: ContentBlock) -> dict[str, Any]:
    match block.type:
        case "text":
            return _text(block.text)
        case "image":
            return {"kind": "picture", "mime": block.mime_type, "data": block.data}
        case "audio":
            return {"kind": "bytes", "data": block.data}
        case "resource":
            if (text := getattr(block.resource, "text", None)) is not None:
                return {"kind": "text", "text": text}
            return {"kind": "bytes", "data": getattr(block.resource, "blob", "")}
        case "resource_link":
            link = {"uri": str(block.uri), "name": block.name, "mime": block.mime_type}
            return {"kind": "json", "value": link}


def _text(text: str) -> dict[str, Any]:
    if text[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]"):
        try:
            check_bare(text.encode(errors="replace"), MOST_OUTSIDE_TEXTS)
            return {"kind": "json", "value": json.loads(text)}
        except (ValueError, RecursionError):
            pass
    return {"kind": "text", "text": text}
