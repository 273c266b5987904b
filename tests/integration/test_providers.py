"""Models of providers, and their tools, over services on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.agent import create_initial_state, create_repl_agent, create_repl_graph, run_graph
from mahtab_tui.agent.model_calls import read_answer
from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.usage import input_limit, model_name, priced_as, worst_cost
from tests import tags
from tests.agents import Desk
from tests.integration.asking import PATIENCE, ask
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
    refusing,
)


def test_answer_streams_token_by_token(service: Service, protocol: Protocol) -> None:
    seen: list[str | None] = []
    arrived = threading.Semaphore(0)

    def wait() -> None:
        assert arrived.acquire(timeout=PATIENCE)

    words = protocol.words
    service.replies = [
        protocol.sending(
            [words("It "), wait, words("is "), wait, words("so."), wait, *protocol.end]
        )
    ]

    def see(token: str | None) -> None:
        seen.append(token)
        arrived.release()

    answer = read_answer(
        get_llm(protocol.spec, timeout=PATIENCE), [HumanMessage("hi")], threading.Event(), see
    )
    assert seen == ["It ", "is ", "so."]
    assert (answer.text, answer.ended) == ("It is so.", True)


def test_usage_and_cost_are_reported(service: Service, protocol: Protocol) -> None:
    usage = ask(service, protocol, protocol.reply("Hello")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (1000, 100)
    assert usage.model == protocol.spec.partition(":")[2]
    if protocol is OPENROUTER:
        assert usage.cost == 0.0123, "as OpenRouter itself tells it"
    elif protocol is OLLAMA:
        assert usage.cost == 0
    else:
        assert usage.cost is not None
        assert usage.cost > 0
    assert not usage.estimated


def test_cumulative_counts_of_anthropic_are_counted_once(service: Service) -> None:
    (_, counts, _) = ANTHROPIC.end
    usage = ask(
        service,
        ANTHROPIC,
        ANTHROPIC.sending([ANTHROPIC.words("Hello"), counts, counts, *ANTHROPIC.end]),
    ).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1000, 100, 400)


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


def test_thoughts_are_shown_and_not_sent_again(
    service: Service, protocol: Protocol, tmp_path: Path
) -> None:
    thought = next(piece for name, piece in THOUGHTS.items() if PROTOCOLS[name] is protocol)
    answer = [thought, thought, protocol.words("```python\n1 + 1\n```"), *protocol.end]
    service.replies = [protocol.sending(answer), protocol.reply("Two.")]
    desk = Desk(tmp_path)
    agent = create_repl_agent(desk.host, get_llm(protocol.spec))
    try:
        assert agent.ask_sync("How many?") == "Two."
    finally:
        desk.session.close()
    shown = [
        (record.tag, record.text)
        for record in desk.records
        if record.tag in (tags.ASSISTANT_THOUGHT, tags.ASSISTANT_THOUGHT_STREAM)
    ]
    pieces = (tags.ASSISTANT_THOUGHT_STREAM, "Let me ")
    assert shown == [pieces, pieces, (tags.ASSISTANT_THOUGHT, "Let me Let me ")]
    assert len(service.asked) == 2
    assert "Let me" not in str(service.asked[1]["messages"])


def test_truncated_answer_gives_a_warning(
    service: Service, protocol: Protocol, tmp_path: Path
) -> None:
    service.replies = [protocol.sending([protocol.words("It is"), *protocol.cut])]
    desk = Desk(tmp_path)
    try:
        assert create_repl_agent(desk.host, get_llm(protocol.spec)).ask_sync("What?") == "It is"
    finally:
        desk.session.close()
    assert desk.notices("warning") == [
        "The answer was cut off: it reached the model's token limit."
    ]


def test_many_threads_can_ask_one_model_at_once(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello ", "there")]
    llm = get_llm(protocol.spec, timeout=PATIENCE)
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(str(llm.invoke("hi").text)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Hello there"] * 8


def test_retrying_is_left_to_the_caller(service: Service, protocol: Protocol) -> None:
    service.replies = [refusing(429, "Later.", kind="x", plain=protocol is OLLAMA)]
    with pytest.raises(ModelBusy):
        get_llm(protocol.spec).invoke("hi")
    assert len(service.asked) == 1


def test_service_at_a_base_url_does_not_receive_the_openai_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_BASE")
    service.replies = [OPENAI.reply("Hello")]
    answer = read_answer(
        get_llm("openai:our-own", base_url=f"{service.url}/v1"),
        [HumanMessage("hi")],
        threading.Event(),
    )
    assert answer.text == "Hello"
    assert service.asked[0]["model"] == "our-own"
    assert "no-secret" not in str(service.headers)
    assert answer.usage is not None
    assert answer.usage.cost == 0, "nobody is paid for what runs here"
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "of-our-own")
    read_answer(
        get_llm("openai:our-own", base_url=f"{service.url}/v1"),
        [HumanMessage("hi")],
        threading.Event(),
    )
    assert service.headers[1]["authorization"] == "Bearer of-our-own"


def test_cost_and_context_size_are_known_with_tools_too(
    service: Service, protocol: Protocol
) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    llm = get_llm(protocol.spec)
    bound: Any = llm.bind_tools([find])
    assert (model_name(bound), priced_as(bound), input_limit(bound)) == (
        model_name(llm),
        priced_as(llm),
        input_limit(llm),
    )
    assert worst_cost(bound, ["hi"]) == worst_cost(llm, ["hi"])
    service.replies = [protocol.reply("Hello")]
    assert read_answer(bound, [HumanMessage("hi")], threading.Event()).text == "Hello"


def test_a_bounded_answer_asks_for_no_more_tokens(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec, max_tokens=321).invoke("hi")
    body = service.asked[0]
    assert 321 in (
        body.get("max_tokens"),
        body.get("max_completion_tokens"),
        body.get("options", {}).get("num_predict"),
    )


# Tools over the providers' protocols: calls as they are streamed, results as they are sent back.

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "app.py"}),
    ("search_code", {"pattern": "("}),
]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.agent.nodes.is_on_this_machine", lambda llm: False)


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    (project / "app.py").write_text("x = 1\n")
    desk = Desk(project)
    yield desk
    desk.session.close()


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
                pieces.append(
                    _event(
                        "content_block_delta",
                        index=index + 1,
                        delta={"type": "input_json_delta", "partial_json": part},
                    )
                )
        elif protocol is OLLAMA:
            call = {"function": {"name": name, "arguments": arguments}}
            pieces.append(
                _line(
                    message={"role": "assistant", "content": "", "tool_calls": [call]}, done=False
                )
            )
        else:
            model = protocol.spec.partition(":")[2]
            first: dict[str, Any] = {
                "index": index,
                "id": f"id-{index}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
            pieces.append(_delta(model, tool_calls=[first]))
            for part in (written[:5], written[5:]):
                pieces.append(
                    _delta(model, tool_calls=[{"index": index, "function": {"arguments": part}}])
                )
    if protocol is ANTHROPIC:
        end = [
            piece.replace(b"end_turn", b"tool_use").replace(b'"index": 0', b'"index": 2')
            for piece in protocol.end
        ]
    else:
        end = [
            piece.replace(b'"finish_reason": "stop"', b'"finish_reason": "tool_calls"')
            for piece in protocol.end
        ]
    return protocol.sending([*pieces, *end])


@pytest.mark.usefixtures("elsewhere")
def test_calls_run_and_results_are_returned_in_the_protocols_format(
    service: Service, protocol: Protocol, desk: Desk
) -> None:
    service.replies = [calling(protocol), protocol.reply("x is 1.")]
    graph = create_repl_graph(get_llm(protocol.spec), desk.host, tools=desk.session.tools())
    state = run_graph(graph, create_initial_state("what is x?"), desk.host)
    assert (state["current_response"], state["failure"]) == ("x is 1.", "")
    ended = [
        record for record in desk.of(tags.ASSISTANT_TOOL) if record.attrs["state"] != "running"
    ]
    assert [
        (record.attrs["name"], json.loads(record.attrs["arguments"]), record.attrs["state"])
        for record in ended
    ] == [
        ("read_file", CALLS[0][1], "ok"),
        ("search_code", CALLS[1][1], "error"),
    ]
    first, second = service.asked
    assert len(first["tools"]) == len(second["tools"]) == 2
    sent = json.dumps(second["messages"])
    assert "     1  x = 1" in sent
    assert "is not a regular expression" in sent
    if protocol is ANTHROPIC:
        results = [
            block for block in second["messages"][-1]["content"] if block["type"] == "tool_result"
        ]
        assert [block["tool_use_id"] for block in results] == ["id-0", "id-1"]
        used = [block for block in second["messages"][-2]["content"] if block["type"] == "tool_use"]
        assert [(block["id"], block["input"]) for block in used] == [
            ("id-0", CALLS[0][1]),
            ("id-1", CALLS[1][1]),
        ]
    else:
        assert [message["role"] for message in second["messages"][-3:]] == [
            "assistant",
            "tool",
            "tool",
        ]
        assert len(second["messages"][-3]["tool_calls"]) == 2


@pytest.mark.usefixtures("elsewhere")
def test_service_refusing_tools_is_asked_without_them(
    service: Service, protocol: Protocol, desk: Desk
) -> None:
    service.replies = [
        refusing(400, "llama3.2 does not support tools", plain=protocol is OLLAMA),
        protocol.reply("It is a list."),
    ]
    agent = create_repl_agent(desk.session, get_llm(protocol.spec))
    assert agent.ask_sync("what is it?") == "It is a list."
    assert ["tools" in asked and bool(asked["tools"]) for asked in service.asked] == [True, False]
