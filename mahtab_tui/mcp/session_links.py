"""What carries the frames between an agent and a session: a socket, or calls within this
process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from mahtab_tui.session.sharing import AgentService, LocalPeer
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

_READ_BYTES = 65_536


class SessionLink(ABC):
    """Carries the frames between an agent and a session.

    Its methods are called in the event loop.
    """

    @abstractmethod
    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        """Call one function in the event loop with each frame of the session, and the other when
        there are no more."""

    @abstractmethod
    def send(self, frame: Frame) -> None:
        """Send a frame, without waiting. Raises `FrameError` if it is too large."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the session."""


class SocketLink(SessionLink):
    """A socket to a session in another process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._listener: asyncio.Task[None] | None = None

    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        self._listener = asyncio.create_task(self._listen(on_frame, on_end))

    def send(self, frame: Frame) -> None:
        self._writer.write(encode(frame))

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        self._writer.close()

    async def _listen(
        self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]
    ) -> None:
        try:
            while data := await self._reader.read(_READ_BYTES):
                for frame in self._frames.feed(data):
                    on_frame(frame)
        except (OSError, FrameError):
            pass
        finally:
            self._writer.close()
            on_end()


class OwnLink(SessionLink):
    """The agent's own session, which runs in this process."""

    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._peer: LocalPeer | None = None
        self._end: Callable[[], object] = lambda: None
        """Says that no more frames come. Any thread may call this."""

    async def open(self, on_frame: Callable[[Frame], object], on_end: Callable[[], object]) -> None:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe

        def call_in_loop(function: Callable[..., object], *args: object) -> None:
            # The loop may have ended before the session's threads.
            with suppress(RuntimeError):
                call_soon(function, *args)

        self._end = partial(call_in_loop, on_end)
        self._peer = self._service.connect(partial(call_in_loop, on_frame))

    def send(self, frame: Frame) -> None:
        assert self._peer is not None
        if frame["op"] == "call":
            self._peer.handle(frame)
        else:
            # Joining writes a record, and cancelling may wait.
            start_thread("own-agent", self._handle, self._peer, frame)

    async def close(self) -> None:
        if self._peer is not None:
            await asyncio.to_thread(self._peer.close)
        self._end()

    def _handle(self, peer: LocalPeer, frame: Frame) -> None:
        """Let the session do what a frame asks; the connection ends if it fails. Runs on a thread."""
        try:
            peer.handle(frame)
        except BaseException:
            self._end()
            raise
