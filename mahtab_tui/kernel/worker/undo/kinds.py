"""Which parts the objects of a class have."""

from __future__ import annotations

import types
import warnings
from typing import Any

from ..statics import MISSING, class_dict, is_class, loaded, mro_of, own_dict
from ..stdlib import late_import
from .guarded import guarded, sign_of
from .own_modules import own_modules
from .part import Apply, Part, Values
from .parts import ATTRIBUTES, CLASS, CONTAINERS, OF_PANDAS, SLOTS, pairs, slot_descriptors
from .tables import special_parts

_NEVER = (types.ModuleType, types.CodeType, types.BuiltinFunctionType)
_UNCHANGING = ("pyarrow", "polars", "duckdb", "_duckdb", "weakref", "torch")
"""Packages and modules of classes whose objects are compared by identity alone."""


def _reduced(value: Any) -> Values:
    """An object of a class in C, as its own class writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [late_import("pickle").dumps(value, 4)]
        except Exception:
            return []


REDUCED = Part("reduced", _reduced, None, costly=True)


def _module(module: Any) -> Values:
    return [part for name, value in list(own_dict(module).items()) if not name.startswith("__") for part in (name, value)]


def _put_module(module: Any, values: Values) -> Apply:
    wanted, held = pairs(values), own_dict(module)

    def apply() -> None:
        for name in list(held):
            if name not in wanted and not name.startswith("__"):
                del held[name]
        for name, value in wanted.items():
            if held.get(name, MISSING) is not value:
                held[name] = value

    return apply


_MODULE = Part("module", _module, _put_module)


class Kinds:
    """The parts of each class that was met. Made for one comparison, because classes come and go."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._modules = own_modules()
        self._globals = {id(namespace), *(id(own_dict(module)) for module in self._modules.values())}
        self._special = tuple(special_parts())
        self._known: dict[int, tuple[type, tuple[Part, ...]]] = {}

    def parts(self, value: Any) -> tuple[Part, ...]:
        """The parts of an object; none for what is only compared by identity."""
        cls = type(value)
        if value is self._namespace:
            return ()
        if is_class(value):
            return (CLASS,) if self.is_own_class(value) else ()
        if cls is types.ModuleType:
            return (_MODULE,) if id(own_dict(value)) in self._globals else ()
        if cls is types.FunctionType and id(value.__globals__) not in self._globals and value.__closure__ is None:
            return ()  # a library's
        known = self._known.get(id(cls))
        if known is None:
            known = self._known[id(cls)] = (cls, self._parts_of(cls))
        return known[1]

    def is_own_class(self, cls: Any) -> bool:
        """Whether it was defined in a cell, or in a module of the user's own."""
        module = class_dict(cls).get("__module__")
        return type(module) is str and (module in self._modules or module == self._namespace.get("__name__", "__main__"))

    @property
    def shared(self) -> list[tuple[str, Any]]:
        """What code changes besides the namespace: modules of the user's own, and settings and figures of matplotlib."""
        known = (("matplotlib", "rcParams", "matplotlib.rcParams"), ("matplotlib._pylab_helpers", "Gcf", "open figures"))
        of_libraries = [(label, loaded(module, name)) for module, name, label in known]
        of_libraries = [(label, class_dict(value)["figs"] if is_class(value) else value) for label, value in of_libraries if value is not MISSING]
        return [*((f"module {name}", module) for name, module in self._modules.items()), *of_libraries]

    def _parts_of(self, cls: type) -> tuple[Part, ...]:
        bases = mro_of(cls)
        if any(base in bases for base in _NEVER):
            return ()
        kind = guarded(cls)
        if kind is not None:
            return (sign_of(cls, kind),)
        found: list[Part] = []
        for base, part in self._special:
            if any(one is base for one in bases):
                found.append(part)
                break
        else:
            for base, part in CONTAINERS:
                if any(one is base for one in bases):
                    found.append(part)
                    break
        if any("__dict__" in class_dict(base) for base in bases):
            found.append(OF_PANDAS if any(str(class_dict(base).get("__module__")).startswith("pandas.") for base in bases) else ATTRIBUTES)
        if slot_descriptors(cls):
            found.append(SLOTS)
        if not found and str(class_dict(type)["__module__"].__get__(cls)).partition(".")[0] not in _UNCHANGING:
            found.append(REDUCED)
        return tuple(found)
