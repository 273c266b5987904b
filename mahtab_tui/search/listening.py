"""One answer of a model, heard on the engine's loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import add_usage

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError, Stoppable
from mahtab_tui.llm.chunks import REFUSED, begins_anew, encodable, is_cut, is_refused
from mahtab_tui.llm.usage import told_usage

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata

_MERGED = 0.03
"""Seconds of words that are told at once."""
_STOP_AGAIN = 0.1
"""Seconds after which a stop is repeated: one that comes before the answer has begun is lost."""

OnWords = Callable[[str | None], None]
"""Is told what a model says, piece by piece; None where the answer begins anew, so that what was told of it does not count any more."""


class Reply(NamedTuple):
    """One answer."""

    text: str
    cut: bool
    """It reached the model's limit of tokens."""
    usage: Usage | None
    """What the call has used; None where the model did not say."""


class ReplyReader:
    """Folds the pieces of an answer; words are told in portions."""

    def __init__(self, llm: BaseChatModel, on_words: OnWords) -> None:
        self._llm = llm
        self._on_words = on_words
        self._words: list[str] = []
        self._told = 0
        self._told_at = 0.0
        self._usage: UsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def take(self, chunk: BaseMessage) -> None:
        if begins_anew(chunk.response_metadata):
            self._words.clear()
            self._told = 0
            self._on_words(None)
        if words := str(chunk.text):
            self._words.append(words)
            now = time.monotonic()
            if now - self._told_at >= _MERGED:
                self._told_at = now
                self._tell()
        if (usage := getattr(chunk, "usage_metadata", None)) is not None:
            self._usage = add_usage(self._usage, usage)
        self._metadata |= chunk.response_metadata

    def said(self) -> Reply:
        """The whole, at its end. Raises `ModelError` where the service refused to answer."""
        self._tell()
        if is_refused(self._metadata):
            raise ModelError(REFUSED)
        text = str(self._metadata.get("final_text") or "".join(self._words))
        return Reply(encodable(text), is_cut(self._metadata), self.used)

    @property
    def used(self) -> Usage | None:
        """What the call has used; None where the model did not say."""
        return told_usage(self._llm, self._usage, self._metadata)

    def _tell(self) -> None:
        if self._told < len(self._words):
            self._on_words(encodable("".join(self._words[self._told :])))
            self._told = len(self._words)


class ThreadedReader:
    """A model without a native asynchronous interface, read on a thread of its own: it must not hold up the program's end."""

    def __init__(self, llm: BaseChatModel, messages: list[BaseMessage], on_words: OnWords) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Reply] = self._loop.create_future()
        self._llm = llm
        self._messages = messages
        self.hearing = ReplyReader(llm, lambda words: self._tell(on_words, words))
        self._stopped = threading.Event()
        # An answer that nobody waits for any more may end in an error.
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        threading.Thread(target=self._read, name="rlm-model", daemon=True).start()

    def stop(self) -> None:
        """End the answer, and say so until it has ended."""
        self._stopped.set()
        if not self.ended.done() and isinstance(self._llm, Stoppable):
            self._llm.stop()
            self._loop.call_later(_STOP_AGAIN, self.stop)

    def _read(self) -> None:
        said: Reply | None = None
        failure: Exception = ModelError("The call was stopped.")
        try:
            for chunk in self._llm.stream(self._messages):
                if self._stopped.is_set():
                    if not isinstance(self._llm, Stoppable):
                        break
                    continue
                self.hearing.take(chunk)
            else:
                said = self.hearing.said()
        except Exception as error:  # the thread's outermost frame: it is raised where the answer is waited for
            failure = error
        except BaseException as error:  # a provider's loop was cancelled, its code wants to leave: this is not its process to end
            failure = left(error)
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._end, said, failure)

    def _tell(self, on_words: OnWords, words: str | None) -> None:
        self._loop.call_soon_threadsafe(on_words, words)

    def _end(self, said: Reply | None, failure: Exception) -> None:
        if said is not None:
            self.ended.set_result(said)
        else:
            self.ended.set_exception(failure)


def left(error: BaseException) -> ModelError:
    """What becomes of an error that is meant to end a program or a task (`SystemExit`)."""
    return ModelError(f"The model could not answer: {type(error).__name__} {error}".rstrip() + ".")
