"""The order in which an undo changes places: each as soon as nothing is in its way.

A place may have to wait: until what it leads to now has got its last other place, because it may have no other name;
until a folder is where it belongs; or until a folder that goes has nothing more in it that changes. Places that
wait for each other, such as two files that exchange their names, are blocked: one of them has to be moved aside.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from .nodes import Name, Node


class PlaceQueue:
    """The places that are still to change."""

    def __init__(self, names: Iterable[Name], final: Mapping[Name, Node | None]) -> None:
        """Begin with all places ready.

        Args:
            names: The places.
            final: What each of them leads to in the end.
        """
        self._final = final
        self._pending = dict.fromkeys(names)
        self._ready = deque(self._pending)
        """Places to be tried next."""
        self._waiting: dict[Node, list[Name]] = {}
        """Places that wait for a file or folder."""
        self._blocked: deque[Name] = deque()
        """Places whose file or folder waits for another place."""
        self._awaited = Counter(final[name] for name in self._pending)
        """How many places are still to lead to each file or folder."""
        self._changes_in = Counter(name.folder for name in self._pending)
        """How many places in each folder are still to change."""

    def __contains__(self, name: Name | None) -> bool:
        """Return whether a place is still to change."""
        return name in self._pending

    @property
    def pending(self) -> list[Name]:
        """The places that are still to change."""
        return list(self._pending)

    def pop_ready(self) -> Name | None:
        """Return the next place to be tried; None if all of them wait."""
        return self._pop(self._ready)

    def pop_blocked(self) -> Name | None:
        """Return the next place from which something is to be moved aside; None if there is none."""
        return self._pop(self._blocked)

    def _pop(self, names: deque[Name]) -> Name | None:
        while names:
            name = names.popleft()
            if name in self._pending:
                return name
        return None

    def retry(self, name: Name) -> None:
        """Try a place once more."""
        self._ready.append(name)

    def block(self, name: Name) -> None:
        """Note that what a place leads to waits for another place."""
        self._blocked.append(name)

    def wait(self, name: Name, nodes: Iterable[Node]) -> None:
        """Try a place again after something has happened to one of some files and folders."""
        for node in nodes:
            self._waiting.setdefault(node, []).append(name)

    def wake(self, node: Node) -> None:
        """Try the places again that wait for a file or folder."""
        self._ready += self._waiting.pop(node, ())

    def settle(self, name: Name) -> None:
        """Note that nothing more is to be tried for a place."""
        del self._pending[name]
        node = self._final[name]
        self._awaited[node] -= 1
        if node is not None and not self._awaited[node]:
            self.wake(node)
        self._changes_in[name.folder] -= 1
        if not self._changes_in[name.folder]:
            self.wake(name.folder)

    def is_awaited(self, node: Node, name: Name) -> bool:
        """Return whether another place than this one is still to lead to a file or folder."""
        is_for_name = name in self._pending and self._final[name] is node
        return self._awaited[node] > int(is_for_name)

    def has_changes_in(self, folder: Node) -> bool:
        """Return whether a place in a folder is still to change."""
        return self._changes_in[folder] > 0
