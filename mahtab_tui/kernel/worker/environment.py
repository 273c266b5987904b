"""Sets up streams, builtins and signals of the kernel's process for a cell, and restores them after
it."""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, TextIO

from .capture import ErrorStream, LimitedOutput, flush, open_stdout
from .console import loaded_pdb
from .interrupts import Interrupts
from .stdlib import is_ours, late_import
from .tracebacks import format_safely

_FLUSH_BEFORE = frozenset(
    {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "pty.spawn"}
)
"""Audit events after which another process writes to fd 1 and 2. (`os.fork` has its own hook.)"""

_STARTERS = frozenset({"multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"})
"""Modules that start processes which do not inherit `__main__`."""
_LOADED = 500
"""Files that cells have opened, of which is known."""
_LIBRARIES = (sys.prefix, sys.base_prefix, "/usr/", "/proc/", "/dev/")

_DEEP_ENOUGH = 400
"""The lowest recursion limit that a cell may leave behind."""


class Stage(NamedTuple):
    """The streams before a cell, and the cell's limited output."""

    before: tuple[Any, Any]
    limited: LimitedOutput | None


class ProcessSurroundings:
    """Streams, descriptors, builtins and signals of the kernel's process. Make it after our names
    are in builtins."""

    def __init__(
        self, main: ModuleType, interrupts: Interrupts, on_asyncio: Callable[[], None]
    ) -> None:
        """on_asyncio: called when code of a cell imports asyncio for the first time."""
        self._main = main
        self._on_asyncio = on_asyncio
        self.cloudpickle = ""
        """The folder of cloudpickle; empty if the host did not name one."""
        self._interrupts = interrupts
        self._pid = os.getpid()
        self._c_library = ctypes.CDLL(None)
        self._pipe = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 32)
        self._pipe_identity = _identity(self._pipe)
        self._builtins = dict(builtins.__dict__)
        self._builtins.pop("_", None)
        self._stdin = sys.stdin
        self._pandas_fits = False
        self._watch: Callable[[str, tuple[Any, ...]], None] | None = None
        self._audited = {*_FLUSH_BEFORE, "import", "open", "sqlite3.connect"}
        self.loaded: dict[str, None] = {}
        """Files that cells have read, the newest last: cells in a locked fork may read them,
        too."""
        self._open_streams()
        self._set_streams()
        interrupts.install()
        self._listen()
        # Since 3.12, `os.fork` warns if there are threads. There is always our control thread,
        # which does no harm.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        os.register_at_fork(before=self.flush, after_in_child=self._in_child)

    def enter(self, limit: int | None) -> Stage:
        before = (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        limited = None
        sys.stdout, sys.stderr = self._out, self._err
        if limit is not None:
            limited = LimitedOutput(self._out, limit)
            sys.stdout, sys.stderr = limited, LimitedOutput(self._err, limit, sharing=limited)
        return Stage(before, limited)

    def leave(self, stage: Stage, nested: bool) -> None:
        # First restore the builtins, which the code below needs and the cell may have removed.
        self._builtins_now.update(self._builtins)
        if sys.getrecursionlimit() < _DEEP_ENOUGH:
            sys.setrecursionlimit(1000)
        self._c_library.fflush(None)
        flush(getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        self._restore_descriptors()
        self.flush()
        if nested:
            sys.stdout, sys.stderr = stage.before
            return
        if sys.gettrace() is not None:
            sys.settrace(None)
        self._set_streams()
        self._main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self._main
        sys.modules["builtins"] = builtins
        if not callable(getattr(sys, "displayhook", None)):
            sys.displayhook = sys.__displayhook__
        self._interrupts.install()

    def leave_child(self, error: BaseException | None) -> None:
        if os.getpid() == self._pid:
            return
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            self._err.write(format_safely(error))
            code = 1
        self.flush()
        os._exit(code & 0xFF)

    def in_fork(self) -> None:
        """Take fd 1 and 2 of a fork, in which a cell runs, for its streams."""
        self._pid = os.getpid()
        self._pipe, self._pipe_identity = 1, _identity(1)
        self._open_streams()
        self._in_child()
        self._set_streams()

    def flush(self) -> None:
        """Flush the output of Python code. Any thread may call it."""
        flush(self._out, self._err)

    _builtins_now: dict[str, Any] = builtins.__dict__

    def keep(self, added: dict[str, Any]) -> None:
        """Also restore these builtins after a cell."""
        self._builtins = {**self._builtins, **added}

    def repair_builtins(self) -> None:
        """Restore builtins for the control thread, which must survive a cell that empties them."""
        self._builtins_now.update(self._builtins)

    def _open_streams(self) -> None:
        self._out: TextIO = open_stdout(1)
        self._err: TextIO = ErrorStream(self._out, 2)
        sys.__stdout__, sys.__stderr__ = self._out, self._err  # type: ignore[misc]

    def _set_streams(self) -> None:
        if self._out.closed or self._err.closed:
            self._open_streams()
        sys.stdin, sys.stdout, sys.stderr = self._stdin, self._out, self._err

    def _restore_descriptors(self) -> None:
        for fd in (1, 2):
            if _identity(fd) != self._pipe_identity:
                os.dup2(self._pipe, fd)

    def _listen(self) -> None:
        """Listen to the audit events that matter. Some others are very frequent, and each call of a
        method would cost a microsecond."""
        matter = self._audited

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event in matter:
                self._audit(event, args)

        sys.addaudithook(hook)

    def watch(self, events: Iterable[str], watch: Callable[[str, tuple[Any, ...]], None]) -> None:
        """Tell a function of such audit events while a cell runs."""
        self._audited.update(events)
        self._watch = watch

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self._watch is not None and self._interrupts.running:
            self._watch(event, args)
        if event in ("open", "sqlite3.connect"):
            if (
                self._interrupts.running
                and len(self.loaded) < _LOADED
                and type(args[0]) is str
                and not args[0].startswith(_LIBRARIES)
            ):
                self.loaded.setdefault(os.path.abspath(args[0]))
        elif event in _FLUSH_BEFORE:
            self.flush()
        elif event == "import" and args[0].startswith(
            "matplotlib."
        ):  # before pyplot has chosen a backend
            late_import(f"{__package__}.showing.plots").choose_backend()
        elif event == "import" and args[0].startswith("pandas.") and not self._pandas_fits:
            self._pandas_fits = _fit_pandas()
        elif (
            event == "import"
            and args[0].partition(".")[0] == "asyncio"
            and self._interrupts.running
        ):
            if "asyncio" not in sys.modules and is_ours("asyncio"):
                self._on_asyncio()
        elif event == "import" and args[0] in _STARTERS:
            late_import(f"{__package__}.spawned").install(self._main.__dict__, self.cloudpickle)
        elif event == "import" and args[0] == "pdb" and is_ours("pdb"):
            loaded_pdb()

    def _in_child(self) -> None:
        """Set up a forked child, which has no control thread that flushes."""
        self._out.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _fit_pandas() -> bool:
    """Make pandas use the terminal's width (COLUMNS), unless its option was changed. Called while
    pandas loads.

    Returns False if pandas does not have its options yet, early in its import.
    """
    config: Any = sys.modules.get("pandas._config")
    try:
        if config.get_option("display.width") == 80:  # its own default
            config.set_option("display.width", None)
    except (AttributeError, KeyError):  # pandas raises OptionError, a KeyError
        return False
    return True
