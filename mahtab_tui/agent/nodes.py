"""The nodes of the graph. Tokens and records for the bus go into the graph's custom stream."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.types import StreamWriter

from mahtab_tui.agent.answer_figures import look_up_figures
from mahtab_tui.agent.host import AgentHost, ApprovalRequest, ExecutionResult, ToolCall
from mahtab_tui.agent.message_pictures import attached_picture_ids, pictures_to_send, with_pictures
from mahtab_tui.agent.message_sizes import estimate_size, fit
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
from mahtab_tui.agent.tool_calls import (
    MAX_CALLS,
    ToolOutcome,
    binding_arguments,
    call_message,
    calls_as_text,
    max_output_chars,
    parse_written_calls,
    render_results,
    run_call,
)
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.empty_answers import names_no_value
from mahtab_tui.bus.figures import near_misses
from mahtab_tui.bus.hidden_characters import refusal
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import (
    Agent,
    AnswerFigure,
    AssistantReading,
    AssistantThought,
    AssistantThoughtStream,
    AssistantTool,
    Decision,
    Notice,
)
from mahtab_tui.llm import prompts
from mahtab_tui.llm.answer_readers import AnswerListener
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.pictures import EncodedPicture, accepts_pictures
from mahtab_tui.llm.prompt_sections import escape_sections
from mahtab_tui.llm.usage import LoopChoice, choose_loop, input_limit, is_on_this_machine
from mahtab_tui.settings.model import LoopMode
from mahtab_tui.tools import Toolset

_MAX_UNFINISHED_CHARS = 20_000
"""Characters of an answer without an end that go back to the model."""
_RETRY_TEMPERATURE = 0.7
"""For a reply that repeated the one before."""
_PICTURE_ERRORS = ("image", "vision", "multimodal")
_TOOL_ERRORS = ("tool", "function call")
"""Words of the error of a service that rejects pictures and tools."""

Update = dict[str, Any]
"""The values of the state that a node changes."""


@dataclass(eq=False, repr=False)
class Nodes:
    """The functions that the graph calls, and the models that they ask."""

    llm: BaseChatModel
    _session: AgentHost
    max_turns: int
    reflection: ReflectionMode = "never"
    _: KW_ONLY
    reflection_llm: BaseChatModel | None = None
    toolset: Toolset | None = None
    output_answers: bool = False
    loop: LoopMode = "auto"
    known_limit: int | None = field(default=None, init=False)
    """The tokens that the model can read, if it has rejected more."""
    _rejects_tools: BaseChatModel | None = field(default=None, init=False)
    """The model whose service has rejected tools."""
    _rejects_pictures: BaseChatModel | None = field(default=None, init=False)
    """The model whose service has rejected pictures."""

    @property
    def leads_small_model(self) -> bool:
        """Whether the model is told to compute at once, and to compute again what no output
        shows. That only holds up a capable model."""
        return self.loop_choice.loop == "single"

    @property
    def loop_choice(self) -> LoopChoice:
        return choose_loop(self.llm, self.loop)

    def generate(self, state: AgentState, writer: StreamWriter) -> Update:
        """Ask the model; a repeated answer is requested again with a higher temperature. From the
        second step on, it also gets what the user has added meanwhile."""
        messages = state["messages"]
        if state["step"] >= 0:
            for words in self._session.take_added_words(state["turn"]):
                messages = _append_text(messages, prompts.ADDED_WORDS.format(words=words))
        # Tools are listed even when they may no longer be called, because they are at the start of
        # the prompt.
        options = self._binding(forbidden=state["tool_count"] >= MAX_CALLS)
        # At the usual temperature, a small model would write the same block once more.
        if state["repeated"] and "temperature" in type(self.llm).model_fields:
            options |= {"temperature": _RETRY_TEMPERATURE}
        return self._get_answer(state, messages, writer, options)

    def tools(self, state: AgentState, writer: StreamWriter) -> Update:
        """Run the answer's tool calls; each result becomes a message."""
        messages = list(state["messages"])
        call_count = state["tool_count"]
        turn = state["turn"]
        step = state["step"]
        for index, call in enumerate(state["tool_calls"]):
            record = AssistantTool(
                call=f"{turn}.{step}.{index}",
                turn=turn,
                step=step,
                party=self._session.party,
                state="running",
                name=call["name"],
                arguments=json.dumps(call["arguments"], ensure_ascii=False),
            )
            is_allowed = call_count < MAX_CALLS
            call_count += is_allowed
            record = self._run_tool(record, call, writer, is_allowed=is_allowed)
            element = to_xml(record, "call", "name", "arguments", "state")
            element = escape_sections(element)
            messages.append(ToolMessage(element, tool_call_id=call["id"], name=call["name"]))
            if record.state == "stopped":
                break
        stopped = self._session.cancelled.is_set()
        return {"messages": messages, "tool_count": call_count, "stopped": stopped}

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
        prompt = prompts.closing(state["original_prompt"], failed=failed)
        if reason := self._closing_reason(state):
            self._report(writer, state, "max-turns", state["step"])
            prompt = f"{reason} {prompt}"
        messages = _append_text(state["messages"], prompt)
        update = self._get_answer(state, messages, writer, self._binding(forbidden=True))
        if parse_response(update["current_response"]).code_blocks:
            *earlier_messages, answer = update["messages"]
            text = f"{answer.text}\n\n{prompts.CODE_NOT_RUN}"
            update["messages"] = [*earlier_messages, answer.model_copy(update={"content": text})]
        return update | {"code_blocks": []}

    def _is_out_of_steps(self, state: AgentState) -> bool:
        return state["step_count"] >= self.max_turns + state["granted_steps"]

    def _closing_reason(self, state: AgentState) -> str:
        """Return why no more code runs, for the model; empty if the work is complete."""
        if is_complete(state):
            return ""
        if self._is_out_of_steps(state):
            return prompts.OUT_OF_STEPS.format(steps=state["step_count"])
        return prompts.STALLED

    def read_reply(self, state: AgentState) -> Update:
        """Read the code of a reply. An answer that contradicts its outputs is sent back once."""
        update: Update = {"code_blocks": [], "next_block": 0, "next": "end"}
        if state["stopped"] or state["failure"]:
            return update
        blocks = list(
            parse_response(state["current_response"], has_ended=state["ended"]).code_blocks
        )
        if blocks:
            update["step_count"] = state["step_count"] + 1
            return update | {"code_blocks": blocks, "next": "approve"}
        if state["tool_calls"]:
            return update | {"next": "generate"}
        return update | self._send_back(state)

    def _send_back(self, state: AgentState) -> Update:
        """Send an answer back once, if it contradicts the output or comes from nowhere."""
        if state["was_challenged"]:
            return {}

        messages = state["messages"]
        if _last_run(state["execution_results"]) is not None:
            challenge = self._challenge(state)
            if not challenge:
                return {}
            messages = [*messages, HumanMessage(challenge)]
        elif self.leads_small_model and state["about_data"] and _uncomputed(state["figures"]):
            # Without the answer, because a model that sees its figures repeats them.
            messages = _append_text(_without_answer(messages), prompts.COMPUTE_FIRST)
        else:
            return {}
        return {"was_challenged": True, "messages": messages, "next": "generate"}

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
        return prompts.NAME_VALUE if names_no_value(answer, outputs, question) else ""

    def approve(self, state: AgentState, writer: StreamWriter) -> Update:
        """Decide whether the next block may run."""
        request = make_request(state)
        if self._repeats_last_run(state, request.code):
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
        block_count = len(state["code_blocks"])
        stopped = decision.action == "stop" or self._session.cancelled.is_set()
        if not stopped:
            results.append(self._run(state, decision))
            stopped = self._session.cancelled.is_set()
        block = state["next_block"] + 1
        obstacle = "" if stopped else _obstacle(results[-1], decision)
        if obstacle:
            # The later blocks rely on this one.
            for later_block in range(block, block_count):
                note = prompts.not_run_note(later_block, obstacle)
                results.append(_skip_result(state, later_block, note))
            block = block_count

        update: Update = {
            "execution_results": results,
            "next_block": block,
            "reflection": None,
            "decision": None,
            "stopped": stopped,
        }
        if stopped or block == block_count:
            results_of_step = step_results({**state, "execution_results": results})
            text = render_results(results_of_step, max_output_chars(self.token_limit))
            if stopped:
                text = f"{text}\n{prompts.STOPPED_RUN}".strip()
            update["messages"] = [*state["messages"], HumanMessage(text)]
        return update

    def instruct(self, state: AgentState) -> Update:
        """Say how to go on, in one sentence. At the limit of steps, ask the user first."""
        update: Update = {"repeated": False}
        if self._is_out_of_steps(state) and not is_stalled(state["execution_results"]):
            if self._session.confirm_more_steps(state["turn"], state["step_count"]):
                update["granted_steps"] = state["granted_steps"] + self.max_turns
            update["stopped"] = self._session.cancelled.is_set()
        updated_state = cast(AgentState, {**state, **update})
        if should_continue(updated_state, self.max_turns) != "generate":
            return update

        results = step_results(state)
        if all(result["status"] == "repeated" for result in results):
            # Without the repeated answer, because a small model that sees it repeats it once more.
            messages = state["messages"][: -len(_last_exchange(state["messages"]))]
            last_run = _last_run(state["execution_results"])
            sentence = prompts.after_repetition(
                state["original_prompt"], failed=last_run is not None and last_run["is_error"]
            )
            return update | {"repeated": True, "messages": _append_text(messages, sentence)}

        failed = any(result["is_error"] for result in results)
        if state["reflection"] is not None or (is_declined(results) and not failed):
            return update  # the note about it says how to go on
        printed = any(result["output"].strip() for result in results)
        sentence = prompts.after_step(failed=failed, printed=printed)
        return update | {"messages": _append_text(state["messages"], sentence)}

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
                failure = answer.failure.rstrip(".")
                problem = f"failed ({failure})" if failure else "could not be read"
                text = f"The check of the result {problem}, so the result counts as complete."
                _warn(writer, text)
        update: Update = {"reflection": dict(result), "stopped": answer.is_stopped}
        if not result["is_complete"]:
            hint = prompts.INCOMPLETE.format(
                reasoning=result["reasoning"], next_action=result["next_action"]
            ).strip()
            update["messages"] = _append_text(state["messages"], hint)
        return update

    @property
    def offered_tools(self) -> set[str]:
        if self.toolset is None or not self._binding():
            return set()
        return {tool.name for tool in self.toolset.offered}

    def _binding(self, *, forbidden: bool = False) -> dict[str, Any]:
        """Models on this machine get no tools, because small ones call them instead of writing
        code, and the same functions are in the namespace."""
        if self.toolset is None or self._rejects_tools is self.llm or is_on_this_machine(self.llm):
            return {}
        return binding_arguments(self.llm, self.toolset.offered, forbidden=forbidden)

    def _get_answer(
        self,
        state: AgentState,
        messages: list[AnyMessage],
        writer: StreamWriter,
        options: dict[str, Any],
    ) -> Update:
        step = state["step"] + 1
        self._report(writer, state, "thinking", step)
        answer = self._ask(state, messages, writer, options)
        if answer.thought.strip():
            party = self._session.party
            writer(AssistantThought(answer.thought, turn=state["turn"], step=step, party=party))
        if answer.is_cut:
            _warn(writer, answer.cut_note)
        if answer.is_complete and not answer.text.strip() and not answer.calls:
            _warn(writer, "The model gave an empty answer.")

        # Some models write their calls into the answer instead of making them.
        text = answer.text
        calls = list(answer.calls)
        message = answer.message
        if self.toolset is not None and not calls and answer.is_complete:
            text, calls = parse_written_calls(text, self.toolset.tools)
            if calls:
                message = call_message(text, calls)
        message = message or AIMessage(_stored_text(answer))
        # `PromptMessages.add` reads the step from the id.
        message = message.model_copy(update={"id": f"{state['turn']}.{step}"})
        return {
            "messages": [*messages, message],
            "tool_calls": calls,
            "step": step,
            "current_response": text,
            "figures": () if calls or answer.failure else look_up_figures(state, text, messages),
            "ended": answer.is_complete,
            "stopped": answer.is_stopped,
            "failure": answer.failure,
        }

    def _ask(
        self,
        state: AgentState,
        messages: list[AnyMessage],
        writer: StreamWriter,
        options: dict[str, Any],
    ) -> ModelAnswer:
        """Ask the model; if its service rejects pictures, the length or tools, ask once more without
        them."""
        if not options:
            messages = calls_as_text(messages)
        system = [SystemMessage(state["system_prompt"])] if state["system_prompt"] else []
        pictures = self._pictures
        request = self._fit_messages(messages, system, pictures, writer)
        sent_pictures = self._choose_pictures(request, pictures)
        attached_ids = set(attached_picture_ids(messages[-1:]))
        if not attached_ids <= set(sent_pictures):
            _warn_of_missing_pictures(writer, can_see=bool(pictures))
        call = partial(self._call, state, system, writer)
        answer = call(request, sent_pictures, options)

        is_rejected = not answer.text and _names_any(answer.failure, _PICTURE_ERRORS)
        if sent_pictures and is_rejected:
            if accepts_pictures(self.llm) is None:
                self._rejects_pictures = self.llm
            text = "The service rejected the pictures, so the model is asked without them."
            _warn(writer, f"{text} {answer.failure}")
            pictures = {}
            sent_pictures = {}
            answer = call(request, sent_pictures, options)

        is_rejected = not answer.text and _names_any(answer.failure, _TOOL_ERRORS)
        if answer.is_too_long and not answer.text:
            sent_tokens = estimate_size(system) + estimate_size(request)
            sent_tokens += _picture_tokens(sent_pictures)
            self.known_limit = sent_tokens // 2
            request = self._fit_messages(messages, system, pictures, writer)
            answer = call(request, self._choose_pictures(request, pictures), options)
        elif options and is_rejected:
            self._rejects_tools = self.llm
            text = "The model does not support tools, so it is asked without them."
            writer(Notice(text, level="info"))
            answer = call(calls_as_text(request), sent_pictures, {})
        return answer

    def _call(
        self,
        state: AgentState,
        system: list[SystemMessage],
        writer: StreamWriter,
        request: list[AnyMessage],
        sent_pictures: Mapping[str, EncodedPicture],
        options: dict[str, Any],
    ) -> ModelAnswer:
        """Call the model once, and pass on what it writes and thinks."""
        thought = AssistantThoughtStream(
            turn=state["turn"], step=state["step"] + 1, party=self._session.party
        )
        reading = AssistantReading(turn=thought.turn, step=thought.step, party=thought.party)
        return call_model(
            self._session,
            self.llm,
            [*system, *with_pictures(request, sent_pictures)],
            state["turn"],
            "agent",
            on_pause=partial(_warn, writer),
            listener=AnswerListener(
                writer,
                on_thought=lambda text: writer(thought.changed(text=make_encodable(text))),
                on_reading=lambda share: writer(reading.changed(share=share)),
            ),
            options=options,
        )

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is known to accept pictures."""
        return accepts_pictures(self.llm) is True and self._rejects_pictures is not self.llm

    @property
    def _pictures(self) -> Mapping[str, EncodedPicture]:
        if accepts_pictures(self.llm) is False or self._rejects_pictures is self.llm:
            return {}
        return self._session.pictures

    def _fit_messages(
        self,
        messages: list[AnyMessage],
        system: list[SystemMessage],
        pictures: Mapping[str, EncodedPicture],
        writer: StreamWriter,
    ) -> list[AnyMessage]:
        picture_tokens = _picture_tokens(self._choose_pictures(messages, pictures))
        fitted = fit(messages, self.token_limit - estimate_size(system) - picture_tokens)
        if fitted != messages:
            text = (
                "The conversation is too long for the model, so this time outputs are shortened, or"
                " its beginning is left out."
            )
            _warn(writer, text)
        return fitted

    def _choose_pictures(
        self, messages: list[AnyMessage], pictures: Mapping[str, EncodedPicture]
    ) -> Mapping[str, EncodedPicture]:
        """Pictures may use half of the context window."""
        return pictures_to_send(messages, pictures, self.token_limit // 2)

    @property
    def token_limit(self) -> int:
        """The tokens that the model can read."""
        limit = input_limit(self.llm)
        return min(limit, self.known_limit or limit)

    def _run(self, state: AgentState, decision: Decision) -> ExecutionResult:
        """Carry out the decision about the next block."""
        request = make_request(state)
        block = request.block
        if self._repeats_last_run(state, request.code):
            return _skip_result(state, block, prompts.AFTER_REPETITION, status="repeated")
        if decision.action == "refuse":
            return _skip_result(state, block, prompts.refused_note(block, decision.reason))
        if decision.action == "skip":
            return _skip_result(state, block, prompts.skipped_note(block, decision.reason))
        code = request.code if decision.code is None else make_encodable(decision.code)
        return self._session.execute(request, code)

    def _repeats_last_run(self, state: AgentState, code: str) -> bool:
        """Tell whether code is what ran last, for this question and in the session, so that its
        result would be the same. That is unknown after tools, which may have changed files."""
        last_run = _last_run(state["execution_results"])
        if last_run is None or last_run["cell"] != self._session.last_cell:
            return False
        calls_tools = any(message.type == "tool" for message in _last_exchange(state["messages"]))
        return not calls_tools and normalize_code(code) == normalize_code(last_run["code"])

    def _report(
        self,
        writer: StreamWriter,
        state: AgentState,
        doing: Literal["thinking", "reflecting", "max-turns"],
        step: int,
    ) -> None:
        writer(Agent(state=doing, turn=state["turn"], step=step, party=self._session.party))


def make_request(state: AgentState) -> ApprovalRequest:
    """Return the request to run the next block of the newest answer."""
    turn = state["turn"]
    step = state["step"]
    block = state["next_block"]
    codes = state["code_blocks"]
    return ApprovalRequest(f"{turn}.{step}.{block}", turn, step, block, len(codes), codes[block])


def _obstacle(result: ExecutionResult, decision: Decision) -> str:
    """Return what happened to a block so that those after it do not run; empty if they do."""
    if result.get("undone", False):
        return "was undone"
    if decision.action == "refuse":
        return "was refused"
    return "failed" if result["is_error"] else ""


def _skip_result(
    state: AgentState, block: int, note: str, status: str = "skipped"
) -> ExecutionResult:
    return ExecutionResult(
        step=state["step"],
        block=block,
        cell=None,
        code=state["code_blocks"][block],
        output="",
        is_error=False,
        status=status,
        note=note,
    )


def _last_run(results: Sequence[ExecutionResult]) -> ExecutionResult | None:
    """Return the result of the block that ran last for a question."""
    return next((result for result in reversed(results) if result["cell"] is not None), None)


def _last_exchange(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the last answer of the model and what follows it."""
    answers = [index for index, message in enumerate(messages) if message.type == "ai"]
    return messages[answers[-1] :] if answers else []


def normalize_code(code: str) -> str:
    """Return code without comments, blank lines and spacing."""
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or wrong
        return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


def _uncomputed(figures: Sequence[AnswerFigure]) -> list[AnswerFigure]:
    return [figure for figure in figures if not figure.found]


def _without_answer(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return messages without the answer at their end."""
    return messages[:-1] if messages[-1].type == "ai" else messages


def _append_text(messages: list[AnyMessage], addition: str) -> list[AnyMessage]:
    """Add a text to the last message, or as a message after an answer."""
    if not isinstance(messages[-1], HumanMessage):
        return [*messages, HumanMessage(addition)]
    return [*messages[:-1], HumanMessage(f"{messages[-1].text}\n\n{addition}")]


def _stored_text(answer: ModelAnswer) -> str:
    """Return an answer for the conversation; never empty, which some providers reject."""
    text = answer.text if answer.is_complete else shorten(answer.text, _MAX_UNFINISHED_CHARS)
    mark = ""
    if answer.is_stopped:
        mark = prompts.STOPPED_ANSWER
    elif answer.failure:
        mark = prompts.FAILED_ANSWER
    marked_text = "\n\n".join(filter(str.strip, (text, mark)))
    return marked_text or prompts.EMPTY_ANSWER


def _names_any(failure: str, words: Sequence[str]) -> bool:
    """Tell whether the error of a service names a feature, by its words."""
    return any(word in failure.lower() for word in words)


def _picture_tokens(pictures: Mapping[str, EncodedPicture]) -> int:
    return sum(picture.tokens for picture in pictures.values())


def _warn_of_missing_pictures(writer: StreamWriter, *, can_see: bool) -> None:
    if can_see:
        _warn(writer, "Not all pictures fit; the model only knows that the others exist.")
    else:
        _warn(writer, "The model cannot see pictures; it only knows that they exist.")


def _warn(writer: StreamWriter, text: str) -> None:
    writer(Notice(text, level="warning"))
