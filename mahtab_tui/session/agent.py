"""The session's agent."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from mahtab_tui.agent.host import (
    ApprovalRequest,
    Door,
    EarlierSession,
    ExecutionResult,
    StoredMessage,
)
from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import (
    Agent,
    Approval,
    AssistantChat,
    Decision,
    Notice,
    UserChat,
    emit,
    warn,
)
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.llm.base import ModelError, make_encodable
from mahtab_tui.llm.names import agent_name
from mahtab_tui.llm.prompt_sections import render_context
from mahtab_tui.llm.providers import installed_agent
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.descriptions import VariableDescriptions
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.model_code import ModelCode
from mahtab_tui.session.models import Models
from mahtab_tui.session.name_authors import YOU
from mahtab_tui.session.past_conversation import (
    ConversationLog,
    load_messages,
    load_pictures,
    load_summary,
)
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.question_context import QuestionContext
from mahtab_tui.session.running_sessions import SharingError
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.stale_outputs import StaleOutputs
from mahtab_tui.session.step_pictures import StepPictures
from mahtab_tui.session.undo_control import UndoControl
from mahtab_tui.session.user_requests import ask_approval
from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.acp_client.agent import OutsideAgent
    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.llm.session_ledger import SessionLedger
    from mahtab_tui.session.code_rules import CodeRules

JOIN_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for its agent's thread."""


class NoAnswerer(ModelError):
    """Nothing can answer a question, and only the caller is told why."""


def start_nested_cell(work: Callable[[], None]) -> None:
    """Run a cell of the agent at once, inside the cell that waits for the agent.

    Args:
        work: Runs it, and tells the agent of errors.
    """

    def run() -> None:
        with suppress(Exception):  # the thread's outermost frame
            work()

    start_thread("nested-cell", run)


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
        open_door: Callable[[str], Door] | None,
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            inbox: The queue of questions.
            prompt: Collects what happened since the last question.
            private: The private variables, whose values no model gets.
            cells: Runs the model's code.
            undo: Takes the changes of its code back.
            attachments: Reads what a question mentions.
            knowledge: The tools and skills of the model.
            models: Makes the models that the settings name.
            spending: Counts what the models cost.
            open_door: Lets an agent of this name, which answers questions, reach the session.
                Raises `SharingError`. None if no agent can answer.
        """
        self._runtime = runtime
        self.log = runtime.log
        self.secrets = runtime.secrets
        self.info = runtime.info
        self.approvals = runtime.approvals
        self._inbox = inbox
        self._cells = cells
        self._knowledge = knowledge
        self._models = models
        self.spending = spending
        self._open_door = open_door

        # What answers, and its thread.
        self._agent: ReplAgent | None = None
        """Leads a model; None if there was none yet, or an agent of another program answers."""
        self._outside_agent: OutsideAgent | None = None
        """An agent of another program; None if a model answers."""
        self._agent_lock = threading.Lock()
        """Held while the agent is made."""
        self._is_closed = False
        """Whether the session is closed, so that what will be made has to be closed at once."""
        self._change_lock = threading.Lock()
        """Held while the agent is changed, so that the newest settings win."""
        self._warm_up_lock = threading.Lock()
        """Held while a thread loads what an answer needs."""
        self._thread = threading.Thread(target=self._serve, name="agent", daemon=True)
        self._last_withdrawn = 0
        """The newest question at the last stop, which ends this one and all before it."""
        self.cancelled = threading.Event()
        """Set when the running turn must end; the agent clears it."""

        # What the model gets with a question.
        self.hidden = prompt.hidden
        self._conversation = ConversationLog(runtime.past)
        runtime.log.addHandler(self._conversation)
        self.pictures = load_pictures(runtime.past)
        self.stale_outputs = StaleOutputs(runtime.past)
        descriptions = VariableDescriptions(
            runtime.kernel,
            private,
            lambda name: cells.authors.provenance.is_made_by(name, YOU),
            self.stale_outputs.stale_marks,
        )
        # An agent alone in its session knows what it has changed.
        if not runtime.frontend.belongs_to_agent:
            runtime.log.addHandler(descriptions)
            runtime.log.addHandler(self.stale_outputs)
        self._context = QuestionContext(
            runtime,
            prompt=prompt,
            cells=cells,
            attachments=attachments,
            descriptions=descriptions,
            stale_outputs=self.stale_outputs,
            pictures=self.pictures,
        )

        # What its code does.
        self._waiting_cells = 0
        """Cells that have called `ask()`."""
        self._code = ModelCode(
            runtime,
            cells=cells,
            undo=undo,
            private=private,
            descriptions=descriptions,
            step_pictures=StepPictures(self.pictures),
            cancelled=self.cancelled,
            is_nested=lambda: self.is_awaited_by_cell,
            sees_pictures=lambda: self._agent is not None and self._agent.sees_pictures,
        )

        past_turns = [
            record.turn or 0
            for record in runtime.past
            if isinstance(record, UserChat | AssistantChat)
        ]
        self.last = max(past_turns, default=0)
        """The number of the newest turn."""
        self._turn_numbers = itertools.count(self.last + 1)
        self._running_turns = 0
        self._outside_turns = 0
        """The running turns of the agent of another program, which is not closed meanwhile."""

    @property
    def rules(self) -> CodeRules:
        """The rules by which code may run."""
        return self._code.rules

    @property
    def party(self) -> str:
        """The model's short name."""
        return self.info.party

    @property
    def last_cell(self) -> int:
        """The number of the newest cell, whoever ran it."""
        return self._cells.last

    def new_turn(self) -> int:
        """Start a turn, and return its number."""
        self.last = next(self._turn_numbers)
        return self.last

    @property
    def in_turn(self) -> bool:
        """Whether a question is being answered."""
        return self._running_turns > 0

    @property
    def is_answering(self) -> bool:
        """Whether an agent of another program answers a question that nobody has stopped."""
        agent = self._outside_agent
        return agent is not None and agent.is_answering and not self.cancelled.is_set()

    @property
    def is_awaited_by_cell(self) -> bool:
        """Whether a cell waits for an answer, so that the agent's cells run inside it."""
        return self._waiting_cells > 0

    @contextmanager
    def turn(self, *, from_cell: bool = False) -> Iterator[None]:
        """Count a turn as running.

        Args:
            from_cell: Whether a cell waits for the answer, so that the agent's cells run inside it.
        """
        waiting_cells = 1 if from_cell else 0
        self._running_turns += 1
        self._waiting_cells += waiting_cells
        try:
            if from_cell:
                self.start_queued_cells()
            yield
        finally:
            self._running_turns -= 1
            self._waiting_cells -= waiting_cells

    def start_queued_cells(self) -> None:
        """Run the agent's queued cells at once, because the queue waits for a cell that waits for the
        agent."""
        for item in self._inbox.take_nestable():
            if item.work is not None:
                start_nested_cell(item.work)

    def start(self) -> None:
        """Start to take questions from the inbox."""
        self._thread.start()
        start_thread("stale-outputs", self.stale_outputs.catch_up)

    def warm_up(self) -> None:
        """Load on a thread what an answer needs, unless another thread does so."""

        def prepare() -> None:
            # Errors are reported when the question is asked.
            with self._warm_up_lock, suppress(ModelError):
                self._answerer().prepare()

        if not self._warm_up_lock.locked() and not self.in_turn:
            start_thread("agent-warm-up", prepare)

    def ask(
        self,
        prompt: str,
        *,
        attach: bool = False,
        from_cell: bool = False,
        cancellation: Cancellation | None = None,
    ) -> str:
        """Ask a question, and wait for the final answer.

        Args:
            prompt: The question.
            attach: Whether what it mentions is attached.
            from_cell: Whether a cell waits for the answer.
            cancellation: Stops this question, and no other one.

        Returns:
            The answer; empty if the question was stopped before it was sent.

        Raises:
            ModelError: The model cannot be used.
        """
        prompt = self.secrets.mask(prompt)
        cancellation = cancellation or Cancellation()
        with self.turn(from_cell=from_cell):
            # Log the question first, because creating the agent takes a while.
            turn = self.new_turn()
            emit(self.log, UserChat(make_encodable(prompt), turn=turn))
            self.spending.name_question(turn, prompt)
            self._report("thinking", turn)
            try:
                if attach:
                    self._context.attach(prompt, turn, lambda: self.is_withdrawn(turn))
                answerer = self._answerer(own_turns=1)
            except ModelError as error:
                self._report("failed", turn)
                raise NoAnswerer(str(error)) from None
            except Exception:
                self._report("failed", turn)
                raise
            try:
                return answerer.ask_sync(prompt, logged_turn=turn, cancellation=cancellation)
            except CancelledError:
                self._report("stopped", turn)
                return ""
            finally:
                with self._agent_lock:
                    if answerer is self._outside_agent:
                        self._outside_turns -= 1

    def _answerer(self, *, own_turns: int = 0) -> ReplAgent | OutsideAgent:
        """Return what answers questions with the session's model.

        What has answered with another one is closed.

        Args:
            own_turns: How many of the running turns are the caller's, which this begins.

        Raises:
            ModelError: There is no such model, or an agent of another name answers now.
        """
        name = "" if self._runtime.by_program else agent_name(self.info.model)
        if not name and self._outside_agent is None:
            return self.agent
        with self._agent_lock:
            outside_agent = self._outside_agent
            is_idle = self._running_turns <= own_turns
            if outside_agent is not None and outside_agent.name != name:
                if self._outside_turns > 0:
                    raise ModelError(f"{outside_agent.name} still answers another question.")
                outside_agent.close()
                self._outside_agent = None
            if name and self._agent is not None and is_idle:
                self._agent.close()
                self._agent = None
            if name and self._outside_agent is None:
                self._outside_agent = self._make_outside_agent(name)
                self._close_late(self._outside_agent)
            if self._outside_agent is not None:
                self._outside_turns += own_turns
                return self._outside_agent
        return self.agent

    def change_options(self, words: str) -> str:
        """Set an option of the agent that answers, such as its mode, and return all of them as
        sentences. Waits.

        Args:
            words: The option and its value; empty to change nothing.
        """
        option_id, _, value = words.partition(" ")
        try:
            self._answerer()
            agent = self._outside_agent
            if agent is None:
                return f"{self.info.model} has no such options. /model acp:NAME chooses an agent."
            if option_id:
                agent.set_option(option_id, value.strip())
            options = agent.options()
        except ModelError as error:
            return str(error)
        rows = [
            f"{option.id} is {option.value} (of {', '.join(option.choices)})" for option in options
        ]
        text = "\n".join(map(shorten_line, rows))
        return make_encodable(text) or f"{agent.name} has no options."

    @property
    def agent(self) -> ReplAgent:
        """Created on first use. Raises `ModelError`."""
        with self._agent_lock:
            if self._agent is None:
                self._agent = self._make_agent()
                self._close_late(self._agent)
            return self._agent

    def _close_late(self, answerer: ReplAgent | OutsideAgent) -> None:
        """Close what was made while the session was closed, or after that.

        The session may close it, too: it must bear to be closed twice.
        """
        if self._is_closed:
            answerer.close()

    def describe_loop(self) -> str:
        """Say how the model is led, and why; return an empty string if there is no model.

        May ask the model's server.
        """
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
        """The model of a search, or its full name: the one that answers, or the one for parts of
        searches if an agent answers."""
        if self._runtime.by_program and self._agent is not None:
            return self._agent.model
        if agent_name(self.info.model):
            return self._runtime.settings.sub_model or self.info.model
        return self.info.model

    def stop(self) -> None:
        """Stop the running question, and those that wait for it."""
        self._last_withdrawn = self.last
        for answerer in (self._agent, self._outside_agent):
            if answerer is not None:
                answerer.stop()

    def stop_answer(self) -> None:
        """Stop the running question of an agent of another program, but none that waits."""
        if self._outside_agent is not None:
            self._outside_agent.stop()

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
        """Do `summarise` on a thread."""
        start_thread("agent-compact", self.summarise, focus)

    def summarise(self, focus: str) -> bool:
        """Summarise the conversation before the last question, and report the outcome. Waits.

        Args:
            focus: What to include; may be empty.

        Returns:
            Whether there is a summary.
        """
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
            return failure == ""

    def close(self) -> None:
        """Stop the current turn and the thread. Close the inbox first."""
        self._last_withdrawn = self.last
        self._is_closed = True
        for answerer in (self._agent, self._outside_agent):
            if answerer is not None:
                answerer.close()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def _make_agent(self) -> ReplAgent:
        """Make the agent by the settings. Raises `ModelError`."""
        if self._runtime.by_program:
            raise ModelError("ask() needs an agent: make one with create_repl_agent(session).")
        with IMPORTS.turn():
            from mahtab_tui.agent.repl_agent import ReplAgent

        settings = self._runtime.settings
        past = self._conversation.before(self.last if self.in_turn else None)
        return ReplAgent(
            self,
            model=self._models.make(),
            reflection_llm=self._models.reflection(),
            reflection=settings.reflection,
            output_answers=settings.output_answers,
            loop=settings.loop,
            max_turns=settings.max_turns,
            tools=self._knowledge.toolset,
            history=load_messages(past),
            max_history=settings.max_history,
            summary=load_summary(past),
        )

    def _make_outside_agent(self, name: str) -> OutsideAgent:
        """Make an agent of another program. Raises `ModelError`."""
        settings = self._runtime.settings
        program = installed_agent(name, settings.acp)
        packages = ("acp", "mcp")
        if any(find_spec(package) is None for package in packages):
            raise ModelError("Agents need further packages: pip install 'mahtab-tui[acp,mcp]'.")
        with IMPORTS.turn():
            from mahtab_tui.acp_client.agent import OutsideAgent

        return OutsideAgent(self, name, program, settings.max_answer_chars)

    def _report(self, state: Literal["thinking", "done", "failed", "stopped"], turn: int) -> None:
        emit(self.log, Agent(state=state, turn=turn, step=0, party=self.party))

    def _serve(self) -> None:
        """Answer the questions in the inbox, one by one, until it is closed."""
        while (item := self._inbox.next_item("ask")) is not None:
            try:
                answer = self.ask(item.text, attach=True)
                self.info.offer_plan(answer)
            except NoAnswerer as error:
                text = f"{error} /model chooses another one."
                emit(self.log, Notice(text, level="error"))
            except ModelError:
                pass  # which was reported with the question
            except Exception as error:  # the thread's outermost frame
                text = f"The question could not be answered: {type(error).__name__}: {error}"
                emit(self.log, Notice(text, level="error"))

    # The agent's host: code

    def decide(self, request: ApprovalRequest) -> Decision:
        """Decide whether code may run: by the settings and rules, or by asking the user. Waits."""
        return self._code.decide(request)

    def execute(self, request: ApprovalRequest, code: str, question: str = "") -> ExecutionResult:
        """Run code that `decide` has allowed, and let the user review its changes if that is set.

        Args:
            request: The request for approval.
            code: The code to run, which the user may have edited.
            question: The question that the result must fit; empty if it need not fit one.
        """
        return self._code.execute(request, code, question)

    def interrupt(self) -> None:
        """Withdraw the open request, and interrupt the model's cell."""
        self._code.withdraw()
        if self._cells.assistant_runs:
            self._runtime.kernel.interrupt()

    # The agent's host: the question

    def is_withdrawn(self, turn: int) -> bool:
        """Return whether the user has stopped a question, also before the agent has begun it."""
        return turn <= self._last_withdrawn

    def take_added_words(self, turn: int) -> list[str]:
        """Return the questions that join the running one, with their attachments."""
        texts: list[str] = []
        for item in self._inbox.take_joining():
            question = make_encodable(self.secrets.mask(item.text))
            emit(self.log, UserChat(question, turn=turn))
            self._context.attach(question, turn, lambda: self.is_withdrawn(turn))
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
        decision = self._code.ask(approval)
        if decision is None or decision.action == "stop":
            self.cancelled.set()
            return False
        return decision.action in ("run", "all")

    def add_context(self, turn: int, question: str, conversation: str) -> StoredMessage:
        """Return a question with its context.

        Args:
            conversation: What the model has got before.
        """
        return self._context.add_to(question, turn, conversation)

    def describe_variables(self, question: str, conversation: str) -> dict[str, str]:
        """Describe variables anew for a question, by name."""
        return self._context.describe_variables(question, conversation)

    def surroundings(self) -> str:
        """Describe where and when code runs, for the model."""
        return self._context.surroundings()

    @property
    def folder(self) -> str:
        """The working directory of cells; empty if it was deleted, or is on another machine."""
        return self._runtime.kernel.info().local_folder

    # The host of an agent of another program

    def open_door(self) -> Door:
        """Let the agent reach the session. Raises `ModelError`."""
        if self._open_door is None:
            raise ModelError("Agents cannot answer in this session.")
        try:
            return self._open_door(self.party)
        except SharingError as error:
            raise ModelError(f"{self.party} cannot reach the session: {error}") from None

    def ask_permission(self, request: str, text: str, answers: Sequence[str]) -> Decision:
        """Decide whether an agent's own tool may run: by the settings, or by asking the user.

        Waits. See `OutsideHost`.
        """
        if self.info.planning:
            return Decision("skip")
        if self.info.approval == "auto":
            return Decision("run")
        approval = Approval(
            text, request=request, party=self.party, is_code=False, answers=tuple(answers)
        )
        approvals = self._runtime.approvals
        decision = ask_approval(self.log, approvals, approval, self.cancelled.is_set)
        return decision or Decision("stop")

    def withdraw_permission(self, request: str) -> None:
        """Let `ask_permission` return `stop`."""
        self._runtime.approvals.cancel(request)

    def earlier_session(self, agent: str) -> EarlierSession:
        """Return the session that an agent had, as `OutsideHost` says."""
        return self._conversation.earlier_session(agent)

    def messages_after(self, turn: int, before: int) -> list[StoredMessage]:
        """Return what was said after one question and before another one."""
        messages = load_messages(self._conversation.before(before))
        return [message for message in messages if (message.turn or 0) > turn]
