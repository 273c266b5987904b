"""Serves an editor: it opens sessions, and answers what is asked in them.

Everything that knows the protocol's library is in this package; it uses only the library's types
of messages, and its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from acp import Client, RequestError, schema

from mahtab_tui.acp.commands import COMMANDS, available_commands, parse_command
from mahtab_tui.acp.editor_session import EditorSession, SessionUnavailable
from mahtab_tui.acp.options import EditorServer, as_setting, config_options, set_option
from mahtab_tui.acp.questions import BadQuestion, Block, write_question
from mahtab_tui.acp.requests import ask_user
from mahtab_tui.acp.updates import Request, Update, UpdateWriter, text_block
from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.agent_rewinds import describe_preview, describe_rewind
from mahtab_tui.session.rewinding import RewindPreview
from mahtab_tui.settings.model import Settings, SettingsError, load_settings
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.version import __version__

PROTOCOL_VERSION = 1
PROGRESS_INTERVAL_S = 0.2
"""Seconds between two updates of a cell that prints."""
COMMANDS_DELAY_S = 0.2
"""Editors ignore commands of a session that they do not know yet."""
SESSIONS_A_PAGE = 50
META = {"mahtab": {"fork": "the namespace goes along", "rewind": "_mahtab/rewind"}}
"""What no other agent has: a copy of a session has its variables, and a session goes back together
with them."""


class LiveSession:
    """An open session, and the updates that wait for its editor."""

    def __init__(self, opened: EditorSession, client: Client, has_forms: bool) -> None:
        """
        Args:
            opened: The session, which was not started yet.
            client: The editor.
            has_forms: Whether the editor can ask its user for a line of text.
        """
        self.opened = opened
        self.session = opened.session
        self.id = opened.id
        self.is_busy = False
        """Whether a question or a command runs."""
        self.was_cancelled = False
        """Whether the editor has stopped it."""
        self._client = client
        self._has_forms = has_forms
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[Update | Request] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        """What goes on beside the updates: requests to the user."""
        self.writer = UpdateWriter(self._put, cost=lambda: self.session.spending.total.cost)
        self.session.listen(lambda log: log.addHandler(self.writer))
        self._sender = asyncio.create_task(self._send_all())

    def _put(self, item: Update | Request) -> None:
        """Queue an update. Called by the session's threads."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._waiting.put_nowait, item)

    async def say(self, text: str) -> None:
        """Show the user a text."""
        content = text_block(text)
        await self.send(
            schema.AgentMessageChunk(session_update="agent_message_chunk", content=content)
        )

    async def send(self, update: Any) -> None:
        await self._client.session_update(self.id, update)

    async def flush(self) -> None:
        """Wait until the editor has all updates so far."""
        # Behind those that threads have queued.
        await asyncio.sleep(0)
        await self._waiting.join()

    async def replay(self) -> None:
        """Tell the editor what was said and computed before."""
        past_updates: list[Update | Request] = []
        writer = UpdateWriter(past_updates.append)
        for record in await asyncio.to_thread(self.opened.records):
            writer.fold(record)
        writer.end_turn()
        for update in past_updates:
            await self.send(update)

    def announce_commands(self) -> None:
        """Tell the editor a moment later which commands there are."""
        self._start(self._announce_commands())

    def stop(self) -> None:
        """Stop the question or the cell."""
        if self.is_busy:
            self.was_cancelled = True
            self.session.stop()

    async def close(self) -> None:
        """End the session, and what waits for the user."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.to_thread(self.opened.close)
        self._sender.cancel()

    async def _send_all(self) -> None:
        """Send updates in their order, and what cells print meanwhile."""
        while True:
            item: Update | Request | None = None
            interval = PROGRESS_INTERVAL_S if self.writer.has_running_cells else None
            with contextlib.suppress(TimeoutError):
                item = await asyncio.wait_for(self._waiting.get(), interval)
            if item is None:
                for update in self.writer.take_progress():
                    await self.send(update)
                continue
            try:
                if isinstance(item, records.Record):
                    self._start(self._ask(item))
                else:
                    await self.send(item)
            finally:
                self._waiting.task_done()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce_commands(self) -> None:
        await asyncio.sleep(COMMANDS_DELAY_S)
        await self.send(
            schema.AvailableCommandsUpdate(
                session_update="available_commands_update",
                available_commands=available_commands(),
            )
        )

    async def _ask(self, request: Request) -> None:
        await ask_user(self._client, self.id, self.session, self.writer, request, self._has_forms)


class EditorAgent:
    """The agent that an editor starts. All sessions of a process are in one folder."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._has_forms = False
        self._sessions: dict[str, LiveSession] = {}
        self._folder = Path.cwd()
        self._files = tempfile.TemporaryDirectory(prefix="mahtab-acp-", ignore_cleanup_errors=True)
        """Pictures and texts that come with questions."""
        self._question_count = 0

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """End all sessions."""
        for live in list(self._sessions.values()):
            await self._end(live)
        self._files.cleanup()

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
        settings = self._settings(cwd, mcp_servers)
        live = await self._open(lambda: EditorSession.begin(settings, self._folder))
        return schema.NewSessionResponse(
            session_id=live.id, config_options=config_options(live.session)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.LoadSessionResponse:
        """Go on in a saved session, after telling the editor all of it."""
        live = await self._reopen(cwd, session_id, mcp_servers)
        await live.replay()
        return schema.LoadSessionResponse(config_options=config_options(live.session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.ResumeSessionResponse:
        """Go on in a saved session that the editor knows."""
        live = await self._reopen(cwd, session_id, mcp_servers)
        return schema.ResumeSessionResponse(config_options=config_options(live.session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.ForkSessionResponse:
        """Copy an open session, with its variables."""
        settings = self._settings(cwd, mcp_servers)
        original = self._idle(session_id)
        live = await self._open(lambda: original.opened.copy(settings))
        return schema.ForkSessionResponse(
            session_id=live.id, config_options=config_options(live.session)
        )

    async def close_session(self, session_id: str, **meta: Any) -> schema.CloseSessionResponse:
        """End a session; it stays saved."""
        await self._end(self._session(session_id))
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> schema.ListSessionsResponse:
        """List the saved sessions of a folder, or all, the newest first."""
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        with _answered():
            rows = await asyncio.to_thread(
                list_sessions, database(), cwd, limit=start + SESSIONS_A_PAGE + 1
            )
        page = rows[start : start + SESSIONS_A_PAGE]
        has_more = len(rows) > start + SESSIONS_A_PAGE
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=row.id, cwd=row.project, title=escape_controls(row.heading)
                )
                for row in page
            ],
            next_cursor=str(start + SESSIONS_A_PAGE) if has_more else None,
        )

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the approval mode or the model."""
        live = self._session(session_id)
        with _answered():
            set_option(live.session, config_id, str(value))
        return schema.SetSessionConfigOptionResponse(config_options=config_options(live.session))

    async def cancel(self, session_id: str, **meta: Any) -> None:
        """Stop what runs in a session."""
        if live := self._sessions.get(session_id):
            live.stop()

    async def prompt(
        self, session_id: str, prompt: Sequence[Block], **meta: Any
    ) -> schema.PromptResponse:
        """Answer a question, or carry out a command."""
        live = self._idle(session_id)
        self._question_count += 1
        with _answered():
            question = write_question(prompt, Path(self._files.name, str(self._question_count)))
        live.is_busy = True
        live.was_cancelled = False
        try:
            await self._answer(live, question)
            live.writer.end_turn()
        except ModelError as error:
            live.writer.end_turn(str(error))
            raise _refusal(str(error)) from None
        except KernelError as error:
            await live.say(escape_controls(str(error)))
        finally:
            await live.flush()
            live.is_busy = False
        return schema.PromptResponse(stop_reason="cancelled" if live.was_cancelled else "end_turn")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore what the editor announces beside the protocol."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Go back to an earlier cell or question, with `_mahtab/rewind`: `sessionId`, `point` and
        `dryRun`, which is true by default."""
        if method != "mahtab/rewind":
            raise RequestError.method_not_found(method)
        live = self._idle(str(params.get("sessionId")))
        with _answered():
            preview = await self._preview(live, str(params.get("point")))
            if params.get("dryRun", True) or preview.does_nothing:
                return {"text": describe_preview(preview)}
            restoration = await asyncio.to_thread(live.session.rewinding.rewind, preview)
            return {"text": describe_rewind(preview, restoration)}

    # Questions and commands

    async def _answer(self, live: LiveSession, question: str) -> None:
        """Answer a question, or carry out a command."""
        command = parse_command(question)
        if command is None:
            await asyncio.to_thread(live.session.agent.ask, question, attach=True)
            return
        name, words = command
        if name == "rewind":
            await self._rewind(live, words)
            return
        sentences = await asyncio.to_thread(COMMANDS[name].run, live.session, words)
        if sentences:
            await live.say(sentences)

    async def _rewind(self, live: LiveSession, point: str) -> None:
        """Show what would go back to before a point, ask, and do it."""
        preview = await self._preview(live, point)
        text = describe_preview(preview)
        if preview.does_nothing:
            await live.say(text)
            return
        assert self._client is not None
        answer = await self._client.request_permission(
            live.id,
            schema.ToolCallUpdate(
                tool_call_id=f"rewind-{preview.point.entry}",
                title=f"Go back to before {preview.point.name}",
                kind="other",
                status="pending",
                content=[schema.ContentToolCallContent(type="content", content=text_block(text))],
            ),
            [
                schema.PermissionOption(option_id="rewind", name="Go back", kind="allow_once"),
                schema.PermissionOption(option_id="keep", name="Keep all", kind="reject_once"),
            ],
        )
        if answer.outcome.outcome != "selected" or answer.outcome.option_id != "rewind":
            await live.say("Nothing was changed.")
            return
        await asyncio.to_thread(live.session.rewinding.rewind, preview)
        if preview.target.cell is None:
            # The session itself says what it has undone.
            await live.say("The conversation is as it was.")

    async def _preview(self, live: LiveSession, point: str) -> RewindPreview:
        """Return what a rewind would do. Raises `KernelError`."""
        rewinding = live.session.rewinding
        return await asyncio.to_thread(lambda: rewinding.preview(rewinding.find(point)))

    # Sessions

    def _settings(self, cwd: str, servers: Sequence[EditorServer] | None) -> Settings:
        """Return the settings of a folder, which becomes the process's own. Raises `RequestError`.

        Args:
            cwd: The folder.
            servers: MCP servers of the editor, which its sessions have beside those of the settings.
        """
        folder = Path(cwd)
        if self._sessions and folder != self._folder:
            raise _refusal(f"This process works in {self._folder}: start another one for {cwd}.")
        with _answered():
            os.chdir(folder)
            self._folder = folder
            settings = load_settings()
            added = dict(map(as_setting, servers or ()))
        return settings.model_copy(update={"mcp": {**settings.mcp, **added}})

    def _session(self, session_id: str) -> LiveSession:
        """Return an open session. Raises `RequestError`."""
        live = self._sessions.get(session_id)
        if live is None:
            raise _refusal(f"The session {session_id} is not open.")
        return live

    def _idle(self, session_id: str) -> LiveSession:
        """Return an open session in which nothing runs. Raises `RequestError`."""
        live = self._session(session_id)
        if live.is_busy:
            raise _refusal("A question is being answered: wait for its end, or stop it.")
        return live

    async def _reopen(
        self, cwd: str, session_id: str, servers: Sequence[EditorServer] | None
    ) -> LiveSession:
        """Open a saved session. Raises `RequestError`."""
        if session_id in self._sessions:
            return self._idle(session_id)
        settings = self._settings(cwd, servers)
        return await self._open(lambda: EditorSession.reopen(settings, session_id))

    async def _open(self, open_session: Callable[[], EditorSession]) -> LiveSession:
        """Open and start a session. Raises `RequestError`."""
        assert self._client is not None
        with _answered():
            opened = await asyncio.to_thread(open_session)
            live = LiveSession(opened, self._client, self._has_forms)
            await asyncio.to_thread(opened.start)
        # Only one session of a process can be found by its process id.
        if not self._sessions and opened.session.settings.share:
            await asyncio.to_thread(opened.share, self._folder)
        self._sessions[live.id] = live
        live.announce_commands()
        return live

    async def _end(self, live: LiveSession) -> None:
        live.stop()
        self._sessions.pop(live.id, None)
        await live.close()


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """Answer with a sentence what the session refuses."""
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


def _refusal(sentence: str) -> RequestError:
    return RequestError(-32603, escape_controls(sentence))
