"""The lines of a search's tree, and how they are drawn in one width.

`call_tree` knows which lines are visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.tree_nodes import STATES, FanOut, SearchNode
from mahtab_tui.tui.rows.row import Span, fit_text
from mahtab_tui.tui.search.call_words import (
    MARKS,
    Role,
    detail,
    format_count,
    is_part,
    label,
    node_mark,
    one_line,
    short_cost,
    short_dollars,
    short_time,
)
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.widgets.bars import short_number


class FigureColumn(NamedTuple):
    """A column of figures."""

    width: int
    """The width of the column, in cells."""
    min_line_width: int
    """The column is left out of lines with fewer cells."""


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

LineKind = Literal["gap", "root", "totals", "answer", "node", "fan_out"]
LineKey = tuple[str, str]
"""The id of a tree, and the id of a node, or ``node/fan-out``."""


class CallLine(NamedTuple):
    """A line of a tree: a node, a fan-out, or what belongs to them."""

    kind: LineKind
    tree: SearchTree
    node: SearchNode
    """The node that the line is about; of a fan-out, the node that asks for it."""
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
            question = f"{_fan_out_size(fan_out)}: waits for you"
            return [*prefix, ("? ", palette.highlight + BOLD), (question, palette.highlight)]

        spans = [*prefix, (format_count(fan_out.part_count, "part") + ": ", palette.text)]
        states = fit_text(_count_states(fan_out), self._remaining_width(spans)).rstrip()
        return [*spans, (states, palette.muted)]

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
        """Return how many cells of the line some spans leave."""
        return self.width - sum(cell_len(text) for text, _ in spans)

    def style(self, role: Role) -> Style:
        """Return a colour of the palette."""
        style: Style = getattr(self.palette, role)
        return style


def _fan_out_size(fan_out: FanOut) -> str:
    """Say how many calls a fan-out would make, and about what they would cost."""
    calls = f"{format_count(fan_out.estimated_calls, 'call')} at once"
    if fan_out.estimated_usd is None:
        return calls
    return f"{calls}, about {short_dollars(fan_out.estimated_usd)}"


def _count_states(fan_out: FanOut) -> str:
    """Say how many parts of a fan-out are in each state: ``12 done, 3 running, 1 failed``."""
    counts = {state: fan_out.count(state) for state in STATES}
    # The user need not know whether a part thinks or runs code.
    counts["running"] += counts.pop("thinking")
    state_counts: list[str] = []
    for state, count in counts.items():
        if count:
            participle = "failed" if state == "error" else state
            state_counts.append(f"{count:,} {participle}")
    return ", ".join(state_counts)
