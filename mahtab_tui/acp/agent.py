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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import Client, RequestError, schema

from mahtab_tui.acp.cell_card import CellCard, text_block
from mahtab_tui.acp.commands import COMMANDS, available_commands, parse_command
from mahtab_tui.acp.editor_session import EditorSession, SessionUnavailable
from mahtab_tui.acp.options import EditorServer, Option, as_setting, config_options, set_option
from mahtab_tui.acp.questions import BadQuestion, Block, write_question
from mahtab_tui.acp.requests import ask_user, choose
from mahtab_tui.acp.updates import Item, Request, UpdateWriter
from mahtab_tui.bus import StoreError, records
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
PROGRESS_INTERVAL_S = 0.2
"""Seconds between two updates of a cell that prints."""
COMMANDS_DELAY_S = 0.2
"""Editors ignore commands of a session that they do not know yet."""
STOP_RETRY_S = 0.1
"""Seconds until a stop is tried again, because nothing had begun that it could stop."""
STOP_TURN_RETRY_S = 1.0
"""Seconds until a question that goes on is stopped again."""
STOP_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for the end of what was stopped, to save all variables."""
SESSIONS_A_PAGE = 50
MAX_SESSIONS = 1_000_000
"""Of all pages together."""
REWIND_OPTIONS = [
    schema.PermissionOption(option_id="rewind", name="Go back", kind="allow_once"),
    schema.PermissionOption(option_id="keep", name="Keep all", kind="reject_once"),
]
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
        self.was_cancelled = False
        """Whether the editor has stopped it."""
        self._client = client
        self._has_forms = has_forms
        self._loop = asyncio.get_running_loop()
        self._rewind_count = 0
        """Of which the user was asked."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_known = asyncio.Event()
        """Set when the editor knows the session: it ignores updates of others."""
        self._waiting: asyncio.Queue[Item] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        """What goes on beside the updates, such as requests to the user."""
        self.writer = UpdateWriter(self._put, cost=lambda: self.session.spending.total.cost)
        self.session.listen(lambda log: log.addHandler(self.writer))
        self._sender = asyncio.create_task(self._send_all())

    def _put(self, item: Item) -> None:
        """Queue an update. Called by the session's threads."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._waiting.put_nowait, item)

    async def say(self, text: str) -> None:
        """Show the user a text."""
        await self.send(
            schema.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text))
        )

    async def send(self, update: Any) -> None:
        """Tell the editor something; does nothing if it is gone."""
        with contextlib.suppress(ConnectionError):
            await self._client.session_update(self.id, update)

    async def confirm_rewind(self, title: str, text: str) -> bool:
        """Ask the user whether the session goes back."""
        self._rewind_count += 1
        card = CellCard(f"rewind-{self._rewind_count}", title=title, kind="other", notes=[text])
        return await choose(self._client, self.id, card, REWIND_OPTIONS) == "rewind"

    async def flush(self) -> None:
        """Wait until the editor has all updates so far."""
        # Behind those that threads have queued.
        await asyncio.sleep(0)
        await self._waiting.join()

    async def replay(self) -> None:
        """Tell the editor what was said and computed before."""
        past_updates: list[Item] = []
        writer = UpdateWriter(past_updates.append)
        for record in await asyncio.to_thread(self.opened.records):
            writer.fold(record)
        writer.end_turn()
        for update in past_updates:
            await self.send(update)

    def announce_commands(self) -> None:
        """Tell the editor a moment later which commands there are, and what the session has said
        since it began."""
        self._start(self._announce_commands())

    @property
    def is_busy(self) -> bool:
        """Whether a question or a command runs."""
        return not self._idle.is_set()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Let nothing else begin meanwhile."""
        self.was_cancelled = False
        self._is_known.set()
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def stop(self) -> None:
        """Stop the question or the cell, also one that is about to begin."""
        if self.is_busy and not self.was_cancelled:
            self.was_cancelled = True
            self._start(self._stop())

    async def close(self) -> None:
        """Stop what runs, save the variables and end the session."""
        self.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._idle.wait()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.to_thread(self.opened.close)
        self._sender.cancel()

    async def _stop(self) -> None:
        """Stop until a cell was interrupted, or nothing runs."""
        while self.is_busy:
            stopped = self.session.stop()
            if stopped == "cell":
                return
            await asyncio.sleep(STOP_TURN_RETRY_S if stopped else STOP_RETRY_S)

    async def _send_all(self) -> None:
        """Send updates in their order, and what cells print meanwhile."""
        await self._is_known.wait()
        options = config_options(self.session)
        while True:
            item: Item | None = None
            interval = PROGRESS_INTERVAL_S if self.writer.has_open_cards else None
            with contextlib.suppress(TimeoutError):
                item = await asyncio.wait_for(self._waiting.get(), interval)
            if item is None:
                for update in self.writer.take_progress():
                    await self.send(update)
                continue
            try:
                if isinstance(item, records.SessionRecord):
                    former_options = options
                    options = config_options(self.session)
                    if options != former_options:
                        await self._send_options(options)
                elif isinstance(item, records.Record):
                    self._start(self._ask(item))
                else:
                    await self.send(item)
            finally:
                self._waiting.task_done()

    async def _send_options(self, options: list[Option]) -> None:
        await self.send(
            schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce_commands(self) -> None:
        await asyncio.sleep(COMMANDS_DELAY_S)
        self._is_known.set()
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
        self._opening = asyncio.Lock()
        """Held while a session is opened."""
        self._files = tempfile.TemporaryDirectory(prefix="mahtab-acp-", ignore_cleanup_errors=True)
        """Pictures and texts that come with questions."""
        self._question_count = 0

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*map(self._end, list(self._sessions.values())))
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
        live = await self._open(
            cwd, mcp_servers, lambda settings: EditorSession.begin(settings, self._folder)
        )
        live.announce_commands()
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
        live.announce_commands()
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
        live.announce_commands()
        return schema.ResumeSessionResponse(config_options=config_options(live.session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Sequence[EditorServer] | None = None,
        **meta: Any,
    ) -> schema.ForkSessionResponse:
        """Copy an open session, with its variables."""
        original = self._idle(session_id)
        with original.busy():
            live = await self._open(cwd, mcp_servers, original.opened.copy)
        live.announce_commands()
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
        start = _read_cursor(cursor)
        with _answered():
            rows = await asyncio.to_thread(
                list_sessions, database(), cwd, limit=start + SESSIONS_A_PAGE + 1
            )
        page = rows[start : start + SESSIONS_A_PAGE]
        has_more = len(rows) > start + SESSIONS_A_PAGE
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
        failure = ""
        with live.busy():
            try:
                await self._answer(live, question)
            except ModelError as error:
                failure = str(error)
            except KernelError as error:
                await live.say(str(error))
            live.writer.end_turn(failure)
            await live.flush()
        if live.was_cancelled:
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
        live = self._idle(str(params.get("sessionId")))
        with _answered(), live.busy():
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
        if not await live.confirm_rewind(f"Go back to before {preview.point.name}", text):
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
        return await self._open(
            cwd, servers, lambda settings: EditorSession.reopen(settings, session_id)
        )

    async def _open(
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
            settings = self._settings(cwd, servers)
            with _answered():
                opened = await asyncio.to_thread(open_session, settings)
                live = LiveSession(opened, self._client, self._has_forms)
                try:
                    await asyncio.to_thread(opened.start)
                except BaseException:
                    await live.close()
                    raise
            # Only one session of a process can be found by its process id.
            if not self._sessions and opened.session.settings.share:
                await asyncio.to_thread(opened.share, self._folder)
            self._sessions[live.id] = live
        return live

    async def _end(self, live: LiveSession) -> None:
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
    return RequestError(-32603, escape_controls(sentence))
