"""What the person can do with a variable: as cells of theirs, so that it is seen where all else is."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable

from textual.app import App

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.clipboard import copy
from mahtab_tui.tui.port import NamespacePort


class VariableActions:
    """Rename, delete and copy."""

    def __init__(self, app: App[object], port: NamespacePort, taken: Callable[[str], bool]) -> None:
        """taken: whether there is a variable of a name."""
        self._app = app
        self._port = port
        self._taken = taken

    def rename(self, name: str) -> None:
        """Ask for another name."""
        from mahtab_tui.tui.screens.prompt import Prompt

        def chosen(new: str | None) -> None:
            if not new or new == name:
                return
            if not _is_name(new):
                self._refuse(f"{new} cannot be the name of a variable.")
            elif self._taken(unicodedata.normalize("NFKC", new)):
                self._refuse(f"There is a variable {new} already; both were left as they are.")
            else:
                self._port.run(f"{new} = {_written(name)}; del {_written(name)}")

        self._app.push_screen(Prompt(f"Another name for {one_line(name)}", one_line(name)), chosen)

    def delete(self, name: str) -> None:
        """Delete it, after a question."""
        from mahtab_tui.tui.screens.confirm import Confirm

        def sure(yes: bool | None) -> None:
            if yes:
                self._port.run(f"del {_written(name)}")

        self._app.push_screen(
            Confirm(f"Delete the variable {one_line(name)}? Its value is lost where nothing else holds it.", yes="Delete", no="Keep"), sure
        )

    def copy_name(self, name: str) -> None:
        """Copy its name."""
        copy(self._app, one_line(name))

    def _refuse(self, sentence: str) -> None:
        self._app.notify(sentence, severity="warning", markup=False, timeout=3)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _written(name: str) -> str:
    """A variable in code: what code put into the namespace may have any text for a name."""
    return name if _is_name(name) else f"globals()[{name!r}]"
