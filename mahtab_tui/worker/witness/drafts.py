"""Files that an undo makes beside others, whose names they get when they are complete."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

MAX_NAME_BYTES = 255
"""Of a file's name, as on Linux."""
_DRAFT_NAME = re.compile(rb"\.[0-9]+\.[0-9]+\.restored\Z")
_END = b"\0"


class Drafts:
    """The drafts of an undo. They are listed in a file, so that none stays if the witness is killed."""

    def __init__(self, list_path: str) -> None:
        self._list_path = list_path
        self._is_listed = False

    def new_path(self, path: str, *, moved_from: str = "") -> str:
        """Return a path beside another one at which nothing is, however long its name is.

        Args:
            path: The other one.
            moved_from: Where that belongs which is moved there; empty for what is made there.
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
