"""Completion and help at the cursor."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from rich.cells import cell_len
from textual.content import Content
from textual.events import Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.editor.code_area import CodeArea, location
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completion, Completions, Explanation
    from mahtab_tui.session.mentions import MentionChip


MAX_VISIBLE_ITEMS = 8
# Widths in cells.
MAX_LABEL_WIDTH = 36
KIND_WIDTH = 8
MAX_LIST_WIDTH = 90
QUOTES = ("'", '"')
_TRIGGER = re.compile(
    r"""[^\W\d]\w$|\.\w*$|\[["']?$|/$|^\s*%%?\w*$|\b(?:import|from)\s+[\w.]*$|^(?:[^"'#]|"[^"]*"|'[^']*')*["'][^"']*$"""
)
"""Text that triggers completion; last, an open string."""
_STEPS = {"down": 1, "up": -1, "pagedown": MAX_VISIBLE_ITEMS, "pageup": -MAX_VISIBLE_ITEMS}
PENDING_RETRY_S = 0.3
"""Until another request, while an MCP server starts."""
# With the border.
MAX_CARD_WIDTH = 90
MAX_CARD_HEIGHT = 16


class CompletionList(Widget):
    """A list of completions. The editor handles its keys; it never gets the focus."""

    can_focus = False
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.items: tuple[Completion, ...] = ()
        self.requested = False
        """Whether the user opened the list or moved in it: then Enter accepts."""
        self._label_width = 0
        self._chosen = 0
        self._top = 0
        self._omitted_count = 0
        """How many items the kernel left out."""

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion:
        return self.items[self._chosen]

    def open(
        self, items: tuple[Completion, ...], omitted_count: int, at: Offset, *, requested: bool
    ) -> None:
        """Show a list below the screen's cell `at`, or above it."""
        old_label = self.chosen.label if self.is_open and self._chosen else None
        self.items = items
        self._omitted_count = omitted_count
        self.requested = requested
        self._top = 0
        labels = [item.label for item in items]
        self._choose(labels.index(old_label) if old_label in labels else 0)

        screen = self.screen.size
        longest_label = max(cell_len(one_line(label)) for label in labels)
        longest_doc = max(cell_len(one_line(item.doc)) for item in items)
        self._label_width = min(MAX_LABEL_WIDTH, longest_label)
        row_width = self._label_width + KIND_WIDTH + 6 + longest_doc
        width = min(screen.width, max(row_width, self._foot().cell_length + 1), MAX_LIST_WIDTH)
        height = min(len(items), MAX_VISIBLE_ITEMS) + 1
        fits_below = at.y + 1 + height <= screen.height
        self.styles.width = width
        self.styles.height = height
        x = max(0, min(at.x - 1, screen.width - width))
        y = at.y + 1 if fits_below else max(0, at.y - height)
        self.absolute_offset = Offset(x, y)
        self.display = True
        self.refresh(layout=True)

    def narrow(self, items: tuple[Completion, ...]) -> None:
        """Show fewer items, until the kernel has answered."""
        chosen = self.chosen
        self.items = items
        self._omitted_count = 0
        self._choose(items.index(chosen) if chosen in items else 0)

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        index = self._chosen + step
        count = len(self.items)
        self.requested = True
        # Single steps go around; a page stops at the ends.
        if abs(step) == 1:
            self._choose(index % count)
        else:
            self._choose(max(0, min(count - 1, index)))

    def _choose(self, index: int) -> None:
        self._chosen = index
        self._top = max(0, min(max(self._top, index - MAX_VISIBLE_ITEMS + 1), index))
        self.refresh()

    def render(self) -> Content:
        end = min(len(self.items), self._top + MAX_VISIBLE_ITEMS)
        rows = [self._row(index) for index in range(self._top, end)]
        return Content("\n").join([*rows, self._foot()])

    def _row(self, index: int) -> Content:
        item = self.items[index]
        label = Content(one_line(item.label)).truncate(self._label_width, ellipsis=True, pad=True)
        kind = (f"{item.kind:<{KIND_WIDTH}}", "$person")
        doc = (one_line(item.doc), "$muted")
        line = Content.assemble(" ", label, "  ", kind, "  ", doc, " ")
        if self.size.width:
            line = line.truncate(max(1, self.size.width), ellipsis=True, pad=True)
        if index == self._chosen:
            return line.stylize("bold on $person 30%")
        return line

    def _foot(self) -> Content:
        keys = "Tab or Enter accepts" if self.requested else "Tab accepts"
        total = len(self.items) + self._omitted_count
        has_hidden = self._omitted_count > 0 or len(self.items) > MAX_VISIBLE_ITEMS
        count = f" · {total:,} in all" if has_hidden else ""
        return Content.styled(f" {keys}{count}", "$muted")


class InputHelp(Protocol):
    """What the editor asks about its text. Cursors are offsets in characters.

    Any thread may call these methods; all but `complete_command` wait, so the editor calls them
    on threads.
    """

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete code. Raises `KernelError`."""

    def complete_question(self, question: str, cursor: int) -> Completions:
        """Complete what a question mentions. Raises `KernelError`."""

    def complete_command(self, text: str, cursor: int) -> Completions | None:
        """Complete the name of a command; None if there is none at the cursor."""

    def explain(self, code: str, cursor: int) -> Explanation | None:
        """Explain the name at the cursor. Raises `KernelError`."""

    def mention_chips(self, question: str) -> Sequence[MentionChip]:
        """Return what a question mentions, and how much of it there is."""


class EditorState(NamedTuple):
    """What completions depend on."""

    code: str
    cursor: int
    """Offset in characters."""
    python: bool


class Completer:
    """Asks for completions as the user types, and inserts them."""

    def __init__(
        self,
        area: CodeArea,
        completion_list: CompletionList,
        input_help: InputHelp | None,
    ) -> None:
        """input_help: None for an editor without completions."""
        self._area = area
        self._list = completion_list
        self._input_help = input_help
        self._fetcher = Fetcher(area, at_once=1)
        self._prefix = ""
        """The text before what the items complete."""
        self._state_after_insert: EditorState | None = None

    def handle_key(self, event: Key) -> bool:
        """Return False if the key does not concern the list."""
        completions = self._list
        if not completions.is_open:
            return False
        if event.key in _STEPS:
            completions.move(_STEPS[event.key])
        elif event.key == "escape":
            self.close()
        elif event.key == "enter" and completions.requested:
            self._insert(completions.chosen)
        else:
            if event.key == "enter":
                self.close()
            return False
        return True

    def handle_tab(self) -> bool:
        """Insert or request completions; return False if Tab acts on the text."""
        if self._list.is_open:
            self._insert(self._list.chosen)
            return True
        area = self._area
        if self._input_help is None or not area.selection.is_empty:
            return False
        text_before = self._text_before_cursor
        if area.python:
            can_complete = bool(text_before.strip())
        else:
            can_complete = self._starts_mention_or_command(text_before)
        if can_complete:
            self._ask(by_key=True)
        return can_complete

    def update_after_edit(self, *, by_character: bool) -> None:
        """by_character: the user typed a character."""
        self._fetcher.forget("completion")
        if self._should_complete(by_character=by_character):
            self._narrow()
            self._ask(by_key=self._list.is_open and self._list.requested)
        else:
            self.close()

    def _should_complete(self, *, by_character: bool) -> bool:
        python = self._area.python
        is_open = self._list.is_open
        if self._input_help is None or not (by_character or is_open):
            return False
        text_before = self._text_before_cursor
        if not python:
            return self._starts_mention_or_command(text_before)
        # An open list goes on within a word, also where it would not open.
        continues_word = is_open and re.search(r"\w$", text_before) is not None
        return continues_word or _TRIGGER.search(text_before) is not None

    def skip_quote(self, typed: str) -> bool:
        """Return whether a typed quote is already there, because the text has not changed since a
        completion was inserted, and the same quote stands before or after the cursor. If it stands
        after the cursor, move the cursor behind it."""
        state = self._state_after_insert
        if typed not in QUOTES or state is None or state != self._state:
            return False

        self._state_after_insert = None
        if state.code.startswith(typed, state.cursor):
            self._area.move_cursor(self._area.get_cursor_right_location())
            return True
        return state.code.endswith(typed, 0, state.cursor)

    def close(self) -> None:
        self._fetcher.forget("completion")
        self._list.close()

    def _insert(self, item: Completion) -> None:
        self.close()
        area = self._area
        start = location(area.text, len(self._prefix))
        end = area.cursor_location
        with area.as_typed():
            area.replace(item.text, start, end, maintain_selection_offset=False)
        self._state_after_insert = self._state
        if item.kind == "folder":
            self._ask(by_key=True)

    def _narrow(self) -> None:
        if not self._list.is_open:
            return
        text_before = self._area.text[: self._area.cursor_index]
        typed = text_before[len(self._prefix) :]
        matching_items = _starting_with(self._list.items, typed)
        if matching_items and text_before.startswith(self._prefix):
            self._list.narrow(matching_items)
        else:
            self._list.close()

    @property
    def _text_before_cursor(self) -> str:
        """Of the cursor's line."""
        row, column = self._area.cursor_location
        return self._area.document.get_line(row)[:column]

    def _starts_mention_or_command(self, text_before: str) -> bool:
        from mahtab_tui.session.mentions import partial_mention

        return self._starts_command(text_before) or partial_mention(text_before) is not None

    def _starts_command(self, text_before: str) -> bool:
        in_first_line = self._area.cursor_location[0] == 0
        if self._input_help is None or not in_first_line:
            return False
        return self._input_help.complete_command(text_before, len(text_before)) is not None

    def _ask(self, *, by_key: bool, pause: float = 0.0) -> None:
        state = self._state
        self._fetcher.ask(
            "completion",
            partial(self._ask_kernel, *state),
            partial(self._handle_response, state, by_key),
            pause=pause,
        )

    @property
    def _state(self) -> EditorState:
        return EditorState(self._area.text, self._area.cursor_index, self._area.python)

    def _ask_kernel(self, code: str, cursor: int, python: bool) -> Completions | None:
        """Return completions of what is at the cursor; None if there are none. Runs on a thread."""
        IMPORTS.wait_for_screen()
        from mahtab_tui.kernel.base import KernelError

        input_help = self._input_help
        assert input_help is not None
        command_completions = input_help.complete_command(code, cursor)
        if command_completions is not None:
            return command_completions
        with contextlib.suppress(KernelError):
            if python:
                return input_help.complete(code, cursor)
            return input_help.complete_question(code, cursor)
        return None

    def _handle_response(
        self, state: EditorState, by_key: bool, completions: Completions | None
    ) -> None:
        """by_key: the user pressed a key for it."""
        if state != self._state or not self._area.has_focus:
            return
        if completions is not None and completions.items:
            self._show(completions, state, by_key)
        else:
            self.close()
        if completions is not None and completions.pending:
            self._ask(by_key=by_key, pause=PENDING_RETRY_S)

    def _show(self, completions: Completions, state: EditorState, by_key: bool) -> None:
        code = state.code
        start = completions.start
        typed = code[start : state.cursor]
        self._prefix = code[:start]

        # Items that match in the middle of their name are offered only on request, or if no other
        # item matches.
        items: tuple[Completion, ...] = completions.items
        omitted_count = completions.more
        starting_items = _starting_with(items, typed)
        has_others = len(starting_items) < len(items)
        if starting_items and has_others and (not by_key or len(starting_items) == 1):
            items = starting_items
            omitted_count = 0

        is_only = len(items) == 1
        is_typed = is_only and typed in (items[0].text, items[0].label)
        # A string in Python may not be a file name.
        are_files = state.python and items[0].kind in ("file", "folder")
        is_needless = is_typed or (are_files and code[start - 1] != "/")
        if is_needless and not by_key:
            self.close()
        elif by_key and is_only and not (self._list.is_open and self._list.requested):
            self._insert(items[0])
        else:
            at = self._area.cursor_screen_offset - Offset(cell_len(typed), 0)
            self._list.open(items, omitted_count, at, requested=by_key)


def _starting_with(items: Sequence[Completion], typed: str) -> tuple[Completion, ...]:
    """Return the items whose label begins with what is typed, in any case."""
    typed = typed.lower()
    return tuple(item for item in items if item.label.lower().startswith(typed))


class HelpCard(Static):
    """Shows the signature and docstring of the name at the cursor, above it."""

    can_focus = False

    def __init__(self, input_help: InputHelp | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._input_help = input_help
        self._fetcher = Fetcher(self)
        self.place: tuple[str, int] | None = None
        """The code and the cursor that were asked about; None when the card is closed."""

    def ask(self, code: str, cursor: int, at: Offset) -> None:
        if self._input_help is None:
            return
        self.place = (code, cursor)
        self._fetcher.ask(
            "help",
            partial(self._input_help.explain, code, cursor),
            lambda explanation: self._show(_content(explanation), at),
            lambda error: self._show(Content(error), at),
        )

    def close(self) -> None:
        self._fetcher.forget("help")
        self.display = False
        self.place = None

    def _show(self, content: Content, at: Offset) -> None:
        screen = self.screen.size
        width = min(screen.width, MAX_CARD_WIDTH)
        lines = content.wrap(width - 4)
        height = min(len(lines) + 2, MAX_CARD_HEIGHT, max(3, at.y))
        if len(lines) > height - 2:
            hint = Content.styled("… name? in a cell shows all of it", "$muted")
            lines = [*lines[: height - 3], hint]
        self.update(Content("\n").join(lines))
        self.styles.width = width
        self.styles.height = height
        x = max(0, min(at.x - 2, screen.width - width))
        self.absolute_offset = Offset(x, max(0, at.y - height))
        self.display = True


def _content(explanation: Explanation | None) -> Content:
    # Loaded late, for a fast start.
    from textual.highlight import highlight

    if explanation is None:
        return Content("No help for the code at the cursor.")
    sections = [highlight(plain(explanation.signature), language="python")]
    if explanation.doc:
        sections.append(Content(plain(explanation.doc)))
    if explanation.where:
        sections.append(Content.styled(plain(explanation.where), "$muted"))
    return Content("\n\n").join(sections)
