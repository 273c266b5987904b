"""The nodes of the graph. Tokens and records for the bus go into the graph's custom stream."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import StreamWriter

from mahtab_tui.agent.agent_model import AgentModel
from mahtab_tui.agent.answer_figures import look_up_figures
from mahtab_tui.agent.code_blocks import (
    describe_obstacle,
    find_code,
    find_last_run,
    has_statements,
    is_same_code,
    make_request,
    make_unrun_result,
)
from mahtab_tui.agent.host import AgentHost, ExecutionResult, ToolCall
from mahtab_tui.agent.model_calls import ModelAnswer, call_model
from mahtab_tui.agent.reflection import build_reflection_prompt, parse_reflection
from mahtab_tui.agent.state import (
    AgentState,
    ReflectionMode,
    ReflectionResult,
    is_complete,
    is_declined,
    is_stalled,
    should_continue,
    step_results,
)
from mahtab_tui.agent.step_results import max_output_chars, render_results
from mahtab_tui.agent.tool_calls import call_message
from mahtab_tui.agent.tool_runs import MAX_CALLS, ToolOutcome, run_call
from mahtab_tui.agent.turn_messages import (
    append_text,
    error_ending,
    last_exchange,
    stored_text,
    tool_message,
    without_answer,
    without_exchange,
)
from mahtab_tui.agent.written_calls import parse_written_calls
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.empty_answers import names_no_value
from mahtab_tui.bus.escaping import escape_output
from mahtab_tui.bus.figures import near_misses
from mahtab_tui.bus.hidden_characters import refusal
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import (
    Agent,
    AnswerFigure,
    AssistantReplOut,
    AssistantThought,
    AssistantTool,
    Decision,
    Notice,
)
from mahtab_tui.llm import prompts
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.loop_choice import LoopChoice, choose_loop
from mahtab_tui.llm.prompt_sections import escape_sections
from mahtab_tui.settings.model import LoopMode
from mahtab_tui.tools.toolset import Toolset

_RETRY_TEMPERATURE = 0.7
"""The temperature when a reply repeated the one before."""
_Activity = Literal["thinking", "reflecting", "max-turns", "stalled"]
"""What a model does, as in `bus.records.Agent`."""
Update = dict[str, Any]
"""The values of the state that a node changes."""


class Nodes:
    """The functions that the graph calls, and the models that they ask."""

    def __init__(
        self,
        llm: BaseChatModel,
        session: AgentHost,
        max_turns: int,
        reflection: ReflectionMode = "never",
        *,
        reflection_llm: BaseChatModel | None = None,
        toolset: Toolset | None = None,
        output_answers: bool = False,
        loop: LoopMode = "auto",
    ) -> None:
        """The arguments are those of `ReplAgent`."""
        self.model = AgentModel(llm, session, toolset)
        self.max_turns = max_turns
        self.reflection = reflection
        self.reflection_llm = reflection_llm
        self.toolset = toolset
        self.output_answers = output_answers
        self.loop = loop
        self._session = session

    @property
    def llm(self) -> BaseChatModel:
        """The model that answers."""
        return self.model.llm

    @property
    def leads_small_model(self) -> bool:
        """Whether the model is told to compute at once, and to compute again what no output
        shows. That only holds up a capable model."""
        return self.loop_choice.loop == "single"

    @property
    def loop_choice(self) -> LoopChoice:
        """How the model is led, and why."""
        return choose_loop(self.llm, self.loop)

    def generate(self, state: AgentState, writer: StreamWriter) -> Update:
        """Ask the model for the next answer of the turn."""
        messages = state["messages"]
        added_words = list(state["added_words"])
        # The first step already has all that the user has said.
        if state["step"] >= 0:
            for words in self._session.take_added_words(state["turn"]):
                messages = append_text(messages, prompts.ADDED_WORDS.format(words=words))
                added_words.append(words)

        options = self.model.tool_options(forbidden=state["tool_count"] >= MAX_CALLS)
        # At the usual temperature, a small model would write the same block once more.
        if state["repeated"] and "temperature" in type(self.llm).model_fields:
            options["temperature"] = _RETRY_TEMPERATURE
        update = self._get_answer(state, messages, writer, options)
        return update | {"added_words": added_words}

    def tools(self, state: AgentState, writer: StreamWriter) -> Update:
        """Run the answer's tool calls; each result becomes a message."""
        messages = list(state["messages"])
        call_count = state["tool_count"]
        for index, call in enumerate(state["tool_calls"]):
            is_allowed = call_count < MAX_CALLS
            if is_allowed:
                call_count += 1
            record = self._tool_record(state, index, call)
            record = self._run_tool(record, call, writer, is_allowed=is_allowed)
            messages.append(tool_message(record, call))
            if record.state == "stopped":
                break
        stopped = self._session.cancelled.is_set()
        return {"messages": messages, "tool_count": call_count, "stopped": stopped}

    def _tool_record(self, state: AgentState, index: int, call: ToolCall) -> AssistantTool:
        """Return the record of a tool call that begins. index: its place in the answer, from 0."""
        turn = state["turn"]
        step = state["step"]
        return AssistantTool(
            call=f"{turn}.{step}.{index}",
            turn=turn,
            step=step,
            party=self._session.party,
            state="running",
            name=call["name"],
            arguments=json.dumps(call["arguments"], ensure_ascii=False),
        )

    def _run_tool(
        self, record: AssistantTool, call: ToolCall, writer: StreamWriter, *, is_allowed: bool
    ) -> AssistantTool:
        """Run a tool call, and return its record with the result."""
        assert self.toolset is not None
        outcome = ToolOutcome("refused", prompts.TOO_MANY_CALLS.format(calls=MAX_CALLS))
        seconds = 0.0
        if is_allowed:
            writer(record)
            start = time.monotonic()
            outcome = run_call(call, self.toolset, self._session.cancelled)
            seconds = round(time.monotonic() - start, 3)

        # With the time at which the record is written, not that of the call.
        record = record.changed(text=outcome.text, state=outcome.state, duration=seconds, time=0.0)
        writer(record)
        return record

    def close(self, state: AgentState, writer: StreamWriter) -> Update:
        """Get a last answer, whose code does not run."""
        results = state["execution_results"]
        failed = bool(results) and all(result["is_error"] for result in results)
        reason = self._closing_reason(state)
        if reason:
            is_out_of_steps = self._is_out_of_steps(state)
            activity: _Activity = "max-turns" if is_out_of_steps else "stalled"
            self._report(writer, state, activity, state["step"])
        if failed and self.leads_small_model:
            return self._say_what_failed(state, writer)

        question = "\n".join([state["original_prompt"], *state["added_words"]])
        prompt = f"{reason} {prompts.closing(question, failed=failed)}".lstrip()

        messages = append_text(state["messages"], prompt)
        options = self.model.tool_options(forbidden=True)
        update = self._get_answer(state, messages, writer, options)
        if parse_response(update["current_response"]).code_blocks:
            *earlier_messages, answer = update["messages"]
            text = f"{answer.text}\n\n{prompts.CODE_NOT_RUN}"
            update["messages"] = [*earlier_messages, answer.model_copy(update={"content": text})]
        return update | {"code_blocks": []}

    def _say_what_failed(self, state: AgentState, writer: StreamWriter) -> Update:
        """Answer that nothing was computed, in place of a small model, which would invent a result."""
        error = error_ending(state["execution_results"][-1]["output"])
        text = prompts.NOTHING_COMPUTED
        if error:
            text = f"{text} {error}"
        step = state["step"] + 1
        writer(text)
        return {
            "messages": [*state["messages"], AIMessage(text, id=f"{state['turn']}.{step}")],
            "step": step,
            "current_response": text,
            "code_blocks": [],
            "figures": (),
            "ended": True,
        }

    def _is_out_of_steps(self, state: AgentState) -> bool:
        return state["step_count"] >= self.max_turns + state["granted_steps"]

    def _closing_reason(self, state: AgentState) -> str:
        """Return why no more code runs, for the model; empty if the work is complete."""
        if is_complete(state):
            return ""
        if self._is_out_of_steps(state):
            return prompts.out_of_steps(state["step_count"])
        return prompts.STALLED

    def read_reply(self, state: AgentState) -> Update:
        """Read the code of a reply. An answer that contradicts its outputs is sent back once."""
        update: Update = {"code_blocks": [], "next_block": 0, "next": "end"}
        if state["stopped"] or state["failure"]:
            return update

        reply = parse_response(state["current_response"], has_ended=state["ended"])
        code_blocks = find_code(reply)
        if code_blocks:
            update["code_blocks"] = list(code_blocks)
            update["step_count"] = state["step_count"] + 1
            update["next"] = "approve"
            return update
        if state["tool_calls"]:
            return update | {"next": "generate"}
        return update | self._send_back(state)

    def _send_back(self, state: AgentState) -> Update:
        """Send an answer back once, if it contradicts the output or comes from nowhere."""
        if state["was_challenged"]:
            return {}

        messages = state["messages"]
        if find_last_run(state["execution_results"]) is not None:
            challenge = self._challenge(state)
            if not challenge:
                return {}
            messages = [*messages, HumanMessage(challenge)]
        elif self._must_compute(state) and _uncomputed(state["figures"]):
            # Without the answer, because a model that sees its figures repeats them.
            messages = append_text(without_answer(messages), prompts.COMPUTE_FIRST)
        else:
            return {}
        return {"was_challenged": True, "messages": messages, "next": "generate"}

    def _must_compute(self, state: AgentState) -> bool:
        """Return whether each figure of an answer must have been printed or said by the user, because
        a small model answers a question about data, for which no code was written."""
        return self.leads_small_model and state["about_data"] and not state["execution_results"]

    def _challenge(self, state: AgentState) -> str:
        """Return the request to correct an answer from outputs; empty if the answer may stand. A
        capable model is asked only about slips, because it may know more than the outputs show."""
        doubtful = _uncomputed(state["figures"])
        if not self.leads_small_model:
            doubtful = near_misses(doubtful)
        if doubtful:
            return prompts.correct_figures([figure.doubt for figure in doubtful])

        question = state["original_prompt"]
        if not state["about_data"] or "?" not in question:
            return ""
        outputs = [result["output"] for result in state["execution_results"]]
        answer = parse_response(state["current_response"]).prose
        codes = [result["code"] for result in state["execution_results"]]
        if not names_no_value(answer, outputs, question, codes):
            return ""
        return prompts.NAME_VALUE

    def approve(self, state: AgentState, writer: StreamWriter) -> Update:
        """Decide whether the next block may run."""
        request = make_request(state)
        if not has_statements(request.code) or self._repeats_last_run(state, request.code):
            # Nobody is asked, because `_run` will not run it.
            return {"decision": Decision("run")}
        reason = refusal(request.code)
        if not reason:
            return {"decision": self._session.decide(request)}
        writer(request.record(self._session.party).changed(state="refused"))
        _warn(writer, f"Code from {self._session.party} was not run. {reason}")
        return {"decision": Decision("refuse", reason=reason)}

    def execute(self, state: AgentState) -> Update:
        """Carry out the decision about a block; after the last, the results become a message."""
        decision = state["decision"] or Decision("stop")
        results = list(state["execution_results"])
        next_block = state["next_block"] + 1
        stopped = decision.action == "stop" or self._session.cancelled.is_set()
        if not stopped:
            results.append(self._run(state, decision))
            stopped = self._session.cancelled.is_set()

        # The later blocks rely on this one.
        obstacle = "" if stopped else describe_obstacle(results[-1], decision)
        block_count = len(state["code_blocks"])
        if obstacle:
            for block in range(next_block, block_count):
                note = prompts.not_run_note(block, obstacle)
                results.append(make_unrun_result(state, block, note))
            next_block = block_count

        update: Update = {
            "execution_results": results,
            "next_block": next_block,
            "reflection": None,
            "decision": None,
            "stopped": stopped,
        }
        if stopped or next_block == block_count:
            message = self._results_message(_updated(state, update))
            update["messages"] = [*state["messages"], message]
        return update

    def _results_message(self, state: AgentState) -> HumanMessage:
        """Return the message with the results of a step that has ended."""
        text = render_results(step_results(state), max_output_chars(self.model.token_limit))
        if state["stopped"]:
            text = f"{text}\n{prompts.STOPPED_RUN}".strip()
        return HumanMessage(text)

    def instruct(self, state: AgentState) -> Update:
        """Say how to go on, in one sentence. At the limit of steps, ask the user first."""
        update: Update = {"repeated": False}
        if self._is_out_of_steps(state) and not is_stalled(state["execution_results"]):
            if self._session.confirm_more_steps(state["turn"], state["step_count"]):
                update["granted_steps"] = state["granted_steps"] + self.max_turns
            update["stopped"] = self._session.cancelled.is_set()
        if should_continue(_updated(state, update), self.max_turns) != "generate":
            return update

        results = step_results(state)
        if all(result["status"] == "repeated" for result in results):
            return update | {"repeated": True, "messages": self._ask_again(state)}

        # The note about a check, or about what the user declined, says how to go on.
        failed = any(result["is_error"] for result in results)
        if state["reflection"] is not None or (is_declined(results) and not failed):
            return update

        printed = any(result["output"].strip() for result in results)
        # A small model does not act on the note alone. One that was told once knows no better.
        doubt_count = sum(bool(result.get("doubts")) for result in state["execution_results"])
        doubted = self.leads_small_model and doubt_count == 1 and bool(results[-1].get("doubts"))
        sentence = prompts.after_step(failed=failed, printed=printed, doubted=doubted)
        return update | {"messages": append_text(state["messages"], sentence)}

    def _ask_again(self, state: AgentState) -> list[AnyMessage]:
        """Return the messages that ask again after a reply that repeats the code that ran last. They
        do not have that reply, nor that code if it failed or its result is doubtful, because a small
        model that sees them repeats them once more."""
        messages = without_exchange(state["messages"])
        last_run = find_last_run(state["execution_results"])
        if last_run is not None and last_run["is_error"]:
            error = error_ending(last_run["output"])
            element = to_xml(AssistantReplOut(escape_output(error), status="error"))
            request = prompts.after_repeated_failure(
                state["original_prompt"], escape_sections(element)
            )
        elif last_run is not None and last_run.get("doubts") and self.leads_small_model:
            result = render_results([last_run], max_output_chars(self.model.token_limit))
            request = prompts.after_repeated_doubt(state["original_prompt"], result)
        else:
            return append_text(messages, prompts.AFTER_REPETITION)
        return append_text(without_exchange(messages), request)

    def reflect(self, state: AgentState, writer: StreamWriter) -> Update:
        """Ask whether the question is answered. An unreadable judgement counts as yes."""
        self._report(writer, state, "reflecting", state["step"])
        prompt = build_reflection_prompt(state["original_prompt"], state["execution_results"])
        answer = call_model(
            self._session,
            self.reflection_llm or self.llm,
            [HumanMessage(prompt)],
            state["turn"],
            "reflection",
            partial(_warn, writer),
        )
        result = parse_reflection(answer.text)
        if result is None:
            result = ReflectionResult(is_complete=True, reasoning="", next_action="")
            if not answer.is_stopped:
                _warn(writer, _failed_check_note(answer))

        update: Update = {"reflection": result, "stopped": answer.is_stopped}
        if not result["is_complete"]:
            hint = prompts.INCOMPLETE.format(
                reasoning=result["reasoning"], next_action=result["next_action"]
            )
            update["messages"] = append_text(state["messages"], hint.strip())
        return update

    def _get_answer(
        self,
        state: AgentState,
        messages: list[AnyMessage],
        writer: StreamWriter,
        options: Mapping[str, Any],
    ) -> Update:
        """Ask the model, and return its answer as the state of the next step.

        Args:
            state: The turn.
            messages: The conversation to send, to which the answer is added.
            writer: Gets the words of the answer and records.
            options: Options of the model, such as the tools that it may call.
        """
        step = state["step"] + 1
        self._report(writer, state, "thinking", step)
        answer = self.model.ask(state, messages, options, writer)
        self._report_answer(writer, state, answer, step)

        text = answer.text
        calls = list(answer.calls)
        message = answer.message
        # Some models write their calls into the answer instead of making them.
        if self.toolset is not None and not calls and answer.is_complete:
            parsed = parse_written_calls(text, self.toolset.tools)
            text = parsed.words
            calls = parsed.calls
            if calls:
                message = call_message(text, calls)
        if message is None:
            message = AIMessage(stored_text(answer))

        figures: tuple[AnswerFigure, ...] = ()
        if not calls and not answer.failure:
            reads_descriptions = not self._must_compute(state)
            figures = look_up_figures(
                state,
                text,
                messages,
                has_ended=answer.is_complete,
                reads_descriptions=reads_descriptions,
            )
        return {
            # `PromptMessages.add` reads the step from the id.
            "messages": [*messages, message.model_copy(update={"id": f"{state['turn']}.{step}"})],
            "tool_calls": calls,
            "step": step,
            "current_response": text,
            "figures": figures,
            "ended": answer.is_complete,
            "stopped": answer.is_stopped,
            "failure": answer.failure,
        }

    def _report_answer(
        self, writer: StreamWriter, state: AgentState, answer: ModelAnswer, step: int
    ) -> None:
        """Log the thinking of an answer, and tell the user what is wrong with it."""
        if answer.thought.strip():
            party = self._session.party
            writer(AssistantThought(answer.thought, turn=state["turn"], step=step, party=party))
        if answer.is_cut:
            _warn(writer, answer.cut_note)
        if answer.is_complete and not answer.calls:
            parsed = parse_response(answer.text)
            if not parsed.chat.strip() and not parsed.code_blocks:
                _warn(writer, "The model gave an empty answer.")
            elif not parsed.prose.strip() and not parsed.code_blocks:
                _warn(writer, "The model gave no answer: it wrote down only its thinking.")

    def _run(self, state: AgentState, decision: Decision) -> ExecutionResult:
        """Carry out the decision about the next block."""
        request = make_request(state)
        block = request.block
        if not has_statements(request.code):
            note = prompts.only_comments_note(block)
            return make_unrun_result(state, block, note, status="empty")
        if self._repeats_last_run(state, request.code):
            return make_unrun_result(state, block, prompts.AFTER_REPETITION, status="repeated")
        if decision.action == "refuse":
            return make_unrun_result(state, block, prompts.refused_note(block, decision.reason))
        if decision.action == "skip":
            return make_unrun_result(state, block, prompts.skipped_note(block, decision.reason))
        code = request.code if decision.code is None else make_encodable(decision.code)
        # A small model's block must answer the question; another may only look.
        question = ""
        if self.leads_small_model and state["about_data"]:
            question = state["original_prompt"]
        return self._session.execute(request, code, question)

    def _repeats_last_run(self, state: AgentState, code: str) -> bool:
        """Return whether code is what ran last, for this question and in the session, so that its
        result would be the same."""
        last_run = find_last_run(state["execution_results"])
        if last_run is None or last_run["cell"] != self._session.last_cell:
            return False
        # Tools may have changed files that the code reads.
        if any(message.type == "tool" for message in last_exchange(state["messages"])):
            return False
        return is_same_code(code, last_run["code"])

    def _report(
        self,
        writer: StreamWriter,
        state: AgentState,
        activity: _Activity,
        step: int,
    ) -> None:
        """Log what the model does. step: the number of the answer within the turn, from 0."""
        writer(Agent(state=activity, turn=state["turn"], step=step, party=self._session.party))


def _updated(state: AgentState, update: Update) -> AgentState:
    """Return a state with the values that a node has changed."""
    return cast(AgentState, {**state, **update})


def _failed_check_note(answer: ModelAnswer) -> str:
    """Tell the user that a check of the result gave no judgement."""
    problem = "could not be read"
    if answer.failure:
        problem = f"failed ({answer.failure.rstrip('.')})"
    return f"The check of the result {problem}, so the result counts as complete."


def _uncomputed(figures: Sequence[AnswerFigure]) -> list[AnswerFigure]:
    """Return the figures of an answer that come from nowhere."""
    return [figure for figure in figures if not figure.has_source]


def _warn(writer: StreamWriter, text: str) -> None:
    writer(Notice(text, level="warning"))
