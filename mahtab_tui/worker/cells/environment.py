"""Streams, builtins and signals of the process while a cell runs, and the audit events that it raises.

A cell may replace or close any of them; whatever it leaves is put right when it ends.
"""

from __future__ import annotations

import builtins
import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TextIO

from ..link.descriptors import duplicate_high
from ..link.interrupts import Interrupts
from ..values.objects import MISSING
from .capture import ErrorStream, flush, open_stdout
from .library_imports import LibraryImports
from .tracebacks import format_safely

AuditHandler = Callable[[str, tuple[Any, ...]], None]
"""Gets the name of an audit event and its arguments. What it raises ends the operation."""

_FLUSH_BEFORE = "subprocess.Popen os.system os.posix_spawn os.exec os.spawn pty.spawn".split()
"""Events after which another process writes to fd 1 and 2."""

_MAX_LOADED_FILES = 500
"""Files read by cells that are remembered."""
_UNLISTED_FOLDERS = (sys.prefix, sys.base_prefix, "/usr/", "/proc/", "/dev/")
"""Files in these folders are not noted as read by a cell."""

_MIN_RECURSION_DEPTH = 400
"""A cell may set less, which is not enough for the kernel's own code."""
_DEFAULT_RECURSION_DEPTH = 1000
"""What a cell gets that has set less."""
_LOWEST_PIPE_FD = 32
"""Cells close low descriptors, and open files with their numbers."""


class CellEnvironment:
    """Redirects streams, builtins and signals. Create it after our names are in builtins."""

    _builtins_now: dict[str, object] = builtins.__dict__
    """Found here although a cell has replaced the module."""

    def __init__(
        self, main: ModuleType, interrupts: Interrupts, on_asyncio: Callable[[], None]
    ) -> None:
        """Open the streams, and begin to hear audit events.

        Args:
            main: The module of the user's namespace.
            interrupts: Handles signals while a cell runs.
            on_asyncio: Called when a cell imports asyncio.
        """
        self._main = main
        self.imports = LibraryImports(main.__dict__, interrupts, on_asyncio)
        """Fits libraries that cells import."""
        self._interrupts = interrupts
        self._pid = os.getpid()
        self._c_library = ctypes.CDLL(None)
        self._pipe = duplicate_high(1, _LOWEST_PIPE_FD)
        """Where cells print, in case that they close or replace descriptor 1."""
        self._pipe_identity = _identity(self._pipe)
        self._builtins = dict(builtins.__dict__)
        self._builtins.pop("_", None)
        self.repaired_builtins: dict[str, None] = {}
        """The names that were restored after cells of this process."""
        self._modules = sys.modules
        self._stdin = sys.stdin
        self._audit_handlers: dict[str, list[AuditHandler]] = {
            "import": [self.imports.prepare],
            **{event: [self._note_loaded] for event in ("open", "sqlite3.connect")},
            **{event: [lambda event, args: self.flush()] for event in _FLUSH_BEFORE},
        }
        self.loaded: dict[str, None] = {}
        """Files that cells have read, newest last. Locked cells may also read them."""
        self._open_streams()
        self._set_streams()
        interrupts.install()
        handlers = self._audit_handlers

        def hook(event: str, args: tuple[object, ...]) -> None:
            if event in handlers:  # some events are very frequent
                for handle in handlers[event]:
                    handle(event, args)

        sys.addaudithook(hook)
        # From 3.12 on, `os.fork` warns of threads; our control thread always exists.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        os.register_at_fork(before=self.flush, after_in_child=self._reset_child)

    def enter(self) -> tuple[TextIO | None, TextIO | None]:
        """Redirect the streams, and return what they were before, for `leave`."""
        streams_before = (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        sys.stdout = self._out
        sys.stderr = self._err
        return streams_before

    def leave(self, streams_before: tuple[TextIO | None, TextIO | None], nested: bool) -> None:
        """Restore what a cell may have replaced.

        Args:
            streams_before: What `enter` has returned.
            nested: Whether an outer cell goes on.
        """
        # Once more, because the representation of its value has run code of the user's.
        self.repair_builtins()
        if sys.getrecursionlimit() < _MIN_RECURSION_DEPTH:
            sys.setrecursionlimit(_DEFAULT_RECURSION_DEPTH)

        self._flush_descriptors()
        if nested:
            sys.stdout, sys.stderr = streams_before
        else:
            self._restore_interpreter()

    def _flush_descriptors(self) -> None:
        """Write what waits for descriptors 1 and 2, and let them lead to the host again."""
        self._c_library.fflush(None)
        flush(getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        for fd in (1, 2):
            if _identity(fd) != self._pipe_identity:
                os.dup2(self._pipe, fd)
        self.flush()

    def _restore_interpreter(self) -> None:
        """Restore what the kernel and the next cell need of Python."""
        if sys.gettrace() is not None:
            sys.settrace(None)
        self._set_streams()
        self._main.__dict__["__builtins__"] = builtins
        sys.modules = self._modules
        sys.modules["__main__"] = self._main
        sys.modules["builtins"] = builtins
        if not callable(getattr(sys, "displayhook", None)):
            sys.displayhook = sys.__displayhook__
        self._interrupts.install()

    def leave_child(self, error: BaseException | None) -> None:
        """End this process if it is a child process forked by the cell.

        Args:
            error: What has ended its code; None if nothing has.
        """
        if os.getpid() == self._pid:
            return
        exit_code = 0
        if isinstance(error, SystemExit):
            exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            self._err.write(format_safely(error))
            exit_code = 1
        self.flush()
        os._exit(exit_code & 0xFF)

    def use_in_fork(self, on_asyncio: Callable[[], None]) -> None:
        """Use descriptors 1 and 2 of a fork for the streams of its cell.

        Args:
            on_asyncio: Called when the cell imports asyncio.
        """
        self.imports.on_asyncio = on_asyncio
        self._pid = os.getpid()
        self.repaired_builtins.clear()
        self._pipe = 1
        self._pipe_identity = _identity(1)
        self._open_streams()
        self._reset_child()
        self._set_streams()

    def flush(self) -> None:
        """Write what waits in the streams of the cells."""
        flush(self._out, self._err)

    def keep_builtins(self, added: dict[str, object]) -> None:
        """Restore more names after each cell, with these values."""
        self._builtins = {**self._builtins, **added}

    def repair_builtins(self) -> None:
        """Restore the names that a cell has removed from builtins, or replaced."""
        builtins_now = self._builtins_now
        for name, value in self._builtins.items():
            if builtins_now.get(name, MISSING) is not value:
                builtins_now[name] = value
                self.repaired_builtins[name] = None

    def _open_streams(self) -> None:
        """Open the streams of cells anew."""
        self._out: TextIO = open_stdout(1)
        self._err: TextIO = ErrorStream(2, self._out)
        sys.__stdout__ = self._out  # type: ignore[misc]
        sys.__stderr__ = self._err  # type: ignore[misc]

    def _set_streams(self) -> None:
        """Make the streams of cells those of Python; open them anew if a cell has closed them."""
        if self._out.closed or self._err.closed:
            self._open_streams()
        sys.stdin = self._stdin
        sys.stdout = self._out
        sys.stderr = self._err

    def watch(self, events: Iterable[str], handle: AuditHandler) -> None:
        """Call a function for these audit events while a cell runs."""

        def handle_in_cell(event: str, args: tuple[object, ...]) -> None:
            if self._interrupts.running:
                handle(event, args)

        self.add_audit_handler(events, handle_in_cell)

    def add_audit_handler(self, events: Iterable[str], handle: AuditHandler) -> None:
        """Call a function for these audit events. What it raises ends the operation."""
        for event in events:
            self._audit_handlers.setdefault(event, []).append(handle)

    def _note_loaded(self, event: str, args: tuple[object, ...]) -> None:
        """Note a file that a cell opens."""
        path = args[0]
        if not self._interrupts.running or len(self.loaded) >= _MAX_LOADED_FILES:
            return
        if type(path) is str and not path.startswith(_UNLISTED_FOLDERS):
            self.loaded.setdefault(os.path.abspath(path))

    def _reset_child(self) -> None:
        """Give a forked child streams and signals as a program of its own has them."""
        self._out.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _identity(fd: int) -> tuple[int, int] | None:
    """Return the device and the number of an open file; None if the descriptor is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino
