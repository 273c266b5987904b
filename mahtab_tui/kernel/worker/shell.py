"""``!command`` in a cell, and ``lines = !command``."""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Callable

from .habits import LINES, SHELL
from .stdlib import late_import

# Programs that need the whole terminal.
_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
# Not ${name} and {{name}}, which are shell syntax.
_FIELD = re.compile(r"(?<![${])\{([^{},]+)\}(?!\})")
_BARE_ONLY = frozenset("python python3 bash sh zsh fish node irb".split())


def needs_terminal(command: str) -> bool:
    """Tell whether a command runs a program that needs the whole terminal."""
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
    editor = late_import("shlex").split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if program in _FULL_SCREEN or (editor and program == os.path.basename(editor[0])):
        return True
    return program in _BARE_ONLY and len(words) == 1


def _git_needs_terminal(words: list[str]) -> bool:
    command = next((word for word in words if not word.startswith("-")), "")
    options = set(words)
    if command == "commit":
        return not any(
            word.startswith(
                ("-m", "-am", "-F", "--message", "--file", "--no-edit", "-C", "--fixup")
            )
            for word in words
        )
    if command == "rebase":
        return bool(options & {"-i", "--interactive"})
    if command in ("add", "checkout", "restore", "reset", "stash"):
        return bool(options & {"-p", "-i", "--patch", "--interactive"})
    return command in ("mergetool", "difftool")


def _shell_argv(command: str) -> list[str]:
    """Return the command line of the user's shell for an interactive command."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    if os.path.basename(shell) in ("sh", "dash", "ash"):
        # Ctrl+C would kill these shells before the program, which would be left with the terminal.
        # Traps are not inherited.
        command = f"trap : INT QUIT; {command}"
    return [shell, "-c", command]


def install_shell(call_host: Callable[[str, dict[str, Any]], Any]) -> None:
    """Put the functions that `habits.lines.transform` calls into builtins."""

    def run(command: str, names: dict[str, Any] | None = None) -> None:
        """Run a command. names: for `{expression}` in it; None: the caller's."""
        frame = sys._getframe(1)
        command = _filled(
            command, *((frame.f_globals, frame.f_locals) if names is None else (names, names))
        )
        if needs_terminal(command):
            code = call_host("terminal", {"argv": _shell_argv(command), "cwd": os.getcwd()})
        else:
            code = late_import("subprocess").call(command, shell=True)
        if code:
            _tell(code)

    builtins.__dict__.update({SHELL: run, LINES: _lines})


def _filled(command: str, names: dict[str, Any], local_names: Mapping[str, Any]) -> str:
    """Replace each ``{expression}`` in a command by its value; what is not a valid expression
    (awk's ``{print $1}``) stays."""

    def value(found: re.Match[str]) -> str:
        try:
            return str(eval(found[1].strip(), names, local_names))
        except Exception:  # raised by the user's expression, or it is not one
            return found[0]

    return _FIELD.sub(value, command)


def _lines(command: str, names: dict[str, Any] | None = None) -> list[str]:
    """Return a command's output as lines; its errors are printed. names: as for `run`."""
    frame = sys._getframe(1)
    command = _filled(
        command, *((frame.f_globals, frame.f_locals) if names is None else (names, names))
    )
    subprocess = late_import("subprocess")
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    if done.returncode:
        _tell(done.returncode)
    return str(done.stdout).splitlines()


def _tell(code: int) -> None:
    print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")
