"""Serves an editor: it opens sessions, and answers what is asked in them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.acp import protocol
from mahtab_tui.acp.commands import COMMANDS, parse_command
from mahtab_tui.acp.editor_session import EditorSession, SessionUnavailable
from mahtab_tui.acp.live_session import LiveSession
from mahtab_tui.acp.options import config_options, set_option
from mahtab_tui.acp.protocol import Editor, EditorServer, refuse_errors
from mahtab_tui.acp.questions import write_question
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.agent_rewinds import describe_preview, describe_rewind
from mahtab_tui.session.rewinding import RewindPreview
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import Settings, load_settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_list import list_sessions

SESSIONS_PER_PAGE = 50
MAX_SESSIONS = 1_000_000
"""The most sessions that all pages of a list have together."""


class EditorAgent:
    """The agent that an editor starts. All sessions of a process are in one folder."""

    def __init__(self) -> None:
        self._editor: Editor
        """Set by `on_connect`."""
        self._sessions: dict[str, LiveSession] = {}
        self._folder = Path.cwd()
        self._opening = asyncio.Lock()
        """Held while a session is opened: one after the other, because the process has one folder."""
        self._attachments = tempfile.TemporaryDirectory(
            prefix="mahtab-acp-", ignore_cleanup_errors=True
        )
        """Pictures and texts that come with questions."""
        self._question_count = 0

    def on_connect(self, conn: Any) -> None:
        self._editor = Editor(conn)

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*map(self._end_session, list(self._sessions.values())))
        self._attachments.cleanup()

    # The protocol

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: protocol.ClientCapabilities | None = None,
        **meta: Any,
    ) -> protocol.InitializeResponse:
        """Say what the program can do."""
        self._editor.has_forms = protocol.has_forms(client_capabilities)
        return protocol.initialize_response()

    async def authenticate(self, method_id: str, **meta: Any) -> None:
        """Do nothing: the settings have the keys."""

    @refuse_errors
    async def new_session(
        self, cwd: str, mcp_servers: Sequence[EditorServer] | None = None, **meta: Any
    ) -> protocol.NewSessionResponse:
        """Begin a session in a folder."""
        async with self._opening:
            live_session = await self._start_session(
                cwd, mcp_servers, lambda settings: EditorSession.begin(settings, self._folder)
            )
        live_session.announce_commands()
        options = config_options(live_session.session)
        return protocol.NewSessionResponse(session_id=live_session.id, config_options=options)

    @refuse_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> protocol.LoadSessionResponse:
        """Go on in a saved session, after telling the editor all of it."""
        live_session = await self._reopen(cwd, session_id, mcp_servers)
        await live_session.replay()
        live_session.announce_commands()
        return protocol.LoadSessionResponse(config_options=config_options(live_session.session))

    @refuse_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> protocol.ResumeSessionResponse:
        """Go on in a saved session that the editor knows."""
        live_session = await self._reopen(cwd, session_id, mcp_servers)
        live_session.announce_commands()
        return protocol.ResumeSessionResponse(config_options=config_options(live_session.session))

    @refuse_errors
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> protocol.ForkSessionResponse:
        """Copy an open session, with its variables."""
        original = self._idle_session(session_id)
        with original.busy():
            async with self._opening:
                live_session = await self._start_session(cwd, mcp_servers, original.opened.copy)
        live_session.announce_commands()
        options = config_options(live_session.session)
        return protocol.ForkSessionResponse(session_id=live_session.id, config_options=options)

    @refuse_errors
    async def close_session(self, session_id: str, **meta: Any) -> None:
        """End a session; it stays saved."""
        await self._end_session(self._open_session(session_id))

    @refuse_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> protocol.ListSessionsResponse:
        """List the saved sessions of a folder, or all, the newest first."""
        start = _read_cursor(cursor)
        end = start + SESSIONS_PER_PAGE
        rows = await asyncio.to_thread(list_sessions, database(), cwd, limit=end + 1)
        return protocol.list_response(rows[start:end], str(end) if len(rows) > end else None)

    @refuse_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> protocol.SetOptionResponse:
        """Change the approval mode or the model."""
        live_session = self._open_session(session_id)
        set_option(live_session.session, config_id, str(value))
        return protocol.SetOptionResponse(config_options=config_options(live_session.session))

    async def cancel(self, session_id: str, **meta: Any) -> None:
        """Stop what runs in a session."""
        if live_session := self._sessions.get(session_id):
            live_session.stop()

    @refuse_errors
    async def prompt(
        self, session_id: str, prompt: Sequence[Any], **meta: Any
    ) -> protocol.PromptResponse:
        """Answer a question, or carry out a command."""
        live_session = self._idle_session(session_id)
        self._question_count += 1
        folder = Path(self._attachments.name, str(self._question_count))
        question = write_question([*map(protocol.as_part, prompt)], folder)
        failure: ModelError | None = None
        with live_session.busy():
            try:
                await self._answer(live_session, question)
            except ModelError as error:
                failure = error
            except KernelError as error:
                await live_session.send_text(str(error))
            live_session.writer.end_turn(str(failure or ""))
            await live_session.flush()
        if live_session.was_cancelled:
            return protocol.PromptResponse(stop_reason="cancelled")
        if failure:
            raise failure
        return protocol.PromptResponse(stop_reason="end_turn")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore what the editor announces beside the protocol."""

    @refuse_errors
    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Go back to an earlier cell or question, with `_mahtab/rewind`: `sessionId`, `point` and
        `dryRun`, which is true by default."""
        # The protocol's library has removed the underscore with which methods beside the protocol begin.
        if method != "mahtab/rewind":
            raise protocol.unknown_method(method)
        live_session = self._idle_session(str(params.get("sessionId")))
        with live_session.busy():
            preview = await self._preview(live_session, str(params.get("point")))
            if params.get("dryRun", True) or preview.does_nothing:
                return {"text": describe_preview(preview)}
            restoration = await asyncio.to_thread(live_session.session.rewinding.rewind, preview)
            return {"text": describe_rewind(preview, restoration)}

    # Questions and commands

    async def _answer(self, live_session: LiveSession, question: str) -> None:
        """Answer a question, or carry out a command."""
        command = parse_command(question)
        if command is None:
            await asyncio.to_thread(live_session.session.agent.ask, question, attach=True)
            return
        name, argument = command
        if name == "rewind":
            await self._rewind(live_session, point=argument)
            return
        sentences = await asyncio.to_thread(COMMANDS[name].run, live_session.session, argument)
        if sentences:
            await live_session.send_text(sentences)

    async def _rewind(self, live_session: LiveSession, point: str) -> None:
        """Show what would go back to before a point, ask, and do it."""
        preview = await self._preview(live_session, point)
        text = describe_preview(preview)
        if preview.does_nothing:
            await live_session.send_text(text)
            return
        if not await live_session.confirm_rewind(f"Go back to before {preview.point.name}", text):
            await live_session.send_text("Nothing was changed.")
            return
        await asyncio.to_thread(live_session.session.rewinding.rewind, preview)
        if preview.target.cell is None:
            # The session itself says what it has undone.
            await live_session.send_text("The conversation is as it was.")

    async def _preview(self, live_session: LiveSession, point: str) -> RewindPreview:
        """Return what a rewind would do. Raises `KernelError`."""
        rewinding = live_session.session.rewinding
        return await asyncio.to_thread(lambda: rewinding.preview(rewinding.find(point)))

    # Sessions

    def _enter_folder(self, cwd: str, servers: Mapping[str, McpServer]) -> Settings:
        """Make a folder the process's own, and return its settings. Raises `SessionUnavailable`.

        Args:
            cwd: The folder.
            servers: MCP servers of the editor, which its sessions have beside those of the settings.
        """
        folder = Path(cwd)
        if self._sessions and folder != self._folder:
            raise SessionUnavailable(
                f"This process works in {self._folder}: start another one for {cwd}."
            )
        if not folder.is_absolute():
            raise SessionUnavailable(f"The folder {cwd} has no absolute path.")
        try:
            os.chdir(folder)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SessionUnavailable(f"The folder {cwd} cannot be used: {reason}.") from None
        self._folder = folder
        settings = load_settings()
        return settings.model_copy(update={"mcp": {**settings.mcp, **servers}})

    def _open_session(self, session_id: str) -> LiveSession:
        """Return an open session. Raises `SessionUnavailable`."""
        live_session = self._sessions.get(session_id)
        if live_session is None:
            raise SessionUnavailable(f"The session {session_id} is not open.")
        return live_session

    def _idle_session(self, session_id: str) -> LiveSession:
        """Return an open session in which nothing runs. Raises `SessionUnavailable`."""
        live_session = self._open_session(session_id)
        if live_session.is_busy:
            raise SessionUnavailable("A question is being answered: wait for its end, or stop it.")
        return live_session

    async def _reopen(
        self, cwd: str, session_id: str, servers: Sequence[EditorServer] | None
    ) -> LiveSession:
        """Return a saved session, and open it if it is not open. Raises `SessionUnavailable`."""
        async with self._opening:
            # Only now, because another request may have been opening it.
            if session_id in self._sessions:
                return self._idle_session(session_id)
            return await self._start_session(
                cwd, servers, lambda settings: EditorSession.reopen(settings, session_id)
            )

    async def _start_session(
        self,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None,
        open_session: Callable[[Settings], EditorSession],
    ) -> LiveSession:
        """Open and start a session. Hold `_opening` meanwhile. Raises `SessionUnavailable`.

        Args:
            cwd: Its folder.
            mcp_servers: MCP servers of the editor.
            open_session: Called with the session's settings, on a thread.
        """
        servers = protocol.as_settings(mcp_servers)
        settings = self._enter_folder(cwd, servers)
        opened = await asyncio.to_thread(open_session, settings)
        live_session = LiveSession(opened, self._editor)
        try:
            await asyncio.to_thread(opened.start)
        except BaseException:
            await live_session.close()
            raise
        # Only one session of a process can be found by its process id.
        if not self._sessions and opened.session.settings.share:
            await asyncio.to_thread(opened.share, self._folder)
        self._sessions[live_session.id] = live_session
        if servers:
            live_session.start_servers(servers)
        return live_session

    async def _end_session(self, live_session: LiveSession) -> None:
        self._sessions.pop(live_session.id, None)
        await live_session.close()


def _read_cursor(cursor: str | None) -> int:
    """Return how many sessions the editor has seen, by the cursor that it got with them.

    Raises `SessionUnavailable`.
    """
    try:
        seen_count = int(cursor or "0")
    except ValueError:
        seen_count = -1
    if not 0 <= seen_count <= MAX_SESSIONS:
        raise SessionUnavailable("This is not a cursor of the session list.")
    return seen_count
