"""What the installed Textual does without our workarounds.

When a test fails with a new version, Textual has it repaired: remove the workaround that the test
names, and the test (see `mahtab_tui.tui.textual_fixes`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from rich.style import Style
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult, ScreenError
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.events import Click, Event, Key, Paste, Resize
from textual.keys import _character_to_key
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.key_order import KeyOrder
from mahtab_tui.tui.key_parser import KeyParser
from mahtab_tui.tui.widgets.options import Options
from tests.tui.editor_app import ThemedApp, until


def read_by_textual(*reads: str) -> list[Message]:
    """Read input by Textual's own parser, with a silence after each piece."""
    parser = XTermParser()
    messages: list[Message] = []
    for data in reads:
        messages += parser.feed(data)
        if parser._timeout_time is not None:
            parser._timeout_time = 0.0
        messages += parser.tick()
    return messages


def typed_text(messages: list[Message]) -> str:
    return "".join(
        key.character or "" for key in messages if isinstance(key, Key) and key.is_printable
    )


@pytest.mark.parametrize(
    ("reads", "typed"),
    [
        (("\x1b[5;5q",), "[5;5q"),
        (("\x1b[<NaN;NaN;1M",), "[<NaN;NaN;1M"),
        (("\x1b]11;rgb:1e1e\x1b\\",), "^]11;rgb:1e1e\\"),
        (("\x1b", "[A"), "[A"),
    ],
    ids=["unknown key", "mouse", "reply", "late"],
)
def test_key_parser_is_needed_for_unknown_sequences(reads: tuple[str, ...], typed: str) -> None:
    assert typed_text(read_by_textual(*reads)) == typed


def test_key_parser_is_needed_for_impossible_numbers() -> None:
    with pytest.raises(ValueError, match="chr"):
        read_by_textual("\x1b[1114112u")


def test_key_parser_is_needed_for_impossible_sizes() -> None:
    (resize,) = read_by_textual("\x1b[48;0;0;0;0t")
    assert isinstance(resize, Resize)
    assert resize.size.width == 0


def test_key_parser_is_needed_for_pastes_with_escape_sequences() -> None:
    messages = read_by_textual("\x1b[200~\x1b[31mred\x1b[201~")
    pasted = [message.text for message in messages if isinstance(message, Paste)]
    assert pasted != ["\x1b[31mred"]


@pytest.mark.parametrize(
    ("sequence", "key"),
    [
        ("\x1b.", "full_stop"),
        ("\x1b\x7f", "ctrl+w"),
        ("\x1b\r", "enter"),
        ("\x1bq\x1b.", "circumflex_accent"),
    ],
)
def test_key_parser_is_needed_for_alt_with_characters(sequence: str, key: str) -> None:
    textual_keys = [
        message.key for message in read_by_textual(sequence) if isinstance(message, Key)
    ]
    keys = [message.key for message in KeyParser().feed(sequence) if isinstance(message, Key)]
    assert textual_keys[0] == key
    assert keys[0] != key


def press_in_a_burst(app: App[Any], *keys: str) -> None:
    for key in keys:
        if len(key) == 1:
            app.post_message(Key(_character_to_key(key), key))
        else:
            app.post_message(Key(key, None))


class PriorityKeyApp(App[None]):
    """Notes what is typed before F6."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f6", "note_value", priority=True)]

    def __init__(self, *, is_ordered: bool) -> None:
        super().__init__()
        self.keys = KeyOrder(self, super().on_event, lambda event: False, lambda: None)
        self.is_ordered = is_ordered
        self.values: list[str] = []

    def compose(self) -> ComposeResult:
        yield Input()

    async def on_event(self, event: Event) -> None:
        if self.is_ordered and isinstance(event, Key) and not event.is_forwarded:
            await self.keys.enqueue(event)
        else:
            await super().on_event(event)

    def action_note_value(self) -> None:
        self.values.append(self.query_one(Input).value)


@pytest.mark.parametrize(("is_ordered", "value"), [(False, ""), (True, "ab")])
async def test_key_order_is_needed_for_keys_with_priority(is_ordered: bool, value: str) -> None:
    app = PriorityKeyApp(is_ordered=is_ordered)
    async with app.run_test() as pilot:
        press_in_a_burst(app, "a", "b", "f6")
        await until(pilot, lambda: app.values != [])
        assert app.values == [value]


@pytest.mark.parametrize(("input_class", "value"), [(Input, "ba"), (LineInput, "bc")])
async def test_run_own_binding_is_needed_for_backspace(
    input_class: type[Input], value: str
) -> None:
    class InputApp(App[None]):
        def compose(self) -> ComposeResult:
            yield input_class()

    app = InputApp()
    async with app.run_test() as pilot:
        press_in_a_burst(app, "b", "a", "backspace", "c")
        await until(pilot, lambda: app.query_one(Input).value == value)


class WithChild(Widget):
    def compose(self) -> ComposeResult:
        yield Static("before", id="child")

    def on_mount(self) -> None:
        self.query_one("#child", Static).update("after")


async def test_ignores_removed_is_needed_for_a_widget_that_is_removed_early() -> None:
    async def mount_and_remove() -> None:
        app = App[None]()
        async with app.run_test() as pilot:
            widget = WithChild()
            app.screen.mount(widget)
            await widget.remove()
            await pilot.pause()

    with pytest.raises(NoMatches):
        await mount_and_remove()


@pytest.mark.parametrize("list_class", [OptionList, Options])
async def test_options_are_needed_for_a_click_on_a_removed_option(
    list_class: type[OptionList],
) -> None:
    class ListApp(ThemedApp):
        def compose(self) -> ComposeResult:
            yield list_class("first", "second")

    async def click_on_removed() -> None:
        app = ListApp()
        async with app.run_test() as pilot:
            options = app.query_one(list_class)
            options.remove_option_at_index(1)
            style = Style(meta={"option": 1})
            options.post_message(Click(options, 0, 1, 0, 0, 1, False, False, False, style=style))
            await pilot.pause()

    if list_class is Options:
        await click_on_removed()
    else:
        with pytest.raises(IndexError):
            await click_on_removed()


@pytest.mark.parametrize("list_class", [OptionList, Options])
@pytest.mark.parametrize("key", ["pageup", "pagedown"])
async def test_options_are_needed_for_a_page_key_in_a_list_without_space(
    list_class: type[OptionList], key: str
) -> None:
    class ListApp(ThemedApp):
        def compose(self) -> ComposeResult:
            yield list_class("first", "second")

    async def turn_page() -> int | None:
        app = ListApp()
        async with app.run_test() as pilot:
            options = app.query_one(list_class)
            options.highlighted = 1
            options.styles.height = 0
            await pilot.pause()
            await pilot.press(key)
            return options.highlighted

    if list_class is Options:
        assert await turn_page() == 1
    else:
        with pytest.raises(KeyError):
            await turn_page()


async def test_dialog_is_needed_for_a_screen_that_is_dismissed_twice() -> None:
    app = App[None]()
    async with app.run_test():
        screen = ModalScreen[str]()
        await app.push_screen(screen)
        screen.dismiss("one")
        with pytest.raises(ScreenError):
            screen.dismiss("two")
