"""One answer of the model, streamed to the bus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AnyMessage, BaseMessage

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.bus.parser import route_response
from mahtab_tui.bus.stream import StreamingHandler

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

OnToken = Callable[[str], None]


def words_of(message: BaseMessage) -> str:
    """A message's text."""
    return str(message.text)


def collect(llm: BaseChatModel, messages: Sequence[AnyMessage], host: AgentHost, source: str, on_token: OnToken) -> str:
    """Stream an answer to its end, or until the turn is cancelled; logs what it cost. Raises what the model raises."""
    text = ""
    final: str | None = None
    usage: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for chunk in llm.stream(list(messages)):
        token = words_of(chunk)
        if token:
            text += token
            on_token(token)
        usage |= getattr(chunk, "usage_metadata", None) or {}
        metadata |= chunk.response_metadata
        final = metadata.get("final_text", final)
        if host.cancelled.is_set():
            break
    if usage or metadata:
        details = usage.get("input_token_details") or {}
        host.usage(
            source=source,
            model=metadata.get("model_name", ""),
            input_tokens=usage.get("input_tokens", 0),
            output_tokens=usage.get("output_tokens", 0),
            cache_read_tokens=details.get("cache_read", 0),
            cache_creation_tokens=details.get("cache_creation", 0),
            cost=metadata.get("cost_usd"),
        )
    return text if final is None else final


def speak(
    llm: BaseChatModel, messages: Sequence[AnyMessage], host: AgentHost, on_token: OnToken, *, turn: int, step: int
) -> str:
    """An answer to the person: drawn while it comes, then logged as a whole. What came before an error is logged, too."""
    attrs = {"turn": turn, "step": step, "party": host.party}
    stream = StreamingHandler(host.log, **attrs)
    said: list[str] = []

    def token_came(token: str) -> None:
        said.append(token)
        stream.process_token(token)
        on_token(token)

    try:
        text = collect(llm, messages, host, "agent", token_came)
    except BaseException:
        stream.flush()
        if said:
            route_response("".join(said), host.log, **attrs, stopped=True)
        raise
    stream.flush()
    stopped = host.cancelled.is_set()
    route_response(text, host.log, ended=not stopped, **attrs, stopped=stopped)
    return text
