"""The thread that answers questions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from mahtab_tui.agent.host import ConversationSummary, StoredMessage
from mahtab_tui.bus import records
from mahtab_tui.bus.records import (
    Agent,
    AssistantChat,
    Hide,
    Notice,
    Record,
    Replace,
    UserAttachment,
    UserChat,
    emit,
)
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.messages import make_encodable
from mahtab_tui.llm.prompts import render_context
from mahtab_tui.session.attachments import render_attachment
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.session.turns import TurnHost
from mahtab_tui.settings.model import Settings
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.agent.repl_agent import ReplAgent


Attach = Literal["nothing", "files and variables", "commands too"]
"""Which mentions in a question are attached. A question from code, such as `ask()` in a cell, must
attach nothing, because its text may come from anywhere."""


@dataclass(eq=False, repr=False)
class AgentThread:
    """Takes questions from the inbox and lets the agent answer them."""

    _settings: Settings
    _models: Models
    _knowledge: Knowledge
    _turns: TurnHost
    _inbox: Inbox
    _past: Sequence[Record] = ()
    """The records of a resumed session."""
    _: KW_ONLY
    makes_agent: bool
    """Whether this creates the agent; otherwise the program provides it."""

    def __post_init__(self) -> None:
        self._log = self._turns.log
        self._agent_lock = threading.Lock()
        self._change_lock = threading.Lock()
        self._warm_up_lock = threading.Lock()
        self._agent: ReplAgent | None = None
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        self._withdrawn = threading.Event()
        """Set when the user stops the current question."""

    def start(self) -> None:
        self._thread.start()

    def warm_up(self) -> None:
        """Load what is needed for an answer, on a thread, before a question is sent."""
        if not self._warm_up_lock.locked():
            threading.Thread(target=self._prepare, name="agent-warm-up", daemon=True).start()

    def ask(self, prompt: str, *, attach: Attach = "nothing") -> str:
        """Ask and wait; returns the final answer. attach: which mentions in the question are
        attached. Raises `ModelError`."""
        prompt = self._turns.secrets.mask(prompt)
        with self._turns.turn():
            self._withdrawn.clear()
            return self._ask(prompt, attach)

    def _ask(self, prompt: str, attach: Attach) -> str:
        # Log the question first, because creating the agent takes a while.
        turn = self._turns.new_turn()
        emit(self._log, UserChat(make_encodable(prompt), turn=turn))
        self._turns.spending.name_question(turn, prompt)
        self._report("thinking", turn)
        try:
            if attach != "nothing":
                self._turns.attach(
                    prompt, turn, self._withdrawn.is_set, commands=attach == "commands too"
                )
            agent = self.agent
        except Exception:
            self._report("failed", turn)
            raise
        if self._withdrawn.is_set():
            self._report("stopped", turn)
            return ""
        return agent.ask_sync(prompt, shown=turn)

    def ask_from_cell(self, prompt: str) -> str:
        """Ask from a running cell, which waits, so that the agent's cells run inside it. Raises
        `ModelError`."""
        with self._turns.asked_from_cell():
            return self.ask(prompt)

    @property
    def agent(self) -> ReplAgent:
        """The agent, created on first use. Raises `ModelError`."""
        with self._agent_lock:
            if self._agent is None:
                self._agent = self._make_agent()
            return self._agent

    def continue_from(self, agent: ReplAgent) -> None:
        """Use an agent that the program has created."""
        self._agent = agent

    @property
    def model(self) -> str | BaseChatModel:
        """The model that answers: its name, or a model object."""
        return (
            self._turns.info.model if self.makes_agent or self._agent is None else self._agent.model
        )

    @property
    def sees(self) -> bool | None:
        """Whether the model accepts pictures; None if unknown. Waits until the model is loaded."""
        try:
            return self.agent.sees
        except ModelError:  # reported when the question is asked
            return None

    def stop(self) -> None:
        """Stop the current turn, even if the agent is still being created."""
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.stop()

    def change(self, change: Callable[[ReplAgent], None]) -> None:
        """Change the agent, if there is one, on a thread, because this may wait for the current
        turn."""

        def work() -> None:
            try:
                # `change` reads the settings only once it has the lock, so that the newest ones
                # win.
                with self._change_lock:
                    if self._agent is not None:
                        change(self._agent)
            except ModelError as error:
                emit(self._log, Notice(str(error), level="error"))

        threading.Thread(target=work, name="agent-change", daemon=True).start()

    def compact(self, keep: str) -> None:
        """Summarise the conversation before the last question, on a thread. keep: what the summary
        must contain, in the user's words."""

        def work() -> None:
            with self._turns.turn():
                try:
                    failure = self.agent.compact(self._turns.secrets.mask(keep), self._turns.last)
                except ModelError as error:
                    failure = str(error).rstrip(".")
                self._report(
                    "done" if failure == "" else "stopped" if failure is None else "failed",
                    self._turns.last,
                )
                if failure:
                    emit(
                        self._log,
                        Notice(
                            f"Nothing was summarised: {failure}. The conversation stays as it was.",
                            level="warning",
                        ),
                    )

        threading.Thread(target=work, name="agent-compact", daemon=True).start()

    def close(self) -> None:
        """Stop the current turn and the thread. Close the inbox first."""
        self._withdrawn.set()
        if self._agent is not None:
            self._agent.close()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _make_agent(self) -> ReplAgent:
        if not self.makes_agent:
            raise ModelError("ask() needs an agent: make one with create_repl_agent(session).")
        with IMPORTS.turn():
            from mahtab_tui.agent.repl_agent import ReplAgent

        return ReplAgent(
            self._turns,
            model=self._models.make(),
            reflection_llm=self._models.reflection(),
            reflection=self._settings.reflection,
            output_answers=self._settings.output_answers,
            max_turns=self._settings.max_turns,
            tools=self._knowledge.toolset,
            history=load_messages(self._past),
            max_history=self._settings.max_history,
            summary=load_summary(self._past),
        )

    def _report(self, state: Literal["thinking", "done", "failed", "stopped"], turn: int) -> None:
        emit(self._log, Agent(state=state, turn=turn, step=0, party=self._turns.party))

    def _prepare(self) -> None:
        # Errors are reported when the question is asked.
        with (
            self._warm_up_lock,
            contextlib.suppress(ModelError),
        ):
            self.agent.prepare()

    def _run(self) -> None:
        while (item := self._inbox.next_item("ask")) is not None:
            try:
                self.ask(item.text, attach="commands too")
            except ModelError as error:
                # The agent could not be created, and nothing has reported that yet.
                if self._agent is None:
                    emit(self._log, Notice(f"{error} /model chooses another one.", level="error"))
            except Exception as error:  # the thread's outermost frame
                emit(
                    self._log,
                    Notice(
                        f"The question could not be answered: {type(error).__name__}: {error}",
                        level="error",
                    ),
                )


def load_messages(past: Sequence[Record]) -> list[StoredMessage]:
    """Return the conversation of a resumed session."""

    attached: dict[int | None, list[str]] = {}
    for record in past:
        if isinstance(record, UserAttachment):
            attached.setdefault(record.turn, []).append(render_attachment(record))
    messages: list[StoredMessage] = []
    for record in past:
        if isinstance(record, UserChat):
            context = render_context("", attachments="\n".join(attached.get(record.turn, [])))
            messages.append(StoredMessage("user", record.text, record.turn, None, context))
        elif isinstance(record, AssistantChat):
            messages.append(StoredMessage("assistant", record.text, record.turn, record.step))
    return messages


def load_summary(past: Sequence[Record]) -> ConversationSummary | None:
    """Return the summary of the beginning of a resumed conversation, unless the user has since
    hidden or replaced part of that beginning."""
    made: ConversationSummary | None = None
    later: set[str] = set()
    for record in past:
        if isinstance(record, records.Summary) and record.text:
            made, later = ConversationSummary(record.turn, record.text), set()
        elif isinstance(record, Hide | Replace) and record.entry not in later:
            made = None
        elif entry := record.entry_name:
            later.add(entry)
    return made
