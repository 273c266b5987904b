"""The history of a namespace: a step for each cell that can be undone."""

from __future__ import annotations

import resource
import sys
import time
import types
from collections.abc import Sequence
from typing import Any, Callable

from ..cells.tracebacks import describe_safely
from ..guard.side_effects import read_side_effect
from ..values.objects import (
    MISSING,
    TimeLimitError,
    address_of,
    class_dict,
    is_class,
    mro_of,
)
from .actions import Unrestored
from .checkpoint import Checkpoint, CheckpointError, fork
from .earlier_state import CheckpointResponder
from .graph import Graph, Kinds, Limits
from .libraries import take_library_snapshot, take_library_snapshots
from .memory import DirtyPages, MemorySpan, UnreadableMemoryError
from .plan import Plan
from .process_state import ProcessState
from .restoring import plan_undo
from .side_state import SideState
from .step import Step

MEASURE_INTERVAL_FACTOR = 20

MAX_RETAINED_OBJECTS = 3_000
RETAIN_TIMEOUT_S = 0.1
"""Of computing."""
MAX_SIDE_EFFECTS = 20


class MemoryUse:
    """The memory that checkpoints need in addition to the kernel."""

    def __init__(self) -> None:
        self._next = 0.0
        self._faults = 0

    def measure(self, pids: Sequence[int], limit: int) -> int | None:
        """Return the bytes that exist only in these processes; None if measured a short time ago,
        unless page faults show many writes."""
        start = time.monotonic()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if start < self._next and (faults - self._faults) * resource.getpagesize() < limit // 4:
            return None
        own_memory = _rollup("self")
        total = sum(_rollup(str(pid)).get("Pss_Anon", 0) for pid in pids)
        self._faults = faults
        self._next = time.monotonic() + MEASURE_INTERVAL_FACTOR * (time.monotonic() - start)
        return max(0, total + own_memory.get("Pss_Anon", 0) - own_memory.get("Anonymous", 0))

    def reset(self) -> None:
        self._next = 0.0


def _rollup(process: str) -> dict[str, int]:
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            next(lines)
            fields = (line.split() for line in lines)
            return {
                words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1
            }
    except (OSError, StopIteration, ValueError):
        return {}


class UndoError(Exception):
    """The message is a sentence for the user."""


class UndoHistory:
    """Keeps the steps of a namespace. Used on the thread that runs the cells."""

    def __init__(
        self,
        namespace: dict[str, Any],
        max_steps: int,
        megabytes: int = 1024,
        no_fork: str = "",
        scheduled: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        """no_fork: why the kernel cannot be forked, or empty. scheduled: returns the tasks and
        callbacks of the event loop that wait."""
        self._namespace = namespace
        self._scheduled = scheduled
        self._max_steps = max_steps
        self._max_bytes = megabytes * 2**20
        self._steps: list[Step] = []
        self._redo: list[tuple[Step, list[Step]]] = []
        """The state before each undo, and the steps that it removed."""
        self._memory_use = MemoryUse()
        self._bytes_in_use = 0
        """Bytes of arrays that only the steps keep alive."""
        self._dropped_cell = 0
        self._drop_reason = ""
        self._kinds = Kinds(namespace)
        self._serial = 0
        self._ended: list[Checkpoint] = []
        """Killed, but maybe not gone yet."""
        self._memory = DirtyPages()
        self._no_fork = no_fork or (
            "" if sys.platform == "linux" else "this system cannot fork it safely"
        )

    def begin(self, cell: int) -> None:
        """Start a step. Cell 0 is the session's own code, and gets none."""
        if cell == 0:
            return
        self._forget_redo()
        self._steps.append(self._new_step(cell))
        while len(self._steps) > self._max_steps:
            self._drop_oldest(f"only {self._max_steps:,} cells can be undone (undo_steps)")
        self._ended = [checkpoint for checkpoint in self._ended if not checkpoint.has_exited()]
        self._memory.forget(self._steps[0].serial)

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> Step | None:
        """Take a checkpoint before the cell changes objects in place; return its step."""
        if not self._steps or self._steps[-1].serial != self._serial:
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
        return step

    def _new_step(self, cell: int) -> Step:
        self._serial += 1
        names = dict(self._namespace)
        return Step(self._serial, cell, names, self._memory, self._scheduled())

    def _fill(self, step: Step) -> None:
        step.process = ProcessState(step.mentioned)
        graph = Graph(self._kinds, states=False, clock=time.thread_time)
        mentioned_values = [step.names[name] for name in step.mentioned if name in step.names]
        graph.add(
            (
                *mentioned_values,
                *(value for _, value in graph.kinds.shared_objects),
                *step.names.values(),
            ),
            time.thread_time() + RETAIN_TIMEOUT_S,
            Limits(MAX_RETAINED_OBJECTS, MAX_RETAINED_OBJECTS),
        )
        step.retained = graph.retained_objects()
        step.side_state = SideState(step.retained)
        retained = graph.nodes.keys() - graph.finalizable()
        blocks = {
            address: node.memory for address, node in graph.nodes.items() if node.memory is not None
        }
        step.blocks = frozenset(blocks[address] for address in retained & blocks.keys())
        code = {address_of(value) for value in step.names.values() if _is_code(value)}
        retained |= code - graph.nodes.keys()
        try:
            self._fork(step, frozenset(blocks.values()))
        finally:
            del graph
            for kept_step in self._steps:
                kept_step.release(retained)

    def _fork(self, step: Step, blocks: frozenset[MemorySpan]) -> None:
        if self._no_fork:
            step.failure = f"the kernel cannot be forked, because {self._no_fork}"
            return
        while self._measure_blocks(blocks) > self._max_bytes and len(self._steps) > 1:
            self._drop_for_memory()
        responder = CheckpointResponder(self._namespace, self._find_step)
        try:
            step.checkpoint = self._memory.fork(step.serial, blocks, lambda: fork(responder))
        except (OSError, AttributeError) as error:
            reason = getattr(error, "strerror", None) or error
            step.failure = f"the kernel could not be forked before cell {step.cell} ({reason})"

    def _measure_blocks(self, used_spans: frozenset[MemorySpan]) -> int:
        unused = frozenset[MemorySpan]().union(*(step.blocks for step in self._steps)) - used_spans
        self._bytes_in_use = sum(block.size for block in unused)
        return self._bytes_in_use

    def _find_step(self, serial: int) -> Step:
        steps = (*self._steps, *self._undone_steps())
        return next(step for step in steps if step.serial == serial)

    def _undone_steps(self) -> list[Step]:
        return [step for before, steps in self._redo for step in (before, *steps)]

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        """Note an effect outside the kernel. Runs wherever the event happens, and never raises."""
        if not self._steps or len(effects := self._steps[-1].side_effects) > MAX_SIDE_EFFECTS:
            return
        effect = read_side_effect(event, args)
        if effect is not None and effect.remains:
            effects[Unrestored(effect.target, effect.remains)] = None

    def enforce_memory_limit(self) -> None:
        """Drop the oldest steps until the memory limit is met."""
        while len(self._steps) > 1:
            pids = [step.checkpoint.pid for step in self._steps if step.checkpoint is not None]
            used_bytes = None
            if pids:
                used_bytes = self._memory_use.measure(pids, self._max_bytes)
            if used_bytes is None or used_bytes + self._bytes_in_use <= self._max_bytes:
                return
            self._drop_for_memory()

    def _drop_for_memory(self) -> None:
        self._drop_oldest(f"only {self._max_bytes // 2**20} MB may be used for undo (undo_memory)")
        for checkpoint in self._ended:
            checkpoint.wait()
        self._ended = []
        self._memory_use.reset()

    def _drop_oldest(self, reason: str) -> None:
        step = self._steps.pop(0)
        self._dropped_cell = step.cell
        self._drop_reason = reason
        self._end_checkpoint(step)

    def steps(self) -> list[dict[str, Any]]:
        """Return the cells that can be undone, oldest first, with the bytes of their
        checkpoints."""
        rows = []
        for step in self._steps:
            if step.checkpoint is None:
                sizes = {}
            else:
                sizes = _rollup(str(step.checkpoint.pid))
            private = sum(size for name, size in sizes.items() if name.startswith("Private_"))
            rows.append({"cell": step.cell, "bytes": private})
        return rows

    def answer(self, action: str, cell: int) -> dict[str, Any]:
        """Raises `UndoError` with a sentence for any failure."""
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

    def preview(self, cell: int) -> dict[str, object]:
        steps = self._steps_from(cell)
        while True:
            try:
                return self._plan(steps).report(self._namespace)
            except UndoError:  # that checkpoint has ended; with the next one, the report names more
                continue

    def undo(self, cell: int) -> dict[str, Any]:
        removed = self._steps_from(cell)
        plan = self._plan(removed)
        report = plan.report(self._namespace)
        state_before = self._new_step(0)
        checkpoint = _first_checkpoint(removed)
        self._redo.append((state_before, removed))
        self._steps = self._steps[: -len(removed)]
        holders = {
            address_of(library.holder): library.holder
            for step in removed
            for library in step.libraries
        }
        state_before.changes_inside = True
        state_before.mentioned = tuple(
            dict.fromkeys(name for step in removed for name in step.mentioned)
        )
        state_before.libraries = [
            take_library_snapshot(holder, state_before.mentioned) for holder in holders.values()
        ]
        try:
            self._fill(state_before)
            plan.apply(self._namespace, checkpoint, state_before.checkpoint)
        except BaseException:
            self._redo.pop()
            self._end_checkpoint(state_before)
            self._steps += removed
            raise
        return report

    def redo(self) -> dict[str, object]:
        if not self._redo:
            raise UndoError(
                "There is nothing to redo: cells have run since the last undo, or nothing was undone."
            )
        state_before, removed = self._redo[-1]
        plan = self._plan([state_before])
        plan.not_restored += self._find_repeated_ends(plan)
        report = plan.report(self._namespace)
        plan.apply(self._namespace, state_before.checkpoint, _first_checkpoint(removed))
        self._redo.pop()
        self._end_checkpoint(state_before)
        self._steps += removed
        return report

    def _find_repeated_ends(self, plan: Plan) -> list[Unrestored]:
        """Name the objects that a redo drops and whose `__del__` runs for the second time: they ended
        in the cell, and the undo made them again."""
        dropped = {
            name: value
            for name, value in self._namespace.items()
            if type(name) is str and plan.names.get(name, MISSING) is not value
        }
        return [
            Unrestored(name, "its __del__ runs once more")
            for name, value in dropped.items()
            if self._has_finalizer(value)
        ]

    def _has_finalizer(self, value: object) -> bool:
        """Return whether an object, or one that it leads to, has a `__del__`."""
        graph = Graph(self._kinds, states=False, clock=time.thread_time)
        deadline = time.thread_time() + RETAIN_TIMEOUT_S
        graph.add((value,), deadline, Limits(MAX_RETAINED_OBJECTS, MAX_RETAINED_OBJECTS))
        classes = {type(node.value) for node in graph.nodes.values()}
        return any("__del__" in class_dict(base) for cls in classes for base in mro_of(cls))

    def end(self) -> None:
        self._forget_redo()
        for step in self._steps:
            self._end_checkpoint(step)
        self._steps = []

    def invalidate(self, reason: str) -> None:
        """Make earlier cells impossible to undo. reason: the end of a sentence."""
        if self._steps:
            self._dropped_cell = self._steps[-1].cell
            self._drop_reason = reason
        self.end()

    def _forget_redo(self) -> None:
        for step in self._undone_steps():
            self._end_checkpoint(step)
        self._redo = []

    def _end_checkpoint(self, step: Step) -> None:
        if step.checkpoint is not None:
            step.checkpoint.end()
            self._ended.append(step.checkpoint)
            step.checkpoint = None

    def _steps_from(self, cell: int) -> list[Step]:
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

    def _plan(self, steps: list[Step]) -> Plan:
        checkpointed = next((step for step in steps if step.checkpoint is not None), None)
        self._kinds = self._kinds.current()
        try:
            scheduled = self._scheduled()
            return plan_undo(steps, checkpointed, self._namespace, self._kinds, scheduled)
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


def _is_code(value: object) -> bool:
    cls = type(value)  # compared by identity, because comparing it may run its metaclass
    return is_class(value) or cls is types.FunctionType or cls is types.ModuleType


def _last_line(error: BaseException) -> str:
    return describe_safely(error).text.strip().splitlines()[-1]
