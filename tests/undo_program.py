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
    things = _things(namespace)
    if not things or rng.random() < 0.25:
        name = rng.choice(NAMES)
        if name in namespace and rng.random() < 0.3:
            del namespace[name]
        else:
            namespace[name] = _new(rng, things, 3)
        return
    thing = rng.choice(things)
    rng.choice(_changes_of(thing))(thing, rng, things)


_ATOMS = (None, True, 1, -1, -2, 0.0, -0.0, "a", b"b", float("nan"), 2j)


def _atom(rng: random.Random) -> Any:
    numbers = rng.random(), rng.randrange(10**6), rng.randrange(10**30)
    return rng.choice([*_ATOMS, *numbers, str(rng.random())])


def _key(rng: random.Random) -> Any:
    return rng.choice(
        [rng.randrange(5), rng.randrange(1000, 2000), f"k{rng.randrange(6)}", (1, rng.randrange(3))]
    )


def _new(rng: random.Random, things: list[Any], depth: int) -> Any:
    if depth == 0 or rng.random() < 0.3:
        return _atom(rng)
    if things and rng.random() < 0.35:
        return rng.choice(things)

    def inner() -> list[Any]:
        return [_new(rng, things, depth - 1) for _ in range(rng.randrange(4))]

    def new() -> Any:
        return _new(rng, things, depth - 1)

    def plain() -> Plain:
        made = Plain()
        made.__dict__.update((f"a{number}", value) for number, value in enumerate(inner()))
        return made

    def slotted() -> Slotted:
        made = Slotted()
        made.left = new()
        return made

    def items() -> Items:
        made = Items(inner())
        made.tag = new()  # type: ignore[attr-defined]
        return made

    def view() -> Any:
        arrays = [
            thing
            for thing in things
            if type(thing) is numpy.ndarray and thing.ndim == 1 and thing.size
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


def _set_item(thing: Any, rng: random.Random, things: list[Any]) -> None:
    thing[rng.randrange(len(thing))] = _new(rng, things, 2)


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


def _changes_of(thing: Any) -> list[_Change]:
    for types, changes in (
        ((list, collections.deque), _LIST),
        (dict, _DICT),
        (set, _SET),
        (bytearray, _BYTES),
        ((Plain, Slotted), _OBJECT),
    ):
        if isinstance(thing, types):
            return changes
    if numpy is not None and isinstance(thing, numpy.ndarray):
        return [*_ARRAY, _set_item] if thing.dtype.hasobject else _ARRAY
    return _FRAME


_ATOM_TYPES = (int, float, complex, str, bytes, type(None))
_MODULES = ("builtins", "collections", "numpy", "pandas", "pandas.core.frame", __name__)


def _things(namespace: dict[str, Any]) -> list[Any]:
    found: dict[int, Any] = {}
    pending = list(ours(namespace).values())
    while pending:
        thing = pending.pop(0)
        if type(thing) is tuple:
            pending += thing
        elif (
            id(thing) not in found
            and type(thing).__module__ in _MODULES
            and not isinstance(thing, _ATOM_TYPES)
        ):
            found[id(thing)] = thing
            pending += _inside(thing)
    return list(found.values())


def _inside(thing: Any) -> list[Any]:
    inside: list[Any] = []
    if isinstance(thing, dict):
        inside += thing.values()
    elif isinstance(thing, (list, tuple, collections.deque)):
        inside += thing
    elif numpy is not None and type(thing) is numpy.ndarray:
        inside += thing.ravel().tolist() if thing.dtype.hasobject else []
    inside += getattr(thing, "__dict__", {}).values() if isinstance(thing, (Plain, Items)) else []
    if isinstance(thing, Slotted):
        inside += [getattr(thing, name) for name in Slotted.__slots__ if hasattr(thing, name)]
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
        thing = pending.pop(0)
        if isinstance(thing, _ATOM_TYPES):
            lines.append(f"{type(thing).__name__} {thing!r}")
            continue
        if type(thing) is not tuple:
            known = numbers.get(id(thing))
            numbers.setdefault(id(thing), len(numbers))
            alive.append(thing)
            if known is not None:
                lines.append(f"again {known}")
                continue
        lines.append(_line(thing, numbers, alive))
        pending = _inside(thing) + pending
    return "\n".join(lines)


def _is_mutable(value: Any) -> bool:
    return not isinstance(value, (*_ATOM_TYPES, tuple))


def _line(thing: Any, numbers: dict[int, int], alive: list[Any]) -> str:
    name = type(thing).__name__
    if isinstance(thing, dict):
        return f"{name} {list(thing)!r} {getattr(thing, 'default_factory', None)}"
    if isinstance(thing, set):
        return f"{name} {sorted(map(repr, thing))}"
    if isinstance(thing, bytearray):
        return f"{name} {bytes(thing)!r}"
    if numpy is not None and isinstance(thing, numpy.ndarray):
        owner = thing
        while isinstance(owner.base, numpy.ndarray):
            owner = owner.base
        alive.append(owner)
        number = numbers.setdefault(id(owner), len(numbers))
        offset = thing.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        data = b"" if thing.dtype.hasobject else thing.tobytes()
        return f"{name} {thing.dtype} {thing.shape} {thing.strides} {thing.flags.writeable} {number} {offset} {hashlib.sha1(data).hexdigest()}"
    if pandas is not None and isinstance(thing, pandas.DataFrame):
        return f"{name} {thing.to_dict('split')} {[str(kind) for kind in thing.dtypes]} {thing.attrs} {type(thing.index).__name__}"
    if isinstance(thing, (Plain, Items)):
        return f"{name} {list(thing.__dict__)} {len(thing) if isinstance(thing, Items) else ''}"
    return f"{name} {len(_inside(thing))}"
