"""Finds the objects that a cell can reach and change in place."""

from __future__ import annotations

import ast
import os
import sys
import types
import weakref
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Callable, NamedTuple

from ..compiling import walk_tree
from ..objects import (
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_class,
    is_module,
    name_of,
    own_dict,
)

ATOMS = frozenset(
    map(address_of, (int, float, complex, bool, str, bytes, type(None), type(Ellipsis)))
)
"""Types, by identity, whose objects are compared by value."""

Values = list[Any]
Apply = Callable[[], object]
Prepare = Callable[[Any, Values], Apply]


class UncomparableError(Exception):
    """The state of an object cannot be read."""


class Part(NamedTuple):
    """A part of a kind of object."""

    name: str
    read: Callable[[Any], Values]
    prepare: Prepare | None
    """Returns a function that puts values back into an object; None if objects of this kind never
    change. Code of the user's classes (the hash of a key) runs here, and not in the returned
    function."""
    ordered: bool = True
    size: Callable[[Any], int] | None = None
    """Returns the number of values, if that may be very large; eight bytes count as one."""
    costly: bool = False
    """Not read if only the objects inside are wanted, because it has none."""


def prepared(make: Callable[[Values], Any]) -> Callable[[Callable[[Any, Any], object]], Prepare]:
    """Decorate a function that restores values, as the `prepare` of a part. make: prepares the
    values."""

    def decorate(put: Callable[[Any, Any], object]) -> Prepare:
        def prepare(value: Any, values: Values) -> Apply:
            wanted = make(values)
            return lambda: put(value, wanted)

        return prepare

    return decorate


deferred = prepared(lambda values: values)
"""Like `prepared`, for parts that need no preparation."""


def set_attributes(*names: str) -> Prepare:
    """Create the `prepare` of a part whose values are these attributes."""

    def put(value: Any, values: Values) -> None:
        for name, wanted in zip(names, values):
            setattr(value, name, wanted)

    return deferred(put)


_REFERENCES: Any = type.__dict__["__weakrefoffset__"].__get__


class ReleasedObject:
    """An object that a step does not keep alive, because its end has an effect."""

    def __init__(self, value: Any) -> None:
        self.address = address_of(value)
        self._reference = weakref.ref(value) if _REFERENCES(type(value)) else None

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        return self._reference is not None and self._reference() is None

    def value(self, now: Any) -> Any:
        """Return the object; `MISSING` if it has ended, or if that is unknown. now: what may still
        be the same object."""
        if self._reference is None:
            return now if address_of(now) == self.address else MISSING
        found = self._reference()
        return MISSING if found is None else found


_FLAGS: Any = type.__dict__["__flags__"].__get__

_STATEMENTS = (ast.Module, ast.Expr, ast.Assign, ast.Pass)
_EXPRESSIONS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
_OPERATORS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_PLAIN = (*_STATEMENTS, *_EXPRESSIONS, *_OPERATORS)


def can_change_objects(tree: ast.Module, namespace: dict[str, Any]) -> bool:
    """Return whether a cell can change more than the objects its names refer to. It cannot if it
    only computes with plain values, as ``1 + 1`` does, and replaces only such values."""
    for node in walk_tree(tree):
        if isinstance(node, ast.Name):
            default = namespace if isinstance(node.ctx, ast.Load) else None
            if address_of(type(namespace.get(node.id, default))) not in ATOMS:
                return True  # a name of an object is used or replaced, which may end the object
        elif not isinstance(node, _PLAIN):
            return True
    return False


class LibrarySnapshot(NamedTuple):
    """The attributes of a library's module or class, which code can replace."""

    holder: Any
    label: str
    values: dict[str, Any]
    addresses: list[int]
    """The addresses of all names and objects."""

    def iter_changes(self, mentioned: Collection[str]) -> Iterator[tuple[str, Any, Any]]:
        """Yield the attributes that were replaced since, with their earlier and current values
        (`MISSING` if there is none).

        mentioned: names in the code that ran; others count only if they are public, because
        libraries store things in private ones.
        """
        now = _attributes(self.holder)
        for name in dict.fromkeys((*self.values, *now)):
            then, value = self.values.get(name, MISSING), now.get(name, MISSING)
            same = (
                address_of(value) == then.address and not then.ended
                if type(then) is ReleasedObject
                else value is then
            )
            if (
                not same
                and not is_module(then)
                and not is_module(value)
                and type(name) is str
                and _is_relevant(self.label, name, mentioned)
            ):
                yield name, then, value

    @property
    def has_ended(self) -> bool:
        """Whether one of its objects is known to have ended, so that another one may have its
        address."""
        return any(type(value) is ReleasedObject and value.ended for value in self.values.values())

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute; `MISSING` deletes it."""
        own_class = is_class(self.holder)
        if value is MISSING:
            type.__delattr__(self.holder, name) if own_class else own_dict(self.holder).pop(
                name, None
            )
        elif own_class:
            type.__setattr__(self.holder, name, value)
        else:
            own_dict(self.holder)[name] = value


_ALWAYS = ("builtins", "sys")
_MAX_LIBRARIES = 60
"""Maximum number of library modules and classes to examine for one cell."""
_MAX_ITEMS = 1_000
_KERNEL_ATTRIBUTES = frozenset(
    f"sys.{name}"
    for name in "stdin stdout stderr path modules last_exc last_type last_value last_traceback".split()
)
_KERNEL_ATTRIBUTES |= {
    "warnings.filters",
    "sys.breakpointhook",
    *(f"builtins.{name}" for name in ("exit", "help", "input", "quit")),
}
"""Set by the kernel itself, or restored as settings."""
_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)
_WITHOUT_FINALIZER = ATOMS | frozenset(
    map(
        address_of,
        (
            *_FUNCTIONS,
            type,
            types.ModuleType,
            property,
            classmethod,
            staticmethod,
            dict,
            type(os.environ),
        ),
    )
)
_CHANGEABLE = 1 << 9
"""The flag of classes whose attributes can be set."""


def libraries(
    mentioned: Iterable[str],
    namespace: dict[str, Any],
    is_own: Callable[[Any], bool],
    earlier: Iterable[LibrarySnapshot],
) -> list[LibrarySnapshot]:
    """Return snapshots of the library modules and classes that code mentions.

    earlier: those of the previous step.
    """
    names = tuple(mentioned)
    pending = [
        *(sys.modules.get(name) for name in _ALWAYS),
        *(namespace.get(name) for name in names),
    ]
    found: dict[int, Any] = {}
    for value in pending:  # the list grows meanwhile
        if len(found) == _MAX_LIBRARIES:
            break
        module = is_module(value)
        if address_of(value) in found or not (module or is_class(value)) or is_own(value):
            continue
        if module:
            module_names = own_dict(value)
            pending += [module_names[name] for name in names if name in module_names]
            found[address_of(value)] = value
        elif _FLAGS(value) & _CHANGEABLE:
            found[address_of(value)] = value
    known = {address_of(library.holder): library for library in earlier}
    return [snapshot(value, known.get(address)) for address, value in found.items()]


def snapshot(holder: Any, earlier: LibrarySnapshot | None = None) -> LibrarySnapshot:
    """Return a snapshot of a module or class, without keeping objects alive whose end has an
    effect.

    earlier: returned if nothing has changed, so that steps share it.
    """
    values = _attributes(holder)
    addresses = [*map(address_of, values), *map(address_of, values.values())]
    if earlier is not None and addresses == earlier.addresses and not earlier.has_ended:
        return earlier
    if not _WITHOUT_FINALIZER.issuperset(map(address_of, map(type, values.values()))):
        values = {
            name: value if _has_no_finalizer(value) else ReleasedObject(value)
            for name, value in values.items()
        }
    label = (
        f"{class_module(holder)}.{name_of(holder)}"
        if is_class(holder)
        else str(own_dict(holder).get("__name__"))
    )
    return LibrarySnapshot(holder, label, values, addresses)


def _has_no_finalizer(value: Any) -> bool:
    """Return whether the end of an object has no effect."""
    if type(value) in (list, tuple, set, frozenset):
        return len(value) < _MAX_ITEMS and ATOMS.issuperset(map(address_of, map(type, value)))
    return address_of(type(value)) in _WITHOUT_FINALIZER


def _attributes(holder: Any) -> dict[str, Any]:
    return dict(class_dict(holder)) if is_class(holder) else dict(own_dict(holder))


def _is_relevant(label: str, name: str, mentioned: Collection[str]) -> bool:
    return f"{label}.{name}" not in _KERNEL_ATTRIBUTES and (
        name in mentioned or not name.startswith("_")
    )


def names_in(codes: tuple[types.CodeType, ...], namespace: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that code mentions, those mentioned by functions with these names, and so
    on."""
    found: dict[str, None] = {}
    pending = [name for code in codes for name in _names(code)]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found[name] = None
        value = namespace.get(name)
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            pending += _names(value.__code__)
    return tuple(found)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names(constant)
