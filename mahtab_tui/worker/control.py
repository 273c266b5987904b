"""Communicates with the host: the control thread, and calls from cells."""

from __future__ import annotations
import __future__

import _thread
import errno
import itertools
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol

from .frames import CONNECTION_LOST, MAX_FRAME, TOKEN_SIZE, Frame, FrameError, FrameReader, encode
from .stdlib import importing_from, late_import
from .text_tools import mark_as_text
from .tracebacks import OUR_FOLDER

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]
    from .holder import HolderClient

_JSON = (str, int, float, bool, list, tuple, dict, type(None))


def _no_host(name: str, args: dict[str, Any]) -> Any:
    raise RuntimeError("There is no host to call")


class Host:
    """Provides the function that this process's tools call; set by `toolbox.install`."""

    call: CallHost = staticmethod(_no_host)

    is_remote = False
    """Whether the host is another machine, which cannot read files of this one."""


def make_host_function(described: dict[str, Any]) -> Callable[..., str]:
    """Create the function of a `kernel.base.HostFunction`. A call of it may raise RuntimeError with
    the host's message."""
    name, called = described["name"], described["called"]
    parameters = [
        f"{each}: {annotation}" + (f" = {default}" if default else "")
        for each, annotation, default in described["parameters"]
    ]
    given = ", ".join(f"{each!r}: {each}" for each, _, _ in described["parameters"])

    def call(arguments: dict[str, Any]) -> str:
        return mark_as_text(
            str(Host.call(called, {key: _plain(value) for key, value in arguments.items()}))
        )

    source = f"def {name}({', '.join(parameters)}) -> str:\n    return __call__({{{given}}})"
    # A file name in our folder, so that tracebacks hide it.
    code = compile(
        source,
        f"{OUR_FOLDER}/host_functions/{name}",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    made: dict[str, Any] = {"__call__": call, "__name__": __name__}
    exec(code, made)
    made[name].__doc__ = described["doc"]
    function: Callable[..., str] = made[name]
    return function


def _plain(value: Any) -> Any:
    """Convert a value for JSON: numbers of other libraries to numbers; other objects, such as
    paths, to strings."""
    if type(value) in _JSON:
        return value
    try:
        return value.__index__()
    except Exception:  # raised by the object's code
        return str(value)


Serve = Callable[[Frame, Optional[str]], None]
"""Runs a nested cell, or refuses it with a sentence."""


class HostCalls:
    """The open calls of the host. Any thread may make one; nested cells run on the main thread
    while it waits."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        serve: Serve = lambda frame, refusal: None,
        error: type[Exception] = RuntimeError,
    ) -> None:
        """error: raised with the host's message."""
        self._send = send
        self._serve = serve
        self._error = error
        self._main = threading.get_ident()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, queue.SimpleQueue[Frame]] = {}
        self._waiting: list[queue.SimpleQueue[Frame]] = []
        self.fork_handler: Callable[[str, dict[str, Any]], Any] | None = None
        """Serves calls in a fork, which has no host."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the result (JSON values both ways). Raises the error with the
        host's message."""
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        if name == "terminal":
            sys.audit("mahtab_tui.terminal", args["argv"])
        number = next(self._ids)
        inbox: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._open_call(number, inbox)
        try:
            self._send({"op": "call", "id": number, "name": name, "args": args})
            while True:
                frame = inbox.get()
                if frame["op"] == "execute":
                    self._serve(frame, None)
                elif frame["op"] == "interrupt":
                    raise KeyboardInterrupt
                elif "error" in frame:
                    raise self._error(frame["error"])
                else:
                    return frame["value"]
        except KeyboardInterrupt:
            self._send({"op": "cancelled", "id": number})
            raise
        finally:
            self._close_call(number, inbox)

    @property
    def waiting(self) -> int:
        """Number of open nested calls of the main thread."""
        return len(self._waiting)

    def interrupt(self) -> None:
        """End the main thread's innermost wait, for hosts that cannot send signals."""
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        """Deliver an answer or a nested cell; returns False if nobody waits for it. Called by the
        control thread."""
        with self._lock:
            waiting = self._waiting[-1] if self._waiting else None
            inbox = self._open.get(frame["id"]) if frame["op"] == "answer" else waiting
            if inbox is None:
                return False
            inbox.put(frame)
            return True

    def _open_call(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            self._open[number] = inbox
            if threading.get_ident() == self._main:
                self._waiting.append(inbox)

    def _close_call(self, number: int, inbox: queue.SimpleQueue[Frame]) -> None:
        with self._lock:
            del self._open[number]
            if inbox in self._waiting:
                self._waiting.remove(inbox)
        while not inbox.empty():
            frame = inbox.get()
            if frame["op"] == "execute":
                self._serve(frame, "the cell that asked for it no longer waits")


class Interrupts:
    """Turns SIGINT into `KeyboardInterrupt` when that is safe. Used only by the main thread."""

    def __init__(self) -> None:
        self.running = False
        """Whether a cell's code (or a `__repr__` of the user's) is running."""
        self._shielded = False
        self._pending = False
        self.handled_at = 0.0
        """When an interrupt last reached the user's code, on the clock of `now`."""
        self.requested: int | None = None
        """The cell to stop, stored because the signal may come before the cell starts."""
        self.cancel_await: Callable[[], bool] = lambda: False
        """Stops a top-level `await` that only waits; returns False if there is none."""
        self.idle_task_in_the_way: Callable[[], bool] = lambda: False
        """Returns whether a background task keeps the next cell from running."""

    now = staticmethod(time.monotonic)
    """Seconds on a clock that the host can also read."""

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.running:
            if self.idle_task_in_the_way():
                raise KeyboardInterrupt
            return
        self.handled_at = self.now()
        if self._shielded:
            self._pending = True
            return
        self.requested = None
        if not self.cancel_await():
            raise KeyboardInterrupt

    def install(self) -> None:
        """Install our handler, again if necessary, and unblock SIGINT."""
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    @contextmanager
    def allowed(self, cell: int | None = None) -> Iterator[None]:
        """Allow interrupts to raise within this context. Can be nested, because a cell may run
        while another waits for the host."""
        before = self.running
        try:
            self.running = True
            if cell is not None and self.requested == cell:
                self.handled_at = self.now()
                raise KeyboardInterrupt
            yield
        finally:
            self.running = before

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay interrupts to the end of this context, so that a frame is sent completely or not at
        all."""
        if self._shielded:
            yield
            return
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt


_HOST_GONE = frozenset({errno.EPIPE, errno.ECONNRESET})

FLUSH_EVERY = 50
"""Milliseconds between two flushes of a running cell's output."""


class Channel:
    """Sends complete frames, one after the other, from any thread."""

    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        limit: int = MAX_FRAME,
        token: bytes = b"",
        holder: HolderClient | None = None,
    ) -> None:
        """holder: the holder with which the kernel may outlive its host; None for none."""
        self.fd = fd
        self.holder = holder
        self.detached = False
        """Whether there is no host now."""
        self.link_down = False
        """Whether there is a host that is not connected now."""
        self.auto_reply: Callable[[int], None] = lambda number: None
        """Answers a call that needs no host."""
        self._limit = limit
        self._token = token
        self._interrupts = interrupts
        self._lock = threading.Lock()
        self._main = threading.get_ident()
        os.register_at_fork(after_in_child=self._close_in_child)

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `TypeError` or `FrameError` if it cannot be encoded; ends the
        process if nobody listens, and nobody will."""
        if threading.get_ident() == self._main:
            with self._interrupts.shielded():
                self._write(frame)
        else:
            self._write(frame)

    def _write(self, frame: Frame) -> None:
        if self.fd < 0:
            raise RuntimeError("a forked process cannot reach the session")
        with self._lock:
            data = encode(frame, self._limit, self._token)  # with the token of the current host
            if self.holder is not None:
                self.holder.backlog.record(frame)
            if not self.detached:
                self._write_all(data)
        if (self.detached or self.link_down) and frame["op"] == "call":
            self.auto_reply(frame["id"])

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            if self.holder is None or error.errno not in _HOST_GONE:
                os._exit(CONNECTION_LOST)
            self.detached = True

    def detach_host(self) -> None:
        """Note that the host has ended, so that all later events are for the next one."""
        with self._lock:
            self.detached = True

    def attach_host(self, fd: int, hello: Frame) -> None:
        """Switch to another host. `hello` is the first frame it gets, with the backlog. fd:
        replaces the old connection."""
        if not self.detached:  # the kernel was taken from the old host, which may not be reading
            with suppress(OSError):
                late_import("socket").socket(fileno=os.dup(self.fd)).shutdown(2)
        token = os.read(fd, TOKEN_SIZE)
        with self._lock:
            os.dup2(fd, self.fd, inheritable=False)
            os.close(fd)
            self._token, self.detached = token, False
            assert self.holder is not None
            self._write_all(
                encode({**hello, "story": self.holder.backlog.to_frame()}, self._limit, token)
            )

    def _close_in_child(self) -> None:
        """Close the connection in a forked child, because it belongs to the parent."""
        os.close(self.fd)
        self.fd = -1


class DetachController(Protocol):
    """The interface of `holder.DetachController`, which imports this file."""

    fd: int

    def poll_timeout(self) -> int | None: ...

    def has_expired(self) -> bool: ...

    def on_holder_message(self) -> bool: ...

    def on_host_closed(self) -> bool: ...


class Control:
    """Reads frames from the host, and passes them on."""

    def __init__(
        self,
        channel: Channel,
        handle: Callable[[Frame], None],
        active: Callable[[], bool],
        flush: Callable[[], None],
        repair: Callable[[], None],
        ended: Callable[[], None],
        detach_controller: DetachController | None = None,
    ) -> None:
        """detach_controller: keeps the kernel alive without a host; None if it ends with its host."""
        self._channel = channel
        self._handle = handle
        self._active = active
        self._flush = flush
        self._repair = repair
        self._ended = ended
        self._detach_controller = detach_controller
        self._reader = FrameReader()
        self._host_gone = False
        """Whether the host closed its connection and everything it sent was read."""

    def run(self) -> None:
        # The signal is for the main thread, because only there does it end a `sleep`.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        was_busy = False
        while True:
            try:
                busy = self._active() or _thread._count() > 1
                # Once more, because a thread may have printed just before its end.
                active, was_busy = (
                    busy or was_busy,
                    busy,
                )
                ready = self._ready(active)
                if active:
                    self._flush()
                if not self._serve(ready):
                    break
            except FrameError:  # code has read from the descriptor, or closed it
                os._exit(CONNECTION_LOST)
            except:  # noqa: E722  (the thread's outermost frame; even the name BaseException may be gone)
                self._repair()
        self._ended()

    def _ready(self, active: bool) -> list[int]:
        """Wait for the host or the holder; returns the descriptors that can be read."""
        poll = select.poll()
        if not self._host_gone:
            poll.register(self._channel.fd, select.POLLIN)
        if self._detach_controller is not None and self._detach_controller.fd >= 0:
            poll.register(self._detach_controller.fd, select.POLLIN)
        return [
            fd
            for fd, _ in poll.poll(
                FLUSH_EVERY
                if active
                else None
                if self._detach_controller is None
                else self._detach_controller.poll_timeout()
            )
        ]

    def _serve(self, ready: list[int]) -> bool:
        """Serve the host; returns whether the kernel continues."""
        if self._channel.fd in ready and not self._read():
            return False
        controller = self._detach_controller
        if controller is None:
            return True
        if controller.fd in ready:
            # Remaining data from the previous host.
            while not self._host_gone and select.select([self._channel.fd], [], [], 0)[0]:
                if not self._read():
                    return False
            if not controller.on_holder_message():
                return False
            self._reader, self._host_gone = FrameReader(), self._channel.detached
        return not controller.has_expired()

    def _read(self) -> bool:
        """Read data from the host; returns whether the kernel continues."""
        data = os.read(self._channel.fd, 65536)
        for frame in self._reader.feed(data):
            self._handle(frame)
        self._host_gone = not data
        return bool(data) or (
            self._detach_controller is not None and self._detach_controller.on_host_closed()
        )


class Responder:
    """Answers requests of the host, by the frames' op."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        namespace: dict[str, Any],
        answers: dict[str, Callable[[Frame], Any]],
        handlers: dict[str, Callable[[Frame], None]],
    ) -> None:
        """send: sends a reply, from any thread. answers: return a reply immediately. handlers: send a
        reply later, if there must be one."""
        self._send = send
        self._namespace = namespace
        self._inspection: Any = None
        self._inspection_lock = threading.Lock()
        self._side_threads = {
            "inspect": self._describe,
            "describe": lambda frame: late_import(f"{__package__}.description").describe(
                namespace, frame["names"], frame["limit"]
            ),
            "inspect_object": self._inspect,
            "complete": lambda frame: late_import(f"{__package__}.completion.complete").complete(
                namespace, frame["code"], frame["cursor"]
            ),
            "explain": self._explain,
            "private_use": lambda frame: late_import(f"{__package__}.private_use").private_use(
                namespace, frame["names"], frame["codes"]
            ),
            "installed": _is_installed,
        }
        """Handled on threads, because describing may run user code, and completing may access a
        slow disk."""
        self._answers = {**answers, "change_directory": _change_directory}
        self._handlers = {**handlers, "size": _set_size}

    def handle(self, frame: Frame) -> None:
        """Answer a frame, or let a handler do it."""
        try:
            op = frame["op"]
            if op in self._side_threads:
                threading.Thread(
                    target=self.answer, args=(frame, self._side_threads[op]), daemon=True
                ).start()
            elif op in self._answers:
                self.answer(frame, self._answers[op])
            else:
                self._handlers[op](frame)
        except Exception as error:  # whatever a request does, the next one must be answered
            self._reply(frame, error=str(error))

    def answer(self, frame: Frame, work: Callable[[Frame], Any]) -> None:
        """Reply with the result of `work`, or with the error that it raises."""
        try:
            reply = {"value": work(frame)}
        except Exception as error:
            reply = {"error": str(error) or type(error).__name__}
        except BaseException as error:  # an object of the user's raised it; reply anyway
            reply = {"error": f"{type(error).__name__} was raised."}
        self._reply(frame, **reply)

    def _reply(self, frame: Frame, **fields: Any) -> None:
        self._send({"op": "reply", "id": frame.get("id"), **fields})

    def _describe(self, frame: Frame) -> Any:
        name = frame["name"]
        if name not in self._namespace:
            raise LookupError(f"There is no variable named {name}.")
        return late_import(f"{__package__}.description").describe_detail(
            self._namespace, name, run_code=frame["run_code"]
        )

    def _inspect(self, frame: Frame) -> Any:
        module = late_import(f"{__package__}.inspection.inspection")
        with self._inspection_lock:
            if self._inspection is None:
                self._inspection = module.Inspection(self._namespace)
        return self._inspection.answer(frame["request"])

    def _explain(self, frame: Frame) -> Any:
        return late_import(f"{__package__}.completion.complete").explain_at(
            self._namespace, frame["code"], frame["cursor"]
        )


def _change_directory(frame: Frame) -> str:
    os.chdir(os.path.expanduser(frame["path"]))
    return os.getcwd()


def _is_installed(frame: Frame) -> bool:
    """Return whether a module can be imported from anywhere except the working directory; on
    request, also import it."""
    here = working_directory()
    try:
        with importing_from([each for each in sys.path if each not in ("", ".", here)]):
            if not frame["load"]:
                return late_import("importlib.util").find_spec(frame["module"]) is not None
            late_import("importlib").import_module(frame["module"])
    except Exception:  # a broken package, which is reported by the cell that needs it
        return False
    return True


def _set_size(frame: Frame) -> None:
    """Tell the user's libraries how wide the screen is, in variables that
    `shutil.get_terminal_size` checks first."""
    os.environ["COLUMNS"], os.environ["LINES"] = str(frame["columns"]), str(frame["lines"])


def working_directory() -> str:
    """Return the kernel's working directory; empty if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def python_version() -> str:
    return ".".join(map(str, sys.version_info[:3]))
