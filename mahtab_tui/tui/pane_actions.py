"""What the commands about panes and themes do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from textual.app import App
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from mahtab_tui.tui.jumper import JumpScreen, Target
from mahtab_tui.tui.layout import NARROW, SHORT, TINY, PaneLayout, Resize
from mahtab_tui.tui.panes.editor import EditorPane
from mahtab_tui.tui.panes.namespace import NamespacePane
from mahtab_tui.tui.panes.search_tree import RecursionPane
from mahtab_tui.tui.panes.transcript import TranscriptPane
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY
from mahtab_tui.tui.widgets.approval_row import ApprovalRow

if TYPE_CHECKING:
    from mahtab_tui.tui.choices import Choices
    from mahtab_tui.tui.widgets.splitter import Splitter

LETTERS = {"t": "#transcript", "e": "#editor", "n": "#namespace", "r": "#recursion"}
"""What jump mode calls each pane."""
WAITING = "w"
"""And what waits for the person."""


class PaneActions(App[int]):
    """Actions on where the panes stand and how they look."""

    choices: Choices
    recursion_called = False
    """The person wants to see the recursion pane, though there was no search yet."""

    @property
    def asking_row(self) -> Widget | None:
        """The row that is to be answered first; None where nothing waits."""
        raise NotImplementedError

    @property
    def pane_layout(self) -> PaneLayout:
        """How the panes share the screen."""
        return self.choices.layout

    @pane_layout.setter
    def pane_layout(self, layout: PaneLayout) -> None:
        self.choices = self.choices.model_copy(update={"layout": layout})
        self.apply_layout()

    @property
    def _searched(self) -> bool:
        """Whether there is a reason to show the recursion pane."""
        return self.recursion_called or self.screen_stack[0].query_one(RecursionPane).searched

    @property
    def _panes_screen(self) -> Screen[Any] | None:
        """The screen of the panes; None as long as they are not there, and when they are taken away since the application closes."""
        return self.screen_stack[0] if self.screen_stack and self.screen_stack[0].query("#side") else None

    def apply_layout(self, size: Size | None = None) -> None:
        """Put the panes where the layout wants them at a size, by default the screen's."""
        layout, (width, height) = self.pane_layout, self.size if size is None else size
        if (screen := self._panes_screen) is None:
            return
        narrow, searched = width < NARROW, self._searched
        seen, recursion = layout.side_seen(width, searched), layout.recursion_seen(searched)
        screen.set_class(narrow, "-narrow")
        screen.set_class(height < SHORT, "-short")
        screen.set_class(height < TINY, "-tiny")
        side = screen.query_one("#side")
        side.display = seen
        screen.query_one("#side-splitter").display = seen and not narrow
        side.styles.width = layout.side_columns(width) if not narrow else "80%"
        both = layout.show_namespace and recursion
        namespace = screen.query_one("#namespace")
        namespace.display = layout.show_namespace
        namespace.styles.height = f"{layout.namespace}%" if both else "1fr"
        screen.query_one("#recursion").display = recursion
        screen.query_one("#namespace-splitter").display = both
        # At once, before the focus of what is hidden goes to whatever comes next to it.
        focused = screen.focused
        if focused is not None and not _displayed(focused):
            screen.query_one(EditorPane).focus()

    def fit_heights_from_now_on(self) -> None:
        """Keep heights that follow from what the transcript holds and where it stands."""
        screen = self.screen
        screen.screen_layout_refresh_signal.subscribe(screen, lambda _: self._fit_heights())
        self.watch(screen.query_one("#transcript"), "height_of_all", self._fit_heights, init=False)

    def _fit_heights(self) -> None:
        """While code waits, its answers stand right under it; an open drawer leaves room for the editor."""
        if (screen := self._panes_screen) is None:
            return
        transcript, side = screen.query_one("#transcript"), screen.query_one("#side")
        drawer = side.display and screen.has_class("-narrow")
        waits = screen.query_one(ApprovalRow).display and not drawer
        alone = screen.maximized is not None
        # Never None: that asks for another layout even where nothing is to be taken away, and this is called at every layout.
        transcript.styles.max_height = transcript.virtual_size.height if waits and not alone else "100%"
        side.styles.height = transcript.region.height if drawer and not alone else "1fr"

    def sees_code(self, code: str) -> bool:
        """Whether all of some code that waits for the person can be seen in the transcript."""
        screen = self.screen_stack[0]
        covered = screen.query_one("#side").display and screen.has_class("-narrow")
        return not covered and screen.query_one(TranscriptPane).shows(code)

    def action_page_transcript(self, direction: int) -> None:
        """Scroll the transcript by a page: up (-1) or down (1)."""
        transcript = self.screen_stack[0].query_one(TranscriptPane)
        if direction < 0:
            transcript.action_page_up()
        else:
            transcript.action_page_down()

    def on_descendant_focus(self) -> None:
        """A pane that has the whole screen gives it back when the focus goes elsewhere."""
        if not self.screen_stack:  # the application is closing
            return
        screen = self.screen
        if screen.maximized is not None and screen.focused is not None and screen.maximized not in screen.focused.ancestors_with_self:
            screen.minimize()

    def drag_splitter(self, message: Splitter.Dragged) -> None:
        """A splitter is dragged."""
        if message.splitter.id == "side-splitter":
            self.pane_layout = self.pane_layout.with_side(round(100 * (self.size.width - message.x) / max(1, self.size.width)))
        else:
            side = self.query_one("#side")
            self.pane_layout = self.pane_layout.with_namespace(round(100 * (message.y - side.region.y) / max(1, side.region.height)))

    def action_resize_pane(self, how: Resize) -> None:
        self.pane_layout = self.pane_layout.resized(how, self.size.width)

    def action_toggle_side(self) -> None:
        self.pane_layout = self.pane_layout.toggled_side(self.size.width, self._searched)

    def action_toggle_namespace(self) -> None:
        self._toggle("namespace")

    def action_toggle_changes(self) -> None:
        """Of a pane that is not to be seen: it comes, too."""
        namespace = self.screen_stack[0].query_one(NamespacePane)
        if not _displayed(namespace):
            self._toggle("namespace")
            namespace.show_changes(True)
        else:
            namespace.show_changes(not namespace.shows_changes)

    def action_toggle_recursion(self) -> None:
        self._toggle("recursion")

    def _toggle(self, pane: Literal["namespace", "recursion"]) -> None:
        layout = self.pane_layout.toggled(pane, self.size.width, self._searched)
        if pane == "recursion":
            self.recursion_called = layout.show_recursion
        self.pane_layout = layout

    def action_maximize_pane(self) -> None:
        """The focused pane alone, or all of them again. Code that is edited before it runs is no pane: there the key runs it."""
        if self.query_one(ApprovalRow).run_edited():
            return
        if self.screen.maximized is not None:
            self.screen.minimize()
            return
        pane = self._focused_pane()
        if pane is not None:
            self.screen.maximize(pane, container=False)

    def action_next_pane(self) -> None:
        self._step_pane(1)

    def action_previous_pane(self) -> None:
        self._step_pane(-1)

    def action_jump(self) -> None:
        def chosen(widget: Widget | None) -> None:
            if widget is None:
                return
            if not _displayed(widget):
                self._toggle("namespace" if widget.id == "namespace" else "recursion")
            self.call_after_refresh(widget.focus)

        seen = self._panes()
        panes = {letter: self.screen_stack[0].query_one(selector) for letter, selector in LETTERS.items()}
        targets = [Target(letter, pane, letter not in seen) for letter, pane in panes.items()]
        if self.asking_row is not None:
            targets.append(Target(WAITING, self.asking_row))
        self.push_screen(JumpScreen(targets), chosen)

    def action_change_theme(self, name: str = "") -> None:
        if name in self.available_themes:
            self.theme = name
        else:
            self.search_themes()

    def action_dark_light(self) -> None:
        self.theme = MAHTAB_DAY.name if self.current_theme.dark else MAHTAB.name

    def _panes(self) -> dict[str, Widget]:
        """The panes that are on the screen, by their letters."""
        panes = {letter: self.screen_stack[0].query_one(selector) for letter, selector in LETTERS.items()}
        return {letter: pane for letter, pane in panes.items() if pane.region and pane.display and pane.is_on_screen}

    def _focused_pane(self) -> Widget | None:
        focused = self.screen.focused
        if focused is None:
            return None
        return next((pane for pane in self._panes().values() if pane in focused.ancestors_with_self), None)

    def _step_pane(self, step: int) -> None:
        panes = list(self._panes().values())
        if not panes:
            return
        focused = self._focused_pane()
        place = panes.index(focused) + step if focused in panes else 0
        panes[place % len(panes)].focus()


def _displayed(widget: Widget) -> bool:
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
