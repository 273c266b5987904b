"""A forked process that keeps an earlier state, and objects on their way between processes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import io
import marshal
import os
import pickle
import select
import signal
import struct
import sys
import time
import types
from _socket import socketpair
from collections.abc import Iterator, Sequence
from importlib.util import MAGIC_NUMBER
from typing import Any, Callable, NoReturn

from ..values.objects import ATOMS, MISSING, address_of, get_if_loaded, is_subclass
from .opaque import opaque_kind
from .parts import read_cell_contents

_FRAME = struct.Struct("!?Q")
"""Header: whether the data are an answer or the reason for having none, and their length."""
_READY = b"."
START_TIMEOUT_S = 10.0
"""Seconds."""
_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_LOWEST_FD = 500
"""Cells close low descriptors, and open files with their numbers."""
_FOREVER = float("inf")

Responder = Callable[[Any], Any]

_MISSING = 0
_NAMESPACE = 1


class CheckpointError(Exception):
    """The message is a sentence for the user."""


class Checkpoint:
    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd

    def ask(
        self, question: object, seconds: float, meanwhile: Callable[[], object] = lambda: None
    ) -> Any:
        """Ask the process, and run `meanwhile` until it answers; kill it after `seconds`. Raises
        `CheckpointError`."""
        until = time.monotonic() + seconds
        try:
            _send(self._fd, pickle.dumps(question, 4), until)
            meanwhile()
            reply = _receive(self._fd, until)
        except TimeoutError:
            self.end()
            raise CheckpointError(
                f"The state before this cell could not be read within {seconds:.0f} s."
            ) from None
        except OSError:
            self.end()
            raise CheckpointError(
                "The process that keeps the state before this cell has ended."
            ) from None
        if isinstance(reply, str):
            raise CheckpointError(reply)
        return pickle.loads(reply)

    def end(self) -> None:
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # already closed or awaited by somebody else
            os.close(self._fd)
            os.kill(self.pid, signal.SIGKILL)
        self._fd = -1

    def has_exited(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except OSError:
            return True

    def wait(self) -> None:
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0)


def fork(answer: Responder) -> Checkpoint:
    """Fork a checkpoint; return once it has closed its copies of files and ports. Raises
    `OSError`."""
    low_fd, theirs = (end.detach() for end in socketpair())
    ours = low_fd
    with contextlib.suppress(OSError):  # the process may not have so many descriptors
        ours = fcntl.fcntl(low_fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
        os.close(low_fd)
    os.set_blocking(ours, False)
    try:
        pid = fork_uninterrupted()
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    if pid == 0:
        _serve_checkpoint(theirs, answer)
    os.close(theirs)
    checkpoint = Checkpoint(pid, ours)
    try:
        _read_exactly(ours, len(_READY), time.monotonic() + START_TIMEOUT_S)
    except OSError:
        checkpoint.end()
        raise
    return checkpoint


def fork_uninterrupted() -> int:
    """Fork a process that ignores interrupts, which reach the kernel's whole process group."""
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = -1
    try:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    return pid


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# The forked process


def _serve_checkpoint(fd: int, answer: Responder) -> NoReturn:
    """Answer until the kernel has gone. The exit runs no code of the kernel and flushes nothing."""
    try:
        gc.disable()
        sys.settrace(None)
        sys.setprofile(None)
        for name in "TERM HUP ALRM CHLD USR1 USR2".split():
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_PTRACER, os.getppid())
        _close_all_but(fd)
        os.write(fd, _READY)
        # Let Linux end this process before others if memory runs out.
        with (
            contextlib.suppress(OSError),
            open("/proc/self/oom_score_adj", "w", encoding="ascii") as score,
        ):
            score.write("1000")
        while True:
            question: Any = _receive(fd)
            reply: bytes | str
            try:
                reply = pickle.dumps(answer(pickle.loads(question)), 4)
            except Exception as error:  # whatever one question does, the next must be answered
                reply = str(error) or type(error).__name__
            _send(fd, reply)
    except BaseException:  # the process's outermost frame
        os._exit(1)


def _close_all_but(fd: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        number = int(name)
        if number > 2 and number != fd:
            with contextlib.suppress(OSError):
                os.close(number)


# Both processes


def _send(fd: int, reply: bytes | str, until: float = _FOREVER) -> None:
    """reply: an answer, or the reason for having none."""
    good = isinstance(reply, bytes)
    if isinstance(reply, bytes):
        data = reply
    else:
        data = reply.encode("utf-8", "replace")
    for part in (_FRAME.pack(good, len(data)), data):
        view = memoryview(part)
        while view:
            _wait(fd, select.POLLOUT, until)
            view = view[os.write(fd, view[:65536]) :]


def _receive(fd: int, until: float = _FOREVER) -> bytes | str:
    good, size = _FRAME.unpack(_read_exactly(fd, _FRAME.size, until))
    data = _read_exactly(fd, size, until)
    if good:
        return data
    return data.decode("utf-8", "replace")


def _read_exactly(fd: int, size: int, until: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        _wait(fd, select.POLLIN, until)
        data = os.read(fd, min(size - len(received), 2**20))
        if not data:
            raise ConnectionResetError("nobody is there")
        received += data
    return bytes(received)


def _wait(fd: int, event: int, until: float) -> None:
    if until == _FOREVER:
        return
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError


Write = Callable[[Any], bytes]


def run_in_fork(
    values: Sequence[object],
    write: Write,
    timeout_each: float,
    together: float,
    progress: Callable[[], int] = lambda: 0,
) -> Iterator[bytes | str]:
    """Yield, for each object, its bytes or the reason why there are none. timeout_each: seconds without
    progress for one object. together: seconds for all. The process is forked again after an object
    that hangs or kills it."""
    until = time.monotonic() + together
    done = 0
    while done < len(values):
        if time.monotonic() > until:
            yield from ["there was no time to examine it"] * (len(values) - done)
            return
        for result in _run(values[done:], write, timeout_each, until, progress):
            done += 1
            yield result


def _run(
    values: Sequence[object],
    write: Write,
    timeout_each: float,
    until: float,
    progress: Callable[[], int],
) -> Iterator[bytes | str]:
    """Yield the results up to the first object that hangs or kills the process."""
    out, into = os.pipe()
    pid = fork_uninterrupted()
    if pid == 0:
        _write_all(values, write, into)
    os.close(into)
    try:
        for _ in values:
            try:
                _wait_for_progress(out, timeout_each, until, progress)
                result = _receive(out, until)
            except TimeoutError:
                yield f"writing it took longer than {timeout_each:.0f} s"
                return
            except ConnectionResetError:
                yield "writing it crashed the process"
                return
            yield result
    finally:
        os.close(out)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # code of the user's waits for all children
            os.waitpid(pid, 0)


def _wait_for_progress(fd: int, timeout: float, until: float, progress: Callable[[], int]) -> None:
    last_progress = progress()
    while True:
        try:
            return _wait(fd, select.POLLIN, min(until, time.monotonic() + timeout))
        except TimeoutError:
            new_progress = progress()
            if new_progress == last_progress or time.monotonic() > until:
                raise
            last_progress = new_progress


def _write_all(values: Sequence[object], write: Write, into: int) -> NoReturn:
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for value in values:
            try:
                result: bytes | str = write(value)
            except BaseException as error:
                result = _failure_reason(error)
            _send(into, result)
    finally:
        os._exit(0)


class UnpicklableError(Exception):
    """The message says why."""


def _failure_reason(error: BaseException) -> str:
    if isinstance(error, UnpicklableError):
        return str(error)
    try:
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    except BaseException:  # its text comes from user code
        return f"it cannot be pickled ({type(error).__name__})"


# Objects as bytes


class PythonVersionError(Exception):
    """Bytecode of another version of Python."""


def reduce_object(value: Any, namespace: dict[str, Any]) -> object:
    """Implement `reducer_override`."""
    cls = type(value)
    if cls is types.FunctionType and value.__globals__ is namespace:
        names = "__qualname__", "__doc__", "__annotations__"
        described = {name: getattr(value, name) for name in names}
        fields = (value.__defaults__, value.__kwdefaults__, value.__dict__, described)
        arguments = (value.__code__, namespace, value.__name__, value.__closure__)
        return _function, arguments, fields, None, None, _set_function
    if cls is types.CodeType:
        return _code, (_magic(), marshal.dumps(value))
    if cls is types.CellType:
        return types.CellType, (), tuple(read_cell_contents(value)), None, None, _set_cell
    if cls is get_if_loaded("numpy", "ndarray"):
        return _reduce_array(value)
    if cls is get_if_loaded("pandas._libs.internals", "BlockValuesRefs"):
        holders = [reference() for reference in value.referenced_blocks]
        return _refs, ([holder for holder in holders if holder is not None],)
    if cls is get_if_loaded("pandas._libs.internals", "BlockPlacement"):
        return cls, (value.indexer,)
    return NotImplemented


def _magic() -> bytes:
    return bytes(MAGIC_NUMBER)


def _code(magic: bytes, data: bytes) -> object:
    if magic != _magic():  # the bytecode of another version can crash the interpreter
        raise PythonVersionError
    return marshal.loads(data)


def _function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: Any
) -> types.FunctionType:
    return types.FunctionType(code, namespace, name, None, closure)


def _set_function(function: types.FunctionType, fields: Any) -> None:
    function.__defaults__ = fields[0]
    function.__kwdefaults__ = fields[1]
    function.__dict__.update(fields[2])
    for name, value in fields[3].items():
        setattr(function, name, value)


def _refs(holders: list[Any]) -> object:
    """Make pandas' notes about blocks and indexes that share their data."""
    references = get_if_loaded("pandas._libs.internals", "BlockValuesRefs")()
    for holder in holders:
        is_block = is_subclass(type(holder), get_if_loaded("pandas._libs.internals", "Block"))
        (references.add_reference if is_block else references.add_index_reference)(holder)
    return references


def _set_cell(cell: Any, fields: Any) -> None:
    if fields[0] is not MISSING:
        cell.cell_contents = fields[0]


def _reduce_array(array: Any) -> object:
    """Reduce a view so that it stays a view."""
    owner = array.base
    if type(owner) is not type(array) or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        if array.flags.writeable:
            return NotImplemented
        return (_read_only, (array.copy(order="K"),))
    offset = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return _view, (owner, array.shape, array.dtype, offset, array.strides, array.flags.writeable)


def _read_only(array: Any) -> object:
    array.flags.writeable = False
    return array


def _view(owner: Any, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool) -> object:
    view = get_if_loaded("numpy", "ndarray")(
        shape, dtype, owner if owner.flags.c_contiguous else owner.T, offset, strides
    )
    if not writeable:
        view.flags.writeable = False
    return view


def dump_state(value: object, alive: set[int], namespace: dict[str, object]) -> bytes:
    """Pickle a value, with addresses in place of `alive` objects. Raises what an object raises."""
    harmless: dict[int, type] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, item: object) -> int | None:
            if address_of(type(item)) in ATOMS:
                return None
            if address_of(item) in alive:
                return address_of(item)
            if item is MISSING:
                return _MISSING
            if item is namespace:
                return _NAMESPACE
            if address_of(type(item)) not in harmless:
                if (kind := opaque_kind(type(item))) is not None:
                    raise UnpicklableError(f"{kind.noun} cannot be restored")
                harmless[address_of(type(item))] = type(item)
            return None

        def reducer_override(self, item: object) -> Any:
            return reduce_object(item, namespace)

    buffer = io.BytesIO()
    Pickler(buffer, 4).dump(value)
    return buffer.getvalue()


def load_state(data: bytes, at: Callable[[int], object], namespace: dict[str, object]) -> Any:
    """Unpickle a value. at: returns the living object at an address."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, address: int) -> object:
            if address == _MISSING:
                return MISSING
            if address == _NAMESPACE:
                return namespace
            return at(address)

    return Unpickler(io.BytesIO(data)).load()
