"""One answer of a model, heard to its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from mahtab_tui.agent.tool_messages import Call, gathered
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError, Stoppable
from mahtab_tui.llm.chunks import REFUSED, encodable, has_restarted, is_cut, is_refused
from mahtab_tui.llm.failures import explained
from mahtab_tui.llm.pictures import pictures_in
from mahtab_tui.llm.usage import estimated_usage, is_priced, told_usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_NOTICE_WITHIN = 0.1
"""Seconds after which a stop is noticed while a model that cannot be stopped is silent."""
_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before a busy service is asked again, where it does not ask for more."""
_LONGEST_PAUSE = 120.0
"""Seconds; a service that asks for more has failed."""

OnToken = Callable[[str | None], object]
"""Is told what a model says, token by token; None where the answer begins anew, so that what was told of it does not count any more."""


class ModelAnswer(NamedTuple):
    """What a model said."""

    text: str
    stopped: bool
    """The person ended it."""
    cut: bool
    """It reached the model's limit of tokens."""
    failure: str
    """Why the model failed, as a sentence; else empty."""
    usage: Usage | None
    """What it has used; None where the model did not say."""
    too_long: bool = False
    """It failed since it was sent more than it can read."""
    message: AIMessage | None = None
    """Of an answer that calls tools: as it goes back to the provider."""
    calls: Sequence[Call] = ()
    """The calls in it."""

    @property
    def ended(self) -> bool:
        """Whether the model ended it by itself."""
        return not (self.stopped or self.cut or self.failure)


def hear(
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    cancelled: threading.Event,
    on_token: OnToken = lambda token: None,
    on_pause: Callable[[str], object] = lambda sentence: None,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """Listen until the answer ends, the turn is cancelled, or the model fails; the tokens that were told are what was said until then.

    options: with what the model is called, as `tool_messages.binding` makes it for one that calls tools.

    A service that is busy before it has said anything is asked again, after the pause that it asks for; on_pause is told of each.
    """
    hearing = _Hearing(llm, messages, cancelled, on_token, options or {})
    for pause in _PAUSES:
        failure = hearing.listen()
        if not isinstance(failure, ModelBusy) or failure.pause is None or hearing.tokens:
            break
        pause = max(pause, failure.pause)
        if pause > _LONGEST_PAUSE or cancelled.is_set():
            break
        on_pause(f"{failure} It is asked again in {pause:.0f} s.")
        cancelled.wait(pause)
    else:
        failure = hearing.listen()
    return hearing.answer(failure)


class _Hearing:
    """Folds the pieces of one answer."""

    def __init__(
        self,
        llm: BaseChatModel,
        messages: Sequence[AnyMessage],
        cancelled: threading.Event,
        on_token: OnToken,
        options: Mapping[str, Any],
    ) -> None:
        self.tokens: list[str] = []
        self._llm = llm
        self._messages = messages
        self._cancelled = cancelled
        self._on_token = on_token
        self._options = options
        self._pieces: list[BaseMessage] = []
        """Of a model that knows tools."""
        self._sent = False
        """The service has taken the question: it has answered, or was left in its silence."""
        self._usage: UsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def listen(self) -> ModelError | None:
        """One call; why it failed."""
        self._pieces.clear()
        if self._cancelled.is_set():
            return None
        try:
            for chunk in _chunks(self._llm, self._messages, self._cancelled, self._options):
                if self._options:
                    self._pieces.append(chunk)
                self._sent = self._sent or bool(chunk.content or getattr(chunk, "tool_call_chunks", None))
                if has_restarted(chunk.response_metadata) and self.tokens:
                    self.tokens.clear()
                    self._on_token(None)
                if not self._cancelled.is_set() and (token := str(chunk.text)):
                    self.tokens.append(token)
                    self._on_token(token)
                if (part := getattr(chunk, "usage_metadata", None)) is not None:
                    self._usage = add_usage(self._usage, part)
                self._metadata |= chunk.response_metadata
        except Exception as error:  # a provider's own code
            return explained(error)
        self._sent = True
        return ModelError(REFUSED) if is_refused(self._metadata) else None

    def answer(self, failure: ModelError | None) -> ModelAnswer:
        """What was said, when it has ended."""
        stopped = self._cancelled.is_set()
        said = "".join(self.tokens)
        usage = told_usage(self._llm, self._usage, self._metadata)
        if usage is None and self._sent and ((said and (stopped or failure)) or is_priced(self._llm)):
            usage = estimated_usage(self._llm, (str(message.text) for message in self._messages), said, pictures_in(self._messages))
        text = said if stopped or failure else str(self._metadata.get("final_text") or said)
        message, calls = (None if stopped or failure else gathered(self._pieces)) or (None, ())
        return ModelAnswer(
            encodable(text),
            stopped,
            is_cut(self._metadata),
            "" if stopped or failure is None else encodable(str(failure)),
            usage,
            too_long=isinstance(failure, ContextTooLong),
            message=message,
            calls=calls,
        )


def _chunks(llm: BaseChatModel, messages: Sequence[AnyMessage], cancelled: threading.Event, options: Mapping[str, Any]) -> Iterator[BaseMessage]:
    if not isinstance(llm, Stoppable):
        yield from _chunks_until(llm, messages, cancelled, options)
        return
    stopped = False
    for chunk in llm.stream(list(messages), **options):
        if cancelled.is_set() and not stopped:  # the stop came before there was an answer to stop
            stopped = True
            llm.stop()
        yield chunk


def _chunks_until(
    llm: BaseChatModel, messages: Sequence[AnyMessage], cancelled: threading.Event, options: Mapping[str, Any]
) -> Iterator[BaseMessage]:
    """The chunks of a model that cannot be stopped: it is read on a thread of its own, and left to itself when the turn is cancelled."""
    arrived: queue.SimpleQueue[BaseMessage | Exception | None] = queue.SimpleQueue()
    left = threading.Event()

    def read() -> None:
        try:
            for chunk in llm.stream(list(messages), **options):
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
