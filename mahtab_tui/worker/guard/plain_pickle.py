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
from functools import partial
from typing import Any, Callable, NoReturn, Optional

from ..stdlib import late_import
from ..values.objects import name_of

_PLAIN = frozenset(
    (int, float, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None))
)
_FACTORIES = {cls.__name__: cls for cls in (int, float, str, bool, list, dict, set, tuple)}
_DTYPE = re.compile(r"[A-Za-z0-9]+(?:\[[A-Za-z0-9_ :/+\-]*(?:, [A-Za-z0-9_/+\-:]+)?\])?")
"""Names of pandas' own column types."""

MAX_OBJECTS = 5_000_000
"""Objects in all values together."""
MAX_BYTES = 2**30
"""Bytes of all values together."""

Encode = Callable[[Any], Optional[tuple]]  # type: ignore[type-arg]

_INDEXES = "Index CategoricalIndex IntervalIndex DatetimeIndex TimedeltaIndex PeriodIndex".split()


class NotTransferableError(Exception):
    """The message names a type that is not plain data."""


class TooLargeError(Exception):
    """The message says, as a clause, what there is too much of."""


class Dumper:
    """Dumps the values of one cell, and stops where all of them together are too large."""

    def __init__(self) -> None:
        self._remaining_objects = MAX_OBJECTS
        self._remaining_bytes = MAX_BYTES

    def dump(self, value: Any) -> bytes:
        """Return a value as bytes. Raises `NotTransferableError`, `TooLargeError`, or what the code of the
        user's classes raises."""
        pickled = io.BytesIO()
        try:
            _Pickler(pickled, self).dump(value)
        except RecursionError:
            raise NotTransferableError("a value that is too deep") from None
        except MemoryError:
            raise _too_many_bytes() from None
        self.count_bytes(pickled.tell())
        self._remaining_bytes -= pickled.tell()
        return pickled.getvalue()

    def count_object(self) -> None:
        """Raises `TooLargeError`."""
        self._remaining_objects -= 1
        if self._remaining_objects < 0:
            raise TooLargeError(f"makes more than {MAX_OBJECTS:,} objects")

    def count_bytes(self, size: int) -> None:
        """Raises `TooLargeError` if so many bytes cannot be dumped."""
        if size > self._remaining_bytes:
            raise _too_many_bytes()


def _too_many_bytes() -> TooLargeError:
    return TooLargeError(f"makes more than {MAX_BYTES // 2**30} GB of values")


def load(data: bytes) -> Any:
    """Load plain data. May raise any exception for data that `Dumper` does not write, and may take
    any time and memory."""
    return _Unpickler(io.BytesIO(data)).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, dumper: Dumper) -> None:
        super().__init__(file, 5)
        self._dumper = dumper

    def persistent_id(self, value: Any) -> Any:
        self._dumper.count_object()
        kind = type(value)
        if kind in _PLAIN:
            return None
        encode = _ENCODE.get(kind) or _of_library(kind)
        if encode is not None:
            # Encoding copies an array.
            self._dumper.count_bytes(getattr(value, "nbytes", 0))
        if encode is None or (encoded := encode(value)) is None:
            raise NotTransferableError(name_of(kind))
        return encoded


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")

    def persistent_load(self, encoded: Any) -> Any:
        kind, *values = encoded
        return _DECODE[kind](*values)


# The standard library


def _encode_time(value: Any) -> tuple[Any, ...]:
    text = value.replace(tzinfo=None).isoformat()
    return type(value).__name__, text, value.tzinfo, value.fold


def _decode_time(kind: Any, text: str, zone: Any, fold: int) -> Any:
    return kind.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _encode_default(value: Any) -> tuple[Any, ...] | None:
    factory = value.default_factory
    name = next(
        (name for name, known_factory in _FACTORIES.items() if known_factory is factory), ""
    )
    if name or factory is None:
        return ("defaultdict", name, dict(value))
    return None


_ENCODE: dict[type, Encode] = {
    complex: lambda value: ("complex", value.real, value.imag),
    range: lambda value: ("range", value.start, value.stop, value.step),
    decimal.Decimal: lambda value: ("Decimal", str(value)),
    fractions.Fraction: lambda value: ("Fraction", value.numerator, value.denominator),
    collections.Counter: lambda value: ("Counter", dict(value)),
    collections.defaultdict: _encode_default,
    datetime.date: lambda value: ("date", value.isoformat()),
    datetime.datetime: _encode_time,
    datetime.time: _encode_time,
    datetime.timedelta: lambda value: ("timedelta", value.days, value.seconds, value.microseconds),
    datetime.timezone: lambda value: ("timezone", value.utcoffset(None), value.tzname(None)),
    type(pathlib.Path()): lambda value: ("Path", str(value)),
}
_DECODE: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "range": range,
    "Decimal": decimal.Decimal,
    "Fraction": lambda above, below: fractions.Fraction(int(above), int(below)),
    "Counter": lambda counts: collections.Counter(dict(counts)),
    "defaultdict": lambda name, values: collections.defaultdict(_FACTORIES.get(name), values),
    "date": datetime.date.fromisoformat,
    "datetime": partial(_decode_time, datetime.datetime),
    "time": partial(_decode_time, datetime.time),
    "timedelta": datetime.timedelta,
    "timezone": datetime.timezone,
    "zone": lambda key: late_import("zoneinfo").ZoneInfo(key),
    "Path": pathlib.Path,
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
        return lambda value: None if value.dtype.hasobject else ("scalar", numpy.asarray(value))
    return None


def _numpy() -> Any:
    return late_import("numpy")


def _pandas() -> Any:
    return late_import("pandas")


def _encode_array(value: Any) -> tuple[Any, ...] | None:
    dtype = value.dtype
    if dtype.kind == "O":
        return "objects", value.shape, value.ravel().tolist()
    if dtype.hasobject or dtype.kind == "T":
        return None
    return "array", dtype.str if dtype.names is None else dtype.descr, value.shape, value.tobytes()


def _array(description: Any, shape: tuple[int, ...], data: bytes) -> Any:
    dtype = _numpy().dtype(description)
    if dtype.hasobject:
        raise pickle.UnpicklingError("addresses are not plain data")
    return _numpy().frombuffer(bytearray(data), dtype).reshape(shape)


def _objects(shape: tuple[int, ...], values: list[Any]) -> Any:
    array = _numpy().empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def _timestamp(value: int, unit: str, zone: Any) -> Any:
    timestamp = _pandas().Timestamp(_numpy().datetime64(value, unit))
    if zone is None:
        return timestamp
    return timestamp.tz_localize("UTC").tz_convert(zone)


def _encode_column(values: Any) -> tuple[Any, ...]:
    """Return the values of a column or an index: a NumPy array, or one of pandas' own kinds."""
    dtype = values.dtype
    pandas = sys.modules["pandas"]
    if type(dtype).__module__.partition(".")[0] == "numpy":
        return "numpy", values.to_numpy()
    array = values.array
    if type(dtype) is pandas.CategoricalDtype:
        return "categories", array.codes, dtype.categories, dtype.ordered
    if type(dtype) is pandas.DatetimeTZDtype:
        return "datetimes", array.tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz
    if type(dtype) in (pandas.ArrowDtype, pandas.SparseDtype) or not _DTYPE.fullmatch(str(dtype)):
        raise NotTransferableError(f"{name_of(type(values))} of {dtype}")
    return "values", str(dtype), array.tolist()


def _column(kind: str, *parts: Any) -> Any:
    pandas = _pandas()
    if kind == "numpy":
        return parts[0]
    if kind == "categories":
        return pandas.Categorical.from_codes(*parts)
    if kind == "datetimes":
        return pandas.DatetimeIndex(parts[0]).tz_localize("UTC").tz_convert(parts[1]).array
    name, values = parts
    if not _DTYPE.fullmatch(name):
        raise pickle.UnpicklingError(f"{name} is no type of a column")
    return pandas.array(values, dtype=name)


def _encode_index(value: Any) -> tuple[Any, ...]:
    return "Index", _encode_column(value), value.name, getattr(value, "freqstr", None)


def _index(column: tuple[Any, ...], name: Any, frequency: str | None) -> Any:
    index = _pandas().Index(_column(*column), name=name, copy=False)
    if frequency and isinstance(index, (_pandas().DatetimeIndex, _pandas().TimedeltaIndex)):
        index.freq = frequency
    return index


def _encode_levels(value: Any) -> tuple[Any, ...]:
    codes = list(map(sys.modules["numpy"].asarray, value.codes))
    return "MultiIndex", list(value.levels), codes, list(value.names)


def _encode_series(value: Any) -> tuple[Any, ...]:
    return "Series", _encode_column(value), value.index, value.name, dict(value.attrs)


def _series(column: tuple[Any, ...], index: Any, name: Any, attrs: dict[Any, Any]) -> Any:
    series = _pandas().Series(_column(*column), index=index, name=name, copy=False)
    series.attrs.update(attrs)
    return series


def _encode_table(value: Any) -> tuple[Any, ...]:
    columns = [_encode_column(value.iloc[:, column]) for column in range(value.shape[1])]
    return "DataFrame", columns, value.columns, value.index, dict(value.attrs)


def _table(columns: list[Any], names: Any, index: Any, attrs: dict[Any, Any]) -> Any:
    values = {position: _column(*column) for position, column in enumerate(columns)}
    table = _pandas().DataFrame(values, index=index)
    table.columns = names
    table.attrs.update(attrs)
    return table


_LIBRARIES: dict[str, dict[str, Encode]] = {
    "zoneinfo": {"ZoneInfo": lambda value: None if value.key is None else ("zone", value.key)},
    "numpy": {"ndarray": _encode_array},
    "pandas": {
        "DataFrame": _encode_table,
        "Series": _encode_series,
        "MultiIndex": _encode_levels,
        **dict.fromkeys(_INDEXES, _encode_index),
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
        "scalar": lambda array: array[()],
        "array": _array,
        "objects": _objects,
        "DataFrame": _table,
        "Series": _series,
        "Index": _index,
        "MultiIndex": lambda *parts: _pandas().MultiIndex(*parts[:2], names=parts[2]),
        "RangeIndex": lambda *parts: _pandas().RangeIndex(*parts[:3], name=parts[3]),
        "Timestamp": _timestamp,
        "Timedelta": lambda value, unit: _pandas().Timedelta(_numpy().timedelta64(value, unit)),
        "Period": lambda ordinal, freq: _pandas().Period(ordinal=ordinal, freq=freq),
        "Interval": lambda *parts: _pandas().Interval(*parts),
        "NaT": lambda: _pandas().NaT,
        "NA": lambda: _pandas().NA,
    }
)
