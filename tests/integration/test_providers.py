"""A provider's own LangChain package, over a server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.agent.hearing import hear
from mahtab_tui.llm.providers import get_llm


class Completions(BaseHTTPRequestHandler):
    """Answers as the chat completions of OpenAI do; the model `refused` gets an error."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body)
        if body["model"] == "refused":
            self._send(401, "application/json", json.dumps({"error": {"message": "Incorrect API key provided."}}))
            return
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": word}}]} for word in ("Hello ", "there")]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}})
        about = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        lines = [f"data: {json.dumps(about | chunk)}\n\n" for chunk in chunks]
        self._send(200, "text/event-stream", "".join(lines) + "data: [DONE]\n\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A server for the time of the test; what it was asked."""
    Completions.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Completions) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield Completions.asked
        server.shutdown()


def test_an_answer_streams_with_what_it_used_and_cost(asked: list[dict[str, Any]]) -> None:
    tokens: list[str] = []
    answer = hear(get_llm("openai:gpt-4o", timeout=10), [HumanMessage("hi")], threading.Event(), tokens.append)
    assert tokens == ["Hello ", "there"]
    assert answer.text == "Hello there"
    assert answer.ended
    assert answer.usage is not None
    assert (answer.usage["model"], answer.usage["input_tokens"], answer.usage["output_tokens"]) == ("gpt-4o", 1000, 100)
    assert answer.usage["cost"] > 0
    assert asked[0]["stream"] is True


def test_a_price_that_nobody_knows_is_none(asked: list[dict[str, Any]]) -> None:
    answer = hear(get_llm("openai:our-own-model", timeout=10), [HumanMessage("hi")], threading.Event())
    assert answer.usage is not None
    assert answer.usage["cost"] is None


def test_a_refusal_is_a_sentence(asked: list[dict[str, Any]]) -> None:
    answer = hear(get_llm("openai:refused", timeout=10), [HumanMessage("hi")], threading.Event())
    assert "Incorrect API key" in answer.failure
