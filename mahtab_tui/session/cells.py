"""Runs, logs, undoes and redoes cells."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Display, Namespace, ReplIn, ReplOut, emit
from mahtab_tui.bus.values import Change, Status, Variable
from mahtab_tui.kernel.base import KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.cells import BoundedCell, describe_restoration
from mahtab_tui.kernel.provenance import Author, Provenance
from mahtab_tui.kernel.values import CellResult, KernelState, Lock, OutputKind, Restoration
from mahtab_tui.session.cell_records import output_attrs, output_records
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.runtime import Runtime

YOU = "you"
"""The party of the user's cells."""
BUSY = "Something is running. Wait, or press Esc, then try again."
MAX_FINISHED_CELLS = 1_000
"""Number of finished cells to remember for agents."""
MAX_REMEMBERED_CHARS = 50_000_000
"""Characters of output to remember for `_out()`."""
_CHANGE_KERNEL_SAVE_S = 5.0
"""Seconds for saving the variables before the interpreter changes."""

FinishedCell = tuple[ReplIn, Status]
Origin = Literal["user", "assistant"]
AuthorKind = Literal["user", "assistant", "agent"]
CellGroup = tuple[int, str, int | None]
"""What the records of one cell's changes share: cell, party and an agent's colour."""


def _author_kind(started: ReplIn) -> AuthorKind:
    if started.guest is not None:
        return "agent"
    return "user" if isinstance(started, records.UserReplIn) else "assistant"


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

    def __init__(
        self,
        runtime: Runtime,
        namespace_store: NamespaceStore,
        private: PrivateNames,
        inbox: Inbox,
    ) -> None:
        self._runtime = runtime
        self._namespace_store = namespace_store
        self._private = private
        self._inbox = inbox
        past_cells = [
            record.cell or 0 for record in runtime.past if isinstance(record, ReplIn | ReplOut)
        ]
        self.last = max(past_cells, default=0)
        """The number of the newest cell."""
        self._number_lock = threading.Lock()
        self.interrupt_listeners: list[Callable[[int], object]] = []
        """Called with the number of each interrupted cell."""
        self._authors: dict[int, tuple[AuthorKind, str]] = {}
        """Kind and name of the author, by cell number."""
        self._running: dict[int, tuple[str, ...]] = {}
        """The private variables that each running cell uses."""
        self._run_lock = threading.Lock()
        """Held while a cell of an agent or the model runs, unless it is nested, so that time limits
        of others do not start."""
        self._approved: set[int] = set()
        """Cells of the user, and those that the user approved."""
        self._read_only: set[int] = set()
        """Cells that ran in a locked fork."""
        self.finished: deque[FinishedCell] = deque(maxlen=MAX_FINISHED_CELLS)
        self.outputs = RememberedOutputs()
        self.provenance = Provenance()
        self._namespace_store.restore_listeners.append(self._note_restored)
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
        """The private variables that the running cells use, each once."""
        # Copied, because other threads start and end cells.
        names_by_cell = list(self._running.values())
        return tuple(dict.fromkeys(itertools.chain.from_iterable(names_by_cell)))

    @property
    def agent_runs(self) -> bool:
        return "agent" in self._running_kinds()

    @property
    def assistant_runs(self) -> bool:
        return "assistant" in self._running_kinds()

    def _running_kinds(self) -> set[AuthorKind]:
        return {self._authors[cell][0] for cell in list(self._running)}

    def foreign_party(self, cell: int | None) -> str | None:
        """Return the author of the running code if it is not the user. While a model's or an
        agent's cell runs, all code is attributed to it."""
        for running_cell in reversed(list(self._running)):
            author_kind, party = self._authors[running_cell]
            if author_kind != "user":
                return party
        if cell not in self._authors:
            return "code that outlives its cell"
        author_kind, party = self._authors[cell]
        return None if author_kind == "user" else party

    def still_means_same(self, name: str) -> bool:
        """Return whether a dotted name means what the user called by it: no code that the user has
        not approved has bound it since."""
        root, _, attribute = name.partition(".")
        author = self.provenance.author(root)
        variable = self.provenance.described(root)
        is_data = variable is not None and variable.kind == "data"
        if author is None or author.party == YOU or author.cell in self._approved:
            # A function that was not compared completely may be another one now.
            return is_data or self.provenance.possible_parties(root) <= {YOU}

        # A locked fork returns plain data, whose methods are those of its type.
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
        on_begin: Callable[[int], object] = lambda cell: None,
        listener: OnOutput | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
        allowed: Collection[str] = (),
        lock: Lock | None = None,
        **attrs: Any,
    ) -> CellResult:
        """Run a cell, and wait for its end.

        Args:
            code: The code.
            origin: Whose code it is. Cells of the model and of agents wait for each other.
            party: The name of its author.
            nested: Whether it runs inside a cell that waits for it.
            bounded: Runs it under a time limit.
            on_begin: Called with the cell's number.
            listener: Gets the output, in addition to the bus.
            is_cancelled: Asked after waiting for another agent's cell.
            allowed: Private variables whose use does not withhold the output.
            lock: How a fork confines it; None if the user has approved the code.
            attrs: Fields of its records.
        """
        with nullcontext() if nested or origin == "user" else self._run_lock:
            if is_cancelled():
                detail = "It was stopped before it could run."
                return CellResult(self.last, Status.INTERRUPTED, "", (), 0.0, (), detail)

            with self._number_lock:
                self.last += 1
                cell = self.last
            if lock is None:
                self._approved.add(cell)
            elif lock == "keep":
                self._read_only.add(cell)

            record_class = records.UserReplIn if origin == "user" else records.AssistantReplIn
            started = record_class(code, cell=cell, party=party, **attrs)
            on_output, on_display = self._output_callbacks(started, listener)
            execute = partial(
                self._runtime.kernel.execute,
                code,
                cell=cell,
                on_output=on_output,
                nested=nested,
                on_display=on_display,
                lock=lock,
            )
            emit(self._runtime.log, started)
            on_begin(cell)
            run: Callable[[], CellResult] = execute
            if bounded is not None:
                run = partial(bounded.run, execute)
            result = self._follow_cell(started, run, nested, allowed)
            assert result is not None
            return result

    def resume_cell(self, started: records.ReplIn, nested: bool) -> None:
        """Wait for the end of a cell that began on an earlier screen, and log it.

        Args:
            started: The record of its start.
            nested: Whether it runs inside another cell.
        """
        cell = started.cell
        assert cell is not None
        on_output, on_display = self._output_callbacks(started)

        def wait() -> CellResult | None:
            if not nested:
                self.resumed_since = started.time or None
            try:
                return self._runtime.kernel.resume_cell(
                    cell, on_output=on_output, on_display=on_display, nested=nested
                )
            finally:
                if not nested:
                    self.resumed_since = None

        result = self._follow_cell(started, wait, nested)
        # The kernel does not know the cell: the screen was closed before it was sent.
        if result is None and cell == self.last:
            _, output_record = output_records(started)
            end_record = output_record(
                **output_attrs(started),
                status=str(Status.DIED),
                detail="The screen was closed before this cell began. It did not run.",
            )
            emit(self._runtime.log, end_record)

    def _output_callbacks(
        self, started: ReplIn, listener: OnOutput | None = None
    ) -> tuple[OnOutput, OnDisplay]:
        cell = started.cell
        piece_record, _ = output_records(started)

        def on_output(kind: OutputKind, text: str) -> None:
            emit(self._runtime.log, piece_record(text, cell=cell, kind=kind))
            if listener is not None:
                listener(kind, text)

        def on_display(display: Display) -> None:
            emit(self._runtime.log, display.changed(cell=cell))

        return on_output, on_display

    def _follow_cell(
        self,
        started: ReplIn,
        run: Callable[[], CellResult | None],
        nested: bool,
        allowed: Collection[str] = (),
    ) -> CellResult | None:
        """Run a cell whose start is logged, and log its end.

        Args:
            started: The record of its start.
            run: Runs it, or waits for its end.
            nested: Whether it runs inside another cell.
            allowed: Private variables whose use does not withhold the output.

        Returns:
            The result; None if the kernel does not know the cell.
        """
        cell = started.cell
        assert cell is not None
        self._authors[cell] = (_author_kind(started), started.party or YOU)

        # The cell counts as running before the kernel is asked, which may take a while.
        self._running[cell] = ()
        private_names = self._private.uses(started.text)
        self._running[cell] = private_names
        try:
            # A nested cell runs inside another, so nothing can be restored now.
            self._namespace_store.before_cell("" if nested else started.text)
            result = run()
        finally:
            del self._running[cell]
            self._namespace_store.after_cell()
        if result is None:
            return None

        result = replace(result, changes=self._with_descriptions_before(result.changes))
        self.finished.append((started, result.status))
        self.outputs.add(cell, result.output)
        is_users_cell = isinstance(started, records.UserReplIn) and not nested
        if is_users_cell and result.status is not Status.OK:
            # Before the end is logged, so that what the user enters after it is not held.
            self._inbox.hold()
        withheld_names = tuple(name for name in private_names if name not in allowed)
        self._log_end(started, result, withheld_names)
        self._runtime.kernel.acknowledge(cell)

        if private_names:
            self._private.refresh()
        self._report_effects(started, result)
        if self._leaving.is_set():
            self._leaving.clear()
            self._runtime.frontend.leave()
        return result

    def _report_effects(self, started: ReplIn, result: CellResult) -> None:
        """Tell others what the end of a cell means for them: its calls, and the namespace."""
        if result.status is Status.INTERRUPTED:
            for on_interrupt in self.interrupt_listeners:
                on_interrupt(result.cell)
        if result.status in (Status.KILLED, Status.DIED):
            self.forget()
            self._namespace_store.log_pending()
        elif result.changes:
            party = started.party or YOU
            self._report_changes(result.cell, party, result.changes, started.guest)

    def _log_end(
        self, started: ReplIn, result: CellResult, withheld_names: tuple[str, ...]
    ) -> None:
        """Log the end of a cell. withheld_names: private variables that its output may show."""
        _, output_record = output_records(started)
        end_record = output_record(
            result.output,
            **{**output_attrs(started), "party": started.party or YOU},
            status=str(result.status),
            duration=round(result.duration, 4),
            kinds=result.kinds,
            detail=result.detail,
            frames=result.frames or None,
            private=withheld_names or None,
            rewritten=result.rewritten,
        )
        emit(self._runtime.log, end_record)

    def leave(self) -> None:
        """Close the program once the running cell has ended. Raises `RuntimeError` in an agent's
        cell, unless the session is the agent's own."""
        if self.agent_runs and not self._runtime.frontend.belongs_to_agent:
            raise RuntimeError(
                "The session belongs to the user: exit() in an agent's code does not end it."
            )
        self._leaving.set()

    def follow(self, state: KernelState) -> None:
        """Forget the variables of a kernel that has died, and restore them in the next one."""
        if state is KernelState.DEAD:
            self._dead = True
            self._namespace_store.kernel_died()
            self.provenance = Provenance()
            emit(self._runtime.log, Namespace(fresh=True, cell=self.last, party=YOU))
        elif state is KernelState.IDLE and self._dead:
            self._dead = False
            self.announce_existing(self._list_variables(), fresh=False)
            self._namespace_store.start_restore()

    def forget(self) -> None:
        """Forget who set the names, and log the names that the kernel has now."""
        self.provenance = Provenance()
        self.announce_existing(self._list_variables())

    def reset_kernel(self) -> None:
        """Start a new kernel without variables. Raises `KernelError`."""
        self._runtime.kernel.reset()
        self.forget()
        self._namespace_store.forget()

    def change_kernel(self, change: Callable[[], object]) -> None:
        """Save the variables, change the interpreter, and restore them. Raises `KernelError`."""
        self._namespace_store.save(_CHANGE_KERNEL_SAVE_S)
        change()
        self.forget()
        self._namespace_store.start_restore()

    def announce_existing(self, variables: Sequence[Variable], *, fresh: bool = True) -> None:
        """Log names that no cell has created. fresh: whether there are no other names."""
        self.provenance.describe_existing(variables)
        changes = _as_added(variables)
        emit(self._runtime.log, Namespace(fresh=fresh, changes=changes, cell=0, party=YOU))

    def announce_restored(self, last_records: Mapping[str, Namespace]) -> None:
        """Log the names of a reattached kernel with the cells that set them.

        Args:
            last_records: The last record that set each name.

        Raises:
            KernelError: The kernel did not answer.
        """
        with self._names_lock:
            variables_by_cell: dict[CellGroup, list[Variable]] = {}
            unknown_variables: list[Variable] = []
            group: CellGroup
            for variable in self._runtime.kernel.variables():
                author = self.provenance.author(variable.name)
                record = last_records.get(variable.name)
                if author is not None:
                    # Set by a cell that ended after this screen attached.
                    group = (author.cell, author.party, None)
                elif record is not None:
                    group = (record.cell or 0, record.party or YOU, record.guest)
                else:
                    unknown_variables.append(variable)
                    continue
                variables_by_cell.setdefault(group, []).append(variable)

            self.announce_existing(unknown_variables)
            for (cell, party, guest), variables in variables_by_cell.items():
                changes = _as_added(variables)
                new_changes = [
                    change for change in changes if self.provenance.author(change.name) is None
                ]
                self.provenance.fold(cell, party, new_changes)
                restored = Namespace(
                    changes=changes,
                    cell=cell,
                    party=party,
                    guest=guest,
                    restored=True,
                )
                emit(self._runtime.log, restored)

    def _list_variables(self) -> list[Variable]:
        try:
            return self._runtime.kernel.variables()
        except KernelError:  # the kernel's state was already logged
            return []

    def _with_descriptions_before(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        with self._names_lock:
            described = self.provenance.described
            return tuple(
                Change(
                    change.name,
                    change.change,
                    change.variable,
                    described(change.name),
                    change.columns,
                )
                for change in changes
            )

    def _note_restored(
        self, cell: int | None, party: str | None, changes: Sequence[Change]
    ) -> None:
        """Remember who had set the names that came back into the kernel, as far as it is known."""
        with self._names_lock:
            if cell is None:
                variables = [change.variable for change in changes if change.variable is not None]
                self.provenance.describe_existing(variables)
            else:
                self.provenance.fold(cell, party or YOU, changes)

    def _report_changes(
        self, cell: int, party: str, changes: tuple[Change, ...], guest: int | None
    ) -> None:
        with self._names_lock:
            self.provenance.fold(cell, party, changes)
            record = Namespace(changes=changes, cell=cell, party=party, guest=guest)
            self._namespace_store.follow_changes(record)
            emit(self._runtime.log, record)


class UndoControl:
    """Undoes and redoes cells. Methods wait for the kernel and raise `KernelError`."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        namespace_store: NamespaceStore,
        is_answering: Callable[[], bool],
    ) -> None:
        """is_answering: whether the model answers a question."""
        self._runtime = runtime
        self._cells = cells
        self._namespace_store = namespace_store
        self._is_answering = is_answering
        self._lock = threading.Lock()
        self._undone: set[int] = set()
        self._last: tuple[tuple[int, ...], Provenance] | None = None
        """The cells of the last undo, and the authors of names before it."""

    def last_step(self) -> int:
        """Return the cell that ran last, or the first cell of its answer."""
        cells = [step.cell for step in self._runtime.kernel.undo_steps()]
        if not cells:
            raise KernelError("There is nothing to undo.")

        turns = {started.cell: started.turn for started, _ in list(self._cells.finished)}
        first_cell = cells[-1]
        turn = turns.get(first_cell)
        if turn is None:
            return first_cell
        for cell in reversed(cells):
            if turns.get(cell) != turn:
                break
            first_cell = cell
        return first_cell

    def cells_from(self, cell: int) -> tuple[int, ...]:
        """Return a cell and those after it, without those already undone."""
        numbers = range(max(cell, 1), self._cells.last + 1)
        cells = tuple(number for number in numbers if number not in self._undone)
        if not cells:
            raise KernelError(f"There is nothing to undo from cell {cell} on.")
        return cells

    def undo(self, cell: int, *, during_turn: bool = False) -> Restoration:
        """Restore the namespace to the state before a cell.

        Args:
            cell: The first cell to undo; those after it are undone, too.
            during_turn: Whether this is allowed while a question is being answered.
        """
        with self._lock:
            self._refuse_while_running(turns=not during_turn)
            restoration = self._runtime.kernel.undo(cell)
            undone_cells = self.cells_from(cell)
            self._last = (undone_cells, self._cells.provenance)
            self._undone.update(undone_cells)
            self._cells.provenance = self._cells.provenance.before(cell)
            self._report(undone_cells, restoration, f"before cell {cell} ran", undone=True)
            return restoration

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since."""
        with self._lock:
            self._refuse_while_running()
            if self._last is None:
                raise KernelError("There is nothing to redo.")
            restoration = self._runtime.kernel.redo()
            cells, provenance = self._last
            self._last = None
            self._cells.provenance = provenance
            self._undone.difference_update(cells)
            self._report(cells, restoration, "before the undo", undone=False)
            return restoration

    def _refuse_while_running(self, *, turns: bool = True) -> None:
        if self._cells.running or (turns and self._is_answering()):
            raise KernelError(BUSY)

    def _report(
        self, cells: tuple[int, ...], restoration: Restoration, moment: str, *, undone: bool
    ) -> None:
        """Log an undo or a redo, and the changes that it made.

        Args:
            cells: The cells that were undone or redone.
            restoration: What was restored.
            moment: That of the restored state, such as ``before cell 2 ran``.
            undone: Whether this was an undo.
        """
        self._namespace_store.schedule_write()
        auxiliary = "was" if len(cells) == 1 else "were"
        verb = "undone" if undone else "redone"
        sentence = f"{name_cells(cells).capitalize()} {auxiliary} {verb}."
        text = f"{sentence} {describe_restoration(restoration, moment)}"
        emit(self._runtime.log, records.Undo(text, cells=cells, undone=undone))

        changes_by_author: dict[Author | None, list[Change]] = {}
        for change in restoration.changes:
            # Skip the environment, random numbers, and settings of libraries.
            if change.variable is None or change.variable.type:
                author = self._cells.provenance.author(change.name)
                changes_by_author.setdefault(author, []).append(change)
        for author, changes in changes_by_author.items():
            party = author.party if author else YOU
            cell = author.cell if author else 0
            record = Namespace(changes=tuple(changes), cell=cell, party=party, restored=True)
            emit(self._runtime.log, record)


def _as_added(variables: Iterable[Variable]) -> tuple[Change, ...]:
    return tuple(Change(variable.name, "added", variable) for variable in variables)


def name_cells(cells: Sequence[int]) -> str:
    """Name cells that follow each other, as in ``cells 2 to 4``."""
    if len(cells) == 1:
        return f"cell {cells[0]}"
    return f"cells {cells[0]} to {cells[-1]}"
