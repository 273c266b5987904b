"""What a kernel tells a new host about the time before: cells whose end no host has stored, with their output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.going_on import LateListener
from mahtab_tui.kernel.reading import NumberedOutput
from mahtab_tui.kernel.told import CellEnd, HostCall, checked


@dataclass(frozen=True, slots=True)
class Kept:
    """What the last host said about the variables that are saved."""

    carried: tuple[str, ...] | None
    """None if it has said nothing."""
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """What has happened, in order. `at` is the offset of the output up to then."""

    told: int
    """The offset up to which the output outside cells is stored."""
    events: tuple[dict[str, Any], ...]
    """A cell's begin, a display, or a cell's end."""
    calls: tuple[HostCall, ...]
    """The calls that wait for an answer."""
    kept: Kept


@dataclass(frozen=True, slots=True)
class Steps:
    """What a worker process does with what it is told."""

    begin: Callable[[RunningCell], None]
    feed: Callable[[bytes], None]
    flush: Callable[[], None]
    end_text: Callable[[], None]
    shown: Callable[[dict[str, Any]], None]
    done: Callable[[CellEnd], None]


def going_on(story: Story) -> dict[int, tuple[RunningCell, LateListener]]:
    """Return the cells of a story by their numbers."""
    cells: dict[int, tuple[RunningCell, LateListener]] = {}
    for event in story.events:
        if "begin" in event:
            late = LateListener()
            cells[event["begin"]] = RunningCell(event["begin"], late.output, event["limit"], late.display), late
    return cells


def retell(story: Story, output: NumberedOutput, cells: dict[int, tuple[RunningCell, LateListener]], steps: Steps) -> None:
    """Go through a story and the output of that time. Raises an exception of any class for what no kernel says."""
    output.go_to(story.events[0]["at"] if story.events else story.told)
    depth = 0

    def feed(data: Iterable[bytes]) -> None:
        for piece in data:
            steps.feed(piece)

    for event in story.events:
        if not depth:
            output.go_to(min(story.told, event["at"]))
        feed(output.until(event["at"]))
        if "begin" in event:
            steps.flush()
            steps.begin(cells[event["begin"]][0])
            depth += 1
        elif "shown" in event:
            steps.flush()
            steps.shown(event["shown"])
        else:
            steps.end_text()
            steps.done(checked(CellEnd, event["done"]))
            depth -= 1
    if not depth:
        output.go_to(story.told)
    feed(output.waiting())
