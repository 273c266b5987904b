"""The instructions that the model gets, file by file; the project's can be trusted here."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from mahtab_tui.bus.escaping import escape_for_model
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.knowledge.instructions import Found
from mahtab_tui.settings.sources import SettingsError
from mahtab_tui.settings.writing import allow
from mahtab_tui.tui.screens.confirm import confirm
from mahtab_tui.tui.screens.dialog import TextDialog

_NO_INSTRUCTIONS = (
    "There are no instructions. Yours go into ~/.mahtab/AGENTS.md, a project's into its AGENTS.md."
)


class InstructionsScreen(TextDialog):
    """Shows the text of every file, and lets the user trust the project's."""

    BINDINGS: ClassVar[list[BindingType]] = [("t", "trust", "Trust")]

    def __init__(self, read: Callable[[], Found]) -> None:
        """read: reads the files."""
        super().__init__("", id="instructions-text")
        self._read = read
        self._found = read()

    def on_mount(self) -> None:
        self._show()
        self.query_one(VerticalScroll).focus()

    def _show(self) -> None:
        keys = "t trusts what is held back · Esc closes" if self._found.held_back else "Esc closes"
        self.heading.update(f"Instructions · {keys}")
        lines: list[Content] = []
        model = self._found.told()
        for each in self._found.files:
            for part in each.parts:
                state = (
                    ("sent to the model", "$good")
                    if each.trusted
                    else ("held back: not trusted", "$bad")
                )
                lines.append(Content.assemble((one_line(part.name), "bold"), " · ", state))
                lines.append(
                    Content.styled(
                        escape_for_model(model.get(part.name, part.text)).rstrip("\n") + "\n",
                        "$muted",
                    )
                )
        lines += [Content.styled(one_line(problem), "$bad") for problem in self._found.problems]
        self.text.update(Content("\n").join(lines or [Content.styled(_NO_INSTRUCTIONS, "$muted")]))

    def action_trust(self) -> None:
        held_back = self._found.held_back
        if not held_back:
            return

        def trust() -> None:
            try:
                for each in held_back:  # what was shown, even if a file has changed since
                    allow(each.path, each.value)
            except SettingsError as error:
                self.app.notify(str(error), severity="error", markup=False)
            self._found = self._read()
            self._show()

        names = ", ".join(one_line(each.name) for each in held_back)
        confirm(
            self.app,
            f"Send {names} to the model with every question?",
            trust,
            yes="Trust",
            no="Hold back",
        )
