"""Searches by a provider's model, over a server on this machine."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

import pytest

from mahtab_tui.llm.base import ModelError
from mahtab_tui.search import limits
from mahtab_tui.search.api import rlm
from tests import tags
from tests.recursion_scripts import TEXT, Story
from tests.services import LocalServer, answering


class Completions(BaseHTTPRequestHandler):
    """Answers as the chat completions of OpenAI do, on connections that stay open: code for a
    search's root, words for a plain call."""

    protocol_version = "HTTP/1.1"
    overloads: ClassVar[int] = 0
    """How often plain calls are refused first."""
    silent: ClassVar[bool] = False
    """Plain calls get no answer."""
    over: ClassVar[threading.Event] = threading.Event()
    """The test has ended."""
    most: ClassVar[set[int | None]] = set()
    """The tokens that answers may have."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Completions.most.add(asked.get("max_completion_tokens"))
        root = "writing Python" in str(asked["messages"][0])
        if not root and Completions.silent:
            Completions.over.wait(30)
        if not root and Completions.overloads:
            Completions.overloads -= 1
            self._send(
                429, "application/json", json.dumps({"error": {"message": "Rate limit reached."}})
            )
            return
        words = "```python\nFINAL(' '.join(rlm_map('read', partition(6))))\n```" if root else "fine"
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": words}}]}
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append(
            {
                "choices": [],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
            }
        )
        about = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": asked["model"],
        }
        self._send(
            200,
            "text/event-stream",
            "".join(f"data: {json.dumps(about | chunk)}\n\n" for chunk in chunks)
            + "data: [DONE]\n\n",
        )

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after", "0.01")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Completions, "overloads", 0)
    monkeypatch.setattr(Completions, "silent", False)
    monkeypatch.setattr(Completions, "over", over := threading.Event())
    monkeypatch.setattr(Completions, "most", set())
    with LocalServer(Completions) as server, answering(server):
        monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield
        over.set()


def test_consecutive_searches_use_their_own_loops() -> None:
    story = Story()
    for _ in range(3):
        assert (
            rlm(
                "what?",
                TEXT * 10,
                model="openai:gpt-4o",
                max_usd=1,
                max_depth=1,
                on_event=story.append,
            )
            == "fine " * 5 + "fine"
        )
    usage = story.of(tags.USAGE)
    assert len(usage) == 21
    assert {record.attrs["model"] for record in usage} == {"gpt-4o"}
    assert all(record.attrs["cost"] > 0 for record in usage)
    assert Completions.most == {4_096}


def test_model_used_by_another_loop_works() -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4o")

    async def program() -> str:
        chunks = [str(chunk.text) async for chunk in model.astream("read")]
        chunks.append(rlm("what?", TEXT * 10, model=model, max_depth=1, max_usd=1))
        chunks += [str(chunk.text) async for chunk in model.astream("read")]
        return "".join(chunks)

    assert asyncio.run(program()) == "fine" * 2 + " fine" * 5 + "fine"
    assert Completions.most == {None, 4_096}


def test_busy_service_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(Completions, "overloads", 12)
    story = Story()
    assert (
        rlm("what?", TEXT * 10, model="openai:gpt-4o", max_depth=1, on_event=story.append)
        == "fine " * 5 + "fine"
    )


def test_dollar_limit_needs_a_price() -> None:
    with pytest.raises(ModelError, match="The price of openai:our-own is unknown"):
        rlm("what?", TEXT * 10, model="openai:our-own", max_usd=1)


def test_silent_service_is_abandoned_when_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Completions, "silent", True)
    began = time.monotonic()
    answer = rlm("what?", TEXT * 10, model="openai:gpt-4o", max_depth=1, max_seconds=4)
    assert "rlm_map" in answer, "the root's last call, which this server answers as the first"
    assert time.monotonic() - began < 25, "it answers after 30 s"
