"""The user's actions on a variable. They run as the user's cells, so that they are visible in the
transcript."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Callable
from typing import Any

from textual.app import App

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.port import NamespacePort
from mahtab_tui.tui.screens.confirm import Confirm
from mahtab_tui.tui.screens.prompt import Prompt


def rename(
    app: App[Any], port: NamespacePort, name: str, taken: Callable[[str], bool], *, private: bool
) -> None:
    """Ask for a new name, and rename the variable. taken: returns whether there is a variable with
    a name. private: whether this one is private."""

    def chosen(new: str | None) -> None:
        if not new or new == name:
            return
        known_as = unicodedata.normalize("NFKC", new)
        if not _is_name(new):
            problem = f"{new} is not a valid variable name."
        elif taken(known_as):
            problem = f"There is already a variable {new}; nothing was renamed."
        else:
            if private:
                port.mark_private(known_as, True)
            port.run(f"{new} = {_written(name)}; del {_written(name)}")
            return
        app.notify(problem, severity="warning", markup=False, timeout=3)

    app.push_screen(Prompt(f"New name for {one_line(name)}", one_line(name)), chosen)


def delete(app: App[Any], port: NamespacePort, name: str) -> None:
    """Delete the variable, after confirmation."""

    def sure(yes: bool | None) -> None:
        if yes:
            port.run(f"del {_written(name)}")

    app.push_screen(
        Confirm(
            f"Delete the variable {one_line(name)}? Its value is lost if nothing else holds it.",
            yes="Delete",
            no="Keep",
        ),
        sure,
    )


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _written(name: str) -> str:
    """Return code for a variable. Code may put any text into the namespace as a name."""
    return name if _is_name(name) else f"globals()[{name!r}]"
