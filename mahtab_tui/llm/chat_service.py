"""LangChain's chat models over `chat_client`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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

_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


class ChatService(BaseChatModel):
    """A model of a service, for any threads. It does not retry."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    dialect: Dialect
    address: str
    model: str
    provider: str
    priced_as: str
    timeout: float
    max_answer_chars: int = MAX_ANSWER_CHARS
    key: str = ""
    secret: SecretStr = SecretStr("")
    max_tokens: int | None = None
    num_ctx: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    on_notice: OnNotice | None = None

    _client: ChatClient = PrivateAttr()

    @classmethod
    def from_service(cls, service: Service, on_notice: OnNotice | None = None) -> ChatService:
        fields = {**asdict(service), "secret": SecretStr(service.secret)}
        return cls(**fields, on_notice=on_notice)

    def model_post_init(self, context: Any, /) -> None:
        self._client = ChatClient(
            self.dialect,
            self.address,
            self.model,
            key=self.secret.get_secret_value(),
            key_name=self.key,
            timeout=self.timeout,
            max_answer_chars=self.max_answer_chars,
            on_notice=self.on_notice,
        )

    @property
    def _llm_type(self) -> str:
        return self.provider

    @property
    def window(self) -> int | None:
        return self._client.facts().window if self.dialect == "compatible" else self.num_ctx

    @property
    def sees(self) -> bool | None:
        if self.dialect in ("anthropic", "openai"):
            return True
        return self._client.facts().sees if self.dialect == "compatible" else None

    @property
    def parameters(self) -> int | None:
        """The number of the model's parameters; None if its server does not say."""
        return self._client.facts().parameters if self.dialect == "compatible" else None

    def stop(self) -> None:
        self._client.stop()

    def close(self) -> None:
        self._client.close()

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, Any]:
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
        fields = ("temperature", "top_p", "seed", "max_tokens", "num_ctx")
        options = {name: getattr(self, name) for name in fields} | {"stop": stop} | kwargs
        choice = options.get("tool_choice")
        if choice is not None:
            options["tool_choice"] = _to_openai_tool_choice(choice)
        # LangChain needs a chunk even if the answer is stopped.
        yield ChatGenerationChunk(message=AIMessageChunk(content=""))
        for chunk in self._client.stream(list(map(_to_client_message, messages)), **options):
            yield ChatGenerationChunk(message=self._to_message(chunk))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages, *args, **kwargs))

    def _to_message(self, chunk: ChatChunk) -> AIMessageChunk:
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
        metadata = {"model_name": end.model or self.model, "finish_reason": end.reason}
        cost = {} if end.cost is None else {"cost": end.cost}
        message = AIMessageChunk(content="", response_metadata=metadata | cost)
        if end.reasoning_details:
            message.additional_kwargs["reasoning_details"] = list(end.reasoning_details)
        usage = end.usage
        if usage is not None:
            details = InputTokenDetails(cache_read=usage.from_cache, cache_creation=usage.to_cache)
            message.usage_metadata = {
                "input_tokens": usage.read,
                "output_tokens": usage.written,
                "total_tokens": usage.read + usage.written,
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
        # Services that let their model think between calls want its thoughts back, once.
        thoughts = message.additional_kwargs
        for name in ("reasoning_details", "reasoning_content"):
            if thoughts.get(name):
                converted[name] = thoughts[name]
                break
    return converted


def _content(message: BaseMessage) -> str | list[dict[str, Any]]:
    """Return a message's text; with pictures, its blocks."""
    blocks: list[dict[str, Any]] = []
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, str):
            blocks.append({"type": "text", "text": block})
        elif block.get("type") == "image" and "base64" in block:
            url = f"data:{block.get('mime_type', 'image/png')};base64,{block['base64']}"
            blocks.append({"type": "image_url", "image_url": {"url": url}})
        elif block.get("type") in ("text", "image_url"):
            blocks.append(block)
    if any(block["type"] == "image_url" for block in blocks):
        return blocks
    return str(message.text)
