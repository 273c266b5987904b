"""Builds a session, and is its public interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from mahtab_tui.llm.names import SERVERS, agent_name, full_name
from mahtab_tui.llm.starting_model import FirstModel, chosen_model, default_model
from mahtab_tui.settings.model import Settings
from mahtab_tui.system import IMPORTS, Lazy, start_thread

if TYPE_CHECKING:
    import logging
    from pathlib import Path

    from mahtab_tui.agent.host import Door
    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.bus.records import Decision, Record
    from mahtab_tui.bus.store_handler import Store
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.export.reading import LoadedNotebook
    from mahtab_tui.kernel.base import Kernel
    from mahtab_tui.kernel.inspector_client import InspectorClient
    from mahtab_tui.kernel.values import Completions, Explanation
    from mahtab_tui.llm.session_ledger import SessionLedger
    from mahtab_tui.session.agent import SessionAgent
    from mahtab_tui.session.attachments import Attachments
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.session.broadcast import Broadcast
    from mahtab_tui.session.cell_thread import CellThread
    from mahtab_tui.session.cells import Cells
    from mahtab_tui.session.checking.check import Check
    from mahtab_tui.session.components import Components
    from mahtab_tui.session.context_use import ContextUse
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.entry_changes import Entries
    from mahtab_tui.session.frontend import Frontend
    from mahtab_tui.session.inbox import Inbox
    from mahtab_tui.session.info import SessionInfo
    from mahtab_tui.session.joined_agents import JoinedAgents
    from mahtab_tui.session.kernel_control import KernelControl
    from mahtab_tui.session.kernel_host import SessionKernelHost
    from mahtab_tui.session.knowledge import Knowledge
    from mahtab_tui.session.models import Models
    from mahtab_tui.session.namespace_store import NamespaceStore
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.session.private_names import PrivateNames
    from mahtab_tui.session.rewinding import Rewinding
    from mahtab_tui.session.searches import Searches
    from mahtab_tui.session.undo_control import UndoControl
    from mahtab_tui.session.user_requests import UserRequests
    from mahtab_tui.session.variable_history import VariableHistory


QUIT_SAVE_S = 5.0
"""Seconds for saving the variables when the user quits."""
EXPORT_WAIT_S = 2.0
"""Seconds that an export or a check waits for cells that were entered before it."""
SIGNAL_SAVE_S = 0.5
"""Seconds for saving the variables when a signal ends the program."""

_MODEL_SETTINGS = frozenset(
    "provider base_url api_keys claude_api_key model_timeout max_answer_chars max_usd".split()
)
"""Settings that require a new model."""
_AGENT_SETTINGS = _MODEL_SETTINGS.union(
    "max_turns max_history reflection reflection_model output_answers loop".split()
)
"""Settings that require reconfiguring the agent."""
_IMMEDIATE_SETTINGS = _AGENT_SETTINGS.union(
    "model approval approval_rules reload return_pictures sub_model".split()
)
"""Settings that take effect at once, as do those that start with ``rlm_``."""


class Session:
    """A conversation over one namespace.

    Any thread may call methods; they return immediately unless they say otherwise. Components are
    built when first used.
    """

    def __init__(
        self,
        settings: Settings,
        kernel: Kernel | Lazy[SessionBackend],
        frontend: Frontend,
        *,
        store: Store | None = None,
        name: str = "",
        past: Sequence[Record] = (),
        files: Sequence[DataFile] = (),
        notebook: LoadedNotebook | None = None,
        by_program: bool = False,
        no_trace: bool = False,
        open_door: Callable[[Session, str], Door] | None = None,
    ) -> None:
        """Create a session that starts nothing yet.

        Args:
            settings: The session's own settings, which it may change.
            kernel: The kernel, or a backend that is created when it is first needed.
            frontend: The user interface.
            store: Where records are saved, if `kernel` is a kernel.
            name: The session's name, by which agents find it.
            past: The records of a resumed session.
            files: Files to load into variables once the kernel has started.
            notebook: A notebook whose cells are shown and can be run.
            by_program: Whether a program provides the agent. `input()` then fails.
            no_trace: Whether nothing is written to disk.
            open_door: Lets an agent of this name, which answers the session's questions, reach it;
                see `open_session.open_door`. None if no agent can answer.
        """
        self.settings = settings
        self.frontend = frontend
        self.name: str = name
        self.past = past
        self.files: Sequence[DataFile] = files
        self.notebook_file: LoadedNotebook | None = notebook
        self.by_program = by_program
        self.no_trace = no_trace
        self._open_door = open_door

        if not isinstance(kernel, Lazy):
            from mahtab_tui.session.backend import SessionBackend

            kernel = Lazy.of(SessionBackend(kernel, store))
        self.backend: Lazy[SessionBackend] = kernel

        self.ready: Future[bool] = Future()
        """Whether the first kernel's Python has pandas. Raises `KernelError` if the kernel could
        not start."""
        self.first_model: Future[FirstModel] = chosen_model(settings)
        """The model that the session starts with."""
        self.log_listeners: list[Callable[[logging.Logger], None]] = []
        """Called with the bus once it exists."""
        self.is_started = False
        self._closed = False
        self._lazy_components = Lazy(self._build)

    @property
    def built(self) -> bool:
        """Whether the components exist."""
        return self._lazy_components.made

    def build(self) -> None:
        """Build the components, if that was not done yet."""
        self._lazy_components.get()

    def _build(self) -> Components:
        from mahtab_tui.session.components import Components, SessionStart

        backend = self.backend.get()
        start = SessionStart(
            name=self.name,
            model=self.first_model.result().name,
            past=self.past,
            files=self.files,
            notebook_file=self.notebook_file,
            by_program=self.by_program,
            no_trace=self.no_trace,
        )
        return Components(
            backend,
            self.settings,
            self.frontend,
            start,
            log_listeners=self.log_listeners,
            ready=self.ready,
            open_door=partial(self._open_door, self) if self._open_door else None,
        )

    @property
    def _components(self) -> Components:
        """The components, built if they are not yet."""
        if not self.built:
            IMPORTS.wait_for_screen()
        return self._lazy_components.get()

    def listen(self, add_handler: Callable[[logging.Logger], None]) -> None:
        """Call `add_handler` with the bus before any record passes."""
        if self.built:
            add_handler(self.log)
        else:
            self.log_listeners.append(add_handler)

    def follow(self, handler: logging.Handler) -> list[Record]:
        """Pass all further records of the running session to a handler, and return the recent ones
        before them."""
        from mahtab_tui.bus.logger import BusLogger

        log = self.log
        assert isinstance(log, BusLogger)
        return log.add_between_records(handler, self.broadcast.recent_records)

    def start(self) -> None:
        """Log the session's model and warnings, and start its threads and its kernel."""
        self.is_started = True
        self.info.report()
        for sentence in self.settings.untrusted:
            self.notice(sentence, "warning")

        if failure := self.first_model.result().search_failure:
            self.notice(failure, "warning")
        provider = self.model.partition(":")[0]
        if self.settings.model is None and provider in SERVERS:
            from mahtab_tui.llm.local_servers import server_address

            server = server_address(provider)
            self.notice(
                f"No model is set, so the one found at {server} answers: {self.model}."
                " /model chooses another one."
            )

        self.knowledge.start()
        if self.notebook is not None:
            self.notebook.start()
        self.cell_thread.start()
        self.agent.start()

    def start_kernel(self) -> None:
        """Start only the kernel, and wait for it. Raises `KernelError`."""
        self.kernel.start(self.host)

    def start_headless(self) -> None:
        """Start the kernel and restore the saved variables, for questions without a screen.

        Waits for both. Raises `KernelError`.
        """
        self.cell_thread.start_kernel()
        if self.notebook is not None:
            self.notebook.start()

    def save(self) -> None:
        """Write incomplete streams to the store."""
        if self.built:
            for handler in self.log.handlers:
                handler.flush()

    def close(self, *, keep_kernel: bool = False, hurry: bool = False, leave: bool = False) -> None:
        """Stop the model, the threads and the kernel. Waits for them.

        Args:
            keep_kernel: Whether the kernel continues, because a program owns it.
            hurry: Whether a signal ends the program, so that saving the variables must be short.
            leave: Whether to detach the kernel, if possible: it waits for the next screen.
        """
        if self._closed:
            return
        self._closed = True
        if not (self.backend.made or self.built):
            return
        from mahtab_tui.bus.logger import close_logging

        detach = leave and self.kernel.can_detach
        save_timeout_s = SIGNAL_SAVE_S if hurry else QUIT_SAVE_S
        self.inbox.close()
        if detach:
            # A detached kernel must leave before the requests that it waits for are answered below.
            self.save()
            self.kernel.close(leave=True, on_purpose=not hurry)
            save_timeout_s = 0.0

        self.joined_agents.close()
        self.host.inputs.cancel_all()
        self.approvals.cancel_all()
        self.agent.close()
        self.namespace_store.close(save_timeout_s)
        if not keep_kernel and not detach:
            self.kernel.close()
        self.searches.close()
        self.knowledge.close()
        # The cell of a detached kernel continues, so its thread would not end.
        if not detach:
            self.cell_thread.close()
        if self.notebook is not None:
            self.notebook.end()
        close_logging(self.log)

    def submit(self, mode: Mode, text: str, *, joins: bool = False) -> int:
        """Queue a cell or a question, and return its id.

        Args:
            mode: Whether the text is code or a question.
            text: What the user entered.
            joins: Whether a question that runs meanwhile gets it at its next step.
        """
        return self.inbox.put(mode, text, joins=joins)

    def stop(self) -> Literal["model", "cell"] | None:
        """Stop the model's turn, or else the running cell, and return what was stopped."""
        if self.agent.in_turn:
            self.agent.stop()
            return "model"
        return "cell" if self.kernel.interrupt() else None

    def compact(self, focus: str) -> None:
        """Summarise the conversation before the last question.

        Args:
            focus: What the summary must include, in the user's words; may be empty.
        """
        if self.agent.in_turn:
            self.notice(
                "The model is working. Wait until it ends, or stop it; then /compact.", "warning"
            )
        else:
            self.agent.compact(focus)

    def change_agent_options(self, words: str) -> None:
        """Set an option of the agent that answers, on a thread; a notice reports all of them.

        Args:
            words: As for `SessionAgent.change_options`.
        """
        start_thread("agent-options", lambda: self.notice(self.agent.change_options(words)))

    @property
    def log(self) -> logging.Logger:
        """The bus."""
        return self._components.runtime.log

    @property
    def secrets(self) -> Secrets:
        """What is masked."""
        return self._components.runtime.secrets

    @property
    def kernel(self) -> Kernel:
        """The kernel, whose results are masked."""
        return self._components.runtime.kernel

    @property
    def info(self) -> SessionInfo:
        """The session's name, model and approval mode."""
        return self._components.runtime.info

    @property
    def approvals(self) -> UserRequests[Decision]:
        """Code, actions and changes that wait for the user's decision."""
        return self._components.runtime.approvals

    @property
    def inbox(self) -> Inbox:
        """The queue of cells and questions."""
        return self._components.inbox

    @property
    def broadcast(self) -> Broadcast:
        """Its records for those who watch the session."""
        return self._components.broadcast

    @property
    def private(self) -> PrivateNames:
        """The private variables."""
        return self._components.private

    @property
    def variable_history(self) -> VariableHistory:
        """Which cells changed which variables."""
        return self._components.variable_history

    @property
    def models(self) -> Models:
        """Creates the models."""
        return self._components.models

    @property
    def spending(self) -> SessionLedger:
        """What the models have cost, and may cost."""
        return self._components.spending

    @property
    def knowledge(self) -> Knowledge:
        """Skills, instructions, tools and MCP servers."""
        return self._components.knowledge

    @property
    def searches(self) -> Searches:
        """The searches that cells start."""
        return self._components.searches

    @property
    def namespace_store(self) -> NamespaceStore:
        """Saves and restores the variables."""
        return self._components.namespace_store

    @property
    def cells(self) -> Cells:
        """Runs cells."""
        return self._components.cells

    @property
    def undo(self) -> UndoControl:
        """Undoes and redoes cells."""
        return self._components.undo

    @property
    def rewinding(self) -> Rewinding:
        """Goes back to an earlier question or cell."""
        return self._components.rewinding

    @property
    def attachments(self) -> Attachments:
        """What a question may mention."""
        return self._components.attachments

    @property
    def agent(self) -> SessionAgent:
        """Answers the questions."""
        return self._components.agent

    @property
    def entries(self) -> Entries:
        """Hides and replaces entries."""
        return self._components.entries

    @property
    def joined_agents(self) -> JoinedAgents:
        """The agents in the session."""
        return self._components.joined_agents

    @property
    def host(self) -> SessionKernelHost:
        """Serves the functions that cells call."""
        return self._components.host

    @property
    def notebook(self) -> Notebook | None:
        """The open notebook."""
        return self._components.notebook

    @property
    def cell_thread(self) -> CellThread:
        """Runs the queued cells."""
        return self._components.cell_thread

    @cached_property
    def kernel_control(self) -> KernelControl:
        """What the user does to the kernel: reset it, exchange it, undo cells."""
        from mahtab_tui.session.kernel_control import KernelControl

        components = self._lazy_components.get()
        return KernelControl(
            components.runtime.log,
            components.masked_kernel,
            components.make_kernel,
            cells=components.cells,
            undo=components.undo,
            private=components.private,
        )

    @property
    def model(self) -> str:
        """Full name of the model; empty while this machine's servers are searched for one."""
        if self.built:
            return self.info.model
        if self.first_model.done():
            return self.first_model.result().name
        return ""

    def set_model(self, model: str) -> None:
        """Use another model from the next question on. Raises `ModelError`."""
        model = full_name(model, self.settings.provider)
        self._check_model(model)
        self.info.set_model(model)
        self.renew_model()

    def _check_model(self, model: str) -> None:
        """Check that a model can be used. Raises `ModelError`."""
        from mahtab_tui.llm.providers import check_model

        check_model(model, **self.settings.model_access())

    def change_setting(self, key: str, value: Any) -> bool:
        """Change a setting.

        Args:
            key: The setting's name.
            value: The new value, already validated.

        Returns:
            Whether the change takes effect before the next start.

        Raises:
            ModelError: The value names a model that cannot be used.
        """
        settings = self.settings

        # Check the value before anything is changed.
        if value is not None and key.endswith("_model") and key != "embedding_model":
            self._check_model(value)
        if key == "model":
            self.set_model(value or default_model())
        elif key == "approval":
            self.info.set_approval(value)
        settings.change(key, value)

        # Pass the change on to the parts that have copied the old value.
        if key in _MODEL_SETTINGS:
            self.renew_model()
        if key in _AGENT_SETTINGS:
            self.agent.change(
                lambda agent: agent.configure(
                    settings.max_turns,
                    settings.reflection,
                    self.models.reflection(),
                    settings.max_history,
                    output_answers=settings.output_answers,
                    loop=settings.loop,
                )
            )
        elif key == "reload":
            self.kernel.set_reload(value)
        return key in _IMMEDIATE_SETTINGS or key.startswith("rlm_")

    def renew_model(self) -> None:
        """Make the model anew, by the settings as they are now."""
        if agent_name(self.info.model):
            return
        self.agent.change(lambda agent: agent.set_model(self.models.make()))

    @property
    def saved_id(self) -> str:
        """Id of the session in the store; empty if it is not saved."""
        from mahtab_tui.store.sqlite import SqliteStore

        store = self.backend.get().store
        return store.session if isinstance(store, SqliteStore) else ""

    def rename(self, title: str) -> None:
        """Give the saved session another title, on a thread; a notice reports the outcome."""
        from mahtab_tui.bus import StoreError
        from mahtab_tui.store.resume import database
        from mahtab_tui.store.session_titles import question_title, rename_session

        session_id = self.saved_id
        masked_title = question_title(self.secrets.mask(title))
        if not session_id:
            self.notice("This session is not saved, so it has no title.", "warning")
            return

        def work() -> None:
            try:
                rename_session(database(), session_id, masked_title)
            except StoreError as error:
                self.notice(str(error), "warning")
            else:
                self.notice(f"This session is now called: {masked_title}")

        start_thread("rename", work)

    def export(self, file: Path, folder: Path) -> None:
        """Export the session on a thread, replacing the file; a notice reports the outcome.

        Args:
            file: Where to write it. The extension sets the format.
            folder: The folder to which a relative path refers.
        """
        from mahtab_tui.bus import StoreError
        from mahtab_tui.export.selection import NothingToExport

        def work() -> None:
            try:
                self.notice(self.write_export(file, folder))
            except (StoreError, NothingToExport) as error:
                self.notice(str(error), "warning")
            except OSError as error:
                self.notice(f"{file} cannot be written: {error.strerror}.", "error")

        start_thread("export", work)

    def write_export(self, file: Path, folder: Path) -> str:
        """Export the session as `export` does, and return a sentence about the file.

        Waits. Raises `StoreError`, `NothingToExport` and `OSError`.
        """
        from mahtab_tui.session.exports import export_records
        from mahtab_tui.session.inbox import describe_unfinished

        # A cell that was entered a moment before belongs to it.
        unfinished_count = self.inbox.wait_for_cells(EXPORT_WAIT_S)
        mask = self.secrets.redact_for_model
        sentence = export_records(self.all_records(), folder / file, str(file), mask)
        if unfinished_count:
            sentence += f" {describe_unfinished(unfinished_count)} is not in the file."
        return sentence

    @property
    def check_risk(self) -> str:
        """What keeping the user's files safe from a check lacks here, as a clause such as "needs
        Linux"; empty if they are safe."""
        from mahtab_tui.session.checking.check import unprotected_reason

        return unprotected_reason()

    def new_check(self) -> Check:
        """Return a check of the session as it is saved. Waits. Raises `KernelError`."""
        from mahtab_tui.session.checking.check import session_check
        from mahtab_tui.session.checking.check_folder import CheckError
        from mahtab_tui.session.inbox import describe_unfinished
        from mahtab_tui.store.resume import SessionNotFound, find_session

        if not self.saved_id:
            raise CheckError("This session is not saved, so there is nothing to compare with.")
        unfinished_count = self.inbox.wait_for_cells(EXPORT_WAIT_S)
        if not self.cells.running:
            self.namespace_store.save(QUIT_SAVE_S)
        self.save()
        try:
            check = session_check(find_session(self.saved_id, None), self.settings)
        except SessionNotFound as error:
            raise CheckError(str(error)) from None
        if unfinished_count:
            check.add_remark(f"{describe_unfinished(unfinished_count)} was not compared.")
        return check

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell, if it was saved. Waits. Raises `StoreError`."""
        store = self.backend.get().store
        if store is None:
            return None
        return store.output(cell)

    def open_inspector(self) -> InspectorClient:
        """Return a client for one screen, which must close it."""
        from mahtab_tui.kernel.inspector_client import InspectorClient

        return InspectorClient(self.kernel)

    def context_use(self) -> ContextUse:
        """Count what the next question would send. Waits. Raises `KernelError` and `ModelError`."""
        from mahtab_tui.session.context_use import context_use

        variables = self.private.variables()
        sizes = self.agent.agent.context_sizes(variables)
        return context_use(sizes.max_tokens, sizes.section_tokens)

    def all_records(self) -> list[Record]:
        """Read all stored records; none if the session is not saved. Raises `StoreError`."""
        store = self.backend.get().store
        if store is None:
            return []
        return store.everything()

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete code at the cursor. Waits at most half a second. Raises `KernelError`."""
        return self.kernel.complete(code, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the name at the cursor. Waits. Raises `KernelError`."""
        return self.kernel.explain(code, cursor)

    def mask(self, text: str) -> str:
        """Mask secrets in a text. Builds the components only if there are secrets to mask."""
        if not self.built and not self.settings.secrets():
            return text
        return self.secrets.mask(text)

    def notice(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Log a notice for the user."""
        from mahtab_tui.bus.records import Notice, emit

        emit(self.log, Notice(text, level=level))
