"""The history of a namespace: a step for each cell that can be undone."""

from __future__ import annotations

import resource
import sys
import time
import types
from collections.abc import Iterable, Sequence
from typing import Any

from ..objects import TimeLimitError, address_of, is_class
from ..tracebacks import describe_safely
from .checkpoint import Checkpoint, fork
from .checkpoint_responder import CheckpointResponder, DirtyPages, StateRequest
from .graph import CurrentKinds, Graph, Limits
from .mutations import Step, touched_names
from .process_state import AUDIT_EVENTS, ProcessState, SideState
from .reach import LibrarySnapshot, libraries, snapshot
from .restoring import Plan, UndoError, apply_plan, describe_changes, plan_undo
from .tables import Block

MEASURE_INTERVAL_FACTOR = 20
"""The pause between two measurements, as a multiple of the duration of one, so that measuring costs
little."""


class MemoryUse:
    """Measures the memory that checkpoints need in addition to the kernel, but not too often."""

    def __init__(self) -> None:
        self._next = 0.0
        self._faults = 0

    def due(self, limit: int) -> bool:
        """Return whether to measure again. Each page written after a fork causes a page fault, so
        many faults are a reason."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return (
            time.monotonic() > self._next
            or (faults - self._faults) * resource.getpagesize() > limit // 4
        )

    def measure(self, pids: Sequence[int]) -> int:
        """Return the bytes that exist only in these processes, taken together, and not in the
        kernel."""
        start = time.monotonic()
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        own = _rollup("self")
        total = (
            sum(_rollup(str(pid)).get("Pss_Anon", 0) for pid in pids)
            + own.get("Pss_Anon", 0)
            - own.get("Anonymous", 0)
        )
        self._next = time.monotonic() + MEASURE_INTERVAL_FACTOR * (time.monotonic() - start)
        return max(0, total)

    def reset(self) -> None:
        """Measure again soon, because much has changed."""
        self._next = 0.0


def private_bytes(pid: int) -> int:
    """Return the bytes used only by this process, which are freed when it ends."""
    return sum(size for name, size in _rollup(str(pid)).items() if name.startswith("Private_"))


def retained_array_bytes(earlier: Iterable[frozenset[Block]], now: frozenset[Block]) -> int:
    """Return the bytes of arrays that existed earlier and are no longer used."""
    shared = frozenset().union(*earlier) - now
    return sum(block.size for block in shared)


def _rollup(process: str) -> dict[str, int]:
    """Return the sums over a process's memory, in bytes; empty if Linux does not tell."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            next(lines)
            fields = (line.split() for line in lines)
            return {
                words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1
            }
    except (OSError, StopIteration, ValueError):
        return {}


MAX_RETAINED = 3_000
"""Maximum number of objects kept alive for a step."""
RETAIN_SECONDS = 0.1
"""Seconds of computing for finding them, which is enough unless objects take long."""


class UndoHistory:
    """Keeps the steps of a namespace, and undoes cells. Used on the thread that runs the cells."""

    AUDITED = AUDIT_EVENTS
    """The audit events for `audit`."""

    def __init__(
        self, namespace: dict[str, Any], most: int, megabytes: int = 1024, no_fork: str = ""
    ) -> None:
        self._namespace = namespace
        self._max_steps = most
        self._max_bytes = megabytes * 2**20
        self._steps: list[Step] = []
        self._redo: list[tuple[Step, list[Step]]] = []
        """The state before each undo, and the steps that it removed."""
        self._memory_use = MemoryUse()
        self._bytes_in_use = 0
        """Bytes of arrays that only the steps keep alive."""
        self._dropped = (0, "")
        """The last cell that can no longer be undone because of a limit, and the limit."""
        self._kinds = CurrentKinds(namespace)
        self._serial = 0
        self._ended: list[Checkpoint] = []
        """Checkpoints that were killed but may not be gone yet."""
        self._memory = DirtyPages()
        self._no_fork = no_fork or (
            "" if sys.platform == "linux" else "this system cannot fork it safely"
        )

    # Before a cell

    def begin(self, cell: int) -> None:
        """Start a step for a cell. Cell 0 is the session's own code, and gets none."""
        if cell == 0:
            return
        self._forget_redo()
        self._steps.append(self._new_step(cell))
        while len(self._steps) > self._max_steps:
            self._drop_oldest(f"only {self._max_steps} cells can be undone (undo_steps)")
        self._ended = [checkpoint for checkpoint in self._ended if not checkpoint.has_exited()]
        self._memory.forget(self._steps[0].serial)

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> Step | None:
        """Take a checkpoint, because the cell may change objects in place; returns the step that
        has it."""
        if not self._steps or self._steps[-1].serial != self._serial:
            return None
        step = self._steps[-1]
        try:
            earlier = next((each.libraries for each in self._steps[-2::-1] if each.libraries), [])
            found = libraries(
                mentioned, self._namespace, self._kinds.get().is_user_defined, earlier
            )
            self._take_snapshot(step, mentioned, found)
        except (
            BaseException
        ) as error:  # code of an unforeseen object ran and failed; the cell runs anyway
            step.failure = f"looking at the variables before cell {step.cell} failed ({describe_safely(error).text.strip().splitlines()[-1]})"
        return step

    def _new_step(self, cell: int) -> Step:
        self._serial += 1
        return Step(self._serial, cell, dict(self._namespace))

    def _take_snapshot(
        self, step: Step, touched: tuple[str, ...], mentioned: list[LibrarySnapshot]
    ) -> None:
        step.changes_inside = True
        step.libraries = mentioned
        step.touched = touched
        step.process = ProcessState()
        graph = Graph(self._kinds.get(), states=False, clock=time.thread_time)
        early = [step.names[name] for name in touched if name in step.names]
        graph.add(
            (*early, *(value for _, value in graph.kinds.shared_objects), *step.names.values()),
            time.thread_time() + RETAIN_SECONDS,
            Limits(MAX_RETAINED, MAX_RETAINED),
        )
        step.retained = graph.retained_objects()
        step.side_state = SideState(step.retained)
        ending = graph.finalizable()
        retained = graph.nodes.keys() - ending
        blocks = frozenset(node.block for node in graph.nodes.values() if node.block is not None)
        step.blocks = frozenset(
            block for address in retained if (block := graph.nodes[address].block) is not None
        )
        code = {address_of(value) for value in step.names.values() if _is_code(value)}
        retained |= code - graph.nodes.keys()
        try:
            self._fork(step, blocks)
        finally:
            del graph
            for each in self._steps:
                each.release(retained)

    def _fork(self, step: Step, blocks: frozenset[Block]) -> None:
        if self._no_fork:
            step.failure = f"the kernel cannot be forked, because {self._no_fork}"
            return
        self._bytes_in_use = retained_array_bytes((each.blocks for each in self._steps), blocks)
        while self._bytes_in_use > self._max_bytes and len(self._steps) > 1:
            self._drop_for_memory()
            self._bytes_in_use = retained_array_bytes((each.blocks for each in self._steps), blocks)
        try:
            responder = CheckpointResponder(self._namespace)
            step.checkpoint = self._memory.fork(
                step.serial,
                blocks,
                lambda: fork(lambda question: self._answer(responder, question)),
            )
            step.memory = self._memory
        except (OSError, AttributeError) as error:
            step.failure = f"the kernel could not be forked before cell {step.cell} ({getattr(error, 'strerror', None) or error})"

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an effect of a cell outside the kernel, from an audit event of the interpreter."""
        if self._steps:
            self._steps[-1].side_effects.audit(event, args)

    def enforce_memory_limit(self) -> None:
        """Drop the oldest steps until the memory limit is met. Called after a cell, when nothing
        waits."""
        while self._pids() and self._memory_use.due(self._max_bytes):
            if (
                self._memory_use.measure(self._pids()) + self._bytes_in_use <= self._max_bytes
                or len(self._steps) < 2
            ):
                return
            self._drop_for_memory()

    def _drop_for_memory(self) -> None:
        self._drop_oldest(f"only {self._max_bytes // 2**20} MB may be used for undo (undo_memory)")
        for checkpoint in self._ended:
            checkpoint.wait()
        self._ended = []
        self._memory_use.reset()

    def _drop_oldest(self, why: str) -> None:
        step = self._steps.pop(0)
        self._dropped = (step.cell, why)
        self._ended += step.end()

    def _pids(self) -> list[int]:
        return [step.checkpoint.pid for step in self._steps if step.checkpoint is not None]

    # In a forked process

    def _answer(self, responder: CheckpointResponder, question: tuple[Any, ...]) -> Any:
        if question[0] == "describe":
            _, serial, first = question
            return responder.describe(self._step_by_serial(serial).roots(self._namespace), first)
        return tuple(responder.collect_states(StateRequest(*question[1:])))

    def _step_by_serial(self, serial: int) -> Step:
        every = [*self._steps, *(step for before, gone in self._redo for step in (before, *gone))]
        return next(step for step in every if step.serial == serial)

    # Requested by the user

    def steps(self) -> list[dict[str, Any]]:
        """Return the cells that can be undone, oldest first."""
        return [
            {
                "cell": step.cell,
                "bytes": 0 if step.checkpoint is None else private_bytes(step.checkpoint.pid),
            }
            for step in self._steps
        ]

    def answer(self, action: str, cell: int) -> dict[str, Any]:
        """Answer the host, with a ``value``, or with a sentence as ``error``."""
        try:
            return {
                "value": self.redo()
                if action == "redo"
                else self.undo(cell)
                if action == "undo"
                else self.preview(cell)
            }
        except UndoError as error:
            return {"error": str(error)}
        except TimeLimitError:
            return {
                "error": "Nothing was changed: the code that creates an object again did not end in time."
            }
        except BaseException as error:  # recreating an object of the user's may raise anything
            return {
                "error": f"Nothing was changed, because a step failed: {describe_safely(error).text.strip().splitlines()[-1]}"
            }

    def preview(self, cell: int) -> dict[str, Any]:
        """Return what `undo` would do."""
        step = self._step(cell)
        while True:
            checkpoint = self._checkpoint_for(step, self._steps)
            try:
                return self._report(self._plan(step, self._steps))
            except UndoError:  # after the next checkpoint, less can be undone, as that will report
                if self._checkpoint_for(step, self._steps) is checkpoint:
                    raise

    def undo(self, cell: int) -> dict[str, Any]:
        """Restore the state before a cell."""
        step = self._step(cell)
        plan = self._plan(step, self._steps)
        report = self._report(plan)
        before = self._new_step(0)
        gone = self._steps[self._steps.index(step) :]
        checkpoint = self._checkpoint_for(step, self._steps)
        self._redo.append((before, gone))
        self._steps = self._steps[: -len(gone)]
        holders = {
            address_of(library.holder): library.holder
            for each in gone
            for library in each.libraries
        }
        self._take_snapshot(
            before, touched_names(gone), [snapshot(holder) for holder in holders.values()]
        )
        try:
            apply_plan(plan, self._namespace, checkpoint, before.checkpoint)
        except BaseException:
            self._redo.pop()
            self._ended += before.end()
            self._steps += gone
            raise
        plan.graph.forget_weak_references()
        return report

    def redo(self) -> dict[str, Any]:
        """Restore the state before the last `undo`."""
        if not self._redo:
            raise UndoError(
                "There is nothing to redo: cells have run since the last undo, or nothing was undone."
            )
        before, gone = self._redo[-1]
        plan = self._plan(before, [before])
        report = self._report(plan)
        apply_plan(plan, self._namespace, before.checkpoint, self._checkpoint_for(gone[0], gone))
        plan.graph.forget_weak_references()
        self._redo.pop()
        self._ended += before.end()
        self._steps += gone
        return report

    def end(self) -> None:
        """Drop all steps."""
        self._forget_redo()
        for step in self._steps:
            self._ended += step.end()
        self._steps = []

    def invalidate(self, why: str) -> None:
        """Make earlier cells impossible to undo. why: the end of a sentence."""
        if self._steps:
            self._dropped = (self._steps[-1].cell, why)
        self.end()

    def _forget_redo(self) -> None:
        for before, gone in self._redo:
            for step in (before, *gone):
                self._ended += step.end()
        self._redo = []

    def _step(self, cell: int) -> Step:
        for step in self._steps:
            if step.cell == cell:
                return step
        if 0 < cell <= self._dropped[0]:
            oldest = f" The oldest that can is cell {self._steps[0].cell}." if self._steps else ""
            raise UndoError(
                f"Cell {cell} can no longer be undone, because {self._dropped[1]}.{oldest}"
            )
        raise UndoError(
            f"Cell {cell} cannot be undone: it did not run in this kernel, or it is undone already."
        )

    def _checkpoint_for(self, step: Step, steps: list[Step]) -> Checkpoint | None:
        """Return the first checkpoint at or after a step. The cells in between have changed nothing
        in place."""
        return next(
            (each.checkpoint for each in steps[steps.index(step) :] if each.checkpoint is not None),
            None,
        )

    def _plan(self, step: Step, steps: list[Step]) -> Plan:
        return plan_undo(step, steps, self._namespace, self._kinds.get(), self._memory, self._ended)

    def _report(self, plan: Plan) -> dict[str, Any]:
        unrestored = [each._asdict() for each in plan.not_restored]
        return {
            "changes": describe_changes(plan, self._namespace),
            "kept_as_is": unrestored,
            "exact": not unrestored,
        }


def _is_code(value: object) -> bool:
    cls = type(value)  # compared by identity, because comparing it may run its metaclass
    return is_class(value) or cls is types.FunctionType or cls is types.ModuleType
