"""An agent that others have written: Claude Code, with a service on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests import tags
from tests.acp_client.conftest import OpenAnswering
from tests.services import ANTHROPIC, Reply, Service, serving

COMMAND = "claude-agent-acp"
EVAL = "mcp__mahtab__eval"
CODE = "answer = sum(range(10)); answer"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which(COMMAND) is None,
        reason=f"{COMMAND} is not on the PATH: npm install -g @agentclientprotocol/{COMMAND}, with Node 22",
    ),
]


def event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def tool_call() -> Reply:
    """Return an answer that calls our tool."""
    block = {"type": "tool_use", "id": "toolu_1", "name": EVAL, "input": {}}
    arguments = {"type": "input_json_delta", "partial_json": json.dumps({"code": CODE})}
    pieces = [
        ANTHROPIC.begin[0],
        event("content_block_start", index=0, content_block=block),
        event("content_block_delta", index=0, delta=arguments),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
        event("message_stop"),
    ]
    return Reply(pieces, 200, {"content-type": ANTHROPIC.content}, False)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service whose model calls our tool, and then says what it has got."""
    with serving() as service:

        def next_reply() -> Reply:
            request = service.asked[-1]
            last_message = json.dumps(request["messages"][-1])
            if "tool_result" in last_message:
                return ANTHROPIC.reply("It is ", "45." if "45" in last_message else "missing.")
            if EVAL in [tool["name"] for tool in request.get("tools", ())]:
                return tool_call()
            return ANTHROPIC.reply("A title")

        monkeypatch.setattr(service, "next_reply", next_reply)
        yield service


def test_claude_code_computes_in_the_namespace(answering: OpenAnswering, service: Service) -> None:
    environment = {
        "ANTHROPIC_API_KEY": "sk-ant-no-key",
        "ANTHROPIC_BASE_URL": service.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Otherwise it does not start for root.
        "IS_SANDBOX": "1",
    }
    it = answering(command=[COMMAND], agent={"env": environment, "options": {"mode": "default"}})
    turn = it.begin_question("What is the sum?")
    assert it.wait_approval().text == CODE
    it.decide("run")
    assert it.wait_end(turn) == "done", it.notices
    assert it.answer(turn).endswith("It is 45.")
    assert it.store.wait(tags.ASSISTANT_REPL_IN).party == "other"
    assert it.value("answer") == "45"
    assert it.notices == []
    assert it.session.agent.change_options("").startswith("mode is default (of ")
