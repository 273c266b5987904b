"""Draws pictures over the cells of the screen, by the terminal's own graphics.

Textual knows nothing of them. A part of a picture that has become visible is first encoded on a thread,
and drawn when the screen is still. An update that moves or covers it removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from itertools import count
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.geometry import Region
from textual.timer import Timer

from mahtab_tui.tui.pictures.graphics import (
    FAILED,
    EncodedGraphics,
    EncodedPart,
    GraphicsState,
    encode_part,
    kitty_draw,
)
from mahtab_tui.tui.pictures.picture import PicturePart, PictureWidget

if TYPE_CHECKING:
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.terminal_driver import TerminalDriver

IDLE_DELAY_S = 0.12
"""Graphics are drawn when the screen has not changed for this time."""
MAX_ENCODED_PICTURES = 8
"""Pictures in the terminal's memory, unless more are visible."""


class Overlay:
    """Draws graphics when the screen is still, and removes those that an update moves or covers.

    Main thread only.
    """

    def __init__(self, app: TerminalApp[Any]) -> None:
        self._app = app
        self._graphics: GraphicsState | None = None
        """What the drawings depend on; None if the terminal draws no graphics, or has not said so
        yet."""
        self._parts: list[PicturePart] = []
        """The parts that are visible now."""
        self._drawn: dict[PicturePart, str] = {}
        """The escape sequence that removes each drawn part; empty for Sixel, which vanishes when
        its cells are painted."""
        self._encoded: dict[Hashable, EncodedGraphics] = {}
        """What is encoded, by the keys of `_key`; the least recently drawn first."""
        self._is_encoding = False
        """Whether a thread encodes a part."""
        self._numbers = count(1)
        """Yields the numbers of pictures, and of their drawings, in Kitty's protocol."""
        self._timer: Timer | None = None
        """Draws when the screen has been still for a while; None if there is nothing to draw."""

    def prepare_update(self, parts: list[PicturePart], update: RenderableType) -> None:
        """Remove what an update of the screen moves or covers, and draw again soon.

        Args:
            parts: The parts of pictures that are visible after the update.
            update: What will be written to the screen.
        """
        terminal = self._app.terminal
        if terminal is None or not (parts or self._parts):
            return
        old_parts = self._parts
        old_drawn_count = len(self._drawn)
        self._parts = parts
        self._check_graphics(terminal)
        for part, removal in list(self._drawn.items()):
            is_painted_over = not removal and _paints(update, part.region)
            if part not in parts or is_painted_over:
                terminal.send(self._drawn.pop(part))
        if parts != old_parts or len(self._drawn) < old_drawn_count:
            self._draw_later()

    def _draw_later(self) -> None:
        """Draw when the screen has been still for a while, if there is something to draw."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._parts:
            self._timer = self._app.set_timer(IDLE_DELAY_S, self._draw)

    def _draw(self) -> None:
        """Draw the visible parts that are encoded, and encode the next of the others."""
        terminal = self._app.terminal
        if not self._parts or terminal is None:
            return
        self._check_graphics(terminal)
        if self._graphics is None:
            terminal.ask_for_graphics(lambda: self._app.call_later(self._draw))
            return
        for part in self._parts:
            if part in self._drawn:
                continue
            encoded = self._use_encoded(self._key(part))
            if encoded is None:
                self._encode(part, self._graphics)
            else:
                self._drawn[part] = self._send(terminal, self._graphics, part, encoded)

    def _use_encoded(self, key: Hashable) -> EncodedGraphics | None:
        """Return what is encoded, and put it at the end, so that others are forgotten first."""
        encoded = self._encoded.pop(key, None)
        if encoded is not None:
            self._encoded[key] = encoded
        return encoded

    def _check_graphics(self, terminal: TerminalDriver) -> None:
        """Forget all drawings if what they depend on has changed, and let the widgets lay their
        pictures out again."""
        graphics = self._current_graphics(terminal)
        if graphics == self._graphics:
            return
        for key in list(self._encoded):
            self._forget(terminal, key)
        self._drawn.clear()
        self._graphics = graphics
        for widget in self._app.screen._compositor.visible_widgets:
            if isinstance(widget, PictureWidget):
                self._app.call_later(widget.fit_pictures)

    def _current_graphics(self, terminal: TerminalDriver) -> GraphicsState | None:
        """Return what drawings depend on now; None if the terminal draws no graphics."""
        protocol = terminal.graphics
        cell = terminal.cell_size
        if protocol is None or cell is None:
            return None
        colours = terminal.answers.colours
        return GraphicsState(protocol, cell, colours, self._app.size, terminal.release_count)

    def _key(self, part: PicturePart) -> Hashable:
        """Return the key of what is encoded together; with Kitty that is the whole picture."""
        if self._graphics is not None and self._graphics.protocol == "kitty":
            return part.picture
        return (part.picture, part.top, part.rows)

    def _encode(self, part: PicturePart, graphics: GraphicsState) -> None:
        """Encode a part on a thread, unless another one is being encoded."""
        if self._is_encoding:
            return
        self._is_encoding = True
        key = self._key(part)
        number = next(self._numbers)

        def encode() -> None:
            try:
                encoded = encode_part(part, graphics, number)
            except Exception:  # Pillow may raise anything for broken files
                encoded = EncodedPart(FAILED, "")
            self._app.call_later(self._add_encoded, graphics, key, encoded)

        threading.Thread(target=encode, name="graphics", daemon=True).start()

    def _add_encoded(self, graphics: GraphicsState, key: Hashable, encoded: EncodedPart) -> None:
        """Keep what a thread has encoded, if it is still visible, and draw it.

        Args:
            graphics: What the terminal could draw when it was encoded.
            key: What `_key` returned.
            encoded: The part.
        """
        self._is_encoding = False
        visible_keys = {self._key(part) for part in self._parts}
        terminal = self._app.terminal
        if terminal is not None and graphics == self._graphics and key in visible_keys:
            terminal.send(encoded.data)
            self._encoded[key] = encoded.graphics
            self._forget_hidden(terminal, visible_keys)
        self._draw()

    def _forget_hidden(self, terminal: TerminalDriver, visible_keys: set[Hashable]) -> None:
        """Drop the oldest pictures that are not visible until the others are few enough."""
        excess_count = max(0, len(self._encoded) - MAX_ENCODED_PICTURES)
        hidden_keys = [key for key in self._encoded if key not in visible_keys]
        for hidden_key in hidden_keys[:excess_count]:
            self._forget(terminal, hidden_key)

    def _forget(self, terminal: TerminalDriver, key: Hashable) -> None:
        """Drop what is encoded, also from the terminal's memory."""
        number = self._encoded.pop(key).number
        if number:
            terminal.send(f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\")

    def _send(
        self,
        terminal: TerminalDriver,
        graphics: GraphicsState,
        part: PicturePart,
        encoded: EncodedGraphics,
    ) -> str:
        """Draw a part, and return the sequence that removes it."""
        data = encoded.sixel
        removal = ""
        if encoded.number:
            placement = next(self._numbers)
            data = kitty_draw(encoded.number, placement, part, graphics.cell)
            removal = f"\x1b_Ga=d,d=i,i={encoded.number},p={placement},q=2\x1b\\"
        if data:
            # Save the cursor, go to the part, draw, and restore the cursor.
            terminal.send(f"\x1b7\x1b[{part.y + 1};{part.x + 1}H{data}\x1b8")
        return removal


def _paints(update: RenderableType, region: Region) -> bool:
    """Return whether an update writes to a cell of a region."""
    if not isinstance(update, ChopsUpdate):
        return True
    return any(
        region.y <= y < region.bottom and start < region.right and end > region.x
        for y, start, end in update.spans
    )
