"""How a model is asked, for questions and for searches.

For each call, the messages are masked, a ledger reserves what the call may cost, a reader joins the
pieces of the answer, any thread may stop it, and its usage is counted once. `ModelCall` does all of
that for a caller that has a thread of its own. In an event loop, the calls of a search wait for
their turn and their budget in `search/calls.py`; `ThreadedCall` or `read_async` reads the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.llm.base import (
    LONGEST_PAUSE_S,
    REFUSED,
    ModelBusy,
    ModelError,
    Stoppable,
    explain_error,
    has_restarted,
    is_refused,
    make_encodable,
    message_reasoning,
    read_share,
)
from mahtab_tui.llm.ledger import OverBudget
from mahtab_tui.llm.pictures import count_pictures
from mahtab_tui.llm.usage import (
    estimated_usage,
    is_priced,
    model_name,
    reported_usage,
    worst_cost,
)
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.ai import UsageMetadata

    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.bus.records import Usage
    from mahtab_tui.llm.ledger import Ledger

    MessageT = TypeVar("MessageT", bound=BaseMessage)

T = TypeVar("T")

OnWords = Callable[[str | None], object]
"""Called with each piece of an answer's words, and with None when the answer starts again."""

_PORTION_INTERVAL_S = 0.03
"""Minimum seconds between two portions of words."""
_STOP_CHECK_S = 0.1
"""Seconds between checks for a stop while a model that cannot be stopped is silent."""
_STOP_RETRY_S = 0.1
"""Seconds before a stop is repeated, since one that comes before the answer starts is lost."""
_BUSY_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Minimum seconds before each further attempt while a service is busy."""


def _ignore(value: object) -> None:
    """Do nothing; the default of a callback."""


@dataclass(frozen=True)
class AnswerListener:
    """What is called while an answer comes, on the thread that reads it."""

    on_words: OnWords = _ignore
    on_thought: Callable[[str], object] = _ignore
    """Called with each piece of the model's thinking."""
    on_reading: Callable[[float], object] = _ignore
    """Called with the share of the prompt that the model has read, from 0 to 1."""


# Masking


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


# Reading


class AnswerReader:
    """Joins the pieces of an answer, which may start again."""

    def __init__(self, listener: AnswerListener | None = None) -> None:
        self.words: list[str] = []
        self.thoughts: list[str] = []
        """Pieces of the model's thinking."""
        self.metadata: dict[str, Any] = {}
        """What the service says about the answer, such as why it ended."""
        self.listener = listener or AnswerListener()

    @property
    def text(self) -> str:
        """The words received so far."""
        return "".join(self.words)

    @property
    def whole_text(self) -> str:
        """The words of an answer that has ended, as the service gives them at the end."""
        return make_encodable(str(self.metadata.get("final_text") or self.text))

    @property
    def refusal(self) -> ModelError | None:
        """The error if the service's safeguards have stopped the answer; else None."""
        return ModelError(REFUSED) if is_refused(self.metadata) else None

    def add_words(self, words: str) -> None:
        if words:
            self.words.append(words)
            self.listener.on_words(words)

    def add_thought(self, thought: str) -> None:
        if thought:
            self.thoughts.append(thought)
            self.listener.on_thought(thought)

    def restart(self) -> None:
        """Drop all words and thoughts, because the answer starts again."""
        self.thoughts.clear()
        if self.words:
            self.words.clear()
            self.listener.on_words(None)


class MessageReader(AnswerReader):
    """Joins the chunks of a LangChain model's answer."""

    def __init__(
        self,
        llm: BaseChatModel,
        listener: AnswerListener | None = None,
        *,
        keeps_chunks: bool = False,
    ) -> None:
        """Start without an answer.

        Args:
            llm: the model.
            listener: called while the answer comes.
            keeps_chunks: whether to collect the chunks, which contain the model's tool calls.
        """
        super().__init__(listener)
        self.chunks: list[BaseMessage] = []
        """The chunks of the latest attempt, if they are kept."""
        self.is_accepted = False
        """Whether the service accepted the request, which may then cost money."""
        self._llm = llm
        self._keeps_chunks = keeps_chunks
        self._token_counts: UsageMetadata | None = None

    @property
    def usage(self) -> Usage | None:
        """The call's usage; None if the model did not report it."""
        return reported_usage(self._llm, self._token_counts, self.metadata)

    def add(self, chunk: BaseMessage, *, is_stopped: bool = False) -> None:
        """Add a chunk. is_stopped: whether the answer was stopped, so that only its usage
        matters."""
        if self._keeps_chunks:
            self.chunks.append(chunk)
        if chunk.content or getattr(chunk, "tool_call_chunks", None):
            self.is_accepted = True
        if has_restarted(chunk.response_metadata):
            self.restart()

        if not is_stopped:
            share = read_share(chunk.response_metadata)
            if share is not None:
                self.listener.on_reading(share)
            self.add_thought(message_reasoning(chunk))
            self.add_words(str(chunk.text))

        # Usage may come in several chunks, also after the last word.
        token_counts = getattr(chunk, "usage_metadata", None)
        if token_counts is not None:
            # The import is free: the package is loaded, because the chunk is one of its objects.
            from langchain_core.messages.ai import add_usage

            self._token_counts = add_usage(self._token_counts, token_counts)
        self.metadata |= chunk.response_metadata


class WordPortions:
    """Passes words on in portions, so that a fast answer does not flood an event loop."""

    def __init__(self, on_words: OnWords) -> None:
        self._on_words = on_words
        self._waiting_words: list[str] = []
        self._flush_time = 0.0
        """Monotonic time in seconds of the last portion."""

    def add(self, words: str | None) -> None:
        """Add words. None: the answer starts again."""
        if words is None:
            self._waiting_words.clear()
            self._on_words(None)
            return

        self._waiting_words.append(words)
        current_time = time.monotonic()
        if current_time - self._flush_time >= _PORTION_INTERVAL_S:
            self._flush_time = current_time
            self.flush()

    def flush(self) -> None:
        """Pass on the words that wait."""
        if self._waiting_words:
            words = make_encodable("".join(self._waiting_words))
            self._waiting_words.clear()
            self._on_words(words)


# Asking on the caller's thread


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
    """A call of a LangChain model by a caller that has a thread of its own. Other threads may stop
    it."""

    def __init__(
        self,
        llm: BaseChatModel,
        messages: Sequence[BaseMessage],
        *,
        secrets: Secrets,
        stopped: threading.Event,
        listener: AnswerListener | None = None,
        options: Mapping[str, Any] | None = None,
        on_pause: Callable[[str], object] = _ignore,
    ) -> None:
        """Mask the messages; nothing is sent yet.

        Args:
            llm: the model.
            messages: the conversation.
            secrets: masked in the messages.
            stopped: set by any thread to stop the answer.
            listener: called while the answer comes.
            options: arguments for the model, such as its tools. With any, the reader keeps the
                chunks.
            on_pause: called with a sentence for the user before a busy service is asked again.
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
            ledger: counts the call.
            source: what the call is for, as in `Usage`.
            turn: number of the question; None if the call belongs to none.

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
        """Ask, and read the answer until it ends, is stopped, or fails. The words received until
        then stay. If the service is busy before the first word, it is asked again after a pause."""
        failure = self._read_once()
        for min_pause_s in _BUSY_PAUSES_S:
            # Without a pause, the transport has already tried again.
            if not isinstance(failure, ModelBusy) or failure.pause is None or self.reader.words:
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
        """Return the usage that the model reported, or an estimate; None if there is no reason to
        assume a cost."""
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
        """Ask once. Returns why the model failed; None if it did not."""
        self.reader.chunks.clear()
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


# Asking from an event loop


def as_model_error(error: BaseException) -> ModelError:
    """Turn an exception that would end a program (`SystemExit`) into a `ModelError`."""
    return ModelError(f"The model could not answer: {type(error).__name__} {error}".rstrip() + ".")


def run_on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a model's code on a daemon thread, which cannot delay the program's exit. Call it in the
    loop, which gets the result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(future.set_result, work())
        except Exception as error:  # the thread's outermost frame; whoever waits raises it
            settle = partial(future.set_exception, error)
        except BaseException as error:  # the code exits, which must not end this process
            settle = partial(future.set_exception, as_model_error(error))
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            # The future is done already if its waiter was cancelled.
            loop.call_soon_threadsafe(lambda: future.done() or settle())

    threading.Thread(target=run, name="rlm-model", daemon=True).start()
    return future


class ThreadedCall:
    """A call of a LangChain model on a thread of its own, for a loop that waits for it."""

    def __init__(
        self,
        llm: BaseChatModel,
        messages: Sequence[BaseMessage],
        on_words: OnWords,
        options: Mapping[str, Any],
    ) -> None:
        """Start the call.

        Args:
            llm: the model.
            messages: the conversation, masked.
            on_words: called in the loop.
            options: for the call.
        """
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._llm = llm
        self._messages = list(messages)
        self._options = options
        self._portions = WordPortions(lambda words: loop.call_soon_threadsafe(on_words, words))
        self.reader = MessageReader(llm, AnswerListener(self._portions.add))
        self._stopped = threading.Event()
        self.ended = run_on_thread(self._read)
        """Done when the answer has ended; raises what the model raised."""
        # Retrieve the error even if nobody waits for the answer: asyncio would log it otherwise.
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def stop(self) -> None:
        """Stop the answer, which closes its connection. In the loop only."""
        self._stopped.set()
        if not self.ended.done() and isinstance(self._llm, Stoppable):
            self._llm.stop()
            self._loop.call_later(_STOP_RETRY_S, self.stop)

    def _read(self) -> None:
        for chunk in self._llm.stream(self._messages, **self._options):
            if not self._stopped.is_set():
                self.reader.add(chunk)
            elif not isinstance(self._llm, Stoppable):
                return  # which closes the connection
        self._portions.flush()
        if refusal := self.reader.refusal:
            raise refusal


async def read_async(
    llm: BaseChatModel,
    messages: Sequence[BaseMessage],
    on_words: OnWords,
    options: Mapping[str, Any],
) -> MessageReader:
    """Read the answer of a model that is asynchronous itself; cancelling stops it.

    Raises:
        ModelError: The service refused to answer, or the provider's code ends programs.
        Exception: What the provider's code raises.
    """
    portions = WordPortions(on_words)
    reader = MessageReader(llm, AnswerListener(portions.add))
    try:
        async for chunk in llm.astream(list(messages), **options):
            reader.add(chunk)
    except (Exception, GeneratorExit):  # the caller handles errors, and may close this coroutine
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        # The provider's code exits or cancels itself, which must not end this loop.
        raise as_model_error(error) from None
    portions.flush()
    if refusal := reader.refusal:
        raise refusal
    return reader
