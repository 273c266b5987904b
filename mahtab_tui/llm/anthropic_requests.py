"""A conversation as a request of Anthropic's protocol Messages.

Our own form of a conversation is that of Chat Completions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mahtab_tui.llm.chat_answers import Message, join_text

_MAX_TOKENS = 32_000
"""A limit that all models of Anthropic accept; a request must name one."""


def write_request(
    model: str, messages: Sequence[Message], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request.

    Args:
        model: The name of the model.
        messages: The conversation.
        options: Options of Chat Completions; others are passed on.
    """
    others = dict(options)
    others.setdefault("max_tokens", _MAX_TOKENS)
    stop = others.pop("stop", None)
    tools = others.pop("tools", None)
    choice = others.pop("tool_choice", None)
    body = {"model": model, "messages": _turns(messages), "stream": True, **others}

    system_texts = [
        join_text(message.get("content")) for message in messages if message["role"] == "system"
    ]
    if system_texts:
        body["system"] = "\n\n".join(system_texts)
    if stop:
        body["stop_sequences"] = stop
    if tools:
        body["tools"] = [_tool(tool["function"]) for tool in tools]
        if choice is not None:
            body["tool_choice"] = _tool_choice(choice)
    return body


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as turns of user and assistant.

    Tool results are the user's, and must all be in the message after their calls.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = [] if message["role"] == "system" else [*_blocks(message)]
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:  # empty messages are rejected
            turns.append({"role": role, "content": blocks})

    if len(turns) > 1 and turns[-1]["role"] == "user":
        # A conversation that continued will continue; the service caches it only on request.
        turns[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return turns


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a message: a tool result, or thinking, contents and calls."""
    content = message.get("content") or ""
    call_id = message.get("tool_call_id")
    if call_id is not None:
        yield {"type": "tool_result", "tool_use_id": call_id, "content": join_text(content)}
        return
    yield from message.get("reasoning_details", ())
    blocks: list[dict[str, Any]] = content if isinstance(content, list) else []
    for block in blocks or [{"type": "text", "text": content}]:
        if block["type"] == "image_url":
            yield {"type": "image", "source": _picture_source(block["image_url"]["url"])}
        elif block.get("text"):
            yield {"type": "text", "text": block["text"]}
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _picture_source(url: str) -> dict[str, Any]:
    """Return the source of a picture: the address itself, or the data that it contains."""
    media_type, separator, data = url.partition(";base64,")
    if not separator:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type.removeprefix("data:"), "data": data}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a tool."""
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _tool_choice(choice: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return which tool the model must call: "auto", "none", "required", or a function."""
    if isinstance(choice, str):
        return {"type": "any" if choice == "required" else choice}
    if choice.get("function") is None:
        return choice
    return {"type": "tool", **choice["function"]}
