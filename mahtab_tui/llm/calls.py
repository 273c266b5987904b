"""Asks a model on the caller's thread, for a question.

For each call, the messages are masked, a ledger reserves what the call may cost, a reader joins the
pieces of the answer, any thread may stop it, and its usage is counted once. The calls of a search
wait for their turn and their budget in `search/calls.py`; `async_calls.py` reads their answers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.llm.answer_readers import AnswerListener, MessageReader, do_nothing
from mahtab_tui.llm.base import ModelBusy, ModelError, Stoppable
from mahtab_tui.llm.failures import LONGEST_PAUSE_S, explain_error
from mahtab_tui.llm.ledger import OverBudget
from mahtab_tui.llm.pictures import count_pictures
from mahtab_tui.llm.prices import is_priced, model_name, worst_cost
from mahtab_tui.llm.usage import estimated_usage
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.bus.records import Usage
    from mahtab_tui.llm.ledger import Ledger

    MessageT = TypeVar("MessageT", bound=BaseMessage)

_STOP_CHECK_S = 0.1
"""Seconds between checks for a stop while a model that cannot be stopped is silent."""
_BUSY_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Minimum seconds before each further attempt while a service is busy."""


def masked_messages(messages: Sequence[MessageT], secrets: Secrets) -> list[MessageT]:
    """Return messages with secrets masked; messages without secrets stay the same objects."""
    if not secrets.may_redact:
        return list(messages)
    masked: list[MessageT] = []
    for message in messages:
        content = _mask_content(message.content, secrets)
        if content != message.content:
            message = message.model_copy(update={"content": content})
        masked.append(message)
    return masked


def _mask_content(content: Any, secrets: Secrets) -> Any:
    """Mask the texts in a message's content: a string, or a list of strings and content blocks."""
    if isinstance(content, str):
        return secrets.redact_for_model(content)
    if isinstance(content, list):
        return [_mask_content(block, secrets) for block in content]
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {**content, "text": secrets.redact_for_model(content["text"])}
    return content


def sent_texts(messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> list[str]:
    """Return all texts of a request, to estimate its tokens: those of its messages, their tool
    calls, and the options, which contain the tools."""
    texts: list[str] = []
    for message in messages:
        texts.append(str(message.text))
        if tool_calls := getattr(message, "tool_calls", None):
            texts.append(str(tool_calls))
    if options:
        texts.append(str(options))
    return texts


class ModelCall:
    """A call of a LangChain model by a caller that has a thread of its own.

    Other threads may stop it.
    """

    def __init__(
        self,
        llm: BaseChatModel,
        messages: Sequence[BaseMessage],
        *,
        secrets: Secrets,
        stopped: threading.Event,
        listener: AnswerListener | None = None,
        options: Mapping[str, Any] | None = None,
        on_pause: Callable[[str], object] = do_nothing,
    ) -> None:
        """Mask the messages; nothing is sent yet.

        Args:
            llm: The model.
            messages: The conversation.
            secrets: Masked in the messages.
            stopped: Set by any thread to stop the answer.
            listener: Called while the answer comes.
            options: Arguments for the model, such as its tools. With any, the reader keeps the
                chunks.
            on_pause: Called with a sentence for the user before a busy service is asked again.
        """
        self.llm = llm
        self.messages = masked_messages(messages, secrets)
        self.options = options or {}
        self.reader = MessageReader(llm, listener, keeps_chunks=bool(options))
        self.failure: ModelError | None = None
        """Why the model could not answer; None if it could, or was not asked yet."""
        self.usage: Usage | None = None
        """The call's usage; None if it was not made, or its usage is unknown."""
        self._stopped = stopped
        self._on_pause = on_pause

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def has_ended(self) -> bool:
        """Whether the answer came to its end."""
        return not self.is_stopped and self.failure is None

    def run(self, ledger: Ledger, source: str, turn: int | None) -> Usage | None:
        """Make the call if the ledger's limit allows it, and read the answer.

        Args:
            ledger: Counts the call.
            source: What the call is for, as in `Usage`.
            turn: Number of the question; None if the call belongs to none.

        Returns:
            The usage that the ledger has counted; None if it has counted nothing.
        """
        display_name = model_name(self.llm) or self.llm._llm_type
        try:
            with ledger.within_limit(display_name, self._worst_cost):
                self.read()
                if self.usage is None:
                    return None
                usage = self.usage.changed(source=source, turn=turn)
                ledger.count(usage)
                return usage
        except OverBudget as refusal:
            self.failure = ModelError(str(refusal))
            return None

    def read(self) -> None:
        """Ask, and read the answer until it ends, is stopped, or fails.

        The words received until then stay. If the service is busy before the first word, it is
        asked again after a pause.
        """
        failure = self._read_once()
        for min_pause_s in _BUSY_PAUSES_S:
            # Without a pause, the transport has already tried again.
            if (
                not isinstance(failure, ModelBusy)
                or failure.pause is None
                or self.reader.text_pieces
            ):
                break
            pause_s = max(min_pause_s, failure.pause)
            if pause_s > LONGEST_PAUSE_S or self.is_stopped:
                break
            self._on_pause(f"{failure} Trying again in {pause_s:.0f} s.")
            self._stopped.wait(pause_s)
            failure = self._read_once()
        self.failure = failure
        self.usage = self._estimate_usage()

    def _estimate_usage(self) -> Usage | None:
        """Return the usage that the model reported, or an estimate.

        None if there is no reason to assume a cost.
        """
        usage = self.reader.usage
        if usage is not None or not self.reader.is_accepted:
            return usage

        # An accepted call may cost money even if the service does not report its usage.
        text = self.reader.text
        is_cut_off = bool(text) and not self.has_ended
        if not is_priced(self.llm) and not is_cut_off:
            return None
        texts = (str(message.text) for message in self.messages)
        return estimated_usage(self.llm, texts, text, count_pictures(self.messages))

    def _worst_cost(self) -> float | None:
        texts = sent_texts(self.messages, self.options)
        return worst_cost(self.llm, texts, count_pictures(self.messages))

    def _read_once(self) -> ModelError | None:
        """Ask once. Return why the model failed; None if it did not."""
        self.reader.restart()
        if self.is_stopped:
            return None
        try:
            for chunk in self._chunks():
                self.reader.add(chunk, is_stopped=self.is_stopped)
        except Exception as error:  # providers' code can raise anything
            return explain_error(error)
        self.reader.is_accepted = True
        return self.reader.refusal

    def _chunks(self) -> Iterator[BaseMessage]:
        start_stream = partial(self.llm.stream, list(self.messages), **self.options)
        if not isinstance(self.llm, Stoppable):
            yield from _stream_or_abandon(start_stream, self._stopped)
            return
        was_told = False
        for chunk in start_stream():
            # A stop that came before the answer started was lost, so it is repeated here. Reading
            # goes on, for the usage that may still come.
            if self.is_stopped and not was_told:
                was_told = True
                self.llm.stop()
            yield chunk


def _stream_or_abandon(
    start_stream: Callable[[], Iterator[BaseMessage]], stopped: threading.Event
) -> Iterator[BaseMessage]:
    """Yield the chunks of a model that cannot be stopped: a thread reads them, and is abandoned
    after a stop."""
    arrivals: queue.SimpleQueue[BaseMessage | Exception | None] = queue.SimpleQueue()
    """Chunks; at the end None, or the error."""
    abandoned = threading.Event()

    def read() -> None:
        try:
            for chunk in start_stream():
                arrivals.put(chunk)
                if abandoned.is_set():
                    return
            arrivals.put(None)
        except Exception as error:  # the thread's outermost frame; the waiting thread raises it
            arrivals.put(error)

    # The context variables contain the callbacks of the graph's caller.
    start_thread("model", copy_context().run, read)
    try:
        while not stopped.is_set():
            try:
                arrival = arrivals.get(timeout=_STOP_CHECK_S)
            except queue.Empty:
                continue
            if arrival is None:
                return
            if isinstance(arrival, Exception):
                raise arrival
            yield arrival
    finally:
        abandoned.set()
