"""Files that read-only code may not read, wherever the project is: keys, passwords, our settings,
profiles of browsers. Landlock allows whole folders, so a folder that contains such places is
allowed entry by entry."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, wraps
from typing import Any, NamedTuple

from .side_effects import to_text

_readlink = os.readlink  # as it was before the user's code ran

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
_FOLDERS_OF_TOOLS = frozenset((".git", "__pycache__", "node_modules", "site-packages"))
"""Files of the environment are not looked for in them."""
MAX_ENV_FOLDERS = 2_000
"""Folders of a project in which files of the environment are looked for, those above first."""
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


def private_in_home() -> list[str]:
    """Return the private places in the user's home folder, whether they exist or not."""
    home = os.path.expanduser("~")
    return [os.path.join(home, name) for name in _PRIVATE_IN_HOME]


class PrivateFileGuard:
    """Lets Python's own functions describe no file in a private place: Landlock only refuses what is
    in files. Native code, and paths through links, are not stopped."""

    _FUNCTIONS = ("stat", "lstat", "access")
    _SETS_OF_FUNCTIONS = (
        "supports_dir_fd",
        "supports_effective_ids",
        "supports_fd",
        "supports_follow_symlinks",
    )

    def __init__(self, on_refusal: Callable[[str], object]) -> None:
        """on_refusal: called with each path that is refused."""
        self._on_refusal = on_refusal
        places = [*private_in_home(), *map(os.path.realpath, private_in_home())]
        self._folders = tuple(place + os.sep for place in places)

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
            if type(path) is not int and self._is_private(to_text(path), options.get("dir_fd")):
                self._on_refusal(to_text(path))
                raise PermissionError(errno.EACCES, "this place is private", to_text(path))
            return function(path, *args, **options)

        return describe

    def _is_private(self, path: str, folder_fd: int | None) -> bool:
        """folder_fd: The descriptor of the folder that the path is relative to."""
        if folder_fd is not None:
            with suppress(OSError):
                path = os.path.join(_readlink(f"/proc/self/fd/{folder_fd}"), path)
        # `abspath` keeps two slashes at the beginning, which Linux takes for one.
        absolute_path = os.sep + os.path.abspath(path).lstrip(os.sep)
        return f"{absolute_path}{os.sep}".startswith(self._folders)


def readable_paths(project: str, other_paths: Iterable[str] = ()) -> ReadablePaths:
    """Return what may be read of the project's folder and of other files and folders, without the
    private places in them. Files of the environment are looked for in the project only."""
    home = os.path.realpath(os.path.expanduser("~"))
    private = {*map(os.path.realpath, private_in_home()), *_PRIVATE_IN_SYSTEM}
    result = ReadablePaths([], [])
    project = os.path.realpath(project)
    with suppress(OSError):
        _add_readable(result, project, home, private, has_env_files=True)
    for path in map(os.path.realpath, dict.fromkeys(other_paths)):
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
    if is_env_file(path) or any(_is_inside(path, private_place) for private_place in private):
        return
    if path in _USERS_FOLDERS and not _is_inside(home, path):
        return
    if any(_is_inside(private_place, path) for private_place in (home, *private)):
        for entry in _visible_entries(path, home):
            _add_readable(result, entry, home, private, has_env_files=has_env_files)
        return

    env_folders = []
    if has_env_files:
        env_folders = list(_folders_with_env_files(path))
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


class _FolderScan(NamedTuple):
    folders: tuple[str, ...]
    """Paths of the folders in a folder, without links."""
    has_env_file: bool


def _folders_with_env_files(project: str) -> Iterator[str]:
    """Yield the folders of a project that have files of the environment in them or below."""
    env_folders: dict[str, None] = {}
    pending = deque([project])
    for _ in range(MAX_ENV_FOLDERS):
        if not pending:
            break
        folder = pending.popleft()
        try:
            scan = _scan_folder(folder, os.stat(folder).st_mtime_ns)
        except OSError:  # a file, or a folder that cannot be listed
            continue
        pending.extend(scan.folders)
        while scan.has_env_file and folder not in env_folders and _is_inside(folder, project):
            env_folders[folder] = None
            folder = os.path.dirname(folder)
    yield from env_folders


@lru_cache(maxsize=2 * MAX_ENV_FOLDERS)
def _scan_folder(folder: str, modified_ns: int) -> _FolderScan:
    """Raises `OSError`. modified_ns: when the names in the folder changed last."""
    folders = []
    has_env_file = False
    with os.scandir(folder) as entries:
        for entry in entries:
            has_env_file = has_env_file or is_env_file(entry.name)
            if entry.name not in _FOLDERS_OF_TOOLS and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return _FolderScan(tuple(folders), has_env_file)


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
