"""The pane that shows every search as a live tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click
from textual.reactive import var
from textual.widget import Widget

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.tree import (
    STATES,
    FanOut,
    SearchControl,
    SearchNode,
    State,
    Tree,
    Trees,
    UsageSum,
)
from mahtab_tui.tui.commands.command import PaneCommand, bindings
from mahtab_tui.tui.commands.panes import NODE_COMMANDS
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.rows.row import CURSOR_KEYS, FRAME_RATE, FRAMES, Row, RowsView, Span, fit_text
from mahtab_tui.tui.screens.dialog import open_menu
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON
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


GROUPED_PARTS = 12
"""A fan-out with more parts is drawn as one line."""


class CallTree:
    """The visible lines of all trees, and the cursor. Finished nodes are collapsed."""

    drawing: Drawing

    def __init__(self, trees: Trees, clock: Callable[[], float]) -> None:
        self.lines: list[CallLine] = []
        self.focused = False
        self._trees = trees
        self._clock = clock
        self._structure = -1
        self._cursor: Key | None = None
        self._found: dict[Key, int] = {}
        self._opened: dict[Key, bool] = {}

    def lay_out(self, width: int, palette: Palette) -> None:
        self.drawing = Drawing(max(10, width - 2 * RowsView.margin), palette)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Row:
        return Row(self.drawing.spans(self.lines[index], self._clock()))

    def title(self) -> Row:
        palette, heads = self.drawing.palette, self.drawing.columns(HEADS)
        style = palette.person + BOLD if self.focused else palette.muted
        spans: list[Span] = [("RECURSION", style)]
        if len(self._trees) > 1:
            spans.append((f"  {len(self._trees)} searches", palette.muted))
        room = self.drawing.width - sum(len(text) for text, _ in spans)
        if self.lines and room > len(heads):
            spans.append((heads.rjust(room), palette.muted))
        return Row(spans)

    @property
    def outdated(self) -> bool:
        return self._trees.structure != self._structure

    def arrange(self) -> None:
        """Make the lines; the cursor of a line that is gone moves to the nearest one."""
        before = self.cursor
        self._structure = self._trees.structure
        self.lines = self._make_lines()
        rows = enumerate(self.lines)
        self._found = {line.key: row for row, line in rows if line.can_be_chosen}
        if self._cursor is not None and self._cursor not in self._found:
            self.go_near(before)

    def set_open(self, line: CallLine, open: bool) -> None:
        self._cursor = line.key
        if line.open is not None:
            self._opened[line.key] = open

    def _make_lines(self) -> list[CallLine]:
        lines: list[CallLine] = []
        for number, tree in enumerate(self._trees):
            if tree.root is not None:
                if lines and lines[-1].kind != "root":
                    lines.append(CallLine("gap", tree, tree.root))
                lines += self._tree(tree, tree.root, newest=number == 0)
        return lines

    def _tree(self, tree: Tree, root: SearchNode, *, newest: bool) -> Iterator[CallLine]:
        open = self._opened.get((tree.id, root.id), newest or not tree.finished)
        yield CallLine("root", tree, root, open=open)
        if not open:
            return
        yield CallLine("totals", tree, root)
        if root.finished:
            yield CallLine("answer", tree, root)
        yield from self._below(tree, root, "")
        for other in tree.roots[1:]:
            yield from self._node(tree, other, "", last=True)

    def _below(self, tree: Tree, node: SearchNode, prefix: str) -> Iterator[CallLine]:
        items: dict[str, SearchNode | FanOut] = {}
        for child in node.children:
            batch = child.batch
            if batch is None or batch.of <= GROUPED_PARTS:
                items[child.id] = child
            else:
                items.setdefault(f"/{batch.id}", batch)
        for batch in node.batches.values():
            if batch.asks and not batch.slots:
                items[f"/{batch.id}"] = batch
        for name, item in items.items():
            last = name == next(reversed(items))
            if isinstance(item, SearchNode):
                yield from self._node(tree, item, prefix, last=last)
            else:
                yield from self._batch(tree, node, item, prefix, last=last)

    def _node(self, tree: Tree, node: SearchNode, prefix: str, *, last: bool) -> Iterator[CallLine]:
        open = None
        if node.children or node.batches:
            open = self._opened.get((tree.id, node.id), not node.finished or bool(node.alive))
        yield CallLine("node", tree, node, prefix + ("└ " if last else "├ "), open=open)
        if open:
            yield from self._below(tree, node, prefix + ("  " if last else "│ "))

    def _batch(
        self, tree: Tree, node: SearchNode, batch: FanOut, prefix: str, *, last: bool
    ) -> Iterator[CallLine]:
        open = self._opened.get((tree.id, f"{node.id}/{batch.id}"), False) if batch.slots else None
        yield CallLine("batch", tree, node, prefix + ("└ " if last else "├ "), batch, open=open)
        below = prefix + ("  " if last else "│ ")
        slots = sorted(batch.slots.items()) if open else []
        for index, part in slots:
            yield from self._node(tree, part, below, last=index == slots[-1][0])

    @property
    def cursor(self) -> int:
        return 0 if self._cursor is None else self._found.get(self._cursor, 0)

    @property
    def line(self) -> CallLine | None:
        return self.lines[self.cursor] if self.lines else None

    def choose(self, key: Key) -> None:
        self._cursor = key

    def step(self, step: int) -> None:
        """Go to the next (1) or previous (-1) line that can be chosen."""
        rows = range(self.cursor + step, len(self.lines) if step > 0 else -1, step)
        self._go(row for row in rows if self.lines[row].can_be_chosen)

    def go_near(self, wanted: int) -> None:
        self._go(sorted(self._found.values(), key=lambda row: abs(row - wanted)))

    def go_to_parent(self) -> None:
        line = self.line
        if line is None:
            return
        if line.kind == "batch":
            self.choose((line.tree.id, line.node.id))
        elif (parent := line.node.parent) is not None:
            batch = line.node.batch
            group = (line.tree.id, f"{parent.id}/{batch.id}") if batch else None
            self.choose(group if group in self._found else (line.tree.id, parent.id))

    def _go(self, rows: Iterable[int]) -> None:
        if (row := next(iter(rows), None)) is not None:
            self._cursor = self.lines[row].key


NODE_MENU = tuple(command for command in NODE_COMMANDS if command.menu)


class CallSelection(NamedTuple):
    tree: Tree
    node: SearchNode


class NodeActions(Widget):
    """Actions on the selected call. It must be the second base class, because Textual takes the
    default styles from the first one."""

    BINDINGS = bindings(NODE_COMMANDS)

    control: SearchControl

    @property
    def chosen(self) -> CallSelection | None:
        raise NotImplementedError

    def open_menu(self, commands: Sequence[PaneCommand]) -> None:
        if (chosen := self.chosen) is not None:
            open_menu(self, chosen.node.query, commands)

    def action_stop_node(self) -> None:
        if (chosen := self.chosen) is None:
            return
        if chosen.node.finished and not chosen.node.alive:
            self.app.notify("This call has already ended.")
        else:
            self.control.stop(chosen.tree.id, chosen.node.id)

    def action_copy_answer(self) -> None:
        if (answer := self._answer) is not None:
            copy(self.app, answer)

    def action_make_variable(self) -> None:
        if (answer := self._answer) is not None:
            self.control.make_variable(answer)

    @property
    def _answer(self) -> str | None:
        if (chosen := self.chosen) is not None and chosen.node.finished:
            return plain(chosen.node.answer)
        if chosen is not None:
            self.app.notify("This call has no answer yet.")
        return None


MANY_LINES = 200
"""Lines from which the layout is updated only at the frame rate."""


class SearchTreePane(RowsView, NodeActions, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("left", "collapse"),
        ("right", "expand"),
    ]

    head = 1
    searched: var[bool] = var(False)

    def __init__(
        self,
        control: SearchControl,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = None,
    ) -> None:
        self.trees = Trees()
        self._view = CallTree(self.trees, clock)
        super().__init__(self._view, id=id)
        self.control = control
        self._clock = clock

    def fold(self, records: Sequence[Record]) -> None:
        if not self.trees.fold(records):
            return
        self.searched = bool(len(self.trees))
        if not self.size:
            return
        self._tick_if_needed()
        # With many lines, the layout is updated at the frame rate, not for every record.
        if self.auto_refresh is None or len(self._view.lines) < MANY_LINES:
            self._arrange_if_needed()
        self.refresh_changed()

    def end(self) -> None:
        """Mark unfinished searches as cut off."""
        for tree in self.trees:
            tree.close()
        self._arrange()
        self.refresh()
        self._tick_if_needed()

    def _arrange_if_needed(self) -> None:
        if self._view.outdated:
            self._arrange()
            self.refresh_line(self.scroll_offset.y)

    @property
    def chosen(self) -> CallSelection | None:
        line = self._view.line
        return None if line is None else CallSelection(line.tree, line.node)

    def _arrange(self) -> None:
        """Lay the lines out again; with the focus, the cursor stays where it is on the screen."""
        if self._laid_out is None:
            return
        before = self._view.cursor
        self._view.arrange()
        self.set_row_count(self.head + len(self._view))
        if self.has_focus and (moved := self._view.cursor - before):
            self.scroll_to(y=self.scroll_y + moved, animate=False, force=True)

    def _show_cursor(self) -> None:
        self.show_row(self._view.cursor)

    def on_mount(self) -> None:
        self.refresh_view()

    def refresh_view(self) -> None:
        super().refresh_view()
        self._arrange()
        self._tick_if_needed()

    def watch_has_focus(self, has_focus: bool) -> None:
        self._view.focused = has_focus
        super().watch_has_focus(has_focus)

    def _tick_if_needed(self) -> None:
        self.tick_while(any(not tree.finished for tree in self.trees))

    def automatic_refresh(self) -> None:
        self._arrange_if_needed()
        self.refresh_changed()

    def head_row(self, y: int) -> Row:
        return self._view.title()

    @property
    def marked_row(self) -> int:
        return self._view.cursor if self._view.lines and self.has_focus else -1

    def on_click(self, event: Click) -> None:
        if (row := self.row_at(event.y)) is None:
            return
        line = self._view.lines[row]
        chosen = CallSelection(line.tree, line.node)
        column = event.x - self.margin - len(line.prefix)
        if line.kind == "answer":
            self._open(chosen)
        elif line.can_be_chosen:
            self._view.choose(line.key)
            if event.button == RIGHT_BUTTON and line.kind != "batch":
                self.open_menu(NODE_MENU)
            elif line.kind == "batch" or (line.open is not None and column < 2):
                self._set_open(line, not line.open)
            else:
                self._open(chosen)
        self.refresh()

    def action_menu(self) -> None:
        line = self._view.line
        if line is not None and line.kind == "batch":
            self._set_open(line, not line.open)
        else:
            self.open_menu(NODE_MENU)

    def action_open_node(self) -> None:
        if (chosen := self.chosen) is not None:
            self._open(chosen)

    def _open(self, chosen: CallSelection) -> None:
        from mahtab_tui.tui.search.call_screen import NodeScreen

        self.app.push_screen(NodeScreen(chosen, self.control, self._clock))

    def action_collapse(self) -> None:
        line = self._view.line
        if line is not None and line.open:
            self._set_open(line, False)
        else:
            self._view.go_to_parent()
            self._show_cursor()

    def action_expand(self) -> None:
        line = self._view.line
        if line is not None and line.open is False:
            self._set_open(line, True)
        elif line is not None and line.open:
            self.action_move(1)

    def _set_open(self, line: CallLine, open: bool) -> None:
        self._view.set_open(line, open)
        self._arrange()
        self.refresh()

    def action_move(self, step: int) -> None:
        self._view.step(step)
        self._show_cursor()

    def action_move_page(self, direction: int) -> None:
        self.go_to(self._view.cursor + direction * max(1, self.page - 1))

    def go_to(self, row: int) -> None:
        self._view.go_near(row)
        self._show_cursor()
