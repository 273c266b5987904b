"""Help: every key, and the pages of the manual."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Mount
from textual.keys import REPLACED_KEYS, key_to_character
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.manual import TOPICS, filter_page, page
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.panes import PANE_COMMANDS, PANE_KEYS
from mahtab_tui.tui.rows.markdown import Markdown, parse
from mahtab_tui.tui.screens.dialog import Dialog, dialog_box
from mahtab_tui.tui.textual_fixes import Options
from mahtab_tui.tui.theme import Palette

KEYS = "keys"
"""The topic that lists all keys."""

_KEYS = 18
_NARROWEST = 20


HelpRow = tuple[str, str, str]


def help_rows(keymap: Mapping[str, str], *, first: str = "Editor") -> list[HelpRow]:
    """List all keys, with the user's own. first: the group to list first."""
    rows = [(row.group, row.keys, row.help) for row in PANE_KEYS if row.group == "Editor"]
    for command in COMMANDS:
        slash = f"/{command.slash} {command.argument}".rstrip() if command.slash else ""
        names = "  ".join(filter(None, (_key_names(keymap.get(command.id, command.keys)), slash)))
        rows.append((command.group, names or "palette", f"{command.title}: {command.help}"))
    for each in PANE_COMMANDS:
        keys = _key_names(("enter," if each.menu else "") + keymap.get(each.id, each.keys))
        rows.append((each.group, keys, f"{each.title}: {each.help}"))
    rows += [(row.group, row.keys, row.help) for row in PANE_KEYS if row.group != "Editor"]
    groups = [first, *dict.fromkeys(group for group, _, _ in rows)]
    return sorted(rows, key=lambda row: groups.index(row[0]))


def _key_names(keys: str) -> str:
    names = []
    for key in map(str.strip, keys.split(",")):
        character = key_to_character(REPLACED_KEYS.get(key, key)) or ""
        visible = len(character) == 1 and character.isprintable() and not character.isspace()
        names.append(character if visible else key)
    return ", ".join(names)


class HelpScreen(Dialog[None]):
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (64, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,f1", "leave", "Close"),
        ("down", "move(1)", "Next topic"),
        ("up", "move(-1)", "Previous topic"),
        ("pagedown", "scroll(1)", "Page down"),
        ("pageup", "scroll(-1)", "Page up"),
    ]

    def __init__(self, rows: Sequence[HelpRow], topic: str = KEYS) -> None:
        super().__init__()
        self._rows = rows
        self._topic = topic

    def compose(self) -> ComposeResult:
        with dialog_box("Help", "large"):
            yield Input(placeholder="search", compact=True)
            with Horizontal():
                topics = Options(id="help-topics", compact=True, markup=False)
                topics.can_focus = False
                yield topics
                with VerticalScroll(can_focus=False):
                    yield Static(id="help-rows", markup=False)
            keys = "type to search · ↑ ↓ topic · PgUp PgDn scroll · Esc closes"
            yield Static(keys, classes="quiet", markup=False)

    @on(Mount)
    @on(Input.Changed)
    def _find(self) -> None:
        wanted = self._query
        has_key = any(wanted.lower() in " ".join(row).lower() for row in self._rows)

        def matches(topic: str) -> bool:
            return has_key if topic == KEYS else bool(filter_page(page(topic).text, wanted))

        found = [topic for topic in TOPICS if not wanted or matches(topic)]
        if found and self._topic not in found:
            self._topic = found[0]
        options = self.query_one(OptionList)
        options.set_options([Option(topic, id=topic) for topic in found])
        options.highlighted = found.index(self._topic) if found else None
        self._show()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one(Input).value = ""

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is not None and event.option_id != self._topic:
            self._topic = event.option_id
            self._show()
            self.query_one(VerticalScroll).scroll_home(animate=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @property
    def _query(self) -> str:
        return self.query_one(Input).value.strip()

    def _show(self) -> None:
        rows, wanted = self.query_one("#help-rows", Static), self._query
        width = max(_NARROWEST, rows.size.width)
        if not self.query_one(OptionList).option_count:
            rows.update("Nothing matches.")
        else:
            draw = self._keys if self._topic == KEYS else self._page
            rows.update(draw(wanted, width))

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            options.highlighted = (options.highlighted + step) % options.option_count

    def action_scroll(self, pages: int) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(1, view.size.height - 1), animate=False)

    def _page(self, wanted: str, width: int) -> Text:
        text = page(self._topic).text
        palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        # The dialog's background is a panel colour.
        markdown = Markdown(replace(palette, panel=palette.surface))
        shown = Text()
        for block in parse(filter_page(text, wanted) if wanted else text):
            for row in markdown.rows(block, width):
                shown.append_text(Text.assemble(*row.spans, "\n"))
            shown.append("\n")
        return shown

    def _keys(self, wanted: str, width: int) -> Content:
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
            words = f"\n{indent}".join(lines).removeprefix(wider)
            parts += [(f"  {keys:<{_KEYS}} ", "$accent"), Content(f"{words}\n")]
        return Content.assemble(*parts)
