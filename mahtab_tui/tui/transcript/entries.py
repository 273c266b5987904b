"""Describes entries of the transcript and limits their memory; tracks what the model does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Cell, Entry, ToolUse, Words
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain


@dataclass(kw_only=True, eq=False)
class NotebookWords(Words):
    """A Markdown or raw cell of the notebook."""

    cell_number: int


def ends_with_bar(entry: Entry) -> bool:
    """Return whether an entry's last row has the model's bar."""
    if isinstance(entry, Cell):
        return not (entry.person or len(entry.output) or entry.changes)
    return isinstance(entry, Words | ToolUse) and not isinstance(entry, NotebookWords)


def output_text(cell: Cell) -> str:
    """Return a cell's stored output, including late output; a line marks omitted lines."""
    return "\n".join(_text(output) for output in (cell.output, cell.late_output) if output)


def _text(output: OutputBuffer) -> str:
    lines = [line.text for line in output]
    if output.omitted:
        lines.insert(len(output.head), f"… {output.omitted:,} lines left out …")
    text = "\n".join(lines)
    # Most output is plain text already.
    return text if plain(text) is text else "\n".join(map(plain, lines))


BUDGET = 32_000_000
"""Characters of long outputs and pictures kept in memory."""
LONG = 100_000
"""An output of this many characters is long, even if it has few lines."""
ENDS = 20
"""Lines to keep at each end of an output."""


class OutputMemory:
    """The cells with long outputs, oldest first."""

    def __init__(self) -> None:
        self._cells: deque[tuple[Cell, int]] = deque()
        self._chars = 0

    def add(self, cell: Cell) -> list[Cell]:
        """Add a cell that ended; returns the cells whose outputs were shortened to make room."""
        size = cell.output.size
        if len(cell.output) <= 2 * ENDS and size < LONG:
            return []
        self._cells.append((cell, size))
        self._chars += size
        shortened = []
        while self._chars > BUDGET and len(self._cells) > 1:
            oldest, size = self._cells.popleft()
            oldest.output.shrink(ENDS)
            self._chars -= size
            shortened.append(oldest)
        return shortened


_STATES = {
    "thinking": ("is thinking", "thinking"),
    "reflecting": ("is checking the result", "checking"),
    "summarising": ("is summarising the conversation", "summarising"),
    "max-turns": ("is summing up", "summing up"),
}


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that the model is doing or waiting for."""

    author: str
    doing: str
    """For example "is thinking"."""
    brief: str
    """Short form for the header, for example "thinking"."""
    since: float
    """Seconds since the epoch."""
    waits_for_person: bool = False


class Activities:
    """Tracks what the model is doing. since: seconds since the epoch; older records are past
    activities."""

    def __init__(self, since: float) -> None:
        self.current: Activity | None = None
        """None between two steps, and while code runs, because then the cell shows the time."""
        self.turn_running = False
        self._since = since

    def fold(self, record: Record) -> None:
        match record:
            case records.Agent():
                self._agent(record)
            case records.AssistantChatStream():
                if self.current is not None and self.current.brief != "writing":
                    self.current = Activity(
                        self.current.author, "is writing", "writing", self.current.since
                    )
            case records.AssistantTool():
                self._change(
                    record, f"waits for {record.name}", "using a tool", record.state == "running"
                )
            case records.Approval(guest=None):
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.Review():
                self._change(record, "waits for you", "waiting for you", record.state == "waiting")
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.current = None

    def _agent(self, record: records.Agent) -> None:
        doing, brief = _STATES.get(record.state, ("", ""))
        self.turn_running = bool(doing) and record.time >= self._since
        self._change(record, doing, brief, bool(doing))

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        doing: str,
        brief: str,
        begins: bool,
    ) -> None:
        waits = brief == "waiting for you"
        author = record.party or "model"
        self.current = (
            Activity(author, doing, brief, record.time, waits)
            if begins and record.time >= self._since
            else None
        )


class PendingRequests:
    """Tracks what waits for the user: code, a search, or a line that code reads."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def fold(self, record: Record) -> None:
        match record:
            case records.SearchFinal():  # a stopped call no longer waits for an answer
                self._since = {
                    key: since
                    for key, since in self._since.items()
                    if key[1:3] != (record.tree, record.node)
                }
            case records.SearchFanOut():
                self._fold((record.tag, record.tree, record.node, record.request), record)
            case records.Approval() | records.Review() | records.Input():
                self._fold((record.tag, record.request), record)

    def _fold(
        self,
        key: tuple[str, ...],
        record: records.SearchFanOut | records.Approval | records.Review | records.Input,
    ) -> None:
        if record.state == "waiting":
            self._since.setdefault(key, record.time)
        else:
            self._since.pop(key, None)

    @property
    def since(self) -> float | None:
        """Seconds since the epoch at which the oldest request began to wait; None if nothing
        waits."""
        return min(self._since.values(), default=None)
