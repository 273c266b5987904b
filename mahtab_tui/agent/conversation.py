"""The agent's conversation, and how much of it is sent to a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from mahtab_tui.agent.host import AgentHost, ConversationSummary, StoredMessage, ToolCall
from mahtab_tui.agent.model_calls import call_model, pictures_to_send
from mahtab_tui.agent.tool_calls import call_message, calls_as_text
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.prompt import PRIVATE_CELL, HiddenEntries, shorten
from mahtab_tui.bus.records import (
    Agent,
    Notice,
    Summary,
    answer_entry,
    cell_entry,
    emit,
    number_entry,
    question_entry,
    tool_entry,
)
from mahtab_tui.llm import prompts
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.usage import estimate_message_tokens, estimated_tokens, input_limit

SHORT = 600
OUTPUT = re.compile(
    r"(<((?:user|assistant)-repl-out|assistant-tool)(?: [\w-]+=\"[^\"]*\")*>)(.*?)(</\2>)",
    re.DOTALL,
)
"""Output is escaped, so it cannot contain the end tag."""
_SECTIONS = (
    "instructions",
    "skills",
    "loaded-skills",
    "mcp-servers",
    "earlier-conversation",
    "attachments",
)
_TAG = re.compile(rf"^<(/?)({'|'.join(_SECTIONS)})>$", re.MULTILINE)
"""External text is escaped, so it cannot contain these tags."""


def estimate_size(messages: Sequence[AnyMessage]) -> int:
    return estimate_message_tokens(str(message.text) for message in messages)


def with_short_outputs(text: str, limit: int = SHORT) -> str:
    return OUTPUT.sub(lambda found: f"{found[1]}{shorten(found[3], limit)}{found[4]}", text)


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Reduce messages to about `room` tokens: shorten outputs, drop the beginning, shorten the
    rest."""
    if estimate_size(messages) <= room:
        return list(messages)
    fitted = calls_as_text(messages)  # a tool call must not be separated from its result
    for limit in (8 * SHORT, SHORT, SHORT // 4):
        if estimate_size(fitted) <= room:
            return fitted
        fitted = [
            type(message)(with_short_outputs(str(message.text), limit))
            if message.type == "human"
            else message
            for message in fitted
        ]
    if estimate_size(fitted) <= room:
        return fitted
    omitted = estimate_message_tokens([prompts.BEGINNING_OMITTED])
    while len(fitted) > 1 and estimate_size(fitted) + omitted > room:
        del fitted[0]
        while len(fitted) > 1 and fitted[0].type != "human":
            del fitted[0]
    text = str(fitted[0].text)
    if len(fitted) < len(messages):
        text = f"{prompts.BEGINNING_OMITTED}\n\n{text}"
    if estimate_size(fitted) > room:
        text = shorten(text, max(SHORT, 2 * room))
    fitted[0] = HumanMessage(text)
    return fitted


def section_sizes(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], room: int
) -> dict[str, int]:
    """Return tokens by section, and those of ``outputs``, ``words`` and ``pictures``."""
    texts: dict[str, list[str]] = {name: [] for name in (*_SECTIONS, "outputs", "words")}
    for message in messages:
        text = str(message.text)
        if message.type == "human":
            text = _without_sections(text, texts)
            texts["outputs"] += [found[3] for found in OUTPUT.finditer(text)]
            text = OUTPUT.sub("", text)
        texts["words"].append(text)
    sizes = {name: estimated_tokens(each) for name, each in texts.items()}
    sent = pictures_to_send(messages, pictures, room).values()
    return sizes | {"pictures": sum(picture.tokens for picture in sent)}


def _without_sections(text: str, sections: dict[str, list[str]]) -> str:
    rest, start, name = list[str](), 0, ""
    for tag in _TAG.finditer(text):
        if not name and not tag[1]:
            rest.append(text[start : tag.start()])
            start, name = tag.start(), tag[2]
        elif tag[1] and tag[2] == name:
            sections[name].append(text[start : tag.end()])
            start, name = tag.end(), ""
    return "".join((*rest, text[start:]))


_ELEMENT = re.compile(
    r"<((?:user|assistant)-repl-(?:in|out)|assistant-tool|notebook-cell)((?: [\w-]+=\"[^\"]*\")*)>.*?</\1>\n?",
    re.DOTALL,
)
"""Output is escaped, so it cannot imitate one."""
_ENTRY_ID = re.compile(r" (cell|call|position)=\"([\d.]+)\"")
_NUMBERED = {"cell": cell_entry, "position": number_entry}
_EMPTY = re.compile(r"<recent-activity>\s*</recent-activity>")
_ATTACHMENT = re.compile(
    r"<user-attachment((?: [\w-]+=\"[^\"]*\")*)>.*?</user-attachment>", re.DOTALL
)
_VARIABLE_LABEL = re.compile(r" label=\"\$(\w+)\"")
_CELLS_LABEL = re.compile(r" label=\"@cell:([0-9]+)(?:-([0-9]+))?")
_ATTACHMENTS = re.compile(r"<attachments>\n.*?\n</attachments>", re.DOTALL)
_TICKS = re.compile("`{3,}")


class Conversation:
    """All messages. Nothing is removed, so that hidden messages can be restored."""

    def __init__(self, history: Iterable[StoredMessage] = ()) -> None:
        self._messages = [
            each if each.role == "user" else each._replace(role="assistant")
            for each in history
            if each.text
        ]

    def ask(self, question: StoredMessage) -> None:
        self._messages.append(question)

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Replace the descriptions of variables of the newest question."""
        self._messages[-1] = self._messages[-1]._replace(variables=variables)

    def extend_question(self, *, before: str = "", after: str = "") -> None:
        question = self._messages[-1]
        self._messages[-1] = question._replace(
            context=f"{before}\n\n{question.context}".strip() if before else question.context,
            instruction=question.instruction + after,
        )

    def add(self, turn: int, messages: Sequence[AnyMessage]) -> None:
        """Add answers, each followed by the results of its code and tool calls."""
        step: int | None = None
        for message in messages:
            text = str(message.text)
            if isinstance(message, AIMessage):
                step = int((message.id or "0.0").rpartition(".")[2])
                calls = [
                    ToolCall(id=str(c["id"]), name=c["name"], arguments=c["args"], problem="")
                    for c in message.tool_calls
                ]
                stored = StoredMessage("assistant", text, turn, step, calls=calls)
            else:
                call = message.tool_call_id if isinstance(message, ToolMessage) else ""
                stored = StoredMessage("results", text, turn, step, call=call)
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
        if turn is None:
            return 0
        for index, message in enumerate(self._messages):
            if message.role == "user" and message.turn is not None and message.turn > turn:
                return index
        return len(self._messages)

    def as_messages(
        self, hidden: HiddenEntries, start: int = 0, end: int | None = None, *, short: int = 0
    ) -> list[AnyMessage]:
        """Return the messages for the model. short: shorten outputs in messages before this
        index."""
        messages: list[AnyMessage] = []
        # Services reject a call without a result, and a result without its call.
        answered = {(message.turn, message.step, message.call) for message in self._messages}
        made: set[tuple[int | None, int | None, str]] = set()
        for index, stored in enumerate(self._messages[start:end], start):
            text = _visible_text(stored, hidden)
            if index < short:
                text = with_short_outputs(text)
            of = stored.turn, stored.step
            entries = question_entry(stored.turn), answer_entry(*of)
            calls: list[ToolCall] = []
            if stored.calls and not any(map(hidden.is_replaced, entries)):
                calls = [call for call in stored.calls if (*of, call["id"]) in answered]
            kind = AIMessage if stored.role == "assistant" else HumanMessage
            if calls:
                messages.append(call_message(text, calls))
                made.update((*of, call["id"]) for call in calls)
            elif (*of, stored.call) in made:
                text = text or prompts.REMOVED_BY_USER
                messages.append(ToolMessage(text, tool_call_id=stored.call))
            elif text:
                last = messages[-1] if messages else None
                if type(last) is kind and not getattr(last, "tool_calls", None):
                    text = f"{messages.pop().text}\n\n{text}"
                messages.append(kind(text))
        return messages


def _visible_text(message: StoredMessage, hidden: HiddenEntries) -> str:
    if message.role == "user":
        return _visible_question(message, hidden)
    if not hidden:
        return message.text
    if hidden.is_replaced(answer_entry(message.turn, message.step)):
        return ""
    if message.role == "assistant":
        return _visible_answer(message, hidden)
    return _without_cells(message.text, hidden)


def _visible_question(message: StoredMessage, hidden: HiddenEntries) -> str:
    """The context of a replaced question keeps its cells."""
    context, variables, text = message.context, message.variables, message.text
    if not hidden:
        return prompts.user_turn(context, variables, text, message.instruction)
    entry = question_entry(message.turn)
    context = _without_cells(_without_private(context, hidden), hidden)
    context = _EMPTY.sub("", context).strip()
    # Other variables may contain values that became private after they were described.
    if hidden.private - message.private:
        variables = {}
    if hidden.is_replaced(entry):
        cells = "".join(found[0] for found in _ELEMENT.finditer(context))
        return prompts.render_context(cells.strip())
    if entry in hidden:
        context = _ATTACHMENTS.sub("", context).strip()
        return prompts.user_turn(context, variables, prompts.REMOVED_BY_USER)
    return prompts.user_turn(context, variables, text, message.instruction)


def _visible_answer(message: StoredMessage, hidden: HiddenEntries) -> str:
    parts = parse_response(message.text).parts
    blocks = sum(part.kind == "code" for part in parts)
    removed = [hidden.hides_code(message.turn, message.step, block) for block in range(blocks)]
    wordless = answer_entry(message.turn, message.step) in hidden
    if not (wordless or any(removed)):
        return message.text
    visible = [prompts.REMOVED_BY_USER] if wordless else []
    code = iter(removed)
    for part in parts:
        if part.kind == "code":
            ticks = max((len(run) + 1 for run in _TICKS.findall(part.text)), default=3) * "`"
            block = f"{ticks}python\n{part.text}\n{ticks}"
            visible.append(prompts.REMOVED_BY_USER if next(code) else block)
        elif not wordless:
            visible.append(part.text)
    return "\n\n".join(visible)


def _without_cells(text: str, hidden: HiddenEntries) -> str:
    removed: list[str] = []

    def visible(element: re.Match[str]) -> str:
        entry = ""
        if (of := _ENTRY_ID.search(element[2])) is not None:
            entry = tool_entry(of[2]) if of[1] == "call" else _NUMBERED[of[1]](int(of[2]))
        if entry and entry in hidden:
            removed.append(entry)
            return ""
        # Without code and output if the cell uses a private variable.
        if not hidden.is_private(entry) or element[1] == "assistant-repl-in":
            return element[0]
        return f"{PRIVATE_CELL}\n" if element[1].endswith("out") else ""

    rest = _ELEMENT.sub(visible, text)
    if rest.strip() or all(map(hidden.is_replaced, removed)):
        return rest
    return prompts.REMOVED_BY_USER


def _without_private(context: str, hidden: HiddenEntries) -> str:
    if not hidden.private:
        return context

    def attachment(found: re.Match[str]) -> str:
        variable, cells = _VARIABLE_LABEL.search(found[1]), _CELLS_LABEL.search(found[1])
        private = variable is not None and variable[1] in hidden.private
        if cells:
            first = int(cells[1])
            numbers = range(first, min(int(cells[2] or first), first + 100) + 1)
            private = private or any(hidden.is_private(cell_entry(number)) for number in numbers)
        return prompts.PRIVATE_ATTACHMENT if private else found[0]

    return _ATTACHMENT.sub(attachment, context)


class _Summary(NamedTuple):
    """A summary of the messages before `end`."""

    end: int
    text: str
    messages_hash: int


class MessageHistory(Conversation):
    """A conversation reduced to what a model can read. A summary is reused as long as possible, so
    that the start of the prompt stays the same."""

    def __init__(
        self,
        host: AgentHost,
        history: Iterable[StoredMessage],
        max_history: int,
        summary: ConversationSummary | None = None,
    ) -> None:
        """max_history: number of questions sent in full."""
        super().__init__(history)
        self._host = host
        self.max_history = max_history
        self._summary: _Summary | None = None
        self._short = 0
        """Outputs in messages before this index are shortened."""
        if summary is not None:
            end = self.first_question_after(summary.turn)
            self._summary = _Summary(end, summary.text, self._hash(end))

    @property
    def messages(self) -> list[AnyMessage]:
        summary = self._valid_summary()
        if summary is None:
            return self._sent_from(0)
        messages = self._sent_from(summary.end)
        before = prompts.earlier_conversation(summary.text)
        if messages and messages[0].type == "human":
            before = f"{before}\n\n{messages.pop(0).text}"
        return [HumanMessage(before), *messages]

    def prepare(
        self, summariser: BaseChatModel, system: SystemMessage, turn: int, limit: int
    ) -> list[AnyMessage]:
        """Return the messages for a new question, reduced to `limit` tokens."""
        max_tokens = limit - estimate_size([system])
        questions = self.questions(self._host.hidden)
        if estimate_size(self.messages) > max_tokens:
            self._short = max(self._short, questions[-1])
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
        return self.as_messages(self._host.hidden, start, short=self._short)

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
        host, summary = self._host, self._valid_summary()
        emit(host.log, Agent(state="summarising", turn=turn, step=0, party=host.party))
        begin, earlier = (summary.end, summary.text) if summary else (0, "")
        messages = self.as_messages(host.hidden, begin, end, short=end)
        sent = fit(messages, input_limit(llm) // 2)
        turns = [(message.type, str(message.text)) for message in sent]
        request = prompts.summary_request(earlier, turns, keep)
        answer = call_model(host, llm, [HumanMessage(request)], turn, "summary", self._warn)
        if answer.stopped:
            return None
        text = answer.text.strip()
        if answer.failure or not text:
            return answer.failure.rstrip(".") or "the model gave an empty answer"
        before = estimate_size(self.messages)
        self._summary = _Summary(end, text, self._hash(end))
        after = estimate_size(self.messages)
        stored = reversed(self._messages[:end])
        last = next((message.turn for message in stored if message.role == "user"), None)
        part = "the beginning of the conversation"
        if last is not None:
            part = f"the conversation up to question {last}"
        notice = f"From now on the model gets only a summary of {part} (about {before:,} → {after:,} tokens)."
        emit(host.log, Notice(f"{notice} Nothing changes on your screen.\n{text}"))
        emit(host.log, Summary(text, turn=last))
        return ""

    def _warn(self, sentence: str) -> None:
        emit(self._host.log, Notice(sentence, level="warning"))
