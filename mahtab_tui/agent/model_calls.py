"""Calls a model for the agent, within the session's budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from mahtab_tui.agent.host import ModelHost, ToolCall
from mahtab_tui.agent.tool_calls import join_chunks
from mahtab_tui.bus.answers import strip_copied_tags
from mahtab_tui.bus.records import Usage, Window, emit
from mahtab_tui.llm.answer_metadata import cut_note, is_cut
from mahtab_tui.llm.answer_readers import AnswerListener
from mahtab_tui.llm.base import ContextTooLong, make_encodable
from mahtab_tui.llm.calls import ModelCall, sent_texts
from mahtab_tui.llm.context_window import context_window
from mahtab_tui.llm.pictures import count_pictures
from mahtab_tui.llm.token_estimates import estimate_message_tokens, estimated_tokens


class ModelAnswer(NamedTuple):
    """The outcome of a model call."""

    text: str
    """The words that were received, without tags of ours that the model has copied."""
    is_stopped: bool
    """Whether the user stopped the answer."""
    is_cut: bool
    """Whether the answer reached the token limit, or the service did not say that it is complete."""
    failure: str
    """Why the model could not answer, as a sentence; empty if it could."""
    usage: Usage | None
    """None if the call was not made, or its usage is unknown."""
    is_too_long: bool = False
    """Whether the messages exceed the context window."""
    message: AIMessage | None = None
    """The message to send back to the provider if the model calls tools."""
    calls: Sequence[ToolCall] = ()
    """The tools that the model calls."""
    thought: str = ""
    """The model's thinking."""
    cut_note: str = ""
    """A sentence for the user if the answer is cut off, or may be."""

    @property
    def is_complete(self) -> bool:
        return not (self.is_stopped or self.is_cut or self.failure)


def call_model(
    host: ModelHost,
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    turn: int | None,
    source: Literal["agent", "reflection", "summary"],
    on_pause: Callable[[str], object],
    listener: AnswerListener | None = None,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """Call a model within the session's budget, and log what it has used.

    A call that could cost too much is not made and counts as failed.

    Args:
        host: The session.
        llm: The model.
        messages: The conversation, whose secrets are masked before anything is sent.
        turn: Number of the question.
        source: What the call is for.
        on_pause: Gets a sentence before a busy service is asked again.
        listener: Called while the answer comes.
        options: Options of the model, such as the tools that it may call.
    """
    call = ModelCall(
        llm,
        messages,
        secrets=host.secrets,
        stopped=host.cancelled,
        listener=listener,
        options=options,
        on_pause=on_pause,
    )
    usage = call.run(host.spending, source, turn)
    if usage is not None:
        emit(host.log, usage)
    answer = make_answer(call)
    if source == "agent" and (answer.text or answer.calls):
        report_window(host, llm, call.messages, usage, options)
    return answer


def make_answer(call: ModelCall) -> ModelAnswer:
    """Return the answer that a call has read."""
    reader = call.reader
    text = reader.text
    message: AIMessage | None = None
    calls: Sequence[ToolCall] = ()
    if call.has_ended:
        text = reader.whole_text
        joined = join_chunks(reader.chunks) if call.options else None
        if joined is not None:
            message = joined.message
            calls = joined.calls

    failure = None if call.is_stopped else call.failure
    return ModelAnswer(
        text=make_encodable(strip_copied_tags(text)),
        is_stopped=call.is_stopped,
        is_cut=is_cut(reader.metadata),
        failure="" if failure is None else make_encodable(str(failure)),
        usage=call.usage,
        is_too_long=isinstance(call.failure, ContextTooLong),
        message=message,
        calls=calls,
        thought=make_encodable("".join(reader.thoughts)),
        cut_note=cut_note(reader.metadata),
    )


def report_window(
    host: ModelHost,
    llm: BaseChatModel,
    messages: Sequence[BaseMessage],
    usage: Usage | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Log how much of a model's window the messages use, as counted by the model or estimated."""
    size = context_window(llm)
    if not size:
        return
    if usage is not None and usage.input_tokens and not usage.estimated:
        emit(host.log, Window(tokens=usage.input_tokens, size=size))
        return
    tokens = estimated_tokens(sent_texts(messages, options or {}))
    tokens += estimate_message_tokens([], count_pictures(messages))
    emit(host.log, Window(tokens=tokens, size=size, estimated=True))
