"""Models of Anthropic and Ollama, over LangChain's packages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk
from pydantic import PrivateAttr

from mahtab_tui.llm.base import BROKE_OFF, NOT_AN_ANSWER, REASONS, ModelError, explain_error
from mahtab_tui.llm.providers import Service

_ANSWER_TOKENS = 32_000
"""Most tokens of an answer that all models of Anthropic accept; a request must name a number."""


def make_packaged(service: Service) -> BaseChatModel:
    """Raises `ModelError`."""
    llm = _make(service)
    llm._service = service
    return llm  # type: ignore[no-any-return]


def _make(service: Service) -> Any:
    options: dict[str, Any] = {"model": service.model, "base_url": service.address}
    if service.dialect == "ollama":
        client = {"timeout": service.timeout, "follow_redirects": False}
        window, most = service.num_ctx, service.max_tokens
        return _ollama()(**options, client_kwargs=client, num_ctx=window, num_predict=most)
    if not service.secret.isascii() or not service.secret.isprintable():
        raise ModelError(f"The key has characters that no key has. Check {service.key}.")
    llm = _anthropic()(
        **options,
        api_key=service.secret or "none",
        max_tokens=service.max_tokens or _ANSWER_TOKENS,
        default_request_timeout=service.timeout,
        max_retries=0,
    )
    llm._client._client.follow_redirects = False  # no other address gets the key
    return llm


@cache
def _anthropic() -> Any:
    from langchain_anthropic import ChatAnthropic

    class AnthropicModel(ChatAnthropic):
        _service: Service = PrivateAttr()
        """Not a field, which traces would show."""

        @property
        def provider(self) -> str:
            return self._service.provider

        @property
        def priced_as(self) -> str:
            return self._service.priced_as

        def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            payload = super()._get_request_payload(*args, **kwargs)
            # A conversation that has gone on will go on: the service keeps it only on request.
            is_long = len(payload["messages"]) > 1
            return {**payload, "cache_control": {"type": "ephemeral"}} if is_long else payload

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            return _whole(self._service, super()._stream(*args, **kwargs))

    return AnthropicModel


@cache
def _ollama() -> Any:
    from langchain_ollama import ChatOllama

    class OllamaModel(ChatOllama):
        _service: Service = PrivateAttr()
        """Not a field, which traces would show."""

        @property
        def provider(self) -> str:
            return self._service.provider

        @property
        def priced_as(self) -> str:
            return self._service.priced_as

        reasoning: bool | str | None = True

        @property
        def window(self) -> int | None:
            return self.num_ctx

        def _chat_params(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            # Thoughts are read, but not asked for: many models have none, and then fail.
            params = super()._chat_params(*args, **kwargs) | {"think": None}
            if params.pop("tool_choice", "auto") == "none":
                del params["tools"]
            return params

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            return _whole(self._service, super()._stream(*args, **kwargs))

    return OllamaModel


def _whole(
    service: Service, chunks: Iterator[ChatGenerationChunk]
) -> Iterator[ChatGenerationChunk]:
    """The packages do not notice that a stream ends in the middle of an answer."""
    begun = ended = False
    try:
        for chunk in chunks:
            begun = True
            metadata = chunk.message.response_metadata | (chunk.generation_info or {})
            ended = ended or any(metadata.get(reason) for reason in REASONS)
            yield chunk
    except Exception as error:  # the package's code
        explained = explain_error(
            error, key=service.key, secret=service.secret, timeout=service.timeout
        )
        raise explained from None
    if not ended:
        raise ModelError(BROKE_OFF if begun else NOT_AN_ANSWER)
