"""Calls a model and reads its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from mahtab_tui.agent.host import ModelHost, ToolCall
from mahtab_tui.agent.tool_calls import join_chunks
from mahtab_tui.bus.answers import strip_copied_tags
from mahtab_tui.bus.records import Usage, Window, emit
from mahtab_tui.llm import prompts
from mahtab_tui.llm.answer_metadata import cut_note, is_cut
from mahtab_tui.llm.answer_readers import AnswerListener
from mahtab_tui.llm.base import ContextTooLong, make_encodable
from mahtab_tui.llm.calls import ModelCall, sent_texts
from mahtab_tui.llm.pictures import MAX_PICTURES, EncodedPicture, count_pictures
from mahtab_tui.llm.usage import context_window, estimate_message_tokens, estimated_tokens

_ATTRIBUTES = r'(?: [\w-]+="[^"]*")*'
_ATTACHED = re.compile(
    rf'(<user-attachment{_ATTRIBUTES}? picture="(\w+)"{_ATTRIBUTES}>)(.*?</user-attachment>)',
    re.DOTALL,
)
"""Start tag, id of the picture, and what follows. Output and files are escaped, so they cannot
imitate a picture."""
_DRAWN = re.compile(rf'<assistant-repl-out{_ATTRIBUTES}? pictures="([\w ]+)"{_ATTRIBUTES}>')
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
        if len(sent) == MAX_PICTURES or remaining_tokens < 0:
            break
        sent[name] = picture
    return sent


def with_pictures(
    messages: Sequence[AnyMessage], sent: Mapping[str, EncodedPicture]
) -> list[AnyMessage]:
    """Add each picture to the first message that names it; note where one is not sent."""
    result: list[AnyMessage] = []
    pictures_to_add = dict(sent)
    for message in messages:
        names = picture_ids([message])
        if not names:
            result.append(message)
            continue
        text = _note_missing_pictures(str(message.text), sent)
        # Content blocks of LangChain, which all providers accept.
        blocks: list[str | dict[str, str]] = [{"type": "text", "text": text}]
        for name in names:
            if picture := pictures_to_add.pop(name, None):
                blocks += [
                    {"type": "text", "text": prompts.PICTURE.format(name=name)},
                    {"type": "image", "base64": picture.data, "mime_type": picture.mime},
                ]
        result.append(HumanMessage(blocks if len(blocks) > 1 else text))
    return result


def _note_missing_pictures(text: str, sent: Collection[str]) -> str:
    """Add a note to each attached picture of a message that is not sent."""

    def with_note(attachment: re.Match[str]) -> str:
        start_tag, name, content = attachment.groups()
        if name in sent:
            return attachment[0]
        return f"{start_tag}{prompts.NOT_SHOWN}{content}"

    return _ATTACHED.sub(with_note, text)


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
    listener: AnswerListener | None = None,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """Call a model within the session's budget, and log what it has used. A call that could cost
    too much is not made and counts as failed.

    Args:
        host: the session.
        llm: the model.
        messages: the conversation, whose secrets are masked before anything is sent.
        turn: number of the question.
        source: what the call is for.
        on_pause: gets a sentence before a busy service is asked again.
        listener: called while the answer comes.
        options: for the model, such as the tools that it may call.
    """
    call = ModelCall(
        llm,
        messages,
        secrets=host.secrets,
        stopped=host.cancelled,
        listener=listener,
        options=options,
        on_pause=on_pause,
    )
    usage = call.run(host.spending, source, turn)
    if usage is not None:
        emit(host.log, usage)
    answer = make_answer(call)
    if source == "agent" and (answer.text or answer.calls):
        report_window(host, llm, call.messages, usage, options)
    return answer


def make_answer(call: ModelCall) -> ModelAnswer:
    """Return the answer that a call has read."""
    reader = call.reader
    text = reader.text
    message: AIMessage | None = None
    calls: Sequence[ToolCall] = ()
    if call.has_ended:
        text = reader.whole_text
        joined = join_chunks(reader.chunks) if call.options else None
        if joined is not None:
            message, calls = joined

    failure = None if call.is_stopped else call.failure
    return ModelAnswer(
        make_encodable(strip_copied_tags(text)),
        call.is_stopped,
        is_cut(reader.metadata),
        "" if failure is None else make_encodable(str(failure)),
        call.usage,
        too_long=isinstance(call.failure, ContextTooLong),
        message=message,
        calls=calls,
        thought=make_encodable("".join(reader.thoughts)),
        cut_note=cut_note(reader.metadata),
    )


def report_window(
    host: ModelHost,
    llm: BaseChatModel,
    messages: Sequence[BaseMessage],
    usage: Usage | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Log how much of a model's window the messages use, as counted by the model or estimated."""
    size = context_window(llm)
    if not size:
        return
    if usage is not None and usage.input_tokens and not usage.estimated:
        emit(host.log, Window(tokens=usage.input_tokens, size=size))
        return
    tokens = estimated_tokens(sent_texts(messages, options or {}))
    tokens += estimate_message_tokens([], count_pictures(messages))
    emit(host.log, Window(tokens=tokens, size=size, estimated=True))
