"""Checks arguments against a tool's JSON schema, which a hostile server may have written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

import regex
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import UnknownType, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

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


class _NoCheck(Exception):
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
            _NoCheck,
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
                raise _NoCheck
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
            raise _NoCheck from None
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
