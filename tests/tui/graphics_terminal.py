"""A stand-in for a terminal with graphics, which records all that it draws."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.geometry import Region

from mahtab_tui.pictures.terminal_answers import GraphicsProtocol, TerminalAnswers

CELL = (10, 20)

_SENT = re.compile(
    r"\x1b\[(?P<y>\d+);(?P<x>\d+)H|\x1b_G(?P<keys>[^;\x1b]*)(;[^\x1b]*)?\x1b\\|\x1bP0;1;0q\"1;1;(?P<width>\d+);(?P<height>\d+)[^\x1b]*\x1b\\|\x1b[78]"
)


class GraphicsTerminal:
    """It reports its protocol only after a query."""

    def __init__(self, protocol: GraphicsProtocol = "kitty") -> None:
        self.answers = TerminalAnswers()
        self.protocol = protocol
        self.graphics: GraphicsProtocol | None = None
        self.cell_size: tuple[int, int] | None = CELL
        self.release_count = 0
        self.asked = 0
        self.sent: list[str] = []
        self.stored: set[str] = set()
        """Numbers of Kitty's pictures."""
        self.standing: dict[tuple[str, str], Region] = {}
        """Cells of Kitty's placements."""
        self.cut: dict[tuple[str, str], tuple[int, int]] = {}
        """First line and height of their pixels."""
        self.drawn: list[Region] = []
        """Cells of Sixel's pictures."""

    def ask_for_graphics(self, answered: Callable[[], object]) -> None:
        self.asked += 1
        self.graphics = self.protocol
        answered()

    def send(self, data: str) -> None:
        if not data:
            return
        self.sent.append(data)
        x = y = offset = 0
        while offset < len(data):
            match = _SENT.match(data, offset)
            assert match, repr(data[offset : offset + 80])
            offset = match.end()
            if match["y"]:
                x = int(match["x"]) - 1
                y = int(match["y"]) - 1
            elif match["width"]:
                columns = -(-int(match["width"]) // CELL[0])
                rows = -(-int(match["height"]) // CELL[1])
                self.drawn.append(Region(x, y, columns, rows))
            elif match["keys"]:
                self._kitty(dict(key.split("=") for key in match["keys"].split(",")), x, y)

    def _kitty(self, keys: dict[str, str], x: int, y: int) -> None:
        name = keys.get("i", ""), keys.get("p", "")
        match keys.get("a"):
            case "t":
                self.stored.add(keys["i"])
            case "p":
                assert keys["i"] in self.stored
                self.standing[name] = Region(x, y, int(keys["c"]), int(keys["r"]))
                self.cut[name] = int(keys["y"]), int(keys["h"])
            case "d" if keys["d"] == "i":
                del self.standing[name]
            case "d":
                self.stored.discard(keys["i"])
                for placement in [
                    placement for placement in self.standing if placement[0] == keys["i"]
                ]:
                    del self.standing[placement]

    def misplaced(self, app: App[Any]) -> list[Region]:
        """Return the regions of pictures over cells that show none."""
        lines = [strip.text for strip in app.screen._compositor.render_strips()]

        def shows(region: Region) -> bool:
            return all(set(lines[y][region.x : region.right]) == {"▀"} for y in region.line_range)

        return [region for region in self.standing.values() if not shows(region)]
