"""Files that read-only code may not read, wherever the project is: keys, passwords, our settings,
profiles of browsers. Landlock allows whole folders, so a folder that contains such places is
allowed entry by entry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

_PRIVATE_IN_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".mahtab", ".password-store"),
    *(".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc"),
    *(".config/gcloud", ".config/gh", ".config/op", ".local/share/keyrings", "Library/Keychains"),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/vivaldi"),
    *(".config/BraveSoftware", ".config/microsoft-edge", "snap/firefox", "snap/chromium"),
    *("Library/Application Support/Firefox", "Library/Application Support/Google/Chrome"),
    "Library/Safari",
)
_PRIVATE_IN_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/etc/shadow", "/etc/ssh")
_USERS_FOLDERS = ("/home", "/Users", "/root")
"""In them, only the user's own folder is read."""
_HARMLESS_ENV_ENDINGS = (".example", ".sample", ".template", ".dist")
MAX_ENTRIES = 2_000
"""Entries of a folder to look at; later ones cannot be read."""


class ReadablePaths(NamedTuple):
    """Resolved paths that code may read."""

    whole: list[str]
    """Files, and folders with everything in them."""
    listed: list[str]
    """Folders whose names may be listed, but of which only some files are in `whole`."""

    def contains(self, path: str) -> bool:
        """Return whether a resolved path may be read."""
        return any(_is_inside(path, folder) for folder in self.whole)


def is_env_file(path: str) -> bool:
    """Return whether a path is that of a file with variables of the environment."""
    name = os.path.basename(path)
    is_env = name == ".env" or name.startswith(".env.")
    return is_env and not name.endswith(_HARMLESS_ENV_ENDINGS)


def readable_paths(project: str, others: Iterable[str] = ()) -> ReadablePaths:
    """Return what may be read of the project's folder and of other files and folders, without the
    private places in them. Files of the environment are looked for in the project only."""
    home = os.path.realpath(os.path.expanduser("~"))
    private = {os.path.realpath(os.path.join(home, name)) for name in _PRIVATE_IN_HOME}
    private.update(_PRIVATE_IN_SYSTEM)
    result = ReadablePaths([], [])
    project = os.path.realpath(project)
    with suppress(OSError):
        _add_readable(result, project, home, private, has_env_files=True)
    for path in map(os.path.realpath, dict.fromkeys(others)):
        if result.contains(path):
            continue
        with suppress(OSError):
            has_env_files = _is_inside(project, path)
            _add_readable(result, path, home, private, has_env_files=has_env_files)
    return result


def _add_readable(
    result: ReadablePaths, path: str, home: str, private: set[str], *, has_env_files: bool = False
) -> None:
    """Add a resolved path, or what of it may be read. private: places that may not.
    has_env_files: whether to look for files of the environment."""
    if is_env_file(path) or any(_is_inside(path, place) for place in private):
        return
    if path in _USERS_FOLDERS and not _is_inside(home, path):
        return
    if any(_is_inside(place, path) for place in (home, *private)):
        for entry in _visible_entries(path, home):
            _add_readable(result, entry, home, private, has_env_files=has_env_files)
        return

    env_folders = list(_folders_with_env_files(path)) if has_env_files else []
    if not env_folders:
        result.whole.append(path)
        return
    result.listed.append(path)
    _add_entries(result, path, frozenset(env_folders))


def _add_entries(result: ReadablePaths, folder: str, env_folders: frozenset[str]) -> None:
    """Add the entries of a folder one by one, because there are files of the environment in it.
    env_folders: the folder, and those in it, for which this is so."""
    for entry in sorted(os.listdir(folder))[:MAX_ENTRIES]:
        path = os.path.join(folder, entry)
        if path in env_folders:
            _add_entries(result, path, env_folders)
        elif not is_env_file(path) and not os.path.islink(path):
            result.whole.append(path)


def _folders_with_env_files(project: str) -> Iterator[str]:
    """Yield the project's folder and those directly in it, if files of the environment are there
    or below."""
    if not os.path.isdir(project):
        return
    with os.scandir(project) as entries:
        folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    env_folders = [folder for folder in folders[:MAX_ENTRIES] if _has_env_file(folder)]
    if env_folders or _has_env_file(project):
        yield project
        yield from env_folders


def _has_env_file(folder: str) -> bool:
    with suppress(OSError):
        return any(map(is_env_file, os.listdir(folder)))
    return False


def _visible_entries(folder: str, home: str) -> Iterator[str]:
    """Yield the resolved entries of a folder that contains private places, without hidden ones and
    links that lead out of it or to hidden ones."""
    if folder in _USERS_FOLDERS and folder != home:
        yield home
        return
    names = (name for name in sorted(os.listdir(folder)) if not name.startswith("."))
    for _, name in zip(range(MAX_ENTRIES), names):
        path = os.path.join(folder, name)
        target = os.path.realpath(path)
        if target == path:
            yield path
        elif _is_inside(target, folder):
            inner_parts = os.path.relpath(target, folder).split(os.sep)
            if not any(part.startswith(".") for part in inner_parts):
                yield target


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
