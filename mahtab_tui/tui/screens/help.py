"""All commands and keys."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.keys import REPLACED_KEYS, key_to_character
from textual.widgets import Input, Static

from mahtab_tui.tui.commands import ALL, PANE_KEYS
from mahtab_tui.tui.screens.dialog import Dialog

_KEYS = 22
"""Columns for the keys."""


def help_rows(keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Group, keys and help of everything, with the person's own keys; group by group, that of the editor first."""
    rows = [(row.group, row.keys, row.help) for row in PANE_KEYS if row.group == "Editor"]
    for command in ALL:
        keys = keymap.get(command.id, command.keys)
        names = [", ".join(_shown(key) for key in (f"enter,{keys}" if command.menu else keys).split(","))]
        if command.slash:
            names.append(f"/{command.slash} {command.argument}".rstrip())
        rows.append((command.group, "  ".join(filter(None, names)) or "palette", f"{command.title}: {command.help}"))
    rows += [(row.group, row.keys, row.help) for row in PANE_KEYS if row.group != "Editor"]
    groups = list(dict.fromkeys(group for group, _, _ in rows))
    return sorted(rows, key=lambda row: groups.index(row[0]))


def _shown(key: str) -> str:
    """A key as it stands on the keyboard: ``/`` for Textual's slash."""
    character = key_to_character(REPLACED_KEYS.get(key.strip(), key.strip())) or ""
    return character if len(character) == 1 and character.isprintable() and not character.isspace() else key.strip()


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
        self._rows = help_rows(keymap)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("Help · typing filters · Esc closes", classes="quiet", markup=False)
            yield Input(placeholder="filter", compact=True)
            with VerticalScroll(can_focus=False):
                yield Static(id="help-rows", markup=False)

    @on(Input.Changed)
    def _changed(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        rows = self.query_one("#help-rows", Static)
        rows.update(self._content(self.query_one(Input).value, rows.size.width))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _content(self, wanted: str, width: int) -> Content:
        """The rows that have a text in them; help that has no room in its line goes on below itself."""
        indent = " " * (_KEYS + 3)
        parts: list[Content | tuple[str, str]] = []
        group = ""
        for row_group, keys, text in self._rows:
            if wanted.lower() not in f"{row_group} {keys} {text}".lower():
                continue
            if row_group != group:
                group = row_group
                parts.append((f"{chr(10) if parts else ''}{group}\n", "bold $primary"))
            wider = " " * (len(keys) - _KEYS)
            lines = textwrap.wrap(text, max(10, width - len(indent)), initial_indent=wider)
            parts += [(f"  {keys:<{_KEYS}} ", "$accent"), Content(f"\n{indent}".join(lines).removeprefix(wider) + "\n")]
        return Content.assemble(*parts) if parts else Content("Nothing matches.")
