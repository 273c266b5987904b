"""Builds a session and offers it as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from mahtab_tui.bus import records
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import Record, emit
from mahtab_tui.bus.setup import close_logging, setup_logging
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.code_help import Completions, Explanation
from mahtab_tui.kernel.looking import Look
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.providers import check_model, full_name
from mahtab_tui.llm.spending import Spending
from mahtab_tui.session.agent_thread import AgentThread
from mahtab_tui.session.attachments import Attachments, shown_nothing
from mahtab_tui.session.branches import Branches
from mahtab_tui.session.broadcast import Broadcast, past_for_watchers
from mahtab_tui.session.cell_thread import CellThread
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.face import Face
from mahtab_tui.session.inbox import Inbox, Item, Mode
from mahtab_tui.session.joined_agents import JoinedAgents
from mahtab_tui.session.keeping import Keeping
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.session.preview import QuestionPreview
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.profile import Profile
from mahtab_tui.session.rebuilding import Rebuilding
from mahtab_tui.session.requests import UserRequests
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.tool_calls import ToolCalls
from mahtab_tui.session.turns import TurnHost
from mahtab_tui.session.undo import Undo
from mahtab_tui.settings.model import ApprovalMode, Settings
from mahtab_tui.system.exporting import traces_go_to

if TYPE_CHECKING:
    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.bus.handlers import Store
    from mahtab_tui.export.reading import NotebookFile
    from mahtab_tui.session.context_use import ContextUse
    from mahtab_tui.session.hooks import Hooks
    from mahtab_tui.session.kernel_control import KernelControl, MakeKernel
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.session.plans import Plans
    from mahtab_tui.session.server_calls import ServerCalls

_REPLACED = "The greyed entries are removed from the conversation; the namespace stays as it is."

_TAKEN_OVER = "Another terminal has taken this session over: nothing here is saved any more. To take it back, leave, and come back with --continue."

_PATIENCE, _HURRY = 5.0, 0.5
"""Seconds to wait for the variables to be written when the user leaves, and when a signal ends the program."""

Stopped = Literal["model", "cell", "hook"]


class Session:
    """A conversation over one namespace. Methods may be called from any thread, and return at once unless they say otherwise."""

    def __init__(
        self,
        settings: Settings,
        kernel: Kernel,
        face: Face,
        *,
        store: Store | None = None,
        name: str = "",
        past: Sequence[Record] = (),
        files: Sequence[DataFile] = (),
        notebook: NotebookFile | None = None,
        make_kernel: MakeKernel | None = None,
        by_program: bool = False,
        no_trace: bool = False,
    ) -> None:
        """past: the records of a resumed session, in order. files: are loaded into variables once the kernel has started.
        notebook: a file whose cells are shown and can be run. make_kernel: creates a kernel at another place, if this one may be left.

        by_program: a program uses the session, without a user at the keyboard. It provides the agent (`AgentThread.adopt`), `input()` fails,
        and the last exchange is neither saved for the next session nor loaded from the previous one, unless the program asks for it.
        no_trace: nothing of the session is written anywhere, so that exchange is neither saved nor loaded here, too.
        """
        self.settings = settings
        self.no_trace = no_trace
        self.past = past
        self._store = store
        self._closed = False
        # Each part gets only parts that were created above it.
        self.log, prompt = setup_logging(store)
        self.secrets = Secrets(settings.secrets)
        """Keys from the configuration, and lines typed hidden."""
        self.log.addFilter(MaskingFilter(self.secrets))
        prompt.resume(past, same_kernel=kernel.waited)
        self.broadcast = Broadcast(past_for_watchers(past, same_kernel=kernel.waited))
        self.kernel = MaskedKernel(kernel, self.secrets)
        self._make_kernel = make_kernel
        self.private = PrivateNames(self.log, self.kernel, self.secrets, prompt.left_out, past)
        self.log.addHandler(self.private)
        self.profile = Profile(self.log, settings, name)
        if not no_trace and traces_go_to():
            from mahtab_tui.session.traces import Traces

            self.log.addHandler(Traces(self.log, self.secrets, self.private, self.profile))
        self.models = Models(self.log, settings, self.profile, self.kernel)
        self.spending = Spending(lambda: settings.max_usd)
        self.spending.resume(past)
        self.knowledge = Knowledge(self.log, settings, self.secrets, self.spending, past, no_trace=no_trace)
        tools = ToolCalls(self.knowledge)
        asking: Literal["ask", "refuse"] = "ask" if face.can_ask else "refuse"
        self.inbox = Inbox(self.log)
        self.searches = Searches(self.log, settings, self.models, self.spending, self.secrets, self.kernel, self.inbox, asking=asking)
        self.keeping = Keeping(self.log, self.kernel)
        self._rebuilding = Rebuilding(past)
        self.log.addHandler(self._rebuilding)
        last = max((record.cell or 0 for record in past if isinstance(record, records.ReplIn | records.ReplOut)), default=0)
        self.hooks: Hooks | None = None
        if settings.hooks:
            from mahtab_tui.session.hooks import Hooks

            self.hooks = Hooks(self.log, settings, self.secrets, self.profile)
        self.cells = Cells(self.log, self.kernel, self.keeping, tools, self.private, face, self.hooks, first=last + 1)
        self.undo = Undo(self.log, self.kernel, self.keeping, self.cells)
        self.branches = Branches(self.log, settings, store, self.kernel, self.cells, self.undo)
        self.attachments = Attachments(self.kernel, shown_nothing if store is None else store.pictures, self.private)
        self.approvals: UserRequests[Decision] = UserRequests()
        parts = (self.log, self.kernel, self.cells, self.undo, prompt, self.profile, self.secrets, self.spending, self.attachments, self.approvals)
        self.turns = TurnHost(*parts, self.private, self.hooks, past, keeps_exchange=not by_program and not no_trace, can_ask=face.can_ask)
        self.agent = AgentThread(settings, self.profile, self.models, self.knowledge, self.turns, self.inbox, past, makes_agent=not by_program)
        self.preview = QuestionPreview(self.kernel, self.attachments, self.agent)
        self.joined_agents = JoinedAgents(self.log, self.inbox, self.approvals, self.profile)
        self._suggestions: Suggestions | None = None
        if suggesting := settings.suggestion_model:
            from mahtab_tui.session.suggestions import Suggestions

            make = partial(self.models.make, suggesting, thinking=False)
            self._suggestions = Suggestions(self.log, make, self.private.variables, self.spending, self.secrets)
        servers: ServerCalls | None = None
        if settings.mcp:
            from mahtab_tui.session.server_calls import ServerCalls

            servers = ServerCalls(self.log, self.knowledge, self.cells, self.profile, self.approvals, self.agent.stop)
        served = (self.log, face, self.secrets, self.spending, self.cells, tools, servers, self.searches, self.agent, self.private)
        self.host = SessionKernelHost(*served, self.kernel, self.approvals, reads_input=not by_program)
        self.notebook: Notebook | None = None
        if notebook is not None:
            from mahtab_tui.session.notebooks import Notebook

            self.notebook = Notebook(self.log, self.inbox, self.cells, self.secrets, notebook, past, self.everything)
            self.log.addHandler(self.notebook)
        self._cell_thread = CellThread(self.log, self.kernel, self.keeping, self.host, self.cells, self.inbox, files, past)

    def start(self) -> None:
        """Start the kernel on a thread, and serve inputs."""
        self.log.addHandler(self.broadcast)
        self.profile.tell()
        for sentence in self.settings.held_back:
            self.notice(sentence, "warning")
        self.knowledge.start()
        if self.notebook is not None:
            self.notebook.start()
        self._cell_thread.start()
        self.agent.start()

    def start_kernel(self) -> None:
        """Start only the kernel, and wait for it; inputs are not served. Raises `KernelError`."""
        self.kernel.start(self.host)

    @property
    def ready(self) -> Future[bool]:
        """Set when the first kernel is ready: whether its Python has pandas. Never set if the kernel fails to start."""
        return self._cell_thread.ready

    def save(self) -> None:
        """Write growing streams to the store now."""
        for handler in self.log.handlers:
            handler.flush()

    def close(self, *, keep_kernel: bool = False, hurry: bool = False, leave: bool = False) -> None:
        """End the model, the threads and, unless `keep_kernel`, the kernel. Waits for them.

        hurry: do not wait long for variables to be written. leave: let the kernel go on alone, if it can.
        """
        if self._closed:
            return
        self._closed = True
        leave = leave and self.kernel.outlives
        self.inbox.close()
        if leave:  # before anything that it waits for is answered
            self.save()
            self.kernel.close(leave=True)
        if self.hooks is not None:
            self.hooks.close()
        self.joined_agents.close()
        self.host.inputs.cancel_all()
        self.approvals.cancel_all()
        self.agent.close()
        self.keeping.close(0.0 if leave else _HURRY if hurry else _PATIENCE)
        if not keep_kernel and not leave:
            self.kernel.close()
        self.searches.close()
        self.knowledge.close()
        if self._suggestions is not None:
            self._suggestions.close()
        if not leave:  # its cell goes on
            self._cell_thread.close()
        if self.notebook is not None:
            self.notebook.end()
        close_logging(self.log)

    def taken_over(self) -> None:
        """Tell the user that another program writes the session now, and this one is not saved."""
        self.keeping.stop()
        self._make_kernel = None  # a kernel at another place would wait for the same session
        self.profile.rename(f"{self.name} (taken over)")
        self.notice(_TAKEN_OVER, "warning")

    # Input

    def submit(self, mode: Mode, text: str) -> int:
        """Queue a cell or a question; returns the input's id."""
        return self.inbox.put(mode, text)

    def cancel(self, item_id: int) -> Item | None:
        return self.inbox.cancel(item_id)

    def answer_input(self, request: str, text: str | None) -> bool:
        """Answer `input()`; None is the end of input."""
        return self.host.inputs.answer(request, text)

    def decide(self, request: str, decision: Decision) -> bool:
        return self.approvals.answer(request, decision)

    # Entries

    def hide(self, entry: str, hidden: bool) -> None:
        """Hide an entry from the model from the next question on, or unhide it. entry: its name, from `bus.left_out`."""
        emit(self.log, records.Hide(entry=entry, hidden=hidden))
        self.turns.keep_exchange()

    def pin(self, entry: str, pinned: bool) -> None:
        """Pin an entry to the top of the transcript, or unpin it."""
        emit(self.log, records.Pin(entry=entry, pinned=pinned))

    def replace(self, entry: str, mode: Mode, text: str) -> bool:
        """Submit an input in place of an earlier one, which is removed from the model's conversation with all after it. The namespace stays.

        Returns False, and does nothing, while an input runs or waits.
        """
        if self.cell_runs or self.turn_runs or not self.inbox.idle:
            return False
        emit(self.log, records.Replace(_REPLACED, entry=entry))
        self.turns.keep_exchange()
        self.submit(mode, text)
        return True

    # Control

    @property
    def cell_runs(self) -> bool:
        """Whether a cell of the user, the model or an agent runs, or a hook."""
        return self.cells.running or (self.hooks is not None and self.hooks.at_work)

    @property
    def turn_runs(self) -> bool:
        return self.turns.in_turn

    @cached_property
    def plans(self) -> Plans:
        """The plans of the session; loaded when the user first wants one."""
        from mahtab_tui.session.plans import Plans

        plans = Plans(self.log, self.profile, self.inbox, self.past)
        self.agent.plans = lambda: plans
        return plans

    def stop(self) -> Stopped | None:
        """Stop a hook at work, and the model's turn or else the running cell; returns which it was."""
        hook_stops = self.hooks is not None and self.hooks.stop()
        if self.turns.in_turn:
            self.agent.stop()
            return "model"
        if hook_stops:
            return "hook"
        if self.kernel.interrupt():
            return "cell"
        return None

    def compact(self, keep: str) -> None:
        """Summarise the conversation before the last question, on a thread. keep: what the summary shall keep, in the user's words."""
        if self.turns.in_turn:
            self.notice("The model is at work. Wait for its end, or stop it; then /compact.", "warning")
        else:
            self.agent.compact(keep)

    @cached_property
    def kernel_control(self) -> KernelControl:
        """What the user does with the kernel itself; loaded when it is first wanted."""
        from mahtab_tui.session.kernel_control import KernelControl

        return KernelControl(self.log, self.kernel, lambda: self._make_kernel, self.cells, self.keeping, self.undo, self.private)

    # Settings

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def model(self) -> str:
        """The full name of the model that answers."""
        return self.profile.model

    @property
    def approval(self) -> ApprovalMode:
        return self.profile.approval

    def set_approval(self, approval: ApprovalMode) -> None:
        """Change the approval mode. Code that waits already goes on waiting."""
        self.profile.set_approval(approval)

    def set_model(self, model: str) -> None:
        """Answer with another model from the next question on; the conversation stays. Raises `ModelError`."""
        model = full_name(model, self.settings.provider)
        check_model(model, **self.settings.model_access())
        self.profile.set_model(model)
        self.renew_model()

    def renew_model(self) -> None:
        """Create the model again, from the current settings."""

        def renew(agent: ReplAgent) -> None:
            agent.set_model(self.models.make())

        self.agent.change(renew)

    def load(self, file: DataFile) -> bool:
        """Run a cell that loads a file into a variable, and wait; returns whether it succeeded."""
        return self._cell_thread.load(file)

    # Queries

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell from the store; None if it was not kept. Waits. Raises `StoreError`."""
        return None if self._store is None else self._store.output(cell)

    def look(self) -> Look:
        """Return a `Look` inside objects for one screen, which must close it."""
        return Look(self.kernel)

    def rebuilding_cell(self, name: str) -> str:
        """Return the cells that made a variable which was not kept, in order, as one cell; empty if they are not known."""
        return self._rebuilding.code_for(name, self.keeping.missing)

    def in_use(self) -> str:
        """Say what undo and the saved variables use of what they may, and which instructions the model gets, a line each.

        Waits for the kernel. Raises `KernelError`.
        """
        undo = self.undo.in_use(self.settings.undo_steps, self.settings.undo_memory)
        saved = "Nothing of this session is saved." if self.no_trace else self.keeping.in_use(self.settings.keep_namespace_mb)
        return "\n".join(line for line in (undo, saved, self.knowledge.in_use()) if line)

    def context_use(self) -> ContextUse:
        """Count what the next question would send. Waits for the kernel, and for the model's package. Raises `KernelError`, `ModelError`."""
        from mahtab_tui.session.context_use import context_use

        return context_use(*self.agent.agent.context_sizes(self.private.variables()))

    def everything(self) -> list[Record]:
        """Return all records of the session that are kept. Raises `StoreError`."""
        return [] if self._store is None else self._store.everything()

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete the code at the cursor. Waits for the kernel, at most half a second. Raises `KernelError`."""
        return self.kernel.complete(code, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the name at the cursor. Waits for the kernel. Raises `KernelError`."""
        return self.kernel.explain(code, cursor)

    @property
    def suggest(self) -> Callable[[str, bool, Callable[[], bool]], str] | None:
        """`Suggestions.suggest`; None if no model is set for suggestions."""
        return None if self._suggestions is None else self._suggestions.suggest

    def notice(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Show the user a message in the transcript."""
        emit(self.log, records.Notice(text, level=level))
