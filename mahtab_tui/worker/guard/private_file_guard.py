"""Keeps Python's own functions from describing private files in a locked fork.

Landlock only refuses what is in files; their sizes and times can still be read. Native code is not
stopped.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, wraps
from typing import Any

from .private_places import is_private_anywhere, is_private_in_any_home
from .side_effects import to_text

# As they were before the user's code ran.
_readlink = os.readlink
_realpath = os.path.realpath

_CHANGING_PLACES = ("/proc", "/dev")
"""Links in them depend on the process: its working folder and its open files."""


class PrivateFileGuard:
    """Replaces functions of `os` by some that refuse private places."""

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
            or is_private_in_any_home(resolved)
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
