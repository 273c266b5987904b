"""The header: session, model, costs and the kernel's state, in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Kernel, Record, Skill, Usage, Window
    from mahtab_tui.tui.transcript.fold import Activities, PendingRequests

NARROW = 100
"""Columns below which the header leaves out some parts."""

FULL = 0.8
"""Share of the model's window from which the header warns."""

_STATES = {
    "starting": ("◌", "$moon"),
    "idle": ("●", "$good"),
    "busy": ("●", "$moon"),
    "dead": ("✗", "$bad"),
    "taken over": ("○", "$warning"),
}
_APPROVAL = {
    "ask": "ask first",
    "review": "review changes",
    "auto": "auto-run",
    "plan": "plans only",
}


def short_count(number: int) -> str:
    """``980``, ``12.4k``, ``3.1M``."""
    if number >= 1_000_000:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.1f}k" if number >= 1_000 else str(number)


def environment_name(executable: str) -> str:
    """Return the name of an interpreter's virtual environment; empty if it is not in one."""
    folder = PurePath(executable).parent
    return (
        folder.parent.name
        if folder.name == "bin"
        and (folder.parent.name.startswith(".") or "venv" in folder.parent.name)
        else ""
    )


def _shorten(names: Sequence[Content], by: int) -> list[Content]:
    """Shorten names by that many columns, longest first, so that approval and costs stay
    visible."""
    lengths = [name.cell_length for name in names]
    room = max(0, sum(lengths) - by)
    most = max(room // len(names), room - sum(lengths) + max(lengths))
    return [name.truncate(most, ellipsis=True) for name in names]


class HeaderBar(Widget):
    """Folds the records of the session, the kernel, usage and skills."""

    session_name: reactive[str] = reactive("")
    model: reactive[str] = reactive("")
    approval: reactive[str] = reactive("ask")
    tokens: reactive[int] = reactive(0)
    cost: reactive[float | None] = reactive(None)
    unpriced: reactive[bool] = reactive(False)
    window: reactive[Window | None] = reactive(None)
    """How much of the model's window the conversation uses; None if unknown."""
    waits: reactive[bool] = reactive(False)
    """Whether something waits for the user."""
    kernel: reactive[Kernel | None] = reactive(None, always_update=True)
    """The kernel's last record; None before the first one, while it starts."""

    def __init__(
        self, describe_saved: Callable[[], str], langsmith: str = "", *, id: str | None = None
    ) -> None:
        """describe_saved: describes the memory and disk space that the session uses; waits for the
        kernel, and raises `KernelError`.

        langsmith: the variable that sends everything to LangSmith; empty for none.
        """
        super().__init__(id=id)
        self._describe_saved = describe_saved
        self._langsmith = langsmith
        self._saved = ""
        """The description when the mouse last entered the header."""
        self._skills: dict[str, int] = {}
        """Characters of each loaded skill."""
        self._skills_budget = 0
        """Maximum characters of all loaded skills together."""
        self._busy_since = 0.0
        self._since = time.time()
        self._following: tuple[Activities, PendingRequests] | None = None
        """Trackers that follow the records; created with the first record."""
        self._ticking: Timer | None = None
        self._fetcher = Fetcher(self)
        self._show_tooltip()

    def fold(self, records: Sequence[Record]) -> None:
        from mahtab_tui.bus.records import Kernel, Session, Skill, Usage, Window

        before = self._activity()
        if self._following is None:
            from mahtab_tui.tui.transcript.fold import Activities, PendingRequests

            self._following = Activities(self._since), PendingRequests()
        activities, waiting = self._following
        for record in records:
            activities.fold(record)
            waiting.fold(record)
            if isinstance(record, Session):
                if one_line(record.model) != self.model:  # another model has another window
                    self.window = None
                self.session_name, self.model, self.approval = map(
                    one_line, (record.name, record.model, record.approval)
                )
            elif isinstance(record, Usage):
                self._add_usage(record)
            elif isinstance(record, Window):
                self.window = record if record.size > 0 else None
            elif isinstance(record, Skill):
                self._skill_changed(record)
        if any(isinstance(record, Session | Usage | Skill | Window) for record in records):
            self._show_tooltip()
        self._kernel_changed([record for record in records if isinstance(record, Kernel)])
        self.waits = waiting.since is not None
        if self._activity() != before:
            self.refresh()
        self._tick_if_needed()

    def _skill_changed(self, skill: Skill) -> None:
        name = one_line(skill.name)
        self._skills.pop(name, None)
        if skill.loaded:
            self._skills[name] = skill.chars
        self._skills_budget = skill.budget

    def on_enter(self) -> None:
        """Request the description only when the mouse is here, because nobody reads it before."""
        self._fetcher.ask("in use", self._describe_saved, self._show_saved, self._show_saved)

    def _show_saved(self, saved: str) -> None:
        self._saved = saved
        self._show_tooltip()

    def _show_tooltip(self) -> None:
        """Show the model's window, tokens, costs, space used, and loaded skills."""
        lines = (
            [f"LangSmith gets every prompt and answer, because {self._langsmith}=true."]
            if self._langsmith
            else []
        )
        if (window := self.window) is not None:
            by = "estimated" if window.estimated else "as the model counted"
            lines.append(
                f"{window.tokens:,} of the {window.size:,} tokens of the model's window ({by}); /context shows what they are"
            )
        if self.tokens or self.cost is not None:
            unknown = ", and calls of unknown price" if self.unpriced else ""
            lines.append(f"{self.tokens:,} tokens, ${self.cost or 0.0:.4f}{unknown}")
        lines += map(one_line, self._saved.splitlines())
        if self._skills:
            used = f"{sum(self._skills.values()):,} of {self._skills_budget:,} characters"
            lines += [
                "Loaded skills:",
                *(f"  {name}  {chars:,}" for name, chars in self._skills.items()),
                used,
            ]
        self.tooltip = Content("\n".join(lines)) if lines else None

    def _add_usage(self, used: Usage) -> None:
        self.tokens += used.input_tokens + used.output_tokens
        if used.cost is None:
            self.unpriced = True
        else:
            self.cost = (self.cost or 0.0) + used.cost

    def _kernel_changed(self, records: Sequence[Kernel]) -> None:
        if not records:
            return
        state: str | None = self._state
        for record in records:
            if record.state == "busy" and state != "busy":
                self._busy_since = record.since or record.time
            state = record.state
        self.kernel = records[-1]

    def _tick_if_needed(self) -> None:
        goes_on = self._activity()[1] is not None or (
            self.kernel is not None and self.kernel.next_try is not None
        )
        if goes_on and self._ticking is None:
            self._ticking = self.set_interval(0.1, self.refresh)
        elif not goes_on and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    @property
    def _state(self) -> str:
        return "starting" if self.kernel is None else self.kernel.state or "starting"

    def _activity(self) -> tuple[str, float | None]:
        """Return what is most urgent for the user, and since when (seconds since the epoch; None if
        no time is shown)."""
        if self._following is None:
            return "starting", None
        activities, waiting = self._following
        state, activity = self._state, activities.current
        if state in ("dead", "taken over"):
            return state, None
        if (since := waiting.since) is not None:
            return "waiting for you", since
        if state == "busy":
            return state, self._busy_since
        if activity is not None:
            return activity.brief, activity.since
        return ("thinking" if activities.turn_running else state), None

    def render(self) -> Content:
        narrow = self.size.width < NARROW
        names = [] if narrow else [Content(self.session_name)]
        names.append(Content(self.model).stylize("$model"))
        right = self._kernel(narrow)
        left = self._left(narrow, names)
        over = left.cell_length + right.cell_length + 1 - self.size.width
        if over > 0:
            left = self._left(narrow, _shorten(names, over))
            left = left.truncate(max(0, self.size.width - right.cell_length - 1), ellipsis=True)
        room = self.size.width - left.cell_length - right.cell_length
        return Content.assemble(left, " " * max(1, room), right)

    def _left(self, narrow: bool, names: Sequence[Content]) -> Content:
        approval_style = "$good" if self.approval == "ask" else "$moon"
        parts: list[Content | str | tuple[str, str]] = [("◐ mahtab", "bold $moon")]
        for name in names:
            parts += ["  ", name]
        parts += ["  ", (_APPROVAL.get(self.approval, self.approval), approval_style)]
        if self._langsmith:
            parts += ["  ", ("to LangSmith", "$moon")]
        if (window := self.window) is not None:
            part = window.tokens / window.size
            parts += [
                "  ",
                (
                    f"{part:.0%}" if narrow else f"window {part:.0%}",
                    "$bad" if part >= FULL else "$muted",
                ),
            ]
        spent = self._spent(narrow)
        if spent:
            parts += ["  ", (spent, "$muted")]
        return Content.assemble(*parts)

    def _spent(self, narrow: bool) -> str:
        words = [] if narrow or not self.tokens else [f"{short_count(self.tokens)} tok"]
        if self.cost is not None:
            words.append(f"${self.cost:.2f}{'+' if self.unpriced and self.cost else ''}")
        return "  ".join(words)

    def _kernel(self, narrow: bool) -> Content:
        state, text = self._state, self.kernel
        glyph, colour = _STATES.get(state, ("?", "$muted"))
        kernel = [f"{glyph} kernel"]
        if not narrow and text is not None and text.python:
            kernel.append(one_line(".".join(text.python.split(".")[:2])))
            if environment := environment_name(text.executable or ""):
                kernel.append(one_line(environment))
        if text is not None and text.host:
            kernel.append(one_line(f"on {text.host}"))
        if text is not None and text.next_try is not None:
            left = max(0, round(text.next_try - time.time()))
            again = f" ({left} s)" if left else ""
            return Content.assemble(
                (" ".join(kernel), "$bad"), "  ", (f"disconnected, trying again{again}", "$bad")
            )
        words, since = self._activity()
        if since is not None:
            elapsed = max(0.0, time.time() - since)
            words, colour = (
                f"{words} {elapsed:6.1f} s" if state == "busy" else f"{words} {int(elapsed):4} s",
                "$moon",
            )
        return Content.assemble((" ".join(kernel), colour), "  ", (words, colour))
