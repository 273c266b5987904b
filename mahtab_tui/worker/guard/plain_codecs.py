"""Turns objects of the standard library into plain data, and back.

`plain_pickle` transfers values from an untrusted process in this way, and `fingerprints` compares
them: builtins as they are, and other objects as the parts that their `Codec` returns.
`library_codecs` has the codecs of NumPy and pandas.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Union

if TYPE_CHECKING:
    _Time = Union[datetime.datetime, datetime.time]
    _TimeClass = type[_Time]

_DEFAULT_FACTORIES = {cls.__name__: cls for cls in (int, float, str, bool, list, dict, set, tuple)}
"""What a defaultdict may call for a missing key, by name. Other functions are not plain data."""
_NO_FACTORY = ""
"""Stands for the name of the factory of a defaultdict that has none."""


class NotTransferableError(Exception):
    """A value has something in it that is not plain data. The message names its type."""


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
    """Whether two references to one object must stay references to one object."""


def _encode_as_text(value: object) -> tuple[str]:
    return (str(value),)


# Numbers


def _encode_complex(value: complex) -> tuple[float, float]:
    return value.real, value.imag


def _encode_range(value: range) -> tuple[int, int, int]:
    return value.start, value.stop, value.step


def _encode_fraction(value: fractions.Fraction) -> tuple[int, int]:
    return value.numerator, value.denominator


def _decode_fraction(numerator: Any, denominator: Any) -> fractions.Fraction:
    return fractions.Fraction(int(numerator), int(denominator))


# Dicts


def _encode_counter(counter: collections.Counter[object]) -> tuple[dict[Any, int]]:
    return (dict(counter),)


def _decode_counter(counts: Any) -> collections.Counter[object]:
    return collections.Counter(dict(counts))


def _encode_defaultdict(
    values: collections.defaultdict[Any, Any],
) -> tuple[str, dict[Any, Any]] | None:
    if values.default_factory is None:
        return _NO_FACTORY, dict(values)
    for name, factory in _DEFAULT_FACTORIES.items():
        if values.default_factory is factory:
            return name, dict(values)
    return None


def _decode_defaultdict(factory_name: str, values: Any) -> collections.defaultdict[object, object]:
    return collections.defaultdict(_DEFAULT_FACTORIES.get(factory_name), values)


# Dates and times


def _encode_date(date: datetime.date) -> tuple[str]:
    return (date.isoformat(),)


def _encode_time(time: _Time) -> tuple[str, datetime.tzinfo | None, int]:
    """Return the parts of a time with or without a date.

    The zone has a codec of its own. ISO's text has neither the name of a zone, nor `fold`, which
    tells the two hours apart that a clock shows twice when summer time ends.
    """
    return time.replace(tzinfo=None).isoformat(), time.tzinfo, time.fold


def _decode_time(cls: _TimeClass, text: str, zone: Any, fold: int) -> _Time:
    return cls.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _encode_timedelta(duration: datetime.timedelta) -> tuple[int, int, int]:
    return duration.days, duration.seconds, duration.microseconds


def _encode_timezone(zone: Any) -> tuple[object, ...]:
    # The offset, and the name if the zone has one of its own.
    arguments: tuple[object, ...] = zone.__getinitargs__()
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
"""Codecs by the class that they are for. An object of a derived class has none, because the class
may be the user's."""
