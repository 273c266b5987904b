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

from mahtab_tui.sandbox.base import SandboxError, Sandboxes, SandboxHost, TurnResult
from mahtab_tui.sandbox.child import ChildProcess
from mahtab_tui.sandbox.fork_server import (
    ForkServer,
    NewProcess,
    SandboxServer,
    TextServer,
    discard,
    send_text,
)
from mahtab_tui.sandbox.searched_text import SearchedText, TextRun
from mahtab_tui.worker.link.frames import Frame
from mahtab_tui.worker.sandbox import confinement, system_calls
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool
from mahtab_tui.worker.sandbox.functions import MAX_ANSWER_CHARS

T = TypeVar("T")
ServerT = TypeVar("ServerT", bound=SandboxServer)

_START_TIMEOUT_S = 60.0
"""Time for a process to read its text, however large, and lock itself down."""
_LONG_TEXT_CHARS = 1_000_000
"""Shorter texts are encoded on the event loop's thread, again for each sandbox."""
_CHUNK_CHARS = 2**19
"""Characters that are encoded at a time; they fit into a processor's cache."""


class ProcessSandboxes:
    """Makes sandboxes with one fork server, which starts with the first sandbox."""

    name = "a process under Landlock and seccomp"
    unsupported_features = ""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._starting = asyncio.Lock()
        self._text_server: TextServer | None = None
        """Serves the newest long text of a whole search."""
        self._loading = asyncio.Lock()
        self._spare: asyncio.Future[NewProcess] | None = None
        """A process for the next sandbox, made while nothing waits for it."""
        self._sandboxes: set[ProcessSandbox] = set()
        self._closed = False

    async def start(
        self,
        text: SearchedText,
        host: SandboxHost,
        max_answer_chars: int = MAX_ANSWER_CHARS,
        tools: Sequence[DescribedTool] = (),
    ) -> ProcessSandbox:
        text_frame = {
            "op": "text",
            "kind": text.kind,
            "parts": text.parts,
            "contexts": text.contexts,
            "max_answer_chars": max_answer_chars,
            "tools": list(tools),
        }
        start = partial(self._start_child, text, host, text_frame)
        sandbox = ProcessSandbox(await start(), start, self._replace_closed)
        if self._closed:
            await sandbox.close()
            raise SandboxError("The sandboxes were closed meanwhile.")
        self._sandboxes.add(sandbox)
        return sandbox

    async def close(self) -> None:
        self._closed = True
        spare = await self._take_spare()
        if spare is not None:
            discard(spare)
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        for server in (self._text_server, self._server):
            if server is not None:
                server.close()
        self._text_server = None
        self._server = None

    async def _start_child(
        self, text: SearchedText, host: SandboxHost, text_frame: Frame
    ) -> ChildProcess:
        """Start a process that holds a text and is ready for its first turn.

        Args:
            text: The text.
            host: Answers the calls of its code.
            text_frame: The first frame, which says how its code gets the text.

        Raises:
            SandboxError: The process did not start, or not in time.
        """
        process = await self._fork(text)
        child = ChildProcess(process.forked, host)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: child, sock=process.channel
                )
                child.send(text_frame)
                await child.ready
        except BaseException as error:
            child.kill()  # the transport owns the socket by now and closes it
            if isinstance(error, TimeoutError):
                raise SandboxError(
                    f"A sandbox was not ready after {_START_TIMEOUT_S:.0f} s."
                ) from error
            raise
        return child

    async def _fork(self, text: SearchedText) -> NewProcess:
        """Return a process that has a text, and is not yet locked down. Raises `SandboxError`."""
        is_root_text = text.origin == (TextRun(0, 0, len(text.text)),)
        if is_root_text and len(text.text) >= _LONG_TEXT_CHARS:
            start = partial(self._text_server_for, text.text)
            return await _use_server(start, SandboxServer.fork)

        # Other texts belong to one node, and get a process of their own.
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
        spare = self._spare
        self._spare = None
        if spare is None:
            return None
        with contextlib.suppress(SandboxError):
            process = await spare
            if not process.forked.exit_code.done():
                return process
            discard(process)
        return None

    def _replace_closed(self, sandbox: ProcessSandbox) -> None:
        """Forget a sandbox, and make a process for the next one while nothing waits for it."""
        self._sandboxes.discard(sandbox)
        if not self._closed and self._spare is None and self._server is not None:
            self._spare = asyncio.ensure_future(self._server.fork())

    async def _text_server_for(self, text: str) -> TextServer:
        """Return the server of a text; a text that has been searched before is not sent again."""
        async with self._loading:
            previous = self._text_server
            if previous is not None and previous.alive and previous.text == text:
                return previous
            if previous is not None:
                previous.release()

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
    """One node's Python, in a process that is replaced when it has been killed or has died."""

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
        await self._child.wait_for_end()


async def _write_memory_file(text: str) -> int:
    """Write a text to a file in memory, a long one on a thread. Raises `SandboxError`."""
    if len(text) < _LONG_TEXT_CHARS:
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
        file = system_calls.memory_file("text")
        for start in range(0, len(text), _CHUNK_CHARS):
            chunk = text[start : start + _CHUNK_CHARS].encode("utf-8", "surrogatepass")
            unwritten = memoryview(chunk)
            while unwritten:
                written_bytes = os.write(file, unwritten)
                unwritten = unwritten[written_bytes:]
    except OSError as error:
        raise SandboxError(f"Not enough memory for a sandbox's text: {error.strerror}.") from error
    return file


def open_sandboxes() -> Sandboxes:
    """Open the sandboxes of this system.

    Call it in the event loop that will use them. Raises `SandboxError`.
    """
    missing_support = find_missing_support()
    if not missing_support:
        return ProcessSandboxes()
    if find_spec("pydantic_monty"):
        from mahtab_tui.sandbox.monty import MontySandboxes

        return MontySandboxes()
    raise SandboxError(
        f"A search runs a model's code in a sandbox, and this system cannot lock a process down: {missing_support}. Install an interpreter that can be"
        " used instead: pip install pydantic-monty"
    )


def find_missing_support() -> str:
    """Return what this system lacks for a process under Landlock and seccomp; empty if nothing."""
    if sys.platform != "linux":
        return f"{sys.platform} has no Landlock and no seccomp"
    return confinement.missing_support()
