"""Builds the components of a session: all that exists once, each after those on which it depends.

This is the one place that knows all of them. Each component gets in its constructor what it uses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.logger import setup_logging
from mahtab_tui.bus.masked_streams import MaskingFilter
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.session_ledger import SessionLedger
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.broadcast import Broadcast, past_for_watchers
from mahtab_tui.session.cell_records import last_changes
from mahtab_tui.session.cell_thread import CellThread
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.entry_changes import Entries
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.session.joined_agents import JoinedAgents
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.rewind_points import RewindPoints
from mahtab_tui.session.rewinding import Rewinding
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.server_calls import ServerCalls
from mahtab_tui.session.undo_control import UndoControl
from mahtab_tui.session.user_requests import UserRequests
from mahtab_tui.session.variable_history import VariableHistory
from mahtab_tui.system import Lazy

if TYPE_CHECKING:
    from mahtab_tui.agent.host import Door
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import LoadedNotebook
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.frontend import Frontend
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.settings.model import Settings


@dataclass(frozen=True)
class SessionStart:
    """What a session begins with."""

    name: str
    """The session's name, by which agents find it."""
    model: str
    """The full name of the model that answers at first."""
    past: Sequence[Record]
    """The records of a resumed session, the oldest first; empty for a new one."""
    files: Sequence[DataFile]
    """Loaded into variables once the kernel has started."""
    notebook_file: LoadedNotebook | None
    """A notebook whose cells can be run; None for none."""
    by_program: bool
    """Whether a program provides the agent."""
    no_trace: bool
    """Whether nothing is written to disk."""


class _Bus(NamedTuple):
    """The bus, and what is on it from the beginning."""

    log: logging.Logger
    secrets: Secrets
    """What is masked before any handler gets a record."""
    prompt: PromptHandler
    """What has happened, for the model."""


class Components:
    """The components of a session, built in dependency order: each uses only those above it.

    Handlers are added to the bus in that order, too.
    """

    def __init__(
        self,
        backend: SessionBackend,
        settings: Settings,
        frontend: Frontend,
        start: SessionStart,
        *,
        log_listeners: Sequence[Callable[[logging.Logger], None]],
        ready: Future[bool],
        open_door: Callable[[str], Door] | None,
    ) -> None:
        """Build the components. Starts nothing.

        Args:
            backend: The kernel, and where records are saved.
            settings: The session's own settings.
            frontend: The user interface.
            start: What the session begins with.
            log_listeners: Called with the bus before any record passes.
            ready: Set when the kernel is ready, to whether its Python has pandas, or to the error
                for which it never will be.
            open_door: Lets an agent of this name, which answers questions, reach the session;
                None if no agent can answer.
        """
        bus = _open_bus(backend, settings, frontend, start.past, log_listeners)
        self.make_kernel = backend.make_kernel
        self.masked_kernel = MaskedKernel(backend.kernel, bus.secrets)
        self.runtime = Runtime(
            log=bus.log,
            secrets=bus.secrets,
            settings=settings,
            kernel=self.masked_kernel,
            info=SessionInfo(bus.log, settings, start.name, start.model),
            approvals=UserRequests(),
            frontend=frontend,
            past=start.past,
            by_program=start.by_program,
            no_trace=start.no_trace,
        )
        self._build_views(backend, bus)
        self._build_models()
        self._build_cells(bus)
        self._build_answering(backend, bus, open_door)
        self._build_host()
        self.notebook = self._open_notebook(backend, start.notebook_file)
        self.cell_thread = CellThread(
            self.runtime,
            self.cells,
            self.namespace_store,
            self.inbox,
            self.host,
            ready,
            start.files,
        )

    def _build_views(self, backend: SessionBackend, bus: _Bus) -> None:
        """Build what the user, agents and watchers see and decide."""
        past = self.runtime.past
        self.inbox = Inbox(bus.log)
        self.entries = Entries(bus.log)
        self.joined_agents = JoinedAgents(self.runtime)
        self.broadcast = Broadcast(
            past_for_watchers(past, same_kernel=backend.kernel.was_reattached)
        )
        if not self.runtime.frontend.belongs_to_agent:
            bus.log.addHandler(self.broadcast)
        self.variable_history = VariableHistory(past)
        bus.log.addHandler(self.variable_history)
        self.private = PrivateNames(self.runtime, bus.prompt.hidden, self.variable_history)

    def _build_models(self) -> None:
        """Build the models, and what they can use."""
        self.models = Models(self.runtime)
        self.spending = SessionLedger(lambda: self.runtime.settings.max_usd)
        self.spending.resume(self.runtime.past)
        self.knowledge = Knowledge(self.runtime, self.spending)
        self.searches = Searches(self.runtime, self.inbox, self.spending, self.models.options)

    def _build_cells(self, bus: _Bus) -> None:
        """Build what runs cells, and takes them back."""
        runtime = self.runtime
        self.namespace_store = NamespaceStore(
            bus.log, runtime.kernel, Lazy(lambda: last_changes(runtime.past))
        )
        self.cells = Cells(runtime, self.namespace_store, self.private, self.inbox)
        self.undo = UndoControl(
            runtime,
            self.cells,
            self.namespace_store,
            self.entries,
            # The agent uses the undo, so it is made later.
            is_answering=lambda: self.agent.in_turn,
            last_turn=lambda: self.agent.last,
        )
        rewind_points = RewindPoints(runtime.past)
        bus.log.addHandler(rewind_points)
        self.rewinding = Rewinding(
            runtime.kernel, self.inbox, self.cells, self.undo, rewind_points, bus.prompt.hidden
        )

    def _build_answering(
        self, backend: SessionBackend, bus: _Bus, open_door: Callable[[str], Door] | None
    ) -> None:
        """Build what answers questions."""
        store = backend.store
        cell_pictures = store.pictures if store is not None else lambda cell: ()
        self.attachments = Attachments(self.runtime.kernel, cell_pictures, self.private)
        self.agent = SessionAgent(
            self.runtime,
            inbox=self.inbox,
            prompt=bus.prompt,
            private=self.private,
            cells=self.cells,
            undo=self.undo,
            attachments=self.attachments,
            knowledge=self.knowledge,
            models=self.models,
            spending=self.spending,
            open_door=open_door,
        )

    def _build_host(self) -> None:
        """Build what serves the kernel's calls."""
        self.servers: ServerCalls | None = None
        if self.runtime.settings.mcp:
            self.servers = ServerCalls(self.runtime, self.cells, self.knowledge, self.agent)
        self.host = SessionKernelHost(
            self.runtime,
            cells=self.cells,
            private=self.private,
            knowledge=self.knowledge,
            searches=self.searches,
            agent=self.agent,
            spending=self.spending,
            servers=self.servers,
        )

    def _open_notebook(
        self, backend: SessionBackend, notebook_file: LoadedNotebook | None
    ) -> Notebook | None:
        """Return the session's notebook; None if it has none."""
        if notebook_file is None:
            return None
        from mahtab_tui.session.notebooks import Notebook

        store = backend.store
        read_all_records = store.everything if store is not None else list
        notebook = Notebook(self.runtime, self.inbox, self.cells, notebook_file, read_all_records)
        self.runtime.log.addHandler(notebook)
        return notebook


def _open_bus(
    backend: SessionBackend,
    settings: Settings,
    frontend: Frontend,
    past: Sequence[Record],
    log_listeners: Sequence[Callable[[logging.Logger], None]],
) -> _Bus:
    """Open the bus of a session, and resume what is on it from the beginning."""
    log = setup_logging(backend.store, writes_later=frontend.belongs_to_agent)
    prompt = PromptHandler()
    log.addHandler(prompt)
    secrets = Secrets(settings.secrets)
    # A filter of the log, so that secrets are masked before any handler gets a record.
    log.addFilter(MaskingFilter(secrets))
    for add_handler in log_listeners:
        add_handler(log)
    prompt.resume(past, same_kernel=backend.kernel.was_reattached)
    return _Bus(log, secrets, prompt)
