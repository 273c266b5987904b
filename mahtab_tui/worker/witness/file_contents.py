"""The contents of files during an undo: keeps what they hold now, and gives them back what they held."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Callable

from .content_copying import copy_content, set_marks
from .journal import FileJournal
from .nodes import Node, Version
from .plan import UndoPlan
from .states import FILE, FOLDER, LINK, read_state
from .undo_decision import COPY_CHANGED

CHANGED_MEANWHILE = "something else has changed it meanwhile"


class FileContents:
    """Keeps and restores contents, permissions and times."""

    def __init__(self, journal: FileJournal, plan: UndoPlan) -> None:
        """Begin with nothing kept.

        Args:
            journal: Has the files, and the copies of their contents.
            plan: What to do. It gets the failures.
        """
        self._journal = journal
        self._nodes = journal.nodes
        self._plan = plan
        self._decision = plan.decision
        self.unkept: set[Node] = set()
        """Files of which no copy could be made, so that they must stay."""
        self._tried: set[Node] = set()
        """Files whose content was restored, or could not be."""

    def attempt(self, path: str, change: Callable[[], object]) -> bool:
        """Change something at a path; return whether that was possible. If not, the plan gets the reason."""
        try:
            change()
        except OSError as error:
            self._plan.failures.setdefault(path, f"it could not be restored ({error.strerror})")
            return False
        return True

    def keep(self, node: Node, path: str, contents: dict[Node, Version]) -> None:
        """Keep a file, as far as it would get lost.

        Args:
            node: The file.
            path: Where it is.
            contents: What files and folders become.
        """
        version = node.version
        if not self._decision.has_name(node):
            self._nodes.hold(node, path)
            copy = version.content.copy
            if not node.is_held and (copy is None or not copy.is_usable):
                self.unkept.add(node)
            return
        copies = self._journal.copies
        if self._decision.loses_known_names(node) and copies.can_name(node.seen):
            self._nodes.hold(node, path)
        if node in contents and contents[node].content is not version.content:
            self._keep_content(node, path)

    def _keep_content(self, node: Node, path: str) -> None:
        """Keep the content of a file that is written, or gives its name to another one."""
        content = node.version.content
        if content.copy is not None and content.copy.is_usable:
            return
        if not self._decision.is_shared(node):
            with suppress(OSError):
                content.copy = self._journal.copies.name(path, node.seen)
                node.see(read_state(path))
                return
        content.reason = ""
        self._nodes.copy(node.version, path)
        if content.reason:
            self.unkept.add(node)
            self._plan.failures[path] = content.reason

    def restore(self, nodes: Iterable[Node]) -> None:
        """Give files back what they held, and their permissions, unless that was tried before."""
        for node in nodes:
            version = self._decision.version(node)
            path = self._nodes.path_of(node)
            if node.version is version or node in self.unkept or node in self._tried:
                continue
            self._tried.add(node)
            self.attempt(path, partial(self._restore_content, node, version, path))

    def _restore_content(self, node: Node, version: Version, path: str) -> None:
        """Give a file back what it held. Raises `OSError`.

        Args:
            node: The file.
            version: What it was.
            path: Where it is.
        """
        if not read_state(path).looks_like(node.seen):
            raise OSError(errno.EBUSY, CHANGED_MEANWHILE)
        content = version.content
        if content is node.version.content or content.copy is None:
            self.restore_marks(node, version)
        elif self._decision.is_shared(node):
            self._write(node, version, path)
        else:
            self.make(node, path)

    def _write(self, node: Node, version: Version, path: str) -> None:
        """Write content into a file, for all its names and open descriptors. If that fails, write back what
        it held; raises `OSError` in any case."""
        old = node.version
        assert version.content.copy is not None
        try:
            copy_content(version.content.copy.path, path)
            set_marks(path, version.state)
        except OSError:
            if old.content.copy is not None and old.content.copy.is_usable:
                with suppress(OSError):
                    copy_content(old.content.copy.path, path)
                    set_marks(path, old.state)
                    node.see(read_state(path))
            raise
        node.version = version
        node.see(read_state(path))

    def restore_marks(self, node: Node, version: Version) -> None:
        """Give a file or folder its permissions, owner and time."""
        path = self._nodes.path_of(node)
        if node.kind == FOLDER:
            self._nodes.set_mode(node, stat.S_IMODE(version.state.mode))
        else:
            set_marks(path, version.state)
        node.version = version
        node.see(read_state(path))

    def make(self, node: Node, path: str) -> None:
        """Make a path a new file, link or pipe, in place of what it leads to. Raises `OSError`."""
        version = self._decision.version(node)
        with self._journal.copies.drafts.replacing(path) as draft:
            if node.kind == LINK:
                os.symlink(version.state.target, draft)
            elif node.kind == FILE:
                copy_content(self._content_path(node, version), draft)
                set_marks(draft, version.state)
            else:
                os.mkfifo(draft)
                set_marks(draft, version.state)
        self._note_made(node, version, path)

    def _content_path(self, node: Node, version: Version) -> str:
        """Return where a content of a file can be read. Raises `OSError`."""
        copy = version.content.copy
        if copy is not None and copy.is_usable:
            return copy.path
        if version.content is not node.version.content:
            raise OSError(errno.EBUSY, COPY_CHANGED)
        return self._nodes.path_of(node)

    def _note_made(self, node: Node, version: Version, path: str) -> None:
        """Note that a file exists again, as another one for the system."""
        state = read_state(path)
        self._nodes.assign(node, state)
        node.hold = None
        node.version = version
        node.see(state)
