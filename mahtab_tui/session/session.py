"""The one object that the faces use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mahtab_tui.bus import tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.masking import Masking, Secrets
from mahtab_tui.bus.records import Record, emit
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.setup import close_logging, setup_logging
from mahtab_tui.kernel.base import Completions, Explanation, Kernel, KernelError, Status
from mahtab_tui.kernel.looking import Look
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import OnNotice, check_model, default_model, full_name, get_llm, model_label
from mahtab_tui.llm.spending import Spending
from mahtab_tui.session.agent_thread import AgentThread, conversation, summary
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.broadcast import Broadcast
from mahtab_tui.session.cells import YOU, Cells
from mahtab_tui.session.face import Face
from mahtab_tui.session.guests import Guests
from mahtab_tui.session.inbox import Inbox, Item, Mode
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.loading import DataFile, loading_cell
from mahtab_tui.session.searches import Searches
from mahtab_tui.session.suggestions import Suggestions
from mahtab_tui.session.tool_calls import ToolCalls
from mahtab_tui.session.turns import TurnHost
from mahtab_tui.settings.model import ApprovalMode, Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.bus.handlers import Store

ANSWER_TOKENS = 8_192
"""Of one answer, where the session may not cost more than so much: what it may come to must be known before."""
_REPLACED = "What is greyed has left the conversation; the namespace stays as it is."

_TAKEN_OVER = (
    "Another terminal has taken this session over: nothing that happens here is kept any more. The variables stay until you leave this screen."
)

Stopped = Literal["model", "cell"]


class Session:
    """A conversation over one namespace. Methods may be called from any thread, and return at once but where they say otherwise."""

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
    ) -> None:
        """files: become variables once the kernel has started."""
        self.settings = settings
        self._files = files
        self.on_ready: Callable[[bool], None] = lambda pandas: None
        """Called on the thread of the cells when the first kernel is ready: whether its Python has pandas."""
        self._store = store
        self.name = name
        self.past = past
        """The records of the conversation that is resumed, in order; empty for a new one."""
        self.log, prompt = setup_logging(store)
        self.secrets = Secrets(settings.secrets)
        """What nobody is shown or told: keys of the configuration, and what was typed hidden."""
        self.log.addFilter(Masking(self.secrets))
        self.broadcast = Broadcast()
        self.log.addHandler(self.broadcast)
        self.model = full_name(settings.model or default_model(), settings.provider)
        self.spending = Spending(lambda: settings.max_usd)
        self.searches = Searches(
            self.log,
            settings,
            model=lambda: self.model,
            make_llm=self._llm,
            spending=self.spending,
            asking="ask" if face.can_ask else "refuse",
            secrets=self.secrets,
        )
        self.knowledge = Knowledge(
            self.log,
            lambda problem: self.notice(problem, "warning"),
            skills_dir=settings.skills_dir,
            skills_of_project=settings.of_project("skills_dir"),
            skills_budget=settings.skills_budget,
            code_dir=settings.code_dir,
            past=past,
        )
        self._tool_calls = ToolCalls(lambda: self.knowledge.toolset)
        self.host = SessionKernelHost(
            self.log,
            face,
            secrets=self.secrets,
            ask=self._ask_from_cell,
            stop_asking=self._stop_turn,
            usage=self.spending.table,
            tools=self._tool_calls,
            searches=self.searches,
            current_cell=lambda: self.cells.last,
            guest_runs=lambda: self.cells.guest_runs,
        )
        self.kernel: Kernel = MaskedKernel(kernel, self.secrets)
        self.cells = Cells(self.kernel, self.log, first=1 + max((r.attrs.get("cell") or 0 for r in past), default=0))
        self.cells.on_end = self.host.cell_ended
        self.cells.functions = lambda: self._tool_calls.names
        self.host.on_state = self.cells.follow
        self.attachments = Attachments(self.kernel, self._shown, lambda: self.agent.sees)
        """What questions point at."""
        self.inbox = Inbox(self.log)
        self.guests = Guests(self.log, self.inbox.hold, lambda: self.turns.party)
        self.turns = TurnHost(
            self.log,
            self.kernel,
            self.cells,
            prompt,
            party=model_label(self.model),
            approval=settings.approval,
            secrets=self.secrets,
            resumed=bool(past),
            spending=self.spending,
            attachments=self.attachments,
        )
        prompt.resume(past)
        for record in past:
            if record.tag == tags.USAGE:
                self.spending.fold(**record.attrs)
            elif record.tag == tags.USER_ATTACHMENT:
                self.turns.resume(record)
        suggestion_model = settings.suggestion_model
        self._suggestions = (
            Suggestions(self.log, lambda: self._llm(suggestion_model, thinking=False), self.kernel.variables, self.spending, self.secrets)
            if suggestion_model
            else None
        )
        self.turns.on_run_all = lambda: self.set_approval("auto")
        self.agent = AgentThread(self.inbox, self.turns, self._make_agent, asked=max((record.attrs.get("turn") or 0 for record in past), default=0))
        self._runner = threading.Thread(target=self._run_cells, name="cells", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Begin: the kernel starts on a thread, and inputs are served from now on."""
        self._tell_session()
        for sentence in self.settings.held_back:
            self.notice(sentence, "warning")
        self.knowledge.start()
        self._runner.start()
        self.agent.start()

    def start_kernel(self) -> None:
        """Start the kernel alone, and wait for it. Raises `KernelError`."""
        self.kernel.start(self.host)

    def save(self) -> None:
        """Keep at once what is kept from time to time: what is being printed and said."""
        for handler in self.log.handlers:
            handler.flush()

    def close(self) -> None:
        """End everything: the kernel, the model, the threads. Waits for them."""
        if self._closed:
            return
        self._closed = True
        self.inbox.close()
        self.guests.close()
        self.host.inputs.cancel_all()
        self.turns.approvals.cancel_all()
        self.agent.close()
        self.kernel.close()
        self.searches.close()
        if self._suggestions is not None:
            self._suggestions.close()
        if self._runner.is_alive():
            self._runner.join(2.0)
        close_logging(self.log)

    def taken_over(self) -> None:
        """Say that another program writes the session from now on: what happens here is not kept."""
        self.name = f"{self.name} (taken over)"
        self._tell_session()
        self.notice(_TAKEN_OVER, "warning")

    # What the person enters

    def submit(self, mode: Mode, text: str) -> int:
        """Run a cell or ask a question, after what waits already; returns the input's id."""
        return self.inbox.put(mode, text)

    def cancel(self, item_id: int) -> Item | None:
        """Take back an input that waits."""
        return self.inbox.cancel(item_id)

    def answer_input(self, request: str, text: str | None) -> bool:
        """Answer `input()`; None is the end of input."""
        return self.host.inputs.answer(request, text)

    def decide(self, request: str, decision: Decision) -> bool:
        """Answer an approval."""
        if request.startswith("guest-"):
            return self.guests.approvals.answer(request, decision)
        return self.turns.approvals.answer(request, decision)

    # What the model is told of it

    def hide(self, entry: str, hidden: bool) -> None:
        """Take an entry of the transcript out of the model's conversation from the next question on, or bring it back.

        entry: its name, as `bus.left_out` makes it.
        """
        emit(self.log, tags.HIDE, entry=entry, hidden=hidden)
        self.turns.keep_exchange()

    def pin(self, entry: str, pinned: bool) -> None:
        """Keep an entry at the top of the transcript, or no longer."""
        emit(self.log, tags.PIN, entry=entry, pinned=pinned)

    def replace(self, entry: str, mode: Mode, text: str) -> bool:
        """Enter an input in the place of an earlier one: that one and all after it leave the model's conversation; the namespace stays.

        False, and nothing is done, while something is at work or waits.
        """
        if self.cell_runs or self.turn_runs or not self.inbox.idle:
            return False
        emit(self.log, tags.REPLACE, _REPLACED, entry=entry)
        self.turns.keep_exchange()
        self.submit(mode, text)
        return True

    # What goes on, and stopping it

    @property
    def cell_runs(self) -> bool:
        """Whether a cell of the person's or the model's runs now."""
        return self.cells.running

    @property
    def turn_runs(self) -> bool:
        """Whether a question is being answered."""
        return self.turns.in_turn

    def stop(self) -> Stopped | None:
        """Stop what goes on now, the model's turn before the person's cell; says which it was."""
        if self.turns.in_turn:
            self._stop_turn()
            return "model"
        if self.kernel.interrupt():
            return "cell"
        return None

    def kill_kernel(self) -> None:
        """Kill the kernel and start a new one, on a thread; errors become notices."""
        self._on_thread("The kernel could not be killed", self.kernel.kill)

    def reset(self) -> None:
        """Start over with an empty namespace; the conversation stays."""

        def work() -> None:
            self.kernel.reset()
            self.cells.forget()

        self._on_thread("The kernel could not be reset", work)

    def activate(self, python: str) -> None:
        """Go on with another interpreter."""

        def work() -> None:
            self.kernel.activate(python)
            self.cells.forget()

        self._on_thread("The interpreter stays as it was", work)

    def change_directory(self, path: str) -> None:
        """Change the kernel's working directory."""

        def work() -> None:
            self.notice(f"The working directory is {self.kernel.change_directory(path)} now.")

        self._on_thread("The working directory stays as it was", work)

    # Settings of the session

    @property
    def approval(self) -> ApprovalMode:
        return self.turns.approval

    def set_approval(self, approval: ApprovalMode) -> None:
        """Whether the model's code waits for the person from now on. What waits already goes on waiting."""
        self.turns.approval = approval
        self.settings.change("approval", approval)
        self._tell_session()

    def set_model(self, model: str) -> None:
        """Answer with another model from the next question on; the conversation stays. Raises `ModelError`."""
        model = full_name(model, self.settings.provider)
        check_model(model, **self.settings.model_access())
        self.model = model
        self.turns.party = model_label(model)
        self.settings.change("model", model)
        self.renew_model()
        self._tell_session()

    def renew_model(self) -> None:
        """Make the model anew, by the settings as they are now."""
        self.agent.change(lambda agent: agent.set_model(self._llm()))

    def load(self, file: DataFile) -> bool:
        """Make a variable of a file, by a cell of the person's; says whether it worked. Waits for it."""
        loading = loading_cell(file, Path(self.kernel.info().cwd), pandas=self.kernel.installed("pandas"))
        if loading.module:  # not one that lies beside the file: nothing of a folder runs because a file in it is opened
            self.kernel.installed(loading.module, load=True)
        result = self.cells.run(loading.code, origin="user", party=YOU)
        if result.status is not Status.OK:
            self.notice(f"{one_line(file.path.name)} could not be loaded: the cell above says why. There is no variable {file.name}.", "warning")
        elif loading.note:
            self.notice(loading.note, "warning")
        return result.status is Status.OK

    # Looking

    def output(self, cell: int) -> str | None:
        """All that a cell has printed, from the store; None where it was not kept. Waits. Raises `StoreError`."""
        return None if self._store is None else self._store.output(cell)

    def _shown(self, cell: int) -> list[str]:
        return [] if self._store is None else self._store.pictures(cell)

    def look(self) -> Look:
        """The means to look inside objects, for one screen, which is to close it."""
        return Look(self.kernel)

    def complete(self, code: str, cursor: int) -> Completions:
        """What may stand at a cursor; waits for the kernel, at most half a second. Raises `KernelError`."""
        return self.kernel.complete(code, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """What stands at a cursor; waits for the kernel. Raises `KernelError`."""
        return self.kernel.explain(code, cursor)

    @property
    def suggest(self) -> Callable[[str, bool, Callable[[], bool]], str] | None:
        """Says how a text may go on (see `Suggestions.suggest`); None where no model was chosen for it."""
        return None if self._suggestions is None else self._suggestions.suggest

    def notice(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Tell the person something, in the transcript."""
        emit(self.log, tags.NOTICE, text, level=level)

    # Within

    def _tell_session(self) -> None:
        emit(self.log, tags.SESSION, name=self.name, model=self.model, approval=self.turns.approval)

    def _run_cells(self) -> None:
        try:
            self.start_kernel()
            if variables := self.kernel.variables():
                self.cells.adopt(variables)
            self.on_ready(self.kernel.installed("pandas"))
            for file in self._files:
                self.load(file)
        except KernelError as error:
            self.notice(str(error), "error")
        while (item := self.inbox.take("python")) is not None:
            try:
                if item.work is not None:
                    item.work()
                else:
                    self.cells.run(item.text, origin="user", party=YOU)
            except Exception as error:  # the thread's outermost frame
                self.notice(f"The cell could not be run: {type(error).__name__}: {error}", "error")

    def _on_thread(self, failure: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except KernelError as error:
                self.notice(f"{failure}. {error}", "error")

        threading.Thread(target=guarded, name="kernel-work", daemon=True).start()

    def _make_agent(self) -> ReplAgent:
        from mahtab_tui.agent.repl_agent import create_repl_agent

        return create_repl_agent(
            self.turns,
            model=self._llm(),
            reflection_llm=self.reflection_llm(),
            reflection=self.settings.reflection,
            max_turns=self.settings.max_turns,
            tools=self.knowledge.toolset,
            history=conversation(self.past),
            max_history=self.settings.max_history,
            summary=summary(self.past),
        )

    def reflection_llm(self) -> BaseChatModel | None:
        """The model for checks and summaries, where one was chosen for them. Raises `ModelError`."""
        name = self.settings.reflection_model
        try:
            return self._llm(name) if name else None
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _llm(self, name: str | None = None, *, on_notice: OnNotice | None = None, thinking: bool = True) -> BaseChatModel:
        """A model by its name, by default the session's. Raises `ModelError`."""
        settings = self.settings
        bounded = None if settings.max_usd is None else ANSWER_TOKENS
        return get_llm(
            name or self.model,
            timeout=settings.model_timeout,
            on_notice=on_notice or self._model_notice,
            folder=lambda: self.kernel.info().cwd,
            max_tokens=bounded,
            thinking=thinking,
            **settings.model_access(),
        )

    def _model_notice(self, level: str, text: str) -> None:
        emit(self.log, tags.NOTICE, text, level=level)

    def _stop_turn(self) -> None:
        self.agent.stop()

    def _ask_from_cell(self, prompt: str) -> str:
        """`ask("…")` in a cell: the answer in words. Raises `RuntimeError`."""
        if self.cells.assistant_runs or self.cells.guest_runs:
            raise RuntimeError("ask() cannot be called by code that the model itself runs.")
        with self.turns.asked_from_cell():
            try:
                return self.agent.ask(prompt)
            except ModelError as error:
                raise RuntimeError(str(error)) from None
