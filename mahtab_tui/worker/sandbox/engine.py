"""The search engine, as code in a sandbox sees it: calls, their answers, and the end of the
code."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol


class CallError(Exception):
    """The engine refused a call; the message is a sentence for the author of the code."""


class EngineHost(Protocol):
    """Any thread of the sandboxed code may call both methods."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallError`."""

    def send(self, name: str, args: dict[str, object]) -> None:
        """Send a message that has no answer."""


class _AwaitableAnswer:
    """May be awaited, as answers in other programs for searches must be. It is there already."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, object]:
        return self
        yield  # makes this function a generator, as `__await__` must be


class SubAnswer(_AwaitableAnswer, str):
    """The answer of a sub-call: a str."""

    failed = False
    """Whether the text says why there is no answer."""


class AnswerList(_AwaitableAnswer, list[SubAnswer]):
    """The answers of several sub-calls."""


class Final(BaseException):
    """Ends the code after FINAL."""


def to_answer(reply: dict[str, object]) -> SubAnswer:
    """Return the engine's reply to a sub-call as code gets it.

    Args:
        reply: "text" and "failed".
    """
    text = str(reply["text"])
    if reply["failed"] and not text.startswith("[failed"):
        text = f"[failed: {text}]"
    answer = SubAnswer(text)
    answer.failed = bool(reply["failed"])
    return answer
