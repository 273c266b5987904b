"""Reads one answer of a model for the engine's loop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import add_usage

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError, Stoppable
from mahtab_tui.llm.chunks import REFUSED, encodable, has_restarted, is_cut, is_refused
from mahtab_tui.llm.usage import told_usage
from mahtab_tui.search.conversation import OnWords, Reply, on_thread

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata

_MERGED = 0.03
"""Words are passed on at most once in so many seconds."""
_STOP_AGAIN = 0.1
"""Seconds before a stop is repeated, since one that comes before the answer starts is lost."""


class ReplyReader:
    """Joins the pieces of an answer, and passes its words on in portions."""

    def __init__(self, llm: BaseChatModel, on_words: OnWords) -> None:
        self._llm = llm
        self._on_words = on_words
        self._words: list[str] = []
        self._sent = 0
        self._sent_at = 0.0
        self._usage: UsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def take(self, chunk: BaseMessage) -> None:
        if has_restarted(chunk.response_metadata):
            self._words.clear()
            self._sent = 0
            self._on_words(None)
        if words := str(chunk.text):
            self._words.append(words)
            now = time.monotonic()
            if now - self._sent_at >= _MERGED:
                self._sent_at = now
                self._send()
        if (usage := getattr(chunk, "usage_metadata", None)) is not None:
            self._usage = add_usage(self._usage, usage)
        self._metadata |= chunk.response_metadata

    def reply(self) -> Reply:
        """Return the whole answer at its end. Raises `ModelError` if the service refused to
        answer."""
        self._send()
        if is_refused(self._metadata):
            raise ModelError(REFUSED)
        text = str(self._metadata.get("final_text") or "".join(self._words))
        return Reply(encodable(text), is_cut(self._metadata), self.used)

    @property
    def used(self) -> Usage | None:
        """Usage of the call; None if the model did not report it."""
        return told_usage(self._llm, self._usage, self._metadata)

    def _send(self) -> None:
        if self._sent < len(self._words):
            self._on_words(encodable("".join(self._words[self._sent :])))
            self._sent = len(self._words)


class ThreadedReader:
    """Reads a model that has no native asynchronous interface on a thread."""

    def __init__(self, llm: BaseChatModel, messages: list[BaseMessage], on_words: OnWords) -> None:
        self._loop = asyncio.get_running_loop()
        self._llm = llm
        self._messages = messages
        self.reader = ReplyReader(llm, lambda words: self._send(on_words, words))
        self._stopped = threading.Event()
        self.ended = on_thread(self._read)
        # An answer that nobody waits for may end in an error: take note of it, so that asyncio does
        # not log it.
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def stop(self) -> None:
        """Stop the model, again and again until the answer has ended."""
        self._stopped.set()
        if not self.ended.done() and isinstance(self._llm, Stoppable):
            self._llm.stop()
            self._loop.call_later(_STOP_AGAIN, self.stop)

    def _read(self) -> Reply:
        for chunk in self._llm.stream(self._messages):
            if not self._stopped.is_set():
                self.reader.take(chunk)
            elif not isinstance(self._llm, Stoppable):
                break  # which closes the connection
        else:
            return self.reader.reply()
        raise ModelError("The call was stopped.")

    def _send(self, on_words: OnWords, words: str | None) -> None:
        self._loop.call_soon_threadsafe(on_words, words)
