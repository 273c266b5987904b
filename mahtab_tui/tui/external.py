"""The clipboard, the user's editor, and the system's viewer."""

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
from mahtab_tui.tui.open import run_suspended
from mahtab_tui.tui.terminal_app import TerminalApp

MAX_COPIED = 1_000_000
"""Terminals truncate longer texts, or hang."""


def copy(app: App[Any], text: str) -> None:
    if len(text) > MAX_COPIED:
        app.notify(f"{len(text):,} characters are too many for the clipboard.", severity="warning")
        return
    text = text.encode("utf-8", "replace").decode()  # lone surrogates
    app.copy_to_clipboard(text)

    def copy_to_system() -> None:  # by an external program, which may be slow
        import pyperclip

        with contextlib.suppress(pyperclip.PyperclipException, OSError):
            pyperclip.copy(text)

    threading.Thread(target=copy_to_system, name="clipboard", daemon=True).start()
    app.notify(f"Copied {len(text):,} character{'s' * (len(text) != 1)}.", timeout=3)


def copy_selection(app: App[Any], fallback: str) -> bool:
    focused = app.screen.focused
    typed = focused.selected_text if isinstance(focused, Input | TextArea) else ""
    text = typed or fallback or app.screen.get_selected_text()
    if text:
        copy(app, text)
    return bool(text)


def editor_command() -> list[str]:
    """Find the editor as words. Raises `RuntimeError`."""
    try:
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise RuntimeError(f"EDITOR cannot be read: {error}.") from None
    if not (words := words or [*filter(None, map(find_program, ("vi", "nano")))][:1]):
        raise RuntimeError("No editor was found: set EDITOR.")
    return words


def edit_text(app: TerminalApp[Any], text: str, ending: str) -> str:
    """Let the user edit a text in a temporary file. Raises `RuntimeError`."""
    command = editor_command()
    try:
        with tempfile.TemporaryDirectory(prefix="mahtab-") as folder:
            path = Path(folder, f"input{ending}")
            path.write_text(text, "utf-8")
            if code := run_suspended(app, [*command, str(path)], os.getcwd()):
                ended = f"{command[0]} ended with exit code {code}"
                raise RuntimeError(f"{ended}; the input was not changed.")
            return path.read_text("utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        problem = f"The input cannot be written to a file for {command[0]}: {error.strerror}."
        raise RuntimeError(problem) from None


def open_picture(content: bytes, suffix: str) -> str:
    command = _find_viewer()
    if command is None:
        raise KernelError("No program that opens pictures was found here. Ctrl+S saves it.")
    try:
        # The viewer reads it later.
        handle, name = tempfile.mkstemp(prefix="mahtab-picture-", suffix=suffix)
        with open(handle, "wb") as file:
            file.write(content)
        null: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = subprocess.Popen([command, name], start_new_session=True, **null)
    except OSError as error:
        problem = f"The picture cannot be opened: {error.strerror}. Ctrl+S saves it."
        raise KernelError(problem) from None
    threading.Thread(target=process.wait, name="viewer", daemon=True).start()
    return name


def _find_viewer() -> str | None:
    """Find the system's viewer; without a desktop it would take over our terminal."""
    if sys.platform == "darwin":
        return find_program("open")
    has_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return find_program("xdg-open") if has_desktop else None
