"""Files that decide what later runs or is believed: our settings, rules, trust and skills, the
instructions for models, start files of shells, hooks of Git. No code of a model changes them unless
the user has approved that code by hand."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple

from ..cells.attribution import CellAttribution
from ..stdlib import late_import
from .command_words import (
    MAX_COMMAND_CHARS,
    known_program,
    nested_command,
    read_words,
    unreadable_part,
)
from .shell_words import join_words, split_commands
from .side_effects import to_text

MAX_PATH_CHARS = 4096
"""The system does not open longer paths."""

_PROTECTED_FOLDERS = frozenset((".mahtab", ".claude", ".codex", ".ssh", ".ipython"))
_PROTECTED_SUBFOLDERS = frozenset(
    (
        *((".git", "hooks"), (".git", "config"), (".git", "config.worktree")),
        *((".git", "commondir"), (".config", "git"), (".config", "autostart")),
        *((".config", "systemd"), (".config", "environment.d"), (".config", "fish")),
        *((".config", "zsh"), (".config", "nushell"), ("etc", "profile"), ("etc", "profile.d")),
        *(("etc", "bash.bashrc"), ("etc", "bashrc"), ("etc", "zsh"), ("etc", "fish")),
    )
)
"""Pairs of parts of a path that follow each other."""
_FOLDERS_ABOVE_PROTECTED = _PROTECTED_FOLDERS | {".git", ".config"}
"""Folders in which protected files have names that do not show it."""
_NESTED_REPOSITORIES = frozenset(("modules", "worktrees"))
"""Folders in `.git` with the hooks and settings of submodules and of other working trees."""
_PROTECTED_FILES = frozenset(
    (
        *("agents.md", "claude.md", "skill.md", ".mcp.json", ".env", ".envrc", ".gitconfig"),
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"),
        *(
            ".bash_aliases",
            ".xsession",
            ".login",
            ".xprofile",
            ".xinitrc",
            ".xsessionrc",
            ".pam_environment",
            ".pdbrc",
        ),
    )
)
"""Names in lower case, because some file systems ignore case."""

_WORD_SEPARATORS = re.compile(r"""[\s'"`;&|<>()=]+""")
_SHELL_OPERATORS = re.compile(r"[;&|<>`\n]|\$\(")
"""Signs with which a command can do more than its first word says."""
_READING_COMMANDS = frozenset("cat diff file grep head less ls more rg stat tail wc".split())
_WRITING_WITH_OPTIONS = frozenset("file less more rg".split())
"""Reading commands with options that write a file or start a program."""
_MAX_RESOLVED_MATCHES = 1000
"""Files that patterns in a command stand for and that may be links: of later ones only the names are
looked at."""
_MAX_PATTERN_LEVELS = 4
"""Levels of folders for which a pattern in a command has wildcards: more could stand for the whole
disk."""
_TOO_MANY_FILES = (
    "The command may change protected files: it names too many to look at."
    " Name the files in the command, and the user will be asked"
)
_MAX_MATCHING_S = 5.0
"""Seconds for which files are looked for that patterns in a command stand for."""

_FOLDER_REFUSING_FLAGS = os.O_WRONLY | os.O_RDWR
"""The system opens no folder with these, unless it is opened as a path only."""
_PATH_ONLY_FLAG: int = getattr(os, "O_PATH", 0)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ONE_PATH_EVENTS = frozenset(
    (
        *("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown"),
        *("os.setxattr", "os.utime", "sqlite3.connect"),
    )
)
_TWO_PATHS_EVENTS = frozenset(("os.rename", "os.link", "os.symlink"))
_COMMAND_EVENTS = frozenset(
    ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "mahtab_tui.terminal")
)
_FORK_EVENTS = frozenset(("os.fork", "os.forkpty"))
EVENTS = frozenset(("open", *_ONE_PATH_EVENTS, *_TWO_PATHS_EVENTS, *_COMMAND_EVENTS, *_FORK_EVENTS))
"""The audit events for `ProtectedFiles.check`."""


class ResolvedPath(NamedTuple):
    """Where a text leads if it is used as a path: absolute, without links and ``..``."""

    as_written: str
    expanded: str
    """The path with the user's folder for ``~``, which some functions insert."""


def resolve_path(text: str) -> ResolvedPath | None:
    """Return the path that a text means; None if it cannot be one. Relative paths begin in the
    working folder."""
    if len(text) > MAX_PATH_CHARS or "\0" in text:
        return None
    try:
        as_written = _resolve(text)
        expanded = as_written
        if text[:1] == "~":
            expanded = _resolve(os.path.expanduser(text))
    except (OSError, ValueError):
        return None
    return ResolvedPath(as_written, expanded)


def _resolve(path: str) -> str:
    """Return where a path leads. A file ``.git`` says where a repository's hooks and settings are, so
    that it stands for them, also before it is written."""
    resolved = os.path.realpath(path)
    if os.path.basename(resolved).lower() == ".git" and not os.path.isdir(resolved):
        return f"{resolved}/config"
    return resolved


def resolve_paths(texts: Iterable[str]) -> list[ResolvedPath | None]:
    return [resolve_path(text) for text in texts]


def is_protected(path: str) -> bool:
    """Return whether a path, as written or resolved, is that of a protected file or folder, or is
    inside such a folder."""
    parts = _lower_parts(path)
    return (
        not _PROTECTED_FOLDERS.isdisjoint(parts)
        or not _PROTECTED_SUBFOLDERS.isdisjoint(zip(parts, parts[1:]))
        or (bool(parts) and parts[-1] in _PROTECTED_FILES)
        or _is_of_nested_repository(parts)
    )


def _lower_parts(path: str) -> list[str]:
    """Return the parts of a path in lower case. A bare repository, such as ``project.git``, has the
    same files as a folder ``.git``, and counts as one."""
    parts = [part for part in path.lower().split("/") if part not in ("", ".")]
    return [".git" if part.endswith(".git") else part for part in parts]


def _is_of_nested_repository(parts: list[str]) -> bool:
    """Return whether a path is that of a hook or a setting of a submodule or a working tree."""
    if ".git" not in parts:
        return False
    inner_parts = parts[parts.index(".git") + 1 :]
    is_nested = bool(inner_parts) and inner_parts[0] in _NESTED_REPOSITORIES
    return is_nested and ("hooks" in inner_parts or inner_parts[-1].startswith("config"))


def leads_to_protected(text: str) -> bool:
    """Return whether a text is the path of a protected file, or a link leads from it to one."""
    if is_protected(text):
        return True
    resolved = resolve_path(text)
    return resolved is not None and any(map(is_protected, resolved))


def paths_changed_by_command(command: str, folder: str = "") -> Iterator[str]:
    """Yield the words of a shell command that may name a file that it changes.

    Args:
        command: The command.
        folder: Where it starts, if not in the working folder; words are yielded with it, too.
    """
    if command_only_reads(command):
        return
    yield from filter(None, _WORD_SEPARATORS.split(command))
    for word in read_words(command, _as_folders(folder)):
        yield word.text
        if "=" in word.text:
            yield word.text.partition("=")[2]


def unreadable_part_of_command(command: str) -> str:
    """Return why it is not known which files a shell command changes: a word in which the shell puts
    something, for example. Empty if it is known, or if the command changes none."""
    return "" if command_only_reads(command) else unreadable_part(command)


def _as_folders(folder: str) -> tuple[str, ...]:
    return (folder,) if folder else ()


def _matching_files(command: str, folder: str) -> Iterator[str]:
    """Yield files that the patterns in a shell command may stand for. folder: as for
    `paths_changed_by_command`."""
    if command_only_reads(command):
        return
    glob = late_import("glob")
    for word in read_words(command, _as_folders(folder)):
        if word.is_pattern:
            pattern = "/".join(map(_without_brackets, word.text.split("/")))
            if sum(map(_has_wildcard, pattern.split("/"))) > _MAX_PATTERN_LEVELS:
                raise PermissionError(_TOO_MANY_FILES)
            yield from glob.iglob(os.path.expanduser(pattern))


def _has_wildcard(part: str) -> bool:
    return "*" in part or "?" in part


def _without_brackets(pattern: str) -> str:
    """Return a pattern that matches as many names, or more, but has no sets of letters: shells know
    more of them than Python."""
    before, bracket, rest = pattern.partition("[")
    return f"{before}*{rest.rpartition(']')[2]}" if bracket and "]" in rest else pattern


def command_only_reads(command: str) -> bool:
    """Return whether a shell command is one that shows files, and nothing else."""
    commands = split_commands(command) if len(command) <= MAX_COMMAND_CHARS else []
    if len(commands) != 1:
        return False
    nested = nested_command(command)
    if nested is not None:
        return command_only_reads(nested)
    if _SHELL_OPERATORS.search(command):
        return False

    name, *arguments = commands[0]
    program = known_program(name)
    if name.is_expanded or program not in _READING_COMMANDS:
        return False
    # What is expanded may be an option, too.
    has_options = any(word.is_expanded or word.text.startswith(("-", "+")) for word in arguments)
    return not (has_options and program in _WRITING_WITH_OPTIONS)


class ProtectedFiles:
    """Refuses changes of protected files by cells that the user has not approved, and by threads
    and tasks that these cells started. Sees what goes through the interpreter only."""

    def __init__(self, attribution: CellAttribution) -> None:
        self._attribution = attribution
        self._guarded_cells: set[int] = set()
        self.protect_from_programs: Callable[[], bool] = lambda: False
        """Called before such code starts a program or a process, perhaps after its cell; returns
        whether what that changes is refused, too."""

    def guard(self, cell: int) -> None:
        """Refuse changes by a cell from now on."""
        self._guarded_cells.add(cell)

    def is_guarded(self, cell: int) -> bool:
        """Return whether changes by a cell are refused."""
        return cell in self._guarded_cells

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event. Raises `PermissionError`, which ends the operation."""
        if not self._guarded_cells or self._attribution.caller_cell() not in self._guarded_cells:
            return
        if event in _COMMAND_EVENTS or event in _FORK_EVENTS:
            is_covered = self.protect_from_programs()
            if event in _COMMAND_EVENTS and not is_covered:
                _check_command(_started_command(args), _start_folder(event, args))
        if event == "open" and _opens_protected_folder(*args):
            raise PermissionError(
                f"{to_text(args[0])} may be a folder with protected files: only code that the user has"
                " approved by hand may open it with `os.open`. Read a file with `open`"
            )
        for path in _changed_paths(event, args):
            if leads_to_protected(path):
                raise PermissionError(
                    f"{path} is protected: only code that the user has approved by hand may change"
                    " it. Write its path as plain text in the code, and the user will be asked"
                )


def _check_command(command: str, folder: str) -> None:
    """Refuse a command whose text does not show that it changes no protected file. Raises
    `PermissionError`. folder: as for `paths_changed_by_command`."""
    part = unreadable_part_of_command(command)
    if part:
        raise PermissionError(
            f"The command may change protected files: what {part} stands for shows only when it runs."
            " Write the whole command as plain text in the code, and the user will be asked"
        )
    deadline = time.monotonic() + _MAX_MATCHING_S
    for index, path in enumerate(_matching_files(command, folder)):
        if time.monotonic() > deadline:
            raise PermissionError(_TOO_MANY_FILES)
        if is_protected(path) or (index < _MAX_RESOLVED_MATCHES and leads_to_protected(path)):
            raise PermissionError(
                f"{path} is protected: only code that the user has approved by hand may change it."
                " Name the files in the command, and the user will be asked"
            )


def _changed_paths(event: str, args: tuple[Any, ...]) -> Iterator[str]:
    """Yield the paths that an operation may change."""
    if event == "open":
        path, mode, flags = args
        if type(path) is not int and _is_opened_for_writing(mode, flags):
            yield to_text(path)
        return
    if event in _FORK_EVENTS:
        return
    if event in _COMMAND_EVENTS:
        yield from paths_changed_by_command(_started_command(args), _start_folder(event, args))
        return

    has_two_paths = event in _TWO_PATHS_EVENTS
    for path in args[:2] if has_two_paths else args[:1]:
        if type(path) is int:  # a descriptor
            continue
        text = to_text(path)
        yield text
        # Whoever replaces or moves a whole repository replaces its hooks, also one in `.git`.
        if has_two_paths and may_be_repository(text) and not os.path.isfile(to_text(args[0])):
            yield f"{text}/hooks"


def may_be_repository(path: str) -> bool:
    """Return whether a path leads to a folder `.git`, or into one to where nested repositories are."""
    parts = _lower_parts(path)
    return ".git" in parts and (parts[-1] == ".git" or not _NESTED_REPOSITORIES.isdisjoint(parts))


def _started_command(args: tuple[object, ...]) -> str:
    """Return the shell command that starts the same program. args: of an event that starts one."""
    if len(args) == 1:
        command = args[0]
        # For the terminal, it is a program with its arguments.
        if isinstance(command, (list, tuple)):
            return join_words([to_text(word) for word in command])
        return to_text(command)

    # The first word of a program's arguments is a name that it may ignore.
    program = to_text(args[0])
    if isinstance(args[1], (list, tuple)):
        words = args[1]
    else:
        words = [args[1]]
    return join_words([program, *map(to_text, words[1:])])


def _start_folder(event: str, args: tuple[object, ...]) -> str:
    """Return the folder in which a program starts; empty for the working folder. The parameters are
    those of the event."""
    folder = args[2] if event == "subprocess.Popen" else None
    return "" if folder is None else to_text(folder)


def _opens_protected_folder(path: object, mode: object, flags: int) -> bool:
    """Return whether a folder may be opened that has protected files in it or beside it: paths that
    begin in it, as with ``dir_fd``, do not show where they lead. The parameters are those of the
    event."""
    # Only `os.open`, which has no mode, opens folders.
    if mode is not None or type(path) is int:
        return False
    if flags & _FOLDER_REFUSING_FLAGS and not flags & _PATH_ONLY_FLAG:
        return False

    text = to_text(path)
    # Where a relative path begins is not part of the event: it may be any folder.
    if _is_in_folder_above_protected(os.path.normpath(text)) and not os.path.isabs(text):
        return True
    resolved = resolve_path(text)
    folders = [os.path.normpath(text)]
    if resolved is not None:
        folders.append(resolved.as_written)
    return any(map(_is_in_folder_above_protected, folders)) and not os.path.isfile(text)


def _is_in_folder_above_protected(path: str) -> bool:
    """Return whether a path is that of a folder with protected files, or leads through one."""
    return not _FOLDERS_ABOVE_PROTECTED.isdisjoint(_lower_parts(path))


def _is_opened_for_writing(mode: object, flags: int) -> bool:
    """Return whether a file is opened to be written.

    Args:
        mode: The mode of `open`; None for `os.open`.
        flags: The flags of `os.open`.
    """
    if type(mode) is str:
        return any(letter in mode for letter in "wax+")
    return bool(flags & _WRITE_FLAGS)
