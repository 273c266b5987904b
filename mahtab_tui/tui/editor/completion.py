"""Completion while the user types and on Tab."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.events import Click, Key, MouseScrollDown, MouseScrollUp
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.system.imports import IMPORTS
from mahtab_tui.tui.commands import SlashCompletions
from mahtab_tui.tui.editor.code_area import CodeArea, location
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completion, Completions

ROWS = 8
"""Maximum number of visible completions."""
_LABEL, _KIND = 36, 8
"""Maximum column widths."""
_WIDEST = 90


class CompletionList(Widget):
    """A list of completions with a selected row. It never gets the focus: the editor handles its
    keys."""

    can_focus = False
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """Posted when a row is clicked."""

        item: Completion

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.items: tuple[Completion, ...] = ()
        self.requested = False
        """Whether the user opened the list or moved in it, so that Enter accepts the selected
        row."""
        self._label_width = self._chosen = self._top = self._more = 0
        self._stale = False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion:
        return self.items[self._chosen]

    def open(
        self, items: tuple[Completion, ...], more: int, at: Offset, *, requested: bool, stale: bool
    ) -> None:
        """Show a list below the screen's cell `at`, or above it if there is no room. A row that the
        user selected stays selected."""
        before = self.chosen.label if self.is_open and self._chosen else None
        self.items, self._more, self._stale, self.requested = items, more, stale, requested
        self._chosen = next((index for index, item in enumerate(items) if item.label == before), 0)
        self._top = 0
        self._follow()
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
        """Keep only these items, without moving or resizing the list."""
        chosen = self.chosen
        self.items, self._more = items, 0
        self._chosen = items.index(chosen) if chosen in items else 0
        self._follow()
        self.refresh()

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        """Select another row, wrapping around at the ends."""
        self._chosen = (
            (self._chosen + step) % len(self.items)
            if abs(step) == 1
            else max(0, min(len(self.items) - 1, self._chosen + step))
        )
        self.requested = True
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        self._top = max(
            0, min(max(self._top, self._chosen - ROWS + 1), self._chosen, len(self.items) - 1)
        )

    def render(self) -> Content:
        rows = [
            self._row(index) for index in range(self._top, min(len(self.items), self._top + ROWS))
        ]
        return Content("\n").join([*rows, self._foot()])

    def _row(self, index: int) -> Content:
        item = self.items[index]
        label = Content(one_line(item.label)).truncate(self._label_width, ellipsis=True, pad=True)
        line = Content.assemble(
            " ",
            label,
            "  ",
            (f"{item.kind:<{_KIND}}", "$person"),
            "  ",
            (one_line(item.doc), "$muted"),
            " ",
        )
        if self.size.width:
            line = line.truncate(max(1, self.size.width), ellipsis=True, pad=True)
        return line.stylize("bold on $person 30%") if index == self._chosen else line

    def _foot(self) -> Content:
        keys = "Tab or Enter accepts" if self.requested else "Tab accepts"
        more = (
            f" · {len(self.items) + self._more:,} in all"
            if self._more or len(self.items) > ROWS
            else ""
        )
        return Content.assemble(
            (f" {keys}{more}", "$muted"),
            (" · may be outdated: the kernel is busy" if self._stale else "", "$warning"),
        )

    def on_click(self, event: Click) -> None:
        event.stop()
        index = self._top + event.y
        if event.y < ROWS and index < len(self.items):
            self.post_message(self.Picked(self.items[index]))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.move(-1)


Complete = Callable[[str, int], "Completions"]
"""Completes code at a cursor; raises `KernelError`."""

_TRIGGER = re.compile(
    r"""[^\W\d]\w$|\.\w*$|\[["']?$|/$|^\s*%%?\w*$|\b(?:import|from)\s+[\w.]*$|^(?:[^"'#]|"[^"]*"|'[^']*')*["'][^"']*$"""
)
"""Text before the cursor that triggers completion while typing; the last alternative is an unclosed
string."""

_STEPS = {"down": 1, "up": -1, "pagedown": ROWS, "pageup": -ROWS}

_PENDING_RETRY = 0.3
"""Seconds until another request, if an MCP server is still starting and will add completions."""
CACHED = 5_000
"""Maximum number of remembered names."""
_NAME = re.compile(r"(?:^|[^\w.])(\w*)$")


class CompletionRequest(NamedTuple):
    code: str
    cursor: int
    """Offset in characters."""
    by_key: bool
    """Whether the user pressed a key for it, rather than just typing."""
    python: bool
    """True for Python, False for a question to the model."""


class Completer:
    """Completes the text of an area, with a list shown over it."""

    def __init__(
        self,
        area: CodeArea,
        shown: CompletionList,
        complete: Complete | None,
        complete_question: Complete | None,
        slash: SlashCompletions,
    ) -> None:
        """complete, complete_question: complete Python and questions; called on a thread. None
        disables completion."""
        self._area = area
        self._list = shown
        self._complete = complete
        self._complete_question = complete_question
        self._slash = slash
        self._cache = CompletionCache()
        self._fetcher = Fetcher(area, at_once=1)
        self._prefix = ""
        """The text before the completed part."""

    # Keys

    def handle_key(self, event: Key) -> bool:
        """Handle a key for the list; returns False if the key does not concern it."""
        shown = self._list
        if not shown.is_open:
            return False
        if event.key in _STEPS:
            shown.move(_STEPS[event.key])
        elif event.key == "escape":
            self.close()
        elif event.key == "enter" and shown.requested:
            self.accept(shown.chosen)
        else:
            if event.key == "enter":
                self.close()
            return False
        return True

    def handle_tab(self) -> bool:
        """Insert the selected completion, or request completions; returns False if Tab should act
        on the text."""
        area, before = self._area, self._text_before_cursor
        if self._list.is_open:
            self.accept(self._list.chosen)
        elif (
            self._completer_for(area.python) is not None
            and area.selection.is_empty
            and (before.strip() if area.python else self._starts_mention_or_command(before))
        ):
            self._ask(by_key=True)
        else:
            return False
        return True

    def update_after_edit(self, *, by_character: bool) -> None:
        """Update completions after an edit. by_character: the user typed a character other than a
        line break."""
        area, before = self._area, self._text_before_cursor
        self._fetcher.forget("completion")
        if self._completer_for(area.python) is None or not (by_character or self._list.is_open):
            worth_it = False
        elif not area.python:
            worth_it = self._starts_mention_or_command(before)
        else:
            worth_it = bool(
                _TRIGGER.search(before) or (self._list.is_open and re.search(r"\w$", before))
            )
        if worth_it:
            self._narrow()
            self._ask(by_key=self._list.is_open and self._list.requested)
        else:
            self.close()

    def close(self) -> None:
        """Close the list, and drop pending results."""
        self._fetcher.forget("completion")
        self._list.close()

    def accept(self, item: Completion) -> None:
        """Insert a completion, unless the list no longer contains it."""
        if not self._list.is_open or item not in self._list.items:
            return
        self._insert(item)

    def _insert(self, item: Completion) -> None:
        self.close()
        start = location(self._area.text, len(self._prefix))
        with self._area.as_typed():
            self._area.replace(
                item.text, start, self._area.cursor_location, maintain_selection_offset=False
            )
        if item.kind == "folder":
            self._ask(by_key=True)

    def _narrow(self) -> None:
        """Filter the open list by the current text until the result for it arrives."""
        if not self._list.is_open:
            return
        before = self._area.text[: self._area.cursor_index]
        stem = before[len(self._prefix) :].lower() if before.startswith(self._prefix) else None
        fitting = [
            item
            for item in self._list.items
            if stem is not None and item.label.lower().startswith(stem)
        ]
        if fitting:
            self._list.narrow(tuple(fitting))
        else:
            self._list.close()

    @property
    def _text_before_cursor(self) -> str:
        """The text of the line before the cursor."""
        row, column = self._area.cursor_location
        return self._area.document.get_line(row)[:column]

    def _starts_mention_or_command(self, before: str) -> bool:
        """Return whether the line's text before the cursor ends with a mention or starts a
        command."""
        from mahtab_tui.session.attached import partial_mention

        return partial_mention(before) is not None or (
            self._area.cursor_location[0] == 0
            and self._slash.complete(before, len(before)) is not None
        )

    # Requests and results

    def _completer_for(self, python: bool) -> Complete | None:
        return self._complete if python else self._complete_question

    def _ask(self, *, by_key: bool, pause: float = 0.0) -> None:
        area = self._area
        request = CompletionRequest(area.text, area.cursor_index, by_key, area.python)
        self._fetcher.ask(
            "completion",
            partial(self._ask_kernel, request),
            partial(self.handle_response, request),
            pause=pause,
        )

    def _ask_kernel(self, request: CompletionRequest) -> Completions | None:
        """Run a request, on a thread; returns None if the kernel does not answer."""
        IMPORTS.wait_for_screen()
        from mahtab_tui.kernel.base import KernelError

        complete = self._completer_for(request.python)
        assert complete is not None
        with contextlib.suppress(KernelError):
            return self._slash.complete(request.code, request.cursor) or complete(
                request.code, request.cursor
            )
        return None

    def handle_response(self, request: CompletionRequest, found: Completions | None) -> None:
        """Show the result of the newest request, if it is still wanted. found: None if the kernel
        did not answer."""
        area = self._area
        wanted = (area.text, area.cursor_index, area.python)
        if (request.code, request.cursor, request.python) != wanted or not area.has_focus:
            return
        if found is not None:
            if request.python:
                self._cache.store(request.code, request.cursor, found)
            self._show(found, request, stale=False)
            if found.pending:
                self._ask(by_key=request.by_key, pause=_PENDING_RETRY)
        elif request.python:
            self._show(self._cache.for_text(request.code, request.cursor), request, stale=True)
        else:
            self.close()

    def _show(self, found: Completions, request: CompletionRequest, stale: bool) -> None:
        typed = request.code[found.start : request.cursor]
        opened = self._list.is_open and self._list.requested
        files = request.python and bool(found.items) and found.items[0].kind in ("file", "folder")
        self._prefix = request.code[: found.start]
        # Completion is pointless here: the string may not be a file name, or its only item is
        # already typed.
        needless = (files and request.code[found.start - 1] != "/") or (
            len(found.items) == 1 and found.items[0].text == typed
        )
        if not found.items or (needless and not request.by_key):
            self.close()
        elif request.by_key and not opened and len(found.items) == 1:
            self._insert(found.items[0])
        else:
            at = self._area.cursor_screen_offset - Offset(cell_len(typed), 0)
            self._list.open(found.items, found.more, at, requested=request.by_key, stale=stale)


class CompletionCache:
    """Completes text while the kernel cannot answer, from the last completions and all names seen
    in earlier ones."""

    def __init__(self) -> None:
        self._last: tuple[str, Completions] | None = None
        self._names: dict[str, Completion] = {}

    def store(self, code: str, cursor: int, found: Completions) -> None:
        self._last = code, found
        if _NAME.search(code[:cursor]):
            self._names.update(
                (item.label, item)
                for item in found.items
                if item.label == item.text and len(self._names) < CACHED
            )

    def for_text(self, code: str, cursor: int) -> Completions:
        """Return completions for a text: the last ones if they were for the same position,
        otherwise from the names."""
        from mahtab_tui.kernel.values import Completions

        name = _NAME.search(code[:cursor])
        start, items = (
            cursor - len(name[1]) if name else cursor,
            tuple(self._names.values()) if name and name[1] else (),
        )
        if self._last is not None:
            cached_code, found = self._last
            if (
                found.start <= cursor
                and code[: found.start] == cached_code[: found.start]
                and re.fullmatch(r"\w*", code[found.start : cursor])
            ):
                start, items = found.start, found.items
        stem = code[start:cursor]
        matching = [item for item in items if item.label.lower().startswith(stem.lower())]
        fitting = sorted(
            matching,
            key=lambda item: (item.label.startswith("_"), not item.label.startswith(stem)),
        )
        return Completions(start, tuple(fitting), 0)
