"""The terminal's own graphics over pictures in half blocks, once the screen has come to rest."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Hashable, Iterable
from itertools import count
from typing import Any, NamedTuple

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.geometry import Region, Size
from textual.timer import Timer

from mahtab_tui.tui.graphics.answers import Protocol, Terminal
from mahtab_tui.tui.graphics.encoding import Piece, kitty, kitty_forgotten, kitty_placed, kitty_removed, sixel
from mahtab_tui.tui.graphics.pictured import Part
from mahtab_tui.tui.terminal_app import TerminalApp

REST = 0.12
"""Seconds without a change after which pictures are drawn."""
NICE = 10
"""How far the thread that gets pictures ready stands back."""
KEPT = 8
"""Pictures that are kept ready, the last drawn, as long as no more are seen."""


class _Ground(NamedTuple):
    """What all that was drawn, or is ready to be, depends on."""

    protocol: Protocol
    cell: tuple[int, int]
    colours: int
    largest: tuple[int, int]
    size: Size
    stops: int


class _Ready(NamedTuple):
    """A picture as the terminal can draw it; neither of both where it cannot be."""

    number: int = 0
    """Kitty's, which has all of it."""
    pieces: tuple[Piece, ...] = ()
    """Sixel's, of one part."""


class Overlay:
    """Told before each update of the screen: what moves, or is covered, is taken away before. Main thread only."""

    def __init__(self, app: TerminalApp[Any]) -> None:
        self._app = app
        self._ground: _Ground | None = None
        self._wanted: list[Part] = []
        self._drawn: dict[Part, str] = {}
        """With what takes it away; one of Sixel's stands in the cells, and goes when they are painted."""
        self._ready: dict[Hashable, _Ready] = {}
        self._encoding = False
        self._numbers = count(1)
        self._timer: Timer | None = None

    def before(self, wanted: list[Part], update: RenderableType) -> None:
        """The screen is about to be painted so. wanted: what is seen of pictures."""
        if not (wanted or self._wanted) or (terminal := self._app.terminal) is None:
            return
        before, was_wanted = len(self._drawn), self._wanted
        self._wanted = wanted
        self._stand_on(terminal)
        for part in list(self._drawn):
            if part not in wanted or (not self._drawn[part] and _painted(update, part.region)):
                terminal.send(self._drawn.pop(part))
        if wanted != was_wanted or len(self._drawn) < before:
            self._begin_rest()

    def _begin_rest(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._app.set_timer(REST, self._draw) if self._wanted else None

    def _draw(self) -> None:
        """Draw what is ready, and get the next of the others ready."""
        if not self._wanted or (terminal := self._app.terminal) is None:
            return
        self._stand_on(terminal)
        if self._ground is None:
            terminal.ask_for_graphics(lambda: self._app.call_later(self._draw))
            return
        for part in self._wanted:
            if part in self._drawn:
                continue
            if (ready := self._ready.pop(self._key(part), None)) is None:
                self._get_ready(part, self._ground)
            else:
                self._ready[self._key(part)] = ready
                self._drawn[part] = self._place(terminal, self._ground, part, ready)

    def _stand_on(self, terminal: Terminal) -> None:
        """Where the terminal is not what it was, nothing of what was made for it counts."""
        protocol, cell, answers = terminal.graphics, terminal.cell_size, terminal.answers
        ground = None
        if protocol is not None and cell is not None:
            ground = _Ground(protocol, cell, answers.colours, answers.largest, self._app.size, terminal.stops)
        if ground != self._ground:
            for key in list(self._ready):
                self._forget(terminal, key)
            self._drawn.clear()
            self._ground = ground

    def _key(self, part: Part) -> Hashable:
        """What is made ready together: with Kitty the whole picture."""
        whole = self._ground is not None and self._ground.protocol == "kitty"
        return part.picture if whole else (part.picture, part.top, part.rows)

    def _get_ready(self, part: Part, ground: _Ground) -> None:
        """On a thread, one at a time."""
        if self._encoding:
            return
        self._encoding = True
        key, number = self._key(part), next(self._numbers)

        def encode() -> None:
            try:
                _step_back()
                ready, data = _encoded(part, ground, number)
            except Exception:  # the thread's outermost frame: the half blocks stay
                ready, data = _Ready(), ""
            self._app.call_later(self._came, ground, key, ready, data)

        threading.Thread(target=encode, name="graphics", daemon=True).start()

    def _came(self, ground: _Ground, key: Hashable, ready: _Ready, data: str) -> None:
        self._encoding = False
        wanted = {self._key(part) for part in self._wanted}
        terminal = self._app.terminal
        if terminal is not None and ground == self._ground and key in wanted:
            terminal.send(data)
            self._ready[key] = ready
            for old in [old for old in self._ready if old not in wanted][: max(0, len(self._ready) - KEPT)]:
                self._forget(terminal, old)
        self._draw()

    def _forget(self, terminal: Terminal, key: Hashable) -> None:
        if number := self._ready.pop(key).number:
            terminal.send(kitty_forgotten(number))

    def _place(self, terminal: Terminal, ground: _Ground, part: Part, ready: _Ready) -> str:
        """Draw a part; returns what takes it away."""
        pieces: Iterable[Piece] = ready.pieces
        removal = ""
        if ready.number:
            placement = next(self._numbers)
            pieces = [Piece(0, 0, kitty_placed(ready.number, placement, part, ground.cell))]
            removal = kitty_removed(ready.number, placement)
        if drawn := "".join(f"\x1b[{part.y + piece.row + 1};{part.x + piece.column + 1}H{piece.data}" for piece in pieces):
            terminal.send(f"\x1b7{drawn}\x1b8")
        return removal


def _painted(update: RenderableType, region: Region) -> bool:
    """Whether an update paints any of these cells."""
    if not isinstance(update, ChopsUpdate):
        return True
    return any(region.y <= y < region.bottom and start < region.right and end > region.x for y, start, end in update.spans)


def _step_back() -> None:
    """Let the thread that draws and reads keys go first. Elsewhere than on Linux a thread has no priority of its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


def _encoded(part: Part, ground: _Ground, number: int) -> tuple[_Ready, str]:
    """A picture, or a part of it, as it can be drawn, and what the terminal is to be sent before."""
    from PIL.Image import Resampling

    picture, (across, down) = part.picture, ground.cell
    image = picture.scaled(picture.columns * across, picture.rows * down, Resampling.LANCZOS)
    if ground.protocol == "kitty":
        return _Ready(number=number), kitty(image, number)
    cut = image.crop((0, part.top * down, image.width, (part.top + part.rows) * down))
    return _Ready(pieces=tuple(sixel(cut, ground.cell, ground.colours, ground.largest))), ""
