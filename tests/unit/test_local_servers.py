"""Servers of models on this machine are found, whatever they say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.cli import doctor
from mahtab_tui.llm import providers
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import (
    SERVERS,
    chosen_model,
    default_model,
    find_server,
    find_servers,
    first_model,
    get_llm,
    server_address,
)
from mahtab_tui.llm.usage import model_name
from mahtab_tui.settings.model import load_settings
from tests.fake_claude import install_fake_claude
from tests.services import Service, serving

PATIENCE = 30.0
"""Seconds after which something that must come counts as lost."""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Service]]:
    """A server for each provider, with a model; there is no `claude`."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(providers, "_LIMIT", PATIENCE)
    monkeypatch.setattr(providers, "_LONGER", PATIENCE)
    with ExitStack() as stack:
        found = {provider: stack.enter_context(serving()) for provider in SERVERS}
        for provider, service in found.items():
            monkeypatch.setenv(f"{provider.upper()}_HOST", service.url.removeprefix("http://"))
            service.documents = {"/v1/models": {"data": [{"id": "org/a:b"}]}}
        found["ollama"].documents = {
            "/api/tags": {
                "models": [{"name": "llama3:8b"}, {"name": "nomic-embed-text"}, {"name": "qwen3"}]
            }
        }
        yield found


def specs(seconds: float = PATIENCE) -> list[str]:
    return [spec for server in find_servers(seconds) for spec in server.specs]


def test_models_of_all_servers_are_found_except_embedding_models(
    servers: dict[str, Service],
) -> None:
    assert specs() == [
        "llamacpp:org/a:b",
        "lmstudio:org/a:b",
        "vllm:org/a:b",
        "ollama:llama3:8b",
        "ollama:qwen3",
    ]
    assert [server.address for server in find_servers(PATIENCE)] == [
        service.url for service in servers.values()
    ]


def test_silent_server_does_not_hide_the_others(servers: dict[str, Service]) -> None:
    for provider in ("llamacpp", "vllm"):
        servers[provider].documents["/v1/models"] = servers[provider].stall
    assert specs(3.0)[0] == "lmstudio:org/a:b"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"data": 3}',
        b'{"data": [3]}',
        b"\xff",
        b"[" * 100_000,
        b'{"data": [{"id": 7}]}',
        b"<html>",
    ],
)
def test_unexpected_reply_is_not_a_model_server(servers: dict[str, Service], body: bytes) -> None:
    servers["vllm"].documents = {"/v1/models": body}
    assert find_server("vllm", PATIENCE) is None


def test_unprintable_model_names_are_omitted(servers: dict[str, Service]) -> None:
    names = ["a\x1b[2J", "a\nb", " a", "", "x" * 201, "a\u202eb", 7, None, "[/b]good"]
    servers["vllm"].documents = {
        "/v1/models": {"data": [{"id": name} for name in [*names, *map(str, range(500))]]}
    }
    found = find_server("vllm", PATIENCE)
    assert found is not None
    assert (found.models[0], len(found.models)) == ("[/b]good", 200)


def test_name_of_a_servers_only_model_is_optional(servers: dict[str, Service]) -> None:
    for spec in ("llamacpp", "llamacpp:", "lmstudio", "vllm:"):
        assert model_name(get_llm(spec)) == "org/a:b"
    with pytest.raises(
        ModelError, match=r"has 2 models\. Name one, as in ollama:llama3:8b, ollama:qwen3\."
    ):
        get_llm("ollama")
    servers["ollama"].documents = {"/api/tags": {"models": []}}
    with pytest.raises(ModelError, match="has no model yet"):
        get_llm("ollama")


def test_first_model_found_answers_without_settings_and_claude(
    servers: dict[str, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_model() == chosen_model(load_settings()).result() == "llamacpp:org/a:b"
    assert chosen_model(load_settings(model="a:b", provider="ollama")).result() == "ollama:a:b"
    install_fake_claude(tmp_path, "answers", answers=["Hi."])
    assert default_model() == chosen_model(load_settings()).result() == "claude"
    monkeypatch.setenv("PATH", "")
    for provider in SERVERS:
        monkeypatch.setenv(f"{provider.upper()}_HOST", "127.0.0.1:1")
    assert default_model() == chosen_model(load_settings()).result() == "demo"


def test_another_users_server_is_not_chosen_automatically(
    servers: dict[str, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "_SERVICES", ())
    assert first_model() == "llamacpp:org/a:b"
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert first_model() == ""


def test_doctor_lists_local_servers(servers: dict[str, Service]) -> None:
    servers["llamacpp"].documents = {"/v1/models": {"data": []}}
    line = doctor._model_servers(find_servers(PATIENCE))
    assert line.startswith(
        f"✓ models      llamacpp: no model at {servers['llamacpp'].url}; lmstudio:org/a:b at "
    )
    assert "Until then vllm:x answers" in doctor._claude("vllm:x")
    assert "no model server" in doctor._model_servers([])


@pytest.mark.parametrize("host", ["127.0.0.1:1", "http://[::", "127.0.0.1:no", "a b:1"])
def test_no_server_means_no_models(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert (find_server("ollama", PATIENCE), find_servers(PATIENCE)) == (None, [])


@pytest.mark.parametrize(
    ("provider", "host", "address"),
    [
        ("ollama", "", "http://127.0.0.1:11434"),
        ("llamacpp", "", "http://127.0.0.1:8080"),
        ("lmstudio", "", "http://127.0.0.1:1234"),
        ("vllm", "", "http://127.0.0.1:8000"),
        ("ollama", "0.0.0.0", "http://127.0.0.1:11434"),
        ("ollama", "box:1234", "http://box:1234"),
        ("ollama", "http://box/", "http://box:11434"),
        ("ollama", "https://box.example", "https://box.example"),
    ],
)
def test_server_addresses_come_from_the_environment(
    provider: str, host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_HOST", host)
    assert server_address(provider) == address


def test_refused_document_is_none(servers: dict[str, Service]) -> None:
    documents: dict[str, Any] = {}
    servers["vllm"].documents = documents
    assert find_server("vllm", PATIENCE) is None
