"""The main screen: its panes, their layout and the focus."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from mahtab_tui.session import Session
from mahtab_tui.settings.model import SettingsError, home_folder
from mahtab_tui.store.database import History
from mahtab_tui.system import langsmith_variable
from mahtab_tui.tui.editor import EditorPane
from mahtab_tui.tui.find import FindRow
from mahtab_tui.tui.greeting import Greeting, GreetingLines
from mahtab_tui.tui.namespace import PREVIEW_WIDTH, NamespacePane
from mahtab_tui.tui.terminal_app import Fold
from mahtab_tui.tui.widgets.bars import HeaderBar, KeyLine, PaneTabs, Splitter

if TYPE_CHECKING:
    from mahtab_tui.bus.conversation import Cell
    from mahtab_tui.bus.records import Record
    from mahtab_tui.tui.screens.dialog import JumpTarget
    from mahtab_tui.tui.search.pane import SearchTreePane
    from mahtab_tui.tui.session_port import SessionPort
    from mahtab_tui.tui.transcript.pane import TranscriptPane


NARROW_COLUMNS = 110
"""On a screen with fewer columns, the side panes cover the transcript while they are open."""
SHORT_LINES = 30
LOW_LINES = 16
TINY_LINES = 8

SIDE_PERCENT, MAX_SIDE_PERCENT = 34, 70
MAIN_COLUMNS = 126
NAMESPACE_PERCENT = 55
STEP_PERCENT = 4


Direction = Literal["wider", "narrower", "taller", "shorter"]


class PaneLayout(BaseModel):
    model_config = ConfigDict(frozen=True)

    side: int | None = Field(default=None, ge=15, le=70)
    """None if the user has not moved the splitter; so is `namespace_height`."""
    namespace_height: int | None = Field(default=None, ge=15, le=85)
    show_side: bool = True
    drawer: bool = False
    """Whether it is open on a narrow screen; closed at each start."""

    def side_columns(self, width: int) -> int:
        if self.side is not None:
            return width * self.side // 100
        wanted = max(width * SIDE_PERCENT // 100, width - MAIN_COLUMNS)
        return min(wanted, width * MAX_SIDE_PERCENT // 100)

    def resized(self, how: Direction, width: int, namespace: int) -> PaneLayout:
        step = STEP_PERCENT if how in ("wider", "taller") else -STEP_PERCENT
        if how in ("wider", "narrower"):
            shown = math.ceil(100 * self.side_columns(width) / max(1, width))
            return self.with_side(shown + step)
        height = namespace if self.namespace_height is None else self.namespace_height
        return self.with_namespace(height + step)

    def with_side(self, percent: int) -> PaneLayout:
        return self.changed(side=max(15, min(MAX_SIDE_PERCENT, percent)))

    def with_namespace(self, percent: int) -> PaneLayout:
        return self.changed(namespace_height=max(15, min(85, percent)))

    def changed(self, **changes: object) -> PaneLayout:
        return self.model_copy(update=changes)

    def toggled_side(self, width: int) -> PaneLayout:
        return self.changed(**{_side_field(width): not self.shows_side(width)})

    def shows_side(self, width: int) -> bool:
        shown: bool = getattr(self, _side_field(width))
        return shown


def _side_field(width: int) -> Literal["drawer", "show_side"]:
    return "drawer" if width < NARROW_COLUMNS else "show_side"


_MAX_REMEMBERED = 12


def _put_first(name: str, names: Sequence[str]) -> tuple[str, ...]:
    return (name, *(other for other in names if other != name))[:_MAX_REMEMBERED]


class UiState(BaseModel):
    theme: str = "mahtab"
    layout: PaneLayout = Field(default_factory=PaneLayout)
    models: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()

    @staticmethod
    def path() -> Path:
        return home_folder() / "screen.json"

    @classmethod
    def load(cls) -> UiState:
        try:
            return cls.model_validate_json(UiState.path().read_bytes())
        except (OSError, ValidationError):
            return cls()

    def remember_model(self, name: str) -> None:
        self.models = _put_first(name, self.models)

    def remember_kernel(self, address: str) -> None:
        self.kernels = _put_first(address, self.kernels)

    def save(self) -> None:
        from mahtab_tui.settings.values import write_text

        with contextlib.suppress(SettingsError):
            write_text(UiState.path(), self.model_dump_json())


LETTERS = {"t": "#transcript", "e": "#editor", "n": "#namespace", "r": "#recursion"}
PROMPT_ROWS = ("ApprovalRow", "ReviewRow", "FanOutRow", "InputRow")
PROMPT_LETTER = "w"

_CALL = Content.assemble(
    ("rlm(", "$foreground"),
    ('"question"', "$good"),
    (", text)", "$foreground"),
    (" searches a long text", "$muted"),
)
EXAMPLE = Content.assemble(("RECURSION\n\n", "$muted"), _CALL, ("; each call shows here", "$muted"))
EXAMPLE_LINES = 5
SHORT_EXAMPLE = Content.assemble(("RECURSION\n", "$muted"), _CALL)
"""For a wide screen, where the namespace needs lines for the preview of a variable."""
SHORT_EXAMPLE_LINES = 2


class Panes(Screen[None]):
    # Not the first pane, even briefly: keys may already have been typed.
    AUTO_FOCUS = "#code"

    def __init__(
        self, session: Session, port: SessionPort, history: History, ui_state: UiState
    ) -> None:
        super().__init__(id="_default")
        self._session = session
        self._history = history
        self._ui_state = ui_state
        self.port = port
        self._greeting: GreetingLines = ()
        self._transcript: TranscriptPane | None = None
        """Made when first needed; until then there is a greeting."""
        self._search_tree: SearchTreePane | None = None
        """Made with the first search; until then there is an example."""
        self._offered_cell: Cell | None = None
        """The failed cell whose frames the footer offers to show."""
        ui_state.layout = ui_state.layout.changed(drawer=False)

    def parts(self) -> ComposeResult:
        session = self._session
        yield HeaderBar(langsmith_variable(), id="header")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield Greeting(id="greeting")
                with Vertical(id="lower"):
                    yield EditorPane(
                        self._history,
                        session.complete,
                        session.explain,
                        lambda question, cursor: session.attachments.complete(question, cursor),
                        lambda question: session.attachments.chips(question),
                        id="editor",
                    )
            yield Splitter("vertical", id="side-splitter")
            with Vertical(id="side"):
                yield PaneTabs(id="pane-tabs")
                yield NamespacePane(self.port, id="namespace")
                yield Splitter("horizontal", id="namespace-splitter")
                yield Static(EXAMPLE, id="search-example")
        yield KeyLine()

    async def mount_prompt_rows(self) -> list[Fold]:
        from mahtab_tui.tui.widgets.approval_row import ApprovalRow
        from mahtab_tui.tui.widgets.question_rows import FanOutRow, InputRow, QueueRow, ReviewRow

        def is_free() -> bool:
            return self.editor.is_empty

        approval = ApprovalRow(
            is_free,
            self.is_code_visible,
            rules_for=lambda code: self._session.agent.rules.rules_for(code),
        )
        upper = (approval, ReviewRow(is_free))
        lower_rows = (FanOutRow(is_free), InputRow(), QueueRow())
        for row in (*upper, *lower_rows):
            row.display = False

        def send_size(room: tuple[int, int]) -> None:
            if any(room):
                self._session.kernel.set_size(*room)

        self.watch(self.transcript, "room", send_size)
        with self.app.batch_update():
            main, lower = self.query_one("#main"), self.query_one("#lower")
            if not lower.is_attached:
                return []
            # Both at once, because the application may close while one is awaited.
            above = main.mount(*upper, before="#lower")
            below = lower.mount(*lower_rows, before="#editor")
            await above
            await below
        return [row.fold for row in (*upper, *lower_rows)]

    @property
    def editor(self) -> EditorPane:
        return self.query_one(EditorPane)

    @property
    def transcript(self) -> TranscriptPane:
        if self._transcript is None:
            from mahtab_tui.tui.transcript.pane import TranscriptPane

            pane = self._transcript = TranscriptPane(self.port, id="transcript")
            pane.viewport.loads = 0 if self._session.past else len(self._session.files)
            pane.greeting = self._greeting
            with self.app.batch_update():
                self.query_one("#main").mount(
                    pane, FindRow(pane, id="transcript-find"), before="#lower"
                )
                self.query_one(Greeting).remove()
            self.watch(pane, "height_of_all", self._fit_heights, init=False)
        return self._transcript

    def greet(self, lines: GreetingLines) -> None:
        self._greeting = lines
        if self._transcript is None:
            self.query_one(Greeting).lines = lines
        else:
            self._transcript.greeting = lines

    @property
    def namespace(self) -> NamespacePane:
        return self.query_one(NamespacePane)

    @property
    def search_tree(self) -> SearchTreePane:
        if self._search_tree is None:
            from mahtab_tui.tui.search.pane import SearchTreePane

            tree = self._search_tree = SearchTreePane(self._session.searches, id="recursion")
            with self.app.batch_update():
                self.query_one("#side").mount(tree)
                self.query_one("#search-example").remove()
                self.apply_layout()
        return self._search_tree

    @property
    def queued(self) -> int:
        from mahtab_tui.tui.widgets.question_rows import QueueRow

        return sum(len(row.items) for row in self.query(QueueRow))

    @property
    def prompt_row(self) -> Widget | None:
        return next((row for kind in PROMPT_ROWS for row in self.query(kind) if row.display), None)

    @property
    def is_covered(self) -> bool:
        return len(self.app.screen_stack) > 1

    @property
    def selected_text(self) -> str:
        return "" if self.is_covered else self.editor.selected_text

    def folds(self) -> list[Fold]:
        return [
            self.query_one(HeaderBar).fold,
            self.transcript.fold,
            self._offer_frames,
            self.namespace.fold,
            self.fold_searches,
        ]

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell."""
        return None if self._transcript is None else self._transcript.failed_cell

    def _offer_frames(self, records: Sequence[Record]) -> None:
        """Show the key for an error's frames in the footer while the error is the newest entry."""
        if self.failed_cell is not self._offered_cell:
            self._offered_cell = self.failed_cell
            self.refresh_bindings()

    def fold_searches(self, records: Sequence[Record]) -> None:
        if self._search_tree is not None or any(record.tag == "rlm-call" for record in records):
            self.search_tree.fold(records)
            self._show_search_line()

    def _show_search_line(self) -> None:
        if (tree := self._search_tree) is not None:
            self.transcript.search_progress = None if _displayed(tree) else tree.trees.progress

    def resume(self, past: Sequence[Record]) -> None:
        if not past:
            return
        self.transcript.fold(past)
        self.fold_searches(past)
        usage = [record for record in past if record.tag == "usage"]
        self.query_one(HeaderBar).fold(usage)
        if self._search_tree is not None:
            self.call_after_refresh(self._search_tree.end)
            self.call_after_refresh(self._show_search_line)

    def begin(self) -> None:
        self.watch(self.query_one(HeaderBar), "waits", lambda: self.refresh_bindings(), init=False)
        self.apply_layout()
        self.screen_layout_refresh_signal.subscribe(self, lambda _: self._fit_heights())
        self.editor.focus()

    @property
    def pane_layout(self) -> PaneLayout:
        return self._ui_state.layout

    @pane_layout.setter
    def pane_layout(self, layout: PaneLayout) -> None:
        self._ui_state.layout = layout
        self.apply_layout()

    @property
    def _is_ready(self) -> bool:
        return bool(self.query("#side"))

    @property
    def _has_drawer(self) -> bool:
        return self.query_one("#side").display and self.has_class("-narrow")

    def on_resize(self, event: Resize) -> None:
        self.apply_layout(event.size)

    def apply_layout(self, size: Size | None = None) -> None:
        width, height = self.app.size if size is None else size
        if not self._is_ready:
            return
        narrow = width < NARROW_COLUMNS
        if not narrow:
            self._ui_state.layout = self.pane_layout.changed(drawer=False)
        sized = {
            "-narrow": narrow,
            "-short": height < SHORT_LINES,
            "-low": height < LOW_LINES,
            "-tiny": height < TINY_LINES,
        }
        if any(self.has_class(name) is not holds for name, holds in sized.items()):
            for name, holds in sized.items():
                self.set_class(holds, name, update=False)
            self.update_node_styles()
        self._lay_out_side(self.pane_layout, width, height)
        self._show_search_line()
        # At once, before Textual moves the focus of a hidden widget to the next one.
        if self.focused is not None and not _displayed(self.focused):
            self.editor.focus()

    def _lay_out_side(self, layout: PaneLayout, width: int, height: int) -> None:
        narrow = width < NARROW_COLUMNS
        side = self.query_one("#side")
        side.display = layout.shows_side(width)
        self.query_one("#side-splitter").display = side.display and not narrow
        side.styles.width = "100%" if narrow else layout.side_columns(width)
        namespace = self.query_one("#namespace")
        tree = self._search_tree or self.query_one("#search-example")
        default = None if self._search_tree is None else NAMESPACE_PERCENT
        percent = layout.namespace_height or default
        namespace.styles.height = f"{percent}%" if percent else "1fr"
        is_example_short = isinstance(tree, Static) and width >= PREVIEW_WIDTH
        if isinstance(tree, Static):
            tree.update(SHORT_EXAMPLE if is_example_short else EXAMPLE)
        lines = SHORT_EXAMPLE_LINES if is_example_short else EXAMPLE_LINES
        tree.styles.height = "1fr" if percent else min(lines, height // 4)

    def _fit_heights(self) -> None:
        """While code waits, put its answers right below it; below a drawer, leave room for the
        editor."""
        if not self._is_ready:
            return
        transcript, side = self._transcript or self.query_one(Greeting), self.query_one("#side")
        drawer = self._has_drawer
        waits = any(row.display for row in self.query("ApprovalRow, ReviewRow")) and not drawer
        alone = self.maximized is not None
        # Never None, because this runs after every layout and None would always trigger another
        # one.
        fitted = waits and not alone
        transcript.styles.max_height = transcript.virtual_size.height if fitted else "100%"
        side.styles.height = transcript.region.height if drawer and not alone else "1fr"

    def is_code_visible(self, code: str) -> bool:
        return not self._has_drawer and self.transcript.viewport.shows(code)

    @on(PaneTabs.TranscriptChosen)
    def _show_transcript(self) -> None:
        self.toggle_side()

    @on(Splitter.Dragged)
    def _dragged(self, message: Splitter.Dragged) -> None:
        if message.splitter.id == "side-splitter":
            percent = _percent(self.size.width - message.x, self.size.width)
            self.pane_layout = self.pane_layout.with_side(percent)
        else:
            side = self.query_one("#side").region
            percent = _percent(message.y - side.y, side.height)
            self.pane_layout = self.pane_layout.with_namespace(percent)

    def resize(self, direction: Direction) -> None:
        side = self.query_one("#side").region
        namespace = _percent(self.namespace.region.height, side.height)
        self.pane_layout = self.pane_layout.resized(direction, self.size.width, namespace)

    def toggle_side(self) -> None:
        self.pane_layout = self.pane_layout.toggled_side(self.size.width)

    def get_focusable_widget_at(self, x: int, y: int) -> Widget | None:
        """Let clicks focus only text fields, because the editor has to keep the keys."""
        widget = super().get_focusable_widget_at(x, y)
        return widget if isinstance(widget, Input | TextArea) else None

    def focus_code(self) -> None:
        self.set_focus(self.query_one("#code"))

    def on_descendant_focus(self) -> None:
        alone, focused = self.maximized, self.focused
        if alone is not None and focused is not None and alone not in focused.ancestors_with_self:
            self.minimize()

    def maximize_focused(self) -> None:
        from mahtab_tui.tui.widgets.approval_row import ApprovalRow

        if any(row.run_edited() for row in self.query(ApprovalRow)):
            return
        if self.maximized is not None:
            self.minimize()
        elif (pane := self._focused_pane) is not None:
            self.maximize(pane, container=False)

    def find(self) -> None:
        focused = self.app.focused
        if isinstance(focused, NamespacePane):
            focused.action_filter()
        else:
            self.transcript.action_find()

    def jump_targets(self) -> list[JumpTarget]:
        from mahtab_tui.tui.screens.dialog import JumpTarget

        self.transcript  # noqa: B018 (makes it)
        seen = self._visible_panes()
        panes = self._panes.items()
        targets = [JumpTarget(letter, pane, letter not in seen) for letter, pane in panes]
        if (row := self.prompt_row) is not None:
            targets.append(JumpTarget(PROMPT_LETTER, row))
        return targets

    def go_to(self, pane: Widget | None) -> None:
        if pane is None:
            return
        if not _displayed(pane):
            self.toggle_side()
        self.call_after_refresh(pane.focus)

    @property
    def _panes(self) -> dict[str, Widget]:
        letters = LETTERS.items()
        return {letter: pane for letter, selector in letters for pane in self.query(selector)}

    def _visible_panes(self) -> dict[str, Widget]:
        return {
            letter: pane
            for letter, pane in self._panes.items()
            if pane.region and pane.display and pane.is_on_screen
        }

    @property
    def _focused_pane(self) -> Widget | None:
        if self.focused is None:
            return None
        focused = set(self.focused.ancestors_with_self)
        return next((pane for pane in self._visible_panes().values() if pane in focused), None)


def _percent(part: int, whole: int) -> int:
    return round(100 * part / max(1, whole))


def _displayed(widget: Widget) -> bool:
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
