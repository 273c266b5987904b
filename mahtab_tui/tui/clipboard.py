"""Copies texts through the terminal (OSC 52), which works over ssh, and to the system's clipboard
if there is one."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from textual.app import App
from textual.widgets import Input, TextArea

MOST_COPIED = 1_000_000
"""Characters of a text at most: terminals cut longer ones, or hang."""


def copy(app: App[Any], text: str) -> None:
    """Copy a text, and report where it went. The system's clipboard is a program that may be slow,
    so it runs on a thread."""
    if len(text) > MOST_COPIED:
        app.notify(
            f"{len(text):,} characters are too many for the clipboard.",
            severity="warning",
            markup=False,
        )
        return
    text = text.encode("utf-8", "replace").decode()  # lone surrogates
    app.copy_to_clipboard(text)
    threading.Thread(
        target=_copy_by_system, args=(app, text), name="clipboard", daemon=True
    ).start()


def copy_selection(app: App[Any], otherwise: str) -> bool:
    """Copy the selection of the focused text field, else another text, else the mouse selection;
    returns False if there is none."""
    focused = app.screen.focused
    typed = focused.selected_text if isinstance(focused, Input | TextArea) else ""
    text = typed or otherwise or app.screen.get_selected_text()
    if text:
        copy(app, text)
    return bool(text)


def _copy_by_system(app: App[Any], text: str) -> None:
    import pyperclip

    try:
        pyperclip.copy(text)
        where = "to the terminal (OSC 52) and to the system's clipboard"
    except (pyperclip.PyperclipException, OSError):
        where = "to the terminal (OSC 52); no other clipboard was found"
    characters = f"{len(text):,} characters" if len(text) != 1 else "one character"
    with contextlib.suppress(RuntimeError):  # the screen has been left
        app.call_from_thread(app.notify, f"Copied {characters} {where}.", markup=False, timeout=3)
