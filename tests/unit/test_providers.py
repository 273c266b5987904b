"""From a model's name to a model: what is missing is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chat_service import ChatService
from mahtab_tui.llm.providers import check_model, find_service, full_name, get_llm
from mahtab_tui.llm.usage import context_window, is_priced, priced_as
from mahtab_tui.settings.model import load_settings
from tests.trust import trust_project

SPECS = {
    "anthropic:claude-sonnet-4-5": "ANTHROPIC_API_KEY",
    "openai:gpt-4o": "OPENAI_API_KEY",
    "openrouter:a/b": "OPENROUTER_API_KEY",
}
LOCAL = ("llamacpp", "lmstudio", "vllm", "ollama")


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
    for take in (check_model, get_llm):
        with pytest.raises(
            ModelError, match=rf"^{spec} needs a key: set {key} in the environment or in \.env\.$"
        ):
            take(spec)


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
    assert (
        "secret-of-ours"
        not in f"{llm!r} {llm} {getattr(llm, '_client', '')!r} {find_service(spec, **access)!r}"
    )


def test_users_own_service_needs_no_key() -> None:
    check_model("openai:our-own", base_url="http://localhost:8000/v1")
    llm = get_llm("openai:our-own", base_url="http://localhost:8000/v1")
    assert priced_as(llm) == "http://localhost:8000/v1"
    assert is_priced(llm), "nobody is paid for what runs here"


@pytest.mark.parametrize("provider", LOCAL)
def test_local_server_needs_no_key(provider: str) -> None:
    name = "org/model:8b"
    check_model(f"{provider}:{name}")
    llm = get_llm(f"{provider}:{name}")
    assert isinstance(llm, ChatService)
    assert (llm.model, llm.priced_as, llm.key) == (name, "local", f"{provider.upper()}_API_KEY")
    with pytest.raises(
        ModelError,
        match=rf"No {provider} server answers at http://127\.0\.0\.1:1\. Start it, or set {provider.upper()}_HOST",
    ):
        get_llm(provider)


def test_context_window_is_known_where_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key in SPECS.values():
        monkeypatch.setenv(key, "x")
    specs = ("anthropic:claude-sonnet-4-5", "openai:gpt-4o", "openai:our-own", "ollama:x", "vllm:x")
    assert [context_window(get_llm(spec)) for spec in specs] == [
        200_000,
        128_000,
        None,
        16_384,
        None,
    ]
