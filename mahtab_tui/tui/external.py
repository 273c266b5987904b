"""Programs outside of this one: the clipboard, the user's editor, and the viewer of pictures."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from textual.app import App
from textual.widgets import Input, TextArea

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.system import find_program
from mahtab_tui.tui.terminal_app import TerminalApp

MAX_COPIED_CHARS = 1_000_000
"""Terminals truncate longer texts, or hang."""


def copy(app: App[Any], text: str) -> None:
    """Copy a text to the clipboard of the terminal and to that of the system."""
    if len(text) > MAX_COPIED_CHARS:
        app.notify(f"{len(text):,} characters are too many for the clipboard.", severity="warning")
        return
    # Replace lone surrogates.
    text = text.encode("utf-8", "replace").decode()
    app.copy_to_clipboard(text)

    def copy_to_system() -> None:
        """An external program copies, which may be slow."""
        import pyperclip

        with contextlib.suppress(pyperclip.PyperclipException, OSError):
            pyperclip.copy(text)

    threading.Thread(target=copy_to_system, name="clipboard", daemon=True).start()
    noun = "character" if len(text) == 1 else "characters"
    app.notify(f"Copied {len(text):,} {noun}.", timeout=3)


def copy_selection(app: App[Any], fallback: str) -> bool:
    """Copy what is selected; return False if nothing is.

    Args:
        app: The application. A text field with the focus comes first, the screen's selection last.
        fallback: What is selected in a text field without the focus; empty for nothing.
    """
    focused = app.screen.focused
    field_text = focused.selected_text if isinstance(focused, Input | TextArea) else ""
    text = field_text or fallback or app.screen.get_selected_text()
    if text:
        copy(app, text)
    return bool(text)


def editor_command() -> list[str]:
    """Return the command of the user's editor as words.

    Raises:
        RuntimeError: There is no editor, or EDITOR cannot be read. The message is a sentence.
    """
    try:
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise RuntimeError(f"EDITOR cannot be read: {error}.") from None
    if command:
        return command
    for name in ("vi", "nano"):
        program = find_program(name)
        if program:
            return [program]
    raise RuntimeError("No editor was found: set EDITOR.")


def edit_text(app: TerminalApp[Any], text: str, suffix: str) -> str:
    """Let the user edit a text in a temporary file, and return it. Main thread only.

    Args:
        app: The application, which gives the terminal to the editor.
        text: The text.
        suffix: The suffix of the file, by which editors choose colours, such as ".py".

    Raises:
        RuntimeError: The editor could not be started, or has failed. The message is a sentence.
    """
    command = editor_command()
    try:
        with tempfile.TemporaryDirectory(prefix="mahtab-") as folder:
            path = Path(folder, f"input{suffix}")
            path.write_text(text, "utf-8")
            exit_code = app.run_suspended([*command, str(path)], os.getcwd())
            if exit_code:
                problem = f"{command[0]} ended with exit code {exit_code}"
                raise RuntimeError(f"{problem}; the input was not changed.")
            return path.read_text("utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        problem = f"The input cannot be written to a file for {command[0]}: {error.strerror}."
        raise RuntimeError(problem) from None


def open_picture(content: bytes, suffix: str) -> str:
    """Open a picture in the system's viewer, and return the path of its file.

    Args:
        content: The picture's file.
        suffix: The suffix of the file, such as ".png".

    Raises:
        KernelError: There is no viewer, or the file could not be written. The message is a sentence.
    """
    command = _find_viewer()
    if command is None:
        raise KernelError("No program that opens pictures was found here. Ctrl+S saves it.")
    try:
        # The viewer reads it later.
        handle, name = tempfile.mkstemp(prefix="mahtab-picture-", suffix=suffix)
        with open(handle, "wb") as file:
            file.write(content)
        process = subprocess.Popen(
            [command, name],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError as error:
        problem = f"The picture cannot be opened: {error.strerror}. Ctrl+S saves it."
        raise KernelError(problem) from None
    threading.Thread(target=process.wait, name="viewer", daemon=True).start()
    return name


def _find_viewer() -> str | None:
    """Return the system's viewer; None without a desktop, where it would take over our terminal."""
    if sys.platform == "darwin":
        return find_program("open")
    has_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if has_desktop:
        return find_program("xdg-open")
    return None
