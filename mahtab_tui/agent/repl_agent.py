"""The agent, which answers questions one after the other. `turn_prompts.py` has what its model
gets, and `graph_runs.py` runs a question's graph."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from mahtab_tui.agent.code_blocks import find_code
from mahtab_tui.agent.graph import build_graph
from mahtab_tui.agent.graph_runs import Callbacks, run_graph
from mahtab_tui.agent.host import AgentHost, ConversationSummary, StoredMessage
from mahtab_tui.agent.message_history import MessageHistory
from mahtab_tui.agent.model_calls import report_window
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.agent.state import (
    DEFAULT_MAX_TURNS,
    AgentState,
    ReflectionMode,
    create_initial_state,
    step_results,
)
from mahtab_tui.agent.turn_prompts import ContextSizes, TurnPrompts
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.records import UserChat, emit
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.llm.base import ModelError, Preparable, Stoppable, make_encodable
from mahtab_tui.llm.calls import masked_messages
from mahtab_tui.llm.loop_choice import LoopChoice
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.settings.model import LoopMode
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.tools.toolset import Toolset

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Variable

MAX_HISTORY = 20
"""Questions that are sent in full."""
DEFAULT_MODEL = "claude-sonnet-4-20250514"


@runtime_checkable
class AgentSession(Protocol):
    """A session that provides a host, a conversation and tools, such as `SessionState`."""

    def agent_host(self, model: str) -> AgentHost:
        """Return what a model needs of the session.

        Args:
            model: The model's name.
        """

    def conversation(self) -> Sequence[tuple[str, str]]:
        """Return pairs of "user" or "assistant" and text."""

    def tools(self) -> Toolset:
        """Return what code that the model writes may call."""

    def adopt(self, agent: ReplAgent) -> None:
        """Close the agent with the session."""


class ReplAgent:
    """Answers questions about a namespace, one at a time. Any thread may call it."""

    def __init__(
        self,
        session: AgentSession | AgentHost,
        model: str | BaseChatModel = DEFAULT_MODEL,
        max_turns: int = DEFAULT_MAX_TURNS,
        reflection: ReflectionMode = "never",
        *,
        reflection_llm: BaseChatModel | None = None,
        skills: Mapping[str, str] | None = None,
        tools: Toolset | None = None,
        history: Sequence[tuple[str, str] | StoredMessage] = (),
        max_history: int = MAX_HISTORY,
        summary: ConversationSummary | None = None,
        output_answers: bool = False,
        loop: LoopMode = "auto",
    ) -> None:
        """Create an agent.

        Args:
            session: A `SessionState`, or a host.
            model: A model or its name (see `get_llm`).
            max_turns: The number of answers with code for a question after which the user is asked.
            reflection: When a separate call checks the results.
            reflection_llm: The model that checks and summarises.
            skills: Descriptions by name.
            tools: Functions, skills and servers; by default those of the session.
            history: Pairs of "user" or "assistant" and text.
            max_history: The number of questions that are sent in full; earlier ones are summarised.
            summary: What an earlier agent of the session has summarised.
            output_answers: Whether a short output of a single block ends a question.
            loop: How the model is led (see the setting).

        Raises:
            ModelError: The model cannot be used.
        """
        if isinstance(session, AgentSession):
            host = session.agent_host(model if isinstance(model, str) else model._llm_type)
            tools = tools or session.tools()
            history = [*session.conversation(), *history]
        else:
            host = session
        self._host = host
        self.model = model
        self._nodes = Nodes(
            self._resolve_model(model),
            host,
            max_turns,
            reflection,
            reflection_llm=reflection_llm,
            toolset=tools,
            output_answers=output_answers,
            loop=loop,
        )
        self._graph = build_graph(self._nodes)
        self._turn_lock = threading.Lock()
        """Held while a turn runs."""
        self._turn_end_lock = threading.Lock()
        """Held while a turn ends, and while it is looked whether a turn runs, to stop it: the next one
        does not begin in between."""
        stored_messages = (StoredMessage(*message) for message in history)
        self._history = MessageHistory(host, stored_messages, max_history, summary)
        self._prompts = TurnPrompts(host, self._nodes, self._history, skills or {})
        if isinstance(session, AgentSession):
            session.adopt(self)

    def _resolve_model(self, model: str | BaseChatModel) -> BaseChatModel:
        if isinstance(model, str):
            return get_llm(model, folder=lambda: self._host.folder)
        return model

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation as the model gets it, without the system prompt."""
        return self._history.messages

    def ask_sync(
        self,
        prompt: str,
        callbacks: Callbacks | None = None,
        *,
        logged_turn: int | None = None,
        cancellation: Cancellation | None = None,
    ) -> str:
        """Ask, and wait for the final words; a keyboard interrupt stops the turn.

        Args:
            prompt: The question.
            callbacks: Told what happens meanwhile.
            logged_turn: The number of a question that is already on the bus.
            cancellation: Stops this turn, and no other one.

        Raises:
            ModelError: The model could not answer.
            CancelledError: The turn was cancelled before it began.
        """
        turn: Future[str] = Future()
        if cancellation is not None:
            cancellation.on_cancel(lambda: self._withdraw(turn))
        try:
            self._begin(turn, prompt, callbacks or Callbacks(), logged_turn)
            return wait_for_result(turn)
        except KeyboardInterrupt:
            self._withdraw(turn)
            raise
        finally:
            if cancellation is not None:
                cancellation.on_cancel(None)

    async def ask(
        self,
        prompt: str,
        on_token: Callable[[str], object] | None = None,
        on_code_block: Callable[[str, int], object] | None = None,
        on_execution: Callable[[str, bool, int], object] | None = None,
    ) -> str:
        """Like `ask_sync`, from an event loop; cancelling the task stops the turn."""
        silent = Callbacks()
        callbacks = Callbacks(
            on_token or silent.on_token,
            on_code_block or silent.on_code_block,
            on_execution or silent.on_execution,
        )
        turn: Future[str] = Future()
        self._begin(turn, prompt, callbacks)
        try:
            return await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is known to accept pictures."""
        return self._nodes.model.sees_pictures

    @property
    def loop_choice(self) -> LoopChoice:
        """How the model is led, and why. May ask its server."""
        return self._nodes.loop_choice

    def prepare(self) -> None:
        """Prepare a model that then answers sooner. Waits. Raises `ModelError`."""
        llm = self._nodes.llm
        if isinstance(llm, Preparable):
            (system,) = masked_messages([self._prompts.system_message()], self._host.secrets)
            llm.prepare(str(system.text))

    def stop(self) -> None:
        """Stop the turn, and close the model's connection."""
        self._host.cancelled.set()
        for llm in self._models():
            llm.stop()
        self._host.interrupt()

    def close(self) -> None:
        """Stop the turn, and end the models."""
        self.stop()
        for llm in self._models():
            llm.close()

    def _models(self) -> list[Stoppable]:
        models: tuple[object, ...] = (self._nodes.llm, self._nodes.reflection_llm)
        return [model for model in models if isinstance(model, Stoppable)]

    def set_model(self, model: str | BaseChatModel) -> None:
        """Use another model from the next question on.

        Waits for the running turn. Raises `ModelError`.
        """
        llm = self._resolve_model(model)
        with self._turn_lock:
            old_llm = self._nodes.llm
            self._nodes.model.replace_llm(llm)
            self.model = model
        self._close_unless_used(old_llm)

    def configure(
        self,
        max_turns: int,
        reflection: ReflectionMode,
        reflection_llm: BaseChatModel | None,
        max_history: int,
        *,
        output_answers: bool = False,
        loop: LoopMode = "auto",
    ) -> None:
        """Change the limits from the next question on. Waits for the running turn."""
        with self._turn_lock:
            self._history.max_history = max_history
            nodes = self._nodes
            nodes.max_turns = max_turns
            nodes.reflection = reflection
            nodes.output_answers = output_answers
            nodes.loop = loop
            old_llm = nodes.reflection_llm
            nodes.reflection_llm = reflection_llm
        self._close_unless_used(old_llm)

    def _close_unless_used(self, llm: BaseChatModel | None) -> None:
        """Close a model that was replaced, unless it is still one of ours."""
        if isinstance(llm, Stoppable) and all(llm is not model for model in self._models()):
            llm.close()

    def compact(self, keep: str, turn: int) -> str | None:
        """Summarise the conversation as `MessageHistory.compact` does, after the running turn has
        ended."""
        with self._turn_lock:
            self._host.cancelled.clear()
            nodes = self._nodes
            summariser = nodes.reflection_llm or nodes.llm
            failure = self._history.compact(summariser, make_encodable(keep), turn)
            if failure == "":
                report_window(
                    self._host, nodes.llm, [self._prompts.system_message(), *self.messages]
                )
            return failure

    def context_sizes(self, variables: Sequence[Variable]) -> ContextSizes:
        """Return the sizes of what the next question sends, as `TurnPrompts.context_sizes` does."""
        return self._prompts.context_sizes(variables)

    def _begin(
        self, turn: Future[str], prompt: str, callbacks: Callbacks, logged_turn: int | None = None
    ) -> None:
        """Start a turn on a thread, after the one that runs."""

        def run() -> None:
            with self._turn_lock:
                # First, because a running turn can be stopped.
                self._host.cancelled.clear()
                if logged_turn is not None and self._host.is_withdrawn(logged_turn):
                    turn.cancel()
                if not turn.set_running_or_notify_cancel():
                    return
                try:
                    answer = self._answer(prompt, callbacks, logged_turn)
                except BaseException as error:  # the waiting thread raises it
                    with self._turn_end_lock:
                        turn.set_exception(error)
                else:
                    with self._turn_end_lock:
                        turn.set_result(answer)

        start_thread("agent-turn", run)

    def _withdraw(self, turn: Future[str]) -> None:
        """Cancel a turn that waits, or stop one that runs."""
        with self._turn_end_lock:
            if not turn.cancel() and turn.running():
                self.stop()

    def _answer(self, prompt: str, callbacks: Callbacks, logged_turn: int | None) -> str:
        """Run a turn, and return its final words."""
        host = self._host
        prompt = make_encodable(prompt)
        turn = logged_turn
        if turn is None:
            turn = host.new_turn()
            emit(host.log, UserChat(prompt, turn=turn))
        earlier_questions = self._history.question_texts(host.hidden)
        about_data = self._prompts.add_question(prompt, turn)
        system = self._prompts.system_message()
        messages = self._prompts.prepare_messages(prompt, turn, system)

        state = create_initial_state(
            prompt,
            messages=messages,
            system_prompt=str(system.text),
            turn=turn,
            about_data=about_data,
            earlier_questions=earlier_questions,
        )
        message_count = len(messages)
        try:
            run_graph(self._graph, state, host, callbacks)
        finally:
            # Nodes may have added to the question.
            sent_question = str(messages[-1].text)
            final_question = str(state["messages"][message_count - 1].text)
            self._history.extend_question(after=final_question[len(sent_question) :])
            self._history.add(turn, state["messages"][message_count:])
        if state["failure"]:
            raise ModelError(state["failure"])
        return _final_words(state)


def _final_words(state: AgentState) -> str:
    """Return the answer of a turn that has ended."""
    reply = parse_response(state["current_response"], has_ended=state["ended"])
    if state["stopped"] or not find_code(reply):
        return reply.prose

    # The last reply has code. By `output_answers`, the output of that code is the answer; otherwise
    # no more code runs, and the last output completes the words.
    outputs = [result["output"].strip() for result in state["execution_results"]]
    last_output = next((output for output in reversed(outputs) if output), "")
    if step_results(state):
        return last_output
    return "\n\n".join(filter(None, (reply.prose.strip(), last_output)))


create_repl_agent = ReplAgent
"""The name under which programs import it."""
