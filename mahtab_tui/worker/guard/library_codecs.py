"""How objects of NumPy and pandas become plain data, and plain data the objects."""

from __future__ import annotations

import pickle
import re
import sys
from typing import Any

from ..stdlib import late_import
from ..values.objects import name_of
from .plain_codecs import Codec, NotTransferableError

_PANDAS_DTYPE = re.compile(r"[A-Za-z0-9]+(?:\[[A-Za-z0-9_ :/+\-]*(?:, [A-Za-z0-9_/+\-:]+)?\])?")
"""Names of pandas' own column types."""

_INDEXES = "Index CategoricalIndex IntervalIndex DatetimeIndex TimedeltaIndex PeriodIndex".split()


def library_codec(cls: type) -> Codec | None:
    """Return the codec for a class of a library that is loaded; None if there is none."""
    for module, codecs in _CODECS.items():
        library = sys.modules.get(module)
        if library is None:
            continue
        for name, codec in codecs.items():
            if getattr(library, name, None) is cls:
                return codec
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, numpy.generic) and cls.__module__ == "numpy":
        return _SCALAR_CODEC
    return None


def all_library_codecs() -> list[Codec]:
    codecs = [codec for by_class in _CODECS.values() for codec in by_class.values()]
    return [_SCALAR_CODEC, *codecs]


def _numpy() -> Any:
    return late_import("numpy")


def _pandas() -> Any:
    return late_import("pandas")


def _encode_zone(value: Any) -> tuple[str] | None:
    if value.key is None:
        return None
    return (value.key,)


def _decode_zone(key: str) -> object:
    return late_import("zoneinfo").ZoneInfo(key)


# NumPy


def _describe_dtype(dtype: Any) -> object:
    """Return a description that `numpy.dtype` turns into an equal type."""
    if dtype.subdtype is not None:
        item_dtype, shape = dtype.subdtype
        return _describe_dtype(item_dtype), shape
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_describe_dtype(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) == 3 else None for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _encode_array(value: Any) -> tuple[object, ...] | None:
    dtype = value.dtype
    if dtype.kind == "O":
        return None, value.shape, value.ravel().tolist()
    if dtype.hasobject or dtype.kind == "T":
        return None
    return _describe_dtype(dtype), value.shape, value.tobytes()


def _decode_array(dtype_description: object, shape: tuple[int, ...], data: Any) -> object:
    if dtype_description is None:
        array = _numpy().empty(len(data), object)
        array[:] = data
        return array.reshape(shape)

    dtype = _numpy().dtype(dtype_description)
    if dtype.hasobject:
        raise pickle.UnpicklingError("addresses are not plain data")
    # Not `frombuffer`, which refuses items without bytes.
    return _numpy().ndarray(shape, dtype, bytearray(data))


def _encode_scalar(value: Any) -> tuple[object] | None:
    if value.dtype.hasobject:
        return None
    return (sys.modules["numpy"].asarray(value),)


def _decode_scalar(array: Any) -> object:
    return array[()]


# Columns of pandas


def _encode_column(values: Any) -> tuple[object, ...]:
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
    is_unsupported = type(dtype) in (pandas.ArrowDtype, pandas.SparseDtype)
    if is_unsupported or not _PANDAS_DTYPE.fullmatch(str(dtype)):
        raise NotTransferableError(f"{name_of(type(values))} of {dtype}")
    return "values", str(dtype), array.tolist()


def _decode_column(kind: str, *parts: Any) -> Any:
    """Return an array that has the `dtype` of the column."""
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


# pandas would take a column of strings whose type is `object` for one of its type `str`, so each
# constructor gets the type.


def _encode_index(value: Any) -> tuple[object, ...]:
    return _encode_column(value), value.name, _frequency_name(value)


def _frequency_name(index: Any) -> str | None:
    """Return the name of the frequency of an index; None if it has none. Raises
    `NotTransferableError` if the name does not say all of it, such as the holidays."""
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
    if frequency and isinstance(index, (_pandas().DatetimeIndex, _pandas().TimedeltaIndex)):
        index.freq = frequency
    return index


def _encode_multi_index(value: Any) -> tuple[object, ...]:
    codes = list(map(sys.modules["numpy"].asarray, value.codes))
    return list(value.levels), codes, list(value.names)


def _decode_multi_index(levels: list[Any], codes: list[Any], names: list[Any]) -> object:
    return _pandas().MultiIndex(levels, codes, names=names)


def _encode_range_index(value: Any) -> tuple[object, ...]:
    return value.start, value.stop, value.step, value.name


def _decode_range_index(start: int, stop: int, step: int, name: object) -> object:
    return _pandas().RangeIndex(start, stop, step, name=name)


def _encode_series(value: Any) -> tuple[object, ...]:
    return _encode_column(value), value.index, value.name, dict(value.attrs)


def _decode_series(
    column: tuple[Any, ...], index: object, name: object, attrs: dict[Any, Any]
) -> object:
    values = _decode_column(*column)
    series = _pandas().Series(values, index=index, dtype=values.dtype, name=name, copy=False)
    series.attrs.update(attrs)
    return series


def _encode_table(value: Any) -> tuple[object, ...]:
    columns = [_encode_column(value.iloc[:, column]) for column in range(value.shape[1])]
    return columns, value.columns, value.index, dict(value.attrs)


def _decode_table(columns: list[Any], names: object, index: Any, attrs: dict[Any, Any]) -> object:
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


def _encode_timestamp(value: Any) -> tuple[object, ...]:
    return value._value, value.unit, value.tzinfo


def _decode_timestamp(value: int, unit: str, zone: object) -> object:
    timestamp = _pandas().Timestamp(_numpy().datetime64(value, unit))
    if zone is None:
        return timestamp
    return timestamp.tz_localize("UTC").tz_convert(zone)


def _encode_timedelta(value: Any) -> tuple[int, str]:
    return value._value, value.unit


def _decode_timedelta(value: int, unit: str) -> object:
    return _pandas().Timedelta(_numpy().timedelta64(value, unit))


def _encode_period(value: Any) -> tuple[int, str]:
    return value.ordinal, value.freqstr


def _decode_period(ordinal: int, frequency: str) -> object:
    return _pandas().Period(ordinal=ordinal, freq=frequency)


def _encode_interval(value: Any) -> tuple[object, object, str]:
    return value.left, value.right, value.closed


def _decode_interval(left: object, right: object, closed: str) -> object:
    return _pandas().Interval(left, right, closed)


def _encode_constant(value: object) -> tuple[()]:
    return ()


def _decode_not_a_time() -> object:
    return _pandas().NaT


def _decode_not_available() -> object:
    return _pandas().NA


_SCALAR_CODEC = Codec("scalar", _encode_scalar, _decode_scalar)
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
        **dict.fromkeys(_INDEXES, _INDEX_CODEC),
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
