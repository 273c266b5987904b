"""From a model's name to a model: what is missing is said."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import check_model, full_name, get_llm
from mahtab_tui.llm.remote import ChatRemote
from mahtab_tui.settings.model import load_settings
from tests.trust import trust_project

SPECS = {"anthropic:claude-sonnet-4-5": "ANTHROPIC_API_KEY", "openai:gpt-4o": "OPENAI_API_KEY", "openrouter:a/b": "OPENROUTER_API_KEY"}
PACKAGES = {
    "anthropic:claude-sonnet-4-5": "langchain-anthropic",
    "openai:gpt-4o": "langchain-openai",
    "openrouter:a/b": "langchain-openrouter",
    "ollama:llama3.2": "langchain-ollama",
}


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
def test_a_name_without_a_provider_is_of_the_one_that_is_set(spec: str, provider: str | None, expected: str) -> None:
    assert full_name(spec, provider) == expected


def test_the_provider_that_is_set_is_that_of_models_named_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("MAHTAB_PROVIDER=openai\nOPENAI_API_KEY=x\n")
    trust_project()
    access = load_settings().model_access()
    check_model("gpt-4o", **access)
    llm = get_llm("gpt-4o", **access)
    assert isinstance(llm, ChatRemote)
    assert (llm.provider, llm.model) == ("openai", "gpt-4o")
    with pytest.raises(ModelError, match="There is no model 'gpt-4o'"):
        get_llm("gpt-4o")


@pytest.mark.parametrize(("spec", "key"), SPECS.items())
def test_a_missing_key_says_which_variable(spec: str, key: str) -> None:
    for take in (check_model, get_llm):
        with pytest.raises(ModelError, match=rf"^{spec} needs a key: set {key} in the environment or in \.env\.$"):
            take(spec)


@pytest.mark.parametrize(("spec", "key"), SPECS.items())
def test_a_key_may_stand_in_dotenv_and_does_not_get_into_the_environment(
    spec: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(f"{key}=secret-of-ours\n")
    trust_project()
    access = load_settings().model_access()
    check_model(spec, **access)
    llm = get_llm(spec, **access)
    assert isinstance(llm, ChatRemote)
    assert key not in os.environ
    assert "secret-of-ours" not in f"{llm!r} {llm} {llm.inner!r}"


@pytest.mark.parametrize(("spec", "package"), PACKAGES.items())
def test_a_missing_package_says_how_to_install_it(spec: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in SPECS.values():
        monkeypatch.setenv(key, "x")
    sentence = rf"pip install {package} genai-prices$"
    module = package.replace("-", "_")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelError, match=sentence):
        get_llm(spec)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(ModelError, match=sentence):
        check_model(spec)


def test_a_service_of_ones_own_needs_no_key() -> None:
    check_model("openai:our-own", base_url="http://localhost:8000/v1")
    llm = get_llm("openai:our-own", base_url="http://localhost:8000/v1")
    assert isinstance(llm, ChatRemote)
    assert llm.priced_as == "http://localhost:8000/v1"


def test_how_much_a_model_reads_at_once_is_known_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in SPECS.values():
        monkeypatch.setenv(key, "x")
    windows = {
        spec: getattr(get_llm(spec), "window", None) for spec in ("anthropic:claude-sonnet-4-5", "openai:gpt-4o", "openai:our-own", "ollama:x")
    }
    assert windows == {"anthropic:claude-sonnet-4-5": 200_000, "openai:gpt-4o": 128_000, "openai:our-own": None, "ollama:x": 16_384}
