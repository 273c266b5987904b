"""Tools over the providers' protocols: calls as they are streamed, results as they are sent
back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.agent import create_initial_state, create_repl_graph, run_graph
from mahtab_tui.agent.repl_agent import create_repl_agent
from mahtab_tui.llm.providers import get_llm
from tests import tags
from tests.agents import Desk
from tests.services import (
    ANTHROPIC,
    OLLAMA,
    Protocol,
    Reply,
    Service,
    _delta,
    _event,
    _line,
    refusing,
)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "app.py"}),
    ("search_code", {"pattern": "("}),
]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is not on this machine, where models get no tools."""
    monkeypatch.setattr("mahtab_tui.agent.nodes.is_on_this_machine", lambda llm: False)


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    (project / "app.py").write_text("x = 1\n")
    desk = Desk(project)
    yield desk
    desk.session.close()


def calling(protocol: Protocol) -> Reply:
    """An answer with words and two calls, in the provider's pieces."""
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
