"""Shell commands and the editor of cells: with the whole terminal, or with output that is shown."""

from __future__ import annotations

import builtins
import os
import sys

from ..link.control import Host
from ..magic.expansion import Names, expand_command
from ..stdlib import late_import

# Programs that need the whole terminal.
_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
_BARE_ONLY = frozenset("python python3 bash sh zsh fish node irb".split())


def needs_terminal(command: str) -> bool:
    try:
        words = late_import("shlex").split(command)
    except ValueError:
        return False
    while words and ("=" in words[0] or words[0] in ("sudo", "env", "exec")):
        words.pop(0)
    if not words:
        return False
    program = os.path.basename(words[0])
    if program == "git":
        return _git_needs_terminal(words[1:])
    editor = _editor()
    if program in _FULL_SCREEN or (editor and program == os.path.basename(editor[0])):
        return True
    return program in _BARE_ONLY and len(words) == 1


def _editor() -> list[str]:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    return list(late_import("shlex").split(chosen))


def _git_needs_terminal(words: list[str]) -> bool:
    command = next((word for word in words if not word.startswith("-")), "")
    if command == "commit":
        without = ("-m", "-am", "-F", "--message", "--file", "--no-edit", "-C", "--fixup")
        return not any(word.startswith(without) for word in words)
    if command in ("rebase", "add", "checkout", "restore", "reset", "stash"):
        return not {"-p", "-i", "--patch", "--interactive"}.isdisjoint(words)
    return command in ("mergetool", "difftool")


def run_command(command: str) -> None:
    """Run a shell command whose output is shown."""
    if needs_terminal(command):
        shell = os.environ.get("SHELL") or "/bin/sh"
        if os.path.basename(shell) in ("sh", "dash", "ash"):
            # Ctrl+C would kill these shells before the program. Child processes do not inherit
            # traps.
            command = f"trap : INT QUIT; {command}"
        code = Host.call("terminal", {"argv": [shell, "-c", command], "cwd": os.getcwd()})
    else:
        code = late_import("subprocess").call(command, shell=True)
    report_exit(code)


def read_command(command: str) -> list[str]:
    """Run a shell command, and return the lines of its output."""
    subprocess = late_import("subprocess")
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, shell=True, text=True, errors="replace", **pipes)
    report_exit(done.returncode)
    return str(done.stdout).splitlines()


def run_shell_line(command: str) -> None:
    """Run a `!` line of the calling code."""
    run_command(expand_command(command, Names.of_frame(sys._getframe(1))))


def read_shell_line(command: str) -> list[str]:
    """Run a command of the calling code, and return the lines of its output."""
    return read_command(expand_command(command, Names.of_frame(sys._getframe(1))))


def report_exit(code: int) -> None:
    """Set `_exit_code`, and tell a code that is not 0."""
    builtins.__dict__["_exit_code"] = code
    if code:
        print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")


def open_in_editor(path: str) -> None:
    """Open a file in $VISUAL, $EDITOR, vi or nano; the screen is suspended until the editor ends.

    Raises RuntimeError if there is no terminal or no editor.
    Example: open_in_editor("app.py").
    """
    editor = _editor()
    if not editor:
        editor = [
            editor_path
            for editor_path in map(late_import("shutil").which, ("vi", "nano"))
            if editor_path
        ][:1]
    if not editor:
        raise RuntimeError("No editor found; set EDITOR")
    code = Host.call("terminal", {"argv": [*editor, str(path)], "cwd": os.getcwd()})
    if code:
        print(f"{editor[0]} ended with exit code {code}")
