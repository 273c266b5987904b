"""An open session of an editor, and the updates that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

from acp import Client, schema

from mahtab_tui.acp.cell_card import CellCard, text_block
from mahtab_tui.acp.commands import available_commands
from mahtab_tui.acp.editor_session import EditorSession
from mahtab_tui.acp.options import Option, config_options
from mahtab_tui.acp.requests import ask_user, choose
from mahtab_tui.acp.updates import Item, Request, UpdateWriter
from mahtab_tui.bus import records

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
REWIND_OPTIONS = [
    schema.PermissionOption(option_id="rewind", name="Go back", kind="allow_once"),
    schema.PermissionOption(option_id="keep", name="Keep all", kind="reject_once"),
]


class LiveSession:
    """An open session, and the updates that wait for its editor."""

    def __init__(self, opened: EditorSession, client: Client, has_forms: bool) -> None:
        """Follow a session from its start.

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
        self._options: list[Option] = []
        """Those that the editor knows."""
        self._rewind_count = 0
        """Of which the user was asked."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_known = asyncio.Event()
        """Set when the editor knows the session: it ignores updates of others."""
        self._outgoing: asyncio.Queue[Item] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        """What goes on beside the updates, such as requests to the user."""
        self.writer = UpdateWriter(self._put, cost=lambda: self.session.spending.total.cost)
        self.session.listen(lambda log: log.addHandler(self.writer))
        self._sender = asyncio.create_task(self._send_all())

    def _put(self, item: Item) -> None:
        """Queue an update. Called by the session's threads."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._outgoing.put_nowait, item)

    async def send_text(self, text: str) -> None:
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
        await self._outgoing.join()

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
        self._start_task(self._announce_commands())

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
            self._start_task(self._keep_stopping())

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

    async def _keep_stopping(self) -> None:
        """Stop until a cell was interrupted, or nothing runs."""
        while self.is_busy:
            stopped = self.session.stop()
            if stopped == "cell":
                return
            await asyncio.sleep(STOP_TURN_RETRY_S if stopped else STOP_RETRY_S)

    async def _send_all(self) -> None:
        """Send updates in their order, and what cells print meanwhile."""
        await self._is_known.wait()
        self._options = config_options(self.session)
        while True:
            item = await self._next_item()
            if item is None:
                for update in self.writer.take_progress():
                    await self.send(update)
                continue
            try:
                await self._deliver(item)
            finally:
                self._outgoing.task_done()

    async def _next_item(self) -> Item | None:
        """Wait for the next item; None if it is time to show what cells print."""
        if not self.writer.has_open_cards:
            return await self._outgoing.get()
        try:
            return await asyncio.wait_for(self._outgoing.get(), PROGRESS_INTERVAL_S)
        except TimeoutError:
            return None

    async def _deliver(self, item: Item) -> None:
        """Send an update, or begin to ask the user."""
        if isinstance(item, records.SessionRecord):
            await self._send_changed_options()
        elif isinstance(item, records.Record):
            self._start_task(self._ask_user(item))
        else:
            await self.send(item)

    async def _send_changed_options(self) -> None:
        """Tell the editor of the session's options, if they are others than before."""
        options = config_options(self.session)
        if options == self._options:
            return
        self._options = options
        await self.send(
            schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
        )

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
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

    async def _ask_user(self, request: Request) -> None:
        await ask_user(self._client, self.id, self.session, self.writer, request, self._has_forms)
