"""The agent, which answers questions one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage

from mahtab_tui.agent.graph import ReplGraph, build_graph
from mahtab_tui.agent.host import AgentHost, ConversationSummary, StoredMessage
from mahtab_tui.agent.message_history import MessageHistory
from mahtab_tui.agent.message_sizes import section_sizes
from mahtab_tui.agent.model_calls import report_window
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.agent.state import (
    DEFAULT_MAX_TURNS,
    AgentState,
    ReflectionMode,
    create_initial_state,
    step_results,
)
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.logger import StreamingHandler
from mahtab_tui.bus.records import Agent, AssistantChat, Notice, Record, UserChat, emit
from mahtab_tui.llm.background import background
from mahtab_tui.llm.base import ModelError, Preparable, Stoppable, make_encodable
from mahtab_tui.llm.calls import masked_messages
from mahtab_tui.llm.loop_choice import LoopChoice
from mahtab_tui.llm.prompt_sections import changed_sections
from mahtab_tui.llm.prompts import system_prompt
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.token_estimates import estimated_tokens
from mahtab_tui.llm.variable_texts import VALUES_KEY, render_variables
from mahtab_tui.settings.model import LoopMode
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.tools import Toolset

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Variable

MAX_HISTORY = 20
"""Questions that are sent in full."""
DEFAULT_MODEL = "claude-sonnet-4-20250514"
RECURSION_LIMIT = 10_000
"""Steps of the graph; so high that only `max_turns` ends a turn."""


class Callbacks(NamedTuple):
    """Callbacks of a program, called on the turn's thread."""

    on_token: Callable[[str], object] = lambda token: None
    on_code_block: Callable[[str, int], object] = lambda code, i: None
    """Gets a block's code before it runs, and its number in the turn, from 0."""
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, i: None
    """Gets a block's output, whether it failed, and its number."""


@dataclass(eq=False, repr=False)
class _Turn:
    """Reports to the bus and the callbacks what the graph does."""

    _state: AgentState
    _host: AgentHost
    _callbacks: Callbacks
    _stream: StreamingHandler | None = None

    def run(self, graph: ReplGraph) -> None:
        """Run the graph to its end. Its failures are raised, those of the model reported."""
        # LangGraph types its input and configuration more narrowly than it reads them.
        graph_input: Any = dict(self._state)
        config: Any = {"recursion_limit": RECURSION_LIMIT}
        events: Any = graph.stream(graph_input, config, stream_mode=["updates", "custom"])
        try:
            for mode, data in events:
                try:
                    if mode == "custom":
                        self._show(data)
                    else:
                        for node, update in data.items():
                            self._update(node, update)
                except BaseException:
                    # Otherwise the graph would wait for the running node.
                    self._host.cancelled.set()
                    raise
        except BaseException:
            self._end("failed")
            raise

        if failure := self._state["failure"]:
            emit(self._host.log, Notice(failure, level="error"))
            self._end("failed")
        else:
            self._end("stopped" if self._state["stopped"] else "done")

    def _show(self, data: Record | str | None) -> None:
        """Report a record or a token; None if the answer starts over."""
        log = self._host.log
        if isinstance(data, Record):
            emit(log, data)
            if isinstance(data, Agent) and data.state == "thinking":
                self._stream = StreamingHandler(log, data.turn, data.step, data.party)
        elif data is not None:
            if self._stream is not None:
                self._stream.process_token(data)
            self._callbacks.on_token(data)
        elif self._stream is not None:
            self._stream = self._stream.restart()

    def _end(self, state: str) -> None:
        self._end_stream()
        turn = self._state["turn"]
        step = self._state["step"]
        emit(self._host.log, Agent(state=state, turn=turn, step=step, party=self._host.party))

    def _update(self, node: str, update: Mapping[str, Any]) -> None:
        """Take over what a node has changed, and report it."""
        state = self._state
        result_count = len(state["execution_results"])
        state.update(update)  # type: ignore[typeddict-item]
        if node in ("generate", "close"):
            self._end_stream()
            if text := state["current_response"]:
                answer = AssistantChat(
                    text,
                    turn=state["turn"],
                    step=state["step"],
                    party=self._host.party,
                    stopped=state["stopped"] or bool(state["failure"]),
                    figures=state["figures"],
                )
                emit(self._host.log, answer)
        elif node == "read_reply":
            for index, code in enumerate(state["code_blocks"], result_count):
                self._callbacks.on_code_block(code, index)
        elif node == "execute":
            new_results = state["execution_results"][result_count:]
            for index, result in enumerate(new_results, result_count):
                if result["cell"] is not None:
                    self._callbacks.on_execution(result["output"], result["is_error"], index)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            self._stream = None


def run_graph(
    graph: ReplGraph, state: AgentState, session: AgentHost, callbacks: Callbacks | None = None
) -> AgentState:
    """Run a turn to its end, and report it to the bus and the callbacks. `state` is updated in
    place and returned; if the model fails, it has a ``failure``."""
    _Turn(state, session, callbacks or Callbacks()).run(graph)
    return state


@runtime_checkable
class AgentSession(Protocol):
    """A session that provides a host, a conversation and tools, such as `SessionState`."""

    def agent_host(self, model: str) -> AgentHost: ...

    def conversation(self) -> Sequence[tuple[str, str]]:
        """Return pairs of "user" or "assistant" and text."""

    def tools(self) -> Toolset: ...

    def adopt(self, agent: ReplAgent) -> None: ...


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
        """
        Args:
            session: A `SessionState`, or a host.
            model: A model or its name (see `get_llm`).
            max_turns: The number of answers with code for a question after which the user is asked.
            reflection: When a separate call checks the results.
            reflection_llm: The model that checks and summarises.
            skills: Descriptions by name.
            history: Pairs of "user" or "assistant" and text.
            max_history: The number of questions that are sent in full; earlier ones are summarised.
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
        self._skills = dict(skills or {})
        self._turn_lock = threading.Lock()
        stored_messages = (StoredMessage(*message) for message in history)
        self._history = MessageHistory(host, stored_messages, max_history, summary)
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
        self, prompt: str, callbacks: Callbacks | None = None, *, logged_turn: int | None = None
    ) -> str:
        """Ask, and wait for the final words; a keyboard interrupt stops the turn.

        Args:
            logged_turn: The number of a question that is already on the bus.

        Raises:
            ModelError: The model could not answer.
        """
        turn: Future[str] = Future()
        try:
            self._begin(turn, prompt, callbacks or Callbacks(), logged_turn)
            return wait_for_result(turn)
        except KeyboardInterrupt:
            self._withdraw(turn)
            raise

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
            (system,) = masked_messages([self._system_message()], self._host.secrets)
            llm.prepare(str(system.text))

    def stop(self) -> None:
        """Stop the turn, and close the model's connection."""
        self._host.cancelled.set()
        for llm in self._models():
            llm.stop()
        self._host.interrupt()

    def close(self) -> None:
        self.stop()
        for llm in self._models():
            llm.close()

    def _models(self) -> list[Stoppable]:
        models: tuple[object, ...] = (self._nodes.llm, self._nodes.reflection_llm)
        return [model for model in models if isinstance(model, Stoppable)]

    def set_model(self, model: str | BaseChatModel) -> None:
        """Use another model from the next question on. Waits for the running turn. Raises
        `ModelError`."""
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
        """See `MessageHistory.compact`. Waits for the running turn."""
        with self._turn_lock:
            self._host.cancelled.clear()
            nodes = self._nodes
            summariser = nodes.reflection_llm or nodes.llm
            failure = self._history.compact(summariser, make_encodable(keep), turn)
            if failure == "":
                report_window(self._host, nodes.llm, [self._system_message(), *self.messages])
            return failure

    def _begin(
        self, turn: Future[str], prompt: str, callbacks: Callbacks, logged_turn: int | None = None
    ) -> None:
        """Start a turn on a thread, after the one that runs."""

        def run() -> None:
            with self._turn_lock:
                # First, because a running turn can be stopped.
                self._host.cancelled.clear()
                if not turn.set_running_or_notify_cancel():
                    return
                try:
                    turn.set_result(self._answer(prompt, callbacks, logged_turn))
                except BaseException as error:  # the waiting thread raises it
                    turn.set_exception(error)

        start_thread("agent-turn", run)

    def _withdraw(self, turn: Future[str]) -> None:
        """Cancel a turn that waits, or stop one that runs."""
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
        about_data = self._add_question(prompt, turn)
        system = self._system_message()
        messages = self._prepare_messages(prompt, turn, system)

        state = create_initial_state(
            prompt,
            messages=messages,
            system_prompt=str(system.text),
            turn=turn,
            about_data=about_data,
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

    def _add_question(self, prompt: str, turn: int) -> bool:
        """Add a question with its context to the conversation; return whether it is about data."""
        conversation = "\n".join(
            str(message.text) for message in self.messages if message.type != "ai"
        )
        question = self._host.add_context(turn, prompt, conversation)
        about_data = bool(question.instruction)
        if not self._nodes.leads_small_model:
            variables = self._variables_to_send(question.variables)
            question = question._replace(variables=variables, instruction="")
        self._history.ask(question)
        return about_data

    def _variables_to_send(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return descriptions of variables, with the values that a question names only for a small
        model: a capable one looks for them itself."""
        is_small = self._nodes.leads_small_model
        return {name: text for name, text in texts.items() if is_small or name != VALUES_KEY}

    def _prepare_messages(self, prompt: str, turn: int, system: SystemMessage) -> list[AnyMessage]:
        """Return the conversation for a question, whose beginning may be summarised now."""
        nodes = self._nodes
        summary_end = self._history.summary_end
        summariser = nodes.reflection_llm or nodes.llm
        messages = self._history.prepare(summariser, system, turn, nodes.model.token_limit)
        if self._history.summary_end != summary_end:
            # The descriptions that were not repeated may have been summarised.
            variables = self._host.describe_variables(prompt, "")
            self._history.set_variables(self._variables_to_send(variables))
            messages = self.messages

        # The summary may have replaced the messages with the newest sections.
        texts = [str(message.text) for message in messages]
        changed = changed_sections(self._sections(), texts)
        if changed:
            self._history.extend_question(before=make_encodable(changed))
            messages = self.messages
        return messages

    def context_sizes(self, variables: Sequence[Variable]) -> tuple[int, dict[str, int]]:
        """Return the tokens that the model can read, and an estimate of those of the next question,
        by kind."""
        max_tokens = self._nodes.model.token_limit
        sizes = section_sizes(self.messages, self._host.pictures, max_tokens)
        # Sections that were not sent yet go with the next question.
        for name, text in self._sections().items():
            if name in sizes and not sizes[name] and text:
                sizes[name] = estimated_tokens([text])

        # Descriptions stand in the words of earlier questions.
        described_tokens = estimated_tokens(self._history.variable_texts())
        sizes["words"] = max(0, sizes["words"] - described_tokens)
        listed_tokens = estimated_tokens([render_variables(variables)]) if variables else 0
        sizes["variables"] = described_tokens + listed_tokens
        program_tokens = estimated_tokens([str(self._system_message().text)])
        return max_tokens, {"program": program_tokens} | sizes

    def _system_message(self) -> SystemMessage:
        """Anything that may change within a session is sent with the questions, so that the start
        of the prompt stays the same."""
        tools = self._nodes.toolset
        functions = tools.functions() if tools is not None else ()
        offered_tools = self._nodes.model.offered_tools
        unoffered = [function for function in functions if function.called not in offered_tools]
        return SystemMessage(system_prompt(unoffered))

    def _sections(self) -> dict[str, str]:
        """Return the sections that may change within a session, by their names."""
        sections = {"surroundings": self._host.surroundings()}
        tools = self._nodes.toolset
        if tools is None:
            return sections | background(self._skills)
        skills = {**tools.skills.descriptions(bundled=False), **self._skills}
        return sections | background(
            skills, tools.loaded.instructions(), tools.instructions(), tools.servers()
        )


def _final_words(state: AgentState) -> str:
    """Return the answer of a turn that has ended."""
    reply = parse_response(state["current_response"], has_ended=state["ended"])
    if state["stopped"] or not reply.code_blocks:
        return reply.prose

    # The last reply has code. By `output_answers`, the output of that code is the answer; otherwise
    # no more code runs, and the last output completes the words.
    outputs = [result["output"].strip() for result in state["execution_results"]]
    last_output = next((output for output in reversed(outputs) if output), "")
    if step_results(state):
        return last_output
    return "\n\n".join(filter(None, (reply.prose.strip(), last_output)))


if TYPE_CHECKING:
    create_repl_agent = ReplAgent
else:

    def create_repl_agent(*args: Any, **options: Any) -> ReplAgent:
        """Create an agent for a session; the arguments are those of `ReplAgent`."""
        return ReplAgent(*args, **options)
