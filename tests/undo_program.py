"""Random changes to everything in a kernel's namespace, and a digest of it."""

from __future__ import annotations

import collections
import hashlib
import importlib
import random
from collections.abc import Callable
from typing import Any

try:
    numpy: Any = importlib.import_module("numpy")
    pandas: Any = importlib.import_module("pandas")
except ImportError:
    numpy = pandas = None

NAMES = [f"v{number}" for number in range(8)]

_ATOMS = (None, True, 1, -1, -2, 0.0, -0.0, "a", b"b", float("nan"), 2j)

_ATOM_TYPES = (int, float, complex, str, bytes, type(None))
_MODULES = ("builtins", "collections", "numpy", "pandas", "pandas.core.frame", __name__)


class Plain:
    shared: Any = None


class Slotted:
    __slots__ = ("left", "right")

    left: Any
    right: Any


class Items(list[Any]):
    """A list with attributes."""


def ours(namespace: dict[str, Any]) -> dict[str, Any]:
    return {name: namespace[name] for name in NAMES if name in namespace}


def change(namespace: dict[str, Any], seed: int, steps: int) -> None:
    rng = random.Random(seed)
    for _ in range(steps):
        try:
            _change(namespace, rng)
        except (TypeError, ValueError, LookupError, AttributeError, BufferError, RuntimeError):
            continue


def _change(namespace: dict[str, Any], rng: random.Random) -> None:
    values = _things(namespace)
    if not values or rng.random() < 0.25:
        name = rng.choice(NAMES)
        if name in namespace and rng.random() < 0.3:
            del namespace[name]
        else:
            namespace[name] = _new(rng, values, 3)
        return
    value = rng.choice(values)
    rng.choice(_changes_of(value))(value, rng, values)


def _atom(rng: random.Random) -> Any:
    numbers = rng.random(), rng.randrange(10**6), rng.randrange(10**30)
    return rng.choice([*_ATOMS, *numbers, str(rng.random())])


def _key(rng: random.Random) -> Any:
    return rng.choice(
        [rng.randrange(5), rng.randrange(1000, 2000), f"k{rng.randrange(6)}", (1, rng.randrange(3))]
    )


def _new(rng: random.Random, values: list[Any], depth: int) -> Any:
    if depth == 0 or rng.random() < 0.3:
        return _atom(rng)
    if values and rng.random() < 0.35:
        return rng.choice(values)

    def inner() -> list[Any]:
        return [_new(rng, values, depth - 1) for _ in range(rng.randrange(4))]

    def new() -> Any:
        return _new(rng, values, depth - 1)

    def plain() -> Plain:
        container = Plain()
        container.__dict__.update((f"a{number}", value) for number, value in enumerate(inner()))
        return container

    def slotted() -> Slotted:
        container = Slotted()
        container.left = new()
        return container

    def items() -> Items:
        container = Items(inner())
        container.tag = new()  # type: ignore[attr-defined]
        return container

    def view() -> Any:
        arrays = [
            candidate
            for candidate in values
            if type(candidate) is numpy.ndarray and candidate.ndim == 1 and candidate.size
        ]
        if not arrays:
            return numpy.ones((2, 3), order="F")
        return rng.choice(arrays)[rng.randrange(3) :: rng.choice([1, 2, -1])]

    makers: list[Callable[[], Any]] = [
        inner,
        inner,
        lambda: {_key(rng): value for value in inner()},
        lambda: tuple(inner()),
        lambda: {_key(rng) for _ in range(3)},
        lambda: collections.deque(inner()),
        plain,
        slotted,
        items,
        lambda: bytearray(b"bytes"),
        lambda: collections.OrderedDict(a=1, b=inner()),
        lambda: collections.defaultdict(list, x=inner()),
    ]
    if numpy is not None:
        makers += [
            lambda: numpy.arange(rng.choice([0, 4, 12, 3000]), dtype=rng.choice(["i4", "f8"])),
            view,
            lambda: numpy.array([new(), None, None], dtype=object),
            lambda: pandas.DataFrame(
                {"a": range(4), "b": [rng.random() for _ in range(4)], "c": list("wxyz")}
            ),
        ]
    return rng.choice(makers)()


def _set_item(array: Any, rng: random.Random, values: list[Any]) -> None:
    array[rng.randrange(len(array))] = _new(rng, values, 2)


_Change = Callable[[Any, random.Random, list[Any]], object]
_LIST: list[_Change] = [
    lambda thing, rng, things: thing.append(_new(rng, things, 2)),
    lambda thing, rng, things: thing.pop(rng.randrange(len(thing))),
    lambda thing, rng, things: thing.insert(0, _new(rng, things, 2)),
    lambda thing, rng, things: thing.reverse(),
    lambda thing, rng, things: thing.clear(),
    lambda thing, rng, things: thing.extend([_atom(rng), _atom(rng)]),
    _set_item,
]
_DICT: list[_Change] = [
    lambda thing, rng, things: thing.__setitem__(_key(rng), _new(rng, things, 2)),
    lambda thing, rng, things: thing.pop(rng.choice(list(thing))),
    lambda thing, rng, things: thing.clear(),
    lambda thing, rng, things: thing.__setitem__(key := rng.choice(list(thing)), thing.pop(key)),
]
_SET: list[_Change] = [
    lambda thing, rng, things: thing.add(_key(rng)),
    lambda thing, rng, things: thing.pop(),
]
_BYTES: list[_Change] = [
    lambda thing, rng, things: thing.extend(b"x"),
    lambda thing, rng, things: thing.__setitem__(0, rng.randrange(256)),
]
_OBJECT: list[_Change] = [
    lambda thing, rng, things: setattr(
        thing, rng.choice(["left", "right", "a0", "a1", "b"]), _new(rng, things, 2)
    ),
    lambda thing, rng, things: delattr(thing, rng.choice(["left", "right", "a0", "a1", "b"])),
    lambda thing, rng, things: setattr(Plain, "shared", _new(rng, things, 1)),
]
_ARRAY: list[_Change] = [
    lambda thing, rng, things: thing.fill(rng.randrange(100)),
    lambda thing, rng, things: thing.__setitem__(slice(1, 3), rng.randrange(100)),
    lambda thing, rng, things: setattr(thing, "shape", (2, -1)),
    lambda thing, rng, things: setattr(thing.flags, "writeable", False),
    lambda thing, rng, things: thing.sort(),
]
_FRAME: list[_Change] = [
    lambda thing, rng, things: thing.__setitem__(rng.choice("abcd"), rng.random()),
    lambda thing, rng, things: thing.__delitem__(rng.choice("abcd")),
    lambda thing, rng, things: thing.insert(0, f"n{rng.randrange(9)}", 1),
    lambda thing, rng, things: thing.loc.__setitem__((rng.randrange(6), "a"), rng.randrange(9)),
    lambda thing, rng, things: setattr(
        thing, "columns", [f"c{number}" for number in range(len(thing.columns))]
    ),
    lambda thing, rng, things: setattr(thing, "index", thing.index + 1),
    lambda thing, rng, things: thing.sort_values("b", inplace=True),
    lambda thing, rng, things: thing.attrs.update(x=_atom(rng)),
]


def _changes_of(value: Any) -> list[_Change]:
    for types, changes in (
        ((list, collections.deque), _LIST),
        (dict, _DICT),
        (set, _SET),
        (bytearray, _BYTES),
        ((Plain, Slotted), _OBJECT),
    ):
        if isinstance(value, types):
            return changes
    if numpy is not None and isinstance(value, numpy.ndarray):
        return [*_ARRAY, _set_item] if value.dtype.hasobject else _ARRAY
    return _FRAME


def _things(namespace: dict[str, Any]) -> list[Any]:
    values_by_id: dict[int, Any] = {}
    pending = list(ours(namespace).values())
    while pending:
        value = pending.pop(0)
        if type(value) is tuple:
            pending += value
        elif (
            id(value) not in values_by_id
            and type(value).__module__ in _MODULES
            and not isinstance(value, _ATOM_TYPES)
        ):
            values_by_id[id(value)] = value
            pending += _inside(value)
    return list(values_by_id.values())


def _inside(container: Any) -> list[Any]:
    inside: list[Any] = []
    if isinstance(container, dict):
        inside += container.values()
    elif isinstance(container, (list, tuple, collections.deque)):
        inside += container
    elif numpy is not None and type(container) is numpy.ndarray:
        inside += container.ravel().tolist() if container.dtype.hasobject else []
    inside += (
        getattr(container, "__dict__", {}).values() if isinstance(container, (Plain, Items)) else []
    )
    if isinstance(container, Slotted):
        inside += [
            getattr(container, name) for name in Slotted.__slots__ if hasattr(container, name)
        ]
    return inside


class Probe:
    """Its text is the digest, so that it can be read while no cell runs."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.verbose = False

    def __repr__(self) -> str:
        text = digest(self.namespace)
        return text if self.verbose else hashlib.sha1(text.encode()).hexdigest()


def digest(namespace: dict[str, Any]) -> str:
    """Return values, types, identities, shared memory, and the addresses of the names' objects."""
    lines: list[str] = [
        f"{name} {id(value) if _is_mutable(value) else ''}"
        for name, value in sorted(ours(namespace).items())
    ]
    numbers: dict[int, int] = {}
    alive: list[Any] = []
    pending = [value for _, value in sorted(ours(namespace).items())] + [Plain.shared]
    while pending:
        current = pending.pop(0)
        if isinstance(current, _ATOM_TYPES):
            lines.append(f"{type(current).__name__} {current!r}")
            continue
        if type(current) is not tuple:
            number = numbers.get(id(current))
            numbers.setdefault(id(current), len(numbers))
            alive.append(current)
            if number is not None:
                lines.append(f"again {number}")
                continue
        lines.append(_line(current, numbers, alive))
        pending = _inside(current) + pending
    return "\n".join(lines)


def _is_mutable(value: Any) -> bool:
    return not isinstance(value, (*_ATOM_TYPES, tuple))


def _line(value: Any, numbers: dict[int, int], alive: list[Any]) -> str:
    name = type(value).__name__
    if isinstance(value, dict):
        return f"{name} {list(value)!r} {getattr(value, 'default_factory', None)}"
    if isinstance(value, set):
        return f"{name} {sorted(map(repr, value))}"
    if isinstance(value, bytearray):
        return f"{name} {bytes(value)!r}"
    if numpy is not None and isinstance(value, numpy.ndarray):
        owner = value
        while isinstance(owner.base, numpy.ndarray):
            owner = owner.base
        alive.append(owner)
        number = numbers.setdefault(id(owner), len(numbers))
        offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        data = b"" if value.dtype.hasobject else value.tobytes()
        return f"{name} {value.dtype} {value.shape} {value.strides} {value.flags.writeable} {number} {offset} {hashlib.sha1(data).hexdigest()}"
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return f"{name} {value.to_dict('split')} {[str(kind) for kind in value.dtypes]} {value.attrs} {type(value.index).__name__}"
    if isinstance(value, (Plain, Items)):
        return f"{name} {list(value.__dict__)} {len(value) if isinstance(value, Items) else ''}"
    return f"{name} {len(_inside(value))}"
