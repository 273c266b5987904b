"""Models of providers, and their tools, over services on this machine."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.agent import create_repl_agent
from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.llm.context_window import input_limit
from mahtab_tui.llm.prices import model_name, priced_as, worst_cost
from mahtab_tui.llm.providers import get_llm
from tests import tags
from tests.agents import RecordedSession, read
from tests.integration.asking import PATIENCE, ask, refuse
from tests.services import (
    ANTHROPIC,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    PROTOCOLS,
    Protocol,
    Reply,
    Service,
    _delta,
    _event,
    _line,
)

THOUGHTS = {
    "anthropic": _event(
        "content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Let me "}
    ),
    "openai": _delta("gpt-4o", reasoning_content="Let me "),
    "openrouter": _delta("m", reasoning="Let me "),
    "ollama": _line(
        message={"role": "assistant", "content": "", "thinking": "Let me "}, done=False
    ),
}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "app.py"}),
    ("search_code", {"pattern": "("}),
]


def test_answer_streams_token_by_token(service: Service, protocol: Protocol) -> None:
    received_tokens: list[str | None] = []
    arrived = threading.Semaphore(0)

    def wait() -> None:
        assert arrived.acquire(timeout=PATIENCE)

    pieces = [piece for text in ("It ", "is ", "so.") for piece in (protocol.words(text), wait)]
    service.replies = [protocol.sending([*pieces, *protocol.end])]

    def see(token: str | None) -> None:
        received_tokens.append(token)
        arrived.release()

    answer = read(get_llm(protocol.spec, timeout=PATIENCE), on_token=see)
    assert received_tokens == ["It ", "is ", "so."]
    assert (answer.text, answer.is_complete) == ("It is so.", True)


def test_usage_and_cost_are_reported(service: Service, protocol: Protocol) -> None:
    usage = ask(service, protocol, protocol.reply("Hello")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (1000, 100)
    assert usage.model == protocol.spec.partition(":")[2]
    assert usage.cost is not None
    if protocol in (OPENROUTER, OLLAMA):
        assert usage.cost == (0.0123 if protocol is OPENROUTER else 0), "OpenRouter reports it"
    else:
        assert usage.cost > 0
    assert not usage.estimated


def test_cumulative_counts_of_anthropic_are_counted_once(service: Service) -> None:
    (_, counts, _) = ANTHROPIC.end
    reply = ANTHROPIC.sending([ANTHROPIC.words("Hello"), counts, counts, *ANTHROPIC.end])
    usage = ask(service, ANTHROPIC, reply).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1000, 100, 400)


def test_thoughts_are_shown_and_not_sent_again(
    service: Service, protocol: Protocol, recorded_session: RecordedSession
) -> None:
    thought = next(piece for name, piece in THOUGHTS.items() if PROTOCOLS[name] is protocol)
    answer = [thought, thought, protocol.words("```python\n1 + 1\n```"), *protocol.end]
    service.replies = [protocol.sending(answer), protocol.reply("Two.")]
    agent = create_repl_agent(recorded_session.host, get_llm(protocol.spec))
    assert agent.ask_sync("How many?") == "Two."
    pieces = [record.text for record in recorded_session.of(tags.ASSISTANT_THOUGHT_STREAM)]
    assert "".join(pieces) == "Let me Let me ", "in one piece or in two"
    assert [record.text for record in recorded_session.of(tags.ASSISTANT_THOUGHT)] == [
        "Let me Let me "
    ]
    assert len(service.asked) == 2
    assert "Let me" not in str(service.asked[1]["messages"])


def test_truncated_answer_gives_a_warning(
    service: Service, protocol: Protocol, recorded_session: RecordedSession
) -> None:
    service.replies = [protocol.sending([protocol.words("It is"), *protocol.cut])]
    assert (
        create_repl_agent(recorded_session.host, get_llm(protocol.spec)).ask_sync("What?")
        == "It is"
    )
    warning = "The answer was cut off: it reached the model's token limit."
    assert recorded_session.notices("warning") == [warning]


def test_many_threads_can_ask_one_model_at_once(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello ", "there")]
    llm = get_llm(protocol.spec, timeout=PATIENCE)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(llm.invoke, ["hi"] * 8))
    assert [answer.text for answer in answers] == ["Hello there"] * 8


def test_retrying_is_left_to_the_caller(service: Service, protocol: Protocol) -> None:
    service.replies = [refuse(protocol, 429, "Later.", kind="x")]
    with pytest.raises(ModelBusy):
        get_llm(protocol.spec).invoke("hi")
    assert len(service.asked) == 1


def test_service_at_a_base_url_does_not_receive_the_openai_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_BASE")
    service.replies = [OPENAI.reply("Hello")]
    llm = get_llm("openai:our-own", base_url=f"{service.url}/v1")
    answer = read(llm)
    assert answer.text == "Hello"
    assert service.asked[0]["model"] == "our-own"
    assert "no-secret" not in str(service.headers)
    assert answer.usage is not None
    assert answer.usage.cost == 0, "nobody is paid for what runs here"
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "of-our-own")
    read(get_llm("openai:our-own", base_url=f"{service.url}/v1"))
    assert service.headers[1]["authorization"] == "Bearer of-our-own"


def test_cost_and_context_size_are_known_with_tools_too(
    service: Service, protocol: Protocol
) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    llm = get_llm(protocol.spec)
    bound: Any = llm.bind_tools([find])
    for fact in (model_name, priced_as, input_limit, lambda llm: worst_cost(llm, ["hi"])):
        assert fact(bound) == fact(llm)
    service.replies = [protocol.reply("Hello")]
    assert read(bound).text == "Hello"


def test_a_bounded_answer_asks_for_no_more_tokens(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec, max_tokens=321).invoke("hi")
    body = service.asked[0]
    body |= body.get("options", {})
    assert 321 in map(body.get, ("max_tokens", "max_completion_tokens", "num_predict"))


# Tools over the providers' protocols: streamed calls, and results that are sent back.


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.agent.agent_model.is_on_this_machine", lambda llm: False)


def calling(protocol: Protocol) -> Reply:
    pieces = [protocol.words("Let me see.")]
    for index, (name, arguments) in enumerate(CALLS):
        written = json.dumps(arguments)
        if protocol is ANTHROPIC:
            block = {"type": "tool_use", "id": f"id-{index}", "name": name, "input": {}}
            pieces += [
                _event("content_block_stop", index=index),
                _event("content_block_start", index=index + 1, content_block=block),
            ]
            for part in ("", written[:5], written[5:]):
                delta = {"type": "input_json_delta", "partial_json": part}
                pieces.append(_event("content_block_delta", index=index + 1, delta=delta))
        elif protocol is OLLAMA:
            call = {"function": {"name": name, "arguments": arguments}}
            message = {"role": "assistant", "content": "", "tool_calls": [call]}
            pieces.append(_line(message=message, done=False))
        else:
            first_piece: dict[str, Any] = {"id": f"id-{index}", "type": "function"}
            first_piece["function"] = {"name": name, "arguments": ""}
            argument_pieces = (
                {"function": {"arguments": part}} for part in (written[:5], written[5:])
            )
            model = protocol.spec.partition(":")[2]
            deltas = (
                {"index": index, **call_piece} for call_piece in (first_piece, *argument_pieces)
            )
            pieces += [_delta(model, tool_calls=[delta]) for delta in deltas]
    ends = [(b'"finish_reason": "stop"', b'"finish_reason": "tool_calls"')]
    if protocol is ANTHROPIC:
        ends = [(b"end_turn", b"tool_use"), (b'"index": 0', b'"index": 2')]
    for piece in protocol.end:
        for old, new in ends:
            piece = piece.replace(old, new)
        pieces.append(piece)
    return protocol.sending(pieces)


@pytest.mark.usefixtures("elsewhere")
def test_calls_run_and_results_are_returned_in_the_protocols_format(
    service: Service, protocol: Protocol, recorded_session: RecordedSession, project: Path
) -> None:
    (project / "app.py").write_text("x = 1\n")
    service.replies = [calling(protocol), protocol.reply("x is 1.")]
    state = recorded_session.run(
        llm=get_llm(protocol.spec), tools=recorded_session.session.tools(), reflection="never"
    )
    assert (state["current_response"], state["failure"]) == ("x is 1.", "")
    attrs = [record.attrs for record in recorded_session.of(tags.ASSISTANT_TOOL)]
    finished = [call for call in attrs if call["state"] != "running"]
    assert [(call["name"], json.loads(call["arguments"])) for call in finished] == CALLS
    assert [call["state"] for call in finished] == ["ok", "error"]
    first_request, second_request = service.asked
    assert len(first_request["tools"]) == len(second_request["tools"]) == 2
    sent = json.dumps(second_request["messages"])
    assert "     1  x = 1" in sent
    assert "is not a regular expression" in sent
    if protocol is ANTHROPIC:
        tool_uses, results = (
            [block for block in message["content"] if block["type"] == kind]
            for message, kind in zip(
                second_request["messages"][-2:], ("tool_use", "tool_result"), strict=True
            )
        )
        assert [block["tool_use_id"] for block in results] == ["id-0", "id-1"]
        assert [block["id"] for block in tool_uses] == ["id-0", "id-1"]
        assert [block["input"] for block in tool_uses] == [arguments for _, arguments in CALLS]
    else:
        roles = [message["role"] for message in second_request["messages"][-3:]]
        assert roles == ["assistant", "tool", "tool"]
        assert len(second_request["messages"][-3]["tool_calls"]) == 2


@pytest.mark.usefixtures("elsewhere")
def test_service_refusing_tools_is_asked_without_them(
    service: Service, protocol: Protocol, recorded_session: RecordedSession
) -> None:
    service.replies = [
        refuse(protocol, 400, "llama3.2 does not support tools"),
        protocol.reply("It is a list."),
    ]
    agent = create_repl_agent(recorded_session.session, get_llm(protocol.spec))
    assert agent.ask_sync("what is it?") == "It is a list."
    assert ["tools" in request and bool(request["tools"]) for request in service.asked] == [
        True,
        False,
    ]
