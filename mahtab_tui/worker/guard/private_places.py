"""Files that read-only code may not read, wherever the project is: keys, passwords, our settings,
profiles of browsers. Landlock allows whole folders, so a folder that contains such places is
allowed entry by entry."""

from __future__ import annotations

import errno
import os
import pwd
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, wraps
from typing import Any, NamedTuple

from .side_effects import to_text

_readlink = os.readlink  # as it was before the user's code ran
_realpath = os.path.realpath

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
_CHANGING_PLACES = ("/proc", "/dev")
"""Links in them depend on the process: its working folder and its open files."""
_USERS_FOLDERS = ("/home", "/Users", "/root")
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
_FOLDERS_OF_TOOLS = frozenset((".git", "__pycache__", "node_modules", "site-packages"))
"""Private entries are not looked for in them."""
MAX_SCANNED_FOLDERS = 2_000
"""Folders of a project in which private entries are looked for, those above first."""
MAX_ENTRIES = 2_000
"""Entries of a folder to look at; later ones cannot be read."""


class ReadablePaths(NamedTuple):
    """Resolved paths that code may read."""

    whole: list[str]
    """Files, and folders with everything in them."""
    listed: list[str]
    """Folders whose names may be listed, though only some of their files are in `whole`."""
    private: frozenset[str] = frozenset()
    """Private places in home folders, resolved."""

    def contains(self, path: str) -> bool:
        """Return whether a resolved path may be read."""
        return any(_is_inside(path, folder) for folder in self.whole)


def is_env_file(path: str) -> bool:
    """Return whether a path is that of a file with variables of the environment."""
    name = os.path.basename(path).lower()  # some file systems ignore case
    is_env = name == ".env" or name.startswith(".env.")
    return is_env and not name.endswith(_HARMLESS_ENV_ENDINGS)


def is_private_anywhere(path: str) -> bool:
    """Return whether a path, as it is written, leads to or through a file or folder that is private in
    any folder."""
    return not _PRIVATE_ANYWHERE.isdisjoint(path.lower().split(os.sep))


def _is_private_entry(path: str) -> bool:
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
    for folder in _USERS_FOLDERS[:2]:
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


def _is_private_in_any_home(path: str) -> bool:
    """Return whether a resolved path is in a private place of a home folder. Looks at no file."""
    return any(
        _is_inside(path, os.path.join(home, name))
        for home in home_folders().intersection(_with_parents(path))
        for name in _PRIVATE_IN_HOME
    )


def _with_parents(path: str) -> Iterator[str]:
    """Yield an absolute path, and the folders that it is in."""
    yield path
    while path.strip(os.sep):
        path = os.path.dirname(path)
        yield path


class PrivateFileGuard:
    """Lets Python's own functions describe no file in a private place: Landlock only refuses what is
    in files. Native code is not stopped."""

    _FUNCTIONS = ("stat", "lstat", "access")
    _SETS_OF_FUNCTIONS = (
        "supports_dir_fd",
        "supports_effective_ids",
        "supports_fd",
        "supports_follow_symlinks",
    )

    def __init__(self, on_refusal: Callable[[str], object], places: Iterable[str]) -> None:
        """
        Args:
            on_refusal: Called with each path that is refused.
            places: Resolved paths of private places, other than those in any home folder.
        """
        self._on_refusal = on_refusal
        self._folders = tuple(place + os.sep for place in places)
        self._resolving = threading.local()
        """Its `is_active` says whether this thread resolves a path, by functions of `os`."""

    def install(self, os_module: Any) -> None:
        """Replace functions of `os`, which is that of the user's code."""
        for name in self._FUNCTIONS:
            function = getattr(os_module, name)
            guarded_function = self._guard(function)
            setattr(os_module, name, guarded_function)
            for set_name in self._SETS_OF_FUNCTIONS:
                functions = getattr(os_module, set_name)
                if function in functions:
                    functions.add(guarded_function)

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def describe(path: Any, *args: Any, **options: Any) -> Any:
            is_resolving = getattr(self._resolving, "is_active", False)
            if (
                type(path) is not int
                and not is_resolving
                and self._is_private(to_text(path), options.get("dir_fd"))
            ):
                self._on_refusal(to_text(path))
                raise PermissionError(errno.EACCES, "this place is private", to_text(path))
            return function(path, *args, **options)

        return describe

    def _is_private(self, path: str, folder_fd: int | None) -> bool:
        """Return whether a path leads to a private place.

        Args:
            folder_fd: The descriptor of the folder that the path is relative to, if there is one.
        """
        if folder_fd is not None:
            with suppress(OSError):
                path = os.path.join(_readlink(f"/proc/self/fd/{folder_fd}"), path)
        if is_private_anywhere(path):
            return True
        self._resolving.is_active = True
        try:
            resolved_paths = _resolve_entry(path)
        finally:
            self._resolving.is_active = False
        return any(
            is_private_anywhere(resolved)
            or f"{resolved}{os.sep}".startswith(self._folders)
            or _is_private_in_any_home(resolved)
            for resolved in resolved_paths
        )


def _resolve_entry(path: str) -> list[str]:
    """Return a path without links above its last part, and where it leads if that is a link.

    The system follows the links before each ``..``.
    """
    folder, name = os.path.split(path)
    # Of such a path, also the last part is followed.
    if name in ("", os.curdir, os.pardir):
        return [_realpath(path)]
    folder = folder or os.curdir
    may_change = not os.path.isabs(folder) or any(place in folder for place in _CHANGING_PLACES)
    real_folder = _realpath(folder) if may_change else _resolve_folder(folder)
    paths = [os.path.join(real_folder, name)]
    with suppress(OSError):  # not a link
        paths.append(_realpath(os.path.join(real_folder, _readlink(paths[0]))))
    return paths


@lru_cache(maxsize=10_000)
def _resolve_folder(folder: str) -> str:
    """Return a folder without links.

    A locked fork cannot change them, but those of the system in `_CHANGING_PLACES`.
    """
    return _realpath(folder)


def readable_paths(project: str, other_paths: Iterable[str] = ()) -> ReadablePaths:
    """Return what may be read of the project's folder and of other files and folders, without the
    private places in them. Files of the environment, and other entries that are private in any folder,
    are looked for in the project only."""
    home = os.path.realpath(os.path.expanduser("~"))
    project = os.path.realpath(project)
    other_paths = [os.path.realpath(path) for path in dict.fromkeys(other_paths)]
    places = private_in_homes([project, *other_paths])
    result = ReadablePaths([], [], frozenset(map(os.path.realpath, places)))
    private = {*result.private, *_PRIVATE_IN_SYSTEM}
    with suppress(OSError):
        _add_readable(result, project, home, private, is_scanned=True)
    for path in other_paths:
        if result.contains(path):
            continue
        with suppress(OSError):
            is_scanned = _is_inside(project, path)
            _add_readable(result, path, home, private, is_scanned=is_scanned)
    return result


def _add_readable(
    result: ReadablePaths, path: str, home: str, private: set[str], *, is_scanned: bool = False
) -> None:
    """Add a resolved path, or what of it may be read.

    Args:
        private: Places that may not.
        is_scanned: Whether to look for files and folders in it that are private by their names.
    """
    has_private_name = is_env_file(path) or is_private_anywhere(path)
    if has_private_name or any(_is_inside(path, private_place) for private_place in private):
        return
    if path in _USERS_FOLDERS and not _is_inside(home, path):
        return
    if any(_is_inside(private_place, path) for private_place in (home, *private)):
        for entry in _visible_entries(path, home):
            _add_readable(result, entry, home, private, is_scanned=is_scanned)
        return

    private_folders = []
    if is_scanned:
        private_folders = list(_folders_with_private_entries(path))
    if not private_folders:
        result.whole.append(path)
        return
    result.listed.append(path)
    _add_entries(result, path, frozenset(private_folders))


def _add_entries(result: ReadablePaths, folder: str, private_folders: frozenset[str]) -> None:
    """Add the entries of a folder one by one, because there are private ones in it.

    Args:
        private_folders: The folder, and those in it, for which this is so.
    """
    pending_folders = [folder]
    while pending_folders:
        folder = pending_folders.pop()
        for entry in sorted(os.listdir(folder))[:MAX_ENTRIES]:
            path = os.path.join(folder, entry)
            if path in private_folders:
                pending_folders.append(path)
            elif not _is_private_entry(path) and not os.path.islink(path):
                result.whole.append(path)


class _FolderScan(NamedTuple):
    folders: tuple[str, ...]
    """Paths of the folders in a folder, without links."""
    has_private_entry: bool


def _folders_with_private_entries(project: str) -> Iterator[str]:
    """Yield the folders of a project that have private entries in them or below."""
    private_folders: dict[str, None] = {}
    pending = deque([project])
    for _ in range(MAX_SCANNED_FOLDERS):
        if not pending:
            break
        folder = pending.popleft()
        try:
            scan = _scan_folder(folder, os.stat(folder).st_mtime_ns)
        except OSError:  # a file, or a folder that cannot be listed
            continue
        pending.extend(scan.folders)
        while (
            scan.has_private_entry and folder not in private_folders and _is_inside(folder, project)
        ):
            private_folders[folder] = None
            folder = os.path.dirname(folder)
    yield from private_folders


@lru_cache(maxsize=2 * MAX_SCANNED_FOLDERS)
def _scan_folder(folder: str, modified_ns: int) -> _FolderScan:
    """Return the folders in a folder, and whether it has a private entry.

    Args:
        folder: The folder.
        modified_ns: When the names in it changed last; another time is another scan for the cache.

    Raises:
        OSError: The folder cannot be read.
    """
    folders = []
    has_private_entry = False
    with os.scandir(folder) as entries:
        for entry in entries:
            has_private_entry = has_private_entry or _is_private_entry(entry.name)
            if entry.name not in _FOLDERS_OF_TOOLS and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return _FolderScan(tuple(folders), has_private_entry)


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
