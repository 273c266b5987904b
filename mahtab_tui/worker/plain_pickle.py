"""Transfers plain data from an untrusted process. A pickle names no class and no function: any
object but a builtin is a persistent id, a tuple from which a function below recreates it."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import re
import sys
import uuid
from typing import Any, Callable, NoReturn, Optional

_PLAIN = frozenset(
    (int, float, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None))
)
_DATES = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)
_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
_FACTORIES = {each.__name__: each for each in (int, float, str, bool, list, dict, set, tuple)}
_DTYPE = re.compile(r"[A-Za-z0-9]+(?:\[[A-Za-z0-9_ :/+\-]*(?:, [A-Za-z0-9_/+\-:]+)?\])?")

Encode = Callable[[Any], Optional[tuple]]  # type: ignore[type-arg]


class NotPlainError(Exception):
    """The message names a type that is not plain data."""


def dump(value: Any) -> bytes:
    into = io.BytesIO()
    try:
        _Pickler(into, 5).dump(value)
    except RecursionError:
        raise NotPlainError("a value that is too deep") from None
    return into.getvalue()


def load(data: bytes) -> Any:
    """Load plain data. May raise any exception for data that `dump` does not write."""
    return _Unpickler(io.BytesIO(data)).load()


def type_name(value: Any) -> str:
    return str(type.__dict__["__name__"].__get__(type(value)))


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return None
        encode = _ENCODE.get(kind) or _of_library(kind)
        if encode is None or (encoded := encode(value)) is None:
            raise NotPlainError(type_name(value))
        return encoded


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")

    def persistent_load(self, encoded: Any) -> Any:
        kind, *values = encoded
        return _DECODE[kind](*values)


# Builtins and the standard library


def _encode_date(value: Any) -> tuple[Any, ...]:
    if type(value) is datetime.timedelta:
        return "timedelta", value.days, value.seconds, value.microseconds
    if type(value) is datetime.timezone:
        return "timezone", value.utcoffset(None), value.tzname(None)
    parts: list[int] = []
    if type(value) is not datetime.time:
        parts += value.year, value.month, value.day
    if type(value) is datetime.date:
        return "date", *parts
    parts += value.hour, value.minute, value.second, value.microsecond
    return type(value).__name__, *parts, value.tzinfo, value.fold


def _encode_default(value: Any) -> tuple[Any, ...] | None:
    factory = value.default_factory
    name = next((name for name, known in _FACTORIES.items() if known is factory), "")
    return ("defaultdict", name, dict(value)) if name or factory is None else None


_ENCODE: dict[type, Encode] = {
    complex: lambda value: ("complex", value.real, value.imag),
    range: lambda value: ("range", value.start, value.stop, value.step),
    slice: lambda value: ("slice", value.start, value.stop, value.step),
    decimal.Decimal: lambda value: ("Decimal", str(value)),
    fractions.Fraction: lambda value: ("Fraction", value.numerator, value.denominator),
    uuid.UUID: lambda value: ("UUID", value.int),
    collections.OrderedDict: lambda value: ("OrderedDict", list(value.items())),
    collections.Counter: lambda value: ("Counter", dict(value)),
    collections.defaultdict: _encode_default,
    collections.deque: lambda value: ("deque", list(value), value.maxlen),
    **dict.fromkeys(_DATES, _encode_date),
    **{kind: lambda value: ("path", type(value).__name__, str(value)) for kind in _PATHS},
}
_DECODE: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "range": range,
    "slice": slice,
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
    "UUID": lambda number: uuid.UUID(int=number),
    "OrderedDict": collections.OrderedDict,
    "Counter": lambda counts: collections.Counter(dict(counts)),
    "defaultdict": lambda name, values: collections.defaultdict(
        _FACTORIES[name] if name else None, values
    ),
    "deque": collections.deque,
    "path": lambda name, text: {kind.__name__: kind for kind in _PATHS}[name](text),
    "date": datetime.date,
    "datetime": lambda *values: datetime.datetime(*values[:-1], fold=values[-1]),
    "time": lambda *values: datetime.time(*values[:-1], fold=values[-1]),
    "timedelta": datetime.timedelta,
    "timezone": datetime.timezone,
    "zone": lambda key: _library("zoneinfo").ZoneInfo(key),
}


# NumPy and pandas, if the fork has loaded them


def _of_library(kind: type) -> Encode | None:
    for module, encoders in _LIBRARIES.items():
        library = sys.modules.get(module)
        for name, encode in encoders.items() if library is not None else ():
            if getattr(library, name, None) is kind:
                return encode
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
        return _encode_scalar
    return None


def _library(name: str) -> Any:
    from .stdlib import late_import

    return late_import(name)


def _encode_scalar(value: Any) -> tuple[Any, ...] | None:
    return None if value.dtype.hasobject else ("scalar", _description(value.dtype), value.tobytes())


def _encode_array(value: Any) -> tuple[Any, ...] | None:
    dtype = value.dtype
    if dtype.kind == "O":
        return "objects", value.shape, value.ravel().tolist()
    if dtype.hasobject or dtype.kind == "T":
        return None
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return "array", _description(dtype), value.shape, order, value.tobytes(order)


def _description(dtype: Any) -> Any:
    return dtype.str if dtype.names is None else dtype.descr


def _dtype(description: Any) -> Any:
    dtype = _library("numpy").dtype(description)
    if dtype.hasobject:
        raise pickle.UnpicklingError("addresses are not plain data")
    return dtype


def _array(description: Any, shape: tuple[int, ...], order: str, data: bytes) -> Any:
    values = _library("numpy").frombuffer(bytearray(data), _dtype(description))
    return values.reshape(shape, order=order)


def _objects(shape: tuple[int, ...], values: list[Any]) -> Any:
    array = _library("numpy").empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def _timestamp(value: int, unit: str, zone: Any) -> Any:
    pandas = _library("pandas")
    made = pandas.Timestamp(_library("numpy").datetime64(value, unit))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def _encode_column(values: Any) -> tuple[Any, ...] | None:
    dtype, pandas = values.dtype, sys.modules["pandas"]
    if type(dtype).__module__.partition(".")[0] == "numpy":
        return "numpy", values.to_numpy()
    array = values.array
    if type(dtype) is pandas.CategoricalDtype:
        return "categories", array.codes, dtype.categories, dtype.ordered
    if type(dtype) is pandas.DatetimeTZDtype:
        return "datetimes", array.tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz
    if type(dtype) is pandas.StringDtype:
        texts = [None if text is dtype.na_value else text for text in array.tolist()]
        return "strings", dtype.storage, dtype.na_value is pandas.NA, texts
    if type(dtype) in (pandas.ArrowDtype, pandas.SparseDtype) or not _DTYPE.fullmatch(str(dtype)):
        raise NotPlainError(f"{type_name(values)} of {dtype}")
    return "values", str(dtype), array.tolist()


def _column(kind: str, *parts: Any) -> Any:
    pandas = _library("pandas")
    if kind == "numpy":
        return parts[0]
    if kind == "categories":
        return pandas.Categorical.from_codes(*parts)
    if kind == "datetimes":
        return pandas.DatetimeIndex(parts[0]).tz_localize("UTC").tz_convert(parts[1]).array
    if kind == "strings":
        storage, has_na, texts = parts
        missing = pandas.NA if has_na else float("nan")
        return pandas.array(texts, dtype=pandas.StringDtype(storage, na_value=missing))
    name, values = parts
    if not _DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"{name} is no type of a column")
    return pandas.array(values, dtype=name)


def _index(column: tuple[Any, ...], name: Any, frequency: str | None) -> Any:
    pandas = _library("pandas")
    index = pandas.Index(_column(*column), name=name, copy=False)
    if frequency and isinstance(index, (pandas.DatetimeIndex, pandas.TimedeltaIndex)):
        index.freq = frequency
    return index


def _encode_levels(value: Any) -> tuple[Any, ...]:
    codes = list(map(sys.modules["numpy"].asarray, value.codes))
    return "MultiIndex", list(value.levels), codes, list(value.names)


def _encode_series(value: Any) -> tuple[Any, ...]:
    return "Series", _encode_column(value), value.index, value.name, dict(value.attrs)


def _series(column: tuple[Any, ...], index: Any, name: Any, attrs: dict[Any, Any]) -> Any:
    made = _library("pandas").Series(_column(*column), index=index, name=name, copy=False)
    made.attrs.update(attrs)
    return made


def _encode_table(value: Any) -> tuple[Any, ...]:
    columns = [_encode_column(value.iloc[:, column]) for column in range(value.shape[1])]
    return "DataFrame", columns, value.columns, value.index, dict(value.attrs)


def _table(columns: list[Any], names: Any, index: Any, attrs: dict[Any, Any]) -> Any:
    values = {position: _column(*column) for position, column in enumerate(columns)}
    made = _library("pandas").DataFrame(values, index=index)
    made.columns = names
    made.attrs.update(attrs)
    return made


_INDEXES = "Index RangeIndex CategoricalIndex IntervalIndex DatetimeIndex TimedeltaIndex PeriodIndex".split()
_LIBRARIES: dict[str, dict[str, Encode]] = {
    "zoneinfo": {"ZoneInfo": lambda value: None if value.key is None else ("zone", value.key)},
    "numpy": {"ndarray": _encode_array},
    "pandas": {
        "DataFrame": _encode_table,
        "Series": _encode_series,
        "MultiIndex": _encode_levels,
        **dict.fromkeys(
            _INDEXES,
            lambda value: (
                "Index",
                _encode_column(value),
                value.name,
                getattr(value, "freqstr", None),
            ),
        ),
        "RangeIndex": lambda value: ("RangeIndex", value.start, value.stop, value.step, value.name),
        "Timestamp": lambda value: ("Timestamp", value._value, value.unit, value.tzinfo),
        "Timedelta": lambda value: ("Timedelta", value._value, value.unit),
        "Period": lambda value: ("Period", value.ordinal, value.freqstr),
        "Interval": lambda value: ("Interval", value.left, value.right, value.closed),
    },
    "pandas._libs.tslibs.nattype": {"NaTType": lambda value: ("NaT",)},
    "pandas._libs.missing": {"NAType": lambda value: ("NA",)},
}
_DECODE.update(
    {
        "scalar": lambda description, data: _library("numpy").frombuffer(data, _dtype(description))[
            0
        ],
        "array": _array,
        "objects": _objects,
        "DataFrame": _table,
        "Series": _series,
        "Index": _index,
        "MultiIndex": lambda levels, codes, names: _library("pandas").MultiIndex(
            levels, codes, names=names
        ),
        "RangeIndex": lambda start, stop, step, name: _library("pandas").RangeIndex(
            start, stop, step, name=name
        ),
        "Timestamp": _timestamp,
        "Timedelta": lambda value, unit: _library("pandas").Timedelta(
            _library("numpy").timedelta64(value, unit)
        ),
        "Period": lambda ordinal, frequency: _library("pandas").Period(
            ordinal=ordinal, freq=frequency
        ),
        "Interval": lambda left, right, closed: _library("pandas").Interval(
            left, right, closed=closed
        ),
        "NaT": lambda: _library("pandas").NaT,
        "NA": lambda: _library("pandas").NA,
    }
)
