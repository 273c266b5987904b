"""Asks models from an event loop, which waits for their answers: the calls of a search."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.llm.answer_readers import AnswerListener, MessageReader, OnText, TextPortions
from mahtab_tui.llm.base import ModelError, Stoppable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

T = TypeVar("T")

_STOP_RETRY_S = 0.1
"""Seconds before a stop is repeated, since one that comes before the answer starts is lost."""


def as_model_error(error: BaseException) -> ModelError:
    """Turn an exception that would end a program (`SystemExit`) into a `ModelError`."""
    return ModelError(f"The model could not answer: {type(error).__name__} {error}".rstrip() + ".")


@contextlib.contextmanager
def exits_as_model_errors() -> Iterator[None]:
    """Within a task: raise a `ModelError` where a model's code exits, which would end the loop, or is
    cancelled although nobody cancels the task."""
    try:
        yield
    except (Exception, GeneratorExit):  # the caller handles errors, and may close the coroutine
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise as_model_error(error) from None


def run_on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a model's code on a daemon thread, which cannot delay the program's exit.

    Call it in the loop that waits for the future, which gets the result or the error.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(future.set_result, work())
        except StopIteration as error:  # which a future does not accept
            settle = partial(future.set_exception, as_model_error(error))
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
        on_text: OnText,
        options: Mapping[str, Any],
    ) -> None:
        """Start the call.

        Args:
            llm: The model.
            messages: The conversation, masked.
            on_text: Called in the loop with each piece of the answer.
            options: Arguments for the model.
        """
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._llm = llm
        self._messages = list(messages)
        self._options = options
        self._portions = TextPortions(lambda text: loop.call_soon_threadsafe(on_text, text))
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
        """Read the answer on the call's thread. Raises what the model raises."""
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
    on_text: OnText,
    options: Mapping[str, Any],
) -> MessageReader:
    """Read the answer of a model that is asynchronous itself; cancelling stops it.

    Args:
        llm: The model.
        messages: The conversation, masked.
        on_text: Called in the loop.
        options: Arguments for the model.

    Returns:
        The reader of the whole answer.

    Raises:
        ModelError: The service refused to answer, or the provider's code ends programs.
        Exception: What the provider's code raises.
    """
    portions = TextPortions(on_text)
    reader = MessageReader(llm, AnswerListener(portions.add))
    with exits_as_model_errors():
        async for chunk in llm.astream(list(messages), **options):
            reader.add(chunk)
    portions.flush()
    if refusal := reader.refusal:
        raise refusal
    return reader
