"""Objects that stand for something outside Python: threads, locks, processes, connections, files,
and code that is half-way through.

An undo never changes them or looks inside. It compares only a sign of how far they have got; if
that differs, they are named as not restored.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any, Callable, NamedTuple

from ..statics import (
    MISSING,
    address_of,
    class_dict,
    descends,
    module_of,
    mro_of,
    name_of,
    own_dict,
)
from .part import ATOMS, Part, UncomparableError, Values


class GuardedKind(NamedTuple):
    """A kind of object that an undo leaves alone."""

    modules: tuple[str, ...]
    """The modules and packages that define its classes."""
    names: tuple[str, ...]
    """The names of the classes; empty for all classes of these modules."""
    what: str
    """Name for one of them in sentences."""
    sign: Callable[[Any], Values]
    reason: str
    """Why an undo leaves it alone."""

    @property
    def tells(self) -> bool:
        """Whether there is a sign of how far its objects have got."""
        return self.sign is not _nothing

    @property
    def ends(self) -> bool:
        """Whether something happens when one of its objects ends."""
        return self.what not in ("a lock", "a cached function", "an iterator")


_OF_FRAMES = frozenset(map(address_of, (types.FrameType, types.CodeType, types.FunctionType)))


def _generator(value: Any) -> Values:
    for prefix in ("gi", "cr", "ag"):
        frame = getattr(value, f"{prefix}_frame", MISSING)
        if frame is not MISSING:
            return [-2] if frame is None else [frame.f_lasti, *_inside_generator(value, frame)]
    return []


def _inside_generator(value: Any, frame: Any) -> Values:
    """Return the local variables, and (from Python 3.11 on) what loops keep for themselves, such as
    their iterators."""
    if sys.version_info < (3, 11):
        return [*frame.f_locals.values()]
    return [
        held
        for held in gc.get_referents(value)
        if address_of(type(held)) not in _OF_FRAMES and held is not frame.f_globals
    ]


def _of_library(value: Any, name: str) -> Any:
    """Return an attribute as the library's class defines it, whatever a derived class of the user's
    says."""
    for base in mro_of(type(value)):
        if name in class_dict(base) and module_of(base).partition(".")[0] in _LIBRARIES:
            return class_dict(base)[name].__get__(value)
    raise AttributeError(name)


def _called(name: str) -> Callable[[Any], Values]:
    return lambda value: [_of_library(value, name)()]


def _fields(*names: str) -> Callable[[Any], Values]:
    return lambda value: [
        own_dict(value)[name] if name in own_dict(value) else _of_library(value, name)
        for name in names
    ]


def _mapped(value: Any) -> Values:
    with memoryview(value) as view:
        if not view.readonly:
            raise UncomparableError
    return [_of_library(value, "tell")()]


def _rest(value: Any) -> Values:
    """Return what is left of an iterator over keys or items."""
    cls: Any = type(value)
    return list(cls.__reduce__(value)[1][0])


def _nothing(value: Any) -> Values:
    return []


def _cached(value: Any) -> Values:
    return [*_of_library(value, "cache_info")(), *gc.get_referents(value)]


MOVED_ON = "it has advanced and cannot be restored"
_ROWS: tuple[tuple[str, str, str, Callable[[Any], Values], str], ...] = (
    (
        "builtins",
        "generator coroutine async_generator",
        "a generator or coroutine",
        _generator,
        MOVED_ON,
    ),
    (
        "builtins",
        "dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator dict_reversevalueiterator dict_reverseitemiterator"
        " set_iterator",
        "an iterator",
        _rest,
        MOVED_ON,
    ),
    ("_thread", "lock LockType", "a lock", _called("locked"), "it was acquired or released"),
    (
        "_thread",
        "RLock",
        "a lock",
        lambda value: [_of_library(value, "__repr__")().partition(" object")[0]],
        "it was acquired or released",
    ),
    (
        "threading",
        "Thread Timer _MainThread _DummyThread",
        "a thread",
        _called("is_alive"),
        "a thread that was started or has ended cannot be restored",
    ),
    ("threading", "Event", "a threading event", _called("is_set"), "it was set or cleared"),
    (
        "threading _thread multiprocessing queue _queue",
        "",
        "an object shared by threads or processes",
        _nothing,
        "it is shared with other threads or processes",
    ),
    ("concurrent.futures", "Future", "a future", _called("done"), MOVED_ON),
    (
        "concurrent.futures",
        "",
        "a pool of threads or processes",
        _fields("_shutdown"),
        "it was shut down",
    ),
    ("asyncio _asyncio", "Task Future", "a task", _called("done"), MOVED_ON),
    (
        "asyncio _asyncio contextvars _contextvars",
        "",
        "a part of the event loop",
        _nothing,
        "it belongs to the event loop",
    ),
    ("subprocess", "Popen", "a process", _fields("returncode"), "the process has ended"),
    ("socket _socket ssl _ssl", "", "a connection", _nothing, "a connection cannot be restored"),
    (
        "sqlite3 _sqlite3",
        "Connection",
        "a connection",
        _fields("total_changes", "in_transaction"),
        "what was written to the database stays",
    ),
    (
        "sqlite3 _sqlite3 duckdb _duckdb",
        "",
        "a connection",
        _nothing,
        "a connection cannot be restored",
    ),
    (
        "mmap",
        "mmap",
        "memory mapped to a file",
        _mapped,
        "it shares its memory with a file or with other processes",
    ),
    (
        "io _io _pyio tempfile selectors mmap",
        "",
        "an open file",
        _nothing,
        "what was written to a file stays",
    ),
    ("functools", "_lru_cache_wrapper", "a cached function", _cached, "its cache stays"),
    (
        "builtins",
        "traceback",
        "a traceback",
        lambda value: [value.tb_lineno, value.tb_lasti, value.tb_next],
        "it cannot be restored",
    ),
    ("builtins", "frame", "a frame", _nothing, "it cannot be restored"),
)
"""Modules, names, what, sign and reason of each kind."""
_GUARDED = [
    GuardedKind(tuple(modules.split()), tuple(names.split()), what, sign, reason)
    for modules, names, what, sign, reason in _ROWS
]
_LIBRARIES = frozenset(module.partition(".")[0] for kind in _GUARDED for module in kind.modules)
_IN_MEMORY = frozenset(("StringIO", "BytesIO"))
"""Classes of `io` that are no files."""
_FILES = frozenset("TextIOWrapper BufferedReader BufferedWriter BufferedRandom FileIO".split())


def is_file(cls: type) -> bool:
    """Return whether the position of such an object is noted (see `beside`)."""
    return any(name_of(base) in _FILES and module_of(base) == "_io" for base in mro_of(cls))


def opaque_kind(cls: type) -> GuardedKind | None:
    """Return the kind of a class that an undo leaves alone, judged by its bases; None for
    others."""
    bases = mro_of(cls)[:-1]
    if descends(cls, BaseException) or any(
        name_of(base) in _IN_MEMORY and module_of(base) == "_io" for base in bases
    ):
        return None
    for base in bases:
        module, name = module_of(base), name_of(base)
        for kind in _GUARDED:
            if (not kind.names or name in kind.names) and any(
                module == each or module.startswith(each + ".") for each in kind.modules
            ):
                return kind
    return None


def _plain_attributes(value: Any) -> Values:
    return [
        part
        for pair in list(own_dict(value).items())
        for part in pair
        if address_of(type(part)) in ATOMS
    ]


def progress_marker(cls: type, kind: GuardedKind) -> Part:
    """Return the sign of how far an object has got, as a part that never changes in place; for
    derived classes with their attributes."""
    if any(module_of(cls).partition(".")[0] == each.partition(".")[0] for each in kind.modules):
        return Part("sign", lambda value: [*kind.sign(value), *_plain_attributes(value)], None)
    return Part(
        "sign",
        lambda value: [
            *kind.sign(value),
            *(part for pair in list(own_dict(value).items()) for part in pair),
        ],
        None,
    )
