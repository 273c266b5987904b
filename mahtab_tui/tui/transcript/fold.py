"""Folds records into the entries of the transcript."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import (
    Cell,
    Conversation,
    Entry,
    Note,
    Question,
    Step,
    ToolUse,
    Words,
    answer_author,
    answer_step,
    code_blocks,
)
from mahtab_tui.bus.output import RICH_DISPLAYS, OutputBuffer
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain


@dataclass(kw_only=True, eq=False)
class NotebookWords(Words):
    cell_number: int


def ends_with_bar(entry: Entry) -> bool:
    if isinstance(entry, Cell):
        return not (entry.person or len(entry.output) or entry.changes)
    return isinstance(entry, Words | ToolUse) and not isinstance(entry, NotebookWords)


def output_text(cell: Cell) -> str:
    return "\n".join(_text(output) for output in (cell.output, cell.late_output) if output)


def _text(output: OutputBuffer) -> str:
    lines = [line.text for line in output]
    if output.omitted:
        lines.insert(len(output.head), f"… {output.omitted:,} lines left out …")
    text = "\n".join(lines)
    # Most output is plain text already.
    return text if plain(text) is text else "\n".join(map(plain, lines))


BUDGET = 32_000_000
"""Characters of long outputs and pictures."""
LONG = 100_000
"""Characters from which an output is long."""
ENDS = 20

_STATES = {
    "thinking": ("is thinking", "thinking"),
    "reflecting": ("is checking the result", "checking"),
    "summarising": ("is summarising the conversation", "summarising"),
    "max-turns": ("is summing up", "summing up"),
}


_WAITS = "waiting for you"


def step_suffix(step: int | None) -> str:
    """Name a step after the first. step: from 0."""
    return f" · step {step + 1}" if step else ""


@dataclass(frozen=True, slots=True)
class Activity:
    author: str
    doing: str
    brief: str
    since: float

    @property
    def waits_for_person(self) -> bool:
        return self.brief == _WAITS


class Activities:
    """The current activity of the model. since: the session's start, in seconds since the epoch."""

    def __init__(self, since: float) -> None:
        self.current: Activity | None = None
        """None between two steps and while code runs."""
        self.turn_running = False
        self._since = since

    def fold(self, record: Record) -> None:
        match record:
            case records.Agent(state=state):
                doing, brief = _STATES.get(state, ("", ""))
                self.turn_running = bool(doing) and record.time >= self._since
                self._change(record, doing, brief, bool(doing))
            case records.AssistantChatStream() if self.current is not None:
                self.current = replace(self.current, doing="is writing", brief="writing")
            case records.AssistantTool(state=state):
                doing = f"waits for {record.name}"
                self._change(record, doing, "using a tool", state == "running")
            case records.Approval(guest=None, state=state) | records.Review(state=state):
                self._change(record, "waits for you", _WAITS, state == "waiting")
            case records.AssistantChat() | records.AssistantReplIn(guest=None):
                self.current = None

    def _change(
        self,
        record: records.Agent | records.AssistantTool | records.Approval | records.Review,
        doing: str,
        brief: str,
        begins: bool,
    ) -> None:
        self.current = None
        if begins and record.time >= self._since:
            if isinstance(record, records.Agent):
                doing += step_suffix(record.step)
                brief += step_suffix(record.step)
            self.current = Activity(record.party or "model", doing, brief, record.time)


class PendingRequests:
    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def fold(self, record: Record) -> None:
        match record:
            case records.SearchFinal():  # a stopped call no longer waits for an answer
                call = record.tree, record.node
                for key in [key for key in self._since if key[1:3] == call]:
                    del self._since[key]
                return
            case records.SearchFanOut():
                key = record.tag, record.tree, record.node, record.request
            case records.Approval() | records.Review() | records.Input():
                key = record.tag, record.request
            case _:
                return
        if record.state == "waiting":
            self._since.setdefault(key, record.time)
        else:
            self._since.pop(key, None)

    @property
    def since(self) -> float | None:
        return min(self._since.values(), default=None)


WORDS = 20_000

_TICKS = re.compile("`+")


class Transcript(Conversation):
    def __init__(self, since: float) -> None:
        """since: the session's start; nothing in older records runs."""
        super().__init__()
        self._activities = Activities(since)
        self._since = since
        self.positions: dict[Entry, int] = {}
        self._changed: set[int] = set()
        self.codes: dict[int, str] = {}
        self.running: dict[int, Cell] = {}
        self.opened: Entry | None = None
        """The first entry of a notebook, where the view starts until something happens."""
        self._cells_by_number: dict[int, Cell] = {}
        self._long_cells: deque[tuple[Cell, int]] = deque()
        self._long_chars = 0
        self._thoughts: dict[Step, Words] = {}
        self._waiting: dict[str | None, Cell] = {}
        self._folds |= {
            records.UserReplOutStream: self._output_piece,
            records.AssistantReplOutStream: self._output_piece,
            records.AssistantChatStream: self._token,
            records.AssistantThoughtStream: self._thought,
            records.AssistantThought: self._thought,
            records.Approval: self._approval,
            records.Review: self._review,
            records.Agent: self._agent,
            records.Kernel: self._kernel,
            records.NotebookFile: self._notebook_file,
            records.NotebookCell: self._notebook_cell,
            records.NotebookOutput: self._notebook_output,
        }

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            self._activities.fold(record)
            if fold := self._folds.get(type(record)):
                fold(record)

    def cell(self, number: int) -> Cell | None:
        cell = self._cells.get(number)
        return cell if cell in self.positions else None

    @property
    def activity(self) -> Activity | None:
        return self._activities.current

    def copy_running(self) -> Transcript:
        fresh = Transcript(self._since)
        fresh._activities, fresh._hidden = self._activities, self._hidden
        fresh.codes = self.codes
        fresh._cells_by_number = self._cells_by_number
        for number, cell in self.running.items():
            fresh.append(cell)
            fresh.running[number] = fresh._cells[number] = fresh._last_cell = cell
        return fresh

    @property
    def last_error(self) -> Cell | None:
        """The newest failed cell of the model's conversation."""
        cells = (entry for entry in reversed(self.entries) if isinstance(entry, Cell))
        errors = (cell for cell in cells if cell.status == "error" and not cell.removed)
        return next((cell for cell in errors if cell.number is not None), None)

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell of the user."""
        cell = self._last_cell
        return cell if cell is not None and cell.offers_explanation else None

    def pop_changed(self) -> list[int]:
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def append(self, entry: Entry) -> None:
        if not (isinstance(entry, Note) or entry.key.startswith("place ")):
            self.opened = None
        last = self.entries[-1] if self.entries else None
        entry.gap = last is not None and not (isinstance(entry, Note) and isinstance(last, Note))
        entry.joined = entry.joined and last is not None and ends_with_bar(last)
        self.positions[entry] = len(self.entries)
        self._changed.add(len(self.entries))
        super().append(entry)

    def touch(self, entry: Entry) -> None:
        if (position := self.positions.get(entry)) is not None:
            entry.version += 1
            self._changed.add(position)

    def touch_output(self, cell: Cell) -> None:
        self.touch(cell)
        index = self.positions[cell] + 1
        below = self.entries[index] if index < len(self.entries) else None
        if below is not None and below.joined and not ends_with_bar(cell):
            below.joined = False
            self.touch(below)

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        if self._last_cell is not None and self._last_cell.offers_explanation:
            self._last_cell.offers_explanation = False
            self.touch(self._last_cell)
        super()._start(cell, record)
        stored = self._cells_by_number.get(record.position or 0)
        if stored is not None:
            stored.ran_as = record.cell
            self.touch(stored)
        if record.cell is not None:
            self.codes[record.cell] = record.text
            if record.time >= self._since:
                cell.started = record.time
                self.running[record.cell] = cell

    def _output_piece(self, record: records.ReplOutStream) -> None:
        cell = self._find_cell(record.cell, late=record.late)
        if cell is None:
            return
        if record.late:
            cell.feed_late(record.text)
        else:
            cell.feed(record.kind, record.text, iter(cell.displays[-1:]))
        self.touch_output(cell)

    def _display(self, record: records.Display) -> None:
        super()._display(record)
        cell = self._find_cell(record.cell)
        # As in the output, displays in the middle become plain text.
        if cell is not None and len(cell.displays) > RICH_DISPLAYS:
            middle = -RICH_DISPLAYS // 2 - 1
            cell.displays[middle] = (cell.displays[middle][0], "", "", "")

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        super()._end(cell, record)
        cell.frames = record.frames or ()
        for index, (*_, row) in enumerate(cell.frames):
            line = cell.output.from_end(row)
            if line is not None and line.kind == "traceback":
                line.frame = index
        cell.started = None
        cell.offers_explanation = cell.person and cell.status == "error" and cell is self._last_cell
        if record.cell is not None:
            self.running.pop(record.cell, None)
        self._limit_memory(cell)

    def _limit_memory(self, cell: Cell) -> None:
        size = cell.output.size
        if len(cell.output) <= 2 * ENDS and size < LONG:
            return
        self._long_cells.append((cell, size))
        self._long_chars += size
        while self._long_chars > BUDGET and len(self._long_cells) > 1:
            oldest, size = self._long_cells.popleft()
            oldest.output.shrink(ENDS)
            self._long_chars -= size
            self.touch(oldest)

    def _question(self, record: records.UserChat) -> None:
        self._thoughts.clear()
        super()._question(record)

    def _token(self, record: records.AssistantChatStream) -> None:
        step = answer_step(record)
        pieces = self._pieces.setdefault(step, [])
        if record.fresh:
            for piece in pieces:
                self._drop(piece)
            pieces.clear()
            if (thought := self._thoughts.pop(step, None)) is not None:
                self._drop(thought)
            return
        last = pieces[-1] if pieces else None
        if record.kind == "code":
            if isinstance(last, Cell) and last.block == record.block:
                last.code += record.text
                self.touch(last)
            else:
                self._begin_piece(pieces, record, record.text, code=True, block=record.block)
        elif isinstance(last, Words):
            last.source += record.text
            self.touch(last)
        elif record.text.strip():
            self._begin_piece(pieces, record, record.text, code=False)

    def _thought(self, record: records.AssistantThought | records.AssistantThoughtStream) -> None:
        step, is_whole = answer_step(record), isinstance(record, records.AssistantThought)
        entry = self._thoughts.get(step)
        if entry is None:
            if not (is_whole or record.text.strip()):
                return
            entry = Words(author=answer_author(record), source="", thought=True)
            self._thoughts[step] = entry
            self.append(entry)
        if is_whole:
            entry.collapsed = True
            self._correct(entry, record.text)
        else:
            entry.source += record.text
        self.touch(entry)

    def _approval(self, record: records.Approval) -> None:
        if record.time < self._since and record.state == "waiting":
            record = record.changed(state="not run")
        if record.guest is None:
            self._block_approval(record)
        else:
            self._agent_approval(record)

    def _block_approval(self, record: records.Approval) -> None:
        cell = self._block(record)
        if cell is None:
            return
        shown = ("waiting", "not run", "skipped", "stopped", "refused")
        cell.approval = record.state if record.state in shown else ""
        if record.state == "waiting" and (record.blocks or 0) > 1:
            for number, block in enumerate(code_blocks(self._pieces[answer_step(record)]), 1):
                block.part = f"{number}/{record.blocks}"
                self.touch(block)
        self._apply_answer(cell, record)

    def _apply_answer(self, cell: Cell, record: records.Approval) -> None:
        cell.reason = record.reason
        if record.state == "edited" and record.text:
            cell.code, cell.edited = record.text, True
        self.touch(cell)

    def _agent_approval(self, record: records.Approval) -> None:
        call, state = record.call, record.state
        cell = self._waiting.get(call)
        if cell is None:
            if state == "waiting":
                self._waiting[call] = cell = super()._agent_cell(record)
                cell.approval = state
                self._number_waiting()
            return
        cell.approval = state if state in ("skipped", "stopped") else ""
        if cell.approval:
            del self._waiting[call]
            self._number_waiting()
        self._apply_answer(cell, record)

    def _number_waiting(self) -> None:
        for number, cell in enumerate(self._waiting.values(), 1):
            cell.part = f"{number}/{len(self._waiting)}" if len(self._waiting) > 1 else ""
            self.touch(cell)

    def _agent_cell(self, record: records.Approval | records.AssistantReplIn) -> Cell:
        cell = self._waiting.pop(record.call, None)
        self._number_waiting()
        return super()._agent_cell(record) if cell is None else cell

    def _review(self, record: records.Review) -> None:
        cell = self._cells.get(record.cells[0]) if record.cells else None
        if cell is not None:
            waits = record.state == "waiting" and record.time >= self._since
            cell.approval = "waiting" if waits else ""
            self.touch(cell)

    def _tool(self, record: records.AssistantTool) -> None:
        cut = record.state == "running" and record.time < self._since
        super()._tool(record.changed(state="cut off") if cut else record)

    def _agent(self, record: records.Agent) -> None:
        if record.state == "max-turns":
            author = (record.party or "model").capitalize()
            text = f"{author} runs no more code for this question."
            self.append(Note(level="warning", text=text))
        elif record.state == "stopped":
            self._note_stop(record)
        elif record.state == "done":
            self._fold_steps(record.turn)
            self._mark_code_not_run()

    def _note_stop(self, record: records.Agent) -> None:
        """Say after which cells a question was stopped."""
        names = [f"In {cell.number}" for cell in self._cells_of_question(record.turn)]
        if names:
            listed = ", ".join(names)
            self.append(Note(level="quiet", text=f"stopped; until then, {listed} ran"))
        elif record.turn not in self._marked:
            self.append(Note(level="quiet", text="stopped"))

    def _fold_steps(self, turn: int | None) -> None:
        """Collapse the cells of a question that took several, except those that failed or drew."""
        cells = self._cells_of_question(turn)
        if len(cells) == 1:
            return
        for cell in cells:
            if cell.status == "ok" and not cell.has_picture:
                cell.collapsed = True
                self.touch(cell)

    def _mark_code_not_run(self) -> None:
        """Mark code of the answers that have just ended, such as that of the last one."""
        for cell in chain.from_iterable(map(code_blocks, self._pieces.values())):
            if cell.number is None and not cell.approval:
                cell.approval = "not run"
                self.touch(cell)

    def _cells_of_question(self, turn: int | None) -> list[Cell]:
        """Return the model's cells of a question that have run, in order."""
        cells: list[Cell] = []
        for entry in reversed(self.entries):
            if isinstance(entry, Question) and entry.turn not in (None, turn):
                break
            if not isinstance(entry, Cell) or entry.turn != turn or entry.number is None:
                continue
            if not entry.person and entry.agent_index is None:
                cells.append(entry)
        return cells[::-1]

    def _kernel(self, record: records.Kernel) -> None:
        cell = self._find_cell(record.cell)
        if (
            cell is not None
            and cell.number is not None
            and cell.started is None
            and not cell.status
            and record.since
            and record.time >= self._since
        ):
            cell.started = record.since  # an earlier screen left it running
            self.running[cell.number] = cell
            self.touch(cell)
        self._note(record)

    def _notebook_file(self, record: records.NotebookFile) -> None:
        for entry in self.entries:
            if entry.key.startswith("place ") and not entry.removed:
                entry.removed = "replaced"
                self.touch(entry)
        note = Note(level="info", text=record.text)
        self.append(note)
        self.opened = note

    def _notebook_cell(self, record: records.NotebookCell) -> None:
        key, number = record.entry_name, record.position
        if record.kind == "code":
            cell = Cell(
                author="notebook", person=True, code=record.text, cell_number=number, key=key
            )
            self._cells_by_number[number] = cell
            self.append(cell)
            return
        text = record.text[:WORDS]
        if record.kind != "markdown":
            fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(text))])
            text = f"{fence}\n{text}\n{fence}"
        if (omitted := len(record.text) - WORDS) > 0:
            text += f"\n\n… {omitted:,} characters left out"
        self.append(NotebookWords(author="", named=False, source=text, cell_number=number, key=key))

    def _notebook_output(self, record: records.NotebookOutput) -> None:
        cell = self._cells_by_number.get(record.position)
        if cell is not None and cell in self.positions:
            if record.mime:
                cell.output.show(record.text, record.mime, record.data)
            else:
                cell.output.feed(record.kind, record.text)
            self.touch_output(cell)
            self._limit_memory(cell)
