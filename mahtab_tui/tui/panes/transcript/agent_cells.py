"""Builds entries from agents' code that waits or runs."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.bus.records import Approval, AssistantReplIn
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry


class AgentCells:
    """Builds the entries of agents' cells by two functions. Each cell belongs to a call of the agent."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._waiting: dict[str | None, Cell] = {}

    def approval(self, record: Approval) -> None:
        """Show that code waits, or the decision."""
        call, state = record.call, record.state
        cell = self._waiting.get(call)
        if cell is None:
            if state == "waiting":
                self._waiting[call] = cell = self._made(record)
                cell.approval = state
                self._append(cell)
            return
        cell.approval = state if state in ("skipped", "stopped") else ""
        cell.reason = record.reason
        if state == "edited":
            cell.code, cell.edited = record.text, True
        if cell.approval:
            del self._waiting[call]
        self._touch(cell)

    def code_that_runs(self, record: AssistantReplIn) -> Cell:
        cell = self._waiting.pop(record.call, None)
        if cell is None:
            cell = self._made(record)
            self._append(cell)
        cell.code = record.text
        return cell

    def _made(self, record: Approval | AssistantReplIn) -> Cell:
        return Cell(party=record.party or "agent", person=False, guest=record.guest, code=record.text)
