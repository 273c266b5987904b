"""Objects of classes that are derived from those of the known libraries, as the libraries' own: over the same memory, by no code of the classes."""

from __future__ import annotations

from typing import Any

from .statics import MISSING, descends, in_class, loaded, own_dict


def as_own(value: Any) -> Any:
    """An array, a tensor, or a table of pandas', in the library's own class; any other object itself.

    Masked arrays stay what they are: their numbers alone would not say which of them are missing.
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
    return value


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
