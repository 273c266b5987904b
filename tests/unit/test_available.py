"""Which models there are, and why some cannot be used."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from mahtab_tui.llm.available import found_models, ollama_address, ollama_models, problem_of
from tests.fake_claude import install_fake_claude
from tests.services import LocalServer, answering


@contextmanager
def ollama(body: bytes, status: int = 200) -> Iterator[str]:
    """A server that says this of its models; where it is."""

    class Tags(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/api/tags" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing on stderr."""

    with LocalServer(Tags) as server, answering(server):
        yield f"127.0.0.1:{server.server_port}"


def test_claude_is_offered_where_it_is_on_the_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    (claude,) = [model for model in found_models([], [], {}) if model.spec.startswith("claude")]
    assert "not on the PATH" in claude.problem
    fake = install_fake_claude(project / "bin", "answers", answers=["Hi."])
    monkeypatch.setenv("PATH", str(fake.folder))
    found = {model.spec: model.problem for model in found_models([], [], {})}
    assert (found["claude"], found["claude:opus"], found["demo"]) == ("", "", "")
    assert not fake.starts


def test_what_was_chosen_comes_before_what_was_used_and_each_stands_once(project: Path) -> None:
    found = found_models([("openai:mine", "answers now"), ("demo", "set as sub_model")], ["demo", "replay:missing.jsonl"], {})
    assert [(model.spec, model.about) for model in found[:3]] == [
        ("openai:mine", "answers now"),
        ("demo", "set as sub_model"),
        ("replay:missing.jsonl", "used before"),
    ]
    assert "missing.jsonl cannot be read" in found[2].problem
    specs = [model.spec for model in found]
    assert len(specs) == len(set(specs))


def test_a_missing_package_is_said_with_the_command_that_brings_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install langchain-openai" in problem_of("openai:gpt-5", {})
    assert "pip install langchain-anthropic" in problem_of("anthropic:", {})


def test_a_missing_key_is_said_with_its_variable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set OPENAI_API_KEY in the environment or in .env" in problem_of("openai:", {})
    assert problem_of("openai:", {"api_keys": {"openai": "sk"}}) == ""
    assert problem_of("openai:", {"base_url": "http://127.0.0.1:1"}) == ""
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert problem_of("openai:gpt-5", {}) == ""


def test_a_name_that_is_none_is_said(project: Path) -> None:
    assert "There is no model 'nonsense'" in problem_of("nonsense", {})


def test_the_models_of_ollama_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ollama(json.dumps({"models": [{"name": "llama3:8b"}, {"name": "qwen3"}]}).encode()) as address:
        monkeypatch.setenv("OLLAMA_HOST", address)
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert [(model.spec, model.about) for model in ollama_models() or ()] == [
            ("ollama:llama3:8b", f"at http://{address}"),
            ("ollama:qwen3", f"at http://{address}"),
        ]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"models": 3}', b'{"models": [3]}', b"\xff", b"[" * 100_000, b'{"models": [{}]}'],
    ids=lambda body: body[:20].decode("ascii", "replace") or "nothing",
)
def test_who_does_not_answer_as_ollama_is_nobody(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with ollama(body) as address:
        monkeypatch.setenv("OLLAMA_HOST", address)
        assert ollama_models() is None


def test_an_ollama_without_models_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with ollama(b'{"models": []}') as address:
        monkeypatch.setenv("OLLAMA_HOST", address)
        assert ollama_models() == []


def test_where_nobody_is_there_are_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("127.0.0.1:1", "http://[::", "127.0.0.1:no", "a b:1"):
        monkeypatch.setenv("OLLAMA_HOST", host)
        assert ollama_models() is None
    with ollama(b'{"models": [{"name": "x"}]}', status=500) as address:
        monkeypatch.setenv("OLLAMA_HOST", address)
        assert ollama_models() is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box:1234", "http://box:1234"),
        ("http://box/", "http://box:11434"),
        ("https://box.example", "https://box.example"),
    ],
)
def test_where_ollama_is_asked(host: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert ollama_address() == address
    assert os.environ["OLLAMA_HOST"] == host
