"""How objects of the standard library become plain data, and plain data the objects."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
from functools import partial
from typing import Any, Callable, NamedTuple

_FACTORIES = {cls.__name__: cls for cls in (int, float, str, bool, list, dict, set, tuple)}
"""What a defaultdict may call for a missing key, by name."""


class NotTransferableError(Exception):
    """The message names a type that is not plain data."""


class Codec(NamedTuple):
    """Turns objects of one class into plain data and back."""

    name: str
    """The name by which the receiver finds the codec."""
    encode: Callable[[Any], tuple[object, ...] | None]
    """Return the parts of an object: builtins, or objects that have a codec. None if it cannot be
    recreated. May raise `NotTransferableError`, or what the code of the user's classes raises."""
    decode: Callable[..., Any]
    """Return the object, whose parts are the arguments. May raise anything, and take any time and
    memory, for parts that `encode` does not return. Runs no code that the parts name."""
    is_mutable: bool = False
    """Whether two references to one object must stay that."""


def _encode_complex(value: complex) -> tuple[float, float]:
    return value.real, value.imag


def _encode_range(value: range) -> tuple[int, int, int]:
    return value.start, value.stop, value.step


def _encode_as_text(value: object) -> tuple[str]:
    return (str(value),)


def _encode_fraction(value: fractions.Fraction) -> tuple[int, int]:
    return value.numerator, value.denominator


def _decode_fraction(numerator: Any, denominator: Any) -> fractions.Fraction:
    return fractions.Fraction(int(numerator), int(denominator))


def _encode_counter(value: collections.Counter[object]) -> tuple[dict[Any, int]]:
    return (dict(value),)


def _decode_counter(counts: Any) -> collections.Counter[object]:
    return collections.Counter(dict(counts))


def _encode_defaultdict(value: Any) -> tuple[str, dict[Any, Any]] | None:
    if value.default_factory is None:
        return "", dict(value)
    for name, factory in _FACTORIES.items():
        if value.default_factory is factory:
            return name, dict(value)
    return None


def _decode_defaultdict(factory_name: str, values: Any) -> collections.defaultdict[object, object]:
    return collections.defaultdict(_FACTORIES.get(factory_name), values)


def _encode_date(value: datetime.date) -> tuple[str]:
    return (value.isoformat(),)


def _encode_time(value: Any) -> tuple[str, object, int]:
    return value.replace(tzinfo=None).isoformat(), value.tzinfo, value.fold


def _decode_time(cls: Any, text: str, zone: Any, fold: int) -> object:
    return cls.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _encode_timedelta(value: datetime.timedelta) -> tuple[int, int, int]:
    return value.days, value.seconds, value.microseconds


def _encode_timezone(value: Any) -> tuple[object, ...]:
    # The offset, and the name if it has one of its own.
    arguments: tuple[object, ...] = value.__getinitargs__()
    return arguments


STANDARD_CODECS: dict[type, Codec] = {
    complex: Codec("complex", _encode_complex, complex),
    range: Codec("range", _encode_range, range),
    decimal.Decimal: Codec("Decimal", _encode_as_text, decimal.Decimal),
    fractions.Fraction: Codec("Fraction", _encode_fraction, _decode_fraction),
    collections.Counter: Codec("Counter", _encode_counter, _decode_counter, is_mutable=True),
    collections.defaultdict: Codec(
        "defaultdict", _encode_defaultdict, _decode_defaultdict, is_mutable=True
    ),
    datetime.date: Codec("date", _encode_date, datetime.date.fromisoformat),
    datetime.datetime: Codec("datetime", _encode_time, partial(_decode_time, datetime.datetime)),
    datetime.time: Codec("time", _encode_time, partial(_decode_time, datetime.time)),
    datetime.timedelta: Codec("timedelta", _encode_timedelta, datetime.timedelta),
    datetime.timezone: Codec("timezone", _encode_timezone, datetime.timezone),
    type(pathlib.Path()): Codec("Path", _encode_as_text, pathlib.Path),
}
