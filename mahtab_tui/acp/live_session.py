"""An open session of an editor: sends what happens in it, asks the user, and stops what runs.

Threads of the session queue updates; one task sends them, in their order. All else runs on the loop of
the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Coroutine, Iterator
from typing import Any

from mahtab_tui.acp import protocol
from mahtab_tui.acp.cell_card import CellCard
from mahtab_tui.acp.commands import command_rows
from mahtab_tui.acp.editor_session import EditorSession
from mahtab_tui.acp.options import config_options
from mahtab_tui.acp.protocol import ApprovalChoice, Editor, Option, Update
from mahtab_tui.acp.requests import ask_user, decide
from mahtab_tui.acp.updates import Item, Request, UpdateWriter
from mahtab_tui.bus import records
from mahtab_tui.servers.state import ServerError

COMMANDS_DELAY_S = 0.2
"""Seconds until an editor is told of the commands: it ignores those of a session that it does not know
yet."""
STOP_RETRY_S = 0.1
"""Seconds until a stop is tried again, because nothing had begun that it could stop."""
STOP_TURN_RETRY_S = 1.0
"""Seconds until a question that goes on is stopped again."""
STOP_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for the end of what was stopped, to save all variables."""
REWIND_CHOICES = (
    ApprovalChoice("rewind", "Go back", "allow_once"),
    ApprovalChoice("keep", "Keep all", "reject_once"),
)


class LiveSession:
    """An open session, for the editor that shows it."""

    def __init__(self, opened: EditorSession, editor: Editor) -> None:
        """Follow a session from its start.

        Args:
            opened: The session, which was not started yet.
            editor: The editor.
        """
        self.opened = opened
        self.session = opened.session
        self.id = opened.id
        self.was_cancelled = False
        """Whether the editor has stopped it."""
        self._editor = editor
        self._loop = asyncio.get_running_loop()
        self._options: list[Option] = []
        """The options that the editor knows."""
        self._stopping: asyncio.Task[None] | None = None
        """Stops what runs, again and again; None before the first stop."""
        self._rewind_question: asyncio.Task[str] | None = None
        """Asks the user about a rewind; None while nothing is asked."""
        self._rewind_count = 0
        """How many rewinds the user was asked about."""
        self._replaying = asyncio.Lock()
        """Held while the editor is told the past."""
        self._idle = asyncio.Event()
        """Set while neither a question nor a command runs."""
        self._idle.set()
        self._known_to_editor = asyncio.Event()
        """Set when the editor knows the session. It ignores updates of sessions that it does not know."""
        self._outgoing: asyncio.Queue[Item] = asyncio.Queue()
        """Updates, requests to the user, and None for what cells have printed meanwhile."""
        self._tasks: set[asyncio.Task[None]] = set()
        """What goes on beside the updates, such as requests to the user."""
        self.writer = UpdateWriter(self._put, cost=lambda: self.session.spending.total.cost)
        if opened.running_cell is not None:
            self.writer.fold(opened.running_cell)
        self.session.listen(lambda log: log.addHandler(self.writer))
        self._sender = asyncio.create_task(self._send_all())

    def _put(self, item: Item) -> None:
        """Queue an update. Called by the session's threads."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._outgoing.put_nowait, item)

    async def send_text(self, text: str) -> None:
        """Show the user a text."""
        await self.send(protocol.words(text))

    async def send(self, update: Update) -> None:
        """Tell the editor something, unless it is gone."""
        await self._editor.show(self.id, update)

    async def confirm_rewind(self, title: str, text: str) -> bool:
        """Ask the user whether the session goes back to an earlier point.

        Args:
            title: The question.
            text: What would go back.

        Returns:
            Whether it goes back; False if the user has stopped it meanwhile.
        """
        # The stop may have come while the preview was made.
        return not self.was_cancelled and await self._ask_about_rewind(title, text)

    async def _ask_about_rewind(self, title: str, text: str) -> bool:
        """Ask as `confirm_rewind` does, if nothing was stopped before."""
        self._rewind_count += 1
        card = CellCard(f"rewind-{self._rewind_count}", title=title, kind="other", notes=[text])
        question = asyncio.create_task(decide(self._editor, self.id, card, REWIND_CHOICES))
        self._rewind_question = question
        await asyncio.wait((question,))
        self._rewind_question = None
        return not self.was_cancelled and question.result() == "rewind"

    async def flush(self) -> None:
        """Wait until the editor has all updates so far."""
        # First, let the loop queue those that threads have handed to it.
        await asyncio.sleep(0)
        self._outgoing.put_nowait(None)
        await self._outgoing.join()

    async def replay(self) -> None:
        """Tell the editor what was said and computed before."""
        past_updates: list[Item] = []
        writer = UpdateWriter(past_updates.append)
        for record in await asyncio.to_thread(self.opened.records):
            writer.fold(record)
        writer.end_turn()
        # An editor that loads the session twice gets the updates one load after the other.
        async with self._replaying:
            for update in (*past_updates, *writer.take_progress()):
                await self._deliver(update)

    def announce_commands(self) -> None:
        """Tell the editor a moment later which commands there are, and what the session has said
        since it began."""
        self._start_task(self._announce_commands())

    def start_servers(self, names: Collection[str]) -> None:
        """Start the editor's MCP servers, and tell the user of those that fail."""
        self._start_task(self._start_servers(names))

    @property
    def is_busy(self) -> bool:
        """Whether a question or a command runs."""
        return not self._idle.is_set()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Say within this context that a question or a command runs, so that nothing else begins."""
        self.was_cancelled = False
        self._known_to_editor.set()
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()
            # A stop that is still tried again must not stop what begins next.
            if self._stopping is not None:
                self._stopping.cancel()

    def stop(self) -> None:
        """Stop the question or the cell, also one that is about to begin."""
        if self.is_busy and not self.was_cancelled:
            self.was_cancelled = True
            if self._rewind_question is not None:
                self._rewind_question.cancel()
            self._stopping = self._start_task(self._keep_stopping())

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
        """Stop again and again, until a cell was interrupted or nothing runs any more."""
        while self.is_busy:
            stopped = self.session.stop()
            if stopped == "cell":
                return
            await asyncio.sleep(STOP_TURN_RETRY_S if stopped else STOP_RETRY_S)

    async def _send_all(self) -> None:
        """Send updates in their order, until the task is cancelled."""
        await self._known_to_editor.wait()
        self._options = config_options(self.session)
        while True:
            item = await self._next_item()
            try:
                await self._deliver(item)
            finally:
                self._outgoing.task_done()

    async def _next_item(self) -> Item:
        """Wait for the next item; after a while without one, what cells have printed is the next."""
        try:
            return await asyncio.wait_for(self._outgoing.get(), self.writer.progress_interval_s)
        except TimeoutError:
            self._outgoing.put_nowait(None)
        return await self._outgoing.get()

    async def _deliver(self, item: Item) -> None:
        """Send an update, or begin to ask the user."""
        if item is None:
            for update in self.writer.take_progress():
                await self.send(update)
        elif isinstance(item, records.SessionRecord):
            await self._send_changed_options()
        elif isinstance(item, records.Record):
            self._start_task(self._ask_user(item))
        else:
            await self.send(item)

    async def _send_changed_options(self) -> None:
        """Tell the editor the session's options, if they have changed."""
        options = config_options(self.session)
        if options != self._options:
            self._options = options
            await self.send(protocol.options_update(options))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _announce_commands(self) -> None:
        await asyncio.sleep(COMMANDS_DELAY_S)
        self._known_to_editor.set()
        await self.send(protocol.commands_update(command_rows()))

    async def _start_servers(self, names: Collection[str]) -> None:
        try:
            starts = await asyncio.to_thread(self.opened.start_servers, names)
        except ServerError as error:
            results: list[BaseException | None] = [error]
        else:
            results = await asyncio.gather(
                *map(asyncio.wrap_future, starts), return_exceptions=True
            )
        await self._known_to_editor.wait()
        for result in results:
            if isinstance(result, ServerError):
                await self.send_text(f"\n\n{result}\n\n")

    async def _ask_user(self, request: Request) -> None:
        await ask_user(self._editor, self.id, self.session, self.writer, request)
