"""Describes a tool as a Python function, from its JSON schema, which a hostile server may have
written."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

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


def identifier(name: str, taken: Container[str] = (), *, private: str = "tool") -> str:
    """Return a valid name that is not taken. private: put before a name that begins with an
    underscore or a digit."""
    base = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]
    if not base.strip("_") or base[0] in "_0123456789":
        base = f"{private}_{base.lstrip('_')}".rstrip("_")
    if keyword.iskeyword(base):
        base += "_"
    found, number = base, 1
    while found in taken:
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


def signature_of(
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
        if said := _about(about):
            lines.append(f"{parameter}: {said}")
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
    said = about.get("description")
    words = " ".join(said.split())[:_LONGEST_ABOUT] if isinstance(said, str) else ""
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
