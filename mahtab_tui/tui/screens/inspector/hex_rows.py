"""Bytes as rows of sixteen, in hex and as characters."""

from __future__ import annotations

from collections import OrderedDict

from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row, Span

ROW = 16
"""Bytes of a row."""
BLOCK = 4096
_KEPT = 64


class HexRows:
    """A `RowSource` of the blocks that were fetched."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes."""
        self.blocks: OrderedDict[int, bytes] = OrderedDict()
        self.found: tuple[int, int] | None = None
        """The bytes that a search found."""

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, -(-self.size // ROW))

    def __getitem__(self, index: int) -> Row:
        palette, start = self._palette, index * ROW
        if start >= self.size:
            return Row([(" It is empty.", palette.muted)])
        spans: list[Span] = [(f" {start:08x}  ", palette.muted)]
        block = self.blocks.get(start // BLOCK)
        if block is None:
            return Row([*spans, ("·", palette.hairline)])
        row = block[start % BLOCK : start % BLOCK + ROW]
        for place, byte in enumerate(row):
            found = self.found is not None and self.found[0] <= start + place < self.found[1]
            style = palette.moon if found else palette.muted if byte == 0 else palette.text
            spans.append((f"{byte:02x} " + (" " if place == ROW // 2 - 1 else ""), style))
        spans.append(("   " * (ROW - len(row)) + ("  " if len(row) < ROW // 2 else " "), palette.text))
        return Row([*spans, ("".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row), palette.person)])

    def missing(self, first: int, rows: int) -> list[int]:
        """The numbers of the blocks that some rows need and that are not here."""
        last = min(self.size, (first + rows) * ROW)
        return [number for number in range(first * ROW // BLOCK, -(-last // BLOCK)) if number not in self.blocks]

    def take(self, blocks: list[tuple[int, bytes]]) -> None:
        """Keep blocks that were fetched."""
        self.blocks.update(blocks)
        while len(self.blocks) > _KEPT:
            self.blocks.popitem(last=False)
