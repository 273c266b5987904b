"""Checks arguments against a tool's JSON schema, which a hostile server may have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import regex
from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

_PATIENCE = 0.2
"""Seconds for a pattern."""
_LONGEST = 300
_MOST = 20_000
"""Values in a schema. A larger one is not checked here, but by the server."""


class ArgumentsError(Exception):
    """The arguments do not fit; the message is a sentence that names the argument."""


class _ThisTakesTooLong(Exception):
    """The schema cannot be checked in reasonable time."""


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and isinstance(pattern, str) and not _matches(pattern, instance):
        yield ValidationError(f"does not match {pattern[:_LONGEST]!r}")


def _matches(pattern: str, text: str) -> bool:
    try:
        return regex.search(pattern, text, timeout=_PATIENCE, concurrent=True) is not None
    except TimeoutError:
        raise _ThisTakesTooLong from None
    except regex.error:  # it is of another language; the server checks it
        return True


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, Mapping) and isinstance(patterns, Mapping):
        for pattern, inside in patterns.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, inside, path=name)


_Validator = validators.extend(Draft202012Validator, {"pattern": _pattern, "patternProperties": _pattern_properties})


def check(arguments: Mapping[str, Any], schema: Any) -> None:
    """Check the arguments. Raises `ArgumentsError`. What the schema leaves unclear is left to the server."""
    if not isinstance(schema, Mapping) or _size(schema) > _MOST:
        return
    try:
        error = best_match(_limited(_Validator(schema, registry=Registry()).iter_errors(dict(arguments))))
    except (_ThisTakesTooLong, RecursionError, SchemaError, Unresolvable, TypeError, ValueError, AttributeError, KeyError):
        return  # no proper schema, or one that refers to others
    if error is not None:
        raise ArgumentsError(_sentence(error))


def _limited(errors: Iterator[ValidationError]) -> Iterator[ValidationError]:
    for _, error in zip(range(20), errors, strict=False):
        yield error


def _size(schema: Any) -> int:
    """Count the values of a schema, up to the limit."""
    count, left = 0, [schema]
    while left and count <= _MOST:
        each = left.pop()
        count += 1
        left.extend(each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else ())
    return count


def _sentence(error: ValidationError) -> str:
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required" and isinstance(error.instance, Mapping) and isinstance(error.validator_value, list):
        missing = [str(name) for name in error.validator_value if name not in error.instance]
        return f"The argument {'.'.join([*path, *missing[:1]])} is missing."
    words = error.message[:_LONGEST]
    return f"The argument {'.'.join(path)} is wrong: {words}." if path else f"The arguments are wrong: {words}."
