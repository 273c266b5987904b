"""Draws lines of the search tree as coloured text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.search.coverage import How
from mahtab_tui.search.node import FanOut, SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.calls.fan_out_grid import FanOutGrid
from mahtab_tui.tui.calls.glyphs import CELLS, COVER, GLYPHS, Role, glyph, legend
from mahtab_tui.tui.calls.labels import (
    budget,
    count_of,
    detail,
    is_part,
    label,
    one_line,
    short_cost,
    short_dollars,
    short_number,
    short_time,
    tally,
    totals,
)
from mahtab_tui.tui.calls.outline import CallLine, Kind
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Span, fitted

_HEADS = ("turn", "tok", "cost", "time")
_TIME, _COST = 8, 8
_COLUMNS = ((7, 96), (8, 76), (_COST, 60), (_TIME, 0))
"""The columns at the right edge: width in cells, including the space before it, and the width of
the pane from which it is shown."""

_SEEN = len(" 100%")
"""Cells of the share of the text that was seen, at the end of the bar."""

_PLACE = 12
"""Cells of a part's position in the text."""


class Drawing:
    """Draws lines for one width and palette."""

    def __init__(self, width: int, palette: Palette) -> None:
        self.width = width
        self.palette = palette
        self._drawers: dict[Kind, Callable[[CallLine, float, SearchNode | None], list[Span]]] = {
            "gap": lambda line, now, chosen: [],
            "root": self._root,
            "totals": self._totals,
            "left": self._left,
            "answer": self._answer,
            "bar": self._bar,
            "legend": self._legend,
            "node": self._node,
            "batch": self._batch,
            "field": self._field,
        }
        self._covered: dict[str, tuple[int, list[How | None]]] = {}

    def spans(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        """Draw a line. now: seconds since the epoch. chosen: the node under the cursor."""
        return self._drawers[line.kind](line, now, chosen)

    def style(self, role: Role) -> Style:
        found: Style = getattr(self.palette, role)
        return found

    def field_width(self, line: CallLine) -> int:
        return self.width - len(line.prefix)

    # Nodes

    def _root(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        node = line.node
        mark, role = glyph(node, now)
        left: list[Span] = [self._arrow(line), (mark, self.style(role)), (" ", Style())]
        columns = [(short_time(node.elapsed(now)), _TIME)]
        if not line.open:
            columns.insert(0, (short_cost(line.tree.used), _COST))
        room = (
            self.width
            - sum(cell_len(text) for text, _ in left)
            - sum(width for _, width in columns)
        )
        style = self.palette.text + BOLD if line.open else self.palette.text
        return [
            *left,
            (fitted(one_line(node.query), room), style),
            *((text.rjust(width), self.palette.muted) for text, width in columns),
        ]

    def _node(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        node = line.node
        mark, role = glyph(node, now)
        again: list[Span] = [("↻ ", self.palette.person)] if node.replaces is not None else []
        left: list[Span] = [
            (line.prefix, self.palette.hairline),
            self._arrow(line),
            (mark, self.style(role)),
            (" ", Style()),
            *again,
        ]
        columns = self._columns(node, now)
        room = (
            self.width
            - sum(cell_len(text) for text, _ in left)
            - sum(cell_len(text) for text, _ in columns)
        )
        return [*left, *self._words(node, now, max(0, room), len(left[1][0])), *columns]

    def _words(self, node: SearchNode, now: float, room: int, arrow: int) -> list[Span]:
        """Draw what a node is and does. For parts, the latter is aligned in a column."""
        name, doing = label(node), detail(node, now)
        muted = node.state == "waiting" or bool(node.again) or node.state == "stopped"
        name_style = self.palette.muted if muted else self.palette.text
        if not doing:
            return [(fitted(name, room), name_style)]
        wanted = (
            min(cell_len(name), max(12, room * 3 // 5))
            if not is_part(node)
            else max(_PLACE - arrow, cell_len(name))
        )
        wanted = min(wanted, room)
        rest = max(0, room - wanted - 2)
        spans = [(fitted(name, wanted), name_style), (fitted("", min(2, room - wanted)), Style())]
        return [*spans, (fitted(doing, rest), self._doing_style(node))]

    def _doing_style(self, node: SearchNode) -> Style:
        if node.state == "error":
            return self.palette.bad
        if node.state in ("thinking", "running"):
            return self.palette.model
        return (
            self.palette.text if node.state == "done" and not is_part(node) else self.palette.muted
        )

    def _columns(self, node: SearchNode, now: float) -> list[Span]:
        """Draw turns, tokens, cost and time, as far as there is room."""
        turn = node.turns[-1].number if node.turns and node.kind != "llm" else 0
        texts = (
            node.turn_label(turn, "{}/{}").removesuffix(" call"),
            short_number(node.used.tokens) if node.used.tokens else "",
            short_cost(node.used),
            short_time(node.elapsed(now)) if node.turns or node.finished else "",
        )
        return [
            (text.rjust(width), self.palette.muted)
            for text, width in zip(texts, self._column_widths, strict=True)
            if width
        ]

    @property
    def _column_widths(self) -> tuple[int, ...]:
        return tuple(cells if self.width >= least else 0 for cells, least in _COLUMNS)

    @property
    def heads(self) -> str:
        """The titles of the columns, aligned to the right edge."""
        return "".join(
            name.rjust(width) if width else ""
            for name, width in zip(_HEADS, self._column_widths, strict=True)
        )

    def _arrow(self, line: CallLine) -> Span:
        if line.open is None:
            return ("", Style()) if line.kind == "node" else ("  ", Style())
        return ("▾ " if line.open else "▸ ", self.palette.moon if line.open else self.palette.muted)

    # Fan-outs

    def _batch(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        batch = line.batch
        assert batch is not None
        spans: list[Span] = [(line.prefix, self.palette.hairline), self._arrow(line)]
        if batch.asks:
            usd = "" if batch.usd is None else f", about {short_dollars(batch.usd)}"
            spans += [
                ("? ", self.palette.moon + BOLD),
                (f"{count_of(batch.calls, 'call')} at once{usd}: waits for you", self.palette.moon),
            ]
        else:
            spans.append((count_of(batch.of, "part") + ": ", self.palette.text))
            spans += self._tally(batch, self.width - sum(cell_len(text) for text, _ in spans))
        return spans

    def _tally(self, batch: FanOut, room: int) -> list[Span]:
        """Draw how many parts are in which state: in words, or with the states' marks if there is
        no room."""
        words = ", ".join(
            f"{number} {'failed' if state == 'error' else state}" for state, number in tally(batch)
        )
        if len(words) <= room:
            return [(words, self.palette.muted)]
        spans: list[Span] = []
        for state, number in tally(batch):
            mark, role = GLYPHS[state]
            spans += [(mark, self.style(role)), (f" {number}  ", self.palette.muted)]
        return spans

    def _field(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        assert line.batch is not None
        spans: list[Span] = [(line.prefix, self.palette.hairline)]
        for state, same in groupby(FanOutGrid(line.batch, self.field_width(line)).row(line.row)):
            mark, role = CELLS[state]
            spans.append((mark * len(list(same)), self.style(role)))
        return spans

    # The whole search

    def _totals(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        tree = line.tree
        depth = (
            f"{tree.depth} of {int(tree.limits['max_depth'])}"
            if tree.limits.get("max_depth")
            else str(tree.depth)
        )
        return [
            ("  ", Style()),
            (fitted(totals(tree.used, depth), self.width - 2), self.palette.muted),
        ]

    def _left(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        return [
            ("  ", Style()),
            (fitted("left: " + budget(line.tree.left(now)), self.width - 2), self.palette.muted),
        ]

    def _answer(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        role = GLYPHS[line.node.state][1]
        style = self.palette.bad if line.node.state == "error" else self.palette.text
        words = one_line(line.node.answer.replace("**", "").replace("`", "")) or line.node.state
        return [("  ", Style()), ("→ ", self.style(role)), (fitted(words, self.width - 4), style)]

    def _bar(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        spans: list[Span] = [("  ", Style())]
        for how, same in groupby(self.covered(line.tree)):
            mark, role = COVER[how]
            spans.append((mark * len(list(same)), self.style(role)))
        return [*spans, (f"{line.tree.coverage.seen:{_SEEN}.0%}", self.palette.muted)]

    @property
    def bar_width(self) -> int:
        """The width of the coverage bar, without the share of the text that was seen."""
        return max(1, self.width - 2 - _SEEN)

    def covered(self, tree: Tree) -> Sequence[How | None]:
        """Return the cells of a tree's coverage bar."""
        version, cells = self._covered.get(tree.id, (-1, []))
        if version != tree.coverage.version:
            cells = tree.coverage.cells(self.bar_width)
            self._covered[tree.id] = tree.coverage.version, cells
        return cells

    def _legend(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        """Mark the chosen node's text below the bar, or else explain the bar's cells."""
        tree = line.tree
        if (
            chosen is not None
            and chosen is not tree.root
            and chosen.spans
            and tree.nodes.get(chosen.id) is chosen
        ):
            cells = self.bar_width
            first = min(span[0] for span in chosen.spans) * cells // tree.coverage.chars
            after = max(
                first + 1, -(-max(span[1] for span in chosen.spans) * cells // tree.coverage.chars)
            )
            return [
                (" " * (2 + first), Style()),
                ("▔" * (min(after, cells) - first), self.palette.text),
            ]
        return [("  ", Style()), *((text, self.style(role)) for text, role in legend())]
