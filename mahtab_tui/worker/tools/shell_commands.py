"""Runs shell commands and the user's editor for cells.

A program that needs the whole terminal gets it, and the screen is suspended until it ends. The output of
all others becomes output of the cell.
"""

from __future__ import annotations

import builtins
import os

from ..link.host import Host
from ..magic.expansion import Names, expand_command
from ..stdlib import late_import, own_module


def run_command(command: str) -> None:
    """Run a shell command until it ends. Its output becomes output of the cell, unless it needs the
    whole terminal. Sets `_exit_code`."""
    if own_module("tools.terminal_programs").needs_terminal(command):
        shell = os.environ.get("SHELL") or "/bin/sh"
        if os.path.basename(shell) in ("sh", "dash", "ash"):
            # Ctrl+C would end these shells before their program has ended. Programs that they
            # start do not inherit the trap.
            command = f"trap : INT QUIT; {command}"
        code = Host.call("terminal", {"argv": [shell, "-c", command], "cwd": os.getcwd()})
    else:
        code = late_import("subprocess").call(command, shell=True)
    report_exit(code)


def read_command(command: str) -> list[str]:
    """Run a shell command without input, and return the lines of its output without their ends. What
    it writes to stderr becomes output of the cell. Sets `_exit_code`."""
    subprocess = late_import("subprocess")
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    completed = subprocess.run(command, shell=True, text=True, errors="replace", **pipes)
    report_exit(completed.returncode)
    return str(completed.stdout).splitlines()


def run_shell_line(command: str) -> None:
    """Run a `!` line of the calling code, whose variables take the places of `$name` and `{name}`."""
    run_command(expand_command(command, Names.of_caller()))


def read_shell_line(command: str) -> list[str]:
    """Run the command of a line such as `lines = !ls` of the calling code, as `run_shell_line` does, and
    return the lines of its output."""
    return read_command(expand_command(command, Names.of_caller()))


def report_exit(code: int) -> None:
    """Make an exit code the variable `_exit_code` of all code, and print it if it is not 0. A negative
    one is the number of the signal that ended the program."""
    builtins.__dict__["_exit_code"] = code
    if code:
        print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")


def open_in_editor(path: str) -> None:
    """Open a file in $VISUAL, $EDITOR, vi or nano; the screen is suspended until the editor ends.

    Raises RuntimeError if there is no terminal or no editor.
    Example: open_in_editor("app.py").
    """
    editor: list[str] = own_module("tools.terminal_programs").read_editor()
    if not editor:
        editor_paths = filter(None, map(late_import("shutil").which, ("vi", "nano")))
        editor = list(editor_paths)[:1]
    if not editor:
        raise RuntimeError("No editor found; set EDITOR")
    code = Host.call("terminal", {"argv": [*editor, str(path)], "cwd": os.getcwd()})
    if code:
        print(f"{editor[0]} ended with exit code {code}")
