"""Calls a model and reads its answer."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from mahtab_tui.agent.host import ModelHost, ToolCall
from mahtab_tui.agent.tool_calls import join_chunks
from mahtab_tui.bus.answers import strip_copied_tags
from mahtab_tui.bus.records import Usage, Window, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.base import (
    LONGEST_PAUSE,
    REFUSED,
    ContextTooLong,
    ModelBusy,
    ModelError,
    Stoppable,
    cut_note,
    explain_error,
    has_restarted,
    is_cut,
    is_refused,
    make_encodable,
    masked_messages,
    message_reasoning,
)
from mahtab_tui.llm.pictures import MOST, EncodedPicture, count_pictures
from mahtab_tui.llm.usage import (
    OverBudget,
    context_window,
    estimate_message_tokens,
    estimated_tokens,
    estimated_usage,
    is_priced,
    model_name,
    reported_usage,
    worst_cost,
)
from mahtab_tui.system import start_thread

_ATTACHED = re.compile(
    r'(<user-attachment(?: [\w-]+="[^"]*")*? picture="(\w+)"(?: [\w-]+="[^"]*")*>)(.*?</user-attachment>)',
    re.DOTALL,
)
"""Output and files are escaped, so they cannot imitate a picture."""
_DRAWN = re.compile(
    r'<assistant-repl-out(?: [\w-]+="[^"]*")*? pictures="([\w ]+)"(?: [\w-]+="[^"]*")*>'
)
"""The figures that a cell drew."""


def attached_picture_ids(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the pictures that the user attached, in order."""
    texts = (str(message.text) for message in messages if message.type == "human")
    return list(dict.fromkeys(match[2] for text in texts for match in _ATTACHED.finditer(text)))


def picture_ids(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the pictures that the user attached and that cells drew, in order."""
    ids: list[str] = []
    for message in messages:
        if message.type == "human":
            text = str(message.text)
            matches = [*_ATTACHED.finditer(text), *_DRAWN.finditer(text)]
            matches.sort(key=lambda match: match.start())
            for match in matches:
                ids += [match[2]] if match.re is _ATTACHED else match[1].split()
    return list(dict.fromkeys(ids))


def pictures_to_send(
    messages: Sequence[AnyMessage], pictures: Mapping[str, EncodedPicture], max_tokens: int
) -> dict[str, EncodedPicture]:
    """Choose the newest pictures that fit into `max_tokens`."""
    sent: dict[str, EncodedPicture] = {}
    remaining_tokens = max_tokens
    for name in reversed(picture_ids(messages)):
        picture = pictures.get(name)
        if picture is None:
            continue
        remaining_tokens -= picture.tokens
        if len(sent) == MOST or remaining_tokens < 0:
            break
        sent[name] = picture
    return sent


def with_pictures(
    messages: Sequence[AnyMessage], sent: Mapping[str, EncodedPicture]
) -> list[AnyMessage]:
    """Add each picture to the first message that names it; note where one is not sent."""
    result: list[AnyMessage] = []
    remaining = dict(sent)
    for message in messages:
        names = picture_ids([message])
        if not names:
            result.append(message)
            continue
        text = _ATTACHED.sub(
            lambda it: it[0] if it[2] in sent else f"{it[1]}{prompts.NOT_SHOWN}{it[3]}",
            str(message.text),
        )
        # Content blocks of LangChain, which all providers accept.
        blocks: list[str | dict[str, str]] = [{"type": "text", "text": text}]
        for name in names:
            if picture := remaining.pop(name, None):
                blocks += [
                    {"type": "text", "text": prompts.PICTURE.format(name=name)},
                    {"type": "image", "base64": picture.data, "mime_type": picture.mime},
                ]
        result.append(HumanMessage(blocks if len(blocks) > 1 else text))
    return result


_PAUSE_CHECK = 0.1
"""Seconds until a stop is noticed while a model that cannot be stopped is silent."""
_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before a busy service is asked again."""

OnToken = Callable[[str | None], object]
"""Gets each token, and None if the answer starts over."""
OnThought = Callable[[str], object]


class ModelAnswer(NamedTuple):
    text: str
    stopped: bool
    cut: bool
    """Whether it reached the token limit, or the service did not say that it is complete."""
    failure: str
    usage: Usage | None
    too_long: bool = False
    """Whether the messages exceed the context window."""
    message: AIMessage | None = None
    """The message to send back to the provider if the model calls tools."""
    calls: Sequence[ToolCall] = ()
    thought: str = ""
    cut_note: str = ""
    """A sentence for the user if it is cut off, or may be."""

    @property
    def ended(self) -> bool:
        return not (self.stopped or self.cut or self.failure)


def call_model(
    host: ModelHost,
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    turn: int | None,
    source: Literal["agent", "reflection", "summary"],
    on_pause: Callable[[str], object],
    on_token: OnToken = lambda token: None,
    options: Mapping[str, Any] | None = None,
    on_thought: OnThought = lambda piece: None,
) -> ModelAnswer:
    """Call a model as `read_answer` does, with secrets masked. A call that could cost too much is
    not made and counts as failed."""
    messages = masked_messages(messages, host.secrets)

    def worst() -> float | None:
        return worst_cost(llm, _sent_texts(messages, options), count_pictures(messages))

    try:
        with host.spending.within_limit(model_name(llm) or llm._llm_type, worst):
            answer = read_answer(
                llm, messages, host.cancelled, on_token, on_pause, options, on_thought
            )
            if answer.usage is not None:
                used = answer.usage.changed(source=source, turn=turn)
                host.spending.count(used)
                emit(host.log, used)
            if source == "agent" and (answer.text or answer.calls):
                report_window(host, llm, messages, answer.usage, options)
    except OverBudget as refusal:
        return ModelAnswer("", stopped=False, cut=False, failure=str(refusal), usage=None)
    return answer


def _sent_texts(
    messages: Sequence[AnyMessage], options: Mapping[str, Any] | None = None
) -> list[str]:
    calls = [
        str(message.tool_calls)
        for message in messages
        if isinstance(message, AIMessage) and message.tool_calls
    ]
    offered = [str(options)] if options else []
    return [*(str(message.text) for message in messages), *calls, *offered]


def report_window(
    host: ModelHost,
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    usage: Usage | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Log how much of a model's window the messages use, as counted by the model or estimated."""
    if not (size := context_window(llm)):
        return
    if usage is not None and usage.input_tokens and not usage.estimated:
        emit(host.log, Window(tokens=usage.input_tokens, size=size))
        return
    tokens = estimated_tokens(_sent_texts(messages, options))
    tokens += estimate_message_tokens([], count_pictures(messages))
    emit(host.log, Window(tokens=tokens, size=size, estimated=True))


def read_answer(
    llm: BaseChatModel,
    messages: Sequence[AnyMessage],
    cancelled: threading.Event,
    on_token: OnToken = lambda token: None,
    on_pause: Callable[[str], object] = lambda sentence: None,
    options: Mapping[str, Any] | None = None,
    on_thought: OnThought = lambda piece: None,
) -> ModelAnswer:
    """Read an answer until it ends, the turn is cancelled, or the model fails; the text so far is
    kept. If the service is busy before the first token, it is asked again after a pause."""
    reader = _AnswerReader(llm, messages, cancelled, on_token, on_thought, options or {})
    for pause in _PAUSES:
        failure = reader.read()
        if not isinstance(failure, ModelBusy) or failure.pause is None or reader.tokens:
            break
        pause = max(pause, failure.pause)
        if pause > LONGEST_PAUSE or cancelled.is_set():
            break
        on_pause(f"{failure} Trying again in {pause:.0f} s.")
        cancelled.wait(pause)
    else:
        failure = reader.read()
    return reader.answer(failure)


@dataclass(eq=False, repr=False)
class _AnswerReader:
    _llm: BaseChatModel
    _messages: Sequence[AnyMessage]
    _cancelled: threading.Event
    _on_token: OnToken
    _on_thought: OnThought
    _options: Mapping[str, Any]
    tokens: list[str] = field(default_factory=list)
    _thought: list[str] = field(default_factory=list)
    _pieces: list[BaseMessage] = field(default_factory=list)
    """Only collected for models that call tools."""
    _sent: bool = False
    """Whether the service accepted the question."""
    _usage: UsageMetadata | None = None
    _metadata: dict[str, Any] = field(default_factory=dict)

    def read(self) -> ModelError | None:
        self._pieces.clear()
        if self._cancelled.is_set():
            return None
        try:
            for chunk in self._chunks():
                if self._options:
                    self._pieces.append(chunk)
                self._sent = self._sent or bool(
                    chunk.content or getattr(chunk, "tool_call_chunks", None)
                )
                if has_restarted(chunk.response_metadata):
                    self._thought.clear()
                    if self.tokens:
                        self.tokens.clear()
                        self._on_token(None)
                if not self._cancelled.is_set():
                    if piece := message_reasoning(chunk):
                        self._thought.append(piece)
                        self._on_thought(piece)
                    if token := str(chunk.text):
                        self.tokens.append(token)
                        self._on_token(token)
                if (part := getattr(chunk, "usage_metadata", None)) is not None:
                    self._usage = add_usage(self._usage, part)
                self._metadata |= chunk.response_metadata
        except Exception as error:  # providers' code can raise anything
            return explain_error(error)
        self._sent = True
        return ModelError(REFUSED) if is_refused(self._metadata) else None

    def answer(self, failure: ModelError | None) -> ModelAnswer:
        stopped = self._cancelled.is_set()
        ended = not (stopped or failure)
        whole = "".join(self.tokens)
        usage = reported_usage(self._llm, self._usage, self._metadata)
        if usage is None and self._sent and (is_priced(self._llm) or (whole and not ended)):
            usage = estimated_usage(
                self._llm,
                (str(message.text) for message in self._messages),
                whole,
                count_pictures(self._messages),
            )
        text = str(self._metadata.get("final_text") or whole) if ended else whole
        message, calls = (join_chunks(self._pieces) if ended else None) or (None, ())
        return ModelAnswer(
            make_encodable(strip_copied_tags(text)),
            stopped,
            is_cut(self._metadata),
            "" if stopped or failure is None else make_encodable(str(failure)),
            usage,
            too_long=isinstance(failure, ContextTooLong),
            message=message,
            calls=calls,
            thought=make_encodable("".join(self._thought)),
            cut_note=cut_note(self._metadata),
        )

    def _chunks(self) -> Iterator[BaseMessage]:
        llm, cancelled = self._llm, self._cancelled
        ask = partial(llm.stream, list(self._messages), **self._options)
        if not isinstance(llm, Stoppable):
            yield from _chunks_until(ask, cancelled)
            return
        stopped = False
        for chunk in ask():
            if cancelled.is_set() and not stopped:  # it was stopped before the answer started
                stopped = True
                llm.stop()
            yield chunk


def _chunks_until(
    ask: Callable[[], Iterator[BaseMessage]], cancelled: threading.Event
) -> Iterator[BaseMessage]:
    """Yield the chunks of a model that cannot be stopped: a thread reads them, and is abandoned
    when the turn is cancelled."""
    arrived: queue.SimpleQueue[BaseMessage | Exception | None] = queue.SimpleQueue()
    left = threading.Event()

    def read() -> None:
        try:
            for chunk in ask():
                arrived.put(chunk)
                if left.is_set():
                    return
            arrived.put(None)
        except Exception as error:  # the thread's outermost frame; the waiting thread raises it
            arrived.put(error)

    # The context contains the callbacks of the graph's caller.
    start_thread("model", copy_context().run, read)
    try:
        while not cancelled.is_set():
            try:
                chunk = arrived.get(timeout=_PAUSE_CHECK)
            except queue.Empty:
                continue
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
    finally:
        left.set()
