"""What the person has taken out of the model's conversation: what is hidden, and what was replaced."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record


def cell_entry(cell: int) -> str:
    """The name of a cell with its output."""
    return f"cell {cell}"


def question_entry(turn: int | None) -> str:
    """The name of a question; empty where the model was never asked it."""
    return "" if turn is None else f"question {turn}"


def answer_entry(turn: int | None, step: int | None) -> str:
    """The name of the words of one answer; empty where it is not known which."""
    return "" if turn is None or step is None else f"answer {turn}.{step}"


def code_entry(turn: int | None, step: int | None, block: int) -> str:
    """The name of a block of an answer's code that did not run."""
    return "" if turn is None or step is None else f"code {turn}.{step}.{block}"


def tool_entry(call: str | None) -> str:
    """The name of a call of a tool with what it gave."""
    return "" if call is None else f"tool {call}"


def entry_of(record: Record) -> str:
    """The name of the entry that a record is of; empty for one that the model is told nothing of."""
    match record:
        case records.ReplIn() | records.ReplOut():
            return "" if record.cell is None else cell_entry(record.cell)
        case records.AssistantTool():
            return tool_entry(record.call)
        case records.UserChat():
            return question_entry(record.turn)
        case records.AssistantChat() | records.AssistantChatStream():
            return answer_entry(record.turn, record.step)
    return ""


class LeftOut:
    """A fold over the records of a session; the same for one that goes on and for one that is resumed."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}
        """All that there are, in order."""
        self._ran: dict[str, str] = {}
        """The cells of the blocks of code that ran."""
        self._hidden: set[str] = set()
        self._replaced: set[str] = set()

    def fold(self, record: Record) -> None:
        """Take in a record."""
        if isinstance(record, records.Hide):
            (self._hidden.add if record.hidden else self._hidden.discard)(record.entry)
        elif isinstance(record, records.Replace):
            names = list(self._entries)
            self._replaced.update(names[names.index(record.entry) if record.entry in self._entries else 0 :])
        elif name := entry_of(record):
            self._entries.setdefault(name)
            if isinstance(record, records.AssistantReplIn) and record.block is not None:
                self._ran[code_entry(record.turn, record.step, record.block)] = name

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self._hidden or self._replaced)

    def __contains__(self, entry: str) -> bool:
        return entry in self._hidden or entry in self._replaced

    def replaced(self, entry: str) -> bool:
        """Whether it leaves no trace in the conversation, as if it had never been said."""
        return entry in self._replaced

    @property
    def last_exchange(self) -> bool:
        """Whether the last question or an answer to it is left out."""
        names: list[str] = []
        for name in reversed(list(self._entries)):  # of which other threads may make more meanwhile
            names += [] if name.startswith(("cell ", "tool ")) else [name]
            if name.startswith("question "):
                break
        return any(name in self for name in names)

    def code(self, turn: int | None, step: int | None, block: int) -> bool:
        """Whether a block of an answer's code is left out, by its own name or as the cell that it became."""
        name = code_entry(turn, step, block)
        return name in self or self._ran.get(name, "") in self
