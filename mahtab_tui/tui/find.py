"""Searches in a pane."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key, Paste
from textual.timer import Timer
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.textual_fixes import run_own_binding

MatchSpan = tuple[int, int]

AT_ONCE = 0.25
LARGEST = 500_000
"""Maximum length of an expression times its repetitions, which `regex` expands."""
LONGEST = 10_000
TOO_SLOW = "This pattern takes too long to search for: simplify it."

_REPEATED = re.compile(r"\{(\d+)")


class PatternError(ValueError):
    """The pattern cannot be used; the message says why."""


class PatternTimeout(PatternError):
    def __init__(self) -> None:
        super().__init__(TOO_SLOW)


class Pattern:
    """Words or a regular expression. Raises `PatternError`."""

    def __init__(self, words: str, *, regex: bool, any_case: bool) -> None:
        self._compiled: Any = (
            _compiled(words, any_case=any_case)
            if regex
            else re.compile(re.escape(words), re.IGNORECASE if any_case else 0)
        )
        self._limited = regex

    def spans(self, text: str, seconds: float = AT_ONCE, start: int = 0) -> Iterator[MatchSpan]:
        """Yield the matches that are not empty. Raises `PatternTimeout`."""
        # `concurrent` releases the GIL meanwhile.
        limits = {"timeout": max(seconds, 0.001), "concurrent": True} if self._limited else {}
        try:
            for match in self._compiled.finditer(text, start, **limits):
                if match.end() > match.start():
                    yield match.span()
        except TimeoutError:
            raise PatternTimeout from None

    def spans_of_all(
        self, texts: Iterable[str], seconds: float = AT_ONCE
    ) -> Iterator[list[MatchSpan]]:
        """Yield the matches in each text; `seconds` are those of all."""
        end = time.thread_time() + seconds
        for text in texts:
            yield list(self.spans(text, end - time.thread_time()))


def _compiled(words: str, *, any_case: bool) -> Any:
    import regex

    if (
        len(words) > LONGEST
        or len(words) * math.prod(int(count[:9]) or 1 for count in _REPEATED.findall(words))
        > LARGEST
    ):
        raise PatternError("This regular expression is too large.")
    try:
        return regex.compile(words, (regex.IGNORECASE if any_case else 0) | regex.MULTILINE)
    except regex.error as error:
        where = "" if error.pos is None else f" (at character {error.pos + 1})"
        raise PatternError(f"Invalid regular expression: {error.msg}{where}.") from None
    except (RecursionError, OverflowError, MemoryError):
        raise PatternError("This regular expression is too large.") from None


class LineInput(Input):
    """An `Input` that joins the lines of a paste, and handles keys in order."""

    async def on_key(self, event: Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        start, end = sorted(self.selection)
        self.replace(" ".join(plain(event.text.strip("\r\n")).splitlines()), start, end)


PAUSE = 0.15


class Findable(Protocol):
    def begin_find(self) -> str:
        """Start a search; returns the initial words."""

    def find(self, words: str, step: int, *, regex: bool) -> str:
        """Show the next match (1), the previous one (-1), or the first one again (0); returns its
        position, such as "2 of 7". Raises `PatternError`."""

    def end_find(self) -> None:
        """Focus the match."""


class FindRow(Horizontal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False),
        Binding("down", "step(1)", "Next", show=False),
        Binding("up", "step(-1)", "Previous", show=False),
        Binding("alt+r", "toggle_regex", "Regular expression", show=False, priority=True),
    ]

    def __init__(self, found: Findable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._found = found
        self._regex = False
        self._waiting: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static("Find", id="find-title", markup=False)
        yield LineInput(compact=True, id="find-line")
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        line = self.query_one(LineInput)
        line.value = self._found.begin_find() or line.value
        self.display = True
        line.focus()
        line.select_all()
        self.action_step(0)

    def action_close(self) -> None:
        if self._waiting is not None:
            self.action_step(0)
        self.display = False
        self._found.end_find()

    def action_toggle_regex(self) -> None:
        self._regex = not self._regex
        self.query_one("#find-title", Static).update("Regex" if self._regex else "Find")
        self.action_step(0)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._regex:
            self.action_step(0)
            return
        if self._waiting is not None:
            self._waiting.stop()
        self._waiting = self.set_timer(PAUSE, lambda: self.action_step(0))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_step(1)

    def action_step(self, step: int) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting, step = None, 0
        try:
            count = Content(
                self._found.find(self.query_one(LineInput).value, step, regex=self._regex)
            )
        except PatternError as error:
            count = Content.styled(str(error), "$bad")
        self.query_one("#find-count", Static).update(count)
