"""Arguments and results of tools by their JSON schema, which a hostile server may have written."""

from __future__ import annotations

import json
import keyword
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import regex
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import UnknownType, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from mahtab_tui.worker.frames import check_bare

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_PATIENCE = 0.2
"""Seconds for all patterns of a call."""
_LONGEST = 300
_MOST_ERRORS = 20
_MOST_STEPS = 20_000
"""Keywords that are looked at for one call."""
_SLOW = frozenset({"uniqueItems"})
"""Keywords that take a time that grows with the square of the value's size; the server checks
them."""
_TYPE_CHECKER = Draft202012Validator.TYPE_CHECKER
_MOST = 20_000
"""Values in a schema. A larger one is not checked here, but by the server."""

_Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class ArgumentsError(Exception):
    """The arguments do not fit; the message is a sentence that names the argument."""


class _CheckAbandoned(Exception):
    """The schema is not proper, or checking takes too long: it is left to the server."""


class ArgumentChecker:
    """Checks with a limited number of steps, because a schema may branch without end. One thread at
    a time may use it."""

    def __init__(self) -> None:
        self._left = 0
        """Steps that are left."""
        self._seconds = 0.0
        """Time that is left for patterns."""
        ours = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "exclusiveMinimum": _exclusive("minimum"),
            "exclusiveMaximum": _exclusive("maximum"),
            "type": _type,
        }
        theirs = {
            name: check
            for name, check in Draft202012Validator.VALIDATORS.items()
            if name not in _SLOW
        }
        self._validator = validators.create(
            Draft202012Validator.META_SCHEMA,
            {name: self._counted(check) for name, check in {**theirs, **ours}.items()},
            type_checker=_TYPE_CHECKER,
        )

    def check(self, arguments: Mapping[str, Any], schema: Any) -> None:
        """Check the arguments. Raises `ArgumentsError`. What the schema leaves unclear is left to
        the server."""
        if not isinstance(schema, Mapping) or _size(schema) > _MOST:
            return
        self._left, self._seconds = _MOST_STEPS, _PATIENCE
        try:
            schema = _without_dialects(schema)
            error = best_match(
                islice(
                    self._validator(schema, registry=Registry()).iter_errors(dict(arguments)),
                    _MOST_ERRORS,
                )
            )
        except (
            _CheckAbandoned,
            UnknownType,
            Unresolvable,
            RecursionError,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
        ):
            return
        if error is not None:
            raise ArgumentsError(_sentence(error))

    def _counted(self, check: _Check) -> _Check:
        def counted(
            validator: Any, value: Any, instance: Any, schema: Any
        ) -> Iterator[ValidationError]:
            self._left -= 1
            if self._left < 0:
                raise _CheckAbandoned
            yield from check(validator, value, instance, schema) or ()

        return counted

    def _pattern(
        self, validator: Any, pattern: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if (
            isinstance(instance, str)
            and isinstance(pattern, str)
            and not self._matches(pattern, instance)
        ):
            yield ValidationError(f"does not match {pattern[:_LONGEST]!r}")

    def _pattern_properties(
        self, validator: Any, patterns: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, Mapping) and isinstance(patterns, Mapping):
            for pattern, inside in patterns.items():
                for name, value in instance.items():
                    if self._matches(pattern, name):
                        yield from validator.descend(value, inside, path=name)

    def _matches(self, pattern: str, text: str) -> bool:
        began = time.monotonic()
        try:
            return (
                regex.search(pattern, text, timeout=max(0.001, self._seconds), concurrent=True)
                is not None
            )
        except (TimeoutError, regex.error):  # it takes too long, or is of another language
            raise _CheckAbandoned from None
        finally:
            self._seconds -= time.monotonic() - began


def _without_dialects(schema: Any) -> Any:
    """Drop each ``$schema``, which would make the library use a validator of its own, without our
    limits."""
    if isinstance(schema, Mapping):
        return {
            name: _without_dialects(each)
            for name, each in schema.items()
            if name != "$schema" or not isinstance(each, str)
        }
    return [_without_dialects(each) for each in schema] if isinstance(schema, list) else schema


def _exclusive(limit: Literal["minimum", "maximum"]) -> _Check:
    """Make the check of an exclusive limit: a number, or before draft 6 a mark at the inclusive
    one."""
    exclusive = Draft202012Validator.VALIDATORS[f"exclusive{limit.title()}"]

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(value, bool):
            yield from exclusive(validator, value, instance, schema) or ()
        elif value and limit in schema:
            yield from exclusive(validator, schema[limit], instance, schema) or ()

    return check


def _type(validator: Any, types: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if instance is not None or schema.get("nullable") is not True:  # OpenAPI's word for "or null"
        yield from Draft202012Validator.VALIDATORS["type"](validator, types, instance, schema) or ()


def _size(schema: Any) -> int:
    """Count the values of a schema, up to the limit."""
    count, left = 0, [schema]
    while left and count <= _MOST:
        each = left.pop()
        count += 1
        left.extend(
            each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else ()
        )
    return count


def _sentence(error: ValidationError) -> str:
    path = [str(part) for part in error.absolute_path]
    if (
        error.validator == "required"
        and isinstance(error.instance, Mapping)
        and isinstance(error.validator_value, list)
    ):
        missing = [str(name) for name in error.validator_value if name not in error.instance]
        return f"The argument {'.'.join([*path, *missing[:1]])} is missing."
    words = error.message[:_LONGEST]
    return (
        f"The argument {'.'.join(path)} is wrong: {words}."
        if path
        else f"The arguments are wrong: {words}."
    )


MOST_PARAMETERS = 100
"""A tool with more takes them by ``**``."""
LONGEST_DOC = 4_000
_LONGEST_ABOUT = 500
_ELSEWHERE = frozenset(
    {"$ref", "allOf", "anyOf", "dependentSchemas", "if", "oneOf", "patternProperties"}
)
"""Keywords that may describe more arguments than the properties do."""
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
    """A parameter of a function."""

    name: str
    """A Python name."""
    wire: str
    """The argument's name for the server."""
    annotation: str
    required: bool
    default: Any = None
    """A number, text or boolean from the schema; None if there is none."""


class ToolSignature(NamedTuple):
    """A tool as a function."""

    name: str
    """A Python name, unique in its server."""
    wire: str
    """The tool's name for the server."""
    parameters: tuple[Parameter, ...]
    open: bool
    """Whether it takes other arguments, by name."""
    doc: str
    summary: str
    """The first line of the description."""
    read_only: bool
    """Whether the server says that it changes nothing."""

    @property
    def written(self) -> str:
        """The signature as in code: ``(query: str, *, page: int = 1)``."""
        parts = [f"{each.name}: {each.annotation}" for each in self.parameters if each.required]
        others = [
            f"{each.name}: {each.annotation} = {'...' if each.default is None else repr(each.default)}"
            for each in self.parameters
            if not each.required
        ]
        return f"({', '.join([*parts, *(['*', *others] if others else []), *(['**arguments'] if self.open else [])])})"


def identifier(name: str, used: Container[str] = (), *, private: str = "tool") -> str:
    """Return a valid name that is not taken. private: put before a name that begins with an
    underscore or a digit."""
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
    """Add the properties that a schema requires and does not describe, so that they can be
    given."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return schema
    missing = [
        name
        for name in required[: MOST_PARAMETERS + 1]
        if isinstance(name, str) and name not in properties
    ]
    return (
        {**schema, "properties": {**properties, **{name: {} for name in missing}}}
        if missing
        else schema
    )


def build_signature(
    wire: str, schema: Any, description: str, *, read_only: bool, name: str
) -> ToolSignature:
    """Describe a tool. name: its Python name."""
    schema = schema if isinstance(schema, Mapping) else {}
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    closed = others is False or (
        isinstance(properties, Mapping) and not others and not schema.keys() & _ELSEWHERE
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
    parameters = (
        *(each for each in names.values() if each.required),
        *(each for each in names.values() if not each.required),
    )
    words = description.strip() or f"The tool {wire} has no description."
    doc = "\n".join([words[:LONGEST_DOC], "", *lines])[: 2 * LONGEST_DOC].rstrip()
    return ToolSignature(
        name, wire, parameters, not closed, doc, words.partition("\n")[0][:200], read_only
    )


def _annotation(about: Mapping[str, Any]) -> str:
    kind = about.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = [_TYPES[each] for each in kinds if isinstance(each, str) and each in _TYPES]
    if (
        found == ["list"]
        and isinstance(items := about.get("items"), Mapping)
        and isinstance(of := items.get("type"), str)
        and of in _TYPES
    ):
        return f"list[{_TYPES[of]}]"
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
    """Whether a default can be written in a signature."""
    if isinstance(default, str):
        return len(default) <= 100
    return isinstance(default, bool | int | float) and -(2**63) < default < 2**63


LONGEST_ERROR = 4_000
MOST_OUTSIDE_TEXTS = 2 * 1024 * 1024
"""Bytes of JSON outside its strings. Reading more would keep all other threads waiting for
seconds."""


def result_parts(result: CallToolResult, output_schema: Any) -> list[dict[str, Any]]:
    """Return the parts of a result: text, JSON, pictures, and other data as base64."""
    if result.structured_content is not None:
        value: Any = result.structured_content
        if isinstance(value, Mapping) and set(value) == {"result"} and _wraps(output_schema):
            value = value["result"]
        others = [
            part for block in result.content if block.type != "text" for part in _parts(block)
        ]
        return [{"kind": "json", "value": value}, *others]
    return [part for block in result.content for part in _parts(block)]


def error_text(content: Sequence[ContentBlock]) -> str:
    text = "\n".join(block.text for block in content if block.type == "text").strip()
    return (
        text
        if len(text) <= LONGEST_ERROR
        else f"{text[:LONGEST_ERROR]}… ({len(text):,} characters)"
    )


def _wraps(schema: Any) -> bool:
    """Whether a server has put a value into an object, since structured content must be one: with
    the only property ``result``."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and set(properties) == {"result"}


def _parts(block: ContentBlock) -> list[dict[str, Any]]:
    match block.type:
        case "text":
            return [_text(block.text)]
        case "image":
            return [{"kind": "picture", "mime": block.mime_type, "data": block.data}]
        case "audio":
            return [{"kind": "bytes", "mime": block.mime_type, "data": block.data, "uri": ""}]
        case "resource":
            resource = block.resource
            if (text := getattr(resource, "text", None)) is not None:
                return [{"kind": "text", "text": text}]
            return [
                {
                    "kind": "bytes",
                    "mime": resource.mime_type or "",
                    "data": getattr(resource, "blob", ""),
                    "uri": str(resource.uri),
                }
            ]
        case "resource_link":
            return [
                {
                    "kind": "json",
                    "value": {"uri": str(block.uri), "name": block.name, "mime": block.mime_type},
                }
            ]


def _text(text: str) -> dict[str, Any]:
    """Return JSON as a value, and other text as it is."""
    if text[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]"):
        try:
            check_bare(text.encode(errors="replace"), MOST_OUTSIDE_TEXTS)
            return {"kind": "json", "value": json.loads(text)}
        except (ValueError, RecursionError):
            pass
    return {"kind": "text", "text": text}
