"""State of the process that code adds to: modules, registered classes, variables of the C library,
descriptors."""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
import sys
import termios
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from typing import Any, NamedTuple

from ..cells.tracebacks import CELL
from ..link.descriptors import OWN_DESCRIPTORS, identify_file
from ..values.objects import (
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_module,
    loaded_module,
    mro_of,
    own_dict,
)

try:
    import _abc  # type: ignore[import-not-found]
except ImportError:  # not CPython
    _abc = None

_SIZE_VARIABLES = ("COLUMNS", "LINES")
"""The program sets these when the screen's size changes."""
_C_SIZE_VARIABLES = tuple(f"{name}=".encode() for name in _SIZE_VARIABLES)
_C_LIBRARY = ctypes.CDLL(None)
_C_ENVIRONMENT = ctypes.POINTER(ctypes.c_char_p).in_dll(_C_LIBRARY, "environ")
"""The variables as child processes get them: `os.putenv` changes only these."""

_LOOP_SETTINGS = ("_debug", "_exception_handler", "_task_factory", "slow_callback_duration")
"""The settings of an event loop of asyncio."""

_ACCESSOR_CLASSES = ("DataFrame", "Series", "Index")

_DECIMAL_CONTEXTS = ("DefaultContext", "BasicContext", "ExtendedContext")
_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps")

_DIALECT_FIELDS = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"),
    *("skipinitialspace", "strict"),
)


def _read_c_environment() -> list[bytes]:
    """Return rows ``NAME=text``."""
    if not ctypes.cast(_C_ENVIRONMENT, ctypes.c_void_p).value:  # after `clearenv`
        return []
    all_rows = takewhile(lambda row: row is not None, map(_C_ENVIRONMENT.__getitem__, count()))
    return [row for row in all_rows if not row.startswith(_C_SIZE_VARIABLES)]


def read_environment() -> tuple[dict[str, str], list[bytes]]:
    """Return the variables as Python has them, and the rows of the C library."""
    variables = {name: text for name, text in os.environ.items() if name not in _SIZE_VARIABLES}
    return variables, _read_c_environment()


def write_environment(environment: tuple[dict[str, str], list[bytes]]) -> None:
    """Set and remove variables until they are those that `read_environment` returned."""
    variables, c_rows = environment
    time_zone = os.environ.get("TZ")
    for name in [name for name in os.environ if name not in variables]:
        if name not in _SIZE_VARIABLES:
            del os.environ[name]
    for name, text in variables.items():
        if os.environ.get(name) != text:
            os.environ[name] = text

    # What still differs was set with `os.putenv` or by native code.
    present_c_rows = _read_c_environment()
    wanted_c_names = {row.partition(b"=")[0] for row in c_rows}
    for row in set(present_c_rows).difference(c_rows):
        c_name = row.partition(b"=")[0]
        if c_name not in wanted_c_names:
            os.unsetenv(c_name)
    for row in set(c_rows).difference(present_c_rows):
        c_name, _, c_text = row.partition(b"=")
        os.putenv(c_name, c_text)

    if os.environ.get("TZ") != time_zone:
        time.tzset()


class ModuleTable:
    """The entries of `sys.modules` at one time. Keeps no module alive."""

    def __init__(self) -> None:
        self._entries: dict[str, Callable[[], Any]] = {
            name: weakref.ref(module) if is_module(module) else _constant(module)
            for name, module in list(sys.modules.items())
        }

    def find_changes(self) -> dict[str, object]:
        """Return the entries to put back, `MISSING` for those to remove. Modules that were loaded
        since stay: loading them again would make other classes."""
        present = dict(sys.modules)
        changes: dict[str, Any] = {}
        for name, read in self._entries.items():
            module = read()
            is_lost = module is None and isinstance(read, weakref.ref)
            if not is_lost and present.get(name, MISSING) is not module:
                changes[name] = module
        old_addresses = {address_of(read()) for read in self._entries.values()}
        for name in present.keys() - self._entries.keys():
            module = present[name]
            # A module that was there before has got another name.
            is_renamed = address_of(module) in old_addresses
            if is_renamed or not is_module(module) or own_dict(module).get("__spec__") is None:
                changes[name] = MISSING
        return changes


def _constant(value: object) -> Callable[[], object]:
    return lambda: value


def write_modules(changes: dict[str, Any]) -> None:
    """Put back what `ModuleTable.find_changes` returned."""
    for name, module in changes.items():
        if module is MISSING:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


def read_registered(cls: type) -> list[type]:
    """Return the classes that were registered with an abstract class, in a fixed order."""
    if _abc is None or "_abc_impl" not in class_dict(cls):
        return []
    references: Iterable[weakref.ref[type]] = _abc._get_dump(cls)[0]
    classes = [reference() for reference in references]
    return sorted((living for living in classes if living is not None), key=address_of)


def write_registered(cls: type, classes: Iterable[type]) -> None:
    """Register these classes with an abstract class, and no others."""
    _abc._reset_registry(cls)
    for base in mro_of(cls):
        if "_abc_impl" in class_dict(base):
            _abc._reset_caches(base)
    for registered in classes:
        _abc._abc_register(cls, registered)


def read_extension_types() -> list[type]:
    """Return the types of columns that were registered with pandas."""
    return list(loaded_module("pandas.core.dtypes.base")._registry.dtypes)


def write_extension_types(types: list[type]) -> None:
    loaded_module("pandas.core.dtypes.base")._registry.dtypes[:] = types


def read_accessors() -> list[dict[str, Any]]:
    """Return what was registered with `register_dataframe_accessor` and the like, by name, for each
    class of pandas."""
    pandas = loaded_module("pandas")
    classes = [getattr(pandas, name) for name in _ACCESSOR_CLASSES]
    return [{name: class_dict(cls).get(name) for name in cls._accessors} for cls in classes]


def write_accessors(old_accessors: list[dict[str, Any]]) -> None:
    for class_name, accessors in zip(_ACCESSOR_CLASSES, old_accessors):
        cls = getattr(loaded_module("pandas"), class_name)
        for name in cls._accessors - accessors.keys():
            cls._accessors.discard(name)
            delattr(cls, name)
        for name, accessor in accessors.items():
            if accessor is not None and class_dict(cls).get(name) is not accessor:
                setattr(cls, name, accessor)
            cls._accessors.add(name)


def read_dialects() -> dict[str, dict[str, Any]]:
    """Return the arguments of `register_dialect` by the names of dialects."""
    csv = loaded_module("csv")
    return {
        name: {field: getattr(csv.get_dialect(name), field) for field in _DIALECT_FIELDS}
        for name in csv.list_dialects()
    }


def write_dialects(old_dialects: dict[str, dict[str, Any]]) -> None:
    csv = loaded_module("csv")
    for name in csv.list_dialects():
        csv.unregister_dialect(name)
    for name, fields in old_dialects.items():
        csv.register_dialect(name, **fields)


def write_faulthandler(is_enabled: bool) -> None:
    faulthandler = loaded_module("faulthandler")
    if is_enabled:
        faulthandler.enable(sys.__stderr__)
    else:
        faulthandler.disable()


def write_tracemalloc(is_tracing: bool) -> None:
    tracemalloc = loaded_module("tracemalloc")
    if is_tracing:
        tracemalloc.start()
    else:
        tracemalloc.stop()


def read_source_cache() -> dict[str, object]:
    """Return the sources in `linecache` that code has put there, and those that it reads later: not
    those of files, cells and generated code."""
    cache: dict[str, Any] = loaded_module("linecache").cache
    return {
        name: entry
        for name, entry in list(cache.items())
        if not name.startswith((CELL, "<")) and _is_no_file(name, entry)
    }


def _is_no_file(name: str, entry: tuple[Any, ...]) -> bool:
    """Return whether a source of `linecache` is not that of a file."""
    if len(entry) > 1:
        return entry[1] is None
    # What is read later comes from the file if there is one. Each traceback adds such entries, in
    # asyncio's debug mode also those of the kernel.
    return not os.path.exists(name)


def write_source_cache(old_cache: dict[str, object]) -> None:
    cache: dict[str, Any] = loaded_module("linecache").cache
    for name in read_source_cache().keys() - old_cache.keys():
        del cache[name]
    cache.update(old_cache)


def read_decimal_contexts() -> list[Any]:
    """Return the state of the contexts that new threads and new contexts start with."""
    decimal = loaded_module("decimal")
    return [getattr(decimal, name).__reduce__()[1] for name in _DECIMAL_CONTEXTS]


def write_decimal_contexts(contexts: list[Any]) -> None:
    decimal = loaded_module("decimal")
    for name, state in zip(_DECIMAL_CONTEXTS, contexts):
        context = getattr(decimal, name)
        earlier = decimal.Context(*state)
        for field in _CONTEXT_FIELDS:
            setattr(context, field, getattr(earlier, field))


# As in `socket`, whose import would delay the start of a kernel.
_IPPROTO_TCP = 6
_TCP_INFO = 11
# Of `struct tcp_info` in `linux/tcp.h`.
_TCP_INFO_BYTES = 136
_ACKNOWLEDGED_OFFSET = 120
"""After it comes the number of the bytes that were received."""


_COUNTED_SOCKET = "counted socket"
"""A socket that knows how many bytes were read from it and sent."""
_SOCKETS = (_COUNTED_SOCKET, "socket")

_READ = "what was read from this {noun} does not come back"
_ADDED = "what has come into this {noun} stays in it, and nothing that was read comes back"
_SENT = "what this {noun} has sent stays so"
_UNKNOWN_TRANSFER = "not compared: what was read from this {noun} or written to it stays so"


class _DescriptorState(NamedTuple):
    identity: tuple[int, int]
    """The device and the number of its file."""
    kind: str
    """"file", "device" (or a folder), "pipe", or one of `_SOCKETS`."""
    position: int = 0
    """Bytes from the start of a file, waiting in a pipe, or read from a counted socket, up to a
    constant; 0 for all others."""
    written: tuple[int, ...] = ()
    """Size and time of the last change of a file that may be written, or the bytes that a counted socket
    has sent, up to a constant."""
    flags: tuple[int, int] = (0, 0)
    """Flags of the file, such as whether it blocks, and flags of the descriptor."""

    @property
    def is_written_only(self) -> bool:
        return self.flags[0] & os.O_ACCMODE == os.O_WRONLY

    def describe_change(self, new_state: _DescriptorState, *, is_mentioned: bool) -> str:
        """Return what does not come back of this state, as clauses; empty if nothing has changed.

        Args:
            new_state: That of the same file later.
            is_mentioned: Whether the code may have meant it.
        """
        clauses = [*self._describe_transfer(new_state)]
        # As much may have come as was read.
        hides_reading = self.kind in ("socket", "pipe") and not self.is_written_only
        if not clauses and is_mentioned and hides_reading:
            clauses.append(_UNKNOWN_TRANSFER)
        if not clauses and self.flags != new_state.flags:
            clauses.append("its flags were changed and stay so")
        noun = "socket" if self.kind in _SOCKETS else self.kind
        return "; ".join(clauses).format(noun=noun)

    def _describe_transfer(self, new_state: _DescriptorState) -> Iterator[str]:
        is_moved = self.position != new_state.position
        is_written = self.written != new_state.written
        if self.kind == "file":
            if is_written:
                yield "the file has changed and stays so"
            if is_moved:
                yield "its position stays"
        elif self.kind == _COUNTED_SOCKET:
            if is_moved:
                yield _READ
            if is_written:
                yield _SENT
        elif is_moved:
            yield _READ if self.position > new_state.position else _ADDED


def _list_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []


def _identities() -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the open descriptors, each with the device and the number of its file."""
    for number in _list_descriptors():
        with suppress(OSError):  # closed meanwhile
            yield number, identify_file(number)


OWN_DESCRIPTORS.update(_identities())


@contextmanager
def opening_own_descriptors() -> Iterator[None]:
    """Count the descriptors that the block opens as the kernel's."""
    earlier_descriptors = dict(_identities())
    yield
    for number, identity in _identities():
        if earlier_descriptors.get(number) != identity:
            OWN_DESCRIPTORS[number] = identity


def read_event_loop() -> tuple[Any, ...]:
    """Return the settings of the event loop of cells. Raises `AttributeError` if there is none yet, or if
    it is not one of Python's own."""
    asyncio = loaded_module("asyncio")
    loop = asyncio.events._event_loop_policy._local._loop
    if class_module(type(loop)) != "asyncio.unix_events":
        raise AttributeError("no loop of Python's own")
    return tuple(getattr(loop, name) for name in _LOOP_SETTINGS)


def write_event_loop(values: tuple[Any, ...]) -> None:
    loop = loaded_module("asyncio").events._event_loop_policy._local._loop
    for name, value in zip(_LOOP_SETTINGS, values):
        setattr(loop, name, value)


class Descriptors:
    """How far files and pipes are read and written at one time, judged by their descriptors."""

    def __init__(self) -> None:
        self._states = dict(_read_descriptors())

    def find_changes(
        self, ignored_descriptors: Collection[int], mentioned_descriptors: Collection[int]
    ) -> list[tuple[str, str]]:
        """Return what cannot be restored, as labels and reasons.

        Args:
            ignored_descriptors: Descriptors of files that are compared in another way.
            mentioned_descriptors: Descriptors that the code may mean. Other sockets are ignored,
                because they may be the kernel's own.
        """
        changes: list[tuple[str, str]] = []
        new_states = dict(_read_descriptors())
        for number, old_state in self._states.items():
            new_state = new_states.get(number)
            is_mentioned = number in mentioned_descriptors
            if number in ignored_descriptors or (old_state.kind in _SOCKETS and not is_mentioned):
                continue
            label = f"descriptor {number}"
            if new_state is None or old_state.identity != new_state.identity:
                # The kernel has pipes of its own.
                if old_state.kind != "pipe":
                    changes.append((label, "it was closed, and is not opened again"))
                continue
            reason = old_state.describe_change(new_state, is_mentioned=is_mentioned)
            if reason and old_state.kind == "file":
                label = f"{label} ({_file_name(number)})"
            if reason:
                changes.append((label, reason))
        return changes


def _file_name(number: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        return "unknown"


def _count_waiting(number: int, request: int = termios.FIONREAD) -> int:
    """Return how many bytes wait in a pipe or a socket. request: those to be read, or to be sent."""
    return int(struct.unpack("i", fcntl.ioctl(number, request, bytes(4)))[0])


def _count_transfer(number: int) -> tuple[int, int] | None:
    """Return the bytes that were read from a TCP socket, and those written to it, both up to a
    constant; None if this socket does not count them."""
    statistics = ctypes.create_string_buffer(_TCP_INFO_BYTES)
    size = ctypes.c_uint(_TCP_INFO_BYTES)
    # A socket object of Python's would get its default timeout, and so would this socket.
    failure = _C_LIBRARY.getsockopt(number, _IPPROTO_TCP, _TCP_INFO, statistics, ctypes.byref(size))
    if failure or size.value < _TCP_INFO_BYTES:  # not TCP, or an old system
        return None
    acknowledged, received = struct.unpack_from("QQ", statistics, _ACKNOWLEDGED_OFFSET)
    waiting = _count_waiting(number)
    unsent = _count_waiting(number, termios.TIOCOUTQ)
    return received - waiting, acknowledged + unsent


def _read_descriptors() -> Iterator[tuple[int, _DescriptorState]]:
    for number, identity in _identities():
        if OWN_DESCRIPTORS.get(number) == identity:
            continue
        with suppress(OSError):
            status = os.fstat(number)
            flags = (fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD))
            access_mode = flags[0] & os.O_ACCMODE
            kind = "device"
            position = 0
            written: tuple[int, ...] = ()
            if stat.S_ISREG(status.st_mode):
                kind = "file"
                position = os.lseek(number, 0, os.SEEK_CUR)
                if access_mode != os.O_RDONLY:
                    written = (status.st_size, status.st_mtime_ns)
            elif stat.S_ISFIFO(status.st_mode):
                kind = "pipe"
                if access_mode != os.O_WRONLY:
                    position = _count_waiting(number)
            elif stat.S_ISSOCK(status.st_mode):
                kind = "socket"
                transferred = _count_transfer(number)
                if transferred is not None:
                    kind = _COUNTED_SOCKET
                    position, sent = transferred
                    written = (sent,)
            elif not _is_lasting(status.st_mode):
                continue
            yield number, _DescriptorState(identity, kind, position, written, flags)


def _is_lasting(mode: int) -> bool:
    """Return whether something with this mode is a device or a folder."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)
