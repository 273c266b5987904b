"""What every model here has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ModelError(Exception):
    """The model cannot answer; the message is a sentence that says why and what to do."""


class ModelBusy(ModelError):
    """The service is overloaded, or its limit is reached: the same call may work in a moment."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        """pause: seconds that the service asks to be left alone, 0 where it does not say; None where the transport has asked again by itself."""
        super().__init__(message)
        self.pause = pause


class ContextTooLong(ModelError):
    """What the model was sent is more than it can read at once."""


@runtime_checkable
class Preparable(Protocol):
    """A model that answers sooner where it has been made ready."""

    def prepare(self, system: str) -> None:
        """Make it ready for a question with this system prompt; returns at once. Raises `ModelError`."""


@runtime_checkable
class SelfChecking(Protocol):
    """A model that checks its own answers better by another one."""

    @property
    def checker(self) -> BaseChatModel:
        """The model for checks."""

    def close_checker(self) -> None:
        """End what the model for checks holds: there are no more of them."""


@runtime_checkable
class Stoppable(Protocol):
    """A model whose generation can be ended from another thread."""

    def stop(self) -> None:
        """End the generation that runs; what came stays, the stream simply ends."""

    def close(self) -> None:
        """Let go of processes and connections."""
