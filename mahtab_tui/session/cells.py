"""Numbers, runs and logs cells."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import DisplayRecord, ReplIn, ReplOut, emit
from mahtab_tui.bus.values import Status, describe_files
from mahtab_tui.kernel.base import OnDisplay, OnOutput
from mahtab_tui.kernel.bounded_cell import BoundedCell
from mahtab_tui.kernel.values import CellResult, KernelState, Lock, OutputKind
from mahtab_tui.session.cell_outputs import RememberedOutputs
from mahtab_tui.session.cell_records import last_ended_cell, output_attrs, output_records
from mahtab_tui.session.cell_turns import CellTurns
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.name_authors import YOU, NameAuthors
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.runtime import Runtime

MAX_FINISHED_CELLS = 1_000
"""Number of finished cells to remember for agents."""
_CHANGE_KERNEL_SAVE_S = 5.0
"""Seconds for saving the variables before the interpreter changes."""

Origin = Literal["user", "assistant"]
"""Whose code a cell is. "assistant" is the model, or an agent that has joined."""


class FinishedCell(NamedTuple):
    """A cell that has ended."""

    started: ReplIn
    """The record of its start."""
    status: Status


class _CellAuthor(NamedTuple):
    """The author of a cell's code."""

    kind: Literal["user", "assistant", "agent"]
    party: str
    """"you", the model's short name, or an agent's name."""

    @classmethod
    def of(cls, started: ReplIn) -> _CellAuthor:
        """Return the author of a cell.

        Args:
            started: The record of the cell's start.
        """
        party = started.party or YOU
        if started.guest is not None:
            return cls("agent", party)
        if isinstance(started, records.UserReplIn):
            return cls("user", party)
        return cls("assistant", party)


class Cells:
    """Numbers and runs all cells of a session. Any thread may call it."""

    def __init__(
        self,
        runtime: Runtime,
        namespace_store: NamespaceStore,
        private: PrivateNames,
        inbox: Inbox,
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            namespace_store: Saves the variables, and restores them in a new kernel.
            private: The private variables, whose use withholds a cell's output.
            inbox: The queue of cells, which waits after one that has failed.
        """
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
        self._author_by_cell: dict[int, _CellAuthor] = {}
        self._approved: set[int] = set()
        """Cells of the user, and those that the user approved."""
        self._read_only: set[int] = set()
        """Cells that ran in a locked fork."""

        self._running: dict[int, tuple[str, ...]] = {}
        """The private variables that each running cell uses."""
        self._turns = CellTurns()
        """Those of cells that are not nested. A user's cell that began in the turn of an agent's would
        count as the agent's, and so would an agent's time limit begin during another cell."""
        self._nested_turns = CellTurns()
        """Those of nested cells of an agent or the model: of several, the kernel could interrupt only
        one, and all output would be that of one."""
        self.resumed_at: float | None = None
        """Start time (epoch) of a cell that an earlier screen left running."""
        self.interrupt_listeners: list[Callable[[int], object]] = []
        """Called with the number of each interrupted cell."""

        self.finished: deque[FinishedCell] = deque(maxlen=MAX_FINISHED_CELLS)
        self.outputs = RememberedOutputs()
        self.authors = NameAuthors(runtime, namespace_store)
        """Who has set the names of the namespace."""
        self._kernel_has_died = False
        self._leaving = threading.Event()
        """Set when a cell has called `exit()`."""

    @property
    def running(self) -> bool:
        """Whether a cell runs."""
        return bool(self._running)

    @property
    def running_numbers(self) -> frozenset[int]:
        """The numbers of the running cells."""
        # Copied, because other threads start and end cells.
        return frozenset(list(self._running))

    @property
    def private_in_use(self) -> tuple[str, ...]:
        """The private variables that the running cells use, each once."""
        # Copied, because other threads start and end cells.
        names_by_cell = list(self._running.values())
        return tuple(dict.fromkeys(itertools.chain.from_iterable(names_by_cell)))

    @property
    def agent_runs(self) -> bool:
        """Whether a cell of an agent that has joined runs."""
        return any(author.kind == "agent" for author in self._running_authors())

    @property
    def assistant_runs(self) -> bool:
        """Whether a cell of the model runs."""
        return any(author.kind == "assistant" for author in self._running_authors())

    @property
    def runs_unapproved_code(self) -> bool:
        """Whether a cell of a model or an agent runs that the user has not approved."""
        return any(
            self._author_by_cell[cell].kind != "user" and cell not in self._approved
            for cell in list(self._running)
        )

    def _running_authors(self) -> list[_CellAuthor]:
        """Return the authors of the running cells, the outermost cell first."""
        return [self._author_by_cell[cell] for cell in list(self._running)]

    def foreign_party(self, cell: int | None) -> str | None:
        """Return the author of the running code if it is not the user.

        While a model's or an agent's cell runs, all code is attributed to it.
        """
        for author in reversed(self._running_authors()):
            if author.kind != "user":
                return author.party

        if cell not in self._author_by_cell:
            return "code that outlives its cell"
        author = self._author_by_cell[cell]
        return None if author.kind == "user" else author.party

    def still_means_same(self, name: str) -> bool:
        """Return whether a dotted name means what the user called by it: no code that the user has
        not approved has bound it since."""
        root, _, attribute = name.partition(".")
        provenance = self.authors.provenance
        # After a deletion, a name may stand for a built-in function.
        author = provenance.author(root) or provenance.deleter(root)
        variable = provenance.described(root)
        is_data = variable is not None and variable.kind == "data"
        if author is None or author.party == YOU or author.cell in self._approved:
            # A function that was not compared completely may be another one now.
            return is_data or provenance.possible_parties(root) <= {YOU}

        # A locked fork returns plain data, whose methods are those of its type.
        is_method_of_data = bool(attribute) and is_data
        return is_method_of_data and author.cell in self._read_only

    def run(
        self,
        code: str,
        *,
        origin: Origin = "user",
        party: str = YOU,
        is_nested: Callable[[], bool] = lambda: False,
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
            origin: The kind of its author. Cells that are not nested run in the order in
                which they asked; nested ones of the model and of agents wait for each other.
            party: The name of its author.
            is_nested: Returns whether a cell waits for its author now, so that it runs inside that one.
            bounded: Runs it under a time limit.
            on_begin: Called with the cell's number.
            listener: Gets the output, in addition to the bus.
            is_cancelled: Returns whether it need not run any more, after waiting for other cells.
            allowed: Private variables whose use does not withhold the output.
            lock: How a fork confines it; None if the user has approved the code.
            attrs: Fields of its records.
        """
        agents_turn = self._agents_turn(is_nested, is_cancelled)
        with nullcontext(False) if origin == "user" else agents_turn as nested:
            if nested is None:
                detail = "It was stopped before it could run."
                return CellResult(self.last, Status.INTERRUPTED, "", (), 0.0, (), detail)

            cell = self._number_cell(lock)
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

            with ExitStack() as users_turn:
                run: Callable[[], CellResult] = execute
                if origin == "user":
                    run = partial(self._run_in_turn, execute, users_turn)
                if bounded is not None:
                    run = partial(bounded.run, execute, cell)
                result = self._follow_cell(started, run, nested, allowed)
            # Only a resumed cell can be unknown to the kernel.
            assert result is not None
            return result

    def _run_in_turn(self, execute: Callable[[], CellResult], users_turn: ExitStack) -> CellResult:
        """Run a cell of the user's when its turn has come.

        It counts as running before, and its turn ends with `users_turn`: after the records of its
        end, so that no cell begins between them.
        """
        users_turn.enter_context(self._turns.take())
        return execute()

    def run_unrecorded(
        self, code: str, is_nested: Callable[[], bool], is_cancelled: Callable[[], bool]
    ) -> None:
        """Run code of the program's own, which is no cell, for an agent.

        The last two parameters are those of `run`.
        """
        with self._agents_turn(is_nested, is_cancelled) as nested:
            if nested is not None:
                self._runtime.kernel.execute(
                    code, cell=0, on_output=lambda kind, text: None, nested=nested
                )

    @contextmanager
    def _agents_turn(
        self, is_nested: Callable[[], bool], is_cancelled: Callable[[], bool]
    ) -> Iterator[bool | None]:
        """Wait for the turn of a cell of an agent or the model.

        Within this context, no other cell at the same level runs.

        Args:
            is_nested: Returns whether a cell waits for the agent now.
            is_cancelled: Returns whether to wait no longer.

        Yields:
            Whether the agent's cell runs inside another one; None if it need not run any more.
        """
        while not is_cancelled():
            nested = is_nested()
            turns = self._nested_turns if nested else self._turns

            def gives_up(nested: bool = nested) -> bool:
                return is_nested() != nested or is_cancelled()

            with turns.take(gives_up) as has_turn:
                if has_turn and not gives_up():
                    yield nested
                    return
        yield None

    def _number_cell(self, lock: Lock | None) -> int:
        """Return the number of a new cell.

        Args:
            lock: How a fork confines the cell; None if the cell was approved.
        """
        with self._number_lock:
            self.last += 1
            cell = self.last
        if lock is None:
            self._approved.add(cell)
        elif lock == "keep":
            self._read_only.add(cell)
        return cell

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
                self.resumed_at = started.time or None
            try:
                # It runs already, so it takes its place in the order, and does not wait.
                with nullcontext() if nested else self._turns.take(lambda: True):
                    return self._runtime.kernel.resume_cell(
                        cell, on_output=on_output, on_display=on_display, nested=nested
                    )
            finally:
                if not nested:
                    self.resumed_at = None

        result = self._follow_cell(started, wait, nested)
        # The kernel does not know the cell: the screen was closed before it was sent. Of older cells, it
        # may be unknown how they ended.
        if result is None and cell > last_ended_cell(self._runtime.past):
            end_record = output_records(started).whole(
                **output_attrs(started),
                status=str(Status.DIED),
                detail="The screen was closed before this cell began. It did not run.",
            )
            emit(self._runtime.log, end_record)

    def _output_callbacks(
        self, started: ReplIn, listener: OnOutput | None = None
    ) -> tuple[OnOutput, OnDisplay]:
        """Return the functions that log what a cell prints and displays.

        Args:
            started: The record of the cell's start.
            listener: Gets the output, too.
        """
        cell = started.cell
        piece_record = output_records(started).piece

        def on_output(kind: OutputKind, text: str) -> None:
            emit(self._runtime.log, piece_record(text, cell=cell, kind=kind))
            if listener is not None:
                listener(kind, text)

        def on_display(display: DisplayRecord) -> None:
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
        self._author_by_cell[cell] = _CellAuthor.of(started)

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

        changes = self.authors.with_descriptions_before(result.changes)
        result = replace(result, changes=changes)
        self._note_end(started, result, nested)
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

    def _note_end(self, started: ReplIn, result: CellResult, nested: bool) -> None:
        """Remember a cell that has ended, and hold the queue after a failed cell of the user."""
        self.finished.append(FinishedCell(started, result.status))
        self.outputs.add(result.cell, result.output)
        is_users_cell = isinstance(started, records.UserReplIn) and not nested
        if is_users_cell and result.status is not Status.OK:
            # Before the end is logged, so that what the user enters after it is not held.
            self._inbox.hold()

    def _report_effects(self, started: ReplIn, result: CellResult) -> None:
        """Tell others what the end of a cell means for them: its calls, and the namespace."""
        if result.status is Status.INTERRUPTED:
            for on_interrupt in self.interrupt_listeners:
                on_interrupt(result.cell)
        if result.status in (Status.KILLED, Status.DIED):
            self.authors.relist()
            self._namespace_store.log_pending()
        elif result.changes:
            party = started.party or YOU
            self.authors.report_changes(result.cell, party, result.changes, started.guest)
        if result.files:
            text = describe_files(result.files)
            attrs = {**output_attrs(started), "party": started.party or YOU}
            emit(self._runtime.log, records.FileChanges(text, changes=result.files, **attrs))

    def _log_end(
        self, started: ReplIn, result: CellResult, withheld_names: tuple[str, ...]
    ) -> None:
        """Log the end of a cell.

        Args:
            started: The record of its start.
            result: How it has ended.
            withheld_names: Private variables that its output may show.
        """
        attrs = output_attrs(started) | {"party": started.party or YOU}
        end_record = output_records(started).whole(
            result.output,
            **attrs,
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
        """Close the program once the running cell has ended.

        Raises `RuntimeError` in an agent's cell, unless the session is the agent's own.
        """
        if self.agent_runs and not self._runtime.frontend.belongs_to_agent:
            raise RuntimeError(
                "The session belongs to the user: exit() in an agent's code does not end it."
            )
        self._leaving.set()

    def on_kernel_state(self, state: KernelState) -> None:
        """Forget the variables of a kernel that has died, and restore them in the next one."""
        if state is KernelState.DEAD:
            self._kernel_has_died = True
            self._namespace_store.kernel_died()
            self.authors.forget_dead_kernel(self.last)
        elif state is KernelState.IDLE and self._kernel_has_died:
            self._kernel_has_died = False
            self.authors.relist(forget=False)
            self._namespace_store.start_restore()

    def reset_kernel(self) -> None:
        """Start a new kernel without variables. Raises `KernelError`."""
        self._runtime.kernel.reset()
        self.authors.relist()
        self._namespace_store.forget()

    def change_kernel(self, change: Callable[[], object]) -> None:
        """Save the variables, change the interpreter, and restore them. Raises `KernelError`."""
        self._namespace_store.save(_CHANGE_KERNEL_SAVE_S)
        change()
        self.authors.relist()
        self._namespace_store.start_restore()
