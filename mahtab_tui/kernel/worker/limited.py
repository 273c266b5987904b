"""Holds a cell to what was allowed: when its code is about to change something outside the namespace, the host is asked first.

Whose code acts is told from the stack: code objects of a limited cell are marked, also those that they make. What they start goes on with their
limits: threads, tasks, exit handlers. The hook that sees to it cannot be removed, and an error in it is a refusal.
"""

from __future__ import annotations

import _thread
import builtins
import contextvars
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import machinery
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Callable, NoReturn

from .effects import EVENTS, INSIDE, Effect
from .limited_functions import wrap_functions
from .tracebacks import HERE

Ask = Callable[[dict[str, Any]], dict[str, Any]]

# The functions below find builtins here, so that a cell that replaces those of everybody does not replace theirs.
globals()["__builtins__"] = dict(builtins.__dict__)

_FRAMES = frozenset(("tb_frame", "gi_frame", "cr_frame", "ag_frame"))
"""Attributes that lead to frames, and so to everything."""
_GIVES_FRAMES = frozenset(("inspect", "traceback", "logging"))
"""Modules with functions that return frames to who calls them."""
_IMPORT = "<frozen importlib._bootstrap_external>"
_BY_IMPORTS = ("ctypes.", "marshal.", "code.", "os.putenv", "os.unsetenv", "socket.bind")
"""Events that modules raise for themselves while they are imported: they load libraries, set variables for them, and try what the system has."""
_NATIVE = frozenset("_posixsubprocess _gdbm _dbm _interpreters _xxsubinterpreters _testcapi _testinternalcapi".split())
"""Native modules that act without an audit event."""
_number = object.__hash__
"""Returns a number that stands for an object while it lives; `id` raises an audit event each time."""


class NotAllowedError(PermissionError):
    """The cell was not allowed to do this. An `OSError`, so that libraries go on without their caches."""


NotAllowedError.__module__ = "builtins"  # so that tracebacks name it without ours


class LimitedCode:
    """The limited cells of a kernel. Made when the first one runs, since its hook cannot be removed."""

    def __init__(self, ask: Ask, boundary: CodeType) -> None:
        """ask: asks the host. boundary: code of the function that evaluates cells: what called it has no part in what a cell does."""
        self._ask = ask
        self._boundary = boundary
        self._marked: dict[int, tuple[weakref.ref[CodeType], int]] = {}
        self._cell: contextvars.ContextVar[int | None] = contextvars.ContextVar("limited", default=None)
        self._allowed: set[tuple[int, str]] = set()
        """Cells, and the kinds of effects that they may have without asking again."""
        self._act: tuple[Any, ...] = ()
        """The place in a cell's code that was last allowed to do something with several events."""
        self._looking: set[int] = set()
        """Threads in which we do something now that is an event by itself."""
        self._last = 0
        self._ending = False
        self._bootstraps = {name: threading.Thread.__dict__[name] for name in ("_bootstrap", "_bootstrap_inner")}
        loaders = (machinery.SourceFileLoader, machinery.SourcelessFileLoader, machinery.ExtensionFileLoader)
        self._loaders = frozenset(loaders)
        self._loading = frozenset(
            _number(function.__code__)
            for loader in loaders
            for name in ("exec_module", "create_module")
            if isinstance(function := getattr(loader, name), FunctionType)
        )
        wrap_functions(self._carried)
        sys.addaudithook(self._hook())

    @contextmanager
    def running(self, cell: int, codes: tuple[CodeType | None, ...]) -> Iterator[None]:
        """Hold the cell of these codes to its limits while its code runs."""
        for code in codes:
            if code is not None:
                self._mark(code, cell)
        self._last = cell
        token = self._cell.set(cell)
        writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        hooks = [(name, getattr(sys, name, getattr(sys, f"__{name}__"))) for name in ("excepthook", "displayhook", "unraisablehook")]
        try:
            yield
        finally:
            self._cell.reset(token)
            sys.dont_write_bytecode = writes_none
            for name, value in hooks:
                setattr(sys, name, value)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let a cell without limits run, also inside a limited one."""
        token = self._cell.set(None)
        try:
            yield
        finally:
            self._cell.reset(token)

    def end(self) -> None:
        """The kernel ends: nobody can be asked any more."""
        self._ending = True

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        read, special = (
            dict(EVENTS),
            {
                "exec": self._executed,
                "function.__new__": self._executed,
                "object.__getattr__": self._attribute,
                "object.__setattr__": self._assigned,
                "sys._getframe": self._frame_given,
                "import": self._imported,
                "_thread.start_new_thread": self._thread_started,
                "_thread.start_joinable_thread": self._thread_started,
            },
        )
        check = self._check

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event in special:
                special[event](args)
            elif event in read:
                check(event, read[event], args)

        return hook

    # What an event means

    def _check(self, event: str, read: Callable[[tuple[Any, ...]], Effect | None], args: tuple[Any, ...]) -> None:
        if _thread.get_ident() in self._looking:
            return
        try:
            effect = read(args)
        except Exception:  # objects of classes that do strange things, or a folder that was deleted
            effect = Effect(INSIDE, event, [])
        if effect is None:
            return
        frame = self._outside()
        cell, site, importing = self._actor(frame)
        if cell is None or (importing and event.startswith(_BY_IMPORTS)):
            return
        if event == "marshal.loads" and frame is not None and frame.f_code.co_filename == _IMPORT and not self._is_marked(frame):
            return
        self._permit(cell, effect, site)

    def _executed(self, args: tuple[Any, ...]) -> None:
        """Code is about to run, or becomes a function: what limited code makes is limited, too."""
        code = args[0]
        if type(code) is not CodeType or _number(code) in self._marked:
            return
        frame = self._outside()
        cell, site, importing = self._actor(frame)
        if cell is not None and site is not None and not importing and frame is not None and not frame.f_code.co_filename.startswith(HERE):
            self._mark(code, cell)

    def _attribute(self, args: tuple[Any, ...]) -> None:
        if args[1] in _FRAMES and (frame := self._outside()) is not None and self._is_marked(frame):
            self._permit(self._cell_of(frame), Effect(INSIDE, str(args[1]), []), None)

    def _assigned(self, args: tuple[Any, ...]) -> None:
        if args[1] == "__code__" and _thread.get_ident() not in self._looking:
            cell, _, importing = self._actor(self._outside())
            if cell is not None and not importing:
                self._permit(cell, Effect(INSIDE, "__code__ = …", []), None)

    def _frame_given(self, args: tuple[Any, ...]) -> None:
        if _thread.get_ident() in self._looking:
            return
        frame = self._outside()
        if frame is None:
            return
        caller = frame.f_back if frame.f_globals.get("__name__") in _GIVES_FRAMES else frame
        if caller is not None and self._is_marked(caller):
            self._permit(self._cell_of(caller), Effect(INSIDE, "sys._getframe", []), None)

    def _imported(self, args: tuple[Any, ...]) -> None:
        if args[0] not in _NATIVE:
            return
        frame = self._outside()
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib") and not self._is_marked(frame):
            frame = frame.f_back
        if frame is not None and self._is_marked(frame):
            self._permit(self._cell_of(frame), Effect(INSIDE, "import", [args[0]]), None)

    def _thread_started(self, args: tuple[Any, ...]) -> None:
        cell = self._actor(self._outside())[0]
        if cell is None:
            return
        function = args[0]
        thread = function.__self__ if type(function) is MethodType else None
        begins = object.__getattribute__(thread, "__dict__").get("_bootstrap_inner") if isinstance(thread, threading.Thread) else None
        if type(begins) is FunctionType and _number(begins.__code__) in self._marked:
            return  # before Python 3.12 only our own event tells it, later on both
        followed = isinstance(thread, threading.Thread) and function.__func__ is self._bootstraps["_bootstrap"] and self._is_plain(thread)
        if not followed:
            self._permit(cell, Effect(INSIDE, "_thread.start_new_thread", []), None)
            return
        carried = self._carrier(MethodType(self._bootstraps["_bootstrap_inner"], thread), cell)
        object.__setattr__(thread, "_bootstrap_inner", carried)

    def _is_plain(self, thread: threading.Thread) -> bool:
        """Whether the methods with which a thread begins are those of `Thread`."""
        classes = type.__dict__["__mro__"].__get__(type(thread))
        inherited = [type.__dict__["__dict__"].__get__(each) for each in classes if each is not threading.Thread]
        own = object.__getattribute__(thread, "__dict__")
        return not any(name in each for name in self._bootstraps for each in (own, *inherited))

    # Whose code acts

    def _actor(self, frame: FrameType | None) -> tuple[int | None, FrameType | None, bool]:
        """Return the limited cell whose code acts, the frame of it, and whether it imports a module now, whose code that is.

        The cell is None for everybody else's code.
        """
        if frame is None:  # native code that was left to be called later
            return self._last, None, False
        importing = False
        while frame is not None:
            code = frame.f_code
            if _number(code) in self._marked:
                return self._cell_of(frame), frame, importing
            if code is self._boundary:
                break
            importing = importing or (_number(code) in self._loading and type(frame.f_locals.get("self")) in self._loaders)
            frame = frame.f_back
        return self._cell.get(), None, importing

    def _outside(self) -> FrameType | None:
        """Return the innermost frame that is not ours."""
        here = _thread.get_ident()
        self._looking.add(here)
        try:
            frame: FrameType | None = sys._getframe()
        finally:
            self._looking.discard(here)
        while frame is not None and frame.f_code.co_filename == __file__ and not self._is_marked(frame):
            frame = frame.f_back
        return frame

    def _is_marked(self, frame: FrameType) -> bool:
        return _number(frame.f_code) in self._marked

    def _cell_of(self, frame: FrameType) -> int:
        return self._marked[_number(frame.f_code)][1]

    def _mark(self, code: CodeType, cell: int) -> None:
        number, marked = _number(code), self._marked
        # By identity: equal code of the user's is not meant.
        marked[number] = weakref.ref(code, lambda _: marked.pop(number, None)), cell
        for constant in code.co_consts:
            if type(constant) is CodeType:
                self._mark(constant, cell)

    # Asking

    def _permit(self, cell: int, effect: Effect, site: FrameType | None) -> None:
        """Return if the cell may do this. Raises `NotAllowedError`."""
        place = () if site is None else (cell, effect.kind, _number(site), site.f_lasti)
        if (cell, effect.kind) in self._allowed or (place and place == self._act and not effect.whole):
            return
        if self._ending:
            _refuse(f"{effect.call} was not run: the kernel ends, and nobody can be asked.")
        line = 0 if site is None else site.f_lineno
        try:
            answer = self._ask({"cell": cell, "kind": effect.kind, "call": effect.call, "arguments": effect.arguments, "line": line})
        except RuntimeError as error:
            _refuse(str(error))
        if not answer["allowed"]:
            _refuse(answer["why"])
        if answer["all"]:
            self._allowed.add((cell, effect.kind))
        self._act = place if effect.whole else ()

    # What is called later

    def _carrier(self, function: Callable[..., Any], cell: int) -> Callable[..., Any]:
        """Return a function that calls another one with the limits of a cell."""

        def carry(*args: Any, **named: Any) -> Any:
            return function(*args, **named)

        here = _thread.get_ident()
        self._looking.add(here)  # new code is an event
        try:
            carry.__code__ = carry.__code__.replace(co_name=f"limited_{cell}")
        finally:
            self._looking.discard(here)
        self._mark(carry.__code__, cell)
        return carry

    def _carried(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the limits of the code that hands it on now."""
        cell = self._actor(self._outside())[0]
        return function if cell is None else self._carrier(function, cell)


def _refuse(why: str) -> NoReturn:
    raise NotAllowedError(why)
