"""Draws the search tree's lines as coloured text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.node import (
    STATES,
    BudgetLeft,
    CoverageCell,
    FanOut,
    How,
    SearchNode,
    State,
    UsageSum,
)
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.rows.row import FRAME_RATE, FRAMES, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

Role = Literal["person", "model", "moon", "good", "bad", "hairline", "muted", "text"]
"""The name of a palette style."""

PHASES = "◐◓◑◒"
_PHASE_RATE = 4

GLYPHS: Mapping[State, tuple[str, Role]] = {
    "waiting": ("◌", "muted"),
    "thinking": ("◉", "model"),
    "running": ("●", "moon"),
    "done": ("✓", "good"),
    "partial": ("≈", "moon"),
    "error": ("✗", "bad"),
    "stopped": ("■", "muted"),
}

CELLS: Mapping[State, tuple[str, Role]] = {
    "waiting": ("·", "muted"),
    "thinking": ("◦", "model"),
    "running": ("▪", "moon"),
    "done": ("■", "good"),
    "partial": ("◪", "moon"),
    "error": ("✗", "bad"),
    "stopped": ("□", "muted"),
}
"""Symbols for the cells of a fan-out grid."""

COVER: Mapping[How | None, tuple[str, Role]] = {
    None: ("▁", "hairline"),
    "handed": ("▂", "person"),
    "peek": ("▄", "model"),
    "grep": ("▆", "model"),
    "answer": ("█", "moon"),
}

LEGEND: Mapping[How, str] = {
    "handed": "handed",
    "peek": "read",
    "grep": "matched",
    "answer": "answers",
}


def coverage_mark(cell: CoverageCell) -> tuple[str, Role]:
    """Return the mark of a cell of the coverage bar; a stroke where little was covered."""
    mark, role = COVER[cell.how]
    return "▏" if cell.sparse else mark, role


def legend() -> list[tuple[str, Role]]:
    """Return the legend of the coverage bar, as texts with their styles."""
    pieces = [
        piece for how, words in LEGEND.items() for piece in (COVER[how], (f" {words} ", "muted"))
    ]
    last, role = pieces[-1]
    return [*pieces[:-1], (last.rstrip(), role)]


def glyph(node: SearchNode, now: float) -> tuple[str, Role]:
    """Return a node's mark. It is animated while the model answers, or while code runs without
    waiting for other nodes."""
    if any(batch.asks for batch in node.batches.values()):
        return "?", "moon"
    mark, role = GLYPHS[node.state]
    if node.state == "thinking" and not node.alive:
        mark = FRAMES[int(now * FRAME_RATE) % len(FRAMES)]
    elif node.state == "running" and not node.alive:
        mark = PHASES[int(now * _PHASE_RATE) % len(PHASES)]
    return mark, role


_MAX_INPUT_CHARS = 400
"""Maximum characters of a text used for one line."""


def one_line(text: str) -> str:
    """Return the start of an external text on one line, safe to draw."""
    return " ".join(plain(text[:_MAX_INPUT_CHARS]).split())


def short_number(number: float) -> str:
    """Format a number: ``980``, ``12.4k``, ``3.1M``."""
    if number >= 999_950:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.1f}k" if number >= 1_000 else str(int(number))


def short_time(seconds: float) -> str:
    """Format a duration: ``4.2 s``, ``123 s``, ``31 min``; at most seven cells below 100 hours."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 999.5 else f"{seconds / 60:.0f} min"


def short_cost(used: UsageSum) -> str:
    """Format the cost, such as ``$0.03``; a + means that some prices are unknown, empty that all
    are."""
    if used.unpriced == used.calls:
        return ""
    return short_dollars(used.cost) + ("+" if used.unpriced else "")


def short_dollars(usd: float) -> str:
    """Format US dollars, such as ``$0.03``; below one cent, such as ``$.004``."""
    return f"${usd:.2f}" if usd >= 0.00995 or not usd else f"${usd:.3f}".replace("$0.", "$.")


def format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_position(spans: Sequence[TextSpan]) -> str:
    """Return the position of a node's text within the root's text, such as ``2.1–4.2M``."""
    if not spans:
        return ""
    if len(spans) > 1 and any(start != end for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans)} places"
    start, end = short_number(spans[0][0]), short_number(spans[-1][1])
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Return whether several nodes have this node's query; they are labelled by their position in
    the text."""
    return node.batch is not None and node.batch.of > 1 and node.replaces is None


def label(node: SearchNode) -> str:
    """Return a node's label: its position in the text for a part, otherwise its query."""
    if is_part(node):
        return describe_position(node.spans) or f"part {node.index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """Return what a node is doing, or its result."""
    if any(batch.asks for batch in node.batches.values()):
        return "waits for you"
    if node.state == "waiting":
        if node.back_off is None:
            return "waits for its turn" if node.turns else ""
        return f"overloaded, again in {max(0.0, node.back_off - now):.0f} s"
    if node.state == "stopped":
        return "cut off here" if node.cut else one_line(node.answer) or "stopped"
    if node.finished:
        late = "late: " if node.late else ""
        return late + one_line(node.answer)
    if turn := node.turns[-1].number if node.turns else 0:
        return (
            f"turn {turn}  {one_line(node.last_line)}"
            if node.kind != "llm"
            else one_line(node.last_line)
        )
    return ""


def totals(used: UsageSum, depth: str) -> str:
    """Return a search's usage so far, and its depth."""
    words = [
        format_count(used.calls, "call"),
        f"{short_number(used.tokens)} tok",
        short_cost(used),
        f"depth {depth}",
    ]
    return " · ".join(filter(None, words))


def budget(left: BudgetLeft) -> str:
    """Return the rest of the budgets; empty if there are none."""
    words = []
    if left.calls is not None:
        words.append(format_count(left.calls, "call"))
    if left.tokens is not None:
        words.append(f"{short_number(left.tokens)} tok")
    if left.usd is not None:
        words.append(short_dollars(left.usd))
    if left.seconds is not None:
        words.append(short_time(left.seconds))
    return " · ".join(words)


def tally(batch: FanOut) -> Iterator[tuple[State, int]]:
    """Yield each state with its number of parts, unless it is zero; thinking counts as running."""
    for state in STATES:
        number = batch.count(state) + (batch.count("thinking") if state == "running" else 0)
        if number and state != "thinking":
            yield state, number


ROWS = 5
"""Maximum number of lines."""

_STATE_PRIORITY: tuple[State, ...] = (
    "error",
    "thinking",
    "running",
    "partial",
    "stopped",
    "waiting",
    "done",
)
"""Which state wins if a cell stands for several parts, highest first."""


class FanOutGrid:
    """Assigns the parts of a fan-out to the cells of a grid of some width."""

    def __init__(self, batch: FanOut, width: int) -> None:
        self._batch = batch
        # Round to multiples of ten, which are easy to count.
        self._width = max(1, width - width % 10 if width >= 20 else width)
        self.parts = -(-batch.of // (ROWS * self._width)) or 1
        """Parts per cell."""
        self._cells = -(-batch.of // self.parts)
        self.rows = -(-self._cells // self._width)

    def row(self, row: int) -> list[State]:
        """Return the states of a row's cells."""
        first = row * self._width
        after = min(first + self._width, self._cells)
        return [self._state(cell) for cell in range(first, after)]

    def node(self, row: int, column: int) -> SearchNode | None:
        """Return the part in a cell; if there are several, the one whose state is shown."""
        if not 0 <= column < self._width:
            return None
        cell = row * self._width + column
        found = [node for node in map(self._batch.slots.get, self._range(cell)) if node is not None]
        return min(found, key=lambda node: _STATE_PRIORITY.index(node.state), default=None)

    def _range(self, cell: int) -> range:
        return range(cell * self.parts, min((cell + 1) * self.parts, self._batch.of))

    def _state(self, cell: int) -> State:
        slots = self._batch.slots
        if self.parts == 1:
            return slots[cell].state if cell in slots else "waiting"
        states = {
            slots[index].state if index in slots else "waiting" for index in self._range(cell)
        }
        return next(state for state in _STATE_PRIORITY if state in states)


GROUPED_PARTS = 12
"""A fan-out with more parts is drawn as one line and a grid; otherwise each part has a line."""
CACHED_LINES = 20_000
"""Maximum number of nodes with cached lines."""

Kind = Literal["gap", "root", "totals", "left", "answer", "bar", "legend", "node", "batch", "field"]
Key = tuple[str, str]
"""Identifies a node (tree, node) or a fan-out (tree, node/batch)."""


class CallLine(NamedTuple):
    kind: Kind
    tree: Tree
    node: SearchNode
    prefix: str = ""
    """The tree's guide lines."""
    batch: FanOut | None = None
    row: int = 0
    """The row within a grid."""
    open: bool | None = None
    """Whether the line is expanded; None if it cannot be."""

    @property
    def key(self) -> Key:
        """Identifies the line, so that the cursor finds it again."""
        name = self.node.id if self.batch is None else f"{self.node.id}/{self.batch.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        return self.kind in ("root", "node", "batch")


class Outline:
    """Remembers which nodes the user expanded or collapsed; by default, finished nodes are
    collapsed. Lines of unchanged nodes are cached."""

    def __init__(self) -> None:
        self._chosen: dict[Key, bool] = {}
        self._cached: dict[Key, tuple[tuple[object, ...], list[CallLine]]] = {}
        """The lines of a node and its descendants, with the values they depend on."""

    def set_open(self, line: CallLine, open: bool) -> None:
        """Expand or collapse a line permanently."""
        if line.open is not None:
            self._chosen[line.key] = open
            self._cached.clear()

    def expand_to(self, tree: Tree, node: SearchNode) -> None:
        """Expand all ancestors of a node permanently."""
        while (above := node.parent) is not None:
            if node.batch is not None:
                self._chosen[tree.id, f"{above.id}/{node.batch.id}"] = True
            self._chosen[tree.id, above.id] = True
            node = above
        if tree.root is not None:
            self._chosen[tree.id, tree.root.id] = True
        self._cached.clear()

    def lines(self, trees: Sequence[Tree], width: int) -> list[CallLine]:
        """Return all lines for a width, newest tree first."""
        if len(self._cached) > CACHED_LINES:
            self._cached.clear()
        lines: list[CallLine] = []
        for number, tree in enumerate(trees):
            root = tree.root
            if root is None:
                continue
            if lines and lines[-1].kind != "root":
                lines.append(CallLine("gap", tree, root))
            lines += self._tree(tree, root, width, newest=number == 0)
        return lines

    def _tree(
        self, tree: Tree, root: SearchNode, width: int, *, newest: bool
    ) -> Iterator[CallLine]:
        open = self._chosen.get((tree.id, root.id), newest or not tree.finished)
        yield CallLine("root", tree, root, open=open)
        if not open:
            return
        yield CallLine("totals", tree, root)
        if root.finished:
            yield CallLine("answer", tree, root)
        elif tree.has_budget:
            yield CallLine("left", tree, root)
        if tree.coverage.chars:
            yield CallLine("bar", tree, root)
            yield CallLine("legend", tree, root)
        yield from self._below(tree, root, "", width)
        for again in _reruns(root):
            yield from self._node(tree, again, "", width, last=True)
        for other in tree.roots[1:]:
            yield from self._node(tree, other, "", width, last=True)

    def _below(self, tree: Tree, node: SearchNode, prefix: str, width: int) -> Iterator[CallLine]:
        """Yield the lines of a node's children; a large fan-out is shown in place of its first
        part."""
        grouped: set[str] = set()
        items: list[SearchNode | FanOut] = []
        for child in node.children:
            batch = child.batch
            if batch is None or batch.of <= GROUPED_PARTS:
                items += [child, *_reruns(child)]
            elif batch.id not in grouped:
                grouped.add(batch.id)
                items.append(batch)
        items += [batch for batch in node.batches.values() if batch.asks and not batch.slots]
        for item in items:
            last = item is items[-1]
            if isinstance(item, SearchNode):
                yield from self._node(tree, item, prefix, width, last=last)
            else:
                yield from self._batch(tree, node, item, prefix, width, last=last)

    def _node(
        self, tree: Tree, node: SearchNode, prefix: str, width: int, *, last: bool
    ) -> Sequence[CallLine]:
        lead = prefix + ("└ " if last else "├ ")
        if not node.children and not node.batches:
            return (CallLine("node", tree, node, lead),)
        key, stamp = (tree.id, node.id), (node.shape, prefix, last, width)
        cached, lines = self._cached.get(key, ((), []))
        if cached != stamp:
            open = self._chosen.get(key, not node.finished or bool(node.alive))
            lines = [CallLine("node", tree, node, lead, open=open)]
            if open:
                lines += self._below(tree, node, prefix + ("  " if last else "│ "), width)
            self._cached[key] = stamp, lines
        return lines

    def _batch(
        self, tree: Tree, node: SearchNode, batch: FanOut, prefix: str, width: int, *, last: bool
    ) -> Iterator[CallLine]:
        open = self._chosen.get((tree.id, f"{node.id}/{batch.id}"), False) if batch.slots else None
        yield CallLine("batch", tree, node, prefix + ("└ " if last else "├ "), batch, open=open)
        below = prefix + ("  " if last else "│ ")
        if open:
            parts = [batch.slots[index] for index in sorted(batch.slots)]
            for part in parts:
                yield from self._node(tree, part, below, width, last=part is parts[-1])
        elif batch.slots:
            for row in range(FanOutGrid(batch, width - len(below) - 2).rows):
                yield CallLine("field", tree, node, below + "  ", batch, row)


def _reruns(node: SearchNode) -> Iterator[SearchNode]:
    """Yield the reruns of a node, recursively."""
    for each in node.again:
        yield each
        yield from _reruns(each)


_HEADS = ("turn", "tok", "cost", "time")
_TIME, _COST = 8, 8
_COLUMNS = ((7, 96), (8, 76), (_COST, 60), (_TIME, 0))
"""Columns at the right edge: the width in cells, including the space before it, and the minimum
width of the pane."""

_SEEN = len(" 100%")
"""Cells for the share of the text that was seen, after the bar."""

_POSITION = 12
"""Cells for a part's position in the text."""


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
        self._covered: dict[str, tuple[int, list[CoverageCell]]] = {}

    def spans(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        """Draw a line. now: seconds since the epoch. chosen: the node at the cursor."""
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
            (fit_text(one_line(node.query), room), style),
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
        """Draw a node's label and what it is doing. For parts, the latter is aligned in a
        column."""
        name, doing = label(node), detail(node, now)
        muted = node.state == "waiting" or bool(node.again) or node.state == "stopped"
        name_style = self.palette.muted if muted else self.palette.text
        if not doing:
            return [(fit_text(name, room), name_style)]
        wanted = (
            min(cell_len(name), max(12, room * 3 // 5))
            if not is_part(node)
            else max(_POSITION - arrow, cell_len(name))
        )
        wanted = min(wanted, room)
        rest = max(0, room - wanted - 2)
        spans = [
            (fit_text(name, wanted), name_style),
            (fit_text("", min(2, room - wanted)), Style()),
        ]
        return [*spans, (fit_text(doing, rest), self._doing_style(node))]

    def _doing_style(self, node: SearchNode) -> Style:
        if node.state == "error":
            return self.palette.bad
        if node.state in ("thinking", "running"):
            return self.palette.model
        return (
            self.palette.text if node.state == "done" and not is_part(node) else self.palette.muted
        )

    def _columns(self, node: SearchNode, now: float) -> list[Span]:
        """Draw turns, tokens, cost and time, as far as they fit."""
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
        """The column titles, aligned to the right edge."""
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
                (
                    f"{format_count(batch.calls, 'call')} at once{usd}: waits for you",
                    self.palette.moon,
                ),
            ]
        else:
            spans.append((format_count(batch.of, "part") + ": ", self.palette.text))
            spans += self._tally(batch, self.width - sum(cell_len(text) for text, _ in spans))
        return spans

    def _tally(self, batch: FanOut, room: int) -> list[Span]:
        """Draw the number of parts in each state, in words, or as symbols if there is no room."""
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
            (fit_text(totals(tree.used, depth), self.width - 2), self.palette.muted),
        ]

    def _left(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        return [
            ("  ", Style()),
            (fit_text("left: " + budget(line.tree.left(now)), self.width - 2), self.palette.muted),
        ]

    def _answer(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        role = GLYPHS[line.node.state][1]
        style = self.palette.bad if line.node.state == "error" else self.palette.text
        words = one_line(line.node.answer.replace("**", "").replace("`", "")) or line.node.state
        return [("  ", Style()), ("→ ", self.style(role)), (fit_text(words, self.width - 4), style)]

    def _bar(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        spans: list[Span] = [("  ", Style())]
        for cell, same in groupby(self.coverage_cells(line.tree)):
            mark, role = coverage_mark(cell)
            spans.append((mark * len(list(same)), self.style(role)))
        return [*spans, (f"{line.tree.coverage.seen:{_SEEN}.0%}", self.palette.muted)]

    @property
    def bar_width(self) -> int:
        """The width of the coverage bar, without the percentage."""
        return max(1, self.width - 2 - _SEEN)

    def coverage_cells(self, tree: Tree) -> Sequence[CoverageCell]:
        """Return the cells of a tree's coverage bar."""
        version, cells = self._covered.get(tree.id, (-1, []))
        if version != tree.coverage.version:
            cells = tree.coverage.cells(self.bar_width)
            self._covered[tree.id] = tree.coverage.version, cells
        return cells

    def _legend(self, line: CallLine, now: float, chosen: SearchNode | None) -> list[Span]:
        """Mark the selected node's text below the bar; without one, explain the bar's cells."""
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
