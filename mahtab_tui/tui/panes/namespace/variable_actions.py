"""What the person can do with a variable: as cells of theirs, so that it is seen where all else is."""

from __future__ import annotations

import keyword
from collections.abc import Callable

from textual.app import App

from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.screens.confirm import Confirm
from mahtab_tui.tui.screens.prompt import Prompt


class VariableActions:
    """Rename, delete and copy. `run` runs a cell of the person's."""

    def __init__(self, app: App[int], run: Callable[[str], object]) -> None:
        self._app = app
        self._run = run

    def rename(self, name: str) -> None:
        """Ask for another name."""

        def chosen(new: str | None) -> None:
            if not new or new == name:
                return
            if not new.isidentifier() or keyword.iskeyword(new):
                self._app.notify(f"{new} cannot be the name of a variable.", severity="warning", markup=False, timeout=3)
            else:
                self._run(f"{new} = {name}; del {name}")

        self._app.push_screen(Prompt(f"Another name for {name}", name), chosen)

    def delete(self, name: str) -> None:
        """Delete it, after a question."""

        def sure(yes: bool | None) -> None:
            if yes:
                self._run(f"del {name}")

        self._app.push_screen(Confirm(f"Delete the variable {name}? Its value is lost where nothing else holds it.", yes="Delete", no="Keep"), sure)

    def copy_name(self, name: str) -> None:
        """Copy its name."""
        copy(self._app, name)
