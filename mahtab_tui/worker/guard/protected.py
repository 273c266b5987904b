"""Keeps code that the user has not approved from changing protected files.

`ProtectedFiles` gets the interpreter's audit events. It ends an operation with `PermissionError` if one
of the paths that it may change (`audited_paths`) is protected (`protected_places`), and the start of a
program if its command may change such a path (`protected_commands`). What native code does past the
interpreter is for the witness to refuse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Callable

from ..cells.attribution import CellAttribution
from .audited_paths import FILE_EVENTS, changed_paths, changes_content
from .protected_commands import check_command, paths_changed_by_command
from .protected_places import (
    FOLDERS_ABOVE_PROTECTED,
    is_hard_link,
    leads_to_protected,
    lower_parts,
    resolve_path,
)
from .side_effects import to_text
from .started_programs import COMMAND_EVENTS, start_environment, start_folder, started_command

_FOLDER_REFUSING_FLAGS = os.O_WRONLY | os.O_RDWR
"""The system opens no folder with these, unless it is opened as a path only."""
_PATH_ONLY_FLAG: int = getattr(os, "O_PATH", 0)
_FORK_EVENTS = frozenset(("os.fork", "os.forkpty"))
EVENTS = FILE_EVENTS | COMMAND_EVENTS | _FORK_EVENTS
"""The audit events for `ProtectedFiles.check`."""


class ProtectedFiles:
    """Refuses changes of protected files by cells that the user has not approved, and by threads
    and tasks that these cells started. Sees what goes through the interpreter only."""

    def __init__(self, attribution: CellAttribution) -> None:
        self._attribution = attribution
        self._guarded_cells: set[int] = set()
        self.protect_from_programs: Callable[[], bool] = lambda: False
        """Called before such code starts a program or a process, perhaps after its cell. Returns
        whether changes by that program are also refused."""

    def guard(self, cell: int) -> None:
        """Refuse changes by a cell from now on."""
        self._guarded_cells.add(cell)

    def is_guarded(self, cell: int) -> bool:
        """Return whether changes by a cell are refused."""
        return cell in self._guarded_cells

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event. Raises `PermissionError`, which ends the operation."""
        # Most sessions have no guarded cell, and to find out who has caused an event takes time.
        if not self._guarded_cells or self._attribution.caller_cell() not in self._guarded_cells:
            return
        if event in COMMAND_EVENTS or event in _FORK_EVENTS:
            self._check_start(event, args)
        if event == "open" and _opens_protected_folder(*args):
            raise PermissionError(
                f"{to_text(args[0])} may be a folder with protected files: only code that the user has"
                " approved by hand may open it with `os.open`. Read a file with `open`"
            )
        if event in FILE_EVENTS:
            # A protected file may have a second name elsewhere, under which its content is changed.
            _refuse_protected(changed_paths(event, args), with_links=changes_content(event))

    def _check_start(self, event: str, args: tuple[Any, ...]) -> None:
        """Let a program or a process start under protection; where there is none for it, refuse
        commands that may change protected files. Refuse those that name one in any case."""
        is_protected = self.protect_from_programs()
        if event in _FORK_EVENTS:
            return
        command = started_command(args)
        folder = start_folder(event, args)
        if not is_protected:
            check_command(command, folder, start_environment(event, args))
        _refuse_protected(paths_changed_by_command(command, folder), with_links=False)


def _refuse_protected(paths: Iterable[str], *, with_links: bool) -> None:
    """Raise `PermissionError` if one of the paths that an operation may change is protected.

    Args:
        paths: The paths.
        with_links: Whether other names of protected files count, too.
    """
    for path in paths:
        if leads_to_protected(path) or (with_links and is_hard_link(path)):
            raise PermissionError(
                f"{path} is protected: only code that the user has approved by hand may change"
                " it. Write its path as plain text in the code, and the user will be asked"
            )


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
    normal_path = os.path.normpath(text)
    is_above_by_name = _is_in_folder_above_protected(normal_path)
    # Where a relative path begins is not part of the event: it may be any folder, so that nobody can
    # look whether the path is that of a file.
    if is_above_by_name and not os.path.isabs(text):
        return True
    resolved = resolve_path(text)
    is_above_by_link = resolved is not None and _is_in_folder_above_protected(resolved.as_written)
    return (is_above_by_name or is_above_by_link) and not os.path.isfile(text)


def _is_in_folder_above_protected(path: str) -> bool:
    """Return whether a path is that of a folder with protected files, or leads through one."""
    return not FOLDERS_ABOVE_PROTECTED.isdisjoint(lower_parts(path))
