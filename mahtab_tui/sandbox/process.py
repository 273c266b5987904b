"""Sandboxes that are processes under Landlock and seccomp."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.util import find_spec

from mahtab_tui.sandbox.base import SandboxError, Sandboxes, SandboxHost, Text, TurnResult
from mahtab_tui.sandbox.child import (
    ChildProcess,
    ForkServer,
    NewProcess,
    discard,
    send_text,
)
from mahtab_tui.worker.frames import Frame
from mahtab_tui.worker.sandbox import confinement
from mahtab_tui.worker.sandbox.names import ANSWER_LIMIT, DescribedTool

_START_SECONDS = 60.0
"""How long a process may take to read its text, however large, and lock itself down."""

_SHORT = 1_000_000
"""Texts of less than this many characters are encoded on the event loop's thread, and for each
sandbox again."""

_KEPT_SECONDS = 60.0

_PIECE = 2**19
"""Characters that are encoded at a time; they fit into a processor's cache."""


class ProcessSandboxes:
    """Makes sandboxes with one fork server, which is started with the first sandbox, and again if
    it dies."""

    name = "a process under Landlock and seccomp"
    gaps = ""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._starting = asyncio.Lock()
        self._spare: asyncio.Future[NewProcess] | None = None
        self._kept: tuple[str, int] | None = None
        """The newest long text, and its file."""
        self._forgetting: asyncio.TimerHandle | None = None
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
        self._forget_text()
        if (spare := await self._take_spare()) is not None:
            discard(spare)
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        if self._server is not None:
            self._server.close()
        self._server = None

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
                raise SandboxError(
                    f"A sandbox was not ready after {_START_SECONDS:.0f} s."
                ) from error
            raise
        return child

    async def _fork(self, text: Text) -> NewProcess:
        """Return a process that has a text, and is not yet locked down. Raises `SandboxError`."""
        file = await self._file_of(text.text)
        try:
            process = await self._take_spare()
            if process is None:
                process = await self._new_process()
            send_text(process, file)
        finally:
            os.close(file)
        return process

    async def _file_of(self, text: str) -> int:
        """Return a file of a text, which the caller closes; a long text that was searched a moment
        ago is not written again."""
        if len(text) < _SHORT:
            return _memory_file(text)
        if self._kept is None or self._kept[0] != text:
            file = await _write_memory_file(text)
            self._forget_text()
            self._kept = text, file
        if self._forgetting is not None:
            self._forgetting.cancel()
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(_KEPT_SECONDS, self._forget_text)
        return os.dup(self._kept[1])

    def _forget_text(self) -> None:
        if self._kept is not None:
            os.close(self._kept[1])
        self._kept = None

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

    async def _new_process(self) -> NewProcess:
        server = await self._running_server()
        try:
            return await server.fork()
        except SandboxError:
            if server.alive:
                raise
        return await (await self._running_server()).fork()  # it had died

    async def _running_server(self) -> ForkServer:
        async with self._starting:
            if self._closed:
                raise SandboxError("The sandboxes are closed.")
            if self._server is None or not self._server.alive:
                if self._server is not None:
                    self._server.close()
                self._server = await ForkServer.start()
            return self._server


class ProcessSandbox:
    def __init__(
        self,
        child: ChildProcess,
        start: Callable[[], Awaitable[ChildProcess]],
        on_close: Callable[[ProcessSandbox], None],
    ) -> None:
        """start: starts another process."""
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
    """Write a text to a file in memory on a thread. Raises `SandboxError`."""
    writing = asyncio.ensure_future(asyncio.to_thread(_memory_file, text))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        writing.add_done_callback(_drop)  # the thread goes on
        raise


def _drop(writing: asyncio.Future[int]) -> None:
    if not writing.cancelled() and writing.exception() is None:
        os.close(writing.result())


def _memory_file(text: str) -> int:
    """Write a text to a file in memory. Raises `SandboxError`."""
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
