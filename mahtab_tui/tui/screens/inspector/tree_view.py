"""Contents of an object, as a tree that the user unfolds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

from textual.binding import BindingType
from textual.events import Click

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import Child
from mahtab_tui.tui.commands.on_screens import TREE_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS, RowsView
from mahtab_tui.tui.screens.inspector.outline import (
    ITEMS,
    Branch,
    Fetch,
    TreeLine,
    find_line,
    line_at,
    line_of,
    lines,
)
from mahtab_tui.tui.screens.inspector.tree_rows import TreeRows
from mahtab_tui.tui.screens.inspector.view import Subject, View

TreeKind = Literal["items", "attributes", "variables"]
"""Content of the tree: the items of an object, its attributes, or the variables of a frame, which
have no screens of their own."""


class TreeView(View, RowsView, can_focus=True):
    """Each line is an object inside: its name, its type, a summary."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TREE_COMMANDS), *CURSOR_KEYS]

    def __init__(self, subject: Subject, kind: TreeKind = "items") -> None:
        self._tree = TreeRows(
            Branch(subject.path, 0, 0),
            "It has no attributes." if kind == "attributes" else "There is nothing inside.",
        )
        super().__init__(subject, source=self._tree)
        self.set_reactive(TreeView.cursor, 0)
        self._kind = kind
        self._words = ""
        """The words that the user searched for."""

    def on_mount(self) -> None:
        self._fetch_page(self._tree.root, 0)

    def show(self, subject: Subject) -> None:
        self.subject = subject
        self._tree.problem, self._tree.come, self.cursor = "", False, 0
        self.reload()
        self.look()

    def reload(self) -> None:
        root = self._tree.root
        if root.path == self.subject.path:
            root.forget()
        else:
            self._tree.root = Branch(self.subject.path, 0, root.count)
        self._fetch_page(self._tree.root, 0)

    def fail(self, sentence: str) -> None:
        """Show an error: of variables, which have no status line, in place of the tree."""
        if self._kind == "variables":
            self._tree.problem, self._tree.root = sentence, Branch(self.subject.path, 0, 0)
            self.look()
        else:
            super().fail(sentence)

    @property
    def _line(self) -> TreeLine | None:
        """The line at the cursor."""
        return line_at(self._tree.root, self.cursor)

    # Fetching

    def _fetch(self) -> None:
        wanted: dict[tuple[int, int], Branch] = {}
        top = self.scroll_offset.y
        for line in lines(self._tree.root, top, top + self.size.height):
            if line.child is None and line.position // ITEMS not in line.branch.asked:
                wanted[id(line.branch), line.position // ITEMS] = line.branch
        for (_, page), branch in wanted.items():
            self._fetch_page(branch, page)

    def _fetch_page(self, branch: Branch, page: int) -> None:
        fetch = self._fetching(self._tree.root)
        branch.asked.add(page)

        def failed(sentence: str) -> None:
            branch.asked.discard(page)
            self.fail(sentence)

        self.fetcher.ask(
            f"{id(branch)} {page}",
            lambda: fetch(branch, page),
            lambda found: self._take(branch, page, *found),
            failed,
        )

    def _fetching(self, root: Branch) -> Fetch:
        """Return what gets the pages of a tree, on threads."""
        look, attributes = self.subject.look, self._kind == "attributes"
        return lambda branch, page: look.children(
            branch.path, page * ITEMS, (page + 1) * ITEMS, attributes=attributes and branch is root
        )

    def _take(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        branch.asked.discard(page)
        if (
            self._kind == "variables" and branch is self._tree.root
        ):  # names, without the quotes that they have as the keys of a dict
            children = tuple(replace(child, label=child.label.strip("'")) for child in children)
        self._tree.take(branch, page, count, children)
        self.look()

    def look(self) -> None:
        super().look()
        self.cursor = max(0, min(self.cursor, len(self._tree) - 1))
        self._fetch()
        self._tell()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _tell(self) -> None:
        if not self._tree.come:
            return
        count, total = self._tree.root.count, self._tree.root.lines
        what = "attributes" if self._kind == "attributes" else "inside"
        if not count:
            self.say((f"nothing {what}" if what == "inside" else "no attributes", "$muted"))
            return
        self.say((f"{min(self.cursor + 1, total):,} of {total:,}  ·  {count:,} {what}", "$muted"))

    # Actions

    @property
    def marked_row(self) -> int:
        return super().marked_row if self._line is not None and not self._tree.problem else -1

    def watch_cursor(self) -> None:
        self._tell()

    def on_click(self, event: Click) -> None:
        number = self.row_at(event.y)
        line = line_at(self._tree.root, number) if number is not None else None
        if number is None or line is None or line.child is None:
            return
        self.go_to(number)
        mark = 1 + 2 * line.branch.depth
        if mark <= event.x < mark + 2:
            self.action_fold() if line.unfolded else self.action_unfold()
        elif event.chain == 2:
            self.action_open_row()

    def action_search(self) -> None:
        """Ask for words, and go to the first line from the cursor on that has them."""

        def entered(words: str) -> None:
            self._words = words
            self._find(self.cursor, 1)

        self.ask("names, types and values", self._words, entered, "search:")

    def action_find(self, step: int) -> None:
        """Go to the next line that has the words (1), or to the previous one (-1)."""
        self._find(self.cursor + step, step)

    def _find(self, start: int, step: int) -> None:
        words, root = self._words, self._tree.root.bare()
        if words:
            fetch = self._fetching(root)
            self.fetcher.ask(
                "search",
                lambda: find_line(root, words, start, step, fetch),
                self.go_to,
                super().fail,
            )

    def action_unfold(self) -> None:
        line = self._line
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if line.unfolded:
            self.action_move(1)
        elif child.count:
            line.branch.unfold(line.position, child)
            self.look()

    def action_fold(self) -> None:
        line = self._line
        if line is None:
            return
        if line.unfolded:
            del line.branch.open[line.position]
            self.look()
        elif line.branch.above is not None:
            self.go_to(line_of(line.branch.above))

    def action_open_row(self) -> None:
        line = self._line
        child = line.child if line is not None else None
        if line is None or child is None:
            return
        if self._kind == "variables":  # no way leads back from a screen of their own
            self.action_unfold()
        elif child.state == "property":
            self._ask_property(line, child)
        else:
            self.post_message(self.ObjectOpened(line.branch.path_of(child), child.label, self))

    def _ask_property(self, line: TreeLine, child: Child) -> None:
        """Run the property's code, because the user asked for its value."""
        subject, branch = self.subject, line.branch
        self.say((f"{plain(child.label)} …", "$moon"))

        def show(found: Child) -> None:
            branch.replace(line.position, found)
            self.look()

        self.fetcher.ask(
            "property", partial(subject.look.evaluate, branch.path, child.label), show, self.fail
        )
