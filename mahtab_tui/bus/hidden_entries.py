"""Keeps track of what the model is not told: entries that the user has hidden or replaced, and
cells that use private variables."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record

HELD_BACK = "[Held back: this cell uses a variable that the user keeps private.]"
"""Told instead of the output of a cell that uses a private variable."""


def cell_entry(cell: int) -> str:
    """Return the name of a cell with its output."""
    return f"cell {cell}"


def question_entry(turn: int | None) -> str:
    """Return the name of a question; empty if the model was never asked."""
    return "" if turn is None else f"question {turn}"


def answer_entry(turn: int | None, step: int | None) -> str:
    """Return the name of the words of one answer; empty if it is not known which."""
    return "" if turn is None or step is None else f"answer {turn}.{step}"


def code_entry(turn: int | None, step: int | None, block: int) -> str:
    """Return the name of a code block of an answer that did not run."""
    return "" if turn is None or step is None else f"code {turn}.{step}.{block}"


def tool_entry(call: str | None) -> str:
    """Return the name of a tool call with its result."""
    return "" if call is None else f"tool {call}"


def place_entry(place: int) -> str:
    """Return the name of a cell of the notebook that the user has opened."""
    return f"place {place}"


def entry_of(record: Record) -> str:
    """Return the name of the entry to which a record belongs; empty if the model does not get the
    record."""
    match record:
        case records.ReplIn() | records.ReplOut():
            return "" if record.cell is None else cell_entry(record.cell)
        case records.AssistantTool():
            return tool_entry(record.call)
        case records.NotebookCell():
            return place_entry(record.place)
        case records.UserChat():
            return question_entry(record.turn)
        case records.AssistantChat() | records.AssistantChatStream():
            return answer_entry(record.turn, record.step)
    return ""


class HiddenEntries:
    """Folds the records of a running or resumed session to the set of entries that are left out."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}
        """All entries, in order."""
        self._ran: dict[str, str] = {}
        """Names of the code blocks that ran, to the names of their cells."""
        self._hidden: set[str] = set()
        self._replaced: set[str] = set()
        self.private: set[str] = set()
        """The names of private variables."""
        self._uses: dict[str, set[str]] = {}
        """Cells by their entries, with the private variables that they use."""

    def fold(self, record: Record) -> None:
        if isinstance(record, records.Hide):
            (self._hidden.add if record.hidden else self._hidden.discard)(record.entry)
        elif isinstance(record, records.Replace):
            names = list(self._entries)
            self._replaced.update(
                names[names.index(record.entry) if record.entry in self._entries else 0 :]
            )
        elif isinstance(record, records.Private):
            (self.private.add if record.private else self.private.discard)(record.name)
            for cell in record.cells:
                self._uses.setdefault(cell_entry(cell), set()).add(record.name)
        elif name := entry_of(record):
            self._entries.setdefault(name)
            if isinstance(record, records.ReplOut) and record.private:
                self._uses.setdefault(name, set()).update(record.private)
            if isinstance(record, records.AssistantReplIn) and record.block is not None:
                self._ran[code_entry(record.turn, record.step, record.block)] = name

    def __bool__(self) -> bool:
        return bool(self._hidden or self._replaced or self.private)

    def held_back(self, entry: str) -> bool:
        """Return whether an entry is a cell that uses a private variable."""
        return not self.private.isdisjoint(self._uses.get(entry, ()))

    def __contains__(self, entry: str) -> bool:
        return entry in self._hidden or entry in self._replaced

    def replaced(self, entry: str) -> bool:
        """Return whether the entry was replaced, so that the conversation shows no trace of it."""
        return entry in self._replaced

    def code(self, turn: int | None, step: int | None, block: int) -> bool:
        """Return whether a code block of an answer is left out, by its own name or as the cell that
        it became."""
        name = code_entry(turn, step, block)
        return name in self or self._ran.get(name, "") in self
