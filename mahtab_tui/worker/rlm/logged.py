"""Results of searches that have a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Union

from ..stdlib import own_module

if TYPE_CHECKING:
    from .contexts import NamedContext
    from .search_log import SearchCall

Packed = Union[bytes, "Callable[[], bytes]"]
"""A log from `search_log.pack_events`, or a function that fetches it."""


class Logged:
    """A result with information about its search."""

    _packed: Packed = b""
    _contexts: tuple[NamedContext, ...] = ()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events of the search, as `mahtab-tui rlm --log` writes them: tag, text, time,
        attrs."""
        events: list[dict[str, Any]] = own_module("rlm.search_log").unpack_events(self._load_log())
        return events

    @property
    def tree(self) -> SearchCall | None:
        """The calls of the search, as data that `print` shows as a tree; None if it ended before
        the first."""
        tree: SearchCall | None = own_module("rlm.call_tree").build_tree(self.log, self._contexts)
        return tree

    @property
    def trajectory(self) -> list[dict[str, Any]]:
        """The calls of the search as plain data, parents first: id, query, answer, and turns with
        words, code, output and status."""
        return [call.as_dict() for call in self.tree or ()]

    def _load_log(self) -> bytes:
        if not isinstance(self._packed, bytes):
            self._packed = self._packed()
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": self._load_log()}
