"""``!command`` in a cell."""

from __future__ import annotations

import ast
import builtins
import os
import re
import warnings
from typing import Any, Callable

from .stdlib import late_import

CALL = "__mahtab_shell__"

_LINE = re.compile(r"^([ \t]*)!(?!=)[ \t]*(\S.*)$")
# Programs that need the whole terminal.
_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
_BARE_ONLY = frozenset("python python3 bash sh zsh fish node irb".split())


def transform(source: str) -> str:
    """The cell with its ``!`` lines as calls; the number of lines stays. A cell that is Python already is left alone."""
    if "!" not in source:
        return source
    if _error(source) is None:
        return source
    lines = source.split("\n")
    for place, line in enumerate(lines):
        matched = _LINE.match(line)
        if matched is not None and not _inside_string(lines[:place]):
            lines[place] = f"{matched[1]}{CALL}({matched[2].rstrip()!r})"
    return "\n".join(lines)


def _inside_string(lines: list[str]) -> bool:
    """Whether a triple-quoted string is open after these lines."""
    return "triple-quoted" in (_error("\n".join(lines)) or "")


def _error(source: str) -> str | None:
    """What keeps a text from being Python; None where nothing does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except SyntaxError as error:
            return error.msg or "syntax error"
        except (ValueError, RecursionError, MemoryError) as error:
            return type(error).__name__
    return None


def needs_terminal(command: str) -> bool:
    """Whether a command is one of the programs that take the whole terminal."""
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
        has_message = any(word.startswith(("-m", "-am", "-F", "--message", "--file", "--no-edit", "-C", "--fixup")) for word in words)
        return not has_message
    if command == "rebase":
        return bool(options & {"-i", "--interactive"})
    if command in ("add", "checkout", "restore", "reset", "stash"):
        return bool(options & {"-p", "-i", "--patch", "--interactive"})
    return command in ("mergetool", "difftool")


def _shell_argv(command: str) -> list[str]:
    """The person's shell with a command that keys reach."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    if os.path.basename(shell) in ("sh", "dash", "ash"):
        # These die of Ctrl+C before the program does, and would leave it behind with the terminal. A trap is not inherited.
        command = f"trap : INT QUIT; {command}"
    return [shell, "-c", command]


def install(call_host: Callable[[str, dict[str, Any]], Any]) -> None:
    """Put the function that the calls of `transform` name into builtins."""

    def run(command: str) -> None:
        if needs_terminal(command):
            code = call_host("terminal", {"argv": _shell_argv(command), "cwd": os.getcwd()})
        else:
            code = late_import("subprocess").call(command, shell=True)
        if code:
            print(f"exit code {code}" if code > 0 else f"ended by signal {-code}")

    setattr(builtins, CALL, run)
