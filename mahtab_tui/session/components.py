"""Builds the components of a session: all that exists once, in the order in which it depends on each other.

This is the one place that knows all of them. Each component gets in its constructor what it uses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

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
from mahtab_tui.session.inbox import Entries, Inbox
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


class Components:
    """The components of a session, built in dependency order: each uses only those above it."""

    def __init__(
        self,
        backend: SessionBackend,
        settings: Settings,
        frontend: Frontend,
        *,
        name: str,
        model: str,
        past: Sequence[Record],
        files: Sequence[DataFile],
        notebook_file: LoadedNotebook | None,
        by_program: bool,
        no_trace: bool,
        log_listeners: Sequence[Callable[[logging.Logger], None]],
        ready: Future[bool],
        open_door: Callable[[str], Door] | None,
    ) -> None:
        """Build the components. Starts nothing.

        Args:
            backend: The kernel, and where records are saved.
            settings: The session's own settings.
            frontend: The user interface.
            name: The session's name.
            model: The full name of the model that the session starts with.
            past: The records of a resumed session.
            files: Loaded into variables once the kernel has started.
            notebook_file: A notebook whose cells can be run.
            by_program: Whether a program provides the agent.
            no_trace: Whether nothing is written to disk.
            log_listeners: Called with the bus before any record passes.
            ready: Set when the kernel is ready, to whether its Python has pandas, or to the error
                for which it never will be.
            open_door: Lets an agent of this name, which answers questions, reach the session;
                None if no agent can answer.
        """
        same_kernel = backend.kernel.was_reattached
        self.make_kernel = backend.make_kernel

        # The bus.
        log = setup_logging(backend.store, writes_later=frontend.belongs_to_agent)
        prompt = PromptHandler()
        log.addHandler(prompt)
        secrets = Secrets(settings.secrets)
        # A filter of the log, so that secrets are masked before any handler gets a record.
        log.addFilter(MaskingFilter(secrets))
        for add_handler in log_listeners:
            add_handler(log)
        prompt.resume(past, same_kernel=same_kernel)

        self.masked_kernel = MaskedKernel(backend.kernel, secrets)
        runtime = Runtime(
            log=log,
            secrets=secrets,
            settings=settings,
            kernel=self.masked_kernel,
            info=SessionInfo(log, settings, name, model),
            approvals=UserRequests(),
            frontend=frontend,
            past=past,
            by_program=by_program,
            no_trace=no_trace,
        )
        self.runtime = runtime

        # What the user, agents and watchers see and decide.
        self.inbox = Inbox(log)
        self.broadcast = Broadcast(past_for_watchers(past, same_kernel=same_kernel))
        if not frontend.belongs_to_agent:
            log.addHandler(self.broadcast)
        self.variable_history = VariableHistory(past)
        log.addHandler(self.variable_history)
        self.private = PrivateNames(runtime, prompt.hidden, self.variable_history)

        # Models and what they can use.
        self.models = Models(runtime)
        self.spending = SessionLedger(lambda: settings.max_usd)
        self.spending.resume(past)
        self.knowledge = Knowledge(runtime, self.spending)
        self.searches = Searches(runtime, self.inbox, self.spending, self.models.options)

        # Cells and questions.
        self.namespace_store = NamespaceStore(log, runtime.kernel, Lazy(lambda: last_changes(past)))
        self.cells = Cells(runtime, self.namespace_store, self.private, self.inbox)
        self.undo = UndoControl(
            runtime,
            self.cells,
            self.namespace_store,
            Entries(log),
            # The agent uses the undo, so it is made later.
            is_answering=lambda: self.agent.in_turn,
            last_turn=lambda: self.agent.last,
        )
        rewind_points = RewindPoints(past)
        log.addHandler(rewind_points)
        self.rewinding = Rewinding(
            runtime.kernel, self.inbox, self.cells, self.undo, rewind_points, prompt.hidden
        )
        store = backend.store
        cell_pictures = store.pictures if store is not None else lambda cell: ()
        self.attachments = Attachments(runtime.kernel, cell_pictures, self.private)
        self.agent = SessionAgent(
            runtime,
            inbox=self.inbox,
            prompt=prompt,
            private=self.private,
            cells=self.cells,
            undo=self.undo,
            attachments=self.attachments,
            knowledge=self.knowledge,
            models=self.models,
            spending=self.spending,
            open_door=open_door,
        )
        self.entries = Entries(log)
        self.joined_agents = JoinedAgents(runtime)
        self.servers: ServerCalls | None = None
        if settings.mcp:
            self.servers = ServerCalls(runtime, self.cells, self.knowledge, self.agent)
        self.host = SessionKernelHost(
            runtime,
            cells=self.cells,
            private=self.private,
            knowledge=self.knowledge,
            searches=self.searches,
            agent=self.agent,
            spending=self.spending,
            servers=self.servers,
        )
        self.notebook: Notebook | None = None
        if notebook_file is not None:
            from mahtab_tui.session.notebooks import Notebook

            all_records = store.everything if store is not None else list
            self.notebook = Notebook(runtime, self.inbox, self.cells, notebook_file, all_records)
            log.addHandler(self.notebook)
        self.cell_thread = CellThread(
            runtime,
            self.cells,
            self.namespace_store,
            self.inbox,
            self.host,
            ready,
            files,
        )
