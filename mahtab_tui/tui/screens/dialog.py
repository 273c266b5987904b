"""The base of all screens over the panes, and small dialogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

from textual import on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.geometry import Offset
from textual.message import Message
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Button, Input, Label, OptionList, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.commands.command import PaneCommand
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.textual_fixes import Options, ignores_removed

Answer = TypeVar("Answer")


@ignores_removed
class Dialog(ModalScreen[ScreenResultType]):
    """Answered only once: later keys of the same burst cannot close the screen below."""

    asks: ClassVar[bool] = True
    """Whether no command may open anything on top of it."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        done: AwaitComplete = AwaitComplete.nothing()  # type: ignore[no-untyped-call]
        return done

    def action_leave(self) -> None:
        self.dismiss(None)


def dialog_box(title: str, classes: str) -> Vertical:
    """Return the box of a dialog, with a title in its border."""
    box = Vertical(classes=f"dialog {classes}")
    box.border_title = Content(one_line(title))  # never markup
    return box


def ask(app: App[Any], dialog: Dialog[Answer | None], then: Callable[[Answer], object]) -> None:
    def answered(answer: Answer | None) -> None:
        if answer is not None:
            then(answer)

    app.push_screen(dialog, answered)


class TextDialog(Dialog[None]):
    asks = False
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "leave", "Close")]

    def __init__(self, heading: str, text: str = "", *, id: str) -> None:
        super().__init__()
        self._heading = heading
        self.text = Static(text, id=id, markup=False)
        self.keys = Static("Esc closes", classes="quiet", markup=False)

    def compose(self) -> ComposeResult:
        with dialog_box(self._heading, "large fitted"):
            with VerticalScroll():
                yield self.text
            yield self.keys


class Confirm(Dialog[bool | None]):
    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,n", "answer(False)", "No"),
        ("y", "answer(True)", "Yes"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(self, question: str, *, yes: str, no: str, details: Widget | None = None) -> None:
        super().__init__()
        self._question = plain(question)
        self._details = details
        self._yes = Button(f"{yes} (y)", id="yes", variant="warning", compact=True)
        self._no = Button(f"{no} (n)", id="no", compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, id="question", markup=False)
            if self._details is not None:
                yield self._details
            with Horizontal(classes="answers"):
                yield self._no
                yield self._yes

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.action_answer(event.button is self._yes)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


def confirm(app: App[Any], question: str, then: Callable[[], object], *, yes: str, no: str) -> None:
    ask(app, Confirm(question, yes=yes, no=no), lambda sure: then() if sure else None)


class Prompt(Dialog[str | None]):
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._question, self._value = one_line(title), one_line(value)

    def compose(self) -> ComposeResult:
        with dialog_box(self._question, "question"):
            yield LineInput(self._value, compact=True)
            yield Static("Enter accepts · Esc cancels", classes="quiet", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


_KEYS = 5
_TITLES = 19


class ActionMenu(Dialog[str | None]):
    """A letter acts at once, or only selects an action that needs Enter; other letters go to the
    editor."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    @dataclass
    class Typed(Message):
        """The user typed keys meant for the editor."""

        keys: Sequence[Key]

    def __init__(
        self, title: str, commands: Sequence[PaneCommand], keymap: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._title = title
        self.commands = commands
        self._keys = [keymap.get(command.id, command.keys).split(",") for command in commands]
        self._options = Options(compact=True, markup=False)
        for command, keys in zip(commands, self._keys, strict=True):
            key = f" {keys[0].replace('ctrl+', '^')}{' ↵' if command.confirm else ''}"
            title = f"{one_line(command.title):<{_TITLES}}"  # it may contain a figure of an answer
            parts = (f"{key:<{_KEYS}}", "$accent"), title, (command.help, "$muted")
            self._options.add_option(Content.assemble(*parts))
        self._options.highlighted = 0
        self._pending: list[Key] = []
        """The letter that selected an action; if another letter follows, both are typed text."""

    def compose(self) -> ComposeResult:
        keys = "Enter runs what is chosen · Esc closes · ↵ waits for Enter"
        with dialog_box(self._title, "menu"):
            yield self._options
            yield Static(keys, classes="quiet", markup=False)

    def on_key(self, event: Key) -> None:
        number = next((number for number, keys in enumerate(self._keys) if event.key in keys), None)
        if number is not None and not self._pending:
            event.stop()
            if self.commands[number].confirm:
                self._pending.append(Key(event.key, event.character))
                self._options.highlighted = number
            else:
                self.dismiss(self.commands[number].action)
        elif event.is_printable:
            event.stop()
            self.dismiss(None)
            self.app.post_message(self.Typed([*self._pending, Key(event.key, event.character)]))
        else:
            self._pending.clear()

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self.commands[event.option_index].action)


def open_menu(owner: Widget, title: str, commands: Sequence[PaneCommand]) -> None:
    menu = ActionMenu(title, commands, owner.app._keymap)
    ask(owner.app, menu, lambda action: owner.call_later(owner.run_action, action))


_TITLE_LINE = 1


class JumpTarget(NamedTuple):
    letter: str
    widget: Widget
    hidden: bool = False


class JumpScreen(Dialog[Widget | None]):
    """Shows a letter at each target, and lists the hidden ones; any other key closes it."""

    def __init__(self, targets: Sequence[JumpTarget]) -> None:
        super().__init__()
        self._targets = targets

    def compose(self) -> ComposeResult:
        for target in self._targets:
            if not target.hidden:  # in the margin, so that it does not cover text
                yield self._label(target.letter, target.widget.region.x, target.widget.region.y)
        end = self.app.size.width
        for target in reversed([target for target in self._targets if target.hidden]):
            text = f" {target.letter} opens {target.widget.id} "
            end -= len(text) + 1
            yield self._label(text, end, _TITLE_LINE)

    def _label(self, text: str, x: int, y: int) -> Label:
        label = Label(text, classes="jump-letter", markup=False)
        label.absolute_offset = Offset(x, y)
        return label

    def on_key(self, event: Key) -> None:
        event.stop()
        chosen = {target.letter: target.widget for target in self._targets}.get(event.key)
        if chosen is not None and self.is_active:
            # At once, because the next key of a burst is meant for the pane.
            widgets = (chosen, *chosen.query("*"))
            chosen.screen.set_focus(next(filter(attrgetter("focusable"), widgets), None))
        self.dismiss(chosen)
