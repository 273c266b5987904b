"""The user's actions on a variable. They run as the user's cells, so that they are visible in the transcript."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable, Collection

from textual.app import App

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.port import NamespacePort


class VariableActions:
    """Renames, deletes and copies."""

    def __init__(self, app: App[object], port: NamespacePort, taken: Callable[[str], bool], private: Collection[str]) -> None:
        """taken: returns whether there is a variable with a name. private: names of private variables."""
        self._app = app
        self._port = port
        self._taken = taken
        self._private = private

    def rename(self, name: str) -> None:
        """Ask for a new name, and rename the variable."""
        from mahtab_tui.tui.screens.prompt import Prompt

        def chosen(new: str | None) -> None:
            if not new or new == name:
                return
            if not _is_name(new):
                self._refuse(f"{new} cannot be the name of a variable.")
            elif self._taken(unicodedata.normalize("NFKC", new)):
                self._refuse(f"There is already a variable {new}; nothing was renamed.")
            else:
                if name in self._private:
                    self._port.mark_private(unicodedata.normalize("NFKC", new), True)
                self._port.run(f"{new} = {_written(name)}; del {_written(name)}")

        self._app.push_screen(Prompt(f"New name for {one_line(name)}", one_line(name)), chosen)

    def delete(self, name: str) -> None:
        """Delete the variable, after confirmation."""
        from mahtab_tui.tui.screens.confirm import Confirm

        def sure(yes: bool | None) -> None:
            if yes:
                self._port.run(f"del {_written(name)}")

        self._app.push_screen(
            Confirm(f"Delete the variable {one_line(name)}? Its value is lost if nothing else holds it.", yes="Delete", no="Keep"), sure
        )

    def copy_name(self, name: str) -> None:
        copy(self._app, one_line(name))

    def _refuse(self, sentence: str) -> None:
        self._app.notify(sentence, severity="warning", markup=False, timeout=3)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _written(name: str) -> str:
    """Return code for a variable. Code may put any text into the namespace as a name."""
    return name if _is_name(name) else f"globals()[{name!r}]"
