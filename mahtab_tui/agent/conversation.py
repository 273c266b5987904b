"""The agent's conversation, and what the model is told of it: all but what the user has taken
out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from mahtab_tui.agent.fitting import with_short_outputs
from mahtab_tui.agent.host import KeptMessage
from mahtab_tui.agent.tool_messages import ToolCall, call_message
from mahtab_tui.bus.hidden_entries import (
    HELD_BACK,
    HiddenEntries,
    answer_entry,
    cell_entry,
    place_entry,
    question_entry,
    tool_entry,
)
from mahtab_tui.bus.parser import parse_response
from mahtab_tui.llm import prompts

_ELEMENT = re.compile(
    r"<((?:user|assistant)-repl-(?:in|out)|assistant-tool|notebook-cell)((?: [\w-]+=\"[^\"]*\")*)>.*?</\1>\n?",
    re.DOTALL,
)
"""A record of a cell, a tool call or a cell of a notebook. Output cannot imitate one, because it is
defused."""
_OF = re.compile(r" (cell|call|place)=\"([\d.]+)\"")
_NUMBERED = {"cell": cell_entry, "place": place_entry}
_EMPTY = re.compile(r"<recent-activity>\s*</recent-activity>")
_ATTACHMENT = re.compile(
    r"<user-attachment((?: [\w-]+=\"[^\"]*\")*)>.*?</user-attachment>", re.DOTALL
)
_OF_VARIABLE = re.compile(r" label=\"\$(\w+)\"")
_OF_CELLS = re.compile(r" label=\"@cell:([0-9]+)(?:-([0-9]+))?")
_ATTACHMENTS = re.compile(r"<attachments>\n.*?\n</attachments>", re.DOTALL)
_TICKS = re.compile("`{3,}")


class Conversation:
    """All messages. Nothing is ever removed, so that what the user takes out can come back."""

    def __init__(self, history: Iterable[KeptMessage] = ()) -> None:
        self._messages = [
            said if said.role == "user" else said._replace(role="assistant")
            for said in history
            if said.text
        ]

    def ask(
        self,
        turn: int,
        question: str,
        context: str,
        variables: Mapping[str, str] | None = None,
        instruction: str = "",
        private: Collection[str] = (),
    ) -> None:
        asked = KeptMessage(
            "user",
            question,
            turn,
            context=context,
            variables=variables or {},
            instruction=instruction,
        )
        self._messages.append(asked._replace(private=frozenset(private)))

    def precede(self, text: str) -> None:
        """Put a text before the context of the last question."""
        question = self._messages[-1]
        self._messages[-1] = question._replace(context=f"{text}\n\n{question.context}".strip())

    def instruct(self, text: str) -> None:
        """Add to what the model is asked to do with the last question."""
        question = self._messages[-1]
        self._messages[-1] = question._replace(instruction=question.instruction + text)

    def add(self, turn: int, messages: Sequence[AnyMessage]) -> None:
        """Add what followed a question: answers, each followed by the results of its code and tool
        calls."""
        step: int | None = None
        for message in messages:
            if isinstance(message, AIMessage):
                step = step_of(message)
                calls = [
                    ToolCall(id=str(c["id"]), name=c["name"], arguments=c["args"], problem="")
                    for c in message.tool_calls
                ]
                self._messages.append(
                    KeptMessage("assistant", str(message.text), turn, step, calls=calls)
                )
            else:
                call = message.tool_call_id if isinstance(message, ToolMessage) else ""
                self._messages.append(
                    KeptMessage("results", str(message.text), turn, step, call=call)
                )

    def variables(self, start: int = 0) -> list[str]:
        """Return what the model is told of variables in the questions from an index on."""
        return [text for message in self._messages[start:] for text in message.variables.values()]

    def questions(self, left_out: HiddenEntries) -> list[int]:
        """Return the indices of the questions that were not replaced."""
        asked = (
            (place, message)
            for place, message in enumerate(self._messages)
            if message.role == "user"
        )
        return [
            place for place, message in asked if not left_out.replaced(question_entry(message.turn))
        ]

    def after(self, turn: int | None) -> int:
        """Return the index of the first question after this turn; the number of messages if there
        is none."""
        if turn is None:
            return 0
        later = (
            place
            for place, said in enumerate(self._messages)
            if said.role == "user" and said.turn is not None and said.turn > turn
        )
        return next(later, len(self._messages))

    def turn_before(self, place: int) -> int | None:
        """Return the turn of the last question before a message; None if it has none."""
        return next(
            (said.turn for said in reversed(self._messages[:place]) if said.role == "user"), None
        )

    def told(
        self, left_out: HiddenEntries, start: int = 0, end: int | None = None, *, short: int = 0
    ) -> list[AnyMessage]:
        """Return the messages for the model. Successive messages of one party are joined, which
        happens if one between them was replaced.

        start, end: range of messages. short: outputs are shortened in messages before this index.
        """
        messages: list[AnyMessage] = []
        # A service refuses a call without a result, and a result without its call.
        answered = {(message.turn, message.step, message.call) for message in self._messages}
        made: set[tuple[int | None, int | None, str]] = set()
        for place, remembered in enumerate(self._messages[start:end], start):
            text = _rest(remembered, left_out)
            if place < short:
                text = with_short_outputs(text)
            entries = (
                question_entry(remembered.turn),
                answer_entry(remembered.turn, remembered.step),
            )
            replaced = bool(remembered.calls) and any(map(left_out.replaced, entries))
            of = remembered.turn, remembered.step
            calls = (
                []
                if replaced
                else [call for call in remembered.calls if (*of, call["id"]) in answered]
            )
            if calls:
                messages.append(call_message(text, calls))
                made.update((*of, call["id"]) for call in calls)
            elif (*of, remembered.call) in made:
                messages.append(
                    ToolMessage(text or prompts.TAKEN_OUT, tool_call_id=remembered.call)
                )
            elif text:
                kind = AIMessage if remembered.role == "assistant" else HumanMessage
                if (
                    messages
                    and type(messages[-1]) is kind
                    and not getattr(messages[-1], "tool_calls", None)
                ):
                    text = f"{messages.pop().text}\n\n{text}"
                messages.append(kind(text))
        return messages


def step_id(turn: int, step: int) -> str:
    """Return the id of the message of an answer."""
    return f"{turn}.{step}"


def step_of(message: AIMessage) -> int:
    """Return the number of an answer in its turn, from the message's id."""
    return int((message.id or "0.0").rpartition(".")[2])


def _rest(message: KeptMessage, left_out: HiddenEntries) -> str:
    """Return what the model is told of a message; empty if it is told nothing."""
    if not left_out:
        if message.role != "user":
            return message.text
        return prompts.user_turn(
            message.context, message.variables, message.text, message.instruction
        )
    if message.role == "user":
        return _rest_of_question(message, left_out)
    if left_out.replaced(answer_entry(message.turn, message.step)):
        return ""
    return (
        _rest_of_answer(message, left_out)
        if message.role == "assistant"
        else _without_cells(message.text, left_out)
    )


def _rest_of_question(message: KeptMessage, left_out: HiddenEntries) -> str:
    """Return the rest of a question. Of a replaced one, the cells in its context stay."""
    entry = question_entry(message.turn)
    context = _EMPTY.sub(
        "", _without_cells(_without_private(message.context, left_out), left_out)
    ).strip()
    # Other variables may hold what has become private since they were described.
    variables = {} if left_out.private - message.private else message.variables
    if left_out.replaced(entry):
        return prompts.render_context(
            "".join(found[0] for found in _ELEMENT.finditer(context)).strip()
        )
    if entry in left_out:
        return prompts.user_turn(
            _ATTACHMENTS.sub("", context).strip(), variables, prompts.TAKEN_OUT
        )
    return prompts.user_turn(context, variables, message.text, message.instruction)


def _rest_of_answer(message: KeptMessage, left_out: HiddenEntries) -> str:
    parts = parse_response(message.text).parts
    blocks = sum(part.kind == "code" for part in parts)
    out = [left_out.code(message.turn, message.step, block) for block in range(blocks)]
    wordless = answer_entry(message.turn, message.step) in left_out
    if not (wordless or any(out)):
        return message.text
    code = iter(out)
    kept = [
        (prompts.TAKEN_OUT if next(code) else _fenced(part.text))
        if part.kind == "code"
        else part.text
        for part in parts
        if part.kind == "code" or not wordless
    ]
    return "\n\n".join([*([prompts.TAKEN_OUT] if wordless else []), *kept])


def _without_cells(text: str, left_out: HiddenEntries) -> str:
    """Remove the records of cells and calls that are left out; if nothing else remains, return a
    sentence in their place."""
    taken: list[str] = []

    def keep(element: re.Match[str]) -> str:
        of = _OF.search(element[2])
        entry = (
            ""
            if of is None
            else tool_entry(of[2])
            if of[1] == "call"
            else _NUMBERED[of[1]](int(of[2]))
        )
        if not entry or entry not in left_out:
            return _told_element(element, entry, left_out)
        taken.append(entry)
        return ""

    rest = _ELEMENT.sub(keep, text)
    if rest.strip() or all(left_out.replaced(entry) for entry in taken):
        return rest
    return prompts.TAKEN_OUT


def _told_element(element: re.Match[str], entry: str, left_out: HiddenEntries) -> str:
    """Return the record of a cell or call as it is told: without code and output of a cell that
    uses a private variable."""
    if not left_out.held_back(entry) or element[1] == "assistant-repl-in":
        return element[0]
    return f"{HELD_BACK}\n" if element[1].endswith("out") else ""


def _without_private(context: str, left_out: HiddenEntries) -> str:
    """Return a question's context without what it tells of variables that are private now."""
    if not left_out.private:
        return context

    def attachment(found: re.Match[str]) -> str:
        variable, cells = _OF_VARIABLE.search(found[1]), _OF_CELLS.search(found[1])
        numbers = (
            range(int(cells[1]), min(int(cells[2] or cells[1]), int(cells[1]) + 100) + 1)
            if cells
            else ()
        )
        private = (variable and variable[1] in left_out.private) or any(
            left_out.held_back(cell_entry(number)) for number in numbers
        )
        return prompts.PRIVATE_ATTACHMENT if private else found[0]

    return _ATTACHMENT.sub(attachment, context)


def _fenced(code: str) -> str:
    ticks = max((len(run) + 1 for run in _TICKS.findall(code)), default=3) * "`"
    return f"{ticks}python\n{code}\n{ticks}"
