"""What has happened in a kernel before this host attached to it, and how it is shown afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from mahtab_tui.kernel.chunks import Chunks
from mahtab_tui.kernel.messages import CallMessage, CellEnd, checked
from mahtab_tui.kernel.process_parts import SeekableOutput
from mahtab_tui.kernel.running_cell import RunningCell, RunningCells
from mahtab_tui.kernel.values import SaveRequest


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """The begin or the end of a cell, or a display. The fields are those on the wire."""

    at: int
    """The offset of the output up to it."""
    begin: int | None = None
    """The cell that began."""
    shown: dict[str, Any] | None = None
    """The arguments of a display."""
    done: CellEnd | None = None
    """How a cell has ended."""


@dataclass(frozen=True, slots=True)
class RecordedEvents:
    """What has happened before a host attached. The fields are those on the wire."""

    acknowledged: int
    """The offset of the output up to which it is stored."""
    events: tuple[RecordedEvent, ...]
    calls: tuple[CallMessage, ...]
    """Calls of the host that are not answered."""
    saved: SaveRequest
    """The last one."""


class Backlog:
    """Cells that began under an earlier host.

    The kernel sends their events once, after this host has attached.
    """

    def __init__(
        self,
        cells: RunningCells,
        chunks: Chunks,
        on_display: Callable[[Mapping[str, Any]], None],
        on_cell_end: Callable[[CellEnd], None],
    ) -> None:
        """Begin without events.

        Args:
            cells: Gets the cells while they run.
            chunks: Gets their output.
            on_display: Called for each display.
            on_cell_end: Called when a cell has ended.
        """
        self.recorded: Future[RecordedEvents] = Future()
        """Done when the events are replayed; with a `KernelError` if they will not be."""
        self._cells = cells
        self._chunks = chunks
        self._on_display = on_display
        self._on_cell_end = on_cell_end
        self._resumed_cells: dict[int, RunningCell] = {}
        """The cells by number, until `pop_cell`."""

    def pop_cell(self, cell: int) -> RunningCell | None:
        """Return a cell that began under an earlier host; None if the kernel does not know it."""
        return self._resumed_cells.pop(cell, None)

    def replay(self, message: object, output: SeekableOutput) -> Sequence[CallMessage]:
        """Replay the events, with the output of that time.

        Args:
            message: The kernel's `RecordedEvents`.
            output: Has all output since the kernel's start.

        Returns:
            The calls that wait for an answer of a host.

        Raises:
            KernelError: The message is not valid.
            Exception: Any exception of `on_cell_end` and `on_display`.
        """
        recorded = checked(RecordedEvents, message)
        self._cells.replaying = True
        # Meanwhile this host may start a cell, whose output is not replayed.
        printed_before = output.available()
        depth = self._replay_events(recorded, output)
        if not depth:
            output.go_to(recorded.acknowledged)
        self._chunks.feed_all(printed_before)
        self._cells.replaying = False
        # If an event is wrong, nobody waits for a cell that has not begun here.
        self.recorded.set_result(recorded)
        return recorded.calls

    def _replay_events(self, recorded: RecordedEvents, output: SeekableOutput) -> int:
        """Return how many cells still run inside each other."""
        if recorded.events:
            first_offset = recorded.events[0].at
        else:
            first_offset = recorded.acknowledged
        output.go_to(first_offset)

        depth = 0
        for event in recorded.events:
            # Output between cells is stored already, up to the acknowledged offset.
            if not depth:
                output.go_to(min(recorded.acknowledged, event.at))
            self._chunks.feed_all(output.until(event.at))
            if event.begin is not None:
                self._chunks.flush()
                cell = RunningCell(event.begin, None)
                self._resumed_cells[event.begin] = cell
                self._cells.add(cell)
                depth += 1
            elif event.shown is not None:
                self._chunks.flush()
                self._on_display(event.shown)
            elif event.done is not None:
                self._chunks.end()
                self._on_cell_end(event.done)
                depth -= 1
        return depth
