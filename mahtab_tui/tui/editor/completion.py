"""Completion and help at the cursor."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.events import Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.system import IMPORTS
from mahtab_tui.tui.commands import complete_slash
from mahtab_tui.tui.editor.code_area import CodeArea, location
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.base import Completion, Completions, Explanation


ROWS = 8
_LABEL, _KIND = 36, 8
_WIDEST = 90
QUOTES = ("'", '"')


class CompletionList(Widget):
    """The editor handles its keys; it never gets the focus."""

    can_focus = False
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.items: tuple[Completion, ...] = ()
        self.requested = False
        """Whether the user opened the list or moved in it: then Enter accepts."""
        self._label_width = self._chosen = self._top = self._more = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion:
        return self.items[self._chosen]

    def open(
        self, items: tuple[Completion, ...], more: int, at: Offset, *, requested: bool
    ) -> None:
        """Show a list below the screen's cell `at`, or above it."""
        before = self.chosen.label if self.is_open and self._chosen else None
        self.items, self._more, self.requested = items, more, requested
        self._top = 0
        self._choose(next((row for row, item in enumerate(items) if item.label == before), 0))
        self._label_width = min(_LABEL, max(cell_len(one_line(item.label)) for item in items))
        row = self._label_width + _KIND + 6 + max(cell_len(one_line(item.doc)) for item in items)
        width = min(self.screen.size.width, max(row, self._foot().cell_length + 1), _WIDEST)
        height = min(len(items), ROWS) + 1
        below = at.y + 1 + height <= self.screen.size.height
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(
            max(0, min(at.x - 1, self.screen.size.width - width)),
            at.y + 1 if below else max(0, at.y - height),
        )
        self.display = True
        self.refresh(layout=True)

    def narrow(self, items: tuple[Completion, ...]) -> None:
        chosen = self.chosen
        self.items, self._more = items, 0
        self._choose(items.index(chosen) if chosen in items else 0)

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        chosen, count = self._chosen + step, len(self.items)
        self.requested = True
        self._choose(chosen % count if abs(step) == 1 else max(0, min(count - 1, chosen)))

    def _choose(self, index: int) -> None:
        self._chosen = index
        self._top = max(0, min(max(self._top, index - ROWS + 1), index))
        self.refresh()

    def render(self) -> Content:
        end = min(len(self.items), self._top + ROWS)
        rows = [self._row(index) for index in range(self._top, end)]
        return Content("\n").join([*rows, self._foot()])

    def _row(self, index: int) -> Content:
        item = self.items[index]
        label = Content(one_line(item.label)).truncate(self._label_width, ellipsis=True, pad=True)
        kind, doc = (f"{item.kind:<{_KIND}}", "$person"), (one_line(item.doc), "$muted")
        line = Content.assemble(" ", label, "  ", kind, "  ", doc, " ")
        if self.size.width:
            line = line.truncate(max(1, self.size.width), ellipsis=True, pad=True)
        return line.stylize("bold on $person 30%") if index == self._chosen else line

    def _foot(self) -> Content:
        keys = "Tab or Enter accepts" if self.requested else "Tab accepts"
        total = len(self.items) + self._more
        more = f" · {total:,} in all" if self._more or total > ROWS else ""
        return Content.styled(f" {keys}{more}", "$muted")


Complete = Callable[[str, int], "Completions"]
"""Completes code at a cursor; raises `KernelError`."""

_TRIGGER = re.compile(
    r"""[^\W\d]\w$|\.\w*$|\[["']?$|/$|^\s*%%?\w*$|\b(?:import|from)\s+[\w.]*$|^(?:[^"'#]|"[^"]*"|'[^']*')*["'][^"']*$"""
)
"""Text that triggers completion; last, an open string."""

_STEPS = {"down": 1, "up": -1, "pagedown": ROWS, "pageup": -ROWS}

_PENDING_RETRY = 0.3
"""Seconds until another request, while an MCP server starts."""


class EditorState(NamedTuple):
    code: str
    cursor: int
    """Offset in characters."""
    python: bool


class Completer:
    def __init__(
        self,
        area: CodeArea,
        shown: CompletionList,
        complete: Complete | None,
        complete_question: Complete | None,
    ) -> None:
        """complete, complete_question: called on a thread; None disables."""
        self._area = area
        self._list = shown
        self._completers = {True: complete, False: complete_question}
        """By whether the text is Python."""
        self._fetcher = Fetcher(area, at_once=1)
        self._prefix = ""
        self._state_after_insert: EditorState | None = None

    def handle_key(self, event: Key) -> bool:
        """Return False if the key does not concern the list."""
        shown = self._list
        if not shown.is_open:
            return False
        if event.key in _STEPS:
            shown.move(_STEPS[event.key])
        elif event.key == "escape":
            self.close()
        elif event.key == "enter" and shown.requested:
            self._insert(shown.chosen)
        else:
            if event.key == "enter":
                self.close()
            return False
        return True

    def handle_tab(self) -> bool:
        """Insert or request completions; return False if Tab acts on the text."""
        area, before = self._area, self._text_before_cursor
        if self._list.is_open:
            self._insert(self._list.chosen)
            return True
        useful = before.strip() if area.python else self._starts_mention_or_command(before)
        if self._completers[area.python] is None or not area.selection.is_empty or not useful:
            return False
        self._ask(by_key=True)
        return True

    def update_after_edit(self, *, by_character: bool) -> None:
        """by_character: the user typed a character."""
        python, before = self._area.python, self._text_before_cursor
        self._fetcher.forget("completion")
        is_open = self._list.is_open
        worth_it = self._completers[python] is not None and (by_character or is_open)
        if worth_it and python:
            worth_it = bool(_TRIGGER.search(before) or (is_open and re.search(r"\w$", before)))
        elif worth_it:
            worth_it = self._starts_mention_or_command(before)
        if worth_it:
            self._narrow()
            self._ask(by_key=self._list.is_open and self._list.requested)
        else:
            self.close()

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
        start, end = location(area.text, len(self._prefix)), area.cursor_location
        with area.as_typed():
            area.replace(item.text, start, end, maintain_selection_offset=False)
        self._state_after_insert = self._state
        if item.kind == "folder":
            self._ask(by_key=True)

    def _narrow(self) -> None:
        if not self._list.is_open:
            return
        before, prefix = self._area.text[: self._area.cursor_index], self._prefix
        stem = before[len(prefix) :]
        fitting = _starting_with(self._list.items, stem)
        if fitting and before.startswith(prefix):
            self._list.narrow(fitting)
        else:
            self._list.close()

    @property
    def _text_before_cursor(self) -> str:
        row, column = self._area.cursor_location
        return self._area.document.get_line(row)[:column]

    def _starts_mention_or_command(self, before: str) -> bool:
        from mahtab_tui.session.attachments import partial_mention

        in_first_line = self._area.cursor_location[0] == 0
        is_command = in_first_line and complete_slash(before, len(before)) is not None
        return is_command or partial_mention(before) is not None

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
        IMPORTS.wait_for_screen()
        from mahtab_tui.kernel.base import KernelError

        complete = self._completers[python]
        assert complete is not None
        with contextlib.suppress(KernelError):
            return complete_slash(code, cursor) or complete(code, cursor)
        return None

    def _handle_response(self, state: EditorState, by_key: bool, found: Completions | None) -> None:
        """by_key: the user pressed a key for it."""
        if state != self._state or not self._area.has_focus:
            return
        if found is not None and found.items:
            self._show(found, state, by_key)
        else:
            self.close()
        if found is not None and found.pending:
            self._ask(by_key=by_key, pause=_PENDING_RETRY)

    def _show(self, completions: Completions, state: EditorState, by_key: bool) -> None:
        code = state.code
        start = completions.start
        typed = code[start : state.cursor]
        self._prefix = code[:start]

        # Items that match in the middle of their name are offered only on request, or if no other
        # item matches.
        items: tuple[Completion, ...] = completions.items
        more = completions.more
        starting = _starting_with(items, typed)
        if starting and len(starting) < len(items) and (not by_key or len(starting) == 1):
            items = starting
            more = 0

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
            self._list.open(items, more, at, requested=by_key)


def _starting_with(items: Sequence[Completion], typed: str) -> tuple[Completion, ...]:
    """Return the items whose label begins with what is typed, in any case."""
    typed = typed.lower()
    return tuple(item for item in items if item.label.lower().startswith(typed))


Explain = Callable[[str, int], "Explanation | None"]
"""Explains the name at a cursor; raises `KernelError`."""

_WIDEST_CARD, _HIGHEST = 90, 16
"""Columns and lines, with the border."""


class HelpCard(Static):
    can_focus = False

    def __init__(self, explain: Explain | None) -> None:
        super().__init__(markup=False)
        self.display = False
        self._explain = explain
        self._fetcher = Fetcher(self)

    def ask(self, code: str, cursor: int, at: Offset) -> None:
        if (explain := self._explain) is None:
            return
        self._fetcher.ask(
            "help",
            lambda: explain(code, cursor),
            lambda about: self._show(_content(about), at),
            lambda error: self._show(Content(error), at),
        )

    def close(self) -> None:
        self._fetcher.forget("help")
        self.display = False

    def _show(self, content: Content, at: Offset) -> None:
        screen = self.screen.size
        width = min(screen.width, _WIDEST_CARD)
        lines = content.wrap(width - 4)
        height = min(len(lines) + 2, _HIGHEST, max(3, at.y))
        if len(lines) > height - 2:
            more = Content.styled("… name? in a cell shows all of it", "$muted")
            lines = [*lines[: height - 3], more]
        self.update(Content("\n").join(lines))
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(
            max(0, min(at.x - 2, screen.width - width)), max(0, at.y - height)
        )
        self.display = True


def _content(about: Explanation | None) -> Content:
    from textual.highlight import highlight  # loaded late, for a fast start

    if about is None:
        return Content("No help for the code at the cursor.")
    parts = [highlight(plain(about.signature), language="python")]
    if about.doc:
        parts.append(Content(plain(about.doc)))
    if about.where:
        parts.append(Content.styled(plain(about.where), "$muted"))
    return Content("\n\n").join(parts)
