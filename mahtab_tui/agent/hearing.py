"""One answer of a model, heard to its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from mahtab_tui.llm.base import ModelError, Stoppable
from mahtab_tui.llm.chunks import encodable, is_cut
from mahtab_tui.llm.usage import usage_attrs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_NOTICE_WITHIN = 0.1
"""Seconds after which a stop is noticed while a model that cannot be stopped is silent."""


class Answer(NamedTuple):
    """What a model said."""

    text: str
    stopped: bool
    """The person ended it."""
    cut: bool
    """It reached the model's limit of tokens."""
    failure: str
    """Why the model failed, as a sentence; else empty."""
    usage: dict[str, Any] | None
    """What it cost, as attributes of a `usage` record; None where the model did not say."""

    @property
    def ended(self) -> bool:
        """Whether the model ended it by itself."""
        return not (self.stopped or self.cut or self.failure)


def hear(
    llm: BaseChatModel, messages: Sequence[AnyMessage], cancelled: threading.Event, on_token: Callable[[str], object] = lambda token: None
) -> Answer:
    """Listen until the answer ends, the turn is cancelled, or the model fails; the tokens that were told are what was said until then."""
    tokens: list[str] = []
    usage: UsageMetadata | None = None
    metadata: dict[str, Any] = {}
    failure = ""
    try:
        for chunk in _chunks(llm, messages, cancelled):
            if not cancelled.is_set() and (token := str(chunk.text)):
                tokens.append(token)
                on_token(token)
            if (part := getattr(chunk, "usage_metadata", None)) is not None:
                usage = add_usage(usage, part)
            metadata |= chunk.response_metadata
    except ModelError as error:
        failure = str(error)
    except Exception as error:  # a provider's own code
        failure = f"The model could not answer: {type(error).__name__}: {error}"
    stopped = cancelled.is_set()
    text = "".join(tokens) if stopped or failure else str(metadata.get("final_text") or "".join(tokens))
    return Answer(encodable(text), stopped, is_cut(metadata), "" if stopped else encodable(failure), usage_attrs(usage, metadata))


def _chunks(llm: BaseChatModel, messages: Sequence[AnyMessage], cancelled: threading.Event) -> Iterator[BaseMessage]:
    if cancelled.is_set():
        return
    if not isinstance(llm, Stoppable):
        yield from _chunks_until(llm, messages, cancelled)
        return
    stopped = False
    for chunk in llm.stream(list(messages)):
        if cancelled.is_set() and not stopped:  # the stop came before there was an answer to stop
            stopped = True
            llm.stop()
        yield chunk


def _chunks_until(llm: BaseChatModel, messages: Sequence[AnyMessage], cancelled: threading.Event) -> Iterator[BaseMessage]:
    """The chunks of a model that cannot be stopped: it is read on a thread of its own, and left to itself when the turn is cancelled."""
    arrived: queue.SimpleQueue[BaseMessage | Exception | None] = queue.SimpleQueue()
    left = threading.Event()

    def read() -> None:
        try:
            for chunk in llm.stream(list(messages)):
                arrived.put(chunk)
                if left.is_set():
                    return
            arrived.put(None)
        except Exception as error:  # the thread's outermost frame: it is raised where the answer is waited for
            arrived.put(error)

    # The context carries the callbacks of whoever runs the graph.
    threading.Thread(target=copy_context().run, args=(read,), name="model", daemon=True).start()
    try:
        while not cancelled.is_set():
            try:
                chunk = arrived.get(timeout=_NOTICE_WITHIN)
            except queue.Empty:
                continue
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
    finally:
        left.set()
