"""The session's agent."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from mahtab_tui.agent.host import ApprovalRequest, ExecutionResult, StoredMessage
from mahtab_tui.bus.prompt import PRIVATE_CELL, PromptHandler
from mahtab_tui.bus.records import (
    Agent,
    Approval,
    AssistantChat,
    Decision,
    Notice,
    Review,
    UserChat,
    emit,
    warn,
)
from mahtab_tui.bus.values import NotRestored, Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cells import inverted_changes
from mahtab_tui.kernel.values import CellResult, Lock
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.prompt_sections import render_context
from mahtab_tui.llm.prompts import edited_note, undone_note
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.descriptions import VariableDescriptions
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import Permission, ask_approval
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.session.name_authors import YOU
from mahtab_tui.session.past_conversation import load_messages, load_pictures, load_summary
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.question_context import QuestionContext
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.stale_outputs import StaleOutputs
from mahtab_tui.session.step_pictures import StepPictures
from mahtab_tui.session.undo_control import UndoControl, name_cells
from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.llm.ledger import SessionLedger
    from mahtab_tui.session.code_rules import CodeRules

JOIN_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for its agent's thread."""

_REVIEW_STATES = {"keep": "kept", "all": "kept", "undo": "undone", "stop": "stopped"}
"""The state of a review's record, by the action that the user chose."""


class SessionAgent:
    """Takes questions from the inbox, lets the agent answer them, and is the agent's host."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        inbox: Inbox,
        prompt: PromptHandler,
        private: PrivateNames,
        cells: Cells,
        undo: UndoControl,
        attachments: Attachments,
        knowledge: Knowledge,
        models: Models,
        spending: SessionLedger,
    ) -> None:
        self._runtime = runtime
        self.log = runtime.log
        self.secrets = runtime.secrets
        self.info = runtime.info
        self.approvals = runtime.approvals
        self._inbox = inbox
        self._private = private
        self._cells = cells
        self._undo = undo
        self._knowledge = knowledge
        self._models = models
        self.stale_outputs = StaleOutputs(runtime.past)
        self._descriptions = VariableDescriptions(
            runtime.kernel,
            private,
            lambda name: cells.authors.provenance.is_made_by(name, YOU),
            self.stale_outputs.marks,
        )
        # An agent alone in its session knows what it has changed.
        if not runtime.frontend.belongs_to_agent:
            runtime.log.addHandler(self._descriptions)
            runtime.log.addHandler(self.stale_outputs)
        self.spending = spending
        self._agent: ReplAgent | None = None
        self._agent_lock = threading.Lock()
        self._change_lock = threading.Lock()
        self._warm_up_lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="agent", daemon=True)
        self._withdrawn = threading.Event()
        """Set when the user stops the question."""
        self.cancelled = threading.Event()
        """Set when the running turn must end; the agent clears it."""
        self.hidden = prompt.hidden
        self.pictures = load_pictures(runtime.past)
        self._step_pictures = StepPictures(self.pictures)
        self._context = QuestionContext(
            runtime,
            prompt=prompt,
            cells=cells,
            attachments=attachments,
            descriptions=self._descriptions,
            stale_outputs=self.stale_outputs,
            pictures=self.pictures,
        )
        self._allowed_private: tuple[str, ...] = ()
        """The private variables of the next code, which the user was asked about."""
        self._reviewed = False
        """Whether the changes of the next code are reviewed."""
        self._approved = False
        """Whether the user has approved the next code."""
        self._fork_result: CellResult | None = None
        """The next code's result if it has already run in a locked fork."""
        past_turns = [
            record.turn or 0
            for record in runtime.past
            if isinstance(record, UserChat | AssistantChat)
        ]
        self.last = max(past_turns, default=0)
        """The number of the newest turn."""
        self._turn_numbers = itertools.count(self.last + 1)
        self._running_turns = 0
        self._waiting_cells = 0
        """Cells that have called `ask()`."""
        self._open_request: str | None = None
        """The id of the request that the user has not answered."""

    @cached_property
    def rules(self) -> CodeRules:
        from mahtab_tui.session.code_rules import CodeRules

        return CodeRules(self.info, self._runtime.kernel, self._cells.still_means_same)

    @property
    def party(self) -> str:
        return self.info.party

    @property
    def last_cell(self) -> int:
        return self._cells.last

    def new_turn(self) -> int:
        """Start a turn, and return its number."""
        self.last = next(self._turn_numbers)
        return self.last

    @property
    def in_turn(self) -> bool:
        return self._running_turns > 0

    @contextmanager
    def turn(self, *, from_cell: bool = False) -> Iterator[None]:
        """Count a turn as running. from_cell: whether a cell waits for the answer, so that the
        agent's cells run inside it."""
        waiting_cells = 1 if from_cell else 0
        self._running_turns += 1
        self._waiting_cells += waiting_cells
        try:
            yield
        finally:
            self._running_turns -= 1
            self._waiting_cells -= waiting_cells

    def start(self) -> None:
        self._thread.start()

    def warm_up(self) -> None:
        """Load on a thread what an answer needs, unless another thread does so."""

        def prepare() -> None:
            # Errors are reported when the question is asked.
            with self._warm_up_lock, suppress(ModelError):
                self.agent.prepare()

        if not self._warm_up_lock.locked():
            start_thread("agent-warm-up", prepare)

    def ask(self, prompt: str, *, attach: bool = False, from_cell: bool = False) -> str:
        """Ask a question, and wait for the final answer.

        Args:
            prompt: The question.
            attach: Whether what it mentions is attached.
            from_cell: Whether a cell waits for the answer.

        Returns:
            The answer; empty if the user has stopped the question before it was sent.

        Raises:
            ModelError: The model cannot be used.
        """
        prompt = self.secrets.mask(prompt)
        with self.turn(from_cell=from_cell):
            self._withdrawn.clear()
            # Log the question first, because creating the agent takes a while.
            turn = self.new_turn()
            emit(self.log, UserChat(make_encodable(prompt), turn=turn))
            self.spending.name_question(turn, prompt)
            self._report("thinking", turn)
            try:
                if attach:
                    self._context.attach(prompt, turn, self._withdrawn.is_set)
                agent = self.agent
            except Exception:
                self._report("failed", turn)
                raise
            if self._withdrawn.is_set():
                self._report("stopped", turn)
                return ""
            return agent.ask_sync(prompt, logged_turn=turn)

    @property
    def agent(self) -> ReplAgent:
        """Created on first use. Raises `ModelError`."""
        with self._agent_lock:
            if self._agent is None:
                self._agent = self._make_agent()
            return self._agent

    def describe_loop(self) -> str:
        """Say how the model is led, and why; return an empty string if there is no model. May ask
        the model's server."""
        try:
            choice = self.agent.loop_choice
        except ModelError:
            return ""
        return f"loop: {choice.loop}, because {choice.reason}"

    def continue_from(self, agent: ReplAgent) -> None:
        """Use the agent of a program."""
        self._agent = agent

    @property
    def model(self) -> str | BaseChatModel:
        if self._runtime.by_program and self._agent is not None:
            return self._agent.model
        return self.info.model

    def stop(self) -> None:
        """Stop the running question."""
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.stop()

    def change(self, change: Callable[[ReplAgent], None]) -> None:
        """Change the agent, if there is one, on a thread: this may wait for the turn's end."""

        def work() -> None:
            try:
                # `change` reads the settings when it has the lock, so that the newest ones win.
                with self._change_lock:
                    if self._agent is not None:
                        change(self._agent)
            except ModelError as error:
                emit(self.log, Notice(str(error), level="error"))

        start_thread("agent-change", work)

    def compact(self, focus: str) -> None:
        """Summarise the conversation before the last question, on a thread. focus: what to
        include."""

        def work() -> None:
            with self.turn():
                try:
                    failure = self.agent.compact(self.secrets.mask(focus), self.last)
                except ModelError as error:
                    failure = str(error).rstrip(".")
                if failure is None:
                    self._report("stopped", self.last)
                elif failure:
                    self._report("failed", self.last)
                    text = f"Nothing was summarised: {failure}. The conversation stays as it was."
                    warn(self.log, text)
                else:
                    self._report("done", self.last)

        start_thread("agent-compact", work)

    def close(self) -> None:
        """Stop the current turn and the thread. Close the inbox first."""
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.close()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def _make_agent(self) -> ReplAgent:
        if self._runtime.by_program:
            raise ModelError("ask() needs an agent: make one with create_repl_agent(session).")
        with IMPORTS.turn():
            from mahtab_tui.agent.repl_agent import ReplAgent

        settings = self._runtime.settings
        return ReplAgent(
            self,
            model=self._models.make(),
            reflection_llm=self._models.reflection(),
            reflection=settings.reflection,
            output_answers=settings.output_answers,
            loop=settings.loop,
            max_turns=settings.max_turns,
            tools=self._knowledge.toolset,
            history=load_messages(self._runtime.past),
            max_history=settings.max_history,
            summary=load_summary(self._runtime.past),
        )

    def _report(self, state: Literal["thinking", "done", "failed", "stopped"], turn: int) -> None:
        emit(self.log, Agent(state=state, turn=turn, step=0, party=self.party))

    def _serve(self) -> None:
        """Answer the questions in the inbox, one by one, until it is closed."""
        while (item := self._inbox.next_item("ask")) is not None:
            try:
                self.ask(item.text, attach=True)
            except ModelError as error:
                # The agent could not be created, and nothing has reported that yet.
                if self._agent is None:
                    emit(
                        self.log,
                        Notice(f"{error} /model chooses another one.", level="error"),
                    )
            except Exception as error:  # the thread's outermost frame
                text = f"The question could not be answered: {type(error).__name__}: {error}"
                emit(self.log, Notice(text, level="error"))

    # Running code

    def execute(self, request: ApprovalRequest, code: str) -> ExecutionResult:
        """Run code that `decide` has allowed, and let the user review its changes if that is set.

        Args:
            request: The request for approval.
            code: The code to run, which the user may have edited.
        """
        # Read-only code has already run in a locked fork, to find out what it needs.
        result = self._fork_result
        self._fork_result = None
        if result is None:
            result = self._run(request, code, None if self._approved else "guard")
        is_private = self._private.is_private_cell(result.cell)
        output = PRIVATE_CELL if is_private else result.output
        if result.detail:
            output = f"{output}\n{result.detail}".strip()

        has_ended = result.status in (Status.KILLED, Status.DIED) or self.cancelled.is_set()
        decision = Decision("keep")
        if self._reviewed and not has_ended:
            decision = self._review(result.cell, request.request)
        if decision.action == "stop":
            self.cancelled.set()
        is_undone = decision.action == "undo"
        note = ""
        if is_undone:
            note = undone_note(request.block, decision.reason)
        elif code != request.code:
            note = edited_note(request.block)

        pictures: Sequence[str] = ()
        variables = ""
        if not (has_ended or is_undone):
            printed = bool(result.output.strip())
            with suppress(KernelError):
                variables = self._descriptions.for_changes(result.changes, printed=printed)
            if not is_private and self._shows_pictures:
                pictures = self._step_pictures.add(request.turn, request.step, result.displays)
        return ExecutionResult(
            step=request.step,
            block=request.block,
            cell=result.cell,
            code=code,
            output=make_encodable(output),
            is_error=result.status is not Status.OK,
            status=str(result.status),
            note=note,
            rewritten=result.rewritten,
            undone=is_undone,
            variables=make_encodable(variables),
            pictures=pictures,
        )

    @property
    def _shows_pictures(self) -> bool:
        """Whether the model gets figures that its code draws."""
        model_sees = self._agent is not None and self._agent.sees_pictures
        return self._runtime.settings.return_pictures and model_sees

    def _run(self, request: ApprovalRequest, code: str, lock: Lock | None) -> CellResult:
        return self._cells.run(
            code,
            origin="assistant",
            party=self.party,
            nested=self._waiting_cells > 0,
            is_cancelled=self.cancelled.is_set,
            allowed=self._allowed_private,
            lock=lock,
            turn=request.turn,
            step=request.step,
            block=request.block,
        )

    def _run_in_fork(self, request: ApprovalRequest, lock: Lock) -> str:
        """Return what code needs beyond the lock, as a clause; if nothing, `execute` uses its
        result."""
        result = self._run(request, request.code, lock)
        self._fork_result = None if result.needs else result
        return result.needs

    def interrupt(self) -> None:
        """Withdraw the open request, and interrupt the model's cell."""
        request = self._open_request
        if request is not None:
            self.approvals.cancel(request)
        if self._cells.assistant_runs:
            self._runtime.kernel.interrupt()

    # Asking the user

    def decide(self, request: ApprovalRequest) -> Decision:
        """Decide whether code may run: by the settings and rules, or by asking the user. Waits."""
        permission = self._permit(request)
        record = request.record(self.party)
        if permission.action == "allow":
            return Decision("run")
        if permission.action == "deny":
            reason = permission.reason
            emit(self.log, record.changed(state="refused", reason=reason))
            warn(self.log, f"Code from {self.party} was not run. {reason}")
            return Decision("refuse", reason=reason)

        decision = self._ask_approval(record.changed(why=permission.reason or None))
        self._approved = decision is not None and decision.action in ("run", "all")
        return self._apply_all(decision or Decision("stop"))

    def _ask_approval(self, approval: Approval) -> Decision | None:
        """Ask the user; None if the request was withdrawn. `interrupt` withdraws it."""
        self._open_request = approval.request
        try:
            return ask_approval(self.log, self.approvals, approval, self.cancelled.is_set)
        finally:
            self._open_request = None

    def take_added_words(self, turn: int) -> list[str]:
        """Return the questions that join the running one, with their attachments."""
        texts: list[str] = []
        for item in self._inbox.take_joining():
            question = make_encodable(self.secrets.mask(item.text))
            emit(self.log, UserChat(question, turn=turn))
            self._context.attach(question, turn, self._withdrawn.is_set)
            attachments = render_context("", self._context.take_attachments(turn))
            texts.append(f"{attachments}\n\n{question}".lstrip())
        return texts

    def confirm_more_steps(self, turn: int, steps: int) -> bool:
        """Ask whether a question may continue beyond its limit of steps. Waits."""
        usage = self.spending.question(turn)
        progress = f"{steps:,} {'step' if steps == 1 else 'steps'}, {usage.tokens:,} tokens"
        if usage.cost:
            progress += f", ${usage.cost:,.2f}"
        if not self._runtime.frontend.can_ask:
            warn(self.log, f"The question reached its limit: {progress} (max_turns).")
            return False

        approval = Approval(
            f"# Go on with this question? So far: {progress}",
            request=f"{turn}.steps-{steps}",
            party=self.party,
            is_code=False,
        )
        decision = self._ask_approval(approval)
        if decision is None or decision.action == "stop":
            self.cancelled.set()
            return False
        return decision.action in ("run", "all")

    def _apply_all(self, decision: Decision) -> Decision:
        """Run all code without asking from now on, if the user has chosen that."""
        if decision.action == "all":
            self.info.set_approval("auto")
        return decision

    def _permit(self, request: ApprovalRequest) -> Permission:
        """Decide about code; read-only code may run here."""
        info = self.info
        is_planning = info.planning
        self._fork_result = None
        self._reviewed = False
        self._approved = False
        private_names = self._private.uses(request.code)
        self._allowed_private = private_names
        review_obstacle = ""
        if info.approval == "review" and self._waiting_cells:
            review_obstacle = "another cell waits for this answer"
        elif info.approval == "review":
            review_obstacle = self._runtime.kernel.cannot_undo
        is_trusted = info.approval != "ask" and not review_obstacle
        permission = self.rules.clear_code(
            request.code,
            partial(self._run_in_fork, request),
            author=self.party,
            private=private_names,
            trusted=is_trusted,
            planning=is_planning,
            can_ask=self._runtime.frontend.can_ask,
        )
        if is_planning:
            return permission
        if permission.action == "allow" and is_trusted:
            self._reviewed = info.approval == "review"
            info.warn_about_permissions()
        if permission.action == "ask" and not permission.reason:
            return Permission("ask", review_obstacle)
        return permission

    def _review(self, cell: int, request: str) -> Decision:
        """Wait until the user keeps or undoes what a cell and those after it have changed; `keep`
        if they changed nothing."""
        while True:
            review = self._describe_changes(
                cell, Review(request=f"{request}.review", party=self.party)
            )
            if not (review.changes or review.not_restored):
                return Decision("keep")

            emit(self.log, review.changed(state="waiting"))
            self._open_request = review.request
            try:
                decision = self.approvals.wait(review.request, self.cancelled.is_set)
            except CancelledError:
                decision = Decision("stop")
            finally:
                self._open_request = None

            # If the undo failed, the user decides again about what there is now.
            if decision.action == "undo" and not self._undo_cells(review.cells):
                continue
            state = _REVIEW_STATES[decision.action]
            emit(self.log, review.changed(state=state, reason=decision.reason))
            return self._apply_all(decision)

    def _describe_changes(self, cell: int, review: Review) -> Review:
        """Add to a review what a cell and those after it have changed."""
        review = review.changed(cells=self._undo.cells_from(cell))
        try:
            restoration = self._runtime.kernel.preview_undo(cell)
        except KernelError as error:
            unknown = NotRestored("", f"The changes are unknown. {error}")
            return review.changed(not_restored=(unknown,))
        return review.changed(
            changes=inverted_changes(restoration),
            not_restored=restoration.not_restored,
        )

    def _undo_cells(self, cells: tuple[int, ...]) -> bool:
        """Undo cells, unless others have run since, whose changes the user has not seen."""
        cells_now = self._undo.cells_from(cells[0])
        if cells_now != cells:
            text = f"Another cell has run since. An undo would now cover {name_cells(cells_now)}."
            warn(self.log, text)
            return False
        try:
            self._undo.undo(cells[0], during_turn=True)
        except KernelError as error:
            emit(self.log, Notice(f"Nothing was undone. {error}", level="error"))
            return False
        return True

    # The question's context

    def add_context(self, turn: int, question: str, conversation: str) -> StoredMessage:
        return self._context.add_to(question, turn, conversation)

    def describe_variables(self, question: str, conversation: str) -> dict[str, str]:
        return self._context.describe_variables(question, conversation)

    def surroundings(self) -> str:
        return self._context.surroundings()

    @property
    def folder(self) -> str:
        return self._runtime.kernel.info().local_folder
