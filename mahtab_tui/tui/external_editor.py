"""The input in the person's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.tui.face import run_suspended

if TYPE_CHECKING:
    from mahtab_tui.tui.app import MahtabApp


def editor_command() -> list[str]:
    """$VISUAL, $EDITOR, vi or nano, in words. Raises `RuntimeError`."""
    try:
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise RuntimeError(f"EDITOR cannot be read: {error}.") from None
    words = words or [found for found in map(shutil.which, ("vi", "nano")) if found][:1]
    if not words:
        raise RuntimeError("There is no editor: set EDITOR.")
    return words


def edited(app: MahtabApp, text: str, ending: str) -> str:
    """The text as the editor saves it, in a file of that ending. Raises `RuntimeError`; the text is then as it was."""
    command = editor_command()
    try:
        return _edited(app, command, text, ending)
    except OSError as error:
        raise RuntimeError(f"The input cannot go through a file for {command[0]}: {error.strerror}.") from None


def _edited(app: MahtabApp, command: list[str], text: str, ending: str) -> str:
    with tempfile.TemporaryDirectory(prefix="mahtab-") as folder:
        path = Path(folder, f"input{ending}")
        path.write_text(text, "utf-8")
        code = run_suspended(app, [*command, str(path)], os.getcwd())
        if code:
            raise RuntimeError(f"{command[0]} ended with exit code {code}; the input stays as it was.")
        return path.read_text("utf-8", errors="replace").rstrip("\n")
