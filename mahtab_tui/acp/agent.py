"""Serves an editor: it opens sessions, and answers what is asked in them.

Everything that knows the protocol's library is in this package; it uses only the library's types
of messages, and its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import Client, RequestError, schema

from mahtab_tui.acp.commands import COMMANDS, parse_command
from mahtab_tui.acp.editor_session import EditorSession, SessionUnavailable
from mahtab_tui.acp.live_session import LiveSession
from mahtab_tui.acp.options import EditorServer, as_setting, config_options, set_option
from mahtab_tui.acp.questions import BadQuestion, Block, write_question
from mahtab_tui.bus import StoreError
from mahtab_tui.bus.escaping import escape_controls, shorten_line
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.agent_rewinds import describe_preview, describe_rewind
from mahtab_tui.session.rewinding import RewindPreview
from mahtab_tui.settings.model import Settings, SettingsError, load_settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.version import __version__

PROTOCOL_VERSION = 1
INTERNAL_ERROR = -32603
"""JSON-RPC's code for what the session refuses."""
SESSIONS_PER_PAGE = 50
MAX_SESSIONS = 1_000_000
"""Of all pages together."""
META = {"mahtab": {"fork": "the namespace goes along", "rewind": "_mahtab/rewind"}}
"""What no other agent has: a copy of a session has its variables, and a session goes back together
with them."""


class EditorAgent:
    """The agent that an editor starts. All sessions of a process are in one folder."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._has_forms = False
        self._sessions: dict[str, LiveSession] = {}
        self._folder = Path.cwd()
        self._opening = asyncio.Lock()
        """Held while a session is opened."""
        self._attachments = tempfile.TemporaryDirectory(
            prefix="mahtab-acp-", ignore_cleanup_errors=True
        )
        """Pictures and texts that come with questions."""
        self._question_count = 0

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*map(self._end_session, list(self._sessions.values())))
        self._attachments.cleanup()

    # The protocol

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **meta: Any,
    ) -> schema.InitializeResponse:
        """Say what the program can do."""
        elicitation = client_capabilities.elicitation if client_capabilities else None
        self._has_forms = elicitation is not None and elicitation.form is not None
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(
                name="mahtab-tui", title="mahtab", version=__version__
            ),
            auth_methods=[
                schema.AuthMethodAgent(
                    id="settings",
                    name="The program's own settings",
                    description="Choose a model and give its key with: mahtab-tui config, or the screen's /model.",
                )
            ],
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
                field_meta=META,
            ),
        )

    async def authenticate(self, method_id: str, **meta: Any) -> schema.AuthenticateResponse | None:
        """Do nothing: the settings have the keys."""
        return schema.AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[EditorServer] | None = None, **meta: Any
    ) -> schema.NewSessionResponse:
        """Begin a session in a folder."""
        live_session = await self._start_session(
            cwd, mcp_servers, lambda settings: EditorSession.begin(settings, self._folder)
        )
        live_session.announce_commands()
        return schema.NewSessionResponse(
            session_id=live_session.id, config_options=config_options(live_session.session)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.LoadSessionResponse:
        """Go on in a saved session, after telling the editor all of it."""
        live_session = await self._reopen(cwd, session_id, mcp_servers)
        await live_session.replay()
        live_session.announce_commands()
        return schema.LoadSessionResponse(config_options=config_options(live_session.session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.ResumeSessionResponse:
        """Go on in a saved session that the editor knows."""
        live_session = await self._reopen(cwd, session_id, mcp_servers)
        live_session.announce_commands()
        return schema.ResumeSessionResponse(config_options=config_options(live_session.session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.ForkSessionResponse:
        """Copy an open session, with its variables."""
        original = self._idle_session(session_id)
        with original.busy():
            live_session = await self._start_session(cwd, mcp_servers, original.opened.copy)
        live_session.announce_commands()
        return schema.ForkSessionResponse(
            session_id=live_session.id, config_options=config_options(live_session.session)
        )

    async def close_session(self, session_id: str, **meta: Any) -> schema.CloseSessionResponse:
        """End a session; it stays saved."""
        await self._end_session(self._open_session(session_id))
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> schema.ListSessionsResponse:
        """List the saved sessions of a folder, or all, the newest first."""
        start = _read_cursor(cursor)
        with _errors_as_refusals():
            rows = await asyncio.to_thread(
                list_sessions, database(), cwd, limit=start + SESSIONS_PER_PAGE + 1
            )
        page = rows[start : start + SESSIONS_PER_PAGE]
        has_more = len(rows) > start + SESSIONS_PER_PAGE
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=row.id,
                    cwd=row.project,
                    title=shorten_line(row.heading),
                    updated_at=datetime.fromtimestamp(row.last, UTC).isoformat(),
                )
                for row in page
            ],
            next_cursor=str(start + SESSIONS_PER_PAGE) if has_more else None,
        )

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the approval mode or the model."""
        live_session = self._open_session(session_id)
        with _errors_as_refusals():
            set_option(live_session.session, config_id, str(value))
        return schema.SetSessionConfigOptionResponse(
            config_options=config_options(live_session.session)
        )

    async def cancel(self, session_id: str, **meta: Any) -> None:
        """Stop what runs in a session."""
        if live_session := self._sessions.get(session_id):
            live_session.stop()

    async def prompt(
        self, session_id: str, prompt: Sequence[Block], **meta: Any
    ) -> schema.PromptResponse:
        """Answer a question, or carry out a command."""
        live_session = self._idle_session(session_id)
        self._question_count += 1
        with _errors_as_refusals():
            question = write_question(
                prompt, Path(self._attachments.name, str(self._question_count))
            )
        failure = ""
        with live_session.busy():
            try:
                await self._answer(live_session, question)
            except ModelError as error:
                failure = str(error)
            except KernelError as error:
                await live_session.send_text(str(error))
            live_session.writer.end_turn(failure)
            await live_session.flush()
        if live_session.was_cancelled:
            return schema.PromptResponse(stop_reason="cancelled")
        if failure:
            raise _refusal(failure)
        return schema.PromptResponse(stop_reason="end_turn")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore what the editor announces beside the protocol."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Go back to an earlier cell or question, with `_mahtab/rewind`: `sessionId`, `point` and
        `dryRun`, which is true by default."""
        if method != "mahtab/rewind":
            raise RequestError.method_not_found(method)
        live_session = self._idle_session(str(params.get("sessionId")))
        with _errors_as_refusals(), live_session.busy():
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
        name, words = command
        if name == "rewind":
            await self._rewind(live_session, words)
            return
        sentences = await asyncio.to_thread(COMMANDS[name].run, live_session.session, words)
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

    def _enter_folder(self, cwd: str, servers: Sequence[EditorServer] | None) -> Settings:
        """Make a folder the process's own, and return its settings. Raises `RequestError`.

        Args:
            cwd: The folder.
            servers: MCP servers of the editor, which its sessions have beside those of the settings.
        """
        folder = Path(cwd)
        if self._sessions and folder != self._folder:
            raise _refusal(f"This process works in {self._folder}: start another one for {cwd}.")
        with _errors_as_refusals():
            os.chdir(folder)
            self._folder = folder
            settings = load_settings()
            added = dict(map(as_setting, servers or ()))
        return settings.model_copy(update={"mcp": {**settings.mcp, **added}})

    def _open_session(self, session_id: str) -> LiveSession:
        """Return an open session. Raises `RequestError`."""
        live_session = self._sessions.get(session_id)
        if live_session is None:
            raise _refusal(f"The session {session_id} is not open.")
        return live_session

    def _idle_session(self, session_id: str) -> LiveSession:
        """Return an open session in which nothing runs. Raises `RequestError`."""
        live_session = self._open_session(session_id)
        if live_session.is_busy:
            raise _refusal("A question is being answered: wait for its end, or stop it.")
        return live_session

    async def _reopen(
        self, cwd: str, session_id: str, servers: Sequence[EditorServer] | None
    ) -> LiveSession:
        """Open a saved session. Raises `RequestError`."""
        if session_id in self._sessions:
            return self._idle_session(session_id)
        return await self._start_session(
            cwd, servers, lambda settings: EditorSession.reopen(settings, session_id)
        )

    async def _start_session(
        self,
        cwd: str,
        servers: Sequence[EditorServer] | None,
        open_session: Callable[[Settings], EditorSession],
    ) -> LiveSession:
        """Open and start a session. Raises `RequestError`.

        Args:
            cwd: Its folder.
            servers: MCP servers of the editor.
            open_session: Called with the session's settings, on a thread.
        """
        assert self._client is not None
        # One after the other, because the process has one folder.
        async with self._opening:
            settings = self._enter_folder(cwd, servers)
            with _errors_as_refusals():
                opened = await asyncio.to_thread(open_session, settings)
                live_session = LiveSession(opened, self._client, self._has_forms)
                try:
                    await asyncio.to_thread(opened.start)
                except BaseException:
                    await live_session.close()
                    raise
            # Only one session of a process can be found by its process id.
            if not self._sessions and opened.session.settings.share:
                await asyncio.to_thread(opened.share, self._folder)
            self._sessions[live_session.id] = live_session
        return live_session

    async def _end_session(self, live_session: LiveSession) -> None:
        self._sessions.pop(live_session.id, None)
        await live_session.close()


@contextlib.contextmanager
def _errors_as_refusals() -> Iterator[None]:
    """Turn the session's errors into one of the protocol with the same sentence."""
    try:
        yield
    except (
        SessionUnavailable,
        BadQuestion,
        KernelError,
        ModelError,
        SettingsError,
        StoreError,
        OSError,
    ) as error:
        raise _refusal(str(error)) from None


def _read_cursor(cursor: str | None) -> int:
    """Return how many sessions the editor has seen, by the cursor that it got with them. Raises
    `RequestError`."""
    try:
        seen_count = int(cursor or "0")
    except ValueError:
        seen_count = -1
    if not 0 <= seen_count <= MAX_SESSIONS:
        raise _refusal("This is not a cursor of the session list.")
    return seen_count


def _refusal(sentence: str) -> RequestError:
    return RequestError(INTERNAL_ERROR, escape_controls(sentence))
