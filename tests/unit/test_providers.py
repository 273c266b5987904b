"""Models by their names, servers on this machine, and failures as sentences."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import pytest

from mahtab_tui.cli import doctor
from mahtab_tui.llm import local_servers, names, providers, starting_model
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_service import ChatService
from mahtab_tui.llm.choices import ConfiguredModel, availability_problem, offered_models
from mahtab_tui.llm.context_window import context_window
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.local_servers import (
    ModelServer,
    find_server,
    find_servers,
    first_model,
    server_address,
)
from mahtab_tui.llm.names import PROVIDERS, SERVERS, full_name
from mahtab_tui.llm.prices import is_priced, model_name, priced_as
from mahtab_tui.llm.providers import check_model, find_service, get_llm
from mahtab_tui.llm.starting_model import chosen_model, default_model
from mahtab_tui.settings.model import Provider, load_settings
from tests.fake_claude import install_fake_claude
from tests.services import Service, serving
from tests.trust import trust_project

SPECS = {
    "anthropic:claude-sonnet-4-5": "ANTHROPIC_API_KEY",
    "openai:gpt-4o": "OPENAI_API_KEY",
    "openrouter:a/b": "OPENROUTER_API_KEY",
}
LOCAL = ("llamacpp", "lmstudio", "vllm", "ollama")

PATIENCE = 30.0

KEY = "sk-abcdefghijklmnop"


@pytest.fixture(autouse=True)
def _keyless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key in (*SPECS.values(), "OPENAI_COMPATIBLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize(
    ("spec", "provider", "expected"),
    [
        ("claude-sonnet-4-5", "anthropic", "anthropic:claude-sonnet-4-5"),
        ("claude-sonnet-4-5", None, "claude-sonnet-4-5"),
        (" llama3.2:1b ", "ollama", "ollama:llama3.2:1b"),
        ("a/b", "openrouter", "openrouter:a/b"),
        ("opus", "claude", "claude:opus"),
        ("openai:gpt-4o", "anthropic", "openai:gpt-4o"),
        ("demo", "anthropic", "demo"),
        ("claude", "anthropic", "claude"),
        ("replay:a.jsonl", "openai", "replay:a.jsonl"),
        ("", "openai", ""),
    ],
)
def test_name_without_a_provider_uses_the_configured_one(
    spec: str, provider: str | None, expected: str
) -> None:
    assert full_name(spec, provider) == expected


def test_configured_provider_serves_models_named_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("MAHTAB_PROVIDER=openai\nOPENAI_API_KEY=x\n")
    trust_project()
    access = load_settings().model_access()
    check_model("gpt-4o", **access)
    llm = get_llm("gpt-4o", **access)
    assert isinstance(llm, ChatService)
    assert (llm.provider, llm.model) == ("openai", "gpt-4o")
    with pytest.raises(ModelError, match="There is no model 'gpt-4o'"):
        get_llm("gpt-4o")


@pytest.mark.parametrize(("spec", "key"), SPECS.items())
def test_missing_key_error_names_the_variable(spec: str, key: str) -> None:
    sentence = rf"^{spec} needs a key: set {key} in the environment or in \.env\.$"
    for function in (check_model, get_llm):
        with pytest.raises(ModelError, match=sentence):
            function(spec)


@pytest.mark.parametrize(("spec", "key"), SPECS.items())
def test_key_in_dotenv_stays_out_of_the_environment(
    spec: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(f"{key}=secret-of-ours\n")
    trust_project()
    access = load_settings().model_access()
    check_model(spec, **access)
    llm = get_llm(spec, **access)
    assert key not in os.environ
    client = getattr(llm, "_client", "")
    service = find_service(spec, **access)
    assert "secret-of-ours" not in f"{llm!r} {llm} {client!r} {service!r}"


def test_users_own_service_needs_no_key() -> None:
    check_model("openai:our-own", base_url="http://localhost:8000/v1")
    llm = get_llm("openai:our-own", base_url="http://localhost:8000/v1")
    assert priced_as(llm) == "http://localhost:8000/v1"
    assert is_priced(llm), "it is free"


@pytest.mark.parametrize("provider", LOCAL)
def test_local_server_needs_no_key(provider: str) -> None:
    name = "org/model:8b"
    check_model(f"{provider}:{name}")
    llm = get_llm(f"{provider}:{name}")
    assert isinstance(llm, ChatService)
    assert (llm.model, llm.priced_as, llm.key_name) == (
        name,
        "local",
        f"{provider.upper()}_API_KEY",
    )
    problem = rf"No {provider} server answers at http://127\.0\.0\.1:1\."
    advice = f"Start it, or set {provider.upper()}_HOST"
    with pytest.raises(ModelError, match=f"{problem} {advice}"):
        get_llm(provider)


def test_context_window_is_known_where_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in SPECS.values():
        monkeypatch.setenv(key, "x")
    specs = ("anthropic:claude-sonnet-4-5", "openai:gpt-4o", "openai:our-own", "ollama:x", "vllm:x")
    windows = [context_window(get_llm(spec)) for spec in specs]
    assert windows == [200_000, 128_000, None, 16_384, None]


# The list of models, and why some cannot be used.


def test_claude_is_offered_where_it_is_on_the_path(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    (claude,) = [model for model in offered_models([], [], {}) if model.spec.startswith("claude")]
    assert "not on the PATH" in claude.problem
    fake = install_fake_claude(project / "bin", "answers", answers=["Hi."])
    monkeypatch.setenv("PATH", str(fake.folder))
    problems = {model.spec: model.problem for model in offered_models([], [], {})}
    assert (problems["claude"], problems["claude:opus"], problems["demo"]) == ("", "", "")
    assert not fake.starts


def test_configured_models_come_before_used_ones_without_duplicates(project: Path) -> None:
    configured_models = [
        ConfiguredModel("openai:mine", "answers now"),
        ConfiguredModel("demo", "set as sub_model"),
    ]
    models = offered_models(configured_models, ["demo", "replay:missing.jsonl"], {})
    first_models = [(model.spec, model.about) for model in models[:3]]
    assert first_models == [*configured_models, ("replay:missing.jsonl", "used before")]
    assert "missing.jsonl cannot be read" in models[2].problem
    specs = [model.spec for model in models]
    assert len(specs) == len(set(specs))


def test_missing_key_is_named_with_its_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "set OPENAI_API_KEY in the environment or in .env" in availability_problem("openai:", {})
    assert availability_problem("openai:", {"api_keys": {"openai": "sk"}}) == ""
    assert availability_problem("openai:", {"base_url": "http://127.0.0.1:1"}) == ""
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert availability_problem("openai:gpt-5", {}) == ""


# Servers of models on this machine.


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Service]]:
    """A server for each provider, with a model; there is no `claude`."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(local_servers, "_DISCOVERY_TIMEOUT_S", PATIENCE)
    monkeypatch.setattr(local_servers, "_LIST_MODELS_TIMEOUT_S", PATIENCE)
    with ExitStack() as stack:
        services = {provider: stack.enter_context(serving()) for provider in SERVERS}
        for provider, service in services.items():
            monkeypatch.setenv(f"{provider.upper()}_HOST", service.url.removeprefix("http://"))
            service.documents = {"/v1/models": {"data": [{"id": "org/a:b"}]}}
        models = [{"name": name} for name in ("llama3:8b", "nomic-embed-text", "qwen3")]
        services["ollama"].documents = {"/api/tags": {"models": models}}
        yield services


def specs(seconds: float = PATIENCE) -> list[str]:
    return [spec for server in find_servers(seconds) for spec in server.specs]


def test_models_of_all_servers_are_found_except_embedding_models(
    servers: dict[str, Service],
) -> None:
    expected = "llamacpp:org/a:b lmstudio:org/a:b vllm:org/a:b ollama:llama3:8b ollama:qwen3"
    assert specs() == expected.split()
    addresses = [server.address for server in find_servers(PATIENCE)]
    assert addresses == [service.url for service in servers.values()]


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
    models = [{"id": name} for name in [*names, *map(str, range(500))]]
    servers["vllm"].documents = {"/v1/models": {"data": models}}
    server = find_server("vllm", PATIENCE)
    assert server is not None
    assert (server.models[0], len(server.models)) == ("[/b]good", 200)


def test_name_of_a_servers_only_model_is_optional(servers: dict[str, Service]) -> None:
    for spec in ("llamacpp", "llamacpp:", "lmstudio", "vllm:"):
        assert model_name(get_llm(spec)) == "org/a:b"
    several = r"has 2 models\. Name one, as in ollama:llama3:8b, ollama:qwen3\."
    with pytest.raises(ModelError, match=several):
        get_llm("ollama")
    servers["ollama"].documents = {"/api/tags": {"models": []}}
    with pytest.raises(ModelError, match="has no model yet"):
        get_llm("ollama")
    servers["ollama"].documents = {"/api/tags": {"models": [{"name": "nomic-embed-text"}]}}
    with pytest.raises(ModelError, match="has no model that answers questions"):
        get_llm("ollama")
    line = doctor._list_model_servers(find_servers(PATIENCE))
    assert "ollama: no model that answers questions at" in line
    models = [{"name": f"m{number}"} for number in range(1_234)]
    servers["ollama"].documents = {"/api/tags": {"models": models}}
    with pytest.raises(
        ModelError, match=r"has 1,234 models\. Name one, as in ollama:m0, ollama:m1,"
    ):
        get_llm("ollama")


def first_name(**settings: str) -> str:
    """The name of the model that a session with these settings starts with."""
    first_model, failure = chosen_model(load_settings(**settings)).result(PATIENCE)
    assert failure == ""
    return first_model


def test_first_model_found_answers_without_settings_and_claude(
    servers: dict[str, Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_model() == first_name() == "llamacpp:org/a:b"
    assert first_name(model="a:b", provider="ollama") == "ollama:a:b"
    install_fake_claude(tmp_path, "answers", answers=["Hi."])
    assert default_model() == first_name() == "claude"
    monkeypatch.setenv("PATH", "")
    for provider in SERVERS:
        monkeypatch.setenv(f"{provider.upper()}_HOST", "127.0.0.1:1")
    assert default_model() == first_name() == "demo"


def test_after_a_failed_search_for_a_model_demo_answers_and_a_sentence_says_why(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(local_servers, "start_thread", fail)
    reason = "The search for a model on this machine failed (RuntimeError: can't start new thread)"
    with pytest.raises(ModelError) as error:
        default_model()
    assert str(error.value) == f"{reason}."
    demo = ("demo", f"{reason}, so demo answers. /model chooses a model.")
    assert chosen_model(load_settings()).result(PATIENCE) == demo
    # Not even the search's own thread starts.
    monkeypatch.setattr(starting_model, "start_thread", fail)
    assert chosen_model(load_settings()).result(PATIENCE) == demo


def test_another_users_server_is_not_chosen_automatically(
    servers: dict[str, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_servers, "_SYSTEM_UIDS", ())
    assert first_model() == "llamacpp:org/a:b"
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert first_model() == ""

    # Another machine has other sockets. This form of 127.0.0.1 counts as another machine.
    monkeypatch.setenv("no_proxy", "*")
    port = servers["vllm"].url.rpartition(":")[2]
    monkeypatch.setenv("VLLM_HOST", f"0x7f.1:{port}")
    assert first_model() == "vllm:org/a:b"


def test_another_users_server_at_the_default_port_of_https_is_not_chosen_automatically(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ModelServer("vllm", "https://localhost", ("org/a:b",), usable_count=1, listed_count=1)
    monkeypatch.setattr(local_servers, "find_servers", lambda timeout_s: [server])
    monkeypatch.setattr(local_servers, "_SYSTEM_UIDS", ())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setitem(local_servers._DEFAULT_PORTS, "https", listener.getsockname()[1])
        assert first_model() == "vllm:org/a:b"
        monkeypatch.setattr(os, "getuid", lambda: 54_321)
        assert first_model() == ""


def test_doctor_lists_local_servers(servers: dict[str, Service]) -> None:
    llamacpp = servers["llamacpp"]
    llamacpp.documents = {"/v1/models": {"data": []}}
    line = doctor._list_model_servers(find_servers(PATIENCE))
    start = f"✓ models      llamacpp: no model at {llamacpp.url}; lmstudio:org/a:b at "
    assert line.startswith(start)
    assert "no model server" in doctor._list_model_servers([])


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
        ("ollama", "0.0.0.0:5", "http://127.0.0.1:5"),
        ("ollama", "10.0.0.0:5", "http://10.0.0.0:5"),
        ("ollama", ":5", "http://127.0.0.1:5"),
        ("ollama", "::1", "http://[::1]:11434"),
        ("ollama", "[::1]", "http://[::1]:11434"),
        ("ollama", "[::1]:5", "http://[::1]:5"),
        ("ollama", "[::]:5", "http://127.0.0.1:5"),
        ("ollama", "box:1234", "http://box:1234"),
        ("vllm", "http://box/v1", "http://box:8000"),
        ("vllm", "http://box:1234/v1/", "http://box:1234"),
        ("vllm", "https://box/proxy/v1", "https://box/proxy"),
        ("ollama", "http://box/", "http://box:11434"),
        ("ollama", "https://box.example", "https://box.example"),
        ("ollama", "HTTPS://box.example", "https://box.example"),
    ],
)
def test_server_addresses_come_from_the_environment(
    provider: str, host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_HOST", host)
    assert server_address(provider) == address


@pytest.mark.parametrize("host", ["u:p@gpu:8080", "http://u:p@gpu:8080/v1", "u@gpu"])
def test_login_in_a_servers_address_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_HOST", host)
    sentence = "VLLM_HOST contains a user name or a password, which are not supported"
    for spec in ("vllm", "vllm:org/a:b"):
        with pytest.raises(ModelError, match=sentence) as error:
            get_llm(spec)
        assert "u:p" not in str(error.value)
    assert find_servers(PATIENCE) == []


# Errors of a provider's code become a sentence.


class Failed(Exception):
    def __init__(self, body: Any, status: Any = None) -> None:
        super().__init__("It failed.")
        self.body = body
        self.status_code = status


@pytest.mark.parametrize(
    "code", ["²", "--5", pytest.param("1" * 5_000, id="long"), "٣", None, [], {"a": 1}]
)
def test_non_numeric_status_code_is_ignored(code: Any) -> None:
    failed = Failed({"error": {"code": code, "message": "Gone."}}, code)
    assert str(explain_error(failed)).endswith(": Gone.")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeply_nested_body_does_not_crash(opening: str) -> None:
    explained = str(explain_error(Failed(opening * 200_000)))
    assert explained == "The model could not answer: Failed: It failed."


@pytest.mark.parametrize("chars_before", range(280, 300, 3))
def test_truncated_text_leaks_no_part_of_a_key(chars_before: int) -> None:
    failed = Failed({"error": {"message": f"{'x' * chars_before} {KEY} is wrong"}}, 401)
    assert KEY[:4] not in str(explain_error(failed, secret=KEY))


def test_setting_provider_takes_the_name_of_each_provider() -> None:
    assert set(get_args(Provider)) == {"claude", *PROVIDERS}


def test_service_of_chat_completions_needs_only_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(names.SERVICES, "groq", "https://groq.example/v1")
    for module in (names, providers):
        monkeypatch.setattr(module, "PROVIDERS", (*PROVIDERS, "groq"))
    monkeypatch.setenv("GROQ_API_KEY", "gsk-mine")
    service = find_service("groq:llama")
    assert service is not None
    assert (service.address, service.dialect) == ("https://groq.example/v1", "compatible")
    assert service.secret == "gsk-mine"
