"""Streams, builtins and signals of the process while a cell runs."""

from __future__ import annotations

import builtins
import ctypes
import getpass
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple, NoReturn, TextIO

from ..link.control import Host
from ..link.descriptors import duplicate_high
from ..link.interrupts import Interrupts
from ..stdlib import is_ours, late_import, own_module
from .capture import ErrorStream, flush, open_stdout
from .tracebacks import CELL, OUR_FOLDER, format_safely

AuditHandler = Callable[[str, tuple[Any, ...]], None]

DEBUGGER_SOURCE_LINES = 5
"""Lines to show where the debugger stops."""

_FLUSH_BEFORE = "subprocess.Popen os.system os.posix_spawn os.exec os.spawn pty.spawn".split()
"""Events after which another process writes to fd 1 and 2."""

_STARTERS = frozenset({"multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"})
_NOTEBOOK_LIBRARIES = frozenset(
    (
        *("IPython", "IPython.display", "IPython.core.display_functions"),
        *("IPython.core.getipython", "ipywidgets", "tqdm.notebook"),
    )
)
"""They expect a notebook; `ipython.prepare_import` fits them to this screen."""
_MAX_LOADED_MODULES = 500
_LIBRARIES = (sys.prefix, sys.base_prefix, "/usr/", "/proc/", "/dev/")

_MIN_RECURSION_DEPTH = 400


class Replacement(NamedTuple):
    module: ModuleType
    name: str
    value: Any


class CellExit(SystemExit):
    """The user called `exit()`: the cell ends, and the session asks whether to quit."""


class Console:
    def __init__(self) -> None:
        self.hidden_lines: list[str] = []

    def input(self, prompt: object = "", /) -> str:
        return self._require_line(str(prompt), password=False)

    def getpass(
        self, prompt: str = "Password: ", stream: TextIO | None = None, **options: object
    ) -> str:
        answer = self._require_line(str(prompt), password=True)
        if answer not in self.hidden_lines:
            self.hidden_lines.append(answer)
        return answer

    def readline(self) -> str | None:
        answer = self._line("", password=False)
        if answer is not None:
            print(answer)
        return answer

    def leave(self, code: object = None) -> NoReturn:
        Host.call("quit", {})
        raise CellExit(code)

    def replacements(self) -> list[Replacement]:
        changed_objects: list[tuple[ModuleType, str, Any]] = [
            (builtins, "input", self.input),
            (getpass, "getpass", self.getpass),
            (sys, "stdin", HostInput(self.readline)),
            (builtins, "exit", _Quitter("exit", self.leave)),
            (builtins, "quit", _Quitter("quit", self.leave)),
            (builtins, "help", _Help()),
        ]
        if "PYTHONBREAKPOINT" not in os.environ:
            changed_objects.append((sys, "breakpointhook", set_trace))
        return [Replacement(*replacement) for replacement in changed_objects]

    def _require_line(self, prompt: str, password: bool) -> str:
        answer = self._line(prompt, password)
        print(prompt if password or answer is None else prompt + answer)
        if answer is None:
            raise EOFError("no more input")
        return answer

    def _line(self, prompt: str, password: bool) -> str | None:
        sys.stdout.flush()
        answer = Host.call("input", {"prompt": prompt, "password": password})
        return None if answer is None else str(answer)


class HostInput(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, ask_line: Callable[[], str | None]) -> None:
        super().__init__()
        self._ask_line = ask_line
        self._rest = ""

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        if not self._rest:
            line = self._ask_line()
            if line is None:
                return ""
            self._rest = line + "\n"
        end = self._rest.index("\n") + 1
        if size is not None and size >= 0:
            end = min(end, size)
        line = self._rest[:end]
        self._rest = self._rest[end:]
        return line

    def read(self, size: int | None = -1, /) -> str:
        remaining_chars = -1 if size is None else size
        text = ""
        while remaining_chars and (line := self.readline(remaining_chars)):
            text += line
            remaining_chars -= len(line) if remaining_chars > 0 else 0
        return text


class _Quitter:
    def __init__(self, name: str, leave: Callable[[object], NoReturn]) -> None:
        self._name = name
        self._leave = leave

    def __repr__(self) -> str:
        return f"Use {self._name}() or Ctrl+D in an empty editor to leave."

    def __call__(self, code: object = None) -> NoReturn:
        self._leave(code)


class _Help:
    def __repr__(self) -> str:
        return "Type help(object) for help about object, or object?."

    def __call__(self, *args: object, **named: object) -> None:
        pydoc: Any = late_import("pydoc")

        def show_page(text: str, title: str = "") -> None:
            own_module("values.displays").show_help(pydoc.plain(text))

        pager = pydoc.pager
        pydoc.pager = show_page
        try:
            pydoc.help(*args, **named)
        finally:
            pydoc.pager = pager


def set_trace(*_: object, header: str | None = None, **__: object) -> None:
    debugger = _debugger()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(sys._getframe().f_back)


def post_mortem(traceback: TracebackType) -> None:
    debugger = _debugger()
    debugger.reset()
    debugger.interaction(None, traceback)


def _load_pdb() -> object:
    pdb: Any = late_import("pdb")
    pdb.set_trace = set_trace
    return pdb


def _debugger() -> Any:
    pdb: Any = _load_pdb()

    class Debugger(pdb.Pdb):  # type: ignore[misc]
        """A pdb that hides the frames outside the cell, finds the source of cells, and shows lines
        around the one where it stops."""

        lists_frames = False
        """Whether it prints all frames, each in one line."""

        def canonic(self, filename: str) -> str:
            if filename.startswith(CELL):
                return filename
            return str(super().canonic(filename))

        def get_stack(
            self, frame: FrameType | None, tb: TracebackType | None
        ) -> tuple[list[tuple[FrameType, int]], int]:
            stack, current = super().get_stack(frame, tb)
            chosen = stack[current]
            ours = [entry[0].f_code.co_filename.startswith(OUR_FOLDER) for entry in stack]
            below = ours.index(True) if True in ours else 0
            frames = [entry for entry, is_own in list(zip(stack, ours))[below:] if not is_own]
            return frames, frames.index(chosen) if chosen in frames else len(frames) - 1

        def print_stack_trace(self, *arguments: object) -> None:
            self.lists_frames = True
            try:
                super().print_stack_trace(*arguments)
            finally:
                self.lists_frames = False

        def print_stack_entry(
            self, frame_lineno: tuple[FrameType, int], *arguments: object
        ) -> None:
            frame, line = frame_lineno
            source = late_import("linecache").getlines(frame.f_code.co_filename, frame.f_globals)
            if self.lists_frames or not 0 < line <= len(source):
                super().print_stack_entry(frame_lineno, *arguments)
                return

            position = self.format_stack_entry(frame_lineno, "\n").partition("\n")[0]
            self.message(f"> {position}")
            first_line = max(1, line - DEBUGGER_SOURCE_LINES // 2)
            nearby_lines = source[first_line - 1 : first_line - 1 + DEBUGGER_SOURCE_LINES]
            for number, text in enumerate(nearby_lines, first_line):
                mark = "->" if number == line else "  "
                self.message(f"{mark} {number:>4}  {text.rstrip()}")

    return Debugger(nosigint=True, skip=[f"{__package__.rpartition('.')[0]}.*"])


class CellEnvironment:
    """Redirects streams, builtins and signals. Create it after our names are in builtins."""

    def __init__(
        self, main: ModuleType, interrupts: Interrupts, on_asyncio: Callable[[], None]
    ) -> None:
        self._main = main
        self._on_asyncio = on_asyncio
        self.cloudpickle = ""
        self._interrupts = interrupts
        self._pid = os.getpid()
        self._c_library = ctypes.CDLL(None)
        self._pipe = duplicate_high(1, 32)
        self._pipe_identity = _identity(self._pipe)
        self._builtins = dict(builtins.__dict__)
        self._builtins.pop("_", None)
        self._stdin = sys.stdin
        self._pandas_fits = False
        self._audit_handlers: dict[str, list[AuditHandler]] = {
            "import": [self._prepare_import],
            **{event: [self._note_loaded] for event in ("open", "sqlite3.connect")},
            **{event: [lambda event, args: self.flush()] for event in _FLUSH_BEFORE},
        }
        self.loaded: dict[str, None] = {}
        """Files read by cells, newest last, which locked cells may read, too."""
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
        streams_before = (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        sys.stdout = self._out
        sys.stderr = self._err
        return streams_before

    def leave(self, streams_before: tuple[TextIO | None, TextIO | None], nested: bool) -> None:
        # First, because the code below needs builtins that the cell may have removed.
        self.repair_builtins()
        if sys.getrecursionlimit() < _MIN_RECURSION_DEPTH:
            sys.setrecursionlimit(1000)
        self._c_library.fflush(None)
        flush(getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        for fd in (1, 2):
            if _identity(fd) != self._pipe_identity:
                os.dup2(self._pipe, fd)
        self.flush()
        if nested:
            sys.stdout, sys.stderr = streams_before
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
            if isinstance(error.code, int):
                code = error.code
            else:
                code = int(error.code is not None)
        elif error is not None:
            self._err.write(format_safely(error))
            code = 1
        self.flush()
        os._exit(code & 0xFF)

    def use_in_fork(self) -> None:
        """Use descriptors 1 and 2 of a fork for the streams of its cell."""
        self._pid = os.getpid()
        self._pipe = 1
        self._pipe_identity = _identity(1)
        self._open_streams()
        self._reset_child()
        self._set_streams()

    def flush(self) -> None:
        flush(self._out, self._err)

    _builtins_now: dict[str, object] = builtins.__dict__

    def keep_builtins(self, added: dict[str, object]) -> None:
        self._builtins = {**self._builtins, **added}

    def repair_builtins(self) -> None:
        self._builtins_now.update(self._builtins)

    def _open_streams(self) -> None:
        self._out: TextIO = open_stdout(1)
        self._err: TextIO = ErrorStream(2, self._out)
        sys.__stdout__ = self._out  # type: ignore[misc]
        sys.__stderr__ = self._err  # type: ignore[misc]

    def _set_streams(self) -> None:
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
        if (
            self._interrupts.running
            and len(self.loaded) < _MAX_LOADED_MODULES
            and type(args[0]) is str
            and not args[0].startswith(_LIBRARIES)
        ):
            self.loaded.setdefault(os.path.abspath(args[0]))

    def _prepare_import(self, event: str, args: tuple[Any, ...]) -> None:
        name = args[0]
        if name.startswith("matplotlib."):  # before pyplot has chosen a backend
            own_module("values.matplotlib_backend").choose_backend()
        elif name.startswith("pandas.") and not self._pandas_fits:
            self._pandas_fits = _fit_pandas()
        elif name.partition(".")[0] == "asyncio" and self._interrupts.running:
            if "asyncio" not in sys.modules and is_ours("asyncio"):
                self._on_asyncio()
        elif name in _NOTEBOOK_LIBRARIES:
            own_module("magic.ipython").prepare_import(name)
        elif name in _STARTERS:
            own_module("saving.spawning").install(self._main.__dict__, self.cloudpickle)
        elif name == "pdb" and is_ours("pdb"):
            _load_pdb()

    def _reset_child(self) -> None:
        self._out.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _fit_pandas() -> bool:
    """Make pandas use the terminal's width; False if its options do not exist yet."""
    config: Any = sys.modules.get("pandas._config")
    try:
        if config.get_option("display.width") == 80:  # its own default
            config.set_option("display.width", None)
    except (AttributeError, KeyError):  # pandas raises OptionError, a KeyError
        return False
    return True
