"""Knows which entries of a conversation the model does not get."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.entry_names import cell_entry, code_entry, question_entry
from mahtab_tui.bus.records import Record


class HiddenEntries:
    """Tracks which entries the model does not get, by their names (`Record.entry_name`)."""

    def __init__(self) -> None:
        self._entries: dict[str, None] = {}
        """All entries, in order."""
        self._answers: dict[str, tuple[int | None, int]] = {}
        """The turns and steps of answers, by their entries."""
        self._cells_by_block: dict[str, str] = {}
        """Cells by the names of their code blocks."""
        self._hidden: set[str] = set()
        """The entries that the user has hidden."""
        self._replaced: set[str] = set()
        """The entries that the user has replaced, with all after them."""
        self._replacements: list[tuple[str, set[str]]] = []
        """What each replacement has removed, by its first entry, the newest last."""
        self._lowest_replaced_steps: dict[int | None, int] = {}
        """The first step whose answer the user has replaced, by turn."""
        self.private: set[str] = set()
        """Names of private variables."""
        self._private_uses: dict[str, set[str]] = {}
        """Private variables of each cell."""

    def fold(self, record: Record) -> None:
        """Note what a record says about entries, or the entry that it makes."""
        match record:
            case records.Hide(hidden=True):
                self._hidden.add(record.entry)
            case records.Hide():
                self._hidden.discard(record.entry)
            case records.Replace(restored=True):
                self._restore_from(record.entry)
            case records.Replace():
                self._replace_from(record.entry)
            case records.Private():
                if record.private:
                    self.private.add(record.name)
                else:
                    self.private.discard(record.name)
                for cell in record.cells:
                    self._private_uses.setdefault(cell_entry(cell), set()).add(record.name)
            case _:
                self._fold_entry(record)

    def _replace_from(self, first_entry: str) -> None:
        """Note that an entry was replaced, with all after it; all were if it is unknown."""
        removed_entries = set(self.entries_from(first_entry))
        self._replacements.append((first_entry, removed_entries))
        self._replaced |= removed_entries
        self._find_replaced_steps()

    def _restore_from(self, first_entry: str) -> None:
        """Note that what was replaced last, from an entry on, is part of the conversation again."""
        for index in range(len(self._replacements) - 1, -1, -1):
            entry, removed_entries = self._replacements[index]
            if entry == first_entry:
                del self._replacements[index]
                self._replaced -= removed_entries
                self._find_replaced_steps()
                return

    def _find_replaced_steps(self) -> None:
        """Note which answer of each turn is the first that the user has replaced."""
        self._lowest_replaced_steps.clear()
        for entry in self._replaced & self._answers.keys():
            turn, step = self._answers[entry]
            lowest_step = self._lowest_replaced_steps.get(turn, step)
            self._lowest_replaced_steps[turn] = min(step, lowest_step)

    @property
    def last_entry(self) -> str:
        """The newest entry; empty if there is none."""
        return next(reversed(self._entries), "")

    def entries_from(self, first_entry: str) -> list[str]:
        """Return an entry and those after it that were not replaced; all if it is unknown."""
        entries = list(self._entries)
        first_index = 0
        if first_entry in self._entries:
            first_index = entries.index(first_entry)
        return [entry for entry in entries[first_index:] if entry not in self._replaced]

    def _fold_entry(self, record: Record) -> None:
        """Note the entry that a record makes, if it makes one."""
        entry = record.entry_name
        if not entry:
            return
        self._entries.setdefault(entry)
        if isinstance(record, records.AssistantChat | records.AssistantChatStream):
            self._answers[entry] = (record.turn, record.step or 0)
        if isinstance(record, records.ReplOut) and record.private:
            self._private_uses.setdefault(entry, set()).update(record.private)
        if isinstance(record, records.AssistantReplIn) and record.block is not None:
            block = code_entry(record.turn, record.step, record.block)
            self._cells_by_block[block] = entry

    def __bool__(self) -> bool:
        """Whether the model may lack anything."""
        return bool(self._hidden or self._replaced or self.private)

    def is_private(self, entry: str) -> bool:
        """Whether an entry is a cell that uses a variable which is private now."""
        return not self.private.isdisjoint(self._private_uses.get(entry, ()))

    def __contains__(self, entry: str) -> bool:
        """Whether an entry is hidden or replaced; a private cell counts apart."""
        return entry in self._hidden or entry in self._replaced

    def is_replaced(self, entry: str) -> bool:
        """Whether the user has replaced an entry, or one before it."""
        return entry in self._replaced

    def is_answer_replaced(self, turn: int | None, step: int | None) -> bool:
        """Whether the user has replaced an answer, or what it follows: an answer that ended before
        its first word is no entry."""
        lowest_step = self._lowest_replaced_steps.get(turn)
        is_after_replaced = lowest_step is not None and (step or 0) >= lowest_step
        return is_after_replaced or self.is_replaced(question_entry(turn))

    def hides_code(self, turn: int | None, step: int | None, block: int) -> bool:
        """Whether a code block of an answer is hidden, or the cell that it became."""
        entry = code_entry(turn, step, block)
        return entry in self or self._cells_by_block.get(entry, "") in self
