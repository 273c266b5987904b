"""Messages without what the user has hidden, replaced or made private."""

from __future__ import annotations

import re

from mahtab_tui.agent.host import StoredMessage
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.entry_names import (
    answer_entry,
    cell_entry,
    question_entry,
    tool_entry,
    unrun_cell_entry,
)
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.record_xml import ATTRIBUTES
from mahtab_tui.llm import prompts

_MAX_ATTACHED_CELLS = 100
"""Cells of a range that are looked up for private variables."""

# All external text is escaped, so it can contain none of the tags below.
_ELEMENT = re.compile(
    rf"<((?:user|assistant)-repl-(?:in|out)|cell-files|assistant-tool|notebook-cell)({ATTRIBUTES})>.*?</\1>\n?",
    re.DOTALL,
)
"""What a cell or a tool call was, or what came of it: its name and attributes."""
_ENTRY_ID = re.compile(r" (cell|call|position)=\"([\d.]+)\"")
_EMPTY_ACTIVITY = re.compile(r"<recent-activity>\s*</recent-activity>")
_ACTIVITY_TAGS = ("<recent-activity>\n", "\n</recent-activity>")
_ATTACHMENTS = re.compile(r"<attachments>\n.*?\n</attachments>", re.DOTALL)
_ATTACHMENT = re.compile(rf"<user-attachment({ATTRIBUTES})>.*?</user-attachment>", re.DOTALL)
_VARIABLE_LABEL = re.compile(r" label=\"\$(\w+)\"")
_CELLS_LABEL = re.compile(r" label=\"@cell:([0-9]+)(?:-([0-9]+))?")
_BACKTICKS = re.compile("`{3,}")


def visible_text(message: StoredMessage, hidden: HiddenEntries) -> str:
    """Return a message's text without what is hidden from the model; empty if nothing is left."""
    if message.role == "user":
        return _visible_question(message, hidden)
    if not hidden:
        return message.text
    if hidden.is_answer_replaced(message.turn, message.step):
        return ""
    if message.role == "assistant":
        return _visible_answer(message, hidden)
    return _hide_cells(message.text, hidden)


def _visible_question(message: StoredMessage, hidden: HiddenEntries) -> str:
    """Return a question with its context. Of a replaced question, what happened before it stays."""
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
        start, end = _ACTIVITY_TAGS
        activity = context.partition(start)[2].partition(end)[0]
        # It was escaped when it was put into the context.
        return f"{start}{activity.strip()}{end}" if activity.strip() else ""
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

    remaining_text = _ELEMENT.sub(visible_element, text)
    if remaining_text.strip() or all(map(hidden.is_replaced, hidden_entries)):
        return remaining_text
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
    """Return whether an attachment is a private variable, or has a cell that uses one."""
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
