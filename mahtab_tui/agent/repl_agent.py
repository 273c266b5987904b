"""The agent: answers questions, one after the other, and remembers the conversation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from mahtab_tui.agent.graph import TurnFailed, build_graph, run_graph
from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.nodes import Callbacks, Nodes, ReflectionMode
from mahtab_tui.agent.state import create_initial_state
from mahtab_tui.bus import tags
from mahtab_tui.bus.parser import parse_response
from mahtab_tui.bus.records import emit
from mahtab_tui.llm.base import ModelError, Stoppable
from mahtab_tui.llm.prompts import system_prompt, user_turn
from mahtab_tui.llm.providers import get_llm

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

DEFAULT_MODEL = "claude-sonnet-4-20250514"


class HasHost(Protocol):
    """A session that can be worked on: `SessionState`."""

    def agent_host(self) -> AgentHost: ...


class ReplAgent:
    """Answers questions over one namespace. Calls from several threads wait for each other."""

    def __init__(
        self,
        host: AgentHost,
        llm: BaseChatModel,
        *,
        max_turns: int = 5,
        reflection: ReflectionMode = "always",
        reflection_llm: BaseChatModel | None = None,
        skills: Mapping[str, str] | None = None,
        history: Sequence[tuple[str, str]] = (),
        first_turn: int = 1,
    ) -> None:
        self._host = host
        self._nodes = Nodes(llm, host, max_turns, reflection=reflection, reflection_llm=reflection_llm)
        self._graph = build_graph(self._nodes)
        self._system_prompt = system_prompt(skills)
        self._one_at_a_time = threading.Lock()
        self._turn = first_turn - 1
        self.messages: list[AnyMessage] = [HumanMessage(text) if role == "user" else AIMessage(text) for role, text in history]
        """The conversation so far, without the system prompt."""

    def ask_sync(self, prompt: str, callbacks: Callbacks | None = None) -> str:
        """Ask, and wait for the final words. Raises `ModelError` where the model fails; what was said until then stays."""
        with self._one_at_a_time:
            self._host.cancelled.clear()
            self._turn += 1
            self._nodes.callbacks = callbacks or Callbacks()
            question = HumanMessage(user_turn(self._host.context(), prompt), additional_kwargs={"question": True})
            emit(self._host.log, tags.USER_CHAT, prompt, turn=self._turn)
            state = create_initial_state(
                prompt, messages=[*self.messages, question], system_prompt=self._system_prompt, turn=self._turn
            )
            try:
                ended = run_graph(self._graph, state, self._host)
            except TurnFailed as failure:
                self._failed(failure)
            self.messages = ended["messages"]
            self._say("stopped" if ended["stopped"] else "done")
            return parse_response(ended["current_response"]).chat

    async def ask(
        self,
        prompt: str,
        on_token: Any = None,
        on_code_block: Any = None,
        on_execution: Any = None,
    ) -> str:
        """`ask_sync` for a running event loop; the callbacks are called on the agent's thread.

        on_token(token), on_code_block(code, i), on_execution(output, is_error, i). Cancelling the task stops the turn.
        """
        given = {"on_token": on_token, "on_code_block": on_code_block, "on_execution": on_execution}
        callbacks = Callbacks(**{name: call for name, call in given.items() if call is not None})
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def settle(result: str | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result or "")

        def work() -> None:
            try:
                result, error = self.ask_sync(prompt, callbacks), None
            except Exception as raised:  # the thread's outermost frame: it is raised where the answer is awaited
                result, error = None, raised
            loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name="agent-ask", daemon=True).start()
        try:
            return await answer
        except asyncio.CancelledError:
            self.stop()
            raise

    def stop(self) -> None:
        """End the turn that goes on; what was said so far stays."""
        self._host.cancelled.set()
        for llm in (self._nodes.llm, self._nodes.reflection_llm):
            if isinstance(llm, Stoppable):
                llm.stop()

    def close(self) -> None:
        """Let go of the model."""
        for llm in (self._nodes.llm, self._nodes.reflection_llm):
            if isinstance(llm, Stoppable):
                llm.close()

    def set_model(self, llm: BaseChatModel) -> None:
        """Answer with another model from the next turn on; waits for the turn that goes on."""
        with self._one_at_a_time:
            old, self._nodes.llm = self._nodes.llm, llm
        if isinstance(old, Stoppable):
            old.close()

    def _say(self, state: str) -> None:
        emit(self._host.log, tags.AGENT, state=state, turn=self._turn, step=0, party=self._host.party)

    def _failed(self, failure: TurnFailed) -> Any:
        """Keep what was said, tell the person, and raise `ModelError`."""
        self.messages = failure.state.get("messages", self.messages)
        cause = failure.__cause__
        text = str(cause) if isinstance(cause, ModelError) else f"The model could not answer: {type(cause).__name__}: {cause}"
        emit(self._host.log, tags.NOTICE, text, level="error")
        self._say("failed")
        raise ModelError(text) from cause


def create_repl_agent(
    session: AgentHost | HasHost,
    model: str | BaseChatModel = DEFAULT_MODEL,
    **options: Any,
) -> ReplAgent:
    """An agent over a session: a `SessionState` (code runs at once, in this process), or a host of one's own.

    model: a model, or the name of one (see `get_llm`). options: max_turns, reflection ("always", "on_error", "never"), reflection_llm,
    skills (descriptions by name), history (pairs of "user" or "assistant" and text). Raises `ModelError`.
    """
    host: Any = session.agent_host() if hasattr(session, "agent_host") else session
    return ReplAgent(host, get_llm(model) if isinstance(model, str) else model, **options)
