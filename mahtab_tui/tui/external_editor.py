"""Opens the input, or a file, in the user's editor."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from mahtab_tui.system.programs import find_program
from mahtab_tui.tui.frontend import run_suspended
from mahtab_tui.tui.terminal_app import TerminalApp

_PLACE_IN_NAME = frozenset({"hx", "helix", "subl", "zed"})
_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})


def editor_command() -> list[str]:
    """Find the editor: $VISUAL, $EDITOR, vi or nano, split into words. Raises `RuntimeError`."""
    try:
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError as error:
        raise RuntimeError(f"EDITOR cannot be read: {error}.") from None
    words = words or [found for found in map(find_program, ("vi", "nano")) if found][:1]
    if not words:
        raise RuntimeError("No editor was found: set EDITOR.")
    return words


def edited(app: TerminalApp[Any], text: str, ending: str) -> str:
    """Let the user edit a text in a file with that ending, and return it. Raises `RuntimeError`."""
    command = editor_command()
    try:
        with tempfile.TemporaryDirectory(prefix="mahtab-") as folder:
            path = Path(folder, f"input{ending}")
            path.write_text(text, "utf-8")
            code = run_suspended(app, [*command, str(path)], os.getcwd())
            if code:
                raise RuntimeError(
                    f"{command[0]} ended with exit code {code}; the input was not changed."
                )
            return path.read_text("utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise RuntimeError(
            f"The input cannot be written to a file for {command[0]}: {error.strerror}."
        ) from None


def open_in_editor(app: TerminalApp[Any], path: str, line: int) -> None:
    """Open a file at a line (from 1; 0 if unknown), and wait until the editor ends. Raises
    `RuntimeError`."""
    command = editor_command()
    try:
        here = os.getcwd()
    except OSError as error:
        raise RuntimeError(f"{command[0]} cannot be started: {error.strerror}.") from None
    code = run_suspended(app, [*command, *at_line(command[0], path, line)], here)
    if code:
        raise RuntimeError(f"{command[0]} ended with exit code {code}.")


def at_line(editor: str, path: str, line: int) -> list[str]:
    """The arguments that open a file at a line. Most editors know `+12 file`, as POSIX defines it
    for vi."""
    name = os.path.basename(editor)
    if not line:
        return [path]
    if name in _GOTO:
        return ["--goto", f"{path}:{line}"]
    return [f"{path}:{line}"] if name in _PLACE_IN_NAME else [f"+{line}", path]
