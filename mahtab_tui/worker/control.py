"""Communicates with the host: calls from cells, interrupts, frames, and answers to requests."""

from __future__ import annotations
import __future__

import errno
import itertools
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable

from .frames import CONNECTION_LOST, MAX_FRAME, TOKEN_SIZE, Frame, encode
from .stdlib import importing_from, late_import, own_module
from .text_tools import mark_as_text
from .tracebacks import OUR_FOLDER

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]
    from .holder import HolderClient

_JSON = (str, int, float, bool, list, tuple, dict, type(None))


def _no_host(name: str, args: dict[str, Any]) -> Any:
    raise RuntimeError("There is no host to call")


class Host:
    call: CallHost = staticmethod(_no_host)

    is_remote = False


def define_function(
    name: str, signature: str, arguments: str, names: dict[str, Any]
) -> Callable[..., Any]:
    """Define a function whose body calls `__call__`. signature: source text, with annotations."""
    # A file name in our folder, so that tracebacks hide it.
    code = compile(
        f"def {name}{signature}:\n    return __call__({arguments})",
        f"{OUR_FOLDER}/functions/{name}",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, names)
    function: Callable[..., Any] = names[name]
    return function


def make_host_function(described: dict[str, Any]) -> Callable[..., str]:
    """Create the function of a `kernel.base.HostFunction`, which may raise `RuntimeError` with the
    host's message."""
    name, parameters = described["name"], described["parameters"]
    signature = ", ".join(
        f"{each}: {annotation}" + (f" = {default}" if default else "")
        for each, annotation, default in parameters
    )
    given = ", ".join(f"{each!r}: {each}" for each, _, _ in parameters)

    def call(arguments: dict[str, Any]) -> str:
        plain = {key: _plain(value) for key, value in arguments.items()}
        return mark_as_text(str(Host.call(described["called"], plain)))

    names: dict[str, Any] = {"__call__": call, "__name__": __name__}
    function = define_function(name, f"({signature}) -> str", f"{{{given}}}", names)
    function.__doc__ = described["doc"]
    return function


def _plain(value: Any) -> Any:
    if type(value) in _JSON:
        return value
    try:
        return value.__index__()
    except Exception:
        return str(value)


class HostCalls:
    """Calls of the host. Nested cells run on the main thread while it waits."""

    def __init__(
        self,
        send: Callable[[Frame], None],
        serve: Callable[[Frame, str | None], None] = lambda frame, refusal: None,
        error: type[Exception] = RuntimeError,
    ) -> None:
        self._send = send
        self._serve = serve
        self._error = error
        self._main = threading.get_ident()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, queue.SimpleQueue[Frame]] = {}
        self._waiting: list[queue.SimpleQueue[Frame]] = []
        self.fork_handler: Callable[[str, dict[str, Any]], Any] | None = None

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call the host and wait for the result. Raises the error with the host's message."""
        if self.fork_handler is not None:
            return self.fork_handler(name, args)
        if name == "terminal":
            sys.audit("mahtab_tui.terminal", args["argv"])
        number, inbox = next(self._ids), queue.SimpleQueue[Frame]()
        with self._lock:
            self._open[number] = inbox
            if threading.get_ident() == self._main:
                self._waiting.append(inbox)
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
        return len(self._waiting)

    def interrupt(self) -> None:
        self.deliver({"op": "interrupt"})

    def deliver(self, frame: Frame) -> bool:
        with self._lock:
            waiting = self._waiting[-1] if self._waiting else None
            inbox = self._open.get(frame["id"]) if frame["op"] == "answer" else waiting
            if inbox is not None:
                inbox.put(frame)
            return inbox is not None

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
    """Turns SIGINT into `KeyboardInterrupt` when that is safe."""

    def __init__(self) -> None:
        self.running = False
        self._shielded = self._pending = False
        self.handled_at = 0.0
        self.requested: int | None = None
        self.cancel_await: Callable[[], bool] = lambda: False
        self.idle_task_in_the_way: Callable[[], bool] = lambda: False

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.running:
            if self.idle_task_in_the_way():
                raise KeyboardInterrupt
            return
        self.handled_at = time.monotonic()
        if self._shielded:
            self._pending = True
            return
        self.requested = None
        if not self.cancel_await():
            raise KeyboardInterrupt

    def install(self) -> None:
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    @contextmanager
    def allowed(self, cell: int | None = None) -> Iterator[None]:
        before = self.running
        try:
            self.running = True
            if cell is not None and self.requested == cell:
                self.handled_at = time.monotonic()
                raise KeyboardInterrupt
            yield
        finally:
            self.running = before

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay interrupts, so that a frame is sent completely or not at all."""
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


class Channel:
    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        limit: int = MAX_FRAME,
        token: bytes = b"",
        holder: HolderClient | None = None,
    ) -> None:
        self.fd = fd
        self.detached = False
        self.link_down = False
        self._holder = holder
        self._limit = limit
        self._token = token
        self._interrupts = interrupts
        self._lock = threading.Lock()
        self._main = threading.get_ident()
        os.register_at_fork(after_in_child=self._close_in_child)

    def send(self, frame: Frame) -> None:
        """Raises `TypeError` or `FrameError`; ends the process if nobody will ever listen."""
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
            if self._holder is not None:
                self._holder.backlog.record(frame)
            if not self.detached:
                self._write_all(data)
        is_absent = self.detached or self.link_down
        if self._holder is not None and is_absent and frame["op"] == "call":
            self._holder.auto_answer()

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            if self._holder is None or error.errno not in _HOST_GONE:
                os._exit(CONNECTION_LOST)
            self.detached = True

    def attach_host(self, fd: int, hello: Frame) -> None:
        """Switch to another host. hello: the first frame it gets, with the backlog."""
        if not self.detached:  # the kernel was taken from the old host, which may not be reading
            with suppress(OSError):
                late_import("socket").socket(fileno=os.dup(self.fd)).shutdown(2)
        token = os.read(fd, TOKEN_SIZE)
        with self._lock:
            os.dup2(fd, self.fd, inheritable=False)
            os.close(fd)
            self._token, self.detached = token, False
            assert self._holder is not None
            story = self._holder.backlog.to_frame()
            self._write_all(encode({**hello, "story": story}, self._limit, token))

    def _close_in_child(self) -> None:
        os.close(self.fd)
        self.fd = -1


class Responder:
    def __init__(
        self,
        send: Callable[[Frame], None],
        namespace: dict[str, Any],
        answers: dict[str, Callable[[Frame], Any]],
        handlers: dict[str, Callable[[Frame], None]],
        version: Callable[[], int | None] = lambda: None,
    ) -> None:
        """answers: return a reply immediately. handlers: send a reply later, if there must be
        one. version: of the namespace, if descriptions may be kept (see `Describer`)."""
        self._send = send
        self._namespace = namespace
        self._version = version
        self._describer: Any = None
        self._inspection: Any = None
        self._inspection_lock = threading.Lock()
        self._side_threads = {
            "inspect": self._describe,
            "describe": self._describe_for_model,
            "inspect_object": self._inspect,
            "complete": self._caller("completion.complete", "complete", "code", "cursor"),
            "explain": self._caller("completion.complete", "explain_at", "code", "cursor"),
            "private_use": self._caller("private_use", "private_use", "names", "codes"),
            "resolve_paths": lambda frame: own_module("protected").resolve_paths(frame["texts"]),
            "installed": _is_installed,
            "packages": lambda frame: own_module("folder").installed_packages(frame["names"]),
            "list_folder": lambda frame: own_module("folder").list_folder(frame["limit"]),
        }
        """On threads, because they may run user code or access a slow disk."""
        self._answers = {**answers, "change_directory": _change_directory}
        # `shutil.get_terminal_size` checks these first.
        self._handlers: dict[str, Callable[[Frame], object]] = {
            **handlers,
            "size": lambda frame: os.environ.update(
                COLUMNS=str(frame["columns"]), LINES=str(frame["lines"])
            ),
        }

    def handle(self, frame: Frame) -> None:
        try:
            op = frame["op"]
            if op in self._side_threads:
                args = frame, self._side_threads[op]
                threading.Thread(target=self.answer, args=args, daemon=True).start()
            elif op in self._answers:
                self.answer(frame, self._answers[op])
            else:
                self._handlers[op](frame)
        except Exception as error:  # whatever a request does, the next one must be answered
            self._reply(frame, error=str(error))

    def answer(self, frame: Frame, work: Callable[[Frame], Any]) -> None:
        try:
            value = work(frame)
        except BaseException as error:  # an object of the user's may raise anything; reply anyway
            self.fail(frame, error)
        else:
            self._reply(frame, value=value)

    def fail(self, frame: Frame, error: BaseException) -> None:
        """Reply with an error's message."""
        if isinstance(error, Exception):
            self._reply(frame, error=str(error) or type(error).__name__)
        else:
            self._reply(frame, error=f"{type(error).__name__} was raised.")

    def _reply(self, frame: Frame, **fields: Any) -> None:
        self._send({"op": "reply", "id": frame.get("id"), **fields})

    def _caller(self, module: str, function: str, *fields: str) -> Callable[[Frame], Any]:
        """Return a function that passes the namespace and these fields of a request."""
        return lambda frame: getattr(own_module(module), function)(
            self._namespace, *(frame[field] for field in fields)
        )

    def _describe(self, frame: Frame) -> Any:
        name = frame["name"]
        if name not in self._namespace:
            raise LookupError(f"There is no variable named {name}.")
        return own_module("description").describe_detail(
            self._namespace, name, run_code=frame["run_code"]
        )

    def _describe_for_model(self, frame: Frame) -> Any:
        if self._describer is None:
            self._describer = own_module("description").Describer(self._namespace, self._version)
        return self._describer.describe(frame["names"], frame["limit"])

    def _inspect(self, frame: Frame) -> Any:
        with self._inspection_lock:
            if self._inspection is None:
                self._inspection = own_module("inspection.inspection").Inspection(self._namespace)
        return self._inspection.answer(frame["request"])


def _change_directory(frame: Frame) -> str:
    os.chdir(os.path.expanduser(frame["path"]))
    return os.getcwd()


def _is_installed(frame: Frame) -> bool:
    here = working_directory()
    try:
        with importing_from([each for each in sys.path if each not in ("", ".", here)]):
            if not frame["load"]:
                return late_import("importlib.util").find_spec(frame["module"]) is not None
            late_import("importlib").import_module(frame["module"])
    except Exception:
        return False
    return True


def working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def python_version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def describe_process() -> Frame:
    return {
        "python": python_version(),
        "executable": sys.executable,
        "cwd": working_directory(),
        "pid": os.getpid(),
    }
