"""What all parts of the program use of the system: programs, folders, files, threads and signals.

`ImportOrder` says who imports when. Two threads that import a package and a part of it can deadlock, so
the main thread imports its modules after its first picture, and other threads import the models'
libraries after that, one at a time, in their `turn`.
"""

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
from types import FrameType
from typing import Any, Generic, NoReturn, Self, TypeVar

LANGSMITH_VARIABLES = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
"""The variables in langsmith's order; the first that is not blank counts."""
RESULT_CHECK_INTERVAL_S = 0.5
"""Seconds after which a waiting thread looks whether a result has come."""
SHELL_SIGNAL_CODE = 128
"""A shell adds it to the number of the signal that ended a program."""

_TERMINATION_NAMES = "HUP INT QUIT ABRT ALRM TERM USR1 USR2 XCPU IO PWR STKFLT".split()
_TERMINATION_NUMBERS = (getattr(signal, f"SIG{name}", None) for name in _TERMINATION_NAMES)
TERMINATION_SIGNALS = tuple(number for number in _TERMINATION_NUMBERS if number is not None)
SAVE_TIMEOUT_S = 5.0
"""Seconds for saving data when a signal ends the program."""
WRITE_TIMEOUT_S = 1.0
"""Seconds for each write to the terminal when a signal ends the program."""

_HANDLING_TIMEOUT_S = SAVE_TIMEOUT_S + 3 * WRITE_TIMEOUT_S
"""Seconds for everything that has to be done when a signal ends the program."""

TIED_PROGRAM = """\
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
"""Runs a program that gets a signal when the thread that started it ends; see `tie_to_parent`."""

T = TypeVar("T")
ResultT = TypeVar("ResultT")


def langsmith_variable() -> str:
    """Return the variable that sends prompts and answers to LangSmith; empty if none does."""
    for name in LANGSMITH_VARIABLES:
        value = os.environ.get(name, "")
        if value.strip():
            return name if value == "true" else ""
    return ""


def disable_langsmith() -> None:
    """Send nothing to LangSmith from now on."""
    for name in LANGSMITH_VARIABLES:
        if os.environ.get(name):
            os.environ[name] = "false"


def safe_path() -> str:
    """Return the PATH without its empty and relative entries, which mean the working directory."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, folders))


def find_program(name: str) -> str | None:
    """Return the path of a program; None if there is none on the safe path."""
    return shutil.which(name, path=safe_path())


def wait_for_result(future: Future[ResultT]) -> ResultT:
    """Return `future.result()` in the main thread, which a signal just before it sleeps does not
    wake."""
    while True:
        try:
            return future.result(RESULT_CHECK_INTERVAL_S)
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
    for folder in (path, *map(str, Path(path).parents)):
        if os.path.isdir(folder) and os.access(folder, os.X_OK):
            return folder
    return os.sep


def moved_message(old_folder: str, new_folder: str) -> str:
    """Return a sentence saying that the working directory had to change.

    Args:
        old_folder: The old one; empty if it is unknown.
        new_folder: The new one.
    """
    name = f"working directory {old_folder}" if old_folder else "old working directory"
    return f"The {name} can no longer be used; it is now {new_folder}."


def replace_file(
    path: Path, text: str, *, mode: int | None = None, encoding: str = "utf-8"
) -> None:
    """Write a file in one step. A link stays a link.

    Args:
        path: The file.
        text: Its new content.
        mode: The mode of a new file; by default what the process's mask leaves.
        encoding: What cannot be encoded becomes a question mark.

    Raises:
        OSError: The file cannot be written. The error names it.
    """
    target = os.path.realpath(path)
    try:
        descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".mahtab-")
    except OSError as error:
        error.filename = str(path)  # not the temporary file's name
        raise
    try:
        with os.fdopen(descriptor, "w", encoding=encoding, errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        if os.path.exists(target):
            mode = os.stat(target).st_mode & 0o7777
        elif mode is None:
            # The mask can only be read by setting it.
            mask = os.umask(0o077)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        os.unlink(draft)
        raise


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process and its children, if they still run."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def exit_by_signal(number: int) -> NoReturn:
    """End the process as a signal would end it, so that whoever started it sees the signal."""
    try:
        import ctypes

        # The default. `signal.signal` works in the main thread only, which may hang.
        ctypes.CDLL(None).signal(number, ctypes.c_void_p(None))
        os.kill(os.getpid(), number)
        time.sleep(1)
    finally:
        os._exit(SHELL_SIGNAL_CODE + number)


def run_with_timeout(seconds: float, work: Callable[[], object]) -> None:
    """Run a function on a thread, and wait for its end only so long."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)


@contextmanager
def signal_handled_by(
    number: int, handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    """Call a function when a signal comes; only in the main thread, as Python demands."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous_handler)


class TerminationHandler:
    """Ends the program on a thread, because Python's own handlers wait for the main thread."""

    def __init__(
        self,
        on_shutdown: Callable[[], object] = lambda: None,
        signals: Sequence[int] = TERMINATION_SIGNALS,
    ) -> None:
        """
        Args:
            on_shutdown: Saves data, on a thread, for at most `SAVE_TIMEOUT_S`.
            signals: Those that end the program.
        """
        self._on_shutdown = on_shutdown
        self._signals = signals
        self._previous_handlers: dict[int, Any] = {}
        self._write_end = -1
        """Where Python writes the numbers of signals, for our thread; -1 before that exists."""

    def release_terminal(self) -> None:
        """Give the terminal back as it was; a subclass knows how."""

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True).start()
        self._previous_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in self._signals:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._write_end < 0:
            return
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._write_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # While another program has the terminal, `set_wakeup_fd` writes nothing.
        os.write(self._write_end, bytes([number]))
        threading.Event().wait(_HANDLING_TIMEOUT_S)
        os._exit(SHELL_SIGNAL_CODE + number)

    def _watch(self, read_end: int) -> None:
        """End the program when one of the signals comes. Runs on a thread."""
        while numbers := os.read(read_end, 64):
            for number in numbers:
                if number in self._previous_handlers:
                    self._exit(number)
        os.close(read_end)

    def _exit(self, number: int) -> None:
        try:
            run_with_timeout(SAVE_TIMEOUT_S, self._on_shutdown)
            self.release_terminal()
        finally:
            exit_by_signal(number)


def tie_to_parent(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """Return a command whose process gets a signal when the *thread* that starts it ends; only on
    Linux. The thread must live as long as the process. The exit code is 127 if the program cannot
    be run."""
    if sys.platform != "linux":
        return list(command)
    parent = str(os.getpid())
    python = [sys.executable, "-I", "-S", "-c", TIED_PROGRAM]
    return [*python, parent, str(int(number)), *command]


class Lazy(Generic[T]):
    """Makes a value once, for the first thread that needs it; others wait."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._values: list[T] = []

    @classmethod
    def of(cls, value: T) -> Lazy[T]:
        """Return a value that exists already."""
        lazy = cls(lambda: value)
        lazy.get()
        return lazy

    @property
    def made(self) -> bool:
        """Whether the value exists."""
        return bool(self._values)

    def get(self) -> T:
        """Return the value, which the first call makes."""
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]


class ImportOrder:
    """Lets one thread at a time import large libraries, after the main thread's modules."""

    def __init__(self) -> None:
        self._screen_is_done = threading.Event()
        self._screen_is_done.set()  # without a screen nobody waits for one
        self._screen_thread: int | None = None
        self._lock = threading.RLock()
        self.freezes_modules = False
        """Whether the garbage collector never goes through what exists after an import. Only for a
        process of ours, because what is garbage at that time stays forever."""

    def screen_begins(self) -> None:
        """Let other threads wait until `screen_ends`."""
        self._screen_thread = threading.get_ident()
        self._screen_is_done.clear()

    def screen_ends(self) -> None:
        """Let other threads import; the main thread has its modules, or the screen is closed."""
        self._screen_is_done.set()

    def wait_for_screen(self) -> None:
        """Wait until the main thread has its modules; it does not wait itself."""
        if threading.get_ident() != self._screen_thread:
            self._screen_is_done.wait()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn to import a large library."""
        self.wait_for_screen()
        with self._lock, self._gc_paused():
            yield

    @contextmanager
    def _gc_paused(self) -> Iterator[None]:
        """Pause the garbage collector: modules make hundreds of thousands of objects, which stay."""
        module_count = len(sys.modules)
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                # Else the next collection would go through all of them, and all threads would wait.
                # A turn without new modules freezes nothing: it would only keep garbage.
                if self.freezes_modules and len(sys.modules) > module_count:
                    gc.freeze()
                gc.enable()


IMPORTS = ImportOrder()
