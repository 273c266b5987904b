"""Converts objects of subclasses of known libraries' classes to the libraries' own classes, sharing
memory and running no user code."""

from __future__ import annotations

from typing import Any

from .statics import MISSING, descends, in_class, is_one_of, loaded, module_of, name_of, own_dict

_POLARS = (
    ("DataFrame", "_df", "polars.dataframe.frame", "PyDataFrame"),
    ("Series", "_s", "polars.series.series", "PySeries"),
)
"""polars classes, with the attribute of their Rust object and its class."""

_INDEXES = (
    "Index",
    "RangeIndex",
    "MultiIndex",
    "DatetimeIndex",
    "TimedeltaIndex",
    "PeriodIndex",
    "IntervalIndex",
    "CategoricalIndex",
)


def as_library_type(value: Any) -> Any:
    """Return an array, tensor, or pandas or polars table as the library's own class; any other
    object unchanged.

    Masked arrays stay as they are, because their numbers alone would not show which are missing.
    Subclasses of Arrow tables are empty shells, which crash the process when used, so they are not
    converted.
    """
    cls = type(value)
    array = loaded("numpy", "ndarray")
    if descends(cls, array):
        return (
            value
            if cls is array or descends(cls, loaded("numpy.ma", "MaskedArray"))
            else array.view(value, array)
        )
    tensor = loaded("torch", "Tensor")
    if descends(cls, tensor):
        # A class with its own dispatch, such as a wrapper of tensors, would run code for an alias.
        dispatched = in_class(cls, "__torch_dispatch__") is not in_class(
            tensor, "__torch_dispatch__"
        )
        return value if cls is tensor or dispatched else tensor.as_subclass(value, tensor)
    for name in ("DataFrame", "Series"):
        base = loaded("pandas", name)
        if cls is not base and descends(cls, base):
            return _over_its_columns(value, base)
    for name, field, module, kind in _POLARS:
        base = loaded("polars", name)
        if cls is not base and descends(cls, base):
            return _over_its_core(value, base, field, loaded(module, kind))
    return value


def _over_its_core(value: Any, base: Any, field: str, core: Any) -> Any:
    """Return a plain table with the same Rust object; the object itself if it has none."""
    held = own_dict(value).get(field)
    if type(held) is not core:
        return value
    made = object.__new__(base)
    object.__setattr__(made, field, held)
    return made


def _over_its_columns(value: Any, base: Any) -> Any:
    """Return a plain pandas table with the same data; the object itself if pandas stores it
    differently than since 2.1."""
    held = own_dict(value)
    manager = held.get("_mgr", MISSING)
    module = "pandas.core.internals.managers"
    if not any(
        type(manager) is loaded(module, name) for name in ("BlockManager", "SingleBlockManager")
    ) or not hasattr(base, "_from_mgr"):
        return value
    made = base._from_mgr(manager, axes=manager.axes)
    if made.ndim == 1:
        object.__setattr__(made, "_name", held.get("_name"))
    return made


def is_index(value: Any) -> bool:
    """Tell whether it is one of pandas' own indexes."""
    return is_one_of(value, "pandas", *_INDEXES)


def has_own_indexes(value: Any) -> bool:
    """Tell whether the indexes of a DataFrame or Series are pandas' own; others would run user code
    even for their length."""
    return all(map(is_index, value.axes))


def is_own_index(value: Any) -> bool:
    """Tell whether it is an index of pandas' own that stores its labels in arrays of numpy or
    pandas."""
    if not is_index(value):
        return False
    names = own_dict(value)
    if "_levels" in names:
        return all(map(is_own_index, names["_levels"]))
    return is_one_of(value, "pandas", "RangeIndex") or comes_from(
        names.get("_data"), "numpy", "pandas"
    )


def is_own_type(dtype: Any) -> bool:
    """Tell whether a column's dtype is numpy's or pandas' own; others would run unknown code."""
    return descends(type(dtype), loaded("numpy", "dtype")) or comes_from(dtype, "pandas")


def is_own_column(series: Any) -> bool:
    """Tell whether a Series of pandas' own class stores its values in an array of numpy or pandas;
    even the dtype of another would run code."""
    return comes_from(series._values, "numpy", "pandas") and is_own_type(series.dtype)


def comes_from(value: Any, *packages: str) -> bool:
    """Tell whether an object's exact class is the one that its own module, in one of these
    packages, has under its name."""
    cls = type(value)
    module = module_of(cls)
    return module.partition(".")[0] in packages and loaded(module, name_of(cls)) is cls


_TABLES = (
    ("numpy", "ndarray"),
    ("torch", "Tensor"),
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "Series"),
)


def is_table(value: Any) -> bool:
    """Tell whether it is an array, tensor or table of a known library, subclasses included."""
    return any(descends(type(value), loaded(module, name)) for module, name in _TABLES)
