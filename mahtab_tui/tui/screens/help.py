"""Help: every key, and the pages of the manual."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

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
from mahtab_tui.tui.commands.declarations import PANE_COMMANDS, PANE_KEYS, PaneCommand
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.markdown_parser import parse
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.widgets.options import Options

KEYS = "keys"
"""The topic that lists all keys."""

KEYS_WIDTH = 18
MIN_TEXT_WIDTH = 20
"""The minimum width of the texts in columns, as `KEYS_WIDTH` is in columns."""


class HelpRow(NamedTuple):
    """A line of the list of keys."""

    group: str
    keys: str
    text: str


def help_rows(
    commands: Sequence[PaneCommand], keymap: Mapping[str, str], *, first_group: str = "Editor"
) -> list[HelpRow]:
    """List all keys.

    Args:
        commands: The commands of the application.
        keymap: The user's own keys, by the id of their command.
        first_group: The group to list first.
    """
    rows = [HelpRow(row.group, row.keys, row.help) for row in PANE_KEYS if row.group == "Editor"]
    for command in commands:
        names = [_key_names(keymap.get(command.id, command.keys))]
        if command.slash:
            names.append(f"/{command.slash} {command.argument}".rstrip())
        keys = "  ".join(name for name in names if name) or "palette"
        rows.append(HelpRow(command.group, keys, f"{command.title}: {command.help}"))
    for pane_command in PANE_COMMANDS:
        keys = keymap.get(pane_command.id, pane_command.keys)
        if pane_command.menu:
            # Enter opens the menu.
            keys = f"enter,{keys}"
        text = f"{pane_command.title}: {pane_command.help}"
        rows.append(HelpRow(pane_command.group, _key_names(keys), text))
    for row in PANE_KEYS:
        if row.group != "Editor":
            rows.append(HelpRow(row.group, row.keys, row.help))
    groups = [first_group, *dict.fromkeys(row.group for row in rows)]
    return sorted(rows, key=lambda row: groups.index(row.group))


def _key_names(keys: str) -> str:
    """Return keys as users read them.

    Args:
        keys: By Textual's names, separated by commas.
    """
    names = []
    for key in map(str.strip, keys.split(",")):
        character = key_to_character(REPLACED_KEYS.get(key, key)) or ""
        is_visible = len(character) == 1 and character.isprintable() and not character.isspace()
        names.append(character if is_visible else key)
    return ", ".join(names)


class HelpScreen(Dialog[None]):
    """Topics on the left, the text of one on the right, and a search over all."""

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
        """List the topics in which the typed text is found, and show one of them."""
        query = self._query
        has_key = any(query.lower() in " ".join(row).lower() for row in self._rows)

        def matches(topic: str) -> bool:
            if not query:
                return True
            if topic == KEYS:
                return has_key
            return bool(filter_page(page(topic).text, query))

        topics = [topic for topic in TOPICS if matches(topic)]
        if topics and self._topic not in topics:
            self._topic = topics[0]
        options = self.query_one(OptionList)
        options.set_options([Option(topic, id=topic) for topic in topics])
        options.highlighted = topics.index(self._topic) if topics else None
        self._show_from_top()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one(Input).value = ""

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is not None and event.option_id != self._topic:
            self._topic = event.option_id
            self._show_from_top()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @property
    def _query(self) -> str:
        return self.query_one(Input).value.strip()

    def _show_from_top(self) -> None:
        self._show()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _show(self) -> None:
        """Show what the search finds in the topic, as wide as the screen is now."""
        text = self.query_one("#help-rows", Static)
        width = max(MIN_TEXT_WIDTH, text.size.width)
        if not self.query_one(OptionList).option_count:
            text.update("Nothing matches.")
        elif self._topic == KEYS:
            text.update(self._keys(self._query, width))
        else:
            text.update(self._page(self._query, width))

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            options.highlighted = (options.highlighted + step) % options.option_count

    def action_scroll(self, pages: int) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(1, view.size.height - 1), animate=False)

    def _page(self, query: str, width: int) -> Text:
        """Render a page of the manual, or what the search finds in it."""
        source = page(self._topic).text
        if query:
            source = filter_page(source, query)
        palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        # The dialog's background is a panel colour.
        markdown = MarkdownRenderer(replace(palette, panel=palette.surface))
        text = Text()
        for block in parse(source):
            for row in markdown.rows(block, width):
                text.append_text(Text.assemble(*row.spans, "\n"))
            text.append("\n")
        return text

    def _keys(self, query: str, width: int) -> Content:
        """List the keys under their groups: all, or those whose line contains the query."""
        indent = " " * (KEYS_WIDTH + 3)
        parts: list[Content | tuple[str, str]] = []
        group = ""
        for row in self._rows:
            if query.lower() not in " ".join(row).lower():
                continue
            if row.group != group:
                group = row.group
                separator = "\n" if parts else ""
                parts.append((f"{separator}{group}\n", "bold $primary"))
            # Keys that are wider than their column make the first line of the text shorter.
            excess = " " * (len(row.keys) - KEYS_WIDTH)
            text_width = max(MIN_TEXT_WIDTH, width - len(indent))
            if len(excess) + MIN_TEXT_WIDTH <= text_width:
                lines = textwrap.wrap(row.text, text_width, initial_indent=excess)
            else:
                lines = [excess, *textwrap.wrap(row.text, text_width)]
            text = f"\n{indent}".join(lines).removeprefix(excess)
            parts.append((f"  {row.keys:<{KEYS_WIDTH}} ", "$accent"))
            parts.append(Content(f"{text}\n"))
        return Content.assemble(*parts)
