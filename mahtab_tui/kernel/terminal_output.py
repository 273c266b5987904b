"""The output of a cell, as a terminal would finally show it.

Printed text is kept as it is until it moves the cursor (a progress bar, for example). Then a
simulated screen (`bus/terminal_screen.py`) takes over, and hands on the lines that have scrolled
out of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mahtab_tui.bus.terminal_screen import Screen, rewrites, split_unfinished
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.worker.cells.capture import omission

MAX_HEAD_CHARS = 25_000_000
"""Characters to keep of the beginning of the output, and as many of its end."""
MAX_REACHABLE_CHARS = 128_000
"""Characters at the end of plain text that the cursor may still reach."""
MIN_BULK_CHARS = 4_000
"""Characters of plain text for which it pays to leave the simulated screen."""
Kinds = tuple[tuple[OutputKind, int], ...]
"""The kinds of the pieces of an output, in order, with the number of characters of each."""


@dataclass(slots=True)
class _Piece:
    """A piece of output; the text of a display may be replaced."""

    kind: OutputKind
    text: str


class TerminalOutput:
    """A cell's output as a terminal would finally show it; head and tail of very long output."""

    def __init__(self, *, rewritten: bool = False) -> None:
        self.rewritten = rewritten
        """Whether output that was passed on has been replaced since."""
        self._screen: Screen | None = None
        """Simulates a terminal since the output has moved its cursor; None before that."""
        self._recent_texts: list[str] = []
        """Plain text that the cursor may still reach."""
        self._recent_chars = 0
        self._unfinished = ""
        """The beginning of an escape sequence."""
        self._head: list[_Piece] = []
        self._tail: deque[_Piece] = deque()
        self._free_head_chars = MAX_HEAD_CHARS
        self._tail_chars = 0
        self._omitted_chars = 0
        self._named_displays: dict[str, _Piece] = {}
        """Displays in the head that can be updated."""

    def add(self, kind: OutputKind, text: str, name: str = "") -> None:
        """Add a piece.

        Args:
            kind: What the text is.
            name: That of a display, by which it is updated.
        """
        if kind == "stdout":
            self._print(text)
            return
        self._end_prints()
        piece = self._store(kind, text)
        if name and piece is not None:
            self._named_displays[name] = piece

    def update_display(self, name: str, text: str) -> None:
        """Replace the text of a display with this name, if its whole text is in the head."""
        piece = self._named_displays.get(name)
        if piece is None:
            return
        old_length = len(piece.text)
        piece.text = text[: old_length + self._free_head_chars]
        # Space of a shorter text stays unused, because later output may already be in the tail.
        self._free_head_chars -= max(0, len(piece.text) - old_length)
        self.rewritten = True

    def _print(self, text: str) -> None:
        """Add printed text: to a simulated screen if it moves the cursor, else as it is."""
        text, self._unfinished = split_unfinished(self._unfinished + text)
        moves_cursor = rewrites(text)

        # Much plain text at the end of the screen makes the simulation unnecessary again.
        is_bulk = not moves_cursor and len(text) >= MIN_BULK_CHARS
        if self._screen is not None and is_bulk and self._screen.at_end:
            self._recent_texts = [self._screen.text()]
            self._recent_chars = 0
            self._screen = None

        if self._screen is None and not moves_cursor:
            self._recent_texts.append(text)
            self._recent_chars += len(text)
            if self._recent_chars > 2 * MAX_REACHABLE_CHARS:
                self._store_unreachable()
            return

        if self._screen is None:
            self._screen = Screen()
            self._screen.feed("".join(self._recent_texts))
            self._recent_texts = []
            self._recent_chars = 0
            self.rewritten = True
        self._screen.feed(text)
        self._store("stdout", self._screen.pop_above())

    def _store_unreachable(self) -> None:
        """Store the plain text that the cursor cannot reach any more, if possible whole lines."""
        text = "".join(self._recent_texts)
        min_end = len(text) - MAX_REACHABLE_CHARS
        line_end = text.find("\n", min_end) + 1
        end = line_end or min_end
        self._store("stdout", text[:end])
        self._recent_texts = [text[end:]]
        self._recent_chars = len(text) - end

    def _end_prints(self) -> None:
        """Store all printed text, because something else follows it."""
        if self._screen is None:
            self._recent_texts.append(self._unfinished)
        else:
            self._screen.feed(self._unfinished)
            text = self._screen.text()
            # What follows must not continue the last line of a screen that has scrolled.
            if self._screen.above and not text.endswith("\n"):
                text += "\n"
            self._recent_texts = [text]
        self._store("stdout", "".join(self._recent_texts))
        self._screen = None
        self._recent_texts = []
        self._recent_chars = 0
        self._unfinished = ""

    def _store(self, kind: OutputKind, text: str) -> _Piece | None:
        """Add a piece, and return it; None if it is empty or in two parts."""
        if not text:
            return None
        if self._free_head_chars:
            piece = _Piece(kind, text[: self._free_head_chars])
            self._head.append(piece)
            text = text[self._free_head_chars :]
            self._free_head_chars -= len(piece.text)
            if not text:
                return piece

        self._tail.append(_Piece(kind, text))
        self._tail_chars += len(text)
        while self._tail_chars > MAX_HEAD_CHARS:
            surplus_chars = self._tail_chars - MAX_HEAD_CHARS
            piece = self._tail.popleft()
            omitted_chars = min(surplus_chars, len(piece.text))
            if omitted_chars < len(piece.text):
                self._tail.appendleft(_Piece(piece.kind, piece.text[omitted_chars:]))
            self._tail_chars -= omitted_chars
            self._omitted_chars += omitted_chars
        return None

    def text(self) -> tuple[str, Kinds]:
        """Return the whole output, and the kinds of its pieces."""
        self._end_prints()
        pieces = list(self._head)
        if self._omitted_chars:
            pieces.append(_Piece("stdout", omission(self._omitted_chars)))
        pieces += self._tail

        # Pieces of the same kind are joined, but each display is a piece of its own.
        kinds: list[tuple[OutputKind, int]] = []
        for piece in pieces:
            chars = len(piece.text)
            if kinds and kinds[-1][0] == piece.kind and piece.kind != "display":
                chars += kinds.pop()[1]
            kinds.append((piece.kind, chars))
        return "".join(piece.text for piece in pieces), tuple(kinds)
