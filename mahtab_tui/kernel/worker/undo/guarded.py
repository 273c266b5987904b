"""Objects that stand for something outside Python: threads, locks, processes, connections, files, and code that is half-way through.

They are never changed by an undo, and what is in them is not looked at. Only a sign of how far they are is compared; where it is another one, they
are named as not restored.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..statics import MISSING, module_of, mro_of, own_dict
from .part import Part, Values


class Guarded(NamedTuple):
    """A kind of object that an undo leaves alone."""

    modules: tuple[str, ...]
    """Where its classes are defined: the modules, and what is inside these packages."""
    names: tuple[str, ...]
    """The classes; all of these modules where it is empty."""
    what: str
    """One of them, in words."""
    sign: Callable[[Any], Values]
    reason: str
    """Why an undo leaves it alone."""


def _generator(value: Any) -> Values:
    for prefix in ("gi", "cr", "ag"):
        frame = getattr(value, f"{prefix}_frame", MISSING)
        if frame is not MISSING:
            return [-2] if frame is None else [frame.f_lasti, *frame.f_locals.values()]
    return []


def _called(name: str) -> Callable[[Any], Values]:
    return lambda value: [getattr(value, name)()]


def _fields(*names: str) -> Callable[[Any], Values]:
    return lambda value: [getattr(value, name) for name in names]


def _nothing(value: Any) -> Values:
    return []


MOVED_ON = "it has moved on, and cannot be set back"
_GUARDED = (
    Guarded(("builtins",), ("generator", "coroutine", "async_generator"), "a generator or coroutine", _generator, MOVED_ON),
    Guarded(("_thread",), ("lock", "LockType"), "a lock", _called("locked"), "it was taken or released"),
    Guarded(("_thread",), ("RLock",), "a lock", lambda value: [repr(value).partition(" object")[0]], "it was taken or released"),
    Guarded(
        ("threading",),
        ("Thread", "Timer", "_MainThread", "_DummyThread"),
        "a thread",
        _called("is_alive"),
        "a thread that has ended or was started stays so",
    ),
    Guarded(("threading",), ("Event",), "an event of threads", _called("is_set"), "it was set or cleared"),
    Guarded(
        ("threading", "_thread", "multiprocessing", "queue", "_queue"),
        (),
        "what threads or processes share",
        _nothing,
        "it is shared with other threads or processes",
    ),
    Guarded(("concurrent.futures",), ("Future",), "a future", _called("done"), MOVED_ON),
    Guarded(("concurrent.futures",), (), "a pool of threads or processes", _fields("_shutdown"), "it was shut down"),
    Guarded(("asyncio", "_asyncio"), ("Task", "Future"), "a task", _called("done"), MOVED_ON),
    Guarded(("asyncio", "_asyncio", "contextvars", "_contextvars"), (), "a part of the event loop", _nothing, "it belongs to the event loop"),
    Guarded(("subprocess",), ("Popen",), "a process", _fields("returncode"), "the process has ended"),
    Guarded(("socket", "_socket", "ssl", "_ssl"), (), "a connection", _nothing, "a connection cannot be set back"),
    Guarded(
        ("sqlite3", "_sqlite3"),
        ("Connection",),
        "a connection",
        _fields("total_changes", "in_transaction"),
        "what was written to the database stays",
    ),
    Guarded(("sqlite3", "_sqlite3", "duckdb", "_duckdb"), (), "a connection", _nothing, "a connection cannot be set back"),
    Guarded(("io", "_io", "_pyio", "tempfile", "selectors", "mmap"), (), "an open file", _nothing, "what was written to a file stays"),
    Guarded(("functools",), ("_lru_cache_wrapper",), "a cached function", lambda value: list(value.cache_info()), "what it remembers stays"),
    Guarded(("builtins",), ("frame", "traceback"), "a frame or traceback", _nothing, "it cannot be set back"),
)
_IN_MEMORY = frozenset(("StringIO", "BytesIO"))
"""Of `io`, but no files."""
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__


def guarded(cls: type) -> Guarded | None:
    """The kind of a class that is left alone, by its bases; None for others."""
    bases = mro_of(cls)[:-1]
    if any(_name_of(base) in _IN_MEMORY and module_of(base) == "_io" for base in bases):
        return None
    for base in bases:
        module, name = module_of(base), _name_of(base)
        for kind in _GUARDED:
            if (not kind.names or name in kind.names) and any(module == each or module.startswith(each + ".") for each in kind.modules):
                return kind
    return None


def sign_of(cls: type, kind: Guarded) -> Part:
    """How far an object of this class is, as a part that never changes in place; of a derived class with its attributes."""
    if any(module_of(cls).partition(".")[0] == each.partition(".")[0] for each in kind.modules):
        return Part("sign", kind.sign, None)
    return Part("sign", lambda value: [*kind.sign(value), *(part for pair in list(own_dict(value).items()) for part in pair)], None)


def has_sign(kind: Guarded) -> bool:
    """Whether it can be told how far its objects are; files have their positions noted."""
    return kind.sign is not _nothing or "io" in kind.modules


def reason_for(value: Any) -> str:
    """Why an object cannot be carried; empty where nothing is known."""
    kind = guarded(type(value))
    return "" if kind is None else kind.reason
