"""All commands and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.tui.commands import ALL, PANE_KEYS
from mahtab_tui.tui.screens.dialog import Dialog

_KEYS = 24
"""Columns for the keys."""


def help_rows(keymap: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Group, keys and help of everything, with the person's own keys."""
    for command in ALL:
        names = [keymap.get(command.id, command.keys).replace(",", ", ")]
        if command.slash:
            names.append(f"/{command.slash} {command.argument}".rstrip())
        yield command.group, "  ".join(filter(None, names)) or "palette", f"{command.title}: {command.help}"
    for row in PANE_KEYS:
        yield row.group, row.keys, row.help


class HelpScreen(Dialog[None]):
    """Typing filters; Escape closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,f1", "leave", "Close"),
        ("down", "scroll(1)", "Down"),
        ("up", "scroll(-1)", "Up"),
        ("pagedown", "scroll(10)", "Page down"),
        ("pageup", "scroll(-10)", "Page up"),
    ]

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._rows = list(help_rows(keymap))

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("Help · typing filters · Esc closes", classes="quiet", markup=False)
            yield Input(placeholder="filter", compact=True)
            with VerticalScroll(can_focus=False):
                yield Static(self._content(""), id="help-rows", markup=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self.query_one("#help-rows", Static).update(self._content(event.value))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _content(self, wanted: str) -> Content:
        parts: list[Content | tuple[str, str]] = []
        group = ""
        for row_group, keys, text in self._rows:
            if wanted.lower() not in f"{row_group} {keys} {text}".lower():
                continue
            if row_group != group:
                group = row_group
                parts.append((f"{chr(10) if parts else ''}{group}\n", "bold $primary"))
            parts += [(f"  {keys:<{_KEYS}} ", "$accent"), Content(f"{text}\n")]
        return Content.assemble(*parts) if parts else Content("Nothing matches.")
