"""The session that an agent has for itself, until it joins the user's."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import anyio

from mahtab_tui.bus.records import Input, Record, RecordHandler, UserReplOut
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.mcp.code_log import CodeLog
from mahtab_tui.mcp.connection import SessionConnection
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.sharing import AgentService
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import new_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.system import start_thread

MAX_LATE_CHARS = 20_000
"""Characters of output between cells that are kept for the next answer."""


class OwnFrontend(HeadlessFrontend):
    """Notes that the agent's code called `exit()`."""

    belongs_to_agent = True

    def __init__(self) -> None:
        self.has_left = False

    def leave(self) -> None:
        self.has_left = True


class OwnSession:
    """A session used only by its agent.

    Nobody approves its code, so code that a rule asks about does not run.
    """

    def __init__(self, settings: Settings, code_log: CodeLog) -> None:
        # Without a configured model, this machine would be searched for one.
        update = {"approval": "auto", "kernel": None, "model": settings.model or "demo"}
        self._settings = settings.model_copy(update=update)
        self._code_log = code_log
        self._starting = asyncio.Lock()
        self._resources: ExitStack | None = None
        """Closes what was started for the session; None if there is none."""
        self._connection: SessionConnection | None = None
        self._watcher: SessionWatcher | None = None
        self._frontend = OwnFrontend()

    @property
    def has_left(self) -> bool:
        """Whether its code has called `exit()`."""
        return self._frontend.has_left

    async def connection(self, agent: str) -> SessionConnection:
        """Return the connection to the session, which starts if there is none or the last has ended.

        Args:
            agent: The agent's name, as the session's records tell it.

        Raises:
            McpToolError: The kernel does not start, or the session cannot be joined.
        """
        async with self._starting:
            if self._connection is None or self._connection.has_ended:
                # The thread cannot be cancelled; the next call would start a second session.
                with anyio.CancelScope(shield=True):
                    await self._close_session()
                    service = await asyncio.to_thread(self._start)
                    try:
                        self._connection = await SessionConnection.connect_own(
                            service, agent, self._code_log
                        )
                    except McpToolError:
                        await self._close_session()  # the next call starts another one
                        raise
            assert self._connection is not None
            return self._connection

    def take_late_output(self) -> str:
        """Return the output between cells since the last call."""
        return "" if self._watcher is None else self._watcher.take_late_output()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        await self._close_session()

    async def _close_session(self) -> None:
        if self._resources is not None:
            resources = self._resources
            self._resources = None
            await asyncio.to_thread(resources.close)

    def _start(self) -> AgentService:
        """Start the session, and return what serves its agent. Raises `McpToolError`."""
        # Loads the agent, which would delay the answer to `initialize`.
        from mahtab_tui.session.kernel import process_kernel

        store, name, _ = new_store(Path.cwd())
        settings = self._settings
        target = None
        if settings.keep_namespace:
            target = save_target(store.session, settings.keep_namespace_mb)
        with ExitStack() as resources:
            if store.claim is not None:
                resources.callback(store.claim.release)
            try:
                kernel = process_kernel(settings, target)
                session = Session(settings, kernel, self._frontend, store=store, name=name)
                resources.callback(session.close, hurry=True)
                self._watcher = SessionWatcher(session)
                session.log.addHandler(self._watcher)
                session.cell_thread.start()
                session.ready.result()
            except KernelError as error:
                raise McpToolError(str(error)) from None
            self._resources = resources.pop_all()
        return AgentService(session, Path.cwd())


class SessionWatcher(RecordHandler):
    """Collects output between cells, and answers `input()` with the end of input."""

    kinds = (UserReplOut, Input)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._late_output = ""

    def fold(self, record: Record) -> None:
        if isinstance(record, UserReplOut) and record.late:
            self._late_output = (self._late_output + record.text)[-MAX_LATE_CHARS:]
        elif isinstance(record, Input) and record.state == "waiting":
            # The asking thread starts waiting only after this record, so the answer must come from
            # another thread.
            start_thread("mcp-input", self._session.host.inputs.answer, record.request, None)

    def take_late_output(self) -> str:
        self.acquire()  # `fold` runs on other threads, with this lock
        text = self._late_output
        self._late_output = ""
        self.release()
        return text
