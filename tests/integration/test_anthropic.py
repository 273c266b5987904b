"""Anthropic's protocol: its requests, and answers that only it gives."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_answers import AnswerEnd, TokenUsage
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.providers import get_llm
from tests.integration.asking import PATIENCE, ask
from tests.services import ANTHROPIC, Reply, Service, _event

TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "Find words.", "parameters": {"type": "object"}},
}
PICTURE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


def delta(index: int, kind: str, **fields: str) -> bytes:
    return _event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


def block(index: int, **fields: Any) -> bytes:
    return _event("content_block_start", index=index, content_block=fields)


def end_of(service: Service, *pieces: bytes) -> AnswerEnd:
    service.replies = [Reply(pieces, headers={"content-type": ANTHROPIC.content})]
    client = ChatClient("anthropic", service.url, "m", timeout=PATIENCE)
    *_, last_chunk = client.stream([{"role": "user", "content": "hi"}])
    assert last_chunk.end is not None
    return last_chunk.end


def test_request_has_the_protocols_form(service: Service) -> None:
    calls = [{"id": call_id, "name": "find", "args": {"x": call_id}} for call_id in "ab"]
    messages: list[BaseMessage] = [
        SystemMessage("Be brief."),
        HumanMessage([{"type": "text", "text": "What is it?"}, PICTURE]),
        AIMessage("", tool_calls=calls),
        *(ToolMessage(f"result {call_id}", tool_call_id=call_id) for call_id in "ab"),
        HumanMessage("And now?"),
        AIMessage(""),
        HumanMessage("Well?"),
    ]
    service.replies = [ANTHROPIC.reply("So.")]
    get_llm(ANTHROPIC.spec).invoke(messages, tools=[TOOL], tool_choice="find", stop=["x"])
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    question = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    tool_uses = [
        {"type": "tool_use", "id": call_id, "name": "find", "input": {"x": call_id}}
        for call_id in "ab"
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": f"result {call_id}"}
        for call_id in "ab"
    ]
    last_block = {"type": "text", "text": "Well?", "cache_control": {"type": "ephemeral"}}
    schema = {"type": "object"}
    assert service.asked[0] == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32_000,
        "stream": True,
        "system": "Be brief.",
        "stop_sequences": ["x"],
        "tools": [{"name": "find", "description": "Find words.", "input_schema": schema}],
        "tool_choice": {"type": "tool", "name": "find"},
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": tool_uses},
            {
                "role": "user",
                "content": [*results, {"type": "text", "text": "And now?"}, last_block],
            },
        ],
    }
    assert service.paths == ["/v1/messages"]
    assert service.headers[0]["x-api-key"] == "no-secret"
    assert service.headers[0]["anthropic-version"] == "2023-06-01"


def test_thoughts_are_returned_with_the_calls_they_led_to(service: Service) -> None:
    thinking = [
        block(0, type="thinking", thinking="", signature=""),
        *(delta(0, "thinking", thinking=piece) for piece in ("Let ", "me")),
        *(delta(0, "signature", signature=piece) for piece in "sig"),
        block(1, type="redacted_thinking", data="d"),
        block(2, type="tool_use", id="a", name="find", input={}),
        delta(2, "input_json", partial_json="{}"),
    ]
    service.replies = [ANTHROPIC.sending([*thinking, *ANTHROPIC.end]), ANTHROPIC.reply("Done.")]
    llm = get_llm(ANTHROPIC.spec)
    first_answer = llm.invoke("hi", tools=[TOOL])
    assert isinstance(first_answer, AIMessage)
    llm.invoke(
        [HumanMessage("hi"), first_answer, ToolMessage("it", tool_call_id="a")], tools=[TOOL]
    )
    assert service.asked[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Let me", "signature": "sig"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "a", "name": "find", "input": {}},
    ]


def test_counts_that_are_not_repeated_stay(service: Service) -> None:
    counts = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9}
    start = _event("message_start", message={"model": "m", "usage": {**counts, "output_tokens": 1}})
    last_event = _event(
        "message_delta", delta={"stop_reason": "refusal"}, usage={"output_tokens": 3}
    )
    end = end_of(service, start, last_event, _event("message_stop"))
    assert (end.model, end.reason, end.usage) == ("m", "refusal", TokenUsage(21, 3, 7, 9))


def test_only_a_continued_conversation_is_cached(service: Service) -> None:
    service.replies = [ANTHROPIC.reply("So.")]
    llm = get_llm(ANTHROPIC.spec)
    llm.invoke("a text that is read once")
    llm.invoke([HumanMessage("hi"), AIMessage("So."), HumanMessage("And?")])
    assert ["cache_control" in str(request) for request in service.asked] == [False, True]


def test_writing_to_the_cache_is_priced(service: Service) -> None:
    def cost(**counts: int) -> float:
        usage = {"input_tokens": 0, "output_tokens": 1, **counts}
        last_event = _event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
        reported_usage = ask(
            service, ANTHROPIC, ANTHROPIC.sending([last_event, _event("message_stop")])
        ).usage
        assert reported_usage is not None
        assert reported_usage.cost is not None
        return reported_usage.cost

    written = cost(cache_creation_input_tokens=100_000, cache_read_input_tokens=0)
    assert written > cost(input_tokens=100_000, cache_read_input_tokens=0)


@pytest.mark.parametrize(
    "event",
    [
        _event("message_start", message=7),
        _event("content_block_start", content_block={"type": "text", "text": ""}),
        _event("content_block_start", index=1, content_block=[]),
        _event("content_block_delta", index=-1, delta={"type": "text_delta", "text": "x"}),
        _event("content_block_delta", index=5, delta={"partial_json": "{}"}),
        _event("message_delta", usage={"output_tokens": 1}),
    ],
)
def test_answer_in_another_format_gives_one_sentence(service: Service, event: bytes) -> None:
    with pytest.raises(ModelError, match="not a model's answer"):
        end_of(service, *ANTHROPIC.begin, event, *ANTHROPIC.end)


def test_unknown_events_and_fields_are_skipped(service: Service) -> None:
    odd = [_event("newer", index=1), block(1, type="newer"), delta(1, "newer", newer="x")]
    reply = ANTHROPIC.sending([*odd, delta(0, "text", text="So."), *ANTHROPIC.end])
    service.replies = [reply]
    assert get_llm(ANTHROPIC.spec).invoke("hi").text == "So."
