"""Runs a turn's code in the sandbox's namespace."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
import time
from types import CodeType, ModuleType
from typing import Any

from ..awaiting import EventLoop
from ..interrupts import Interrupts
from ..tracebacks import cell_filename, format_safely, syntax_error
from .connection import EngineConnection
from .output import Streams
from .read_tracker import ReadTracker

_COROUTINE = 0x80

_DEEP_ENOUGH = 400
"""The lowest recursion limit that a turn may start with."""


class _CompileError(Exception):
    """The code is not valid Python; the cause says why."""


class Turns:
    """Runs turns in one namespace on the main thread."""

    def __init__(
        self,
        names: dict[str, Any],
        connection: EngineConnection,
        interrupts: Interrupts,
        touches: ReadTracker,
    ) -> None:
        # A real module, because dataclasses and others look up the module of a class.
        self._main = ModuleType("__main__")
        self._main.__dict__["__builtins__"] = builtins
        self._names = names
        self._conversation = connection
        self._interrupts = interrupts
        self._streams = Streams()
        self._loop = EventLoop()
        interrupts.cancel_await = self._loop.cancel
        self._touches = touches
        self._builtins = dict(builtins.__dict__)

    def run(self, number: int, code: str) -> dict[str, Any]:
        """Run the code and return the fields of the "done" frame. Errors of the code are not
        raised."""
        start = time.perf_counter()
        self._prepare()
        status = "ok"
        try:
            with self._interrupts.allowed():
                self._execute(number, code)
        except BaseException as error:  # the outermost frame of the turn's code
            status = self._report(error)
        builtins.__dict__.update(self._builtins)
        self._touches.flush()
        if self._conversation.finished:
            status = "final"
        printed = self._streams.take()
        return {
            "turn": number,
            "status": status,
            "output": printed.text,
            "chars": printed.chars,
            "duration": time.perf_counter() - start,
        }

    def _prepare(self) -> None:
        """Restore what an earlier turn may have replaced."""
        sys.settrace(None)
        if sys.getrecursionlimit() < _DEEP_ENOUGH:
            sys.setrecursionlimit(1000)
        sys.modules["__main__"] = self._main
        # The code may define its own `grep`, but missing names are restored, and so is FINAL, the
        # only way to answer.
        self._main.__dict__.update(
            {
                name: value
                for name, value in self._names.items()
                if name == "FINAL" or name not in self._main.__dict__
            }
        )
        sys.stdout = sys.stderr = self._streams.stream()
        self._interrupts.install()

    def _execute(self, number: int, code: str) -> None:
        filename = cell_filename(number)
        code = code.replace("\r\n", "\n").replace("\r", "\n")
        linecache.cache[filename] = (
            len(code),
            None,
            [line + "\n" for line in code.split("\n")],
            filename,
        )
        body, last = _compile(code, filename)
        self._evaluate(body)
        if last is not None and (value := self._evaluate(last)) is not None:
            print(repr(value))

    def _evaluate(self, code: CodeType) -> Any:
        result = eval(code, self._main.__dict__)
        return self._loop.run(result) if code.co_flags & _COROUTINE else result

    def _report(self, error: BaseException) -> str:
        """Print the error that ended the code, and return the status."""
        if isinstance(error, SystemExit):
            return "ok"
        if isinstance(error, _CompileError) and error.__cause__ is not None:
            text = syntax_error(error.__cause__).text
        elif self._conversation.finished:
            return "final"
        else:
            try:
                with self._interrupts.allowed():  # its `__str__` may be the code's
                    text = format_safely(error)
            except KeyboardInterrupt:
                text = "KeyboardInterrupt\n"
        self._streams.stream().write(text)
        return "interrupted" if isinstance(error, KeyboardInterrupt) else "error"


def _compile(code: str, filename: str) -> tuple[CodeType, CodeType | None]:
    """Compile the statements, and separately the last expression, whose value is shown."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(code, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
        statements, last = list(tree.body), None
        if statements and isinstance(statements[-1], ast.Expr):
            shown = statements.pop()
            assert isinstance(shown, ast.Expr)
            last = compile(ast.Expression(shown.value), filename, "eval", flags, True)
        return compile(
            ast.Module(statements, tree.type_ignores), filename, "exec", flags, True
        ), last
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise _CompileError from error
