"""Sandboxes that are processes under Landlock and seccomp."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TypeVar

from mahtab_tui.sandbox.base import SandboxError, Sandboxes, SandboxHost, Text, TextRun, TurnResult
from mahtab_tui.sandbox.child import (
    ChildProcess,
    ForkServer,
    NewProcess,
    SandboxServer,
    TextServer,
    discard,
    send_text,
)
from mahtab_tui.worker.frames import Frame
from mahtab_tui.worker.sandbox import confinement
from mahtab_tui.worker.sandbox.names import ANSWER_LIMIT, DescribedTool

T = TypeVar("T")
ServerT = TypeVar("ServerT", bound=SandboxServer)

_START_SECONDS = 60.0
"""Time for a process to read its text, however large, and lock itself down."""

_SHORT = 1_000_000
"""Shorter texts are encoded on the event loop's thread, again for each sandbox."""

_PIECE = 2**19
"""Characters that are encoded at a time; they fit into a processor's cache."""


class ProcessSandboxes:
    """Makes sandboxes with one fork server, which starts with the first sandbox."""

    name = "a process under Landlock and seccomp"
    gaps = ""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._starting = asyncio.Lock()
        self._text_server: TextServer | None = None
        """For the newest long text of a whole search."""
        self._loading = asyncio.Lock()
        self._spare: asyncio.Future[NewProcess] | None = None
        self._sandboxes: set[ProcessSandbox] = set()
        self._closed = False

    async def start(
        self,
        text: Text,
        host: SandboxHost,
        longest_answer: int = ANSWER_LIMIT,
        tools: Sequence[DescribedTool] = (),
    ) -> ProcessSandbox:
        about = {
            "kind": text.kind,
            "parts": text.parts,
            "contexts": text.contexts,
            "answer": longest_answer,
            "tools": list(tools),
        }
        start = partial(self._child, text, host, about)
        sandbox = ProcessSandbox(await start(), start, self._closed_one)
        self._sandboxes.add(sandbox)
        return sandbox

    async def close(self) -> None:
        self._closed = True
        if (spare := await self._take_spare()) is not None:
            discard(spare)
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        for server in (self._text_server, self._server):
            if server is not None:
                server.close()
        self._text_server = self._server = None

    async def _child(self, text: Text, host: SandboxHost, about: Frame) -> ChildProcess:
        """Start a process that holds a text and is ready for its first turn. about: how its code
        gets the text. Raises `SandboxError`."""
        channel, forked = await self._fork(text)
        child = ChildProcess(forked, host)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.get_running_loop().create_connection(lambda: child, sock=channel)
                child.send({"op": "text", **about})
                await child.ready
        except BaseException as error:
            child.kill()  # the transport owns the socket by now and closes it
            if isinstance(error, TimeoutError):
                late = f"A sandbox was not ready after {_START_SECONDS:.0f} s."
                raise SandboxError(late) from error
            raise
        return child

    async def _fork(self, text: Text) -> NewProcess:
        """Return a process that has a text, and is not yet locked down. Raises `SandboxError`."""
        whole = text.origin == (TextRun(0, 0, len(text.text)),)
        if whole and len(text.text) >= _SHORT:
            start = partial(self._text_server_for, text.text)
            return await _use_server(start, SandboxServer.fork)
        file = await _write_memory_file(text.text)
        try:
            process = await self._take_spare()
            if process is None:
                process = await _use_server(self._running_server, SandboxServer.fork)
            send_text(process, file)
        finally:
            os.close(file)
        return process

    async def _take_spare(self) -> NewProcess | None:
        """Return the process that was made for the next search, if it still runs."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        with contextlib.suppress(SandboxError):
            process = await spare
            if not process[1].ended.done():
                return process
            discard(process)
        return None

    def _closed_one(self, sandbox: ProcessSandbox) -> None:
        """Forget a sandbox, and make a process for the next one while nothing waits for it."""
        self._sandboxes.discard(sandbox)
        if not self._closed and self._spare is None and self._server is not None:
            self._spare = asyncio.ensure_future(self._server.fork())

    async def _text_server_for(self, text: str) -> TextServer:
        """Return the server of a text; a text that has been searched before is not sent again."""
        async with self._loading:
            before = self._text_server
            if before is not None and before.alive and before.text == text:
                return before
            if before is not None:
                before.release()
            file = await _write_memory_file(text)
            try:
                server: TextServer = await _use_server(
                    self._running_server, lambda parent: parent.load(text, file)
                )
            finally:
                os.close(file)  # now, so that its memory is free while the server copies the text
            self._text_server = server
            await server.loaded()
            return server

    async def _running_server(self) -> ForkServer:
        async with self._starting:
            if self._closed:
                raise SandboxError("The sandboxes are closed.")
            if self._server is None or not self._server.alive:
                if self._server is not None:
                    self._server.close()
                self._server = await ForkServer.start()
            return self._server


async def _use_server(
    start: Callable[[], Awaitable[ServerT]], use: Callable[[ServerT], Awaitable[T]]
) -> T:
    """Use a server, or a new one if it turns out to have died."""
    server = await start()
    try:
        return await use(server)
    except SandboxError:
        if server.alive:
            raise
    return await use(await start())


class ProcessSandbox:
    def __init__(
        self,
        child: ChildProcess,
        start: Callable[[], Awaitable[ChildProcess]],
        on_close: Callable[[ProcessSandbox], None],
    ) -> None:
        self._child = child
        self._start = start
        self._on_close = on_close

    async def run(self, code: str, seconds: float) -> TurnResult:
        if self._child.over:
            try:
                self._child = await self._start()
            except SandboxError as error:
                return TurnResult("died", str(error), len(str(error)), 0.0)
        try:
            return await self._child.run(code, seconds)
        except asyncio.CancelledError:
            self._child.kill()
            raise

    async def close(self) -> None:
        self._on_close(self)
        self._child.kill()
        await self._child.closed()


async def _write_memory_file(text: str) -> int:
    """Write a text to a file in memory, a long one on a thread. Raises `SandboxError`."""
    if len(text) < _SHORT:
        return _memory_file(text)

    def close(writing: asyncio.Future[int]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            os.close(writing.result())

    writing = asyncio.ensure_future(asyncio.to_thread(_memory_file, text))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        writing.add_done_callback(close)  # the thread goes on
        raise


def _memory_file(text: str) -> int:
    try:
        file = confinement.memory_file("text")
        for start in range(0, len(text), _PIECE):
            left = memoryview(text[start : start + _PIECE].encode("utf-8", "surrogatepass"))
            while left:
                left = left[os.write(file, left) :]
    except OSError as error:
        raise SandboxError(f"Not enough memory for a sandbox's text: {error.strerror}.") from error
    return file


def open_sandboxes() -> Sandboxes:
    """Open the sandboxes of this system. Call it in the event loop that will use them. Raises
    `SandboxError`."""
    if not (lacking := missing()):
        return ProcessSandboxes()
    if find_spec("pydantic_monty"):
        from mahtab_tui.sandbox.monty import MontySandboxes

        return MontySandboxes()
    raise SandboxError(
        f"A search runs a model's code in a sandbox, and this system cannot lock a process down: {lacking}. Install an interpreter that can be"
        " used instead: pip install pydantic-monty"
    )


def missing() -> str:
    """Say what this system lacks for a process under Landlock and seccomp; empty if nothing."""
    if sys.platform != "linux":
        return f"{sys.platform} has no Landlock and no seccomp"
    return confinement.missing_support()
