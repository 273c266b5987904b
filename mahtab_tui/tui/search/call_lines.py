"""The lines of a search's tree, and how they are drawn in one width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.tree_nodes import STATES, FanOut, SearchNode, State
from mahtab_tui.tui.rows.row import FRAME_RATE, FRAMES, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.widgets.bars import short_number

Role = Literal["person", "model", "highlight", "good", "bad", "hairline", "muted", "text"]
"""A colour of the palette."""


class NodeMark(NamedTuple):
    """The sign for the state of a node."""

    sign: str
    role: Role


class FigureColumn(NamedTuple):
    """A column of figures."""

    width: int
    min_pane_width: int
    """The least width of the pane at which the column is visible."""


PHASES = "◐◓◑◒"
"""The pictures of the mark of a node whose code runs."""
PHASES_PER_S = 4
MARKS: Mapping[State, NodeMark] = {
    "waiting": NodeMark("◌", "muted"),
    "thinking": NodeMark("◉", "model"),
    "running": NodeMark("●", "highlight"),
    "done": NodeMark("✓", "good"),
    "partial": NodeMark("≈", "highlight"),
    "error": NodeMark("✗", "bad"),
    "stopped": NodeMark("■", "muted"),
}
ASKING_MARK = NodeMark("?", "highlight")
COLUMN_HEADINGS = ("turn", "tok", "cost", "time")
TIME_WIDTH = 8
COST_WIDTH = 8
_COLUMNS = (
    FigureColumn(7, 96),
    FigureColumn(8, 76),
    FigureColumn(COST_WIDTH, 60),
    FigureColumn(TIME_WIDTH, 0),
)
MIN_POSITION_WIDTH = 12
"""The width of a position with its arrow, so that what follows is aligned."""
_MIN_LABEL_WIDTH = 12
"""A longer query is shortened to this width, or to three fifths of the line if that is more."""
_MAX_LINE_CHARS = 400
"""Characters of an external text that are prepared for one line."""


def node_mark(node: SearchNode, now: float) -> NodeMark:
    """Return a node's mark, animated while the node itself works and not a node below it.

    now: the time in seconds, which selects the picture of the animation."""
    if any(batch.asks for batch in node.batches.values()):
        return ASKING_MARK
    mark = MARKS[node.state]
    if node.alive:
        return mark
    if node.state == "thinking":
        return mark._replace(sign=FRAMES[int(now * FRAME_RATE) % len(FRAMES)])
    if node.state == "running":
        return mark._replace(sign=PHASES[int(now * PHASES_PER_S) % len(PHASES)])
    return mark


def one_line(text: str) -> str:
    """Return the start of an external text on one line."""
    return " ".join(plain(text[:_MAX_LINE_CHARS]).split())


def short_time(seconds: float) -> str:
    """Format ``4.2 s``, ``123 s``, ``31 min``."""
    # The limits are those at which the rounded number gets another digit.
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 999.5:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min"


def short_cost(usage: UsageStats) -> str:
    """Format ``$0.03``; + if some prices are unknown, empty if all are."""
    if usage.unpriced_calls == usage.calls:
        return ""
    dollars = short_dollars(usage.cost)
    return f"{dollars}+" if usage.unpriced_calls else dollars


def short_dollars(usd: float) -> str:
    """Format ``$0.03``, ``$.004``."""
    if usd >= 0.00995 or not usd:
        return f"${usd:,.2f}"
    return f"${usd:,.3f}".replace("$0.", "$.")


def format_count(count: int, noun: str) -> str:
    """Format ``1 call``, ``1,200 calls``."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def describe_position(spans: Sequence[TextSpan]) -> str:
    """Return a node's position in the root's text: ``2.1–4.2M``; empty if unknown."""
    if not spans:
        return ""
    if any(end != start for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans):,} places"
    start = short_number(spans[0][0])
    end = short_number(spans[-1][1])
    # A unit that both have is written once.
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Return whether a node is one of several parallel calls."""
    return node.batch is not None and node.batch.of > 1


def label(node: SearchNode) -> str:
    """Return what a node's line begins with: its position in the text, or its query."""
    if is_part(node):
        return describe_position(node.spans) or f"part {node.index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """Return what a node does, or its answer; empty if it has not begun."""
    if any(batch.asks for batch in node.batches.values()):
        return "waits for you"
    if node.state == "waiting":
        if node.back_off is not None:
            return f"overloaded, again in {max(0.0, node.back_off - now):,.0f} s"
        return "waits for its turn" if node.turns else ""
    if node.state == "stopped":
        if node.cut:
            return "cut off here"
        return one_line(node.answer) or "stopped"
    if node.finished:
        return one_line(node.answer)
    if not node.turns:
        return ""
    last_line = one_line(node.last_line)
    if node.kind == "llm":
        return last_line
    return f"turn {node.turns[-1].number}  {last_line}"


LineKind = Literal["gap", "root", "totals", "answer", "node", "batch"]
LineKey = tuple[str, str]
"""A node (tree, node) or a fan-out (tree, node/batch)."""


class CallLine(NamedTuple):
    """A line of a tree: a node, a fan-out, or what belongs to them."""

    kind: LineKind
    tree: SearchTree
    node: SearchNode
    prefix: str = ""
    """What is drawn of the tree's structure before the line: ``│ └ ``."""
    batch: FanOut | None = None
    open: bool | None = None
    """None if the line cannot be expanded."""

    @property
    def key(self) -> LineKey:
        name = self.node.id if self.batch is None else f"{self.node.id}/{self.batch.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        return self.kind in ("root", "node", "batch")


class CallDrawing:
    """Draws lines of trees in one width."""

    def __init__(self, width: int, palette: Palette) -> None:
        self.width = width
        self.palette = palette

    def spans(self, line: CallLine, now: float) -> list[Span]:
        """Draw a line. now: the time in seconds, for what runs."""
        match line.kind:
            case "root":
                return self._root(line, now)
            case "node":
                return self._node(line, now)
            case "totals":
                return self._totals(line.tree)
            case "answer":
                return self._answer(line.node)
            case "gap":
                return []
        return self._batch(line)

    def style(self, role: Role) -> Style:
        """Return a colour of the palette."""
        style: Style = getattr(self.palette, role)
        return style

    def _totals(self, tree: SearchTree) -> list[Span]:
        usage = tree.used
        tokens = f"{short_number(usage.tokens)} tok"
        figures = [format_count(usage.calls, "call"), tokens]
        if cost := short_cost(usage):
            figures.append(cost)
        figures.append(f"depth {tree.depth}")
        totals = fit_text(" · ".join(figures), self.width - 2)
        return [("  ", Style()), (totals, self.palette.muted)]

    def _root(self, line: CallLine, now: float) -> list[Span]:
        node = line.node
        palette = self.palette
        prefix = [self._arrow(line), self._mark(node, now), (" ", Style())]

        # The totals of an open tree stand below its root.
        cost = "" if line.open else short_cost(line.tree.used).rjust(COST_WIDTH)
        time = short_time(node.elapsed(now)).rjust(TIME_WIDTH)
        figures = (cost + time, palette.muted)
        query = fit_text(one_line(node.query), self._remaining_width([*prefix, figures]))
        query_style = palette.text + BOLD if line.open else palette.text
        return [*prefix, (query, query_style), figures]

    def _node(self, line: CallLine, now: float) -> list[Span]:
        """Draw a call: its mark, its text, and its figures at the right."""
        node = line.node
        palette = self.palette
        arrow = self._arrow(line)
        mark = self._mark(node, now)
        prefix = [(line.prefix, palette.hairline), arrow, mark, (" ", Style())]

        # A plain call of a model has no turns to count.
        last_turn = 0
        if node.turns and node.kind != "llm":
            last_turn = node.turns[-1].number
        turns = node.turn_label(last_turn, "{}/{}").removesuffix(" call")
        tokens = short_number(node.used.tokens) if node.used.tokens else ""
        has_begun = bool(node.turns) or node.finished
        time = short_time(node.elapsed(now)) if has_begun else ""
        figures = self.columns((turns, tokens, short_cost(node.used), time))
        columns = (figures, palette.muted)
        text_width = max(0, self._remaining_width([*prefix, columns]))
        arrow_width = len(arrow[0])
        return [*prefix, *self._label_and_detail(node, now, text_width, arrow_width), columns]

    def _remaining_width(self, spans: Iterable[Span]) -> int:
        return self.width - sum(cell_len(text) for text, _ in spans)

    def _label_and_detail(
        self, node: SearchNode, now: float, width: int, arrow_width: int
    ) -> list[Span]:
        """Draw a node's label and detail. width: of both together. arrow_width: that of the arrow
        before them."""
        label_text = label(node)
        detail_text = detail(node, now)
        palette = self.palette
        label_style = palette.muted if node.state in ("waiting", "stopped") else palette.text
        if not detail_text:
            return [(fit_text(label_text, width), label_style)]

        # Positions stand below each other, with and without an arrow.
        if is_part(node):
            wanted_width = max(MIN_POSITION_WIDTH - arrow_width, cell_len(label_text))
        else:
            max_label_width = max(_MIN_LABEL_WIDTH, width * 3 // 5)
            wanted_width = min(cell_len(label_text), max_label_width)
        label_width = min(wanted_width, width)
        gap_width = min(2, width - label_width)
        detail_width = width - label_width - gap_width

        styles = {"error": palette.bad, "thinking": palette.model, "running": palette.model}
        if not is_part(node):
            styles["done"] = palette.text
        return [
            (fit_text(label_text, label_width), label_style),
            (" " * gap_width, Style()),
            (fit_text(detail_text, detail_width), styles.get(node.state, palette.muted)),
        ]

    def columns(self, texts: Sequence[str]) -> str:
        """Return the texts of the visible columns, aligned. texts: one for each of `_COLUMNS`."""
        aligned_texts = []
        for text, column in zip(texts, _COLUMNS, strict=True):
            if self.width >= column.min_pane_width:
                aligned_texts.append(text.rjust(column.width))
        return "".join(aligned_texts)

    def _mark(self, node: SearchNode, now: float) -> Span:
        mark = node_mark(node, now)
        return mark.sign, self.style(mark.role)

    def _arrow(self, line: CallLine) -> Span:
        if line.open is None:
            # A node's mark takes the place of the arrow.
            blank = "" if line.kind == "node" else "  "
            return blank, Style()
        if line.open:
            return "▾ ", self.palette.highlight
        return "▸ ", self.palette.muted

    def _batch(self, line: CallLine) -> list[Span]:
        """Draw a fan-out: what it asks, or the states of its parts."""
        batch = line.batch
        assert batch is not None
        palette = self.palette
        prefix = [(line.prefix, palette.hairline), self._arrow(line)]
        if batch.asks:
            cost = "" if batch.usd is None else f", about {short_dollars(batch.usd)}"
            question = f"{format_count(batch.calls, 'call')} at once{cost}: waits for you"
            return [*prefix, ("? ", palette.highlight + BOLD), (question, palette.highlight)]

        spans = [*prefix, (format_count(batch.of, "part") + ": ", palette.text)]
        counts = {state: batch.count(state) for state in STATES}
        # To the user, both are at work.
        counts["running"] += counts.pop("thinking")
        state_counts = []
        for state, count in counts.items():
            if count:
                participle = "failed" if state == "error" else state
                state_counts.append(f"{count:,} {participle}")
        text = fit_text(", ".join(state_counts), self._remaining_width(spans)).rstrip()
        return [*spans, (text, palette.muted)]

    def _answer(self, node: SearchNode) -> list[Span]:
        style = self.palette.bad if node.state == "error" else self.palette.text
        # Marks of Markdown, which is not rendered in one line.
        answer = node.answer.replace("**", "").replace("`", "")
        text = one_line(answer) or node.state
        arrow = ("→ ", self.style(MARKS[node.state].role))
        return [("  ", Style()), arrow, (fit_text(text, self.width - 4), style)]
