"""Small dialogs: questions, a text, the menu of actions, and letters that lead to panes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Button, Input, Label, OptionList, Static

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.commands.declarations import PaneCommand
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.jump_target import JumpTarget
from mahtab_tui.tui.messages import TypeInEditor
from mahtab_tui.tui.widgets.options import Options

Answer = TypeVar("Answer")

# Widths of the columns of a menu, in terminal cells.
KEY_WIDTH = 5
TITLE_WIDTH = 19
REWIND_LETTER = "u"
"""The letter that opens the list of points to go back to, in jump mode."""
HIDDEN_TARGETS_LINE = 1
"""The line of the screen on which hidden panes are listed."""


def ask(app: App[Any], dialog: Dialog[Answer | None], then: Callable[[Answer], object]) -> None:
    """Show a dialog, and call a function with its answer unless it is cancelled.

    Args:
        app: The application.
        dialog: The dialog, whose answer is None if it is cancelled.
        then: Called with any other answer.
    """

    def use_answer(answer: Answer | None) -> None:
        if answer is not None:
            then(answer)

    app.push_screen(dialog, use_answer)


class TextDialog(Dialog[None]):
    """Shows a text that scrolls."""

    # It asks nothing, so commands that are possible over screens run over it as well.
    asks = False
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "leave", "Close")]

    def __init__(self, heading: str, text: str = "", *, id: str) -> None:
        """
        Args:
            heading: What stands at the top of the box.
            text: The text; a subclass may set it later.
            id: The id of the text, for style sheets.
        """
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
    """Asks a question that is answered by yes or no."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,n", "answer(False)", "No"),
        ("y", "answer(True)", "Yes"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(self, question: str, *, yes: str, no: str, details: Widget | None = None) -> None:
        """
        Args:
            question: The question.
            yes: The label of the answer yes.
            no: The label of the answer no, which has the focus at first.
            details: A widget between the question and the answers; None for none.
        """
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
    """Ask a question, and call a function if the answer is yes.

    Args:
        app: The application.
        question: The question.
        then: Called after a yes.
        yes: The label of the answer yes.
        no: The label of the answer no.
    """

    def act(is_sure: bool) -> None:
        if is_sure:
            then()

    ask(app, Confirm(question, yes=yes, no=no), act)


class Prompt(Dialog[str | None]):
    """Asks for a line of text. Its answer has no blanks around it, and is None if nothing is left."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, title: str, value: str = "") -> None:
        """
        Args:
            title: What is asked for.
            value: The text with which the line begins.
        """
        super().__init__()
        self._question = one_line(title)
        self._value = one_line(value)

    def compose(self) -> ComposeResult:
        with dialog_box(self._question, "question"):
            yield LineInput(self._value, compact=True)
            yield Static("Enter accepts · Esc cancels", classes="quiet", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class ActionMenu(Dialog[str | None]):
    """A menu of what can be done with the marked entry.

    A letter runs its command at once, but only selects one that needs Enter. Other letters close the
    menu and go to the editor, because the user has begun to type.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(
        self, title: str, commands: Sequence[PaneCommand], keymap: Mapping[str, str]
    ) -> None:
        """
        Args:
            title: What the commands act on.
            commands: The commands, of which one is the answer, by its action.
            keymap: The user's own keys, by the id of their command.
        """
        super().__init__()
        self._title = title
        self.commands = commands
        self._keys = [keymap.get(command.id, command.keys).split(",") for command in commands]
        """The keys of each command."""
        self._options = Options(compact=True, markup=False)
        for command, keys in zip(commands, self._keys, strict=True):
            self._options.add_option(_menu_line(command, keys[0]))
        self._options.highlighted = 0
        self._pending: list[Key] = []
        """The letter that selected a command. If another letter follows, both are typed text."""

    def compose(self) -> ComposeResult:
        keys = "Enter runs what is chosen · Esc closes"
        if any(command.confirm for command in self.commands):
            keys += " · ↵ waits for Enter"
        with dialog_box(self._title, "menu"):
            yield self._options
            yield Static(keys, classes="quiet", markup=False)

    def on_key(self, event: Key) -> None:
        index = self._command_index(event.key)
        if index is not None and not self._pending:
            event.stop()
            if self.commands[index].confirm:
                self._pending.append(Key(event.key, event.character))
                self._options.highlighted = index
            else:
                self.dismiss(self.commands[index].action)
        elif event.is_printable:
            event.stop()
            self.dismiss(None)
            self.app.post_message(TypeInEditor([*self._pending, Key(event.key, event.character)]))
        else:
            self._pending.clear()

    def _command_index(self, key: str) -> int | None:
        """Return which command has a key; None if none has."""
        for index, keys in enumerate(self._keys):
            if key in keys:
                return index
        return None

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self.commands[event.option_index].action)


def _menu_line(command: PaneCommand, key: str) -> Content:
    """Draw a command of a menu with its first key; an arrow says that Enter must follow."""
    key = f" {key.replace('ctrl+', '^')}"
    if command.confirm:
        key += " ↵"
    # A title may contain a figure of an answer.
    title = one_line(command.title)
    return Content.assemble(
        (f"{key:<{KEY_WIDTH}}", "$accent"),
        f"{title:<{TITLE_WIDTH}}",
        (command.help, "$muted"),
    )


class JumpScreen(Dialog[Widget | None]):
    """Shows a letter at each pane, which leads to it. Any other key closes the screen.

    Panes that are hidden, and the rewind, are listed on a line of their own.
    """

    def __init__(self, targets: Sequence[JumpTarget], open_rewind: Callable[[], object]) -> None:
        """
        Args:
            targets: What the letters lead to.
            open_rewind: Opens the list of points to go back to.
        """
        super().__init__()
        self._targets = targets
        self._open_rewind = open_rewind

    def compose(self) -> ComposeResult:
        for target in self._targets:
            # In the margin, so that it does not cover text.
            if not target.hidden:
                yield self._label(target.letter, target.widget.region.x, target.widget.region.y)
        # The others stand on one line, from right to left.
        x = self.app.size.width
        texts = [
            f" {target.letter} opens {target.widget.id} "
            for target in self._targets
            if target.hidden
        ]
        for text in (f" {REWIND_LETTER} rewinds ", *reversed(texts)):
            x -= len(text) + 1
            yield self._label(text, x, HIDDEN_TARGETS_LINE)

    def _label(self, text: str, x: int, y: int) -> Label:
        label = Label(text, classes="jump-letter", markup=False)
        label.absolute_offset = Offset(x, y)
        return label

    def on_key(self, event: Key) -> None:
        event.stop()
        widgets_by_letter = {target.letter: target.widget for target in self._targets}
        pane = widgets_by_letter.get(event.key)
        if pane is not None and self.is_active:
            # At once, because the next key of a burst is meant for the pane.
            self._focus_pane(pane)
        if event.key == REWIND_LETTER and self.is_active:
            self.dismiss(None)
            self._open_rewind()
        else:
            self.dismiss(pane)

    def _focus_pane(self, pane: Widget) -> None:
        """Focus a pane, or the first widget in it that gets keys if it is only a container."""
        focusable = (widget for widget in (pane, *pane.query("*")) if widget.focusable)
        pane.screen.set_focus(next(focusable, None))
