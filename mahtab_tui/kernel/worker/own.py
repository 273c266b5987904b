"""Objects of classes that are derived from those of the known libraries, as the libraries' own: over the same memory, by no code of the classes."""

from __future__ import annotations

from typing import Any

from .statics import MISSING, descends, in_class, is_one_of, loaded, own_dict

_POLARS = (("DataFrame", "_df", "polars.dataframe.frame", "PyDataFrame"), ("Series", "_s", "polars.series.series", "PySeries"))
"""Classes of polars, and where they keep what they are made over: the attribute, and its class."""

_INDEXES = ("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "IntervalIndex", "CategoricalIndex")


def as_own(value: Any) -> Any:
    """An array, a tensor, or a table of pandas' or of polars', in the library's own class; any other object itself.

    Masked arrays stay what they are: their numbers alone would not say which of them are missing. Of Arrow's tables there are no derived ones
    but empty shells, which end the process when they are asked anything.
    """
    cls = type(value)
    array = loaded("numpy", "ndarray")
    if descends(cls, array):
        return value if cls is array or descends(cls, loaded("numpy.ma", "MaskedArray")) else array.view(value, array)
    tensor = loaded("torch", "Tensor")
    if descends(cls, tensor):
        # Only code of a class below the functions, as in wrappers of other tensors, would run for an alias.
        dispatched = in_class(cls, "__torch_dispatch__") is not in_class(tensor, "__torch_dispatch__")
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
    """A plain table over the same core of polars'; the object itself where it has none."""
    held = own_dict(value).get(field)
    if type(held) is not core:
        return value
    made = object.__new__(base)
    object.__setattr__(made, field, held)
    return made


def _over_its_columns(value: Any, base: Any) -> Any:
    """A plain table of what a derived one holds; the object itself where pandas keeps that elsewhere than it does since 2.1."""
    held = own_dict(value)
    manager = held.get("_mgr", MISSING)
    module = "pandas.core.internals.managers"
    if not any(type(manager) is loaded(module, name) for name in ("BlockManager", "SingleBlockManager")) or not hasattr(base, "_from_mgr"):
        return value
    made = base._from_mgr(manager, axes=manager.axes)
    if made.ndim == 1:
        object.__setattr__(made, "_name", held.get("_name"))
    return made


def is_index(value: Any) -> bool:
    """Whether it is one of pandas' own indexes."""
    return is_one_of(value, "pandas", *_INDEXES)


def has_own_indexes(value: Any) -> bool:
    """Whether the indexes of a DataFrame or of a Series are pandas' own: another one would be asked by its own code, how long it is too."""
    return all(map(is_index, value.axes))


def is_own_type(dtype: Any) -> bool:
    """Whether a column's type is numpy's or pandas' own: another one, and the array of it, would run code that is not known."""
    return type(dtype).__module__.partition(".")[0] in ("numpy", "pandas")


_TABLES = (("numpy", "ndarray"), ("torch", "Tensor"), ("pandas", "DataFrame"), ("pandas", "Series"), ("polars", "DataFrame"), ("polars", "Series"))


def is_table(value: Any) -> bool:
    """Whether it is an array, a tensor or a table of a known library, or of a class derived from one."""
    return any(descends(type(value), loaded(module, name)) for module, name in _TABLES)
