"""Files that decide what later runs or is believed: our settings, rules, trust and skills, the
instructions for models, start files of shells, hooks of Git. No code of a model changes them unless
the user has approved that code by hand."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

MAX_PATH_CHARS = 4096
"""The system does not open longer paths."""

MAX_SEARCHED_ENTRIES = 50_000
"""Entries of a folder among which protected files are looked for; larger folders are not searched."""

_PROTECTED_FOLDERS = frozenset((".mahtab", ".claude", ".codex", ".ssh", ".ipython"))
_PROTECTED_SUBFOLDERS = frozenset(
    (
        *((".git", "hooks"), (".git", "config"), (".git", "config.worktree")),
        *((".git", "commondir"), (".config", "git"), (".config", "autostart")),
        *((".config", "systemd"), (".config", "environment.d"), (".config", "fish")),
        (".config", "less"),
        *((".config", "zsh"), (".config", "nushell"), ("etc", "profile"), ("etc", "profile.d")),
        *(("etc", "bash.bashrc"), ("etc", "bashrc"), ("etc", "zsh"), ("etc", "fish")),
    )
)
"""Pairs of parts of a path that follow each other."""
FOLDERS_ABOVE_PROTECTED = _PROTECTED_FOLDERS | {".git", ".config"}
"""Folders in which protected files have names that do not show it."""
_NESTED_REPOSITORIES = frozenset(("modules", "worktrees"))
"""Folders in `.git` with the hooks and settings of submodules and of other working trees."""
_GIT_SETTINGS = frozenset(("hooks", "config", "config.worktree", "commondir"))
"""Names in a repository's folder of what decides which programs Git starts."""
_GIT_CONTENTS = ("HEAD", "objects", "refs", "commondir", "gitdir")
"""What a repository's folder has, at least two of them."""
_MAX_PATH_PARTS = 100
"""Parts of a path that are looked at."""
_PROTECTED_FILES = frozenset(
    "agents.md claude.md skill.md .mcp.json .env .envrc .gitconfig"
    # Start files of shells and of sessions.
    " .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .login"
    " .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc"
    " .xsession .xsessionrc .xprofile .xinitrc .pam_environment .pdbrc"
    # Files in which `less` finds programs to start, besides `.config/less`.
    " .less .lesskey lesskey".split()
)
"""Names in lower case, because some file systems ignore case."""


class TooManyEntriesError(Exception):
    """A folder has more entries than are searched, so that protected files may be among them."""


class ResolvedPath(NamedTuple):
    """Where a text leads if it is used as a path: absolute, without links and ``..``."""

    as_written: str
    expanded: str
    """The path with the user's folder for ``~``, which some functions insert."""


def resolve_path(text: str) -> ResolvedPath | None:
    """Return the path that a text means; None if it cannot be one.

    Relative paths begin in the working folder.
    """
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
    """Return where a path leads.

    A file ``.git`` says where a repository's hooks and settings are, so that it stands for them,
    also before it is written.
    """
    folder = _working_folder()
    resolved = os.path.realpath(os.path.join(folder, path))
    if os.path.basename(resolved).lower() == ".git" and not os.path.isdir(resolved):
        return f"{resolved}/config"
    if is_git_setting(resolved, folder, ""):
        return f"{os.path.dirname(resolved)}/.git/config"
    return resolved


def _working_folder() -> str:
    """Return the working folder.

    A removed one still counts, because ``..`` leads out of it; if the system does not tell where it
    was, return the root folder.
    """
    with suppress(OSError):
        return os.getcwd()
    with suppress(OSError):
        return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")
    return "/"


def is_git_setting(path: str, folder: str, root: str) -> bool:
    """Return whether a path is that of a hook or of settings in a repository whose folder has another
    name than `.git`: a bare one, or one that a file `.git` names.

    Args:
        path: Absolute.
        folder: The working folder, in which such a file is looked for, as in those above.
        root: What stands before paths to reach the files.
    """
    parts = path.split("/")
    repositories = [
        "/".join(parts[:index])
        for index, part in enumerate(parts[:_MAX_PATH_PARTS])
        if part.lower() in _GIT_SETTINGS
    ]
    if not repositories:
        return False
    if any(is_git_folder(f"{root}{repository}") for repository in repositories):
        return True
    return not set(repositories).isdisjoint(_named_repositories(folder, root))


def is_git_folder(folder: str) -> bool:
    """Return whether a folder has what a repository has, whatever its name is."""
    return sum(os.path.lexists(f"{folder}/{name}") for name in _GIT_CONTENTS) > 1


def _named_repositories(folder: str, root: str) -> Iterator[str]:
    """Yield the folders that files `.git` name in a folder and above it.

    Args:
        root: As for `is_git_setting`.
    """
    for _ in range(_MAX_PATH_PARTS):
        if target := _read_git_file(f"{root}{folder}/.git"):
            yield os.path.normpath(os.path.join(folder, target))
        if folder in ("", "/"):
            return
        folder = os.path.dirname(folder)


def _read_git_file(path: str) -> str:
    """Return the folder that a file `.git` names; empty if there is no such file."""
    with suppress(OSError):
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(MAX_PATH_CHARS).partition("gitdir:")[2].strip()
    return ""


def resolve_paths(texts: Iterable[str]) -> list[ResolvedPath | None]:
    """Return the path that each text means, as `resolve_path` does."""
    return [resolve_path(text) for text in texts]


def is_protected(path: str) -> bool:
    """Return whether a path, as written or resolved, is that of a protected file or folder, or is
    inside such a folder."""
    parts = lower_parts(path)
    if not _PROTECTED_FOLDERS.isdisjoint(parts):
        return True
    if not _PROTECTED_SUBFOLDERS.isdisjoint(zip(parts, parts[1:])):
        return True
    if parts and parts[-1] in _PROTECTED_FILES:
        return True
    return _is_of_nested_repository(parts)


def lower_parts(path: str) -> list[str]:
    """Return the parts of a path in lower case.

    A bare repository, such as ``project.git``, has the same files as a folder ``.git``, and counts
    as one.
    """
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


def may_be_repository(path: str) -> bool:
    """Return whether a path leads to a folder `.git`, or into one to where nested repositories are."""
    parts = lower_parts(path)
    return ".git" in parts and (parts[-1] == ".git" or not _NESTED_REPOSITORIES.isdisjoint(parts))


def is_hard_link(path: str) -> bool:
    """Return whether a path is another name of a protected file that `well_known_links` finds."""
    with suppress(OSError, ValueError):
        status = os.stat(path)
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            return next(well_known_links(status, _working_folder()), "") != ""
    return False


def well_known_links(status: os.stat_result, folder: str) -> Iterator[str]:
    """Yield the protected files in the home folder, in a working folder and above it that are a given
    file. Links elsewhere are not found."""
    folders = [os.path.expanduser("~"), folder]
    while folder not in ("", "/"):
        folder = os.path.dirname(folder)
        folders.append(folder)
    for folder in folders:
        for inner_folder in ("", "/.git", "/.git/hooks", "/.mahtab"):
            yield from _protected_names_of(status, f"{folder}{inner_folder}")


def _protected_names_of(status: os.stat_result, folder: str) -> Iterator[str]:
    """Yield the protected files in a folder that are a given file."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not is_protected(entry.path) or entry.inode() != status.st_ino:
                continue
            if os.path.samestat(entry.stat(), status):
                yield entry.path


def protected_path_in(folder: str) -> str:
    """Return the path of a protected file or folder inside a folder; empty if there is none.

    Raises `TooManyEntriesError` if neither is known.
    """
    if is_git_folder(folder):
        return f"{folder}/config"
    for inner_path in inner_paths(folder):
        path = f"{folder.rstrip('/')}/{inner_path}"
        if is_protected(path):
            return path
        if path.endswith("/HEAD") and is_git_folder(os.path.dirname(path)):
            return f"{os.path.dirname(path)}/config"
    return ""


def inner_paths(folder: str) -> Iterator[str]:
    """Yield the paths of what is in a folder, relative to it, those above first.

    Raises `TooManyEntriesError` after `MAX_SEARCHED_ENTRIES`.
    """
    pending_folders = deque([""])
    count = 0
    while pending_folders:
        inner_folder = pending_folders.popleft()
        for entry in _entries(os.path.join(folder, inner_folder)):
            count += 1
            if count > MAX_SEARCHED_ENTRIES:
                raise TooManyEntriesError(folder)
            inner_path = os.path.join(inner_folder, entry.name)
            yield inner_path
            if entry.is_dir(follow_symlinks=False):
                pending_folders.append(inner_path)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder, as far as it can be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        yield from entries
