"""The screen with the instructions that a model gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.settings.files import SettingsError
from mahtab_tui.settings.values import trust_values
from mahtab_tui.tui.screens.dialog import TextDialog, confirm

if TYPE_CHECKING:
    from mahtab_tui.session import Session

_NO_INSTRUCTIONS = (
    "There are no instructions. Yours go into ~/.mahtab/AGENTS.md, a project's into its AGENTS.md."
)


class InstructionsScreen(TextDialog):
    """Shows what is sent to the model as instructions, and lets the user trust a project's."""

    BINDINGS: ClassVar[list[BindingType]] = [("t", "trust", "Trust")]

    def __init__(self, session: Session) -> None:
        super().__init__("Instructions", id="instructions-text")
        self._session = session
        self._instructions = session.knowledge.read_instructions()

    def on_mount(self) -> None:
        self._show()
        self.query_one(VerticalScroll).focus()

    def _show(self) -> None:
        """Draw the instructions of each file, and whether a model gets them."""
        has_untrusted = bool(self._instructions.untrusted)
        self.keys.update(
            "t trusts what is held back · Esc closes" if has_untrusted else "Esc closes"
        )

        # The texts that are sent may be shortened.
        sent_texts = self._instructions.texts()
        lines: list[Content] = []
        for file in self._instructions.files:
            state = ("sent to the model", "$good")
            if not file.trusted:
                state = ("held back: not trusted", "$bad")
            for part in file.parts:
                text = escape_controls(sent_texts.get(part.name, part.text)).rstrip("\n")
                lines.append(Content.assemble((one_line(part.name), "bold"), " · ", state))
                lines.append(Content.styled(f"{text}\n", "$muted"))
        for problem in self._instructions.problems:
            lines.append(Content.styled(one_line(problem), "$bad"))
        if not lines:
            lines = [Content.styled(_NO_INSTRUCTIONS, "$muted")]
        self.text.update(Content("\n").join(lines))

    def action_trust(self) -> None:
        """Ask whether models may get what is held back."""
        untrusted = self._instructions.untrusted
        if not untrusted:
            return

        def trust() -> None:
            try:
                # Trust what was shown, even if a file has changed since.
                trust_values({file.path: file.value for file in untrusted})
            except SettingsError as error:
                self.app.notify(str(error), severity="error")
            self._instructions = self._session.knowledge.read_instructions()
            self._show()

        names = ", ".join(one_line(file.name) for file in untrusted)
        question = f"Send {names} to the model with every question?"
        confirm(self.app, question, trust, yes="Trust", no="Hold back")
