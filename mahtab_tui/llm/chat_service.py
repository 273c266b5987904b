"""Lets LangChain ask a model through `ChatClient`: messages are converted on the way there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, PrivateAttr, SecretStr

from mahtab_tui.llm.answer_metadata import read_share_metadata
from mahtab_tui.llm.base import MAX_ANSWER_CHARS
from mahtab_tui.llm.chat_answers import AnswerEnd, ChatChunk, Dialect
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.services import OnNotice, Service

_OPTIONS = ("temperature", "top_p", "seed", "max_tokens", "num_ctx")
"""The fields of `ChatService` that are sent with each question, unless they are None."""
_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}
"""The role in Chat Completions of each type of LangChain's messages."""


class ChatService(BaseChatModel):
    """A model of a service, as a chat model of LangChain.

    Any threads may ask it, also at the same time. If a call fails, it raises `ModelError` and does
    not try again.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    dialect: Dialect
    """The protocol of the service."""
    address: str
    """The address without the protocol's own paths, as in ``http://localhost:8080/v1``."""
    model: str
    """The service's name for the model."""
    provider: str
    """Our name for the service, which stands before the model's name, as in ``openai:gpt-5``."""
    priced_as: str
    """The name whose prices apply: the provider's, the address of another service, or ``local`` for
    a model that costs nothing."""
    timeout: float
    """An answer is abandoned after this many seconds without a byte."""
    max_answer_chars: int = MAX_ANSWER_CHARS
    """A longer answer, with its thinking, is stopped."""
    key_name: str = ""
    """Where the key comes from, such as ``OPENAI_API_KEY``, for messages to the user."""
    secret: SecretStr = SecretStr("")
    """The key itself; empty if the service needs none."""
    max_tokens: int | None = None
    """The most tokens that an answer may have; None for the service's own limit."""
    num_ctx: int | None = None
    """The context window to request from Ollama, in tokens; None for other services."""
    temperature: float | None = None
    """How freely the model chooses its words; None for the service's own value."""
    top_p: float | None = None
    """The share of the probability from which words are chosen, from 0 to 1; None for the service's own
    value."""
    seed: int | None = None
    """With the same seed, many services give the same answer again; None for a new answer each time."""
    on_notice: OnNotice | None = None
    """Takes notices for the user, on the thread that reads the answer."""

    _client: ChatClient = PrivateAttr()

    @classmethod
    def from_service(cls, service: Service, on_notice: OnNotice | None = None) -> ChatService:
        """Return the model of a service. It does not connect yet.

        Args:
            service: The model, and how it is asked.
            on_notice: Takes notices for the user, on the thread that reads the answer.
        """
        return cls(
            dialect=service.dialect,
            address=service.address,
            model=service.model,
            provider=service.provider,
            priced_as=service.priced_as,
            timeout=service.timeout,
            max_answer_chars=service.max_answer_chars,
            key_name=service.key_name,
            secret=SecretStr(service.secret),
            max_tokens=service.max_tokens,
            num_ctx=service.num_ctx,
            on_notice=on_notice,
        )

    def model_post_init(self, context: Any, /) -> None:
        self._client = ChatClient(
            self.dialect,
            self.address,
            self.model,
            key=self.secret.get_secret_value(),
            key_name=self.key_name,
            timeout=self.timeout,
            max_answer_chars=self.max_answer_chars,
            on_notice=self.on_notice,
        )

    @property
    def _llm_type(self) -> str:
        return self.provider

    @property
    def window(self) -> int | None:
        """How many tokens the model can read; None if unknown.

        The first call may wait a second for the server, as with `sees` and `parameters`.
        """
        return self._client.facts().window if self.dialect == "compatible" else self.num_ctx

    @property
    def sees(self) -> bool | None:
        """Whether the model accepts pictures; None if unknown."""
        if self.dialect in ("anthropic", "openai"):
            return True
        return self._client.facts().sees if self.dialect == "compatible" else None

    @property
    def parameters(self) -> int | None:
        """The number of the model's parameters; None if its server does not say."""
        return self._client.facts().parameters if self.dialect == "compatible" else None

    def stop(self) -> None:
        """End all running answers; what has come stays. Any thread may call this."""
        self._client.stop()

    def close(self) -> None:
        """End all running answers, and close the connections."""
        self._client.close()

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, Any]:
        """Return this model with tools that it may call.

        Args:
            tools: The tools, in any form that LangChain can convert.
            tool_choice: Which tool the model must call, in a form of LangChain; None lets the
                service choose.
            **kwargs: Further options of the service.
        """
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        options = {name: getattr(self, name) for name in _OPTIONS} | {"stop": stop} | kwargs
        choice = options.get("tool_choice")
        if choice is not None:
            options["tool_choice"] = _to_openai_tool_choice(choice)
        # LangChain raises an error if there is no chunk, as when the answer is stopped at once.
        yield ChatGenerationChunk(message=AIMessageChunk(content=""))
        for chunk in self._client.stream(list(map(_to_client_message, messages)), **options):
            yield ChatGenerationChunk(message=self._to_message(chunk))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages, *args, **kwargs))

    def _to_message(self, chunk: ChatChunk) -> AIMessageChunk:
        """Return a chunk of the client as one of LangChain.

        The share of the prompt that the model has read (from 0 to 1) goes into the metadata.
        """
        if chunk.end is not None:
            return self._last_message(chunk.end)
        if chunk.read_share is not None:
            return AIMessageChunk(
                content="", response_metadata=read_share_metadata(chunk.read_share)
            )
        return AIMessageChunk(
            content=chunk.text,
            additional_kwargs={"reasoning_content": chunk.reasoning} if chunk.reasoning else {},
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=call.arguments, id=call.id, index=call.number)
                for call in chunk.calls
            ],
        )

    def _last_message(self, end: AnswerEnd) -> AIMessageChunk:
        """Return the last chunk of an answer, with its usage and the reason for its end."""
        metadata = {"model_name": end.model or self.model, "finish_reason": end.reason}
        cost = {} if end.cost is None else {"cost": end.cost}
        message = AIMessageChunk(content="", response_metadata=metadata | cost)
        if end.reasoning_details:
            message.additional_kwargs["reasoning_details"] = list(end.reasoning_details)
        usage = end.usage
        if usage is not None:
            details = InputTokenDetails(cache_read=usage.from_cache, cache_creation=usage.to_cache)
            message.usage_metadata = {
                "input_tokens": usage.read_tokens,
                "output_tokens": usage.written_tokens,
                "total_tokens": usage.read_tokens + usage.written_tokens,
                "input_token_details": details,
            }
        return message


def _to_openai_tool_choice(choice: Any) -> Any:
    """Return LangChain's choice of a tool in the form of Chat Completions."""
    if choice in ("any", True):
        return "required"
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        return {"type": "function", "function": {"name": choice}}
    return choice


def _to_client_message(message: BaseMessage) -> dict[str, Any]:
    """Return LangChain's message in the form of Chat Completions."""
    role = _ROLES.get(message.type, "user")
    converted: dict[str, Any] = {"role": role, "content": _content(message)}
    if isinstance(message, ToolMessage):
        converted["tool_call_id"] = message.tool_call_id
    elif isinstance(message, AIMessage) and message.tool_calls:
        converted["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
            }
            for call in message.tool_calls
        ]
        # Services whose model thinks between its calls want the thoughts back, in one of two forms.
        thoughts = message.additional_kwargs
        for name in ("reasoning_details", "reasoning_content"):
            if thoughts.get(name):
                converted[name] = thoughts[name]
                break
    return converted


def _content(message: BaseMessage) -> str | list[dict[str, Any]]:
    """Return the text of a message, or, if it has pictures, its texts and pictures in the form of
    Chat Completions."""
    blocks: list[dict[str, Any]] = []
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, str):
            blocks.append({"type": "text", "text": block})
        elif block.get("type") == "image" and "base64" in block:
            url = f"data:{block.get('mime_type', 'image/png')};base64,{block['base64']}"
            blocks.append({"type": "image_url", "image_url": {"url": url}})
        elif block.get("type") in ("text", "image_url"):
            blocks.append(block)
    has_pictures = any(block["type"] == "image_url" for block in blocks)
    if has_pictures:
        return blocks
    return str(message.text)
