"""The history of a namespace: a step for each cell that can be undone.

Before a cell, a step notes the names of the namespace. If the cell may change objects in place, a fork
of the kernel (`Checkpoint`) keeps their state. An undo compares both and writes back what is different
(`restoring.plan_undo`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from ..cells.reached_names import iter_names, names_in
from ..cells.tracebacks import OUR_FOLDER, describe_safely
from ..guard.loaded_modules import watch_imports
from ..guard.side_effects import (
    PROCESS_EVENTS,
    WATCHED_REMAINS,
    changed_path,
    read_side_effect,
)
from ..link.held_signals import HeldSignals
from ..values.objects import TimeLimitError, address_of, is_class
from .actions import Unrestored
from .checkpoint_memory import UnreadableMemoryError
from .checkpoint_process import Checkpoint, CheckpointError, fork
from .checkpoint_server import Rescue
from .earlier_state import CheckpointResponder
from .graph import Graph, Limits
from .kinds import Kinds
from .libraries import add_snapshots, take_library_snapshot, take_library_snapshots
from .memory import MemorySpan
from .memory_use import MemoryUse, private_bytes
from .open_files import find_library_files
from .plan import Plan
from .process_state import ProcessState
from .restoring import plan_undo
from .side_state import SideState
from .step import Step
from .user_modules import is_of_library
from .written_pages import DirtyPages

MAX_RETAINED_OBJECTS = 3_000
"""Objects that a step keeps alive."""
RETAIN_TIMEOUT_S = 0.1
"""Seconds of computing for finding them."""
MAX_SIDE_EFFECTS = 20
"""Effects outside the kernel that are noted of a cell."""
_RETAIN_LIMITS = Limits(work=MAX_RETAINED_OBJECTS, size=MAX_RETAINED_OBJECTS)

STATE_BEFORE_UNDO = 0
"""In place of a cell, for the state to which a redo returns."""

_AUDIT_FRAMES = 4
"""The frames of `UndoHistory.audit`, of what calls it for an audit event, and of its caller."""


class UndoError(Exception):
    """Something cannot be undone. The message is a sentence for the user."""


class _Undone(NamedTuple):
    """An undo that can be taken back."""

    state_before: Step
    """The state before it, as a step without a cell."""
    removed_steps: list[Step]
    repeated_ends: list[Unrestored]
    """What a redo ends once more: see `Plan.repeated_ends`."""

    @property
    def steps(self) -> list[Step]:
        return [self.state_before, *self.removed_steps]


class UndoHistory:
    """Keeps the steps of a namespace. Used on the thread that runs the cells."""

    def __init__(
        self,
        namespace: dict[str, Any],
        max_steps: int,
        megabytes: int = 1024,
        no_fork: str = "",
        scheduled: Callable[[], Sequence[Any]] = tuple,
        make_rescue: Callable[[], Rescue | None] = lambda: None,
    ) -> None:
        """Begin without steps.

        Args:
            namespace: The user's.
            max_steps: Cells that can be undone.
            megabytes: Memory that the steps may need.
            no_fork: Why the kernel cannot be forked, as a clause, or empty.
            scheduled: Returns the tasks and callbacks of the event loop that wait.
            make_rescue: Returns what a cell's checkpoint does if the kernel dies in the cell.
        """
        self._namespace = namespace
        self._make_rescue = make_rescue
        self._armed: Checkpoint | None = None
        """The checkpoint of the cell that runs."""
        self._importing_step: Step | None = None
        """The step of the cell that runs, which notes the modules that the cell loads."""
        self._watches_imports = False
        self._libraries_lock = threading.RLock()
        """Held while snapshots of libraries are added, because threads of a cell may also import."""
        self._pid = os.getpid()
        """The process whose history this is; a fork of it, which has another, notes nothing."""
        self._scheduled = scheduled
        self._max_steps = max_steps
        self._max_bytes = megabytes * 2**20
        self._no_fork = no_fork
        if not no_fork and sys.platform != "linux":
            self._no_fork = "this system cannot fork it safely"
        self.watches_files = False
        """Whether another part takes back what programs do to watched files."""
        self.is_watched: Callable[[str], bool] = lambda path: False
        """Whether another part takes back what is done to a path."""
        self._kinds = Kinds(namespace)
        self._memory = DirtyPages()
        self._memory_use = MemoryUse()
        self._array_bytes = 0
        """Bytes of arrays that only the steps keep alive."""
        self._steps: list[Step] = []
        """The oldest first."""
        self._serial = 0
        """Serial number of the newest step."""
        self._is_own_code = False
        """Whether the newest code is the session's own."""
        self._undone: list[_Undone] = []
        """What can be done again, the newest last."""
        self._dropped_cell = 0
        """The newest cell that can no longer be undone."""
        self._drop_reason = ""
        """Why it cannot, as a clause."""
        self._killed_checkpoints: list[Checkpoint] = []
        """Some of them may not be gone yet."""

    @property
    def oldest_cell(self) -> int:
        """The first cell that can be undone; 0 if there is none."""
        return self._steps[0].cell if self._steps else 0

    def begin(self, cell: int) -> None:
        """Start a step. Cell 0 is the session's own code, and gets none."""
        self._is_own_code = cell == 0
        if self._is_own_code:
            return
        self._forget_redo()
        self._steps.append(self._new_step(cell))
        while len(self._steps) > self._max_steps:
            cells = "1 cell" if self._max_steps == 1 else f"{self._max_steps:,} cells"
            self._drop_oldest(f"only {cells} can be undone (undo_steps)")
        self._killed_checkpoints = [
            checkpoint for checkpoint in self._killed_checkpoints if not checkpoint.has_exited()
        ]
        self._memory.forget(self._steps[0].serial)

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> Step | None:
        """Take a checkpoint before the cell changes objects in place; return its step."""
        if self._is_own_code or not self._steps or self._steps[-1].serial != self._serial:
            return None
        step = self._steps[-1]
        step.changes_inside = True
        step.mentioned = mentioned
        try:
            self._kinds = self._kinds.current()
            step.libraries = take_library_snapshots(
                mentioned, self._namespace, self._kinds.is_user_defined
            )
            self._fill(step)
        except BaseException as error:  # of an unforeseen object; the cell runs anyway
            reason = _last_line(error)
            step.failure = f"looking at the variables before cell {step.cell} failed ({reason})"
        if not self._watches_imports:
            self._watches_imports = True
            watch_imports(self._note_loaded_module)
        self._importing_step = step
        return step

    def _note_loaded_module(self, module: str) -> None:
        """Note the state of modules that the cell has just loaded, before it changes them.

        Args:
            module: The one that the cell itself imports; empty if a library imports one.
        """
        step = self._importing_step
        if step is None or os.getpid() != self._pid:
            return
        self._note_libraries(step, (*step.mentioned, module, *module.split(".")))
        with suppress(Exception):
            if step.process is not None:
                step.process.note_loaded_libraries()

    def note_code(self, event: str, args: tuple[Any, ...]) -> None:
        """Note the state of what code may change that the cell is about to run, such as that of a
        script. Runs before each `exec`, and never raises."""
        step = self._importing_step
        if step is None or os.getpid() != self._pid:
            return
        with suppress(Exception):
            self._note_names(step, args[0])

    def _note_names(self, step: Step, code: Any) -> None:
        """Note the state of what code may change, unless it is of a library or mentions nothing new."""
        if type(code) is not types.CodeType or is_of_library(code.co_filename):
            return
        known_names = frozenset(step.mentioned)
        new_names = [
            name
            for name in iter_names(code)
            if name not in known_names and (name in sys.modules or name in self._namespace)
        ]
        if not new_names:
            return
        names = names_in((code,), self._namespace, self._kinds.user_modules)
        step.mentioned = tuple(dict.fromkeys((*step.mentioned, *names)))
        self._note_libraries(step, step.mentioned)
        if step.process is not None:
            step.process.note_mentioned(step.mentioned)

    def _note_libraries(self, step: Step, names: tuple[str, ...]) -> None:
        """Note the state of what code with these names may change in libraries."""
        noted_holders = {address_of(library.holder) for library in step.libraries}
        # No import fails because of an object of a library in an unforeseen state.
        with suppress(Exception):
            snapshots = take_library_snapshots(
                names, self._namespace, self._kinds.is_user_defined, noted_holders
            )
            with self._libraries_lock:
                add_snapshots(step.libraries, snapshots)

    def _new_step(self, cell: int) -> Step:
        """Return a step of the namespace as it is now."""
        self._serial += 1
        names = dict(self._namespace)
        return Step(self._serial, cell, names, self._memory, self._scheduled())

    def _fill(self, step: Step) -> None:
        """Note in a step what may change inside objects, and fork its checkpoint.

        May raise anything that an object raises.
        """
        step.process = ProcessState(step.mentioned)
        graph = self._walk(step)
        step.retained = graph.retained_objects()
        library_files = find_library_files(library.holder for library in step.libraries)
        values_by_address = {address_of(value): value for value in (*step.retained, *library_files)}
        step.side_state = SideState(values_by_address.values())

        # A step keeps no object alive whose end runs code, nor the memory of such an array.
        kept_addresses = graph.nodes.keys() - graph.finalizable()
        blocks_by_address = {
            address: node.memory for address, node in graph.nodes.items() if node.memory is not None
        }
        step.blocks = frozenset(
            blocks_by_address[address] for address in kept_addresses & blocks_by_address.keys()
        )
        code_addresses = {address_of(value) for value in step.names.values() if _is_code(value)}
        kept_addresses |= code_addresses - graph.nodes.keys()
        try:
            self._fork(step, frozenset(blocks_by_address.values()))
        finally:
            # The graph would keep everything alive that the steps release.
            del graph
            for earlier_step in self._steps:
                earlier_step.release(kept_addresses)

    def _walk(self, step: Step) -> Graph:
        """Return a graph of the objects before a step, those that its cell mentions first."""
        graph = Graph(self._kinds, states=False, clock=time.thread_time)
        mentioned_values = [step.names[name] for name in step.mentioned if name in step.names]
        shared_values = [value for _, value in self._kinds.shared_objects]
        roots = (*mentioned_values, *shared_values, *step.names.values())
        graph.add(roots, time.thread_time() + RETAIN_TIMEOUT_S, _RETAIN_LIMITS)
        return graph

    def _fork(self, step: Step, blocks: frozenset[MemorySpan]) -> None:
        """Fork the checkpoint of a step, or note why this is not possible.

        Args:
            step: The step.
            blocks: The memory of the arrays in the namespace.
        """
        if self._no_fork:
            step.failure = f"the kernel cannot be forked, because {self._no_fork}"
            return
        while self._measure_blocks(blocks) > self._max_bytes and len(self._steps) > 1:
            self._drop_for_memory()
        responder = CheckpointResponder(self._namespace, self._find_step)
        rescue = None
        if step.cell != STATE_BEFORE_UNDO:
            rescue = self._make_rescue()
        try:
            # A signal waits until the step owns the process.
            with HeldSignals():
                step.checkpoint = self._memory.fork(
                    step.serial, blocks, lambda: fork(responder, rescue)
                )
        except (OSError, AttributeError) as error:
            reason = getattr(error, "strerror", None) or error
            step.failure = f"the kernel could not be forked before cell {step.cell} ({reason})"
            return
        if rescue is not None:
            self._armed = step.checkpoint

    def disarm(self) -> None:
        """Note that the cell has ended: if the kernel dies now, its checkpoint saves nothing."""
        self._importing_step = None
        if self._armed is not None:
            self._armed.disarm()
            self._armed = None

    def _measure_blocks(self, used_blocks: frozenset[MemorySpan]) -> int:
        """Return the bytes of arrays that only the steps keep alive.

        Args:
            used_blocks: The memory of those in the namespace.
        """
        step_blocks = frozenset[MemorySpan]().union(*(step.blocks for step in self._steps))
        self._array_bytes = sum(block.size for block in step_blocks - used_blocks)
        return self._array_bytes

    def _find_step(self, serial: int) -> Step:
        steps = (*self._steps, *self._undone_steps())
        return next(step for step in steps if step.serial == serial)

    def _undone_steps(self) -> list[Step]:
        return [step for undone in self._undone for step in undone.steps]

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        """Note an effect outside the kernel. Runs wherever the event happens, and never raises."""
        if not self._steps:
            return
        effects = self._steps[-1].side_effects
        if len(effects) > MAX_SIDE_EFFECTS:
            return
        effect = read_side_effect(event, args)
        if effect is None or not effect.remains:
            return
        # What was done to a watched file is taken back elsewhere.
        path = changed_path(event, args)
        if path and self.is_watched(path):
            return
        changes_process = event in PROCESS_EVENTS
        if changes_process and _is_called_by_worker():
            return
        label = event if changes_process else effect.target
        reason = effect.remains
        if self.watches_files:
            reason = WATCHED_REMAINS.get(reason, reason)
        effects[Unrestored(label, reason)] = None

    def enforce_memory_limit(self) -> None:
        """Drop the oldest steps until the memory limit is met."""
        while len(self._steps) > 1:
            pids = [step.checkpoint.pid for step in self._steps if step.checkpoint is not None]
            if not pids:
                return
            checkpoint_bytes = self._memory_use.measure(pids, self._max_bytes)
            if checkpoint_bytes is None or checkpoint_bytes + self._array_bytes <= self._max_bytes:
                return
            self._drop_for_memory()

    def _drop_for_memory(self) -> None:
        """Drop the oldest step, and wait until the memory of its checkpoint is free."""
        self._drop_oldest(f"only {self._max_bytes // 2**20} MB may be used for undo (undo_memory)")
        for checkpoint in self._killed_checkpoints:
            checkpoint.wait()
        self._killed_checkpoints = []
        self._memory_use.reset()

    def _drop_oldest(self, reason: str) -> None:
        """Drop the oldest step.

        Args:
            reason: Why its cell can no longer be undone, as a clause.
        """
        step = self._steps.pop(0)
        self._dropped_cell = step.cell
        self._drop_reason = reason
        self._end_checkpoint(step)

    def steps(self) -> list[dict[str, Any]]:
        """Return the cells that can be undone, oldest first, with the bytes of their
        checkpoints."""
        rows = []
        for step in self._steps:
            checkpoint_bytes = 0
            if step.checkpoint is not None:
                checkpoint_bytes = private_bytes(step.checkpoint.pid)
            rows.append({"cell": step.cell, "bytes": checkpoint_bytes})
        return rows

    def answer(self, action: str, cell: int) -> dict[str, Any]:
        """Undo or redo, or describe what an undo would do.

        Args:
            action: "undo", "redo" or "preview".
            cell: The oldest cell to undo; without meaning for "redo".

        Returns:
            What changes, as `Plan.report` describes it.

        Raises:
            UndoError: For any failure; the message is a sentence.
        """
        try:
            if action == "redo":
                return self.redo()
            if action == "undo":
                return self.undo(cell)
            return self.preview(cell)
        except UndoError:
            raise
        except TimeLimitError:
            reason = ": the code that creates an object again did not end in time."
        except BaseException as error:  # an object of the user's, while it was made again
            reason = f", because a step failed: {_last_line(error)}"
        raise UndoError(f"Nothing was changed{reason}")

    def preview(self, cell: int) -> dict[str, Any]:
        """Describe what an undo of this cell and all later ones would do.

        Raises as `answer`, and what an object of the user's raises.
        """
        steps = self._steps_from(cell)
        while True:
            try:
                return self._plan(steps, is_preview=True).report(self._namespace)
            except UndoError:  # that checkpoint has ended; with the next one, the report names more
                continue

    def undo(self, cell: int) -> dict[str, Any]:
        """Undo this cell and all later ones; describe what changed. Raises as `preview`."""
        removed_steps = self._steps_from(cell)
        plan = self._plan(removed_steps)
        report = plan.report(self._namespace)

        state_before = self._new_step(STATE_BEFORE_UNDO)
        self._undone.append(_Undone(state_before, removed_steps, plan.repeated_ends))
        self._steps = self._steps[: -len(removed_steps)]
        checkpoint = _first_checkpoint(removed_steps)
        try:
            _note_library_changes(state_before, removed_steps)
            self._fill(state_before)
            plan.apply(self._namespace, checkpoint, state_before.checkpoint)
        except BaseException:
            self._take_back_undo()
            raise
        return report

    def redo(self) -> dict[str, Any]:
        """Take the last undo back; describe what changed. Raises as `preview`."""
        if not self._undone:
            raise UndoError(
                "There is nothing to redo: cells have run since the last undo, or nothing was undone."
            )
        state_before, removed_steps, repeated_ends = self._undone[-1]
        plan = self._plan([state_before])
        plan.not_restored += repeated_ends
        report = plan.report(self._namespace)
        checkpoint = _first_checkpoint(removed_steps)
        plan.apply(self._namespace, state_before.checkpoint, checkpoint)
        self._take_back_undo()
        return report

    def _take_back_undo(self) -> None:
        """Make the steps of the last undo steps of the history again."""
        undone = self._undone.pop()
        self._end_checkpoint(undone.state_before)
        self._steps += undone.removed_steps

    def end(self) -> None:
        """Forget all steps, and end their checkpoints."""
        self._forget_redo()
        for step in self._steps:
            self._end_checkpoint(step)
        self._steps = []

    def invalidate(self, reason: str) -> None:
        """Make earlier cells impossible to undo.

        Args:
            reason: The end of a sentence.
        """
        if self._steps:
            self._dropped_cell = self._steps[-1].cell
            self._drop_reason = reason
        self.end()

    def _forget_redo(self) -> None:
        for step in self._undone_steps():
            self._end_checkpoint(step)
        self._undone = []

    def _end_checkpoint(self, step: Step) -> None:
        """End the process that keeps the state before a step."""
        if step.checkpoint is not None:
            step.checkpoint.end()
            self._killed_checkpoints.append(step.checkpoint)
            step.checkpoint = None

    def _steps_from(self, cell: int) -> list[Step]:
        """Return the step of a cell and all later ones. Raises `UndoError` if there is none."""
        for index, step in enumerate(self._steps):
            if step.cell == cell:
                return self._steps[index:]
        if 0 < cell <= self._dropped_cell:
            oldest = ""
            if self._steps:
                oldest = f" The oldest that can is cell {self._steps[0].cell}."
            raise UndoError(
                f"Cell {cell} can no longer be undone, because {self._drop_reason}.{oldest}"
            )
        raise UndoError(
            f"Cell {cell} cannot be undone: it did not run in this kernel, or it is undone already."
        )

    def _plan(self, steps: list[Step], *, is_preview: bool = False) -> Plan:
        """Plan how to restore the state before the first of these steps.

        Raises `UndoError` if the checkpoint has ended, which the next plan will do without.

        Args:
            steps: The steps, the oldest first.
            is_preview: See `plan_undo`.
        """
        checkpointed = next((step for step in steps if step.checkpoint is not None), None)
        self._kinds = self._kinds.current()
        try:
            scheduled = self._scheduled()
            return plan_undo(
                steps,
                checkpointed,
                self._namespace,
                self._kinds,
                scheduled,
                is_preview=is_preview,
            )
        except (CheckpointError, UnreadableMemoryError) as error:
            if checkpointed is None:
                raise
            self._end_checkpoint(checkpointed)
            cell = checkpointed.cell
            checkpointed.failure = f"the process that kept the state before cell {cell} has ended"
            raise UndoError(f"{error} Nothing was changed.") from None


def _first_checkpoint(steps: list[Step]) -> Checkpoint | None:
    """Return the first checkpoint; the plan names changes inside objects before it."""
    return next((step.checkpoint for step in steps if step.checkpoint is not None), None)


def _note_library_changes(state_before: Step, removed_steps: list[Step]) -> None:
    """Note in the step before an undo what the undo may change, as of a cell that mentions the
    same."""
    state_before.changes_inside = True
    state_before.mentioned = tuple(
        dict.fromkeys(name for step in removed_steps for name in step.mentioned)
    )
    holders = {
        address_of(library.holder): library.holder
        for step in removed_steps
        for library in step.libraries
    }
    state_before.libraries = [
        take_library_snapshot(holder, state_before.mentioned) for holder in holders.values()
    ]


def _is_called_by_worker() -> bool:
    """Return whether our own code does what `UndoHistory.audit` is told of."""
    try:
        frame = sys._getframe(_AUDIT_FRAMES)
    except ValueError:  # a thread that began with this call
        return False
    return frame.f_code.co_filename.startswith(OUR_FOLDER)


def _is_code(value: object) -> bool:
    """Return whether a value is a class, a function or a module."""
    cls = type(value)  # compared by identity, because comparing it may run its metaclass
    return is_class(value) or cls is types.FunctionType or cls is types.ModuleType


def _last_line(error: BaseException) -> str:
    """Return the last line of an error's traceback, which has its message."""
    return describe_safely(error).text.strip().splitlines()[-1]
