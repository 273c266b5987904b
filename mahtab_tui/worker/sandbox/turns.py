"""Runs the code of turns in the sandbox's namespace, and keeps both ends of what it prints.

`process` runs it in a sandbox of its own. `Turns` never raises: all that code does ends in the outcome
of its turn.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
import time
from types import CodeType, ModuleType
from typing import Any

from ..cells.awaiting import EventLoop
from ..cells.capture import omission
from ..cells.compiling import (
    CO_COROUTINE,
    CompiledParts,
    NotCompiledError,
    cache_source,
    compile_parts,
)
from ..cells.tracebacks import cell_filename, format_safely, syntax_error
from ..link.channel import Channel
from ..link.frames import Frame, FrameError
from ..link.host_calls import HostCalls
from ..link.interrupts import Interrupts
from .engine import CallError

MAX_MESSAGE_BYTES = 64 * 2**20
"""Maximum bytes of a message to the engine."""

HEAD_CHARS = 5_000
"""Characters to keep of the beginning of what a turn prints."""
TAIL_CHARS = 3_000
"""Characters to keep of its end."""
_MAX_PENDING_CHARS = 1_000_000
"""Characters that are collected before the end is cut again."""
_MIN_RECURSION_DEPTH = 1_000


class EngineConnection(HostCalls):
    """Implements `EngineHost`: calls that wait for an answer, and messages that do not."""

    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        super().__init__(self._send_frame, error_class=CallError)
        self._channel = Channel(fd, interrupts, MAX_MESSAGE_BYTES)
        self.finished = False
        """Whether the final answer was given; everything after it is ignored."""

    def send(self, name: str, args: dict[str, Any]) -> None:
        """Tell the engine something, without an answer."""
        self._send({"op": "tell", "name": name, "args": args})
        if name == "final":
            self.finished = True

    def ready(self) -> None:
        """Say that the sandbox can run code."""
        self._channel.send({"op": "ready"})

    def done(self, outcome: dict[str, Any]) -> None:
        """Say how a turn has ended."""
        self._channel.send({"op": "done", **outcome})

    def _send_frame(self, frame: Frame) -> None:
        try:
            self._channel.send(frame)
        except FrameError as error:
            raise CallError(
                f"Too much text at once: {error}. Hand on parts of the context as they are, or less text."
            ) from None


class TurnOutput(io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a turn: accepts any amount of text, and keeps both ends."""

    chars = 0
    """Characters written so far."""

    def __init__(self) -> None:
        super().__init__()
        self._head = ""
        self._tail: list[str] = []
        self._tail_chars = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.chars += len(text)
        free_chars = HEAD_CHARS - len(self._head)
        if free_chars > 0:
            self._head += text[:free_chars]
        if len(text) > free_chars:
            tail = text[max(0, free_chars) :]
            self._tail.append(tail)
            self._tail_chars += len(tail)
            if self._tail_chars > _MAX_PENDING_CHARS:
                self._cut()
        return len(text)

    def text(self) -> str:
        """Return both ends, without lone surrogates."""
        self._cut()
        tail = "".join(self._tail)
        omitted_chars = self.chars - len(self._head) - len(tail)
        middle = omission(omitted_chars) if omitted_chars else ""
        text = f"{self._head}{middle}{tail}"
        return text.encode("utf-8", "backslashreplace").decode()

    def _cut(self) -> None:
        """Drop all but the end of what was written after the beginning."""
        tail = "".join(self._tail)[-TAIL_CHARS:]
        self._tail = [tail]
        self._tail_chars = len(tail)


class Turns:
    """Runs turns in one namespace on the main thread."""

    def __init__(
        self, names: dict[str, Any], connection: EngineConnection, interrupts: Interrupts
    ) -> None:
        """
        Args:
            names: Those of `make_names`.
        """
        # A real module, because dataclasses and others look up a class's module.
        self._main = ModuleType("__main__")
        self._main.__dict__["__builtins__"] = builtins
        # Models that other programs have trained answer by `answer["ready"] = True`.
        self._names = {"answer": {"content": "", "ready": False}, **names}
        self._connection = connection
        self._interrupts = interrupts
        self._output = TurnOutput()
        self._loop = EventLoop()
        interrupts.cancel_await = self._loop.cancel
        self._builtins = dict(builtins.__dict__)

    def run(self, number: int, code: str) -> dict[str, object]:
        """Run the code of a turn. Never raises.

        Args:
            number: The number of the turn.
            code: The model's code.

        Returns:
            The number, the status ("ok", "error" or "final"), both ends of the output and its
            number of characters, and the duration in seconds.
        """
        start = time.perf_counter()
        self._restore_interpreter()
        output = TurnOutput()
        self._output = output
        sys.stdout = output
        sys.stderr = output
        self._interrupts.install()
        status = "ok"
        try:
            with self._interrupts.allowed():
                self._execute(number, code)
        except BaseException as error:  # the outermost frame of the turn's code
            status = self._report(error)
        builtins.__dict__.update(self._builtins)
        if self._connection.finished:
            status = "final"
        return {
            "turn": number,
            "status": status,
            "output": output.text(),
            "chars": output.chars,
            "duration": time.perf_counter() - start,
        }

    def _restore_interpreter(self) -> None:
        """Restore what an earlier turn may have replaced."""
        sys.settrace(None)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _MIN_RECURSION_DEPTH))
        sys.modules["__main__"] = self._main
        # Code may define its own `grep`, but not FINAL, the only way to answer.
        names = self._main.__dict__
        names.update({**self._names, **names, "FINAL": self._names["FINAL"]})

    def _execute(self, number: int, code: str) -> None:
        filename = cell_filename(number)
        code = code.replace("\r\n", "\n").replace("\r", "\n")
        cache_source(code, filename)
        compiled = _compile(code, filename)
        self._evaluate(compiled.body)
        if compiled.last_expression is not None:
            value = self._evaluate(compiled.last_expression)
            if value is not None:
                print(repr(value))

        # Models that other programs have trained answer in this way.
        answer = self._main.__dict__.get("answer")
        if type(answer) is dict and answer.get("ready") is True:
            self._names["FINAL"](answer.get("content"))

    def _evaluate(self, code: CodeType) -> object:
        result = eval(code, self._main.__dict__)
        if code.co_flags & CO_COROUTINE:
            return self._loop.run(result)
        return result

    def _report(self, error: BaseException) -> str:
        """Print the error that ended the code, and return the status."""
        if isinstance(error, SystemExit):
            return "ok"
        if isinstance(error, NotCompiledError) and error.__cause__ is not None:
            text = syntax_error(error.__cause__).text
        elif self._connection.finished:
            return "final"
        else:
            text = self._format(error)
        self._output.write(text)
        return "error"

    def _format(self, error: BaseException) -> str:
        """Return the traceback of an error. Its `__str__` may be defined by the code."""
        try:
            with self._interrupts.allowed():
                return format_safely(error)
        except KeyboardInterrupt:
            return "KeyboardInterrupt\n"


def _compile(code: str, filename: str) -> CompiledParts:
    """Compile the statements and, separately, the last expression, whose value is shown. Raises
    `NotCompiledError`."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(code, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
        return compile_parts(tree, filename, flags)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise NotCompiledError from error
