"""Claude through the `claude` CLI with the user's login: persistent processes, without tools."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, PrivateAttr

from mahtab_tui.llm.answer_metadata import RESTARTED, message_text
from mahtab_tui.llm.base import MAX_ANSWER_CHARS, ModelError
from mahtab_tui.llm.claude_login import login_hint
from mahtab_tui.llm.claude_messages import (
    ClaudeMessage,
    Content,
    flatten,
    to_claude_message,
    write_content,
)
from mahtab_tui.llm.claude_process import REACTION_TIMEOUT_S, ClaudeProcess, environment
from mahtab_tui.llm.claude_turn import ClaudeNotice, ClaudeThought, ClaudeTurn, Restart
from mahtab_tui.llm.failures import answer_too_long_error, no_response_error

PROCESSES = 2
"""Open conversations: the user's, and that of its summaries. Each takes about 215 MB."""
_STOP_CHECK_INTERVAL_S = 0.1
"""Seconds of waiting for an event after which it is seen whether the answer was stopped."""
_DEFAULT_WINDOW_TOKENS = 200_000
"""The window of the models, until an answer says it."""


class _ProcessChoice(NamedTuple):
    """The process that answers, and what it gets."""

    process: ClaudeProcess
    prompt: Content


class ChatClaudeCLI(BaseChatModel):
    """A LangChain chat model over the CLI, for any threads; it gives one answer at a time."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str | None = None
    max_tokens: int | None = None
    """Most tokens of one message, thinking included; the CLI continues by itself after it."""
    max_answer_chars: int = MAX_ANSWER_CHARS
    folder: Callable[[], str] | None = None
    """Returns the folder to run in, before each call, since the CLI tells its model the folder."""
    timeout: float = 120.0
    """Seconds without an event before an answer is abandoned."""
    use_api_key: bool = False
    """Whether answers may be billed to a key instead of the login."""
    processes: int = PROCESSES
    on_notice: Callable[[str, str], None] | None = None

    reports_cost: ClassVar[bool] = True
    priced_as: ClassVar[str] = "anthropic"
    sees: ClassVar[bool] = True

    _processes: list[ClaudeProcess] = PrivateAttr(default_factory=list)
    _one_at_a_time: Any = PrivateAttr(default_factory=threading.Lock)
    _stopped: threading.Event = PrivateAttr(default_factory=threading.Event)
    _closed: bool = PrivateAttr(default=False)
    _reported_once: set[str] = PrivateAttr(default_factory=set)
    _window: int = PrivateAttr(default=_DEFAULT_WINDOW_TOKENS)

    @property
    def _llm_type(self) -> str:
        return "claude-cli"

    @property
    def window(self) -> int:
        """Tokens that the model can read."""
        return self._window

    def prepare(self, system: str) -> None:
        """Start the process for a question with this system prompt, unless there is one or an answer
        is running.

        Raises:
            ModelError: The CLI cannot be started.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            return
        try:
            folder = self._folder()
            if not self._closed and not self._find_matching(system, folder):
                self._start_process(system, folder)
        finally:
            self._one_at_a_time.release()

    def stop(self) -> None:
        """Stop the running answer. Any thread may call it."""
        self._stopped.set()

    def close(self) -> None:
        """Stop the running answer, and end all processes."""
        self.stop()
        self._closed = True
        for process in list(self._processes):
            process.close()
        with self._one_at_a_time:
            for process in self._processes:
                process.close()
            self._processes.clear()

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        with self._one_at_a_time:
            self._stopped.clear()
            self._closed = False
            system, conversation = _split_system(messages)
            choice = self._choose_process(system, conversation)
            process = choice.process
            turn = ClaudeTurn(process.spent, login_hint(use_api_key=self.use_api_key))
            failure: ModelError | None = None
            try:
                process.ask(choice.prompt)
                yield from self._read_answer(process, turn)
                turn.check()
            except ModelError as error:  # its usage is still counted
                failure = error
            except BaseException:
                # The process may not know the conversation.
                self._drop(process)
                raise

            # The process may be kept only if it knows the whole conversation, with its answer.
            # If it was stopped, it knows that, too.
            process.spent = turn.spent
            self._window = turn.window or self._window
            if failure or not turn.ended or not process.alive:
                self._drop(process)
            else:
                process.sent = [*conversation, ClaudeMessage("ai", turn.text, (turn.text,))]

            if failure is None or turn.usage:
                yield self._last_chunk(turn)
            if failure is not None:
                raise failure

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = generate_from_stream(self._stream(messages))
        message = result.generations[0].message
        message.content = message.response_metadata.get("final_text", message.content)
        return result

    def _choose_process(self, system: str, conversation: Sequence[ClaudeMessage]) -> _ProcessChoice:
        """Return a process that knows all but the last message, and that message.

        Otherwise return a new process, and everything as one message.
        """
        folder = self._folder()
        matching = self._find_matching(system, folder)
        for process in matching:
            if not process.sent or len(process.sent) != len(conversation) - 1:
                continue
            if all(map(ClaudeMessage.matches, conversation, process.sent)):
                # The most recently used is the last.
                self._processes.remove(process)
                self._processes.append(process)
                return _ProcessChoice(process, write_content(conversation[-1].parts))

        unused = next((process for process in matching if not process.sent), None)
        process = unused or self._start_process(system, folder)
        return _ProcessChoice(process, flatten(conversation))

    def _folder(self) -> str:
        """Return the folder to run in; empty for this process's."""
        if self.folder is None:
            return ""
        return self.folder()

    def _find_matching(self, system: str, folder: str) -> list[ClaudeProcess]:
        """Return the processes that were started with this system prompt, in this folder."""
        return [process for process in self._processes if process.matches(system, folder)]

    def _start_process(self, system: str, folder: str) -> ClaudeProcess:
        """Start a process, and end the oldest if there are too many. Raises `ModelError`."""
        for process in list(self._processes):
            # It was started for another question.
            if not process.sent:
                self._drop(process)
        while len(self._processes) >= self.processes:
            self._processes.pop(0).close()
        env = environment(self.max_tokens, use_api_key=self.use_api_key)
        process = ClaudeProcess(system, model=self.model, folder=folder, env=env)
        self._processes.append(process)
        return process

    def _drop(self, process: ClaudeProcess) -> None:
        """End a process that is not asked again."""
        with contextlib.suppress(ValueError):
            self._processes.remove(process)
        process.close()

    def _read_answer(
        self, process: ClaudeProcess, turn: ClaudeTurn
    ) -> Iterator[ChatGenerationChunk]:
        """Yield an answer's chunks, until it ends or has been stopped. Raises `ModelError`."""
        last_event_time = time.monotonic()
        interrupt_time: float | None = None
        answer_chars = 0
        while not turn.ended:
            try:
                event = process.next_event(_STOP_CHECK_INTERVAL_S)
            except queue.Empty:
                event = {}
            now = time.monotonic()
            if event is None:
                if interrupt_time is not None:
                    return
                raise ModelError(
                    f"{process.describe_exit()} Ask again; the conversation is still there."
                )
            if event:
                last_event_time = now

            for piece in turn.fold(event):
                if isinstance(piece, ClaudeNotice):
                    self._report(piece)
                    continue
                if interrupt_time is not None:  # what still comes is only counted
                    continue
                answer_chars += len(piece if isinstance(piece, str) else piece.text)
                if answer_chars > self.max_answer_chars:
                    raise answer_too_long_error(self.max_answer_chars)
                yield from _to_chunks(piece)

            self._report_billing(turn)
            # A stopped process is interrupted first, so that it still knows the conversation.
            if self._stopped.is_set():
                if interrupt_time is None:
                    process.interrupt()
                    interrupt_time = now
                elif now - interrupt_time > REACTION_TIMEOUT_S:
                    return  # it is killed
            elif now - last_event_time > self.timeout:
                raise no_response_error(self.timeout)

    def _report_billing(self, turn: ClaudeTurn) -> None:
        """Tell the user, once, if answers are billed to a key instead of the login."""
        if turn.key_source not in ("", "none"):
            text = f"Answers are billed to a key, not to a subscription (apiKeySource: {turn.key_source})."
            self._report(ClaudeNotice("info", text, "billing"))

    def _last_chunk(self, turn: ClaudeTurn) -> ChatGenerationChunk:
        """Return the chunk with what is known of the whole answer, such as its cost."""
        metadata: dict[str, Any] = {"model_name": turn.model or self.model or "claude"}
        if turn.ended:  # otherwise the cost is unknown
            metadata["cost_usd"] = turn.cost
        if (turn.has_restarted or turn.text != turn.streamed) and not self._stopped.is_set():
            metadata["final_text"] = turn.text
        if turn.stop_reason:
            metadata["stop_reason"] = turn.stop_reason
        return _chunk(response_metadata=metadata, usage_metadata=_count_tokens(turn.usage))

    def _report(self, notice: ClaudeNotice) -> None:
        """Pass a notice on; some only once."""
        if notice.once_key in self._reported_once:
            return
        if notice.once_key:
            self._reported_once.add(notice.once_key)
        if self.on_notice is not None:
            self.on_notice(notice.level, notice.text)


def _split_system(messages: Sequence[BaseMessage]) -> tuple[str, list[ClaudeMessage]]:
    """Return the system prompt, and the other messages."""
    system_texts: list[str] = []
    conversation: list[ClaudeMessage] = []
    for message in messages:
        if isinstance(message, SystemMessage):
            system_texts.append(message_text(message))
        else:
            conversation.append(to_claude_message(message))
    return "\n\n".join(system_texts), conversation


def _chunk(text: str = "", **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text, **fields))


def _to_chunks(piece: str | ClaudeThought | Restart) -> Iterator[ChatGenerationChunk]:
    """Yield a piece of an answer as LangChain's chunks."""
    if isinstance(piece, Restart):
        yield _chunk(response_metadata=RESTARTED)
        yield _chunk(piece.text)
    elif isinstance(piece, ClaudeThought):
        yield _chunk(additional_kwargs={"reasoning_content": piece.text})
    else:
        yield _chunk(piece)


def _count_tokens(usage: Mapping[str, int]) -> dict[str, Any]:
    """Return the CLI's counts of tokens in the form of LangChain."""
    from_cache = usage["cache_read_input_tokens"]
    to_cache = usage["cache_creation_input_tokens"]
    read_tokens = usage["input_tokens"] + from_cache + to_cache
    written_tokens = usage["output_tokens"]
    return {
        "input_tokens": read_tokens,
        "output_tokens": written_tokens,
        "total_tokens": read_tokens + written_tokens,
        "input_token_details": {"cache_read": from_cache, "cache_creation": to_cache},
    }
