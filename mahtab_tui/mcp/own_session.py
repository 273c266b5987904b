"""The agent's own session: without a screen, saved like every session, and started when it is first
needed."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from pathlib import Path

import anyio

from mahtab_tui.bus.records import Input, UserReplOut, record_of
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.mcp.connection import SessionConnection
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel_factory import process_kernel
from mahtab_tui.session.share_server import AgentService
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.namespaces import keep_place
from mahtab_tui.store.resume import new_store

LATE = 20_000
"""Most characters of output between cells that the next answer holds."""


class OwnSession:
    """A session that only its agent uses. Nobody approves its code; what a rule asks about does not
    run."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        # Without a model that is set, no server of this machine is looked for.
        self._settings = settings.model_copy(
            update={"approval": "auto", "kernel": None, "model": settings.model or "demo"}
        )
        self._journal = journal
        self._starting = asyncio.Lock()
        self._session: Session | None = None
        self._connection: SessionConnection | None = None
        self._unattended = _Unattended()

    async def connection(self, agent: str) -> SessionConnection:
        """Return the connection to it; start it if necessary. agent: the client's name. Raises
        `McpToolError`."""
        async with self._starting:
            if self._connection is not None and not self._connection.over:
                return self._connection
            with anyio.CancelScope(
                shield=True
            ):  # the starting thread cannot be cancelled; the next call would start a second session
                ours = await asyncio.to_thread(self._start)
                joined = await SessionConnection.connect(ours, agent, self._journal)
            self._connection = joined
            return joined

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        if self._session is not None:
            await asyncio.to_thread(self._session.close, hurry=True)

    def take_late_output(self) -> str:
        """Return and forget what was printed between cells."""
        return self._unattended.take()

    def _start(self) -> socket.socket:
        store, name, _ = new_store(Path.cwd())
        keep = (
            keep_place(store.session, self._settings.keep_namespace_mb)
            if self._settings.keep_namespace
            else None
        )
        try:
            session = Session(
                self._settings,
                process_kernel(self._settings, keep),
                HeadlessFrontend(),
                store=store,
                name=name,
            )
            self._unattended.attend(session)
            session.start_cells()
            session.ready.result()
        except KernelError as error:
            if store.claim is not None:
                store.claim.release()
            raise McpToolError(str(error)) from None
        self._session = session
        ours, theirs = socket.socketpair()
        AgentService(session, Path.cwd()).serve(theirs, owns_session=True)
        return ours


class _Unattended(logging.Handler):
    """Gives `input()` its end, as for a closed file, and collects the output between cells."""

    def __init__(self) -> None:
        super().__init__()
        self._session: Session | None = None
        self._text_lock = threading.Lock()
        self._late = ""

    def attend(self, session: Session) -> None:
        self._session = session
        session.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if isinstance(value, Input) and value.state == "waiting" and self._session is not None:
            # The asking thread waits only after this record, so the answer comes from another one.
            threading.Thread(
                target=self._session.answer_input, args=(value.request, None), daemon=True
            ).start()
        elif isinstance(value, UserReplOut) and value.late:
            with self._text_lock:
                self._late = (self._late + value.text)[-LATE:]

    def take(self) -> str:
        with self._text_lock:
            late, self._late = self._late, ""
        return late
