"""The messages of a conversation, and those that a model gets for them: without what is hidden, with
short outputs, and with each tool call beside its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from mahtab_tui.agent.host import StoredMessage, ToolCall
from mahtab_tui.agent.message_fitting import with_short_outputs
from mahtab_tui.agent.tool_calls import call_message
from mahtab_tui.agent.visible_messages import visible_text
from mahtab_tui.bus.entry_names import question_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.llm import prompts


class _CallId(NamedTuple):
    """Which tool call it is. Services count calls anew in each answer."""

    turn: int | None
    step: int | None
    """The number of the answer within the turn."""
    call: str
    """The id by which the service names it."""


class PromptMessages:
    """All messages. Nothing is removed, so that hidden messages can be restored."""

    def __init__(self, history: Iterable[StoredMessage] = ()) -> None:
        self._messages = [
            message if message.role == "user" else message._replace(role="assistant")
            for message in history
            if message.text
        ]

    def ask(self, question: StoredMessage) -> None:
        """Add a question."""
        self._messages.append(question)

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Replace the descriptions of variables of the newest question."""
        self._messages[-1] = self._messages[-1]._replace(variables=variables)

    def extend_question(self, *, before: str = "", after: str = "") -> None:
        """Add to what precedes and what follows the newest question."""
        question = self._messages[-1]
        context = question.context
        if before:
            context = f"{before}\n\n{context}".strip()
        instruction = question.instruction + after
        self._messages[-1] = question._replace(context=context, instruction=instruction)

    def add(self, turn: int, messages: Sequence[AnyMessage]) -> None:
        """Add answers, each followed by the results of its code and tool calls.

        Args:
            turn: The number of the question.
            messages: The answers and results. The id of an answer ends with its step.
        """
        step: int | None = None
        for message in messages:
            text = str(message.text)
            if isinstance(message, AIMessage):
                step = int((message.id or "0.0").rpartition(".")[2])
                calls = _stored_calls(message)
                stored = StoredMessage("assistant", text, turn, step, calls=calls)
            else:
                call_id = message.tool_call_id if isinstance(message, ToolMessage) else ""
                stored = StoredMessage("results", text, turn, step, call=call_id)
            self._messages.append(stored)

    def variable_texts(self) -> list[str]:
        """Return all descriptions of variables."""
        return [text for message in self._messages for text in message.variables.values()]

    def questions(self, hidden: HiddenEntries) -> list[int]:
        """Return the indexes of the questions that were not replaced."""
        return [
            index
            for index, message in enumerate(self._messages)
            if message.role == "user" and not hidden.is_replaced(question_entry(message.turn))
        ]

    def question_texts(self, hidden: HiddenEntries) -> list[str]:
        """Return the user's words of the questions that were not replaced."""
        return [self._messages[index].text for index in self.questions(hidden)]

    def first_question_after(self, turn: int | None) -> int:
        """Return the index of the question that follows a turn; the first for None."""
        if turn is None:
            return 0
        for index, message in enumerate(self._messages):
            if message.role == "user" and message.turn is not None and message.turn > turn:
                return index
        return len(self._messages)

    def as_messages(
        self, hidden: HiddenEntries, start: int = 0, end: int | None = None, *, short_end: int = 0
    ) -> list[AnyMessage]:
        """Return the messages for the model.

        Args:
            hidden: The entries that the model does not get.
            start: The index of the first message.
            end: The index after the last one; None for all.
            short_end: Outputs in messages before this index are shortened.
        """
        # Services reject a call without a result, and a result without its call.
        ids_with_result = {_call_id(message, message.call) for message in self._messages}
        sent_ids: set[_CallId] = set()
        messages: list[AnyMessage] = []
        for index, stored_message in enumerate(self._messages[start:end], start):
            text = visible_text(stored_message, hidden)
            if index < short_end:
                text = with_short_outputs(text)

            calls = _sendable_calls(stored_message, hidden, ids_with_result)
            if calls:
                messages.append(call_message(text, calls))
                sent_ids.update(_call_id(stored_message, call["id"]) for call in calls)
            elif _call_id(stored_message, stored_message.call) in sent_ids:
                result = text or prompts.REMOVED_BY_USER
                messages.append(ToolMessage(result, tool_call_id=stored_message.call))
            elif text:
                message_class = AIMessage if stored_message.role == "assistant" else HumanMessage
                _append_message(messages, message_class(text))
        return messages


def _stored_calls(answer: AIMessage) -> list[ToolCall]:
    return [
        ToolCall(id=str(call["id"]), name=call["name"], arguments=call["args"], problem="")
        for call in answer.tool_calls
    ]


def _call_id(message: StoredMessage, call: str) -> _CallId:
    return _CallId(message.turn, message.step, call)


def _sendable_calls(
    message: StoredMessage, hidden: HiddenEntries, ids_with_result: Set[_CallId]
) -> list[ToolCall]:
    """Return the tool calls of a message that a model gets: those that have a result, unless the
    answer was replaced."""
    if hidden.is_answer_replaced(message.turn, message.step):
        return []
    return [call for call in message.calls if _call_id(message, call["id"]) in ids_with_result]


def _append_message(messages: list[AnyMessage], message: AIMessage | HumanMessage) -> None:
    """Add a message, joined with the last one if both are of the same kind and neither calls
    tools."""
    last = messages[-1] if messages else None
    if type(last) is type(message) and not getattr(last, "tool_calls", None):
        messages[-1] = type(message)(f"{last.text}\n\n{message.text}")
    else:
        messages.append(message)
