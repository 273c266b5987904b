"""Tells which places read-only code may not read, wherever the project is: keys, passwords, our
settings, profiles of browsers.

`readable_paths` leaves them out of what a locked fork may read, and `private_file_guard` out of what
Python's functions describe there.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache

_realpath = os.path.realpath
"""As it was before the user's code ran."""

_PRIVATE_IN_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".mahtab", ".password-store"),
    *(".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc"),
    *(".config/gcloud", ".config/gh", ".config/op", ".local/share/keyrings", "Library/Keychains"),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/vivaldi"),
    *(".config/BraveSoftware", ".config/microsoft-edge", "snap/firefox", "snap/chromium"),
    *("Library/Application Support/Firefox", "Library/Application Support/Google/Chrome"),
    "Library/Safari",
)
PRIVATE_IN_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/etc/shadow", "/etc/ssh")
USERS_FOLDERS = ("/home", "/Users", "/root")
"""Folders in which only the user's own folder is read."""
_PRIVATE_ANYWHERE = frozenset(
    (
        *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"),
        *(".netrc", ".pgpass", ".git-credentials"),
    )
)
"""Names of files and folders that are private in any folder: a backup may contain them, or the home
folder of somebody whom this system does not know."""
_MAX_USERS = 1_000
"""Users whose home folders are looked up."""
_HARMLESS_ENV_ENDINGS = (".example", ".sample", ".template", ".dist")


def is_env_file(path: str) -> bool:
    """Return whether a path is that of a file with variables of the environment."""
    name = os.path.basename(path).lower()  # some file systems ignore case
    is_env = name == ".env" or name.startswith(".env.")
    return is_env and not name.endswith(_HARMLESS_ENV_ENDINGS)


def is_private_anywhere(path: str) -> bool:
    """Return whether a path, as it is written, leads to or through a file or folder that is private in
    any folder."""
    return not _PRIVATE_ANYWHERE.isdisjoint(path.lower().split(os.sep))


def is_private_entry(path: str) -> bool:
    """Return whether code may not read an entry of a project's folder because of its name."""
    return os.path.basename(path).lower() in _PRIVATE_ANYWHERE or is_env_file(path)


def private_in_homes(paths: Iterable[str]) -> list[str]:
    """Return the private places in the user's home folder, whether they exist or not, and those that
    exist in other home folders which contain one of the paths, or lie in one."""
    own_home = os.path.expanduser("~")
    own_places = [os.path.join(own_home, name) for name in _PRIVATE_IN_HOME]
    folders = set(paths)
    folders_above = {parent for folder in folders for parent in _with_parents(folder)}
    other_places = [
        os.path.join(home, name)
        for home in home_folders()
        if home in folders_above or not folders.isdisjoint(_with_parents(home))
        for name in _PRIVATE_IN_HOME
    ]
    return [*own_places, *filter(os.path.lexists, other_places)]


@lru_cache(maxsize=1)
def home_folders() -> frozenset[str]:
    """Return the home folders of this system's users.

    HOME may lead elsewhere, as with `sudo`. Looks at none of them, because each might be mounted
    for it, but at the folders they are in.
    """
    users: list[pwd.struct_passwd] = []
    with suppress(KeyError):  # a directory service may not list its users
        users.append(pwd.getpwuid(os.getuid()))
    users += pwd.getpwall()[:_MAX_USERS]
    homes = {user.pw_dir for user in users}
    for folder in USERS_FOLDERS[:2]:
        with suppress(OSError):
            homes.update(os.path.join(folder, name) for name in os.listdir(folder))
    homes = {home.rstrip(os.sep) or os.sep for home in homes if home.startswith(os.sep)}
    return frozenset(homes | _targets_of_links(homes))


def _targets_of_links(paths: set[str]) -> set[str]:
    """Return where paths lead that are links or lie in links, as the folders that they are in say."""
    names_by_folder: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        names_by_folder.setdefault(folder, set()).add(name)

    targets: set[str] = set()
    for folder, names in names_by_folder.items():
        real_folder = _realpath(folder)
        targets.update(os.path.join(real_folder, name) for name in names)
        with suppress(OSError), os.scandir(real_folder) as entries:
            targets.update(
                _realpath(entry.path)
                for entry in entries
                if entry.name in names and entry.is_symlink()
            )
    return targets


def is_private_in_any_home(path: str) -> bool:
    """Return whether a resolved path is in a private place of a home folder. Looks at no file."""
    return any(
        is_inside(path, os.path.join(home, name))
        for home in home_folders().intersection(_with_parents(path))
        for name in _PRIVATE_IN_HOME
    )


def _with_parents(path: str) -> Iterator[str]:
    """Yield an absolute path, and the folders that it is in."""
    yield path
    while path.strip(os.sep):
        path = os.path.dirname(path)
        yield path


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is that of a folder, or of something in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
