"""Files that an undo makes beside others, whose names they get when they are complete."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

MAX_NAME_BYTES = 255
"""A file's name has at most this many bytes on Linux."""
_DRAFT_NAME = re.compile(rb"\.[0-9]+\.[0-9]+\.restored\Z")
_END = b"\0"


class Drafts:
    """The drafts of an undo. They are listed in a file, so that none stays if the witness is killed."""

    def __init__(self, list_path: str) -> None:
        self._list_path = list_path
        self._is_listed = False

    def new_path(self, path: str, *, moved_from: str = "") -> str:
        """Return the path of a new draft, at which nothing is. It lies in the folder of the file whose
        place it takes, and its name is not too long even if that of the file is the longest possible.

        Args:
            path: The path of that file.
            moved_from: The path of a file that is moved to the draft's path, to which it returns if the
                witness is killed; empty if the draft is a new file, which is removed then.
        """
        folder, name = os.path.split(path)
        for number in count():
            suffix = f".{os.getpid()}.{number}.restored"
            short_name = os.fsdecode(os.fsencode(name)[: MAX_NAME_BYTES - len(suffix)])
            draft = os.path.join(folder, short_name + suffix)
            if not os.path.lexists(draft):
                self._list(draft, moved_from)
                return draft
        raise AssertionError

    @contextmanager
    def replacing(self, path: str) -> Iterator[str]:
        """Give a path at which something can be made, which then takes the place of what is at another
        one. If that fails, nothing stays. Raises `OSError`."""
        draft = self.new_path(path)
        try:
            yield draft
            os.rename(draft, path)
        finally:
            with suppress(OSError):  # it has its place
                os.unlink(draft)

    def _list(self, draft: str, moved_from: str) -> None:
        # Without the list, a draft stays only if the witness is killed.
        with suppress(OSError), open(self._list_path, "ab") as file:
            file.write(os.fsencode(draft) + _END + os.fsencode(moved_from) + _END)
            self._is_listed = True

    def forget(self) -> None:
        """Forget the drafts, because the undo has ended."""
        if self._is_listed:
            with suppress(OSError):
                os.unlink(self._list_path)
            self._is_listed = False


def remove_drafts(list_path: str) -> None:
    """Remove what a killed witness has made, and return what it has moved to where it was."""
    try:
        with open(list_path, "rb") as file:
            paths = file.read().split(_END)
    except OSError:
        return
    for draft, origin in zip(paths[::2], paths[1::2]):
        with suppress(OSError):
            if not _DRAFT_NAME.search(draft):
                continue
            if not origin:
                os.unlink(draft)
            elif not os.path.lexists(origin) and not is_protected_path(origin):
                os.rename(draft, origin)


def is_protected_path(path: bytes) -> bool:
    """Return whether a file or folder decides what later runs, so that no list of a killed witness may
    say what happens to it."""
    from ..guard.protected_places import is_protected

    return is_protected(os.fsdecode(path))
