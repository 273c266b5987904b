"""Claude through the `claude` CLI with the user's login: persistent processes, without tools."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, PrivateAttr

from mahtab_tui.bus.prompt import escape_tags
from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.llm.base import (
    MAX_ANSWER_CHARS,
    RESTARTED,
    ModelError,
    answer_too_long_error,
    message_text,
    no_response_error,
)
from mahtab_tui.llm.claude_process import (
    REACTION,
    ClaudeNotice,
    ClaudeProcess,
    ClaudeTurn,
    Restart,
    Thought,
    environment,
    login_hint,
)
from mahtab_tui.llm.prompts import STOPPED_ANSWER

PROCESSES = 2
"""Open conversations: the user's, and that of its summaries. Each takes about 215 MB."""
_CHECK_STOP = 0.1
_TURN_TAGS = ("conversation", "human", "assistant")
_Content = str | list[dict[str, Any]]
_USUAL_WINDOW = 200_000


class ClaudeMessage(NamedTuple):
    type: str
    text: str
    parts: tuple[str | tuple[str, str], ...]
    """Its texts and pictures (type and base64), in order."""

    def is_in(self, known: ClaudeMessage) -> bool:
        """Tell whether a process knows this message. It may know more of a stopped answer than has
        arrived."""
        answer = self.text.removesuffix(STOPPED_ANSWER)
        return self == known or (
            self.type == known.type == "ai"
            and answer != self.text
            and known.text.startswith(answer.rstrip())
        )


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
    use_api_key: bool = False
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
    _window: int = PrivateAttr(default=_USUAL_WINDOW)

    @property
    def _llm_type(self) -> str:
        return "claude-cli"

    @property
    def window(self) -> int:
        return self._window

    def prepare(self, system: str) -> None:
        """Start the process for a question with this system prompt, unless there is one or an
        answer is running. Raises `ModelError`."""
        if not self._one_at_a_time.acquire(blocking=False):
            return
        try:
            folder = self._folder()
            if not self._closed and not self._matching(system, folder):
                self._begin(system, folder)
        finally:
            self._one_at_a_time.release()

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
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
            systems = [each for each in messages if isinstance(each, SystemMessage)]
            system = "\n\n".join(map(message_text, systems))
            sent = [_message(each) for each in messages if not isinstance(each, SystemMessage)]
            process, prompt = self._process(system, sent)
            turn = ClaudeTurn(process.spent, login_hint(use_api_key=self.use_api_key))
            failure: ModelError | None = None
            try:
                process.ask(prompt)
                yield from self._answer(process, turn)
                turn.check()
            except ModelError as error:  # its usage is still counted
                failure = error
            except BaseException:
                # The process may not know the conversation.
                self._drop(process)
                raise
            process.spent = turn.spent
            self._window = turn.window or self._window
            if failure or not turn.ended or not process.alive:
                self._drop(process)
            else:  # also if it was stopped, which the process knows
                process.sent = [*sent, ClaudeMessage("ai", turn.text, (turn.text,))]
            if failure is None or turn.usage:
                yield self._last_chunk(turn)
            if failure is not None:
                raise failure

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = generate_from_stream(self._stream(messages))
        message = result.generations[0].message
        message.content = message.response_metadata.get("final_text", message.content)
        return result

    def _process(
        self, system: str, sent: Sequence[ClaudeMessage]
    ) -> tuple[ClaudeProcess, _Content]:
        """Return a process that knows all but the last message, and that message; otherwise a new
        process and everything as one message."""
        folder = self._folder()
        fitting = self._matching(system, folder)
        for process in fitting:
            known = process.sent
            if known and len(known) == len(sent) - 1 and all(map(ClaudeMessage.is_in, sent, known)):
                self._processes.remove(process)
                self._processes.append(process)
                return process, _content(sent[-1].parts)
        waiting = next((process for process in fitting if not process.sent), None)
        return waiting or self._begin(system, folder), _flatten(sent)

    def _folder(self) -> str:
        return self.folder() if self.folder is not None else ""

    def _matching(self, system: str, folder: str) -> list[ClaudeProcess]:
        return [each for each in self._processes if each.matches(system, folder)]

    def _begin(self, system: str, folder: str) -> ClaudeProcess:
        for waiting in [each for each in self._processes if not each.sent]:
            self._drop(waiting)  # it was started for another question
        while len(self._processes) >= self.processes:
            self._processes.pop(0).close()
        env = environment(self.max_tokens, use_api_key=self.use_api_key)
        process = ClaudeProcess(system, model=self.model, folder=folder, env=env)
        self._processes.append(process)
        return process

    def _drop(self, process: ClaudeProcess) -> None:
        with contextlib.suppress(ValueError):
            self._processes.remove(process)
        process.close()

    def _answer(self, process: ClaudeProcess, turn: ClaudeTurn) -> Iterator[ChatGenerationChunk]:
        last_event = time.monotonic()
        stopping = 0.0
        answer_chars = 0
        while not turn.ended:
            try:
                event = process.next_event(_CHECK_STOP)
            except queue.Empty:
                event = {}
            now = time.monotonic()
            if event is None:
                if stopping:
                    return
                raise ModelError(
                    f"{process.describe_exit()} Ask again; the conversation is still there."
                )
            if event:
                last_event = now
            for piece in turn.fold(event):
                if isinstance(piece, ClaudeNotice):
                    self._report(piece)
                    continue
                if stopping:
                    continue
                answer_chars += len(piece if isinstance(piece, str) else piece.text)
                if answer_chars > self.max_answer_chars:
                    raise answer_too_long_error(self.max_answer_chars)
                if isinstance(piece, Restart):
                    yield _chunk(response_metadata=RESTARTED)
                    yield _chunk(piece.text)
                elif isinstance(piece, Thought):
                    yield _chunk(additional_kwargs={"reasoning_content": piece.text})
                else:
                    yield _chunk(piece)
            if turn.key_source not in ("", "none"):
                text = f"Answers are billed to a key, not to a subscription (apiKeySource: {turn.key_source})."
                self._report(ClaudeNotice("info", text, "billing"))
            if self._stopped.is_set():
                if not stopping:
                    process.interrupt()
                    stopping = now
                elif now - stopping > REACTION:
                    return  # it is killed
            elif now - last_event > self.timeout:
                raise no_response_error(self.timeout)

    def _last_chunk(self, turn: ClaudeTurn) -> ChatGenerationChunk:
        metadata: dict[str, Any] = {"model_name": turn.model or self.model or "claude"}
        if turn.ended:  # otherwise the cost is unknown
            metadata["cost_usd"] = turn.cost
        if (turn.began_anew or turn.text != turn.streamed) and not self._stopped.is_set():
            metadata["final_text"] = turn.text
        if turn.stop_reason:
            metadata["stop_reason"] = turn.stop_reason
        usage = turn.usage
        from_cache, to_cache = (
            usage["cache_read_input_tokens"],
            usage["cache_creation_input_tokens"],
        )
        read, written = usage["input_tokens"] + from_cache + to_cache, usage["output_tokens"]
        counts = {
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
            "input_token_details": {"cache_read": from_cache, "cache_creation": to_cache},
        }
        return _chunk(response_metadata=metadata, usage_metadata=counts)

    def _report(self, notice: ClaudeNotice) -> None:
        if notice.once in self._reported_once:
            return
        if notice.once:
            self._reported_once.add(notice.once)
        if self.on_notice is not None:
            self.on_notice(notice.level, notice.text)


def _chunk(text: str = "", **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=text, **fields))


def _message(message: BaseMessage) -> ClaudeMessage:
    if isinstance(message.content, str):
        return ClaudeMessage(message.type, message.content, (message.content,))
    parts: list[str | tuple[str, str]] = []
    for block in message.content:
        if isinstance(block, str):
            parts.append(block)
        elif block.get("type") == "image" and "base64" in block:
            parts.append((str(block.get("mime_type", "image/png")), str(block["base64"])))
        elif block.get("type") == "text":
            parts.append(str(block["text"]))
    return ClaudeMessage(message.type, message_text(message), tuple(parts))


def _content(parts: Sequence[str | tuple[str, str]]) -> _Content:
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, str):
            source = {"type": "base64", "media_type": part[0], "data": part[1]}
            blocks.append({"type": "image", "source": source})
        elif blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += part
        else:
            blocks.append({"type": "text", "text": part})
    return blocks


def _flatten(messages: Sequence[ClaudeMessage]) -> _Content:
    """Return a conversation as one message for a new process. No text in it can forge a turn."""
    if len(messages) == 1:
        return _content(messages[0].parts)
    parts: list[str | tuple[str, str]] = ["<conversation>"]
    for message in messages:
        texts = [
            escape_tags(escape_for_model(part), *_TURN_TAGS) if isinstance(part, str) else part
            for part in message.parts
        ]
        name = "assistant" if message.type == "ai" else "human"
        if message is messages[-1]:
            parts += ["</conversation>\n\n", *texts]
        else:
            parts += [f"<{name}>", *texts, f"</{name}>"]
    return _content(parts)
