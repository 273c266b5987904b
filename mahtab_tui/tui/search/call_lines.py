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
    """How the state of a node is drawn."""

    sign: str
    """A single character."""
    role: Role
    """The colour of the sign."""


class FigureColumn(NamedTuple):
    """A column of figures."""

    width: int
    """The width of the column, in cells."""
    min_line_width: int
    """The column is left out of lines with fewer cells."""


RUNNING_SIGNS = "◐◓◑◒"
"""The signs that follow each other while the code of a node runs."""
RUNNING_SIGNS_PER_S = 4
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
"""In cells, as all widths here."""
COST_WIDTH = 8
_COLUMNS = (
    FigureColumn(7, min_line_width=96),
    FigureColumn(8, min_line_width=76),
    FigureColumn(COST_WIDTH, min_line_width=60),
    FigureColumn(TIME_WIDTH, min_line_width=0),
)
"""The columns of `COLUMN_HEADINGS`."""
MIN_POSITION_WIDTH = 12
"""The width of a position with its arrow, so that what follows is aligned."""
_MIN_LABEL_WIDTH = 12
"""A longer query is shortened to this width, or to three fifths of the line if that is more."""
_MAX_LINE_CHARS = 400
"""Only this many characters of a text are prepared for a line: none is as wide."""


def node_mark(node: SearchNode, now: float) -> NodeMark:
    """Return the mark of a node. It moves while the node itself works, and not a node below it.

    Args:
        node: The node.
        now: The time in seconds, which selects the sign of a mark that moves.
    """
    if any(fan_out.is_waiting for fan_out in node.fan_outs.values()):
        return ASKING_MARK
    mark = MARKS[node.state]
    if node.running_descendants:
        return mark
    if node.state == "thinking":
        sign_index = int(now * FRAME_RATE) % len(FRAMES)
        return mark._replace(sign=FRAMES[sign_index])
    if node.state == "running":
        sign_index = int(now * RUNNING_SIGNS_PER_S) % len(RUNNING_SIGNS)
        return mark._replace(sign=RUNNING_SIGNS[sign_index])
    return mark


def one_line(text: str) -> str:
    """Return the start of a text from outside as one line, without control characters."""
    return " ".join(plain(text[:_MAX_LINE_CHARS]).split())


def short_time(seconds: float) -> str:
    """Return a duration such as ``4.2 s``, ``123 s`` or ``31 min``."""
    # At these limits, rounding gives the number another digit.
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 999.5:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min"


def short_cost(usage: UsageStats) -> str:
    """Return a cost such as ``$0.03``; ``$0.03+`` if some prices are unknown, empty if all are."""
    if usage.unpriced_calls == usage.calls:
        return ""
    dollars = short_dollars(usage.cost)
    return f"{dollars}+" if usage.unpriced_calls else dollars


def short_dollars(usd: float) -> str:
    """Return US dollars such as ``$0.03`` or ``$.004``."""
    if usd >= 0.00995 or not usd:
        return f"${usd:,.2f}"
    return f"${usd:,.3f}".replace("$0.", "$.")


def format_count(count: int, noun: str) -> str:
    """Return a count such as ``1 call`` or ``1,200 calls``."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def describe_position(spans: Sequence[TextSpan]) -> str:
    """Return where the text of a node stands in the root's text, such as ``2.1–4.2M``.

    Args:
        spans: The places, in characters; empty if they are not known.
    """
    if not spans:
        return ""
    if any(end != start for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans):,} places"
    start = short_number(spans[0][0])
    end = short_number(spans[-1][1])
    # Write a unit once if both have it.
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Return whether a node is one of several parallel calls."""
    return node.fan_out is not None and node.fan_out.part_count > 1


def label(node: SearchNode) -> str:
    """Return the text with which the line of a node begins: its place in the text, or its query."""
    if is_part(node):
        return describe_position(node.spans) or f"part {node.part_index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """Return what a node does now, or its answer; empty if it has not started."""
    if any(fan_out.is_waiting for fan_out in node.fan_outs.values()):
        return "waits for you"
    if node.state == "waiting":
        if node.retry_at is not None:
            return f"overloaded, again in {max(0.0, node.retry_at - now):,.0f} s"
        return "waits for its turn" if node.turns else ""
    if node.state == "stopped":
        if node.is_cut_off:
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


LineKind = Literal["gap", "root", "totals", "answer", "node", "fan_out"]
LineKey = tuple[str, str]
"""The id of a tree, and the id of a node, or ``node/fan-out``."""


class CallLine(NamedTuple):
    """A line of a tree: a node, a fan-out, or what belongs to them."""

    kind: LineKind
    tree: SearchTree
    node: SearchNode
    prefix: str = ""
    """What is drawn of the tree's structure before the line: ``│ └ ``."""
    fan_out: FanOut | None = None
    open: bool | None = None
    """Whether the lines below it are visible; None if it has none."""

    @property
    def key(self) -> LineKey:
        """What identifies the line when the lines are made again."""
        name = self.node.id if self.fan_out is None else f"{self.node.id}/{self.fan_out.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        """Whether the cursor stops at the line."""
        return self.kind in ("root", "node", "fan_out")


class CallDrawing:
    """Draws lines of trees in one width."""

    def __init__(self, width: int, palette: Palette) -> None:
        """
        Args:
            width: The width of a line, in cells.
            palette: The colours.
        """
        self.width = width
        self.palette = palette

    def spans(self, line: CallLine, now: float) -> list[Span]:
        """Draw a line.

        Args:
            line: The line.
            now: The time in seconds since the epoch, for calls that have not ended.
        """
        match line.kind:
            case "root":
                return self._root(line, now)
            case "totals":
                return self._totals(line.tree)
            case "answer":
                return self._answer(line.node)
            case "node":
                return self._node(line, now)
            case "fan_out":
                return self._fan_out(line)
            case "gap":
                return []

    def _root(self, line: CallLine, now: float) -> list[Span]:
        """Draw the query of a search, and what the search has taken."""
        node = line.node
        palette = self.palette
        prefix = [self._arrow(line), self._mark(node, now), (" ", Style())]

        # The totals of an open tree stand below its root.
        cost = "" if line.open else short_cost(line.tree.usage).rjust(COST_WIDTH)
        time = short_time(node.elapsed_s(now)).rjust(TIME_WIDTH)
        figures = (cost + time, palette.muted)
        query = fit_text(one_line(node.query), self._remaining_width([*prefix, figures]))
        query_style = palette.text + BOLD if line.open else palette.text
        return [*prefix, (query, query_style), figures]

    def _totals(self, tree: SearchTree) -> list[Span]:
        """Draw what all calls of a tree have used."""
        usage = tree.usage
        tokens = f"{short_number(usage.tokens)} tok"
        figures = [format_count(usage.calls, "call"), tokens]
        if cost := short_cost(usage):
            figures.append(cost)
        figures.append(f"depth {tree.depth}")
        totals = fit_text(" · ".join(figures), self.width - 2)
        return [("  ", Style()), (totals, self.palette.muted)]

    def _answer(self, node: SearchNode) -> list[Span]:
        """Draw the answer of a search, or how it has ended."""
        style = self.palette.bad if node.state == "error" else self.palette.text
        # Markdown is not rendered in one line, so its marks would be in the way.
        answer = node.answer.replace("**", "").replace("`", "")
        text = one_line(answer) or node.state
        arrow = ("→ ", self.style(MARKS[node.state].role))
        return [("  ", Style()), arrow, (fit_text(text, self.width - 4), style)]

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
        tokens = short_number(node.usage.tokens) if node.usage.tokens else ""
        has_begun = bool(node.turns) or node.finished
        time = short_time(node.elapsed_s(now)) if has_begun else ""
        figures = self.columns((turns, tokens, short_cost(node.usage), time))
        columns = (figures, palette.muted)
        text_width = max(0, self._remaining_width([*prefix, columns]))
        arrow_width = len(arrow[0])
        return [*prefix, *self._label_and_detail(node, now, text_width, arrow_width), columns]

    def _label_and_detail(
        self, node: SearchNode, now: float, width: int, arrow_width: int
    ) -> list[Span]:
        """Draw the label and the detail of a node.

        Args:
            node: The node.
            now: The time in seconds since the epoch.
            width: The width of both together.
            arrow_width: The width of the arrow before them.
        """
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

    def _fan_out(self, line: CallLine) -> list[Span]:
        """Draw a fan-out: what it asks, or the states of its parts."""
        fan_out = line.fan_out
        assert fan_out is not None
        palette = self.palette
        prefix = [(line.prefix, palette.hairline), self._arrow(line)]
        if fan_out.is_waiting:
            cost = (
                ""
                if fan_out.estimated_usd is None
                else f", about {short_dollars(fan_out.estimated_usd)}"
            )
            question = (
                f"{format_count(fan_out.estimated_calls, 'call')} at once{cost}: waits for you"
            )
            return [*prefix, ("? ", palette.highlight + BOLD), (question, palette.highlight)]

        spans = [*prefix, (format_count(fan_out.part_count, "part") + ": ", palette.text)]
        counts = {state: fan_out.count(state) for state in STATES}
        # The user need not know whether a part thinks or runs code.
        counts["running"] += counts.pop("thinking")
        state_counts: list[str] = []
        for state, count in counts.items():
            if count:
                participle = "failed" if state == "error" else state
                state_counts.append(f"{count:,} {participle}")
        text = fit_text(", ".join(state_counts), self._remaining_width(spans)).rstrip()
        return [*spans, (text, palette.muted)]

    def columns(self, texts: Sequence[str]) -> str:
        """Return the texts of the visible columns, aligned.

        Args:
            texts: A text for each of `COLUMN_HEADINGS`.
        """
        aligned_texts: list[str] = []
        for text, column in zip(texts, _COLUMNS, strict=True):
            if self.width >= column.min_line_width:
                aligned_texts.append(text.rjust(column.width))
        return "".join(aligned_texts)

    def _mark(self, node: SearchNode, now: float) -> Span:
        """Draw the mark of a node."""
        mark = node_mark(node, now)
        return mark.sign, self.style(mark.role)

    def _arrow(self, line: CallLine) -> Span:
        """Draw the arrow before a line that can be expanded, or what stands in its place."""
        if line.open is None:
            # A node's mark takes the place of the arrow.
            blank = "" if line.kind == "node" else "  "
            return blank, Style()
        if line.open:
            return "▾ ", self.palette.highlight
        return "▸ ", self.palette.muted

    def _remaining_width(self, spans: Iterable[Span]) -> int:
        return self.width - sum(cell_len(text) for text, _ in spans)

    def style(self, role: Role) -> Style:
        """Return a colour of the palette."""
        style: Style = getattr(self.palette, role)
        return style
