"""Tells which shell commands run a program that needs the whole terminal, such as an editor.

It is loaded when a cell runs its first command.
"""

from __future__ import annotations

import os
import re

from ..stdlib import late_import

_FULL_SCREEN = frozenset(
    "vi vim nvim nano pico emacs micro helix hx joe less more most man top htop btop ssh mosh tmux screen fzf tig lazygit ranger mc"
    " ipython psql sqlite3 mysql watch nethack".split()
)
"""Programs that need the whole terminal."""
_INTERPRETERS = frozenset("python bash sh zsh fish node irb".split())
"""Programs that need the whole terminal if they have no arguments; with one, they usually run a file. A
version may follow the name, as in python3.12."""

_PREFIXES = {
    "sudo": frozenset(("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t")),
    "env": frozenset(("-u", "-C")),
    "exec": frozenset(("-a",)),
}
"""Programs that run the program after their options, each with those of its options whose value is the
next word."""
_GIT_OPTIONS_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
)
"""The options before Git's command whose value may be the next word."""

_OPERATOR_CHARACTERS = frozenset("&|;()")
"""Words of these characters alone end a program's arguments, such as `&&`. A redirection, which does
not, has other characters as well."""

# Options of Git, also with others in one word, such as the m in -am.
_COMMIT_MESSAGE = re.compile(r"-[a-zA-Z]*[mFC]|--(?:message|file|no-edit|fixup|reuse-message)\b")
"""With one of these, `git commit` opens no editor for the message."""
_TAG_MESSAGE = re.compile(r"-[a-zA-Z]*[mF]|--(?:message|file)\b")
"""With one of these, `git tag` opens no editor for the message."""
_ANNOTATED_TAG = re.compile(r"-[a-zA-Z]*[asu]|--(?:annotate|sign|local-user)\b")
"""With one of these, a tag has a message."""


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

    editor = read_editor()
    is_editor = bool(editor) and program == os.path.basename(editor[0])
    if is_editor and is_interpreter:
        # An interpreter runs many programs: it is the editor only with the editor's arguments.
        is_editor = words[1 : len(editor)] == editor[1:]
    return is_editor or program in _FULL_SCREEN


def _split_words(command: str) -> list[str]:
    """Return the words of a command without quotes; empty if the quotes are unbalanced."""
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
    """Return the words from the program on: without assignments of variables before it, and without
    programs of `_PREFIXES`, which only run it."""
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
    """Return the words after the options at the start.

    Args:
        words: The words.
        options_with_value: The options whose value is the next word.
    """
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] in options_with_value:
            index += 1
        index += 1
    return words[index:]


def read_editor() -> list[str]:
    """Return the words of $VISUAL or $EDITOR; empty if there is none, or its quotes are unbalanced."""
    return _split_words(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")


def _git_needs_terminal(words: list[str]) -> bool:
    """Return whether Git opens an editor, or asks something.

    Args:
        words: Those after "git".
    """
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
