"""Sandboxes for systems without Landlock and seccomp: Monty, an interpreter of a part of Python.

The model's code runs in a process of Monty. When it calls one of our functions, it is suspended: the
function runs in this process, and the code goes on with what it returned.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mahtab_tui.sandbox.base import (
    CallRefusedError,
    SandboxError,
    SandboxHost,
    TurnResult,
    TurnStatus,
)
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.worker.rlm.contexts import NamedContext
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool
from mahtab_tui.worker.sandbox.engine import Final
from mahtab_tui.worker.sandbox.functions import MAX_ANSWER_CHARS
from mahtab_tui.worker.sandbox.names import SandboxText, make_names
from mahtab_tui.worker.sandbox.pieces import to_plain_str
from mahtab_tui.worker.sandbox.turns import TurnOutput

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession, ResourceLimits

MODULES = (
    "re json math collections itertools functools datetime csv random bisect decimal dataclasses typing copy asyncio time hashlib base64 unicodedata"
).split()

UNSUPPORTED_FEATURES = (
    "it is a part of Python only. There is no yield, no del, no inheritance of classes (so no exceptions or enums of your own), no property,"
    " classmethod or staticmethod, and there are no threads. The only modules are "
    + ", ".join(MODULES)
    + "; collections has no OrderedDict, dataclasses no asdict, and re.sub takes no function. csv readers take a list of lines. Parts are plain"
    " strings without .start, .end and .line, and answers have no .failed: a failed one begins with '[failed'. Call llm, rlm and their maps in loops"
    " or comprehensions, not from within map() or sorted()."
)
"""Follows "Missing from this Python" in the system prompt."""

_MAX_PROCESSES = 1_000
"""The most processes, and so sandboxes, at the same time."""
_MAX_CALLS = 1_000_000
"""The most calls of our functions in one process."""
_MEMORY_BYTES = 512 * 2**20
"""Memory of a process besides its text."""
_COPIES_OF_TEXT = 4
"""The copies of its text for which a process has memory."""
_MAX_CHAR_BYTES = 4
"""The most bytes that a character takes."""
MAX_TURN_S = 120.0
"""Seconds of run time after which a process ends itself, since its host may have been killed."""

PRELUDE = """\
import re as _re

def grep(pattern, context_lines=0, max_matches=100, text=None):
    if isinstance(context_lines, str):
        pattern, text = (context_lines, pattern) if len(pattern) > len(context_lines) else (pattern, context_lines)
        context_lines = 0
    lines = (_text if text is None else text).split("\\n")
    if lines[-1] == "" and (text is None or text == _text):
        lines.pop()
    if isinstance(pattern, str):
        try:
            pattern = _re.compile(pattern)
        except Exception as error:
            raise ValueError(repr(pattern) + " is not a regular expression: " + str(error))
    blocks = []
    count = 0
    for number, line in enumerate(lines):
        if pattern.search(line):
            count += 1
            if max_matches is not None and count > max_matches:
                print("[grep: stopped at max_matches=" + str(max_matches) + "; more lines match. max_matches=None returns all]")
                break
            first = max(0, number - context_lines)
            last = min(len(lines) - 1, number + context_lines)
            if context_lines > 0 and blocks and first <= blocks[-1][1] + 1:
                blocks[-1][1] = last
            else:
                blocks.append([first, last])
    return ["\\n".join(lines[first : last + 1]) for first, last in blocks]

def FINAL_VAR(variable):
    if isinstance(variable, str) and variable.isidentifier():
        raise NameError("FINAL_VAR cannot look up names here. Call FINAL(" + variable + ")")
    FINAL(variable)
"""
"""Code that runs first in each process, with the text as `_text`.

Patterns are matched in there, because a hostile one may take for ever.
"""


class MontySandboxes:
    """Makes sandboxes that are processes of Monty's pool."""

    name = "Monty, an interpreter of its own"
    unsupported_features = UNSUPPORTED_FEATURES

    def __init__(self) -> None:
        self._pool: AsyncMonty | None = None
        self._pool_lock = asyncio.Lock()
        """Held while the pool is started."""

    async def start(
        self,
        text: SearchedText,
        host: SandboxHost,
        max_answer_chars: int = MAX_ANSWER_CHARS,
        tools: Sequence[DescribedTool] = (),
    ) -> MontySandbox:
        engine = _Engine(host)
        functions = make_names(SandboxText(text.text), engine, max_answer_chars, tools)
        # They would look up variables of this process; the prelude has a FINAL_VAR of its own.
        del functions["FINAL_VAR"], functions["SHOW_VARS"]
        sandbox = MontySandbox(partial(self._start_session, text), engine, functions)
        await sandbox.open()
        return sandbox

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.__aexit__(None, None, None)
            self._pool = None

    async def _start_session(self, text: SearchedText) -> AsyncMontySession:
        """Start a process that has a text. Raises `SandboxError`."""
        from pydantic_monty import AsyncMonty, MontyError

        limits: ResourceLimits = {
            "max_memory": _MEMORY_BYTES + _COPIES_OF_TEXT * _MAX_CHAR_BYTES * len(text.text),
            "max_suspensions": _MAX_CALLS,
            "max_turn_duration_secs": MAX_TURN_S,
        }
        variables = {"_text": text.text, **_context_variables(text)}
        session: AsyncMontySession | None = None
        try:
            async with self._pool_lock:
                if self._pool is None:
                    pool = AsyncMonty(max_processes=_MAX_PROCESSES, max_checkouts_per_worker=1)
                    await pool.__aenter__()
                    self._pool = pool
            session = self._pool.checkout(limits=limits)
            await session.__aenter__()
            await session.feed_run(PRELUDE, inputs=variables)
        except BaseException as error:
            if session is not None:
                await _end(session)
            if isinstance(error, MontyError | OSError):
                raise SandboxError(f"A sandbox did not start: {error}") from error
            raise
        return session


class MontySandbox:
    """One node's Python: a session of Monty, which starts again when it has been killed."""

    def __init__(
        self,
        start: Callable[[], Awaitable[AsyncMontySession]],
        engine: _Engine,
        functions: dict[str, Any],
    ) -> None:
        """Create a sandbox without a process.

        Args:
            start: Starts a process that has the text.
            engine: The engine that the functions call.
            functions: What the code may call, by name.
        """
        self._start = start
        self._engine = engine
        self._functions = {**functions, "help": self._help}
        self._session: AsyncMontySession | None = None
        self._turn: asyncio.Task[TurnStatus] | None = None
        """The turn that runs, or that ran last."""
        self._output = TurnOutput()
        """The output of that turn."""

    async def open(self) -> AsyncMontySession:
        """Return the process, which is started if there is none. Raises `SandboxError`."""
        if self._session is None:
            self._session = await self._start()
        return self._session

    async def run(self, code: str, seconds: float) -> TurnResult:
        start_time = time.monotonic()
        output = TurnOutput()
        self._output = output
        turn = asyncio.ensure_future(self._run_turn(code, seconds))
        self._turn = turn
        try:
            await asyncio.wait([turn])
        finally:
            # The caller may have been cancelled, or `close` has cancelled the turn.
            turn.cancel()
            if not turn.done() or turn.cancelled():
                await self._kill()
        status: TurnStatus = "killed" if turn.cancelled() else turn.result()
        return TurnResult(status, output.text(), output.chars, time.monotonic() - start_time)

    async def close(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        await self._kill()

    async def _run_turn(self, code: str, seconds: float) -> TurnStatus:
        """Run the code of a turn, and return how it ended.

        Args:
            seconds: As for `_run_to_end`.
        """
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        try:
            value = await self._run_to_end(code, seconds)
        except Final:
            # The process is suspended in the middle of its code.
            await self._kill()
            return "final"
        except (MontyRuntimeError, MontySyntaxError) as error:
            self._output.write(error.display().replace("<python-input-", "<turn-") + "\n")
            return "error"
        except TimeoutError:
            await self._kill()
            return "killed"
        except (MontyCrashedError, SandboxError) as error:
            self._output.write(f"{error}\n")
            await self._kill()
            return "died"
        if value is not None:
            self._output.write(f"{value!r}\n")
        return "ok"

    async def _run_to_end(self, code: str, seconds: float) -> Any:
        """Run code, and return its value.

        Args:
            code: The code.
            seconds: How long it may run, without the time in which it waits for the engine.

        Raises:
            TimeoutError: The time is up.
        """
        from pydantic_monty import AsyncFunctionSnapshot, MontyComplete

        run_time = _RunTime(seconds)
        session = await self.open()
        # Only the names count: Monty hands us a call of any of them, and does not call the value.
        names = dict.fromkeys(self._functions, lambda *args, **kwargs: None)
        start = session.feed_start(code, external_lookup=names, print_callback=self._print)
        snapshot = await run_time.limit(start)
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, AsyncFunctionSnapshot) and not snapshot.is_os_function:
                reply = await self._reply(snapshot.function_name, snapshot.args, snapshot.kwargs)
                snapshot = await run_time.limit(snapshot.resume(reply))
            else:
                # The code uses an unknown name, or the operating system, which it does not have.
                # Monty raises the error for it.
                snapshot = await run_time.limit(snapshot.resume_auto())
        return snapshot.output

    async def _reply(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one of the functions, and return what Monty gets: its value, or its exception."""
        try:
            return {"return_value": await self._call(name, args, kwargs)}
        except CallRefusedError as error:
            # Monty knows only the exceptions of Python.
            return {"exception": RuntimeError(str(error))}
        except (TypeError, ValueError, NameError) as error:
            return {"exception": type(error)(str(error))}

    async def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one of the functions, and return its value."""
        function = self._functions.get(name)
        if function is None:
            raise NameError(f"name {name!r} is not defined")
        return _to_plain(await self._engine.run(partial(function, *args, **kwargs)))

    def _help(self, name: object = "") -> None:
        """Print a function's docstring, or the names of all functions: `help` for the code."""
        function = self._functions.get(str(name))
        docstring = function.__doc__ if function else None
        names = "There is help for: " + ", ".join(sorted(self._functions))
        self._output.write(f"{docstring or names}\n")

    def _print(self, stream: str, text: str) -> None:
        self._output.write(text)

    async def _kill(self) -> None:
        """End the process; the next turn starts another one."""
        session = self._session
        self._session = None
        if session is not None:
            await _end(session)


class _NeedsReplyError(BaseException):
    """A function has called the engine, whose reply has not come yet."""

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        """Take the arguments for `SandboxHost.call`."""
        super().__init__()
        self.call_name = name
        self.call_args = args


class _Engine:
    """The `EngineHost` of functions that run in the loop of the engine itself.

    They are not asynchronous, so none can wait for a reply of the engine. A function that calls the
    engine is therefore run twice: the first time its call raises an error with what it asks, and
    once the reply has come, the function begins again and its call returns the reply.
    """

    def __init__(self, host: SandboxHost) -> None:
        self.send = host.send
        self._host = host
        self._reply: Any = None
        """The engine's reply, during the second run of a function; else None."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Return the engine's reply. Raises `_NeedsReplyError` in the first run of a function."""
        if self._reply is None:
            raise _NeedsReplyError(name, args)
        return self._reply

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function, and return its value.

        Args:
            function: Calls the engine at most once, and does nothing before that it must not do
                twice.
        """
        try:
            return function()
        except _NeedsReplyError as needed:
            self._reply = await self._host.call(needed.call_name, needed.call_args)
        try:
            return function()
        finally:
            self._reply = None


class _RunTime:
    """How long code may still run. The time in which it waits for the engine does not count."""

    def __init__(self, seconds: float) -> None:
        self._remaining_s = seconds

    async def limit(self, work: Awaitable[Any]) -> Any:
        """Wait for a part of the run. Raises `TimeoutError` when the time is up."""
        start_time = time.monotonic()
        async with asyncio.timeout(self._remaining_s):
            result = await work
        self._remaining_s -= time.monotonic() - start_time
        return result


async def _end(session: AsyncMontySession) -> None:
    """End a process; a busy one may raise an error, but ends all the same."""
    from pydantic_monty import MontyError

    with suppress(MontyError, RuntimeError):
        await session.__aexit__(None, None, None)


def _context_variables(text: SearchedText) -> dict[str, str | list[str] | dict[str, str]]:
    """Return the variables of the model's code: `context`, and the contexts by their names."""
    whole_context = NamedContext("context", text.kind, 0, len(text.text), text.parts)
    return {
        context.name: _context_value(text.text, context)
        for context in (whole_context, *text.contexts)
    }


def _context_value(text: str, context: NamedContext) -> str | list[str] | dict[str, str]:
    """Return a context as a plain value: its text, or its documents.

    Args:
        text: The text of all contexts.
        context: The place of this one in it.
    """
    if context.kind == "str":
        return text[context.start : context.end]
    documents = [(name, text[start:end]) for name, start, end in context.parts]
    if context.kind == "dict":
        return dict(documents)
    return [document for _name, document in documents]


def _to_plain(value: Any) -> Any:
    """Return what a function has returned, as lists and strings that Monty knows.

    Our own strings also have positions in the text.
    """
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    if isinstance(value, str):
        return to_plain_str(value)
    return value
