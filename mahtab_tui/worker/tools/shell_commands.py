"""Shell commands and the editor of cells: with the whole terminal, or with output that is shown."""

from __future__ import annotations

import builtins
import os
import re

from ..link.host import Host
from ..magic.expansion import Names, expand_command
from ..stdlib import late_import

_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
"""Programs that need the whole terminal."""
_INTERPRETERS = frozenset("python bash sh zsh fish node irb".split())
"""Programs that need it without arguments; Python's may end with a version."""

_PREFIXES = {
    "sudo": frozenset(("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t")),
    "env": frozenset(("-u", "-C")),
    "exec": frozenset(("-a",)),
}
"""Programs that run the program after their options, with the options whose value is the next word."""
_GIT_OPTIONS_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
)

_OPERATOR_CHARACTERS = frozenset("&|;()")
"""Of these are the words that end a program's arguments, such as `&&`; redirections have others, too."""

_COMMIT_MESSAGE = re.compile(r"-[a-zA-Z]*[mFC]|--(?:message|file|no-edit|fixup|reuse-message)\b")
_TAG_MESSAGE = re.compile(r"-[a-zA-Z]*[mF]|--(?:message|file)\b")
_ANNOTATED_TAG = re.compile(r"-[a-zA-Z]*[asu]|--(?:annotate|sign|local-user)\b")


def needs_terminal(command: str) -> bool:
    """Return whether a shell command runs a program that needs the whole terminal.

    Only the words of the command are read. Of `cd app && vim a.py; ls`, all three programs count. In a
    pipeline, only the first does: the others read from it and not the keys, so that `git log | less`
    prints everything. Programs in loops, aliases, functions and scripts are not seen.
    """
    return any(map(_program_needs_terminal, _split_programs(command)))


def _program_needs_terminal(words: list[str]) -> bool:
    """Return whether one program with its arguments needs the whole terminal."""
    words = _skip_prefixes(words)
    if not words:
        return False
    program = os.path.basename(words[0])
    if program == "git":
        return _git_needs_terminal(words[1:])
    is_interpreter = program.rstrip("0123456789.") in _INTERPRETERS
    if is_interpreter and len(words) == 1:
        return True

    editor = _editor()
    is_editor = bool(editor) and program == os.path.basename(editor[0])
    if is_editor and is_interpreter:
        # An interpreter runs many programs: it is the editor only with the editor's arguments.
        is_editor = words[1 : len(editor)] == editor[1:]
    return is_editor or program in _FULL_SCREEN


def _split_words(command: str) -> list[str]:
    """Split a command as a shell does; empty if its quotes are unbalanced."""
    try:
        return list(late_import("shlex").split(command))
    except ValueError:
        return []


def _split_programs(command: str) -> list[list[str]]:
    """Return the words of each program that a shell command runs, without those that read from a pipe;
    empty if its quotes are unbalanced."""
    lexer = late_import("shlex").shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens: list[str] = list(lexer)
    except ValueError:
        return []

    programs: list[list[str]] = []
    words: list[str] = []
    reads_pipe = False
    for token in [*tokens, ";"]:
        # A quoted operator cannot be told from one that the shell sees. This is rare, and one too
        # many only means that the program has the whole terminal.
        if not _OPERATOR_CHARACTERS.issuperset(token):
            words.append(token)
            continue
        if words and not reads_pipe:
            programs.append(words)
        words = []
        reads_pipe = token in ("|", "|&")
    return programs


def _skip_prefixes(words: list[str]) -> list[str]:
    """Return the words from the program on, without assignments, and without programs that only run
    it."""
    while words:
        options_with_value = _PREFIXES.get(os.path.basename(words[0]))
        if options_with_value is not None:
            words = _skip_options(words[1:], options_with_value)
        elif "=" in words[0]:
            words = words[1:]
        else:
            break
    return words


def _skip_options(words: list[str], options_with_value: frozenset[str]) -> list[str]:
    """Return the words after the options at the start."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] in options_with_value:
            index += 1
        index += 1
    return words[index:]


def _editor() -> list[str]:
    """Return the words of $VISUAL or $EDITOR; empty if there is none, or its quotes are unbalanced."""
    return _split_words(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")


def _git_needs_terminal(words: list[str]) -> bool:
    """Tell whether Git opens an editor, or asks. words: what follows "git"."""
    words = _skip_options(words, _GIT_OPTIONS_WITH_VALUE)
    if not words:
        return False
    command = words[0]
    options = [word for word in words[1:] if word.startswith("-")]
    if command == "commit":
        return not any(map(_COMMIT_MESSAGE.match, options))
    if command == "tag":
        is_annotated = any(map(_ANNOTATED_TAG.match, options))
        return is_annotated and not any(map(_TAG_MESSAGE.match, options))
    if command in ("rebase", "merge", "cherry-pick", "revert") and "--continue" in options:
        return True
    if command in ("rebase", "add", "checkout", "restore", "reset", "stash"):
        asking_options = {"-p", "-i", "--patch", "--interactive", "--edit-todo"}
        return not asking_options.isdisjoint(options)
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
    completed = subprocess.run(command, shell=True, text=True, errors="replace", **pipes)
    report_exit(completed.returncode)
    return str(completed.stdout).splitlines()


def run_shell_line(command: str) -> None:
    """Run a `!` line of the calling code."""
    run_command(expand_command(command, Names.of_caller()))


def read_shell_line(command: str) -> list[str]:
    """Run a command of the calling code, and return the lines of its output."""
    return read_command(expand_command(command, Names.of_caller()))


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
