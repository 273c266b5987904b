"""Runs, logs, undoes and redoes cells."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Namespace, Record, ReplIn, ReplOut, emit
from mahtab_tui.kernel.base import (
    Author,
    CellResult,
    Change,
    Display,
    KernelError,
    KernelState,
    Lock,
    OnDisplay,
    OnOutput,
    Origin,
    OutputKind,
    Provenance,
    Restoration,
    Status,
    Variable,
)
from mahtab_tui.kernel.cells import BoundedCell, describe_restoration
from mahtab_tui.session.info import change_row, variable_row

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components


def unfinished_cells(past: Sequence[Record]) -> list[ReplIn]:
    """Return the cells whose end is not in the records, oldest first."""
    ended = {record.cell for record in past if isinstance(record, ReplOut) and not record.late}
    return [
        record
        for record in past
        if isinstance(record, ReplIn) and record.cell is not None and record.cell not in ended
    ]


def output_attrs(started: ReplIn) -> dict[str, Any]:
    """Return the fields that the records of a cell's output and code share."""
    names = {field.name for field in fields(records.CellRecord)} - {"text", "time"}
    return {name: value for name in names if (value := getattr(started, name)) is not None}


def last_changes(past: Sequence[Record]) -> dict[str, Namespace]:
    """Return the last cell's record for each name that a cell has set."""
    found: dict[str, Namespace] = {}
    records = [record for record in past if isinstance(record, Namespace)]
    # The previous screen detached the kernel, so its names are not lost.
    if records and records[-1].fresh and records[-1].cell:
        records.pop()
    for record in records:
        if record.fresh:
            found.clear()
        for change in record.changes:
            if change.change == "deleted" or not record.cell:
                found.pop(change.name, None)
            elif change.change != "perhaps":
                found[change.name] = record
    return found


def output_records(started: ReplIn) -> tuple[type[records.ReplOutStream], type[ReplOut]]:
    """Return the record classes for a piece of output, and for the whole output."""
    if isinstance(started, records.UserReplIn):
        return records.UserReplOutStream, records.UserReplOut
    return records.AssistantReplOutStream, records.AssistantReplOut


YOU = "you"
_SAVE_SECONDS = 5.0
"""Seconds for saving the variables before the interpreter changes."""

REMEMBERED = 1_000
"""Number of finished cells to remember for agents."""

FinishedCell = tuple[ReplIn, Status]

MAX_REMEMBERED_CHARS = 50_000_000
"""Characters of output to remember for `_out()`."""


class RememberedOutputs:
    """What the newest cells of this session printed, by cell number. Any thread may use it."""

    def __init__(self, max_chars: int = MAX_REMEMBERED_CHARS) -> None:
        self._max_chars = max_chars
        self._lock = threading.Lock()
        self._outputs: dict[int, str] = {}
        self._chars = 0

    def add(self, cell: int, output: str) -> None:
        with self._lock:
            self._outputs[cell] = output
            self._chars += len(output)
            while self._chars > self._max_chars and len(self._outputs) > 1:
                oldest_cell = next(iter(self._outputs))
                self._chars -= len(self._outputs.pop(oldest_cell))

    def get(self, cell: int) -> str | None:
        with self._lock:
            return self._outputs.get(cell)


class Cells:
    """Numbers and runs all cells of a session."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._kernel = parts.kernel
        self._namespace_store = parts.namespace_store
        self._private = parts.private
        self._inbox = parts.inbox
        self._frontend = parts.frontend
        cells = (each for each in parts.past if isinstance(each, ReplIn | ReplOut))
        self.last = max((cell.cell or 0 for cell in cells), default=0)
        """The number of the newest cell."""
        self._number_lock = threading.Lock()
        self.interrupted: list[Callable[[int], object]] = []
        """Called with the number of each interrupted cell."""
        self._authors: dict[int, tuple[str, str]] = {}
        """Kind ("user", "assistant", "agent") and name, by cell number."""
        self._running: dict[int, tuple[str, ...]] = {}
        """The private variables that each running cell uses."""
        self._run_lock = threading.Lock()
        """Held while a cell of an agent or the model runs, unless it is nested, so that time limits
        of others do not start."""
        self._approved: set[int] = set()
        """Cells of the user, and those that the user approved."""
        self._read_only: set[int] = set()
        """Cells that ran in a locked fork."""
        self.finished: deque[FinishedCell] = deque(maxlen=REMEMBERED)
        self.outputs = RememberedOutputs()
        self.provenance = Provenance()
        self._names_lock = threading.Lock()
        """Held while authors of names are logged, so that a list of names does not arrive after
        newer changes."""
        self.resumed_since: float | None = None
        """Start time (epoch) of a cell that an earlier screen left running."""
        self._dead = False
        self._leaving = threading.Event()
        """Set when a cell has called `exit()`."""

    @property
    def running(self) -> bool:
        return bool(self._running)

    @property
    def private_in_use(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(itertools.chain.from_iterable(list(self._running.values()))))

    @property
    def agent_runs(self) -> bool:
        return "agent" in self._running_kinds()

    @property
    def assistant_runs(self) -> bool:
        return "assistant" in self._running_kinds()

    def _running_kinds(self) -> set[str]:
        return {self._authors[cell][0] for cell in list(self._running)}

    def foreign_party(self, cell: int | None) -> str | None:
        """Return the author of the running code if it is not the user. While a model's or an
        agent's cell runs, all code is attributed to it."""
        authors = [self._authors.get(cell or 0, ("", "code that outlives its cell"))]
        authors += [self._authors[each] for each in list(self._running)]
        return next((party for kind, party in reversed(authors) if kind != "user"), None)

    def still_means_same(self, name: str) -> bool:
        """Return whether a dotted name means what the user called by it: no code that the user has
        not approved has bound it since."""
        root, _, attribute = name.partition(".")
        author = self.provenance.author(root)
        if author is None or author.party == YOU or author.cell in self._approved:
            return True

        # A locked fork returns plain data, whose methods are those of its type.
        variable = self.provenance.described(root)
        is_data = variable is not None and variable.kind == "data"
        is_method_of_data = bool(attribute) and is_data
        return is_method_of_data and author.cell in self._read_only

    def run(
        self,
        code: str,
        *,
        origin: Origin = "user",
        party: str = YOU,
        nested: bool = False,
        bounded: BoundedCell | None = None,
        on_begin: Callable[[int], None] = lambda cell: None,
        listener: OnOutput | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        allowed: Collection[str] = (),
        lock: Lock | None = None,
        **attrs: Any,
    ) -> CellResult:
        """Run a cell to its end. on_begin: called with its number. listener: gets the output, in
        addition to the bus. is_cancelled: asked after waiting for another agent's cell. allowed:
        private variables whose use does not withhold the output. attrs: fields of its records."""
        with nullcontext() if nested or origin == "user" else self._run_lock:
            if is_cancelled():
                detail = "It was stopped before it could run."
                return CellResult(self.last, Status.INTERRUPTED, "", (), 0.0, (), detail)
            with self._number_lock:
                cell = self.last = self.last + 1
            if lock is None:
                self._approved.add(cell)
            elif lock == "keep":
                self._read_only.add(cell)
            code_record = records.UserReplIn if origin == "user" else records.AssistantReplIn
            started = code_record(code, cell=cell, party=party, **attrs)
            on_output, on_display = self._output_callbacks(started, listener)
            execute = partial(
                self._kernel.execute,
                code,
                cell=cell,
                on_output=on_output,
                nested=nested,
                on_display=on_display,
                lock=lock,
            )
            emit(self._log, started)
            on_begin(cell)
            run = execute if bounded is None else partial(bounded.run, execute)
            result = self._follow_cell(started, run, nested, allowed)
            assert result is not None
            return result

    def resume_cell(self, started: records.ReplIn, nested: bool) -> None:
        """Wait for the end of a cell that began on an earlier screen, and log it. nested: it runs
        inside another cell."""
        cell = started.cell
        assert cell is not None
        on_output, on_display = self._output_callbacks(started)

        def wait() -> CellResult | None:
            if not nested:
                self.resumed_since = started.time or None
            try:
                return self._kernel.resume_cell(
                    cell, on_output=on_output, on_display=on_display, nested=nested
                )
            finally:
                if not nested:
                    self.resumed_since = None

        if self._follow_cell(started, wait, nested) is None and cell == self.last:
            ended = output_records(started)[1](
                **output_attrs(started),
                status=str(Status.DIED),
                detail="The screen was closed before this cell began. It did not run.",
            )
            emit(self._log, ended)

    def _output_callbacks(
        self, started: ReplIn, listener: OnOutput | None = None
    ) -> tuple[OnOutput, OnDisplay]:
        cell, (piece, _) = started.cell, output_records(started)

        def on_output(kind: OutputKind, text: str) -> None:
            emit(self._log, piece(text, cell=cell, kind=kind))
            if listener is not None:
                listener(kind, text)

        def on_display(display: Display) -> None:
            record = records.Display(
                display.text,
                cell=cell,
                mime=display.mime,
                data=display.data,
                value=display.value,
                name=display.name,
                action=display.action,
            )
            emit(self._log, record)

        return on_output, on_display

    def _follow_cell(
        self,
        started: ReplIn,
        run: Callable[[], CellResult | None],
        nested: bool,
        allowed: Collection[str] = (),
    ) -> CellResult | None:
        """Run a cell whose start is logged, and log its end."""
        cell, code, guest, party = started.cell, started.text, started.guest, started.party or YOU
        assert cell is not None
        origin = "user" if isinstance(started, records.UserReplIn) else "assistant"
        self._authors[cell] = origin if guest is None else "agent", party
        self._running[cell] = ()  # before the kernel is asked, which may take a while
        self._running[cell] = used = self._private.uses(code)
        try:
            # A nested cell runs inside another, so nothing can be restored now.
            self._namespace_store.before_cell("" if nested else code)
            result = run()
        finally:
            del self._running[cell]
            self._namespace_store.after_cell()
        if result is None:
            return None
        result = replace(result, changes=self._with_descriptions_before(result.changes))
        self.finished.append((started, result.status))
        self.outputs.add(cell, result.output)
        if origin == "user" and not nested and result.status is not Status.OK:
            # Before the end is logged, so that what the user enters after it is not held.
            self._inbox.hold()
        ended = output_records(started)[1](
            result.output,
            **{**output_attrs(started), "party": party},
            status=str(result.status),
            duration=round(result.duration, 4),
            kinds=result.kinds,
            detail=result.detail,
            frames=tuple((each.file, each.line, each.function, each.row) for each in result.frames)
            or None,
            private=tuple(name for name in used if name not in allowed) or None,
            rewritten=result.rewritten,
        )
        emit(self._log, ended)
        self._kernel.acknowledge(cell)
        if used:
            self._private.refresh()
        if result.status is Status.INTERRUPTED:
            for interrupted in self.interrupted:
                interrupted(cell)
        if result.status in (Status.KILLED, Status.DIED):
            self.forget()
            self._namespace_store.show()
        elif result.changes:
            self._report_changes(cell, party, result.changes, guest)
        if self._leaving.is_set():
            self._leaving.clear()
            self._frontend.leave()
        return result

    def leave(self) -> None:
        """Close the program once the running cell has ended. Raises `RuntimeError` in an agent's
        cell, unless the session is the agent's own."""
        if self.agent_runs and not self._frontend.belongs_to_agent:
            raise RuntimeError(
                "The session belongs to the user: exit() in an agent's code does not end it."
            )
        self._leaving.set()

    def follow(self, state: KernelState) -> None:
        if state is KernelState.DEAD:
            self._dead = True
            self._namespace_store.kernel_died()
            self.provenance = Provenance()
            emit(self._log, Namespace(fresh=True, cell=self.last, party=YOU))
        elif state is KernelState.IDLE and self._dead:
            self._dead = False
            self.announce_existing(self._list_variables(), fresh=False)
            self._namespace_store.start_restore()

    def forget(self) -> None:
        self.provenance = Provenance()
        self.announce_existing(self._list_variables())

    def reset_kernel(self) -> None:
        """Raises `KernelError`."""
        self._kernel.reset()
        self.forget()
        self._namespace_store.forget()

    def change_kernel(self, change: Callable[[], object]) -> None:
        """Save the variables, change the interpreter, and restore them. Raises `KernelError`."""
        self._namespace_store.save(_SAVE_SECONDS)
        change()
        self.forget()
        self._namespace_store.start_restore()

    def announce_existing(self, variables: Sequence[Variable], *, fresh: bool = True) -> None:
        """Log names that no cell has created. fresh: whether there are no other names."""
        rows = tuple(map(variable_row, variables))
        emit(self._log, Namespace(fresh=fresh, changes=rows, cell=0, party=YOU))

    def announce_restored(self, makers: Mapping[str, Namespace]) -> None:
        """Log the names of a reattached kernel. makers: the last record that set each name. Raises
        `KernelError`."""
        with self._names_lock:
            made: dict[tuple[int, str, int | None], list[Variable]] = {}
            others: list[Variable] = []
            for variable in self._kernel.variables():
                author, record = self.provenance.author(variable.name), makers.get(variable.name)
                if author is not None:  # a cell that ended after this screen attached
                    made.setdefault((author.cell, author.party, None), []).append(variable)
                elif record is not None:
                    key = record.cell or 0, record.party or YOU, record.guest
                    made.setdefault(key, []).append(variable)
                else:
                    others.append(variable)
            self.announce_existing(others)
            for (cell, party, guest), each in made.items():
                new = [
                    Change(variable.name, "added", variable)
                    for variable in each
                    if self.provenance.author(variable.name) is None
                ]
                self.provenance.fold(cell, party, new)
                about: dict[str, Any] = {"cell": cell, "party": party, "guest": guest}
                rows = tuple(map(variable_row, each))
                emit(self._log, Namespace(changes=rows, restored=True, **about))

    def _list_variables(self) -> list[Variable]:
        try:
            return self._kernel.variables()
        except KernelError:  # the kernel's state was already logged
            return []

    def _with_descriptions_before(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        with self._names_lock:
            return tuple(
                replace(change, before=self.provenance.described(change.name)) for change in changes
            )

    def _report_changes(
        self, cell: int, party: str, changes: Sequence[Change], guest: int | None
    ) -> None:
        with self._names_lock:
            rows = tuple(change_row(change, change.before) for change in changes)
            self.provenance.fold(cell, party, changes)
            record = Namespace(changes=rows, cell=cell, party=party, guest=guest)
            self._namespace_store.names_made(record)
            emit(self._log, record)


BUSY = "Something is running. Wait, or press Esc, then try again."


class Undo:
    """Undoes and redoes cells. Methods wait for the kernel and raise `KernelError`."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._cells = parts.cells
        self._lock = threading.Lock()
        self._undone: set[int] = set()
        self._last: tuple[tuple[int, ...], Provenance] | None = None
        """The cells of the last undo, and the authors of names before it."""

    def last_step(self) -> int:
        """Return the cell that ran last, or the first cell of its answer."""
        steps = [step.cell for step in self._parts.kernel.undo_steps()]
        if not steps:
            raise KernelError("There is nothing to undo.")
        turns = {started.cell: started.turn for started, _ in list(self._parts.cells.finished)}
        turn = turns.get(steps[-1])
        if turn is None:
            return steps[-1]
        return list(itertools.takewhile(lambda cell: turns.get(cell) == turn, reversed(steps)))[-1]

    def cells_from(self, cell: int) -> tuple[int, ...]:
        """Return a cell and those after it, without those already undone."""
        numbers = range(max(cell, 1), self._cells.last + 1)
        found = tuple(number for number in numbers if number not in self._undone)
        if not found:
            raise KernelError(f"There is nothing to undo from cell {cell} on.")
        return found

    def undo(self, cell: int, *, during_turn: bool = False) -> Restoration:
        """Restore the namespace to the state before a cell. during_turn: even while a question is
        being answered."""
        with self._lock:
            self._refuse_while_running(turns=not during_turn)
            restored = self._parts.kernel.undo(cell)
            undone = self.cells_from(cell)
            self._last = undone, self._cells.provenance
            self._undone.update(undone)
            self._cells.provenance = self._cells.provenance.before(cell)
            self._report(undone, restored, f"before cell {cell} ran", undone=True)
            return restored

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since."""
        with self._lock:
            self._refuse_while_running()
            if self._last is None:
                raise KernelError("There is nothing to redo.")
            restored = self._parts.kernel.redo()
            cells, self._cells.provenance = self._last
            self._last = None
            self._undone.difference_update(cells)
            self._report(cells, restored, "before the undo", undone=False)
            return restored

    def _refuse_while_running(self, *, turns: bool = True) -> None:
        if self._cells.running or (turns and self._parts.agent.in_turn):
            raise KernelError(BUSY)

    def _report(
        self, cells: tuple[int, ...], restored: Restoration, moment: str, *, undone: bool
    ) -> None:
        """Log an undo or a redo, and the changes that it made. moment: that of the restored state, such
        as ``before cell 2 ran``."""
        self._parts.namespace_store.schedule_write()
        subject = f"{name_cells(cells).capitalize()} {'was' if len(cells) == 1 else 'were'}"
        verb = "undone" if undone else "redone"
        text = f"{subject} {verb}. {describe_restoration(restored, moment)}"
        emit(self._parts.log, records.Undo(text, cells=cells, undone=undone))
        by_author: dict[Author | None, list[Change]] = {}
        for change in restored.changes:
            # Skip the environment, random numbers, and settings of libraries.
            if change.variable is None or change.variable.type:
                by_author.setdefault(self._cells.provenance.author(change.name), []).append(change)
        for author, changes in by_author.items():
            rows = tuple(change_row(change, change.before) for change in changes)
            party, cell = (author.party, author.cell) if author else (YOU, 0)
            emit(self._parts.log, Namespace(changes=rows, cell=cell, party=party, restored=True))


def restored_rows(changes: Iterable[Change]) -> tuple[records.Change, ...]:
    """Convert restored changes for records. Removed names keep their current description."""
    return tuple(
        variable_row(change.before, change.change)
        if change.variable is None and change.before is not None
        else change_row(change, change.before)
        for change in changes
    )


def not_restored_rows(restoration: Restoration) -> tuple[records.NotRestored, ...]:
    return tuple(records.NotRestored(each.name, each.reason) for each in restoration.not_restored)


def name_cells(cells: Sequence[int]) -> str:
    return f"cell {cells[0]}" if len(cells) == 1 else f"cells {cells[0]} to {cells[-1]}"
