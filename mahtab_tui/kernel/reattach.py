"""Reports of a kernel to a new host about the time before: cells whose end no host has stored, with
their output."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mahtab_tui.kernel.base import OnDisplay, OnOutput
from mahtab_tui.kernel.cells import RunningCell, RunningCells
from mahtab_tui.kernel.output import Chunks
from mahtab_tui.kernel.protocol import CellEnd, HostCall, checked
from mahtab_tui.kernel.seekable_output import SeekableOutput
from mahtab_tui.kernel.values import Display, OutputKind


@dataclass(frozen=True, slots=True)
class Kept:
    """The last host's report on the saved variables."""

    carried: tuple[str, ...] | None
    """None if it has said nothing."""
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """Events in order. `at` is the offset of the output up to then."""

    told: int
    """The offset up to which the output outside cells is stored."""
    events: tuple[dict[str, Any], ...]
    """A cell's begin, a display, or a cell's end."""
    calls: tuple[HostCall, ...]
    """The calls that wait for an answer."""
    kept: Kept


class LateListener:
    """Keeps a cell's output until there is a listener, and passes it on then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[OnOutput, OnDisplay], None]] = []
        self._listener: tuple[OnOutput, OnDisplay] | None = None

    def output(self, kind: OutputKind, text: str) -> None:
        self._pass_on(lambda on_output, _: on_output(kind, text))

    def display(self, display: Display) -> None:
        self._pass_on(lambda _, on_display: on_display(display))

    def listen(self, on_output: OnOutput, on_display: OnDisplay) -> None:
        """Pass on what has come, and what will come."""
        with self._lock:
            self._listener = on_output, on_display
            waiting, self._waiting = self._waiting, []
            for tell in waiting:
                tell(on_output, on_display)

    def _pass_on(self, tell: Callable[[OnOutput, OnDisplay], None]) -> None:
        with self._lock:
            if self._listener is None:
                self._waiting.append(tell)
            else:
                tell(*self._listener)


StoryCells = dict[int, tuple[RunningCell, LateListener]]
"""The cells of a story by their numbers."""


def cells_of(story: Story) -> StoryCells:
    cells: StoryCells = {}
    for event in story.events:
        if "begin" in event:
            late = LateListener()
            cells[event["begin"]] = (
                RunningCell(event["begin"], late.output, event["limit"], late.display),
                late,
            )
    return cells


def retell(
    story: Story,
    output: SeekableOutput,
    cells: StoryCells,
    running: RunningCells,
    chunks: Chunks,
    shown: Callable[[dict[str, Any]], None],
    done: Callable[[CellEnd], None],
) -> None:
    """Go through a story and the output of that time. Raises an exception of any class for what no
    kernel says.

    cells: those of the story. shown, done: told of displays and ends."""
    output.go_to(story.events[0]["at"] if story.events else story.told)
    depth = 0

    def feed(data: Iterable[bytes]) -> None:
        for piece in data:
            chunks.feed(piece)

    for event in story.events:
        if not depth:
            output.go_to(min(story.told, event["at"]))
        feed(output.until(event["at"]))
        if "begin" in event:
            chunks.flush()
            running.add_retold(cells[event["begin"]][0])
            depth += 1
        elif "shown" in event:
            chunks.flush()
            shown(event["shown"])
        else:
            chunks.end()
            done(checked(CellEnd, event["done"]))
            depth -= 1
    if not depth:
        output.go_to(story.told)
    feed(output.waiting())
