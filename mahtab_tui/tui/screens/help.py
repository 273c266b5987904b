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
EDITOR_GROUP = "Editor"

# In terminal cells.
KEYS_WIDTH = 18
MIN_TEXT_WIDTH = 20


class HelpRow(NamedTuple):
    """A line of the list of keys."""

    group: str
    """What the keys are for, such as ``Editor``: the heading above the line."""
    keys: str
    text: str
    """What the keys do."""

    def contains(self, query: str) -> bool:
        """Return whether the line contains what the user searches for, in any case."""
        return query.lower() in " ".join(self).lower()


def help_rows(commands: Sequence[PaneCommand], keymap: Mapping[str, str]) -> list[HelpRow]:
    """List all keys, group by group, those of the editor first.

    Args:
        commands: The commands of the application.
        keymap: The user's own keys, by the id of their command.
    """
    fixed_rows = [HelpRow(row.group, row.keys, row.help) for row in PANE_KEYS]
    rows = [row for row in fixed_rows if row.group == EDITOR_GROUP]
    rows += [_command_row(command, keymap) for command in commands]
    rows += [_pane_command_row(command, keymap) for command in PANE_COMMANDS]
    rows += [row for row in fixed_rows if row.group != EDITOR_GROUP]
    # A group may have rows of several kinds. The sort brings them together, and keeps their order.
    groups = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: groups.index(row.group))


def _command_row(command: PaneCommand, keymap: Mapping[str, str]) -> HelpRow:
    """Return the line of a command of the application: its keys, and what can be typed for it."""
    names = [_key_names(keymap.get(command.id, command.keys))]
    if command.slash:
        names.append(f"/{command.slash} {command.argument}".rstrip())
    keys = "  ".join(name for name in names if name) or "palette"
    return HelpRow(command.group, keys, f"{command.title}: {command.help}")


def _pane_command_row(command: PaneCommand, keymap: Mapping[str, str]) -> HelpRow:
    """Return the line of a command of a pane or screen."""
    keys = keymap.get(command.id, command.keys)
    if command.menu:
        # Enter opens the menu in which the key works.
        keys = f"enter,{keys}"
    return HelpRow(command.group, _key_names(keys), f"{command.title}: {command.help}")


def _key_names(keys: str) -> str:
    """Return keys as users read them: ``?`` for ``question_mark``.

    Args:
        keys: By Textual's names, separated by commas.
    """
    return ", ".join(_key_name(key.strip()) for key in keys.split(","))


def _key_name(key: str) -> str:
    character = key_to_character(REPLACED_KEYS.get(key, key)) or ""
    is_visible = len(character) == 1 and character.isprintable() and not character.isspace()
    return character if is_visible else key


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
        """
        Args:
            rows: The list of keys.
            topic: `KEYS`, or the page of the manual that is shown first.
        """
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
    def _list_topics(self) -> None:
        """List the topics that contain the typed text, and show one of them."""
        topics = [topic for topic in TOPICS if self._contains_query(topic)]
        if topics and self._topic not in topics:
            self._topic = topics[0]
        options = self.query_one(OptionList)
        options.set_options([Option(topic, id=topic) for topic in topics])
        options.highlighted = topics.index(self._topic) if topics else None
        self._show_from_top()

    def _contains_query(self, topic: str) -> bool:
        """Return whether a topic contains the typed text."""
        query = self._query
        if not query:
            return True
        if topic == KEYS:
            return any(row.contains(query) for row in self._rows)
        return bool(filter_page(page(topic).text, query))

    @on(Input.Submitted)
    def _clear_query(self) -> None:
        self.query_one(Input).value = ""

    @on(OptionList.OptionHighlighted)
    def _show_topic(self, event: OptionList.OptionHighlighted) -> None:
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
            text.update(self.render_keys(self._query, width))
        else:
            text.update(self._render_page(self._query, width))

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            options.highlighted = (options.highlighted + step) % options.option_count

    def action_scroll(self, pages: int) -> None:
        view = self.query_one(VerticalScroll)
        view.scroll_relative(y=pages * max(1, view.size.height - 1), animate=False)

    def _render_page(self, query: str, width: int) -> Text:
        """Render a page of the manual, or what the search finds in it."""
        source = page(self._topic).text
        if query:
            source = filter_page(source, query)
        palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        # Code stands on the colour of panels elsewhere, which a dialog has itself.
        markdown = MarkdownRenderer(replace(palette, panel=palette.surface))
        text = Text()
        for block in parse(source):
            for row in markdown.rows(block, width):
                text.append_text(Text.assemble(*row.spans, "\n"))
            text.append("\n")
        return text

    def render_keys(self, query: str, width: int) -> Content:
        """List the keys under their groups: all, or those whose line contains the query.

        Args:
            query: What is typed.
            width: Of the list, in terminal cells.
        """
        parts: list[Content | tuple[str, str]] = []
        group = ""
        for row in self._rows:
            if not row.contains(query):
                continue
            if row.group != group:
                group = row.group
                separator = "\n" if parts else ""
                parts.append((f"{separator}{group}\n", "bold $primary"))
            parts.append((f"  {row.keys:<{KEYS_WIDTH}} ", "$accent"))
            parts.append(Content(f"{_wrap_help_text(row, width)}\n"))
        return Content.assemble(*parts)


def _wrap_help_text(row: HelpRow, width: int) -> str:
    """Return what keys do, in lines that all begin in the same column, right of the keys."""
    indent = " " * (KEYS_WIDTH + 3)
    text_width = max(MIN_TEXT_WIDTH, width - len(indent))
    # Keys that are wider than their column take the place of the beginning of the first line.
    excess = " " * (len(row.keys) - KEYS_WIDTH)
    if len(excess) + MIN_TEXT_WIDTH <= text_width:
        lines = textwrap.wrap(row.text, text_width, initial_indent=excess)
    else:
        lines = [excess, *textwrap.wrap(row.text, text_width)]
    return f"\n{indent}".join(lines).removeprefix(excess)
