"""Errors of models, and interfaces that only some models implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ModelError(Exception):
    """The model cannot answer; the message is a sentence saying why and what to do."""


class ModelBusy(ModelError):
    """The service is overloaded or its limit is reached; the same call may work in a moment."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        """pause: seconds to wait before the next try, 0 if the service does not say; None if the
        transport has already retried."""
        super().__init__(message)
        self.pause = pause


class ContextTooLong(ModelError):
    """The messages exceed the model's context window."""


@runtime_checkable
class Preparable(Protocol):
    """A model that answers sooner if it has been prepared."""

    def prepare(self, system: str) -> None:
        """Prepare for a question with this system prompt, in the background. Raises
        `ModelError`."""


@runtime_checkable
class SelfChecking(Protocol):
    """A model that provides another model to check its answers."""

    @property
    def checker(self) -> BaseChatModel:
        """The model for checks."""

    def close_checker(self) -> None:
        """Close the model for checks."""


@runtime_checkable
class Stoppable(Protocol):
    """A model whose generation can be stopped from another thread."""

    def stop(self) -> None:
        """Stop the running generation: its stream ends, and what has come stays."""

    def close(self) -> None:
        """Close processes and connections."""
