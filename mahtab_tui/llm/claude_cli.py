"""Claude through the `claude` CLI, with the person's own login: persistent processes, text only."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, PrivateAttr

from mahtab_tui.bus.formatters import escape_tags
from mahtab_tui.bus.told import told
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import ANEW
from mahtab_tui.llm.claude_events import Anew, Notice, Turn
from mahtab_tui.llm.claude_login import login_hint
from mahtab_tui.llm.claude_process import REACTION, ClaudeProcess, environment
from mahtab_tui.llm.spoken import text_of

PROCESSES = 2
"""Conversations that are kept open: the person's, and that of its summaries. Each process takes about 215 MB."""
_TURN_TAGS = ("conversation", "human", "assistant")
_LOOK = 0.1
"""Seconds between two looks at whether the answer is to stop."""


class _Conversation:
    """A process and what it has been told."""

    def __init__(self, process: ClaudeProcess) -> None:
        self.process = process
        self.told: list[tuple[str, str]] = []
        """(type, text) of each message that the process knows."""


class ChatClaudeCLI(BaseChatModel):
    """A LangChain chat model over the CLI. Several threads may ask; one answer is given at a time."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str | None = None
    """None: the CLI's own default."""
    max_tokens: int | None = None
    """Of one answer, thinking among them; the CLI goes on by itself after it. None: as many as the model gives."""
    effort: Literal["low"] | None = None
    """How much it thinks; None: as the person has it, else the model's own."""
    thinking: bool = True
    """Whether it thinks at all before it answers."""
    folder: Callable[[], str] | None = None
    """Where it runs, asked before each call, since it tells its model of that. None, or a folder that cannot be entered: in this program's folder. It
    reads nothing there."""
    timeout: float = 120.0
    """Seconds without any event before the answer is given up."""
    use_api_key: bool = False
    """Whether the process gets ANTHROPIC_API_KEY of the environment, which is billed in place of the login."""
    processes: int = PROCESSES
    """Conversations that are kept open."""
    on_notice: Callable[[str, str], None] | None = None
    """Told what the person should know: retries, billing."""

    tells_cost: ClassVar[bool] = True
    priced_as: ClassVar[str] = "anthropic"
    window: ClassVar[int] = 200_000
    sees: ClassVar[bool] = False

    _conversations: list[_Conversation] = PrivateAttr(default_factory=list)
    _one_at_a_time: Any = PrivateAttr(default_factory=threading.Lock)
    _stopped: threading.Event = PrivateAttr(default_factory=threading.Event)
    _checker: ChatClaudeCLI | None = PrivateAttr(default=None)
    _told_once: set[str] = PrivateAttr(default_factory=set)

    @property
    def _llm_type(self) -> str:
        return "claude-cli"

    @property
    def checker(self) -> ChatClaudeCLI:
        """The same model for checks of its own answers: at low effort, in a process of its own. It is stopped and closed with this one."""
        if self._checker is None:
            fields = {name: getattr(self, name) for name in type(self).model_fields}
            self._checker = ChatClaudeCLI(**{**fields, "effort": "low", "processes": 1})
            self._checker._told_once = self._told_once
        return self._checker

    def stop(self) -> None:
        """End the answer that is being given; what came stays."""
        self._stopped.set()
        if self._checker is not None:
            self._checker.stop()

    def close(self) -> None:
        """End the processes; nothing is left of them. An answer that is being given ends with its process, without being asked first."""
        self._stopped.set()
        if self._checker is not None:
            self._checker.close()
        for conversation in list(self._conversations):
            conversation.process.close()
        with self._one_at_a_time:
            for conversation in self._conversations:
                conversation.process.close()
            self._conversations.clear()

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with self._one_at_a_time:
            self._stopped.clear()
            system = "\n\n".join(text_of(message) for message in messages if isinstance(message, SystemMessage))
            told = [(message.type, text_of(message)) for message in messages if not isinstance(message, SystemMessage)]
            conversation, prompt = self._conversation(system, told)
            turn = Turn(conversation.process.spent, login_hint(use_api_key=self.use_api_key))
            failure: ModelError | None = None
            try:
                conversation.process.ask(prompt)
                try:
                    yield from self._answer(conversation.process, turn)
                    turn.check()
                except ModelError as error:  # what it has used counts all the same
                    failure = error
            except BaseException:
                # What the process knows is not certain any more.
                self._drop(conversation)
                raise
            conversation.process.spent = turn.spent
            if failure or self._stopped.is_set() or not conversation.process.alive:
                self._drop(conversation)
            else:
                conversation.told = [*told, ("ai", turn.text)]
            if failure is None or any(turn.usage):
                yield self._last_chunk(turn)
            if failure is not None:
                raise failure

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        whole: ChatGenerationChunk | None = None
        for chunk in self._stream(messages):
            whole = chunk if whole is None else whole + chunk
        assert whole is not None
        message = whole.message
        text = message.response_metadata.get("final_text", text_of(message))
        usage = message.usage_metadata if isinstance(message, AIMessageChunk) else None
        answer = AIMessage(text, response_metadata=message.response_metadata, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _conversation(self, system: str, told: Sequence[tuple[str, str]]) -> tuple[_Conversation, str]:
        """A process that knows all but the last message, and what to send it; else a new process and the whole as one message."""
        folder = self.folder() if self.folder is not None else ""
        for conversation in self._conversations:
            known = conversation.told
            extends = bool(known) and list(told[: len(known)]) == known and len(told) == len(known) + 1
            if extends and conversation.process.fits(system, folder):
                self._conversations.remove(conversation)
                self._conversations.append(conversation)
                return conversation, told[-1][1]
        while len(self._conversations) >= self.processes:
            self._conversations.pop(0).process.close()
        env = environment(self.max_tokens, thinking=self.thinking, use_api_key=self.use_api_key)
        process = ClaudeProcess(system, model=self.model, effort=self.effort, folder=folder, env=env)
        conversation = _Conversation(process)
        self._conversations.append(conversation)
        return conversation, flattened(told)

    def _drop(self, conversation: _Conversation) -> None:
        with contextlib.suppress(ValueError):
            self._conversations.remove(conversation)
        conversation.process.close()

    def _answer(self, process: ClaudeProcess, turn: Turn) -> Iterator[ChatGenerationChunk]:
        """The words of a turn as they come, until it ends or is stopped."""
        heard = time.monotonic()
        stopping = 0.0
        while not turn.ended:
            try:
                event = process.next_event(_LOOK)
            except queue.Empty:
                event = {}
            now = time.monotonic()
            if event is None:
                if stopping:
                    return
                raise ModelError(f"{process.ending()} Ask again; what was said stays.")
            if event:
                heard = now
            for said in turn.fold(event):
                if isinstance(said, Notice):
                    self._tell(said)
                elif stopping:
                    continue
                elif isinstance(said, Anew):
                    yield ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata=ANEW))
                    yield ChatGenerationChunk(message=AIMessageChunk(content=said.text))
                else:
                    yield ChatGenerationChunk(message=AIMessageChunk(content=said))
            self._tell_billing(turn.key_source)
            if self._stopped.is_set():
                stopping = stopping or _begin_stop(process, now)
                if not _go_on_stopping(process, now - stopping):
                    return
            elif now - heard > self.timeout:
                raise ModelError(f"The model has given no sign for {self.timeout:.0f} s, so the answer was given up.")

    def _last_chunk(self, turn: Turn) -> ChatGenerationChunk:
        metadata: dict[str, Any] = {"model_name": turn.model or self.model or "claude"}
        if turn.ended:  # else nobody has told the cost
            metadata["cost_usd"] = turn.cost
        if (turn.began_anew or turn.text != turn.streamed) and not self._stopped.is_set():
            metadata["final_text"] = turn.text
        if turn.stop_reason:
            metadata["stop_reason"] = turn.stop_reason
        usage = turn.usage
        message = AIMessageChunk(
            content="",
            response_metadata=metadata,
            usage_metadata={
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
                "input_token_details": {"cache_read": usage.cache_read, "cache_creation": usage.cache_creation},
            },
        )
        return ChatGenerationChunk(message=message)

    def _tell(self, notice: Notice) -> None:
        if notice.once in self._told_once:
            return
        if notice.once:
            self._told_once.add(notice.once)
        if self.on_notice is not None:
            self.on_notice(notice.level, notice.text)

    def _tell_billing(self, source: str) -> None:
        if source and source != "none":
            self._tell(Notice("info", f"Answers are billed to a key, not to a subscription (apiKeySource: {source}).", "billing"))


def _begin_stop(process: ClaudeProcess, now: float) -> float:
    process.interrupt()
    return now


def _go_on_stopping(process: ClaudeProcess, waited: float) -> bool:
    """Whether to wait on for a process that was asked to stop; one that does not react is signalled, then left to be killed."""
    if waited > 2 * REACTION:
        return False
    if waited > REACTION:
        process.signal_group(signal.SIGINT)
    return True


def flattened(messages: Sequence[tuple[str, str]]) -> str:
    """A conversation as one message, for a process that knows nothing of it. No text in it can forge a turn."""
    if len(messages) == 1:
        return messages[0][1]
    *before, (_, last) = [("assistant" if kind == "ai" else "human", escape_tags(told(text), *_TURN_TAGS)) for kind, text in messages]
    turns = "".join(f"<{name}>{text}</{name}>" for name, text in before)
    return f"<conversation>{turns}</conversation>\n\n{last}"
