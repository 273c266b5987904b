"""Builds a session, and is its public interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mahtab_tui.llm.providers import SERVERS, check_model, chosen_model, full_name, server_address
from mahtab_tui.settings.model import Settings
from mahtab_tui.system import IMPORTS, Lazy

if TYPE_CHECKING:
    import logging

    from mahtab_tui.bus.logger import Store
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import NotebookFile
    from mahtab_tui.kernel.base import Completions, Explanation, Kernel
    from mahtab_tui.kernel.inspector_client import InspectorClient
    from mahtab_tui.session.components import Components, ContextUse
    from mahtab_tui.session.inbox import Mode
    from mahtab_tui.session.info import Frontend, SessionBackend
    from mahtab_tui.session.kernel import KernelControl
    from mahtab_tui.session.loading import DataFile

    Parts = Components
    """Declares the components for type checkers; `__getattr__` returns them."""
else:
    Parts = object

Stopped = Literal["model", "cell"]

_PATIENCE, _HURRY = 5.0, 0.5
"""Seconds for saving the variables when the user quits, and when a signal ends the program."""


class Session(Parts):
    """A conversation over one namespace. Any thread may call methods; they return immediately
    unless they say otherwise. Components are built when first used."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if not self.built:
                IMPORTS.wait_for_screen()
            return getattr(self._components.get(), name)

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
        notebook: NotebookFile | None = None,
        by_program: bool = False,
        no_trace: bool = False,
    ) -> None:
        """kernel: the kernel, or a lazy backend. past: the records of a resumed session. files:
        loaded into variables once the kernel has started. notebook: its cells are shown and can be
        run. by_program: a program provides the agent, and `input()` fails. no_trace: write nothing
        to disk."""
        self.settings = settings
        self.no_trace = no_trace
        self.past = past
        if not isinstance(kernel, Lazy):
            from mahtab_tui.session.info import SessionBackend

            kernel = Lazy.of(SessionBackend(kernel, store))
        self.backend: Lazy[SessionBackend] = kernel
        self.ready: Future[bool] = Future()
        """Whether the first kernel's Python has pandas. Raises `KernelError` if the kernel could
        not start."""
        self._closed = False
        self.frontend = frontend
        self.name: str = name
        self.files: Sequence[DataFile] = files
        self.notebook_file: NotebookFile | None = notebook
        self.by_program = by_program
        self.first_model: Future[str] = chosen_model(settings)
        self.listeners: list[Callable[[logging.Logger], None]] = []
        self._components = Lazy(self._build)

    @property
    def built(self) -> bool:
        return self._components.made

    def build(self) -> None:
        self._components.get()

    def _build(self) -> Components:
        from mahtab_tui.session.components import Components

        return Components(self)

    def listen(self, begin: Callable[[logging.Logger], None]) -> None:
        """Call `begin` with the bus before any record passes, to add a handler."""
        if self.built:
            begin(self.log)
        else:
            self.listeners.append(begin)

    def start(self) -> None:
        self.info.report()
        for sentence in self.settings.untrusted:
            self.notice(sentence, "warning")
        provider = self.model.partition(":")[0]
        if self.settings.model is None and provider in SERVERS:
            found = f"the one found at {server_address(provider)} answers: {self.model}"
            self.notice(f"No model is set, so {found}. /model chooses another one.")
        self.knowledge.start()
        if self.notebook is not None:
            self.notebook.start()
        self.cell_thread.start()
        self.agent.start()

    def start_kernel(self) -> None:
        """Start only the kernel, and wait for it. Raises `KernelError`."""
        self.kernel.start(self.host)

    def save(self) -> None:
        """Write incomplete streams to the store."""
        if self.built:
            for handler in self.log.handlers:
                handler.flush()

    def close(self, *, keep_kernel: bool = False, hurry: bool = False, leave: bool = False) -> None:
        """Stop the model, the threads and, unless `keep_kernel`, the kernel. Waits. hurry: limit
        the wait for saving variables. leave: detach the kernel, if possible."""
        if self._closed:
            return
        self._closed = True
        if not (self.backend.made or self.built):
            return
        from mahtab_tui.bus.logger import close_logging

        leave = leave and self.kernel.can_detach
        self.inbox.close()
        if leave:  # before any request that it waits for is answered
            self.save()
            self.kernel.close(leave=True, on_purpose=not hurry)
        self.joined_agents.close()
        self.host.inputs.cancel_all()
        self.approvals.cancel_all()
        self.agent.close()
        self.namespace_store.close(0.0 if leave else _HURRY if hurry else _PATIENCE)
        if not keep_kernel and not leave:
            self.kernel.close()
        self.searches.close()
        self.knowledge.close()
        if not leave:  # otherwise its cell continues
            self.cell_thread.close()
        if self.notebook is not None:
            self.notebook.end()
        close_logging(self.log)

    def submit(self, mode: Mode, text: str, *, joins: bool = False) -> int:
        """Queue a cell or a question; returns its id.

        Args:
            joins: whether a question that runs meanwhile gets it at its next step.
        """
        return self.inbox.put(mode, text, joins=joins)

    def replace(self, entry: str, mode: Mode, text: str) -> bool:
        """Submit an input in place of an earlier one, which is removed from the conversation with
        everything after it. Returns False while an input runs or is queued."""
        if self.cells.running or self.agent.in_turn or not self.inbox.idle:
            return False
        self.entries.replace(entry)
        self.submit(mode, text)
        return True

    def stop(self) -> Stopped | None:
        """Stop the model's turn, or else the running cell; returns which."""
        if self.agent.in_turn:
            self.agent.stop()
            return "model"
        return "cell" if self.kernel.interrupt() else None

    def compact(self, keep: str) -> None:
        if self.agent.in_turn:
            busy = "The model is working. Wait until it ends, or stop it; then /compact."
            self.notice(busy, "warning")
        else:
            self.agent.compact(keep)

    @cached_property
    def kernel_control(self) -> KernelControl:
        from mahtab_tui.session.kernel import KernelControl

        return KernelControl(self._components.get())

    @property
    def model(self) -> str:
        """Full name; empty while servers on this machine are searched for a model."""
        if self.built:
            return self.info.model
        return self.first_model.result() if self.first_model.done() else ""

    def set_model(self, model: str) -> None:
        """Use another model from the next question on. Raises `ModelError`."""
        model = full_name(model, self.settings.provider)
        check_model(model, **self.settings.model_access())
        self.info.set_model(model)
        self.renew_model()

    def renew_model(self) -> None:
        self.agent.change(lambda agent: agent.set_model(self.models.make()))

    @property
    def saved_id(self) -> str:
        """Empty if the session is not saved."""
        from mahtab_tui.store.sqlite import SqliteStore

        store = self.backend.get().store
        return store.session if isinstance(store, SqliteStore) else ""

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell, if it was saved. Waits. Raises `StoreError`."""
        store = self.backend.get().store
        return None if store is None else store.output(cell)

    def open_inspector(self) -> InspectorClient:
        """Return a client for one screen, which must close it."""
        from mahtab_tui.kernel.inspector_client import InspectorClient

        return InspectorClient(self.kernel)

    def context_use(self) -> ContextUse:
        """Count what the next question would send. Waits. Raises `KernelError` and `ModelError`."""
        from mahtab_tui.session.components import context_use

        return context_use(*self.agent.agent.context_sizes(self.private.variables()))

    def all_records(self) -> list[Record]:
        """Raises `StoreError`."""
        store = self.backend.get().store
        return [] if store is None else store.everything()

    def complete(self, code: str, cursor: int) -> Completions:
        """Waits at most half a second for the kernel. Raises `KernelError`."""
        return self.kernel.complete(code, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the name at the cursor. Waits. Raises `KernelError`."""
        return self.kernel.explain(code, cursor)

    def mask(self, text: str) -> str:
        return self.secrets.mask(text) if self.built or self.settings.secrets() else text

    def notice(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        from mahtab_tui.bus.records import Notice, emit

        emit(self.log, Notice(text, level=level))
