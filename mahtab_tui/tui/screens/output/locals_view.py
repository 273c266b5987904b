"""The variables of a frame, as long as the kernel still has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.kernel.looking import Child, InspectedObject, Look, Path
from mahtab_tui.tui.screens.inspector.outline import Branch
from mahtab_tui.tui.screens.inspector.tree_view import TreeView
from mahtab_tui.tui.screens.inspector.view import Place


def path_of(cell: int, frames: Sequence[TracebackFrame], at: int) -> Path:
    """The way to the variables of a frame of a cell's error."""
    frame = frames[at]
    meant = (frame.file, frame.line, frame.function)
    same = [number for number, each in enumerate(frames) if (each.file, each.line, each.function) == meant]
    return (["frame", cell, frame.file, frame.line, frame.function, same.index(at), len(same)],)


class LocalsView(TreeView):
    """A tree of them; why there are none where that is so."""

    def __init__(self, look: Look, path: Path) -> None:
        super().__init__(_place(look, path))

    def show(self, path: Path) -> None:
        """Show the variables of another frame."""
        self.place = _place(self.place.look, path)
        self._tree.problem, self._tree.come, self.cursor = "", False, 0
        self.look_again()
        self.look()

    def fail(self, sentence: str) -> None:
        self._tree.problem, self._tree.root = sentence, Branch(self.place.path, 0, 0)
        self.look()

    def _came(self, branch: Branch, page: int, count: int, children: tuple[Child, ...]) -> None:
        """Names stand without the quotes that they have as the keys of a dict."""
        if branch is self._tree.root:
            children = tuple(replace(child, label=child.label.strip("'")) for child in children)
        super()._came(branch, page, count, children)

    def action_open_row(self) -> None:
        """In place: there is no way back here from a screen of its own."""
        self.action_unfold()


def _place(look: Look, path: Path) -> Place:
    return Place(look, path, InspectedObject(path, "dict", "", "data", ("tree",), "", 0, 0, 0))
