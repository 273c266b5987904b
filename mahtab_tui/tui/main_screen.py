"""The main screen: its panes, their layout and the focus.

The transcript and the editor are below each other on the left; the variables and the searches are on
the right, the *side*. On a narrow screen, the side is a *drawer*, which covers the transcript while it is
open. `pane_layout.PaneLayout` computes the sizes that the user has chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mahtab_tui.session import Session
from mahtab_tui.store.input_history import History
from mahtab_tui.system import langsmith_variable
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.greeting import Greeting, GreetingLines, SearchExample
from mahtab_tui.tui.messages import FindInTranscript
from mahtab_tui.tui.namespace.pane import PREVIEW_WIDTH, NamespacePane
from mahtab_tui.tui.pane_layout import NARROW_COLUMNS, Direction, PaneLayout
from mahtab_tui.tui.terminal_app import Fold
from mahtab_tui.tui.ui_state import UiState
from mahtab_tui.tui.widgets.bars import HeaderBar, KeyLine, PaneTabs, Splitter

if TYPE_CHECKING:
    from mahtab_tui.bus.entries import Cell
    from mahtab_tui.bus.records import Record
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.tui.editor.input_help import InputHelp
    from mahtab_tui.tui.jump_target import JumpTarget
    from mahtab_tui.tui.search.pane import SearchTreePane
    from mahtab_tui.tui.transcript.pane import TranscriptPane
    from mahtab_tui.tui.widgets.approval_row import ApprovalRow


# On a screen with fewer lines than these, styles leave out more and more.
SHORT_SCREEN_LINES = 30
LOW_SCREEN_LINES = 16
TINY_SCREEN_LINES = 8

NAMESPACE_PERCENT = 55
"""The namespace's share of the side, if there are searches and the user has not moved the
splitter."""

JUMP_SELECTORS = {"t": "#transcript", "e": "#editor", "n": "#namespace", "r": "#recursion"}
"""The panes, by the letter that leads to each in jump mode."""
PROMPT_JUMP_LETTER = "w"
"""The letter that leads to the row that asks something."""
PROMPT_ROWS = ("ApprovalRow", "ReviewRow", "FanOutRow", "InputRow")
"""The rows that ask something, the most urgent first."""


class Panes(Screen[None]):
    """The main screen. The transcript and the searches are made when they are first needed.

    The application composes the widgets of `parts` itself, before the screen is shown.
    """

    # Not the first pane, even briefly: keys may already have been typed.
    AUTO_FOCUS = "#code"

    def __init__(
        self,
        session: Session,
        history: History,
        ui_state: UiState,
        input_help: InputHelp,
        *,
        session_runs: bool = False,
    ) -> None:
        """
        Args:
            session: The session, which the panes show.
            history: The inputs of all sessions, for the editor.
            ui_state: What the user has chosen of the interface; the layout is saved in it.
            input_help: Completes what is typed, and explains it.
            session_runs: Whether another interface has shown the session until now.
        """
        super().__init__(id="_default")
        self._session = session
        self._session_runs = session_runs
        self._ui_state = ui_state
        # Kept, because the draft of a screen that closes is saved after its widgets are gone.
        self.editor: EditorPane = EditorPane(history, input_help, id="editor")
        self._greeting: GreetingLines = ()
        self._transcript: TranscriptPane | None = None
        """None until it is first needed; until then there is a greeting."""
        self._search_tree: SearchTreePane | None = None
        """None until the first search; until then there is an example."""
        self._offered_cell: Cell | None = None
        """The failed cell whose frames the footer offers to show."""
        ui_state.layout = ui_state.layout.with_drawer(False)

    def parts(self) -> ComposeResult:
        """Yield the widgets of the first picture."""
        yield HeaderBar(langsmith_variable(), id="header")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield Greeting(id="greeting")
                with Vertical(id="lower"):
                    yield self.editor
            yield Splitter("vertical", id="side-splitter")
            with Vertical(id="side"):
                yield PaneTabs(id="pane-tabs")
                yield NamespacePane(self._session, id="namespace")
                yield Splitter("horizontal", id="namespace-splitter")
                yield SearchExample(id="search-example")
        yield KeyLine()

    # Panes and rows that are made when they are first needed

    @property
    def transcript(self) -> TranscriptPane:
        """The transcript, which is made if it is not there yet."""
        return self.make_transcript() if self._transcript is None else self._transcript

    def make_transcript(self) -> TranscriptPane:
        """Put the transcript in the place of the greeting, unless it is there already."""
        from mahtab_tui.tui.find import FindRow
        from mahtab_tui.tui.transcript.pane import TranscriptPane

        if self._transcript is not None:
            return self._transcript
        pane = TranscriptPane(id="transcript", watched=self._session_runs)
        self._transcript = pane
        pane.greeting = self._greeting
        # The files of a resumed session are loaded already.
        is_new = not (self._session.past or self._session_runs)
        pane.viewport.loading_cells = len(self._session.files) if is_new else 0
        with self.app.batch_update():
            find_row = FindRow(pane, id="transcript-find")
            self.query_one("#main").mount(pane, find_row, before="#lower")
            self.query_one(Greeting).remove()
        self.watch(pane, "height_of_all", self._fit_heights, init=False)
        return pane

    @property
    def search_tree(self) -> SearchTreePane:
        """The tree of the searches, which is made if it is not there yet."""
        return self._make_search_tree() if self._search_tree is None else self._search_tree

    def _make_search_tree(self) -> SearchTreePane:
        """Put the tree of the searches in the place of the example."""
        from mahtab_tui.tui.search.pane import SearchTreePane

        tree = SearchTreePane(self._session.searches, id="recursion")
        self._search_tree = tree
        with self.app.batch_update():
            self.query_one("#side").mount(tree)
            self.query_one(SearchExample).remove()
            self.apply_layout()
        return tree

    async def mount_prompt_rows(self) -> list[Fold]:
        """Add the rows that ask something. They are hidden until they have something to ask.

        Returns:
            The functions of the rows that take records.
        """
        from mahtab_tui.tui.widgets.approval_row import ApprovalRow
        from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
        from mahtab_tui.tui.widgets.input_row import InputRow
        from mahtab_tui.tui.widgets.queue_row import QueueRow
        from mahtab_tui.tui.widgets.review_row import ReviewRow

        approval = ApprovalRow()
        upper_rows = (approval, ReviewRow())
        lower_rows = (FanOutRow(), InputRow(), QueueRow())
        for row in (*upper_rows, *lower_rows):
            row.display = False

        # From now on there is a kernel that can be told.
        self.watch(self.transcript, "visible_size", self._send_size)

        with self.app.batch_update():
            main = self.query_one("#main")
            lower = self.query_one("#lower")
            if not lower.is_attached:
                return []
            # Both at once, because the application may close while one is awaited.
            upper_mount = main.mount(*upper_rows, before="#lower")
            lower_mount = lower.mount(*lower_rows, before="#editor")
            await upper_mount
            await lower_mount
        self._watch_hidden_code(approval)
        return [row.fold for row in (*upper_rows, *lower_rows)]

    def _watch_hidden_code(self, approval: ApprovalRow) -> None:
        """Show the code that waits in its row, whenever the transcript does not show all of it.

        How much it shows is known only after a layout.
        """
        self.screen_layout_refresh_signal.subscribe(
            approval, lambda _: approval.call_after_refresh(self._show_hidden_code, approval)
        )

    def _send_size(self, size: tuple[int, int]) -> None:
        """Tell the kernel how wide and high its output is drawn; zeros until it is drawn."""
        if any(size):
            self._session.kernel.set_size(*size)

    def _show_hidden_code(self, approval: ApprovalRow) -> None:
        """Let the row show code that waits, if the transcript does not show all of it."""
        code = approval.code_to_show
        if code and not self.is_code_visible(code):
            approval.show_code()

    # The start

    def greet(self, lines: GreetingLines) -> None:
        """Show a greeting until there is something else to show."""
        self._greeting = lines
        if self._transcript is None:
            self.query_one(Greeting).lines = lines
        else:
            self._transcript.greeting = lines

    def resume(self, past: Sequence[Record]) -> None:
        """Show the records of an earlier session."""
        if not past:
            return
        self.transcript.fold(past)
        self.fold_searches(past)
        usage = [record for record in past if record.tag == "usage"]
        self.query_one(HeaderBar).fold(usage)
        if self._search_tree is not None:
            self.call_after_refresh(self._search_tree.end)
            self.call_after_refresh(self._show_search_line)

    def arrange_panes(self) -> None:
        """Arrange the panes for the first time, and focus the editor."""
        self.watch(self.query_one(HeaderBar), "waits", lambda: self.refresh_bindings(), init=False)
        self.apply_layout()
        self.screen_layout_refresh_signal.subscribe(self, lambda _: self._fit_heights())
        self.editor.focus()

    # Records

    def folds(self) -> list[Fold]:
        """Return the functions of the panes that take records."""
        return [
            self.query_one(HeaderBar).fold,
            self.transcript.fold,
            self._offer_frames,
            self.namespace.fold,
            self.fold_searches,
        ]

    def _offer_frames(self, records: Sequence[Record]) -> None:
        """Show the key for an error's frames in the footer while the error is the newest entry."""
        if self.failed_cell is not self._offered_cell:
            self._offered_cell = self.failed_cell
            self.refresh_bindings()

    def fold_searches(self, records: Sequence[Record]) -> None:
        """Show searches; the first one makes their pane."""
        if self._search_tree is not None or any(record.tag == "rlm-call" for record in records):
            self.search_tree.fold(records)
            self._show_search_line()

    def _show_search_line(self) -> None:
        """Show the progress of a search in the transcript while its tree is hidden."""
        tree = self._search_tree
        if tree is None:
            return
        if _is_displayed(tree):
            self.transcript.search_progress = None
        else:
            self.transcript.search_progress = tree.trees.progress

    # What commands ask about the panes

    @property
    def namespace(self) -> NamespacePane:
        return self.query_one(NamespacePane)

    @property
    def queued_input_count(self) -> int:
        """The number of inputs that wait."""
        from mahtab_tui.tui.widgets.queue_row import QueueRow

        return sum(len(row.items) for row in self.query(QueueRow))

    @property
    def prompt_row(self) -> Widget | None:
        """The visible row that asks something, the most urgent first."""
        for class_name in PROMPT_ROWS:
            for row in self.query(class_name):
                if row.display:
                    return row
        return None

    @property
    def is_covered(self) -> bool:
        """Whether another screen is over the panes."""
        return len(self.app.screen_stack) > 1

    @property
    def selected_text(self) -> str:
        """What is selected in the editor; empty while another screen covers it."""
        if self.is_covered:
            return ""
        return self.editor.selected_text

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell."""
        if self._transcript is None:
            return None
        return self._transcript.failed_cell

    @property
    def last_answer(self) -> str:
        """The model's words since the last question."""
        if self._transcript is None:
            return ""
        return self._transcript.viewport.transcript.last_answer

    def is_code_visible(self, code: str) -> bool:
        """Return whether the transcript shows all of some code."""
        return not self._has_drawer and self.transcript.viewport.shows(code)

    # Layout

    @property
    def pane_layout(self) -> PaneLayout:
        return self._ui_state.layout

    @pane_layout.setter
    def pane_layout(self, layout: PaneLayout) -> None:
        self._ui_state.layout = layout
        self.apply_layout()

    def toggle_side(self) -> None:
        """Show or hide the side panes."""
        self.pane_layout = self.pane_layout.toggled_side(self.size.width)

    def close_drawer(self) -> None:
        """Show the transcript on a narrow screen, where the side panes cover it."""
        if self._is_ready and self._has_drawer:
            self.pane_layout = self.pane_layout.with_drawer(False)

    def resize(self, direction: Direction) -> None:
        """Move a splitter by one step."""
        side = self.query_one("#side").region
        namespace_percent = _percent(self.namespace.region.height, side.height)
        layout = self.pane_layout
        self.pane_layout = layout.resized(direction, self.size.width, namespace_percent)

    @on(Splitter.Dragged)
    def _resize_to_splitter(self, message: Splitter.Dragged) -> None:
        """Resize the panes on both sides of a splitter."""
        if message.splitter.id == "side-splitter":
            percent = _percent(self.size.width - message.x, self.size.width)
            self.pane_layout = self.pane_layout.with_side(percent)
        else:
            side = self.query_one("#side").region
            percent = _percent(message.y - side.y, side.height)
            self.pane_layout = self.pane_layout.with_namespace(percent)

    @on(PaneTabs.TranscriptChosen)
    def _show_transcript(self) -> None:
        self.toggle_side()

    def on_resize(self, event: Resize) -> None:
        self.apply_layout(event.size)

    def apply_layout(self, size: Size | None = None) -> None:
        """Arrange the panes.

        Args:
            size: The new size of the screen; None if it has not changed.
        """
        width, height = self.app.size if size is None else size
        if not self._is_ready:
            return
        is_narrow = width < NARROW_COLUMNS
        if not is_narrow:
            self._ui_state.layout = self.pane_layout.with_drawer(False)
        classes = {
            "-narrow": is_narrow,
            "-short": height < SHORT_SCREEN_LINES,
            "-low": height < LOW_SCREEN_LINES,
            "-tiny": height < TINY_SCREEN_LINES,
        }
        # Styles are computed again once, and only if a class changes.
        if any(self.has_class(name) is not is_set for name, is_set in classes.items()):
            for name, is_set in classes.items():
                self.set_class(is_set, name, update=False)
            self.update_node_styles()
        self._lay_out_side(self.pane_layout, width, height)
        self._show_search_line()
        # At once, before Textual moves the focus of a hidden widget to the next one.
        if self.focused is not None and not _is_displayed(self.focused):
            self.editor.focus()

    def _lay_out_side(self, layout: PaneLayout, width: int, height: int) -> None:
        """Give the side its width, and its two panes their heights, on a screen of this size."""
        is_narrow = width < NARROW_COLUMNS
        side = self.query_one("#side")
        side.display = layout.shows_side(width)
        side.styles.width = "100%" if is_narrow else layout.side_columns(width)
        self.query_one("#side-splitter").display = side.display and not is_narrow

        if self._search_tree is not None:
            namespace_percent = layout.namespace_height or NAMESPACE_PERCENT
            self._size_side_panes(self._search_tree, namespace_percent, 0)
            return
        example = self.query_one(SearchExample)
        # The preview of a variable needs lines.
        example.short = width >= PREVIEW_WIDTH
        example_lines = min(example.line_count, height // 4)
        self._size_side_panes(example, layout.namespace_height or 0, example_lines)

    def _size_side_panes(
        self, lower_pane: Widget, namespace_percent: int, lower_lines: int
    ) -> None:
        """Give the namespace and the pane below it their heights.

        Args:
            lower_pane: The pane below the namespace.
            namespace_percent: The share of the namespace; 0 for all but the lines of the pane below.
            lower_lines: Lines of the pane below, if the namespace has no share.
        """
        if namespace_percent:
            self.namespace.styles.height = f"{namespace_percent}%"
            lower_pane.styles.height = "1fr"
        else:
            self.namespace.styles.height = "1fr"
            lower_pane.styles.height = lower_lines

    def _fit_heights(self) -> None:
        """Fit the height of the transcript and of the drawer to what they show.

        While code waits for an approval, the transcript is no higher than its rows, so that the
        question stands right below the code. An open drawer is as high as the transcript that it
        covers, so that the editor stays visible.
        """
        if not self._is_ready:
            return
        transcript = self._transcript or self.query_one(Greeting)
        side = self.query_one("#side")
        has_drawer = self._has_drawer
        is_maximized = self.maximized is not None
        is_code_waiting = any(row.display for row in self.query("ApprovalRow, ReviewRow"))

        # Never None, because this runs after every layout and None would always trigger another one.
        if is_code_waiting and not has_drawer and not is_maximized:
            transcript.styles.max_height = transcript.virtual_size.height
        else:
            transcript.styles.max_height = "100%"
        if has_drawer and not is_maximized:
            side.styles.height = transcript.region.height
        else:
            side.styles.height = "1fr"

    @property
    def _is_ready(self) -> bool:
        """Whether the panes are mounted, and not removed yet."""
        return bool(self.query("#side"))

    @property
    def _has_drawer(self) -> bool:
        """Whether the side covers the transcript."""
        return self.query_one("#side").display and self.has_class("-narrow")

    # Focus, and what keys and clicks lead to

    def get_focusable_widget_at(self, x: int, y: int) -> Widget | None:
        """Let clicks focus only text fields, because the editor has to keep the keys."""
        widget = super().get_focusable_widget_at(x, y)
        if isinstance(widget, Input | TextArea):
            return widget
        return None

    def edit_input(self, mode: Mode, text: str) -> None:
        """Put an input into the editor, in place of what is there."""
        self.editor.end_replacing()
        self.editor.mode = mode
        self.editor.text = text
        self.editor.focus()

    def focus_code(self) -> None:
        """Give the keys to the editor."""
        self.set_focus(self.query_one("#code"))

    def find_in_focused(self) -> None:
        """Filter the namespace if it is focused; else search the transcript."""
        focused = self.app.focused
        if isinstance(focused, NamespacePane):
            focused.action_filter()
        else:
            self.find_in_transcript()

    @on(FindInTranscript)
    def find_in_transcript(self) -> None:
        """Open the line in which the user types what to find."""
        from mahtab_tui.tui.find import FindRow

        self.make_transcript()
        self.query_one("#transcript-find", FindRow).open()

    def maximize_focused(self) -> None:
        """Maximize the focused pane, or restore it; code that is edited for an approval runs."""
        from mahtab_tui.tui.widgets.approval_row import ApprovalRow

        if any(row.run_edited() for row in self.query(ApprovalRow)):
            return
        pane = self._focused_pane
        if self.maximized is not None:
            self.minimize()
        elif pane is not None:
            self.maximize(pane, container=False)

    def on_descendant_focus(self) -> None:
        """Restore a maximized pane when the focus leaves it."""
        maximized = self.maximized
        focused = self.focused
        if maximized is None or focused is None:
            return
        if maximized not in focused.ancestors_with_self:
            self.minimize()

    def jump_targets(self) -> list[JumpTarget]:
        """Return the panes to which a letter leads, and the row that asks something."""
        from mahtab_tui.tui.jump_target import JumpTarget

        self.make_transcript()
        visible_panes = self._visible_panes()
        targets = []
        for letter, pane in self._panes.items():
            targets.append(JumpTarget(letter, pane, letter not in visible_panes))
        row = self.prompt_row
        if row is not None:
            targets.append(JumpTarget(PROMPT_JUMP_LETTER, row))
        return targets

    def go_to(self, pane: Widget | None) -> None:
        """Focus a pane. It is uncovered first, if it is in a hidden side or below the drawer.

        Args:
            pane: None if none was chosen.
        """
        if pane is None:
            return
        side = self.query_one("#side")
        is_in_side = side in pane.ancestors_with_self
        if is_in_side and not _is_displayed(pane):
            self.toggle_side()
        if pane.id == "transcript":
            self.close_drawer()
        # A row that was answered meanwhile is not there any more.
        if _is_displayed(pane):
            self.call_after_refresh(pane.focus)

    @property
    def _panes(self) -> dict[str, Widget]:
        """The panes that exist, by their letter."""
        panes = {}
        for letter, selector in JUMP_SELECTORS.items():
            for pane in self.query(selector):
                panes[letter] = pane
        return panes

    def _visible_panes(self) -> dict[str, Widget]:
        """Return the panes that are on the screen, by their letter."""
        return {
            letter: pane
            for letter, pane in self._panes.items()
            if pane.region and pane.display and pane.is_on_screen
        }

    @property
    def _focused_pane(self) -> Widget | None:
        """The visible pane that contains the focus."""
        if self.focused is None:
            return None
        ancestors = set(self.focused.ancestors_with_self)
        for pane in self._visible_panes().values():
            if pane in ancestors:
                return pane
        return None


def _percent(length: int, total: int) -> int:
    """Return a length in percent of a total, which may be 0."""
    return round(100 * length / max(1, total))


def _is_displayed(widget: Widget) -> bool:
    """Return whether neither a widget nor one that contains it is hidden."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
