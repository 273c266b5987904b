"""Objects that an undo leaves alone: open files, locks, threads, generators, connections.

They are only compared by their progress (how far they have got), and then named as not restored."""

from __future__ import annotations

import gc
import os
import queue
import sys
import threading
import types
from contextlib import suppress
from typing import Any, NamedTuple

from ..values.objects import (
    ATOMS,
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
)
from .parts import ClassName, ObjectPart, Read, Values, for_each_class

_FRAME_TYPES = frozenset(map(address_of, (types.FrameType, types.CodeType, types.FunctionType)))

_GENERATOR_FRAMES = ("gi_frame", "cr_frame", "ag_frame")
"""Attributes of generators, coroutines and asynchronous generators."""
_GENERATOR_ENDED = -2
"""Progress of a generator that has ended. Before the first step it is -1, then larger."""

_CONNECTION_FIELDS = "total_changes in_transaction isolation_level row_factory text_factory".split()
_LATER_CONNECTION_FIELDS = ("autocommit",)
"""Attributes that connections have since Python 3.12."""

_SET_BY_FORKS = ("_is_stopped", "_tstate_lock")
"""Attributes of threads: in a fork, nearly all have ended."""

_FILE_CLASSES = frozenset(
    "TextIOWrapper BufferedReader BufferedWriter BufferedRandom FileIO".split()
)
_MEMORY_FILE_CLASSES = frozenset(["StringIO", "BytesIO"])


class OpaqueKind(NamedTuple):
    """A kind of object that an undo leaves alone."""

    noun: str
    read_progress: Read | None = None
    """None if there is no way to tell how far one has got."""
    has_finalizer: bool = True
    """Whether its end has an effect: a file is closed, a thread is forgotten."""


def _library_attribute(value: object, name: str) -> Any:
    """Return an attribute as the library's class defines it, even if the user's class overrides it."""
    for base in mro_of(type(value)):
        if name in class_dict(base) and _package_of(base) in _OPAQUE_PACKAGES:
            return class_dict(base)[name].__get__(value)
    raise AttributeError(name)


def _package_of(cls: type) -> str:
    return class_module(cls).partition(".")[0]


def _reads_method(name: str) -> Read:
    """Return a reader whose only value is what a method without arguments returns."""
    return lambda value: [_library_attribute(value, name)()]


def _read_generator_progress(generator: object) -> Values:
    """Return its position in the code, and what it refers to there."""
    for frame_attribute in _GENERATOR_FRAMES:
        frame = getattr(generator, frame_attribute, MISSING)
        if frame is None:
            return [_GENERATOR_ENDED]
        if frame is not MISSING:
            return [frame.f_lasti, *_read_generator_referents(generator, frame)]
    return []


def _read_generator_referents(generator: object, frame: Any) -> Values:
    """Return local variables and, from Python 3.11 on, loops' iterators."""
    if sys.version_info < (3, 11):
        return [*frame.f_locals.values()]
    return [
        referent
        for referent in gc.get_referents(generator)
        if address_of(type(referent)) not in _FRAME_TYPES and referent is not frame.f_globals
    ]


def _read_iterator_progress(iterator: object) -> Values:
    """Return the number of remaining items, 0 if unknown, and what it refers to."""
    count_remaining = getattr(type(iterator), "__length_hint__", lambda iterator: 0)
    return [count_remaining(iterator), *gc.get_referents(iterator)]


def _read_rlock_progress(lock: object) -> Values:
    """Return how Python writes it: whether it is locked, its owner, how often it was acquired."""
    return [_library_attribute(lock, "__repr__")()]


def _read_process_pipes(process: object) -> Values:
    return [own_dict(process).get(name) for name in ("stdin", "stdout", "stderr")]


def _read_finalizer_progress(finalizer: object) -> Values:
    return [_library_attribute(finalizer, "alive")]


def _read_connection_progress(connection: object) -> Values:
    progress = [_library_attribute(connection, name) for name in _CONNECTION_FIELDS]
    for name in _LATER_CONNECTION_FIELDS:
        with suppress(AttributeError):
            progress.append(_library_attribute(connection, name))
    return progress


class _LivingThreads:
    """Knows in a fork which threads lived before it, which a fork takes for ended."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._addresses: frozenset[int] = frozenset()
        os.register_at_fork(before=self._note)

    def _note(self) -> None:
        if os.getpid() == self._pid:
            self._addresses = frozenset(map(address_of, threading.enumerate()))

    def read_progress(self, thread: object) -> Values:
        """Return whether a thread runs, or ran before the fork."""
        self._note()
        return [address_of(thread) in self._addresses]


def _read_mapped_position(mapped: Any) -> Values:
    with memoryview(mapped) as view:
        if not view.readonly:
            raise ValueError("others may write to its memory")
    return [_library_attribute(mapped, "tell")()]


def _read_pool_progress(pool: object) -> Values:
    """Return how many calls wait, how many threads have none, and how many calls have not ended."""
    fields = own_dict(pool)
    progress: Values = []
    if type(fields.get("_work_queue")) is queue.SimpleQueue:
        progress.append(fields["_work_queue"].qsize())
    if type(fields.get("_idle_semaphore")) is threading.Semaphore:
        progress.append(own_dict(fields["_idle_semaphore"]).get("_value"))
    if type(fields.get("_pending_work_items")) is dict:
        progress.append(len(fields["_pending_work_items"]))
    return progress


def _read_cache_progress(function: object) -> Values:
    """Return the hits, misses and sizes of the cache, and what the function refers to."""
    return [*_library_attribute(function, "cache_info")(), *gc.get_referents(function)]


_SHARED_OBJECT = OpaqueKind("an object shared by threads or processes")
_EVENT_LOOP_PART = OpaqueKind("a part of the event loop")
_CONNECTION = OpaqueKind("a connection")
_SQLITE_CONNECTION = OpaqueKind("a connection", _read_connection_progress)
_OPEN_FILE = OpaqueKind("an open file")

_KIND_BY_CLASS: dict[ClassName, OpaqueKind] = {
    **for_each_class(
        "builtins",
        "generator coroutine async_generator",
        OpaqueKind("a generator or coroutine", _read_generator_progress),
    ),
    **for_each_class(
        "builtins",
        "list_iterator list_reverseiterator tuple_iterator str_iterator str_ascii_iterator"
        " bytes_iterator bytearray_iterator range_iterator longrange_iterator set_iterator"
        " dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator"
        " dict_reversevalueiterator dict_reverseitemiterator reversed enumerate zip map filter",
        OpaqueKind("an iterator", _read_iterator_progress, has_finalizer=False),
    ),
    **for_each_class(
        "_thread",
        "lock LockType",
        OpaqueKind("a lock", _reads_method("locked"), has_finalizer=False),
    ),
    ("_thread", "RLock"): OpaqueKind("a lock", _read_rlock_progress, has_finalizer=False),
    **for_each_class(
        "threading",
        "Thread Timer _MainThread _DummyThread",
        OpaqueKind("a thread", _LivingThreads().read_progress),
    ),
    ("threading", "Event"): OpaqueKind("a threading event", _reads_method("is_set")),
    ("concurrent.futures", "Future"): OpaqueKind("a future", _reads_method("done")),
    **for_each_class("asyncio", "Task Future", OpaqueKind("a task", _reads_method("done"))),
    **for_each_class("_asyncio", "Task Future", OpaqueKind("a task", _reads_method("done"))),
    ("subprocess", "Popen"): OpaqueKind("a process", _read_process_pipes),
    ("weakref", "finalize"): OpaqueKind(
        "a finalizer", _read_finalizer_progress, has_finalizer=False
    ),
    ("sqlite3", "Connection"): _SQLITE_CONNECTION,
    ("_sqlite3", "Connection"): _SQLITE_CONNECTION,
    **for_each_class(
        "ctypes", "CDLL PyDLL LibraryLoader", OpaqueKind("a native library", has_finalizer=False)
    ),
    ("mmap", "mmap"): OpaqueKind("memory mapped to a file", _read_mapped_position),
    ("functools", "_lru_cache_wrapper"): OpaqueKind(
        "a cached function", _read_cache_progress, has_finalizer=False
    ),
}

_KIND_BY_MODULE: dict[str, OpaqueKind] = {
    **dict.fromkeys(["threading", "_thread", "multiprocessing", "queue", "_queue"], _SHARED_OBJECT),
    "concurrent.futures": OpaqueKind("a pool of threads or processes", _read_pool_progress),
    **dict.fromkeys(["asyncio", "_asyncio", "contextvars", "_contextvars"], _EVENT_LOOP_PART),
    **dict.fromkeys(["socket", "_socket", "ssl", "_ssl", "sqlite3", "_sqlite3"], _CONNECTION),
    **dict.fromkeys(["duckdb", "_duckdb"], _CONNECTION),
    **dict.fromkeys(["io", "_io", "_pyio", "tempfile", "selectors", "mmap"], _OPEN_FILE),
}
"""For all other classes of these modules and of their submodules."""

_OPAQUE_PACKAGES = frozenset(
    module.partition(".")[0]
    for module in [*_KIND_BY_MODULE, *(module for module, _ in _KIND_BY_CLASS)]
)


def file_class(cls: type) -> Any:
    """Return the class of `io` that a class of files is derived from; None for other classes."""
    for base in mro_of(cls):
        if name_of(base) in _FILE_CLASSES and class_module(base) == "_io":
            return base
    return None


def opaque_kind(cls: type) -> OpaqueKind | None:
    """Return the kind of a class that an undo does not touch, judged by its bases."""
    bases = mro_of(cls)[:-1]
    if is_subclass(cls, BaseException) or is_memory_file(cls):
        return None
    for base in bases:
        module = class_module(base)
        while module:
            kind = _KIND_BY_CLASS.get((module, name_of(base))) or _KIND_BY_MODULE.get(module)
            if kind is not None:
                return kind
            module = module.rpartition(".")[0]
    return None


def is_memory_file(cls: type) -> bool:
    """Return whether a class is `io.StringIO`, `io.BytesIO` or derived from one."""
    return any(
        name_of(base) in _MEMORY_FILE_CLASSES and class_module(base) == "_io"
        for base in mro_of(cls)
    )


def progress_part(cls: type, kind: OpaqueKind) -> ObjectPart:
    """Make the part by which objects of an opaque class are compared.

    It reads how far an object has got, and its attributes: of a derived class all, of a library's
    own class only the plain ones, because the others are parts of its machinery."""
    is_derived = _package_of(cls) not in _OPAQUE_PACKAGES

    def read(value: Any) -> Values:
        progress: Values = []
        if kind.read_progress is not None:
            progress = kind.read_progress(value)
        # A thread that ends removes some of its own.
        all_attributes = list(own_dict(value).items())
        attributes = [
            item for pair in all_attributes if pair[0] not in _SET_BY_FORKS for item in pair
        ]
        return progress + [
            item for item in attributes if is_derived or address_of(type(item)) in ATOMS
        ]

    return ObjectPart(read)
