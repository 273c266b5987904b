"""Sandboxes for systems without Landlock and seccomp: Monty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.sandbox.base import (
    CallRefusedError,
    SandboxError,
    SandboxHost,
    Text,
    TurnResult,
    TurnStatus,
)
from mahtab_tui.worker.contexts import NamedContext
from mahtab_tui.worker.sandbox.names import ANSWER_LIMIT, DescribedTool, make_names
from mahtab_tui.worker.sandbox.text import Final, to_plain_str
from mahtab_tui.worker.sandbox.turns import TurnOutput

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession, AsyncSnapshot, ResourceLimits

MODULES = (
    "re json math collections itertools functools datetime csv random bisect decimal dataclasses typing copy asyncio time hashlib base64 unicodedata"
).split()

GAPS = (
    "it is a part of Python only. There is no yield, no del, no inheritance of classes (so no exceptions or enums of your own), no property,"
    " classmethod or staticmethod, and there are no threads. The only modules are "
    + ", ".join(MODULES)
    + "; collections has no OrderedDict, dataclasses no asdict, and re.sub takes no function. csv readers take a list of lines. Parts are plain"
    " strings without .start, .end and .line, and answers have no .failed: a failed one begins with '[failed'. Call llm, rlm and their maps in loops"
    " or comprehensions, not from within map() or sorted()."
)
"""Follows "Missing from this Python" in the system prompt."""

PRELUDE = """\
import re as _re

_lines = _text.split("\\n")
if _lines[-1] == "":
    _lines.pop()

def grep(pattern, context_lines=0, max_matches=100, text=None):
    if isinstance(context_lines, str):
        pattern, text = (context_lines, pattern) if len(pattern) > len(context_lines) else (pattern, context_lines)
        context_lines = 0
    lines = _lines if text is None or text == _text else text.split("\\n")
    if isinstance(pattern, str):
        try:
            pattern = _re.compile(pattern)
        except Exception as error:
            raise ValueError(repr(pattern) + " is not a regular expression: " + str(error))
    most = len(lines) if max_matches is None else max_matches
    blocks = []
    count = 0
    for number, line in enumerate(lines):
        if pattern.search(line):
            count += 1
            if count > most:
                print("[grep: stopped at max_matches=" + str(max_matches) + "; more lines match. max_matches=None returns all]")
                break
            first = max(0, number - context_lines)
            last = min(len(lines) - 1, number + context_lines)
            if context_lines > 0 and blocks and first <= blocks[-1][1] + 1:
                blocks[-1][1] = last
            else:
                blocks.append([first, last])
    if lines is _lines:
        _report(blocks)
    return ["\\n".join(lines[first : last + 1]) for first, last in blocks]

def FINAL_VAR(variable):
    if isinstance(variable, str) and variable.isidentifier():
        raise NameError("FINAL_VAR cannot look up names here. Call FINAL(" + variable + ")")
    FINAL(variable)

def _report(blocks):
    spans = []
    place = 0
    done = 0
    for first, last in blocks[:1000]:
        while done < first:
            place += len(_lines[done]) + 1
            done += 1
        start = place
        while done <= last:
            place += len(_lines[done]) + 1
            done += 1
        spans.append([start, place - 1])
    if spans:
        _matched(spans)
"""
"""Matching runs inside the sandbox, since a hostile pattern may take for ever. Needs `_text`."""


T = TypeVar("T")

_MOST = 1_000
_MEMORY = 512 * 2**20
LONGEST = 120.0
"""Seconds of run time after which a process ends by itself, because its host may have been
killed."""
_SUSPENSIONS = 1_000_000


class MontySandboxes:
    name = "Monty, an interpreter of its own"
    gaps = GAPS

    def __init__(self) -> None:
        self._pool: AsyncMonty | None = None
        self._starting = asyncio.Lock()
        self._sandboxes: set[MontySandbox] = set()

    async def start(
        self,
        text: Text,
        host: SandboxHost,
        longest_answer: int = ANSWER_LIMIT,
        tools: Sequence[DescribedTool] = (),
    ) -> MontySandbox:
        node = _MontyHost(host)
        functions = make_names(text.text, "str", (), node, longest_answer, tools=tools)
        # They would look up the host's variables; the prelude has a FINAL_VAR of its own.
        del functions["FINAL_VAR"], functions["SHOW_VARS"]
        start = partial(self._session, text)
        sandbox = MontySandbox(await start(), start, node, functions, self._sandboxes.discard)
        self._sandboxes.add(sandbox)
        return sandbox

    async def close(self) -> None:
        for sandbox in list(self._sandboxes):
            await sandbox.close()
        if self._pool is not None:
            await self._pool.__aexit__(None, None, None)
            self._pool = None

    async def _session(self, text: Text) -> AsyncMontySession:
        from pydantic_monty import MontyError

        pool = await self._running_pool()
        limits: ResourceLimits = {
            "max_memory": _MEMORY + 4 * 4 * len(text.text),
            "max_suspensions": _SUSPENSIONS,
            "max_turn_duration_secs": LONGEST,
        }
        session = pool.checkout(limits=limits)
        try:
            await session.__aenter__()
            await session.feed_run(PRELUDE, inputs={"_text": text.text, **_variables(text)})
        except BaseException as error:
            await _end(session)
            if isinstance(error, MontyError | OSError):
                raise SandboxError(f"A sandbox did not start: {error}") from error
            raise
        return session

    async def _running_pool(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty, MontyError

        async with self._starting:
            if self._pool is None:
                pool = AsyncMonty(max_processes=_MOST, max_checkouts_per_worker=1)
                try:
                    await pool.__aenter__()
                except (MontyError, OSError) as error:
                    raise SandboxError(f"Monty does not start: {error}") from error
                self._pool = pool
            return self._pool


class MontySandbox:
    def __init__(
        self,
        session: AsyncMontySession,
        start: Callable[[], Awaitable[AsyncMontySession]],
        node: _MontyHost,
        functions: dict[str, Any],
        on_close: Callable[[MontySandbox], None],
    ) -> None:
        self._session: AsyncMontySession | None = session
        self._start = start
        self._node = node
        self._names = {**functions, "help": self._help, "_matched": self._matched}
        self._on_close = on_close
        self._running: asyncio.Task[TurnStatus] | None = None
        self._output = TurnOutput()
        self._left = 0.0

    async def run(self, code: str, seconds: float) -> TurnResult:
        begun = time.monotonic()
        self._left = seconds
        self._running = asyncio.get_running_loop().create_task(self._turn(code))
        try:
            await asyncio.wait([self._running])
        except asyncio.CancelledError:
            self._running.cancel()
            raise
        finally:
            if not self._running.done() or self._running.cancelled():
                await self._kill()
        status = "killed" if self._running.cancelled() else self._running.result()
        output, self._output = self._output, TurnOutput()
        return TurnResult(status, output.text(), output.chars, time.monotonic() - begun)

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        self._on_close(self)
        self.interrupt()
        await self._kill()

    async def _turn(self, code: str) -> TurnStatus:
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        try:
            if self._session is None:
                self._session = await self._start()
            value = await self._to_end(self._session, code)
        except Final:
            await self._kill()  # it is suspended in the middle of its code
            return "final"
        except (MontyRuntimeError, MontySyntaxError) as error:
            self._print(error.display().replace("<python-input-", "<turn-") + "\n")
            return "error"
        except TimeoutError:
            await self._kill()
            return "killed"
        except (MontyCrashedError, SandboxError) as error:
            self._print(f"{error}\n")
            await self._kill()
            return "died"
        if value is not None:
            self._print(f"{value!r}\n")
        return "ok"

    async def _to_end(self, session: AsyncMontySession, code: str) -> Any:
        from pydantic_monty import AsyncFunctionSnapshot, MontyComplete

        # Names that the interpreter does not know come back as calls, whatever their values are here.
        known = dict.fromkeys(self._names, lambda *args, **kwargs: None)
        snapshot = await self._limited(
            session.feed_start(
                code, external_lookup=known, print_callback=lambda _, text: self._print(text)
            )
        )
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, AsyncFunctionSnapshot) and not snapshot.is_os_function:
                snapshot = await self._answered(snapshot)
            else:  # it looks up an unknown name or calls the operating system, which does not exist
                snapshot = await self._limited(snapshot.resume_auto())
        return snapshot.output

    async def _answered(self, call: Any) -> AsyncSnapshot:
        try:
            value = await self._called(call.function_name, call.args, call.kwargs)
        except (CallRefusedError, TypeError, ValueError, NameError) as error:
            kind = RuntimeError if isinstance(error, CallRefusedError) else type(error)
            return await self._limited(call.resume({"exception": kind(str(error))}))
        return await self._limited(call.resume({"return_value": value}))

    async def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The functions cannot wait, so a first try finds out what they need from the engine."""
        function = self._names.get(name)
        if function is None:
            raise NameError(f"name {name!r} is not defined")
        try:
            return _plain(function(*args, **kwargs))
        except _HostCall as call:
            self._node.reply = await self._node.host.call(*call.args)
        try:
            return _plain(function(*args, **kwargs))
        finally:
            self._node.reply = None

    async def _limited(self, work: Awaitable[T]) -> T:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                return await work
        finally:
            self._left -= time.monotonic() - begun

    async def _kill(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await _end(session)

    def _print(self, text: str) -> None:
        self._output.write(text)

    def _help(self, name: object = "") -> None:
        function = self._names.get(str(name))
        self._print(
            f"{(function.__doc__ if function else None) or 'There is help for: ' + ', '.join(sorted(self._names))}\n"
        )

    def _matched(self, spans: list[list[int]]) -> None:
        self._node.send("touch", {"how": "grep", "spans": spans})


class _HostCall(BaseException):
    """A function needs an answer of the engine. args: those of `SandboxHost.call`."""


class _MontyHost:
    def __init__(self, host: SandboxHost) -> None:
        self.host = host
        self.reply: Any = None

    def call(self, name: str, args: dict[str, Any]) -> Any:
        if self.reply is None:
            raise _HostCall(name, args)
        return self.reply

    def send(self, name: str, args: dict[str, Any]) -> None:
        self.host.send(name, args)


async def _end(session: AsyncMontySession) -> None:
    """A busy process may raise an error, but has ended all the same."""
    from pydantic_monty import MontyError

    with suppress(MontyError, RuntimeError):
        await session.__aexit__(None, None, None)


def _variables(text: Text) -> dict[str, Any]:
    whole = NamedContext("context", text.kind, 0, len(text.text), text.parts)
    return {each.name: _value(text.text, each) for each in (whole, *text.contexts)}


def _value(text: str, context: NamedContext) -> str | list[str] | dict[str, str]:
    if context.kind == "str":
        return text[context.start : context.end]
    if context.kind == "dict":
        return {name: text[start:end] for name, start, end in context.parts}
    return [text[start:end] for _, start, end in context.parts]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return to_plain_str(value) if isinstance(value, str) else value
