"""Draws the search tree's lines as coloured text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.tree import STATES, FanOut, SearchNode, State, Tree, UsageSum
from mahtab_tui.tui.rows.row import FRAME_RATE, FRAMES, Span, fit_text
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.widgets.bars import short_number

Role = Literal["person", "model", "moon", "good", "bad", "hairline", "muted", "text"]

PHASES = "◐◓◑◒"
_PHASE_RATE = 4

MARKS: Mapping[State, tuple[str, Role]] = {
    "waiting": ("◌", "muted"),
    "thinking": ("◉", "model"),
    "running": ("●", "moon"),
    "done": ("✓", "good"),
    "partial": ("≈", "moon"),
    "error": ("✗", "bad"),
    "stopped": ("■", "muted"),
}


def glyph(node: SearchNode, now: float) -> tuple[str, Role]:
    """Return a node's mark, animated while it works itself."""
    if any(batch.asks for batch in node.batches.values()):
        return "?", "moon"
    mark, role = MARKS[node.state]
    if node.state == "thinking" and not node.alive:
        mark = FRAMES[int(now * FRAME_RATE) % len(FRAMES)]
    elif node.state == "running" and not node.alive:
        mark = PHASES[int(now * _PHASE_RATE) % len(PHASES)]
    return mark, role


def one_line(text: str) -> str:
    """Return the start of an external text on one line."""
    return " ".join(plain(text[:400]).split())


def short_time(seconds: float) -> str:
    """Format ``4.2 s``, ``123 s``, ``31 min``."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 999.5 else f"{seconds / 60:.0f} min"


def short_cost(used: UsageSum) -> str:
    """Format ``$0.03``; + if some prices are unknown, empty if all are."""
    if used.unpriced == used.calls:
        return ""
    return short_dollars(used.cost) + ("+" if used.unpriced else "")


def short_dollars(usd: float) -> str:
    """Format ``$0.03``, ``$.004``."""
    return f"${usd:.2f}" if usd >= 0.00995 or not usd else f"${usd:.3f}".replace("$0.", "$.")


def format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_position(spans: Sequence[TextSpan]) -> str:
    """Return a node's position in the root's text: ``2.1–4.2M``."""
    if not spans:
        return ""
    if any(end != start for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans)} places"
    start, end = short_number(spans[0][0]), short_number(spans[-1][1])
    return f"{start[:-1] if start[-1] == end[-1] and start[-1].isalpha() else start}–{end}"


def is_part(node: SearchNode) -> bool:
    return node.batch is not None and node.batch.of > 1


def label(node: SearchNode) -> str:
    if is_part(node):
        return describe_position(node.spans) or f"part {node.index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    if any(batch.asks for batch in node.batches.values()):
        return "waits for you"
    if node.state == "waiting":
        if node.back_off is not None:
            return f"overloaded, again in {max(0.0, node.back_off - now):.0f} s"
        return "waits for its turn" if node.turns else ""
    if node.state == "stopped":
        return "cut off here" if node.cut else one_line(node.answer) or "stopped"
    if node.finished:
        return one_line(node.answer)
    if not node.turns:
        return ""
    turn = "" if node.kind == "llm" else f"turn {node.turns[-1].number}  "
    return turn + one_line(node.last_line)


Kind = Literal["gap", "root", "totals", "answer", "node", "batch"]
Key = tuple[str, str]
"""A node (tree, node) or a fan-out (tree, node/batch)."""


class CallLine(NamedTuple):
    kind: Kind
    tree: Tree
    node: SearchNode
    prefix: str = ""
    batch: FanOut | None = None
    open: bool | None = None
    """None if the line cannot be expanded."""

    @property
    def key(self) -> Key:
        name = self.node.id if self.batch is None else f"{self.node.id}/{self.batch.id}"
        return self.tree.id, name

    @property
    def can_be_chosen(self) -> bool:
        return self.kind in ("root", "node", "batch")


HEADS = ("turn", "tok", "cost", "time")
_TIME, _COST = 8, 8
_COLUMNS = ((7, 96), (8, 76), (_COST, 60), (_TIME, 0))
"""Width in cells, and the pane's minimum width."""

_POSITION = 12


class Drawing:
    def __init__(self, width: int, palette: Palette) -> None:
        self.width = width
        self.palette = palette

    def spans(self, line: CallLine, now: float) -> list[Span]:
        tree, palette = line.tree, self.palette
        match line.kind:
            case "root":
                return self._root(line, now)
            case "node":
                return self._node(line, now)
            case "totals":
                used = tree.used
                tokens = f"{short_number(used.tokens)} tok"
                words = [format_count(used.calls, "call"), tokens, short_cost(used)]
                words = [*filter(None, words), f"depth {tree.depth}"]
                totals = fit_text(" · ".join(words), self.width - 2)
                return [("  ", Style()), (totals, palette.muted)]
            case "answer":
                return self._answer(line.node)
            case "gap":
                return []
        assert line.batch is not None
        return self._batch([(line.prefix, palette.hairline), self._arrow(line)], line.batch)

    def style(self, role: Role) -> Style:
        found: Style = getattr(self.palette, role)
        return found

    def _root(self, line: CallLine, now: float) -> list[Span]:
        node, palette = line.node, self.palette
        mark, role = glyph(node, now)
        left: list[Span] = [self._arrow(line), (mark, self.style(role)), (" ", Style())]
        cost = "" if line.open else short_cost(line.tree.used).rjust(_COST)
        right = (cost + short_time(node.elapsed(now)).rjust(_TIME), palette.muted)
        query = fit_text(one_line(node.query), self._room([*left, right]))
        return [*left, (query, palette.text + BOLD if line.open else palette.text), right]

    def _node(self, line: CallLine, now: float) -> list[Span]:
        node, palette = line.node, self.palette
        mark, role = glyph(node, now)
        arrow = self._arrow(line)
        left = [(line.prefix, palette.hairline), arrow, (mark, self.style(role)), (" ", Style())]
        turn = node.turns[-1].number if node.turns and node.kind != "llm" else 0
        texts = (
            node.turn_label(turn, "{}/{}").removesuffix(" call"),
            short_number(node.used.tokens) if node.used.tokens else "",
            short_cost(node.used),
            short_time(node.elapsed(now)) if node.turns or node.finished else "",
        )
        columns = (self.columns(texts), palette.muted)
        room = max(0, self._room([*left, columns]))
        return [*left, *self._words(node, now, room, len(arrow[0])), columns]

    def _room(self, spans: Iterable[Span]) -> int:
        return self.width - sum(cell_len(text) for text, _ in spans)

    def _words(self, node: SearchNode, now: float, room: int, arrow: int) -> list[Span]:
        name, doing, palette = label(node), detail(node, now), self.palette
        name_style = palette.muted if node.state in ("waiting", "stopped") else palette.text
        if not doing:
            return [(fit_text(name, room), name_style)]
        if is_part(node):
            wanted = max(_POSITION - arrow, cell_len(name))
        else:
            wanted = min(cell_len(name), max(12, room * 3 // 5))
        wanted = min(wanted, room)
        gap = min(2, room - wanted)
        styles = {"error": palette.bad, "thinking": palette.model, "running": palette.model}
        if not is_part(node):
            styles["done"] = palette.text
        style = styles.get(node.state, palette.muted)
        return [
            (fit_text(name, wanted), name_style),
            (" " * gap, Style()),
            (fit_text(doing, room - wanted - gap), style),
        ]

    def columns(self, texts: Sequence[str]) -> str:
        columns = zip(texts, _COLUMNS, strict=True)
        return "".join(text.rjust(cells) for text, (cells, least) in columns if self.width >= least)

    def _arrow(self, line: CallLine) -> Span:
        if line.open is None:
            return "" if line.kind == "node" else "  ", Style()
        return ("▾ ", self.palette.moon) if line.open else ("▸ ", self.palette.muted)

    def _batch(self, left: list[Span], batch: FanOut) -> list[Span]:
        palette = self.palette
        if batch.asks:
            usd = "" if batch.usd is None else f", about {short_dollars(batch.usd)}"
            calls = f"{format_count(batch.calls, 'call')} at once{usd}: waits for you"
            return [*left, ("? ", palette.moon + BOLD), (calls, palette.moon)]
        left.append((format_count(batch.of, "part") + ": ", palette.text))
        counts = {state: batch.count(state) for state in STATES}
        counts["running"] += counts.pop("thinking")
        words = ", ".join(
            f"{number} {'failed' if state == 'error' else state}"
            for state, number in counts.items()
            if number
        )
        return [*left, (fit_text(words, self._room(left)).rstrip(), palette.muted)]

    def _answer(self, node: SearchNode) -> list[Span]:
        style = self.palette.bad if node.state == "error" else self.palette.text
        words = one_line(node.answer.replace("**", "").replace("`", "")) or node.state
        arrow = ("→ ", self.style(MARKS[node.state][1]))
        return [("  ", Style()), arrow, (fit_text(words, self.width - 4), style)]
