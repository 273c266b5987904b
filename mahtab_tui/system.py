"""Processes, programs, folders, waiting, and imports on several threads. Two threads that import a
package and a part of it can deadlock. So the main thread imports its modules after its first
picture, and other threads import the models' libraries after that, one at a time, in their
`turn`."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

_VARIABLES = "LANGSMITH_TRACING_V2 LANGCHAIN_TRACING_V2 LANGSMITH_TRACING LANGCHAIN_TRACING".split()
"""In langsmith's order; the first that is not blank counts."""


def langsmith_variable() -> str:
    """Return the variable that sends prompts and answers to LangSmith; empty if none does."""
    asks = next((name for name in _VARIABLES if os.environ.get(name, "").strip()), "")
    return asks if asks and os.environ[asks] == "true" else ""


def disable_langsmith() -> None:
    for name in _VARIABLES:
        if os.environ.get(name):
            os.environ[name] = "false"


def safe_path() -> str:
    """Return the PATH without its empty and relative entries, which mean the working directory."""
    return os.pathsep.join(
        filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    )


def find_program(name: str) -> str | None:
    return shutil.which(name, path=safe_path())


ResultT = TypeVar("ResultT")

_AGAIN = 0.5


def wait_for_result(future: Future[ResultT]) -> ResultT:
    """Return `future.result()` in the main thread, which a signal just before it sleeps does not
    wake."""
    while True:
        try:
            return future.result(_AGAIN)
        except TimeoutError:
            if future.done():
                return future.result()  # perhaps the error is its own


def start_thread(name: str, work: Callable[..., object], *args: object) -> threading.Thread:
    """Run a function on a daemon thread."""
    thread = threading.Thread(target=work, name=name, args=args, daemon=True)
    thread.start()
    return thread


def existing_folder(path: str) -> str:
    """Return the nearest folder upwards that can be entered; the home folder for a relative
    path."""
    if not os.path.isabs(path):
        return str(Path.home())
    return next(
        folder
        for folder in (path, *map(str, Path(path).parents))
        if folder == os.sep or (os.path.isdir(folder) and os.access(folder, os.X_OK))
    )


def moved_message(gone: str, now: str) -> str:
    return f"The {f'working directory {gone}' if gone else 'old working directory'} can no longer be used; it is now {now}."


def replace_file(
    path: Path, text: str, *, mode: int | None = None, encoding: str = "utf-8"
) -> None:
    """Write a file in one step. A link stays a link. mode: of a new file. Raises `OSError`."""
    target = os.path.realpath(path)
    try:
        handle, draft = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".mahtab-")
    except OSError as error:
        error.filename = str(path)  # not the temporary file's name
        raise
    try:
        with os.fdopen(handle, "w", encoding=encoding, errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        if mode is None:
            mask = os.umask(0o077)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(draft, os.stat(target).st_mode & 0o7777 if os.path.exists(target) else mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


SHELL_CODE = 128
"""A shell adds it to the number of the signal that ended a program."""


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process and its children, if they still run."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def exit_by_signal(number: int) -> NoReturn:
    try:
        import ctypes

        # The default. `signal.signal` works in the main thread only, which may hang.
        ctypes.CDLL(None).signal(number, ctypes.c_void_p(None))
        os.kill(os.getpid(), number)
        time.sleep(1)
    finally:
        os._exit(SHELL_CODE + number)


_TIED = """\
import ctypes, os, sys
parent, number, program = sys.argv[1:4]
ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)  # PR_SET_PDEATHSIG, which the program keeps
if os.getppid() == int(parent):
    try:
        os.execvp(program, sys.argv[3:])
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\\n".encode(errors="replace"))
        os._exit(127)
"""


def tie_to_parent(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """Return a command whose process gets a signal when the *thread* that starts it ends; only on
    Linux. The thread must live as long as the process. The exit code is 127 if the program cannot
    be run."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), str(int(number)), *command]


T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes a value once, for the first thread that needs it; others wait."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._values: list[T] = []

    @classmethod
    def of(cls, value: T) -> Lazy[T]:
        later = cls(lambda: value)
        later.get()
        return later

    @property
    def made(self) -> bool:
        return bool(self._values)

    def get(self) -> T:
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]


class ImportOrder:
    def __init__(self) -> None:
        self._screen_is_done = threading.Event()
        self._screen_is_done.set()  # without a screen nobody waits for one
        self._screen_thread: int | None = None
        self._lock = threading.RLock()

    def screen_begins(self) -> None:
        self._screen_thread = threading.get_ident()
        self._screen_is_done.clear()

    def screen_ends(self) -> None:
        self._screen_is_done.set()

    def wait_for_screen(self) -> None:
        """Wait until the main thread has its modules; it does not wait itself."""
        if threading.get_ident() != self._screen_thread:
            self._screen_is_done.wait()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn to import a large library."""
        self.wait_for_screen()
        with self._lock, _gc_paused():
            yield


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause the garbage collector: modules make hundreds of thousands of objects, which stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


IMPORTS = ImportOrder()
