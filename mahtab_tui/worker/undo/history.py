"""The history of a namespace: a step for each cell that can be undone."""

from __future__ import annotations

import resource
import sys
import time
import types
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ..objects import (
    ATOMS,
    MISSING,
    TimeLimitError,
    address_of,
    class_dict,
    is_class,
    mro_of,
)
from ..side_effects import read_side_effect
from ..tracebacks import describe_safely
from .checkpoint import Checkpoint, CheckpointError, fork
from .graph import Graph, Kinds, Limits
from .memory import DirtyPages, Span, UnreadableMemoryError
from .process_state import (
    LibrarySnapshot,
    NotRestored,
    ProcessState,
    ReleasedObject,
    SideState,
    take_library_snapshot,
    take_library_snapshots,
)
from .restoring import CheckpointResponder, Plan, plan_undo

MEASURE_INTERVAL_FACTOR = 20


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
        own = _rollup("self")
        total = sum(_rollup(str(pid)).get("Pss_Anon", 0) for pid in pids)
        self._faults = faults
        self._next = time.monotonic() + MEASURE_INTERVAL_FACTOR * (time.monotonic() - start)
        return max(0, total + own.get("Pss_Anon", 0) - own.get("Anonymous", 0))

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


MAX_RETAINED = 3_000
RETAIN_SECONDS = 0.1
"""Of computing."""
MAX_SIDE_EFFECTS = 20


class Step:
    """The state before a cell."""

    def __init__(
        self,
        serial: int,
        cell: int,
        names: dict[str, Any],
        memory: DirtyPages,
        scheduled: Sequence[Any],
    ) -> None:
        """scheduled: tasks and callbacks of the event loop that wait."""
        self.serial = serial
        self.cell = cell
        self.names = names
        """Objects by name; a `ReleasedObject` for one that is not kept alive."""
        self._memory = memory
        self._scheduled = [weakref.ref(work) for work in scheduled]
        self.retained: list[Any] = []
        self._released = False
        self.mentioned: tuple[str, ...] = ()
        self.changes_inside = False
        """Whether the cell may have changed an object in place."""
        self.checkpoint: Checkpoint | None = None
        self.blocks: frozenset[Span] = frozenset()
        """The memory of arrays that this step keeps alive."""
        self.process: ProcessState | None = None
        self.side_state: SideState | None = None
        self.libraries: list[LibrarySnapshot] = []
        self.side_effects: dict[NotRestored, None] = {}
        self.failure = ""

    def release(self, retained: set[int]) -> None:
        """Keep only these objects alive, by address, and plain values."""
        if self._released:
            return
        self._released = True

        def release(value: Any) -> Any:
            is_plain = address_of(type(value)) in ATOMS
            return value if is_plain or address_of(value) in retained else ReleasedObject(value)

        self.names = {name: release(value) for name, value in self.names.items()}
        self.retained = list(map(release, self.retained))

    def live_objects(self) -> list[Any]:
        """Return the retained objects that live, at the same addresses as in the checkpoint."""
        return [value for value in map(_find_released, self.retained) if value is not MISSING]

    def live_names(self, namespace: dict[str, Any]) -> dict[str, Any]:
        found = {
            name: _find_released(value, namespace.get(name)) for name, value in self.names.items()
        }
        return {name: value for name, value in found.items() if value is not MISSING}

    def find_new_work(self, scheduled: Sequence[Any]) -> list[NotRestored]:
        """Name the tasks and callbacks that were started since."""
        earlier_addresses = {address_of(reference()) for reference in self._scheduled}
        return [
            _describe_work(work) for work in scheduled if address_of(work) not in earlier_addresses
        ]

    def ended(self) -> set[int]:
        return {
            value.address
            for value in (*self.names.values(), *self.retained)
            if type(value) is ReleasedObject and value.ended
        }

    def written_since(self, blocks: Iterable[Span]) -> dict[Span, list[Span]]:
        return self._memory.written_since(self.serial, blocks)


def _describe_work(work: Any) -> NotRestored:
    """work: a task, or the handle of a callback."""
    if hasattr(work, "get_name"):
        return NotRestored(f"task {work.get_name()}", "this task was started and still runs")
    return NotRestored("event loop", "a callback was scheduled and will run")


def _find_released(value: Any, now: Any = None) -> Any:
    return value.value(now) if type(value) is ReleasedObject else value


class UndoError(Exception):
    """The message is a sentence for the user."""


class UndoHistory:
    """Keeps the steps of a namespace. Used on the thread that runs the cells."""

    def __init__(
        self,
        namespace: dict[str, Any],
        most: int,
        megabytes: int = 1024,
        no_fork: str = "",
        scheduled: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        """no_fork: why the kernel cannot be forked, or empty. scheduled: returns the tasks and
        callbacks of the event loop that wait."""
        self._namespace = namespace
        self._scheduled = scheduled
        self._max_steps = most
        self._max_bytes = megabytes * 2**20
        self._steps: list[Step] = []
        self._redo: list[tuple[Step, list[Step]]] = []
        """The state before each undo, and the steps that it removed."""
        self._memory_use = MemoryUse()
        self._bytes_in_use = 0
        """Bytes of arrays that only the steps keep alive."""
        self._dropped_cell, self._drop_reason = 0, ""
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
            self._drop_oldest(f"only {self._max_steps} cells can be undone (undo_steps)")
        self._ended = [checkpoint for checkpoint in self._ended if not checkpoint.has_exited()]
        self._memory.forget(self._steps[0].serial)

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> Step | None:
        """Take a checkpoint before the cell changes objects in place; return its step."""
        if not self._steps or self._steps[-1].serial != self._serial:
            return None
        step = self._steps[-1]
        step.changes_inside, step.mentioned = True, mentioned
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
        first = [step.names[name] for name in step.mentioned if name in step.names]
        graph.add(
            (*first, *(value for _, value in graph.kinds.shared_objects), *step.names.values()),
            time.thread_time() + RETAIN_SECONDS,
            Limits(MAX_RETAINED, MAX_RETAINED),
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
            for each in self._steps:
                each.release(retained)

    def _fork(self, step: Step, blocks: frozenset[Span]) -> None:
        if self._no_fork:
            step.failure = f"the kernel cannot be forked, because {self._no_fork}"
            return
        while self._measure_blocks(blocks) > self._max_bytes and len(self._steps) > 1:
            self._drop_for_memory()
        responder = CheckpointResponder(self._namespace, self._find_step)
        try:
            step.checkpoint = self._memory.fork(step.serial, blocks, lambda: fork(responder))
        except (OSError, AttributeError) as error:
            why = getattr(error, "strerror", None) or error
            step.failure = f"the kernel could not be forked before cell {step.cell} ({why})"

    def _measure_blocks(self, used: frozenset[Span]) -> int:
        unused = frozenset[Span]().union(*(each.blocks for each in self._steps)) - used
        self._bytes_in_use = sum(block.size for block in unused)
        return self._bytes_in_use

    def _find_step(self, serial: int) -> Step:
        steps = (*self._steps, *self._undone_steps())
        return next(step for step in steps if step.serial == serial)

    def _undone_steps(self) -> list[Step]:
        return [step for before, steps in self._redo for step in (before, *steps)]

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an effect outside the kernel. Runs wherever the event happens, and never raises."""
        if not self._steps or len(effects := self._steps[-1].side_effects) > MAX_SIDE_EFFECTS:
            return
        effect = read_side_effect(event, args)
        if effect is not None and effect.remains:
            effects[NotRestored(effect.target, effect.remains)] = None

    def enforce_memory_limit(self) -> None:
        """Drop the oldest steps until the memory limit is met."""
        while len(self._steps) > 1:
            pids = [step.checkpoint.pid for step in self._steps if step.checkpoint is not None]
            used = self._memory_use.measure(pids, self._max_bytes) if pids else None
            if used is None or used + self._bytes_in_use <= self._max_bytes:
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
        self._dropped_cell, self._drop_reason = step.cell, why
        self._end_checkpoint(step)

    def steps(self) -> list[dict[str, Any]]:
        """Return the cells that can be undone, oldest first, with the bytes of their
        checkpoints."""
        found = []
        for step in self._steps:
            sizes = {} if step.checkpoint is None else _rollup(str(step.checkpoint.pid))
            private = sum(size for name, size in sizes.items() if name.startswith("Private_"))
            found.append({"cell": step.cell, "bytes": private})
        return found

    def answer(self, action: str, cell: int) -> dict[str, Any]:
        """Raises `UndoError` with a sentence for any failure."""
        try:
            if action == "redo":
                return self.redo()
            return self.undo(cell) if action == "undo" else self.preview(cell)
        except UndoError:
            raise
        except TimeLimitError:
            why = ": the code that creates an object again did not end in time."
        except BaseException as error:  # an object of the user's, while it was made again
            why = f", because a step failed: {_last_line(error)}"
        raise UndoError(f"Nothing was changed{why}")

    def preview(self, cell: int) -> dict[str, Any]:
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
        before = self._new_step(0)
        checkpoint = _first_checkpoint(removed)
        self._redo.append((before, removed))
        self._steps = self._steps[: -len(removed)]
        holders = {
            address_of(library.holder): library.holder
            for step in removed
            for library in step.libraries
        }
        before.changes_inside = True
        before.mentioned = tuple(dict.fromkeys(name for step in removed for name in step.mentioned))
        before.libraries = [take_library_snapshot(holder) for holder in holders.values()]
        try:
            self._fill(before)
            plan.apply(self._namespace, checkpoint, before.checkpoint)
        except BaseException:
            self._redo.pop()
            self._end_checkpoint(before)
            self._steps += removed
            raise
        return report

    def redo(self) -> dict[str, Any]:
        if not self._redo:
            raise UndoError(
                "There is nothing to redo: cells have run since the last undo, or nothing was undone."
            )
        before, removed = self._redo[-1]
        plan = self._plan([before])
        plan.not_restored += self._find_repeated_ends(plan)
        report = plan.report(self._namespace)
        plan.apply(self._namespace, before.checkpoint, _first_checkpoint(removed))
        self._redo.pop()
        self._end_checkpoint(before)
        self._steps += removed
        return report

    def _find_repeated_ends(self, plan: Plan) -> list[NotRestored]:
        """Name the objects that a redo drops and whose `__del__` runs for the second time: they ended
        in the cell, and the undo made them again."""
        dropped = {
            name: value
            for name, value in self._namespace.items()
            if type(name) is str and plan.names.get(name, MISSING) is not value
        }
        return [
            NotRestored(name, "its __del__ runs once more")
            for name, value in dropped.items()
            if self._has_finalizer(value)
        ]

    def _has_finalizer(self, value: Any) -> bool:
        """Return whether an object, or one that it leads to, has a `__del__`."""
        graph = Graph(self._kinds, states=False, clock=time.thread_time)
        deadline = time.thread_time() + RETAIN_SECONDS
        graph.add((value,), deadline, Limits(MAX_RETAINED, MAX_RETAINED))
        classes = {type(node.value) for node in graph.nodes.values()}
        return any("__del__" in class_dict(base) for cls in classes for base in mro_of(cls))

    def end(self) -> None:
        self._forget_redo()
        for step in self._steps:
            self._end_checkpoint(step)
        self._steps = []

    def invalidate(self, why: str) -> None:
        """Make earlier cells impossible to undo. why: the end of a sentence."""
        if self._steps:
            self._dropped_cell, self._drop_reason = self._steps[-1].cell, why
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
            oldest = f" The oldest that can is cell {self._steps[0].cell}." if self._steps else ""
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
