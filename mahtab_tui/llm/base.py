"""What all models have in common: their errors, and that they can be prepared and stopped."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import Message
from typing import Any, Protocol, runtime_checkable

MAX_ANSWER_CHARS = 2_000_000
"""Characters of an answer, with its thinking, unless the settings say otherwise."""


class ModelError(Exception):
    """The model cannot answer; the message is a sentence saying why and what to do."""


class ModelBusy(ModelError):
    """The service is overloaded or its limit is reached; the same call may work in a moment."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        """
        Args:
            pause: Seconds to wait before the next try; None if the transport has already retried.
        """
        super().__init__(message)
        self.pause = pause


class ContextTooLong(ModelError):
    """The messages exceed the model's context window."""


@runtime_checkable
class Preparable(Protocol):
    """A model that can get ready before it is asked."""

    def prepare(self, system: str) -> None:
        """Prepare for a question with this system prompt, in the background.

        Raises `ModelError`.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A model whose answer any thread can stop."""

    def stop(self) -> None:
        """Stop the running generation: its stream ends, and what has come stays."""

    def close(self) -> None:
        """Close processes and connections."""


class ServiceError(Exception):
    """What a service answered instead of a model's answer."""

    def __init__(
        self, body: object, status: int | None = None, headers: Message | None = None
    ) -> None:
        """
        Args:
            body: The body of the response: decoded JSON, or the bytes.
            status: The status of HTTP; None in the middle of an answer.
            headers: The headers of the response, if there are any.
        """
        super().__init__("")
        self.body = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        self.status_code = status
        self.headers = headers


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def make_encodable(text: str) -> str:
    """Return text that can be encoded: surrogate pairs are joined, lone surrogates become
    U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
