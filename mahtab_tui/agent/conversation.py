"""The agent's conversation, and how much of it is sent to a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from mahtab_tui.agent.host import AgentHost, ConversationSummary, StoredMessage, ToolCall
from mahtab_tui.agent.message_pictures import pictures_to_send
from mahtab_tui.agent.model_calls import call_model
from mahtab_tui.agent.tool_calls import call_message, calls_as_text
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.entry_names import (
    answer_entry,
    cell_entry,
    question_entry,
    tool_entry,
    unrun_cell_entry,
)
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.prompt import PRIVATE_CELL, shorten
from mahtab_tui.bus.records import Agent, Notice, Summary, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.usage import estimate_message_tokens, estimated_tokens, input_limit

MAX_SHORT_OUTPUT_CHARS = 600
"""Characters of an output that is shortened."""
_FIT_OUTPUT_CHARS = (
    8 * MAX_SHORT_OUTPUT_CHARS,
    MAX_SHORT_OUTPUT_CHARS,
    MAX_SHORT_OUTPUT_CHARS // 4,
)
"""Characters of each output, tried one after the other until a conversation fits."""
_MAX_ATTACHED_CELLS = 100
"""Cells of a range that are looked up for private variables."""
_SECTIONS = (
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "attachments",
)

# All external text is escaped, so it can contain none of the tags below.
_ATTRIBUTES = r"(?: [\w-]+=\"[^\"]*\")*"
OUTPUT = re.compile(
    rf"(<((?:user|assistant)-repl-out|assistant-tool){_ATTRIBUTES}>)(.*?)(</\2>)", re.DOTALL
)
"""Start tag, name, content and end tag of an output."""
_SECTION_TAG = re.compile(rf"^<(/?)({'|'.join(_SECTIONS)})>$", re.MULTILINE)
_ELEMENT = re.compile(
    rf"<((?:user|assistant)-repl-(?:in|out)|assistant-tool|notebook-cell)({_ATTRIBUTES})>.*?</\1>\n?",
    re.DOTALL,
)
"""What a cell or a tool call was, or what came of it: its name and attributes."""
_ENTRY_ID = re.compile(r" (cell|call|position)=\"([\d.]+)\"")
_EMPTY_ACTIVITY = re.compile(r"<recent-activity>\s*</recent-activity>")
_ATTACHMENTS = re.compile(r"<attachments>\n.*?\n</attachments>", re.DOTALL)
_ATTACHMENT = re.compile(rf"<user-attachment({_ATTRIBUTES})>.*?</user-attachment>", re.DOTALL)
_VARIABLE_LABEL = re.compile(r" label=\"\$(\w+)\"")
_CELLS_LABEL = re.compile(r" label=\"@cell:([0-9]+)(?:-([0-9]+))?")
_BACKTICKS = re.compile("`{3,}")


def estimate_size(messages: Sequence[AnyMessage]) -> int:
    """Return about how many tokens messages have."""
    return estimate_message_tokens(str(message.text) for message in messages)


def with_short_outputs(text: str, max_chars: int = MAX_SHORT_OUTPUT_CHARS) -> str:
    """Shorten each output in a message to `max_chars`."""

    def short_element(match: re.Match[str]) -> str:
        start_tag, _, content, end_tag = match.groups()
        return f"{start_tag}{shorten(content, max_chars)}{end_tag}"

    return OUTPUT.sub(short_element, text)


def fit(messages: Sequence[AnyMessage], max_tokens: int) -> list[AnyMessage]:
    """Reduce messages to about `max_tokens`: shorten outputs, drop the beginning, shorten what
    remains."""
    if estimate_size(messages) <= max_tokens:
        return list(messages)

    # As text, because a tool call must not be separated from its result.
    fitted = calls_as_text(messages)
    for max_output_chars in _FIT_OUTPUT_CHARS:
        if estimate_size(fitted) <= max_tokens:
            return fitted
        for index, message in enumerate(fitted):
            if message.type == "human":
                text = with_short_outputs(str(message.text), max_output_chars)
                fitted[index] = type(message)(text)
    if estimate_size(fitted) <= max_tokens:
        return fitted

    # Whole questions with their answers are dropped, so that the first message is the user's.
    note_tokens = estimate_message_tokens([prompts.BEGINNING_OMITTED])
    while len(fitted) > 1 and estimate_size(fitted) + note_tokens > max_tokens:
        del fitted[0]
        while len(fitted) > 1 and fitted[0].type != "human":
            del fitted[0]

    text = str(fitted[0].text)
    if len(fitted) < len(messages):
        text = f"{prompts.BEGINNING_OMITTED}\n\n{text}"
    if estimate_size(fitted) > max_tokens:
        text = shorten(text, max(MAX_SHORT_OUTPUT_CHARS, 2 * max_tokens))
    fitted[0] = HumanMessage(text)
    return fitted


def section_sizes(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], max_tokens: int
) -> dict[str, int]:
    """Return tokens by section, and those of ``outputs``, ``words`` and ``pictures``.

    Args:
        max_tokens: What pictures may use.
    """
    texts: dict[str, list[str]] = {name: [] for name in (*_SECTIONS, "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _move_sections(text, texts)
            texts["outputs"] += [match[3] for match in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(section_texts) for name, section_texts in texts.items()}
    sent_pictures = pictures_to_send(messages, pictures, max_tokens).values()
    return sizes | {"pictures": sum(picture.tokens for picture in sent_pictures)}


def _move_sections(text: str, texts: dict[str, list[str]]) -> str:
    """Return a message without its sections, which are added to `texts` by their names."""
    other_texts: list[str] = []
    start = 0
    open_name = ""
    for tag in _SECTION_TAG.finditer(text):
        is_end = bool(tag[1])
        if not open_name and not is_end:
            other_texts.append(text[start : tag.start()])
            start = tag.start()
            open_name = tag[2]
        elif is_end and tag[2] == open_name:
            texts[open_name].append(text[start : tag.end()])
            start = tag.end()
            open_name = ""
    return "".join((*other_texts, text[start:]))


class PromptMessages:
    """All messages. Nothing is removed, so that hidden messages can be restored."""

    def __init__(self, history: Iterable[StoredMessage] = ()) -> None:
        self._messages = [
            message if message.role == "user" else message._replace(role="assistant")
            for message in history
            if message.text
        ]

    def ask(self, question: StoredMessage) -> None:
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
        """Add answers, each followed by the results of its code and tool calls."""
        step: int | None = None
        for message in messages:
            text = str(message.text)
            if isinstance(message, AIMessage):
                step = int((message.id or "0.0").rpartition(".")[2])
                calls = [
                    ToolCall(
                        id=str(call["id"]), name=call["name"], arguments=call["args"], problem=""
                    )
                    for call in message.tool_calls
                ]
                stored = StoredMessage("assistant", text, turn, step, calls=calls)
            else:
                call_id = message.tool_call_id if isinstance(message, ToolMessage) else ""
                stored = StoredMessage("results", text, turn, step, call=call_id)
            self._messages.append(stored)

    def variable_texts(self) -> list[str]:
        return [text for message in self._messages for text in message.variables.values()]

    def questions(self, hidden: HiddenEntries) -> list[int]:
        """Return the indexes of the questions that were not replaced."""
        return [
            index
            for index, message in enumerate(self._messages)
            if message.role == "user" and not hidden.is_replaced(question_entry(message.turn))
        ]

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
            short_end: Outputs in messages before this index are shortened.
        """
        # Services reject a call without a result, and a result without its call.
        ids_with_result = {(message.turn, message.step, message.call) for message in self._messages}
        sent_calls: set[tuple[int | None, int | None, str]] = set()
        messages: list[AnyMessage] = []
        for index, stored_message in enumerate(self._messages[start:end], start):
            text = _visible_text(stored_message, hidden)
            if index < short_end:
                text = with_short_outputs(text)

            turn = stored_message.turn
            step = stored_message.step
            is_replaced = hidden.is_replaced(question_entry(turn)) or hidden.is_replaced(
                answer_entry(turn, step)
            )
            calls: list[ToolCall] = []
            if not is_replaced:
                calls = [
                    call
                    for call in stored_message.calls
                    if (turn, step, call["id"]) in ids_with_result
                ]

            if calls:
                messages.append(call_message(text, calls))
                sent_calls.update((turn, step, call["id"]) for call in calls)
            elif (turn, step, stored_message.call) in sent_calls:
                result = text or prompts.REMOVED_BY_USER
                messages.append(ToolMessage(result, tool_call_id=stored_message.call))
            elif text:
                message_class = AIMessage if stored_message.role == "assistant" else HumanMessage
                _append_message(messages, message_class(text))
        return messages


def _append_message(messages: list[AnyMessage], message: AIMessage | HumanMessage) -> None:
    """Add a message, joined with the last one if both are of the same kind and neither calls
    tools."""
    last = messages[-1] if messages else None
    if type(last) is type(message) and not getattr(last, "tool_calls", None):
        messages[-1] = type(message)(f"{last.text}\n\n{message.text}")
    else:
        messages.append(message)


def _visible_text(message: StoredMessage, hidden: HiddenEntries) -> str:
    if message.role == "user":
        return _visible_question(message, hidden)
    if not hidden:
        return message.text
    if hidden.is_replaced(answer_entry(message.turn, message.step)):
        return ""
    if message.role == "assistant":
        return _visible_answer(message, hidden)
    return _hide_cells(message.text, hidden)


def _visible_question(message: StoredMessage, hidden: HiddenEntries) -> str:
    """Return a question with its context. The context of a replaced question keeps its cells."""
    if not hidden:
        return prompts.user_turn(
            message.context, message.variables, message.text, message.instruction
        )
    context = _hide_private_attachments(message.context, hidden)
    context = _hide_cells(context, hidden)
    context = _EMPTY_ACTIVITY.sub("", context).strip()
    # Other variables may contain values that became private after they were described.
    variables = message.variables
    if hidden.private - message.private:
        variables = {}

    entry = question_entry(message.turn)
    if hidden.is_replaced(entry):
        cells = "".join(element[0] for element in _ELEMENT.finditer(context))
        return prompts.render_context(cells.strip())
    if entry in hidden:
        context = _ATTACHMENTS.sub("", context).strip()
        return prompts.user_turn(context, variables, prompts.REMOVED_BY_USER)
    return prompts.user_turn(context, variables, message.text, message.instruction)


def _visible_answer(message: StoredMessage, hidden: HiddenEntries) -> str:
    """Return an answer without its words or code blocks that the user has hidden."""
    parts = parse_response(message.text).parts
    block_count = sum(part.kind == "code" for part in parts)
    hides_block = [
        hidden.hides_code(message.turn, message.step, block) for block in range(block_count)
    ]
    hides_words = answer_entry(message.turn, message.step) in hidden
    if not (hides_words or any(hides_block)):
        return message.text

    visible_parts: list[str] = []
    if hides_words:
        visible_parts.append(prompts.REMOVED_BY_USER)
    block = 0
    for part in parts:
        if part.kind != "code":
            if not hides_words:
                visible_parts.append(part.text)
            continue
        visible_parts.append(prompts.REMOVED_BY_USER if hides_block[block] else _fence(part.text))
        block += 1
    return "\n\n".join(visible_parts)


def _fence(code: str) -> str:
    """Return code in a fence that no line of it can close."""
    longest_run = max(map(len, _BACKTICKS.findall(code)), default=2)
    backticks = "`" * (longest_run + 1)
    return f"{backticks}python\n{code}\n{backticks}"


def _hide_cells(text: str, hidden: HiddenEntries) -> str:
    """Return a message without the cells and tool calls that are hidden, and without the code and
    output of cells that use a private variable."""
    hidden_entries: list[str] = []

    def visible_element(element: re.Match[str]) -> str:
        name, element_attributes = element.groups()
        entry = _entry_of_element(element_attributes)
        if entry and entry in hidden:
            hidden_entries.append(entry)
            return ""
        # The model's own code of a private cell stands in its answer anyway.
        if not hidden.is_private(entry) or name == "assistant-repl-in":
            return element[0]
        return f"{PRIVATE_CELL}\n" if name.endswith("out") else ""

    visible_text = _ELEMENT.sub(visible_element, text)
    if visible_text.strip() or all(map(hidden.is_replaced, hidden_entries)):
        return visible_text
    return prompts.REMOVED_BY_USER


def _entry_of_element(element_attributes: str) -> str:
    """Return the entry that an element of a prompt is; empty if it has no number."""
    entry_id = _ENTRY_ID.search(element_attributes)
    if entry_id is None:
        return ""
    attribute, number = entry_id.groups()
    if attribute == "call":
        return tool_entry(number)
    return cell_entry(int(number)) if attribute == "cell" else unrun_cell_entry(int(number))


def _hide_private_attachments(context: str, hidden: HiddenEntries) -> str:
    """Replace the attachments that show a private variable, or a cell that uses one, by a note."""
    if not hidden.private:
        return context

    def visible_attachment(attachment: re.Match[str]) -> str:
        if _shows_private_data(attachment[1], hidden):
            return prompts.PRIVATE_ATTACHMENT
        return attachment[0]

    return _ATTACHMENT.sub(visible_attachment, context)


def _shows_private_data(attachment_attributes: str, hidden: HiddenEntries) -> bool:
    variable = _VARIABLE_LABEL.search(attachment_attributes)
    if variable is not None and variable[1] in hidden.private:
        return True
    cells = _CELLS_LABEL.search(attachment_attributes)
    if cells is None:
        return False
    first = int(cells[1])
    last = int(cells[2] or first)
    numbers = range(first, min(last, first + _MAX_ATTACHED_CELLS) + 1)
    return any(hidden.is_private(cell_entry(number)) for number in numbers)


class _Summary(NamedTuple):
    """A summary of the messages before `end`."""

    end: int
    text: str
    messages_hash: int


class MessageHistory(PromptMessages):
    """A conversation reduced to what a model can read. A summary is reused as long as possible, so
    that the start of the prompt stays the same."""

    def __init__(
        self,
        host: AgentHost,
        history: Iterable[StoredMessage],
        max_history: int,
        summary: ConversationSummary | None = None,
    ) -> None:
        """
        Args:
            max_history: The number of questions that are sent in full.
        """
        super().__init__(history)
        self._host = host
        self.max_history = max_history
        self._summary: _Summary | None = None
        self._short_end = 0
        """Outputs in messages before this index are shortened."""
        if summary is not None:
            end = self.first_question_after(summary.turn)
            self._summary = _Summary(end, summary.text, self._hash(end))

    @property
    def messages(self) -> list[AnyMessage]:
        summary = self._valid_summary()
        if summary is None:
            return self._sent_from(0)
        beginning = HumanMessage(prompts.earlier_conversation(summary.text))
        messages = self._sent_from(summary.end)
        if messages and messages[0].type == "human":
            beginning = HumanMessage(f"{beginning.text}\n\n{messages.pop(0).text}")
        return [beginning, *messages]

    def prepare(
        self, summariser: BaseChatModel, system: SystemMessage, turn: int, limit: int
    ) -> list[AnyMessage]:
        """Return the messages for a new question, reduced to `limit` tokens."""
        max_tokens = limit - estimate_size([system])
        questions = self.questions(self._host.hidden)
        if estimate_size(self.messages) > max_tokens:
            self._short_end = max(self._short_end, questions[-1])
        if self._fits(max_tokens):
            return self.messages

        # Half of what is possible stays in full, so that the next questions need no new summary.
        start = self.summary_end
        starts = [index for index in questions if index >= start][-max(1, self.max_history // 2) :]
        while len(starts) > 1 and estimate_size(self._sent_from(starts[0])) > max_tokens // 2:
            del starts[0]
        is_needed = bool(starts) and starts[0] > start
        if is_needed and (failure := self._summarise(summariser, starts[0], turn)):
            self._warn(f"Summarising failed ({failure}). The next question tries again.")
        return self.messages

    def _sent_from(self, start: int) -> list[AnyMessage]:
        return self.as_messages(self._host.hidden, start, short_end=self._short_end)

    def compact(self, summariser: BaseChatModel, keep: str, turn: int) -> str | None:
        """Summarise all questions but the last.

        Returns:
            An empty string; the reason if nothing was summarised; None if it was stopped.
        """
        questions = self.questions(self._host.hidden)
        if not questions or questions[-1] <= self.summary_end:
            return "nothing before the last question is left to summarise"
        return self._summarise(summariser, questions[-1], turn, keep)

    @property
    def summary_end(self) -> int:
        """The number of messages that the summary replaces."""
        summary = self._valid_summary()
        return 0 if summary is None else summary.end

    def _fits(self, max_tokens: int) -> bool:
        start = self.summary_end
        count = sum(index >= start for index in self.questions(self._host.hidden))
        return count <= self.max_history and estimate_size(self.messages) <= max_tokens

    def _valid_summary(self) -> _Summary | None:
        summary = self._summary
        if summary is None or summary.messages_hash != self._hash(summary.end):
            return None
        return summary

    def _hash(self, end: int) -> int:
        messages = self.as_messages(self._host.hidden, 0, end)
        return hash(tuple(str(message.text) for message in messages))

    def _summarise(self, llm: BaseChatModel, end: int, turn: int, keep: str = "") -> str | None:
        """Summarise the messages before `end`; the result is that of `compact`."""
        host = self._host
        emit(host.log, Agent(state="summarising", turn=turn, step=0, party=host.party))
        start = 0
        earlier_text = ""
        if summary := self._valid_summary():
            start = summary.end
            earlier_text = summary.text
        messages = self.as_messages(host.hidden, start, end, short_end=end)
        sent = fit(messages, input_limit(llm) // 2)
        texts = [(message.type, str(message.text)) for message in sent]
        request = prompts.summary_request(earlier_text, texts, keep)
        answer = call_model(host, llm, [HumanMessage(request)], turn, "summary", self._warn)
        if answer.stopped:
            return None
        text = answer.text.strip()
        if answer.failure or not text:
            return answer.failure.rstrip(".") or "the model gave an empty answer"

        tokens_before = estimate_size(self.messages)
        self._summary = _Summary(end, text, self._hash(end))
        tokens_after = estimate_size(self.messages)
        self._report_summary(text, end, tokens_before, tokens_after)
        return ""

    def _report_summary(self, text: str, end: int, tokens_before: int, tokens_after: int) -> None:
        questions = [message for message in self._messages[:end] if message.role == "user"]
        last_turn = questions[-1].turn if questions else None
        summarised_part = "the beginning of the conversation"
        if last_turn is not None:
            summarised_part = f"the conversation up to question {last_turn}"
        notice = (
            f"From now on the model gets only a summary of {summarised_part}"
            f" (about {tokens_before:,} → {tokens_after:,} tokens)."
        )
        emit(self._host.log, Notice(f"{notice} Nothing changes on your screen.\n{text}"))
        emit(self._host.log, Summary(text, turn=last_turn))

    def _warn(self, sentence: str) -> None:
        emit(self._host.log, Notice(sentence, level="warning"))
