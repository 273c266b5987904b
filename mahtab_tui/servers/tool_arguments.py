"""Checks the arguments of a call by the tool's JSON schema, which may be hostile."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import UnknownType, best_match

_MAX_PROBLEM_CHARS = 300
_MAX_ERRORS = 20
"""Errors among which the most important is looked for."""
_MAX_STEPS = 5_000_000
"""Values of a schema times values of arguments; the server checks more."""
_PLAIN_KEYWORDS = (
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength"
    " minItems maxItems"
).split()


class ArgumentsError(Exception):
    """A tool was called with wrong arguments. The message is a sentence that names the argument."""


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
