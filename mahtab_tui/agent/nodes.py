"""The nodes of the graph. Live objects come in by closure; what is returned is merged into the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.types import interrupt

from mahtab_tui.agent.generation import collect, speak
from mahtab_tui.agent.host import AgentHost, ApprovalRequest, Decision
from mahtab_tui.agent.reflection import build_reflection_prompt, parse_reflection
from mahtab_tui.agent.results import render_results
from mahtab_tui.agent.state import AgentState, ExecutionResult, ReflectionResult
from mahtab_tui.bus import tags
from mahtab_tui.bus.parser import parse_response
from mahtab_tui.bus.records import emit
from mahtab_tui.llm.prompts import CLOSING, OUT_OF_TURNS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ReflectionMode = Literal["always", "on_error", "never"]
Update = dict[str, Any]

_STOPPED = "\n\n[The person stopped this answer here.]"


class Callbacks(NamedTuple):
    """What a programmatic caller is told while a turn goes on."""

    on_token: Callable[[str], object] = lambda token: None
    on_code_block: Callable[[str, int], object] = lambda code, i: None
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, i: None


class Nodes:
    """The graph's nodes over one model and one session."""

    def __init__(
        self,
        llm: BaseChatModel,
        session: AgentHost,
        max_turns: int,
        *,
        reflection: ReflectionMode = "always",
        reflection_llm: BaseChatModel | None = None,
    ) -> None:
        self.llm = llm
        self.reflection_llm = reflection_llm
        self.callbacks = Callbacks()
        self._session = session
        self._max_turns = max_turns
        self._reflection = reflection

    def generate(self, state: AgentState) -> Update:
        """The model answers."""
        return self._answer(state, state["messages"])

    def close(self, state: AgentState) -> Update:
        """One last answer, which tells the person what came out; code in it is shown, not run."""
        prompt = CLOSING
        if not self._complete(state):
            self._say(state, "max-turns")
            prompt = f"{OUT_OF_TURNS.format(max_turns=self._max_turns)} {CLOSING}"
        messages = [*state["messages"][:-1], HumanMessage(f"{state['messages'][-1].text}\n\n{prompt}")]
        return self._answer(state, messages)

    def extract_code(self, state: AgentState) -> Update:
        """Take the answer apart."""
        blocks = [] if state["stopped"] else list(parse_response(state["current_response"]).code_blocks)
        for place, code in enumerate(blocks):
            self.callbacks.on_code_block(code, place)
        return {"code_blocks": blocks, "block": 0, "execution_results": [], "turn_count": state["turn_count"] + bool(blocks)}

    def approve(self, state: AgentState) -> Update:
        """Wait for the person. Runs again from its top when it goes on, so it holds nothing else."""
        return {"decision": interrupt(self._request(state)._asdict())}

    def execute(self, state: AgentState) -> Update:
        """Run the block, or do what the person wants with it; after the last one the results become a message for the model."""
        decision = Decision(**(state["decision"] or {"action": "stop"}))
        if decision.action == "stop" or self._session.cancelled.is_set():
            return self._results(state, state["execution_results"], stopped=True)
        results = [*state["execution_results"], self._run(state, decision)]
        stopped = self._session.cancelled.is_set()
        if stopped or state["block"] + 1 == len(state["code_blocks"]):
            return self._results(state, results, stopped=stopped)
        return {"execution_results": results, "block": state["block"] + 1}

    def reflect(self, state: AgentState) -> Update:
        """Judge whether the question is answered. What cannot be read counts as complete."""
        self._say(state, "reflecting")
        prompt = build_reflection_prompt(state["original_prompt"], state["execution_results"])
        text = collect(self.reflection_llm or self.llm, [HumanMessage(prompt)], self._session, "reflection", lambda token: None)
        stopped = self._session.cancelled.is_set()
        result = parse_reflection(text)
        if result is None:
            if not stopped:
                emit(self._session.log, tags.NOTICE, "The check of the result could not be read; it counts as complete.", level="warning")
            result = ReflectionResult(is_complete=True, reasoning="", next_action="")
        update: Update = {"reflection": dict(result), "stopped": stopped}
        if not result["is_complete"] and state["turn_count"] < self._max_turns and not stopped:
            hint = f"Not complete yet: {result['reasoning']} {result['next_action']}".strip()
            update["messages"] = [*state["messages"][:-1], HumanMessage(f"{state['messages'][-1].text}\n\n{hint}")]
        return update

    # Where to go on

    def should_execute(self, state: AgentState) -> Literal["approve", "end"]:
        """Whether there is code to run."""
        return "approve" if state["code_blocks"] and not state["stopped"] else "end"

    def after_execute(self, state: AgentState) -> Literal["approve", "reflect", "generate", "close", "end"]:
        """The next block; else a check, where the setting wants one; else the model again."""
        if state["stopped"]:
            return "end"
        if len(state["execution_results"]) < len(state["code_blocks"]):
            return "approve"
        failed = any(result["is_error"] for result in state["execution_results"])
        if self._reflection == "always" or (self._reflection == "on_error" and failed):
            return "reflect"
        return "close" if state["turn_count"] >= self._max_turns else "generate"

    def should_continue(self, state: AgentState) -> Literal["generate", "close", "end"]:
        """On, unless the question is answered or the turns are used up."""
        if state["stopped"]:
            return "end"
        return "close" if self._complete(state) or state["turn_count"] >= self._max_turns else "generate"

    # Within

    def _complete(self, state: AgentState) -> bool:
        return bool((state["reflection"] or {}).get("is_complete"))

    def _answer(self, state: AgentState, messages: list[AnyMessage]) -> Update:
        self._say(state, "thinking")
        step = self._step(messages, state)
        system = [SystemMessage(state["system_prompt"])] if state["system_prompt"] else []
        text = speak(self.llm, [*system, *messages], self._session, self.callbacks.on_token, turn=state["turn"], step=step)
        stopped = self._session.cancelled.is_set()
        message = AIMessage(text + _STOPPED if stopped else text)
        return {"messages": [*messages, message], "current_response": text, "stopped": stopped}

    def _step(self, messages: list[AnyMessage], state: AgentState) -> int:
        """Which answer of the turn this is: answers since the person's question."""
        step = 0
        for message in reversed(messages):
            if message.additional_kwargs.get("question"):
                break
            step += isinstance(message, AIMessage)
        return step

    def _request(self, state: AgentState) -> ApprovalRequest:
        block = state["block"]
        step = self._step(state["messages"], state) - 1
        request = f"{state['turn']}.{step}.{block}"
        return ApprovalRequest(request, state["turn"], step, block, len(state["code_blocks"]), state["code_blocks"][block])

    def _run(self, state: AgentState, decision: Decision) -> ExecutionResult:
        request = self._request(state)
        code = request.code if decision.code is None else decision.code
        if decision.action == "skip":
            reason = f": {decision.reason}" if decision.reason else "."
            note = f"The person skipped block {request.block + 1} of your code{reason}"
            return ExecutionResult(cell=0, code=code, output="", is_error=False, status="skipped", note=note)
        note = "" if code == request.code else f"The person edited block {request.block + 1} before it ran; what ran is:\n{code}"
        ran = self._session.execute(code, turn=request.turn, step=request.step, block=request.block)
        self.callbacks.on_execution(ran.output, ran.is_error, request.block)
        return ExecutionResult(cell=ran.cell, code=code, output=ran.output, is_error=ran.is_error, status=ran.status, note=note)

    def _results(self, state: AgentState, results: list[ExecutionResult], *, stopped: bool) -> Update:
        text = render_results(results)
        if stopped:
            text = f"{text}\nThe person stopped the turn here.".strip()
        return {"execution_results": results, "messages": [*state["messages"], HumanMessage(text)], "stopped": stopped}

    def _say(self, state: AgentState, doing: str) -> None:
        step = self._step(state["messages"], state)
        emit(self._session.log, tags.AGENT, state=doing, turn=state["turn"], step=step, party=self._session.party)
