"""Log and tree of a search, for its answer and its failure; fetched when they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Union

from .stdlib import late_import

if TYPE_CHECKING:
    from .contexts import NamedContext
    from .search_log import SearchCall

Packed = Union[bytes, "Callable[[], bytes]"]
"""A log as `search_log.packed` makes it, or a function that fetches it."""


class Logged:
    """Something that knows how its search went."""

    _packed: Packed = b""
    _contexts: tuple[NamedContext, ...] = ()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events of the search, as `mahtab-tui rlm --log` writes them: tag, text, time,
        attrs."""
        events: list[dict[str, Any]] = late_import(f"{__package__}.search_log").unpacked(
            self._fetched()
        )
        return events

    @property
    def tree(self) -> SearchCall | None:
        """The calls of the search, as data that `print` shows as a tree; None if it ended before
        the first."""
        root: SearchCall | None = late_import(f"{__package__}.search_log").tree_of(
            self.log, self._contexts
        )
        return root

    def _fetched(self) -> bytes:
        if not isinstance(self._packed, bytes):
            self._packed = self._packed()
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a stored variable needs: the log itself."""
        return {**self.__dict__, "_packed": self._fetched()}


class SearchFailed(Logged, RuntimeError):
    """A search has no answer; the message is a sentence saying why. `tree` and `log` tell how it
    went."""

    def __init__(
        self, why: str = "", packed: Packed = b"", contexts: tuple[NamedContext, ...] = ()
    ) -> None:
        super().__init__(why)
        self._packed = packed
        self._contexts = contexts

    def __reduce__(self) -> Any:
        # By a function: the class is named as if it were in builtins, which it leaves with the
        # kernel.
        return _failed, (str(self), self._fetched(), self._contexts)


def _failed(why: str, packed: bytes, contexts: tuple[NamedContext, ...]) -> SearchFailed:
    return SearchFailed(why, packed, contexts)
