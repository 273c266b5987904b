"""Turns objects of NumPy and pandas into plain data, and back.

Each codec is an `_encode_…` and a `_decode_…` function (`plain_codecs.Codec`); the table of them is
at the end. The one runs where the object is, so its library is in `sys.modules`. The other may run in
a kernel that has not imported the library yet.
"""

from __future__ import annotations

import pickle
import re
import sys
from typing import Any

from ..stdlib import late_import
from ..values.objects import name_of
from .plain_codecs import Codec, NotTransferableError

_PANDAS_DTYPE = re.compile(r"[A-Za-z0-9]+(?:\[[A-Za-z0-9_ :/+\-]*(?:, [A-Za-z0-9_/+\-:]+)?\])?")
"""Names of pandas' own column types, for example ``Int64``, ``period[M]`` and
``interval[int64, right]``. pandas parses them, so an untrusted process may send no others."""

_INDEX_CLASSES = (
    "Index",
    "CategoricalIndex",
    "IntervalIndex",
    "DatetimeIndex",
    "TimedeltaIndex",
    "PeriodIndex",
)
"""Classes that `pandas.Index` chooses by the values, so one codec serves all."""


def library_codec(cls: type) -> Codec | None:
    """Return the codec for a class of a library that is loaded; None if there is none."""
    for module_name, codecs in _CODECS.items():
        module = sys.modules.get(module_name)
        if module is None:
            continue
        # Not by the name of the class, which a class of the user's may have, too.
        for class_name, codec in codecs.items():
            if getattr(module, class_name, None) is cls:
                return codec
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, numpy.generic) and cls.__module__ == "numpy":
        return _SCALAR_CODEC
    return None


def all_library_codecs() -> list[Codec]:
    """Return the codecs for all libraries, loaded or not."""
    codecs = [codec for codecs_by_class in _CODECS.values() for codec in codecs_by_class.values()]
    return [_SCALAR_CODEC, *codecs]


def _numpy() -> Any:
    """Return NumPy, for decoding."""
    return late_import("numpy")


def _pandas() -> Any:
    """Return pandas, for decoding."""
    return late_import("pandas")


# Time zones, which columns of pandas name


def _encode_zone(zone: Any) -> tuple[str] | None:
    if zone.key is None:  # a zone that was read from a file
        return None
    return (zone.key,)


def _decode_zone(key: str) -> object:
    return late_import("zoneinfo").ZoneInfo(key)


# NumPy


def _describe_dtype(dtype: Any) -> object:
    """Return a description that `numpy.dtype` turns into an equal type.

    It is a text such as ``<f8``, a pair for items that are arrays themselves, or a dict for items
    with named fields.
    """
    if dtype.subdtype is not None:
        item_dtype, shape = dtype.subdtype
        return _describe_dtype(item_dtype), shape
    if dtype.names is None:
        return dtype.str
    # A field is its type, its offset, and perhaps its title.
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_describe_dtype(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) == 3 else None for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _encode_array(array: Any) -> tuple[object, ...] | None:
    dtype = array.dtype
    if dtype.kind == "O":
        return None, array.shape, array.ravel().tolist()
    # Fields that are objects, and strings of any length (`StringDType`): the bytes of the array have
    # their addresses, not their values.
    if dtype.hasobject or dtype.kind == "T":
        return None
    return _describe_dtype(dtype), array.shape, array.tobytes()


def _decode_array(dtype_description: object, shape: tuple[int, ...], data: Any) -> object:
    """Return an array.

    Args:
        data: Its bytes, or a list of its objects if there is no description.
    """
    if dtype_description is None:
        array = _numpy().empty(len(data), object)
        array[:] = data
        return array.reshape(shape)

    dtype = _numpy().dtype(dtype_description)
    if dtype.hasobject:
        raise pickle.UnpicklingError("addresses are not plain data")
    # Not `frombuffer`, which refuses items without bytes.
    return _numpy().ndarray(shape, dtype, bytearray(data))


def _encode_scalar(scalar: Any) -> tuple[object] | None:
    if scalar.dtype.hasobject:
        return None
    return (sys.modules["numpy"].asarray(scalar),)


def _decode_scalar(array: Any) -> object:
    return array[()]


# The values of columns and indexes of pandas


def _encode_column(values: Any) -> tuple[object, ...]:
    """Return the kind and the parts of the values in a column or an index.

    The kinds and their parts are:

        numpy       an array of NumPy
        categories  the number of each value's category, the categories, whether they are ordered
        datetimes   the times in UTC, and their time zone
        values      the name of another type of pandas, and the values as Python's objects

    Raises:
        NotTransferableError: Another type, such as one of Arrow or a sparse one.
    """
    dtype = values.dtype
    pandas = sys.modules["pandas"]
    if type(dtype).__module__.partition(".")[0] == "numpy":
        return "numpy", values.to_numpy()
    array = values.array
    if type(dtype) is pandas.CategoricalDtype:
        return "categories", array.codes, dtype.categories, dtype.ordered
    if type(dtype) is pandas.DatetimeTZDtype:
        return "datetimes", array.tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz
    is_unsupported = type(dtype) in (pandas.ArrowDtype, pandas.SparseDtype)
    if is_unsupported or not _PANDAS_DTYPE.fullmatch(str(dtype)):
        raise NotTransferableError(f"{name_of(type(values))} of {dtype}")
    return "values", str(dtype), array.tolist()


def _decode_column(kind: str, *parts: Any) -> Any:
    """Return an array that has the `dtype` of the column.

    The parameters are what `_encode_column` returns.
    """
    if kind == "numpy":
        (array,) = parts
        return array
    if kind == "categories":
        codes, categories, is_ordered = parts
        return _pandas().Categorical.from_codes(codes, categories, is_ordered)
    if kind == "datetimes":
        utc_times, zone = parts
        return _pandas().DatetimeIndex(utc_times).tz_localize("UTC").tz_convert(zone).array
    dtype_name, values = parts
    if not _PANDAS_DTYPE.fullmatch(dtype_name):
        raise pickle.UnpicklingError(f"{dtype_name} is not a type of a column")
    return _pandas().array(values, dtype=dtype_name)


# Indexes of pandas

# Each constructor gets the type of the values, because pandas would make a column of type `str` of
# strings whose type is `object`.


def _encode_index(index: Any) -> tuple[object, ...]:
    return _encode_column(index), index.name, _frequency_name(index)


def _frequency_name(index: Any) -> str | None:
    """Return the name of the frequency of an index, such as ``MS``; None if it has none.

    Raises:
        NotTransferableError: The name does not say all of the frequency. For example, that of
            business days has holidays.
    """
    frequency = getattr(index, "freq", None)
    if frequency is None:
        return None
    name: str = frequency.freqstr
    to_offset = late_import("pandas.tseries.frequencies").to_offset
    try:
        is_named = to_offset(name) == frequency
    except ValueError:
        is_named = False
    if not is_named:
        raise NotTransferableError(f"{name_of(type(index))} with the frequency {name}")
    return name


def _decode_index(column: tuple[Any, ...], name: object, frequency: str | None) -> Any:
    values = _decode_column(*column)
    index = _pandas().Index(values, dtype=values.dtype, name=name, copy=False)
    # A `PeriodIndex` has its frequency in the type of its values.
    if frequency and isinstance(index, (_pandas().DatetimeIndex, _pandas().TimedeltaIndex)):
        index.freq = frequency
    return index


def _encode_multi_index(index: Any) -> tuple[object, ...]:
    codes = list(map(sys.modules["numpy"].asarray, index.codes))
    return list(index.levels), codes, list(index.names)


def _decode_multi_index(levels: list[Any], codes: list[Any], names: list[Any]) -> object:
    return _pandas().MultiIndex(levels, codes, names=names)


def _encode_range_index(index: Any) -> tuple[object, ...]:
    return index.start, index.stop, index.step, index.name


def _decode_range_index(start: int, stop: int, step: int, name: object) -> object:
    return _pandas().RangeIndex(start, stop, step, name=name)


# Series and tables of pandas


def _encode_series(series: Any) -> tuple[object, ...]:
    return _encode_column(series), series.index, series.name, dict(series.attrs)


def _decode_series(
    column: tuple[Any, ...], index: object, name: object, attrs: dict[Any, Any]
) -> object:
    values = _decode_column(*column)
    series = _pandas().Series(values, index=index, dtype=values.dtype, name=name, copy=False)
    series.attrs.update(attrs)
    return series


def _encode_table(table: Any) -> tuple[object, ...]:
    columns = [_encode_column(table.iloc[:, column]) for column in range(table.shape[1])]
    return columns, table.columns, table.index, dict(table.attrs)


def _decode_table(columns: list[Any], names: object, index: Any, attrs: dict[Any, Any]) -> object:
    # The columns are numbered at first, because two of them may have the same name.
    row_numbers = _pandas().RangeIndex(len(index))
    series_by_position = {}
    for position, column in enumerate(columns):
        values = _decode_column(*column)
        series_by_position[position] = _pandas().Series(
            values, index=row_numbers, dtype=values.dtype, copy=False
        )
    table = _pandas().DataFrame(series_by_position, index=row_numbers)
    table.index = index
    table.columns = names
    table.attrs.update(attrs)
    return table


# Single values of pandas


def _encode_timestamp(timestamp: Any) -> tuple[object, ...]:
    return timestamp._value, timestamp.unit, timestamp.tzinfo


def _decode_timestamp(value: int, unit: str, zone: object) -> object:
    timestamp = _pandas().Timestamp(_numpy().datetime64(value, unit))
    if zone is None:
        return timestamp
    return timestamp.tz_localize("UTC").tz_convert(zone)


def _encode_timedelta(duration: Any) -> tuple[int, str]:
    return duration._value, duration.unit


def _decode_timedelta(value: int, unit: str) -> object:
    return _pandas().Timedelta(_numpy().timedelta64(value, unit))


def _encode_period(period: Any) -> tuple[int, str]:
    return period.ordinal, period.freqstr


def _decode_period(ordinal: int, frequency: str) -> object:
    return _pandas().Period(ordinal=ordinal, freq=frequency)


def _encode_interval(interval: Any) -> tuple[object, object, str]:
    return interval.left, interval.right, interval.closed


def _decode_interval(left: object, right: object, closed: str) -> object:
    return _pandas().Interval(left, right, closed)


def _encode_constant(constant: object) -> tuple[()]:
    return ()


def _decode_not_a_time() -> object:
    return _pandas().NaT


def _decode_not_available() -> object:
    return _pandas().NA


_SCALAR_CODEC = Codec("scalar", _encode_scalar, _decode_scalar)
"""For all classes of NumPy's numbers, which are too many for the table."""
_INDEX_CODEC = Codec("Index", _encode_index, _decode_index, is_mutable=True)

_CODECS: dict[str, dict[str, Codec]] = {
    "zoneinfo": {"ZoneInfo": Codec("zone", _encode_zone, _decode_zone)},
    "numpy": {"ndarray": Codec("array", _encode_array, _decode_array, is_mutable=True)},
    "pandas": {
        "DataFrame": Codec("DataFrame", _encode_table, _decode_table, is_mutable=True),
        "Series": Codec("Series", _encode_series, _decode_series, is_mutable=True),
        "MultiIndex": Codec(
            "MultiIndex", _encode_multi_index, _decode_multi_index, is_mutable=True
        ),
        **dict.fromkeys(_INDEX_CLASSES, _INDEX_CODEC),
        "RangeIndex": Codec(
            "RangeIndex", _encode_range_index, _decode_range_index, is_mutable=True
        ),
        "Timestamp": Codec("Timestamp", _encode_timestamp, _decode_timestamp),
        "Timedelta": Codec("Timedelta", _encode_timedelta, _decode_timedelta),
        "Period": Codec("Period", _encode_period, _decode_period),
        "Interval": Codec("Interval", _encode_interval, _decode_interval),
    },
    "pandas._libs.tslibs.nattype": {"NaTType": Codec("NaT", _encode_constant, _decode_not_a_time)},
    "pandas._libs.missing": {"NAType": Codec("NA", _encode_constant, _decode_not_available)},
}
"""Codecs by the module and the name of the class that they are for."""
