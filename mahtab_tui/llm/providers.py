"""Makes models from their names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.llm.base import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.settings.model import Settings

OnNotice = Callable[[str, str], None]
"""Takes a level ("info", "warning", "error") and a sentence."""

MakeLLM = Callable[..., "BaseChatModel"]
"""`get_llm` or a replacement: takes a name and `on_notice`."""


class _Package(NamedTuple):
    """A LangChain package for a provider's models."""

    module: str
    cls: str
    key: str = ""
    """The variable that holds the key; empty if it needs none."""


_PACKAGES = {
    "anthropic": _Package("langchain_anthropic", "ChatAnthropic", "ANTHROPIC_API_KEY"),
    "openai": _Package("langchain_openai", "ChatOpenAI", "OPENAI_API_KEY"),
    "openrouter": _Package("langchain_openrouter", "ChatOpenRouter", "OPENROUTER_API_KEY"),
    "ollama": _Package("langchain_ollama", "ChatOllama"),
}
_OWN_SERVICE = _PACKAGES["openai"]._replace(key="OPENAI_COMPATIBLE_API_KEY")
"""A service at a `base_url`, which must not get the OpenAI key."""
_TIMEOUT = 120.0
_OLLAMA_WINDOW = 16_384
"""Context window requested from Ollama. By default it reads a few thousand tokens and silently drops the beginning."""
KNOWN = "claude, claude:MODEL, anthropic:MODEL, openai:MODEL, openrouter:MODEL, ollama:MODEL, demo, replay:FILE"


def split_spec(spec: str) -> tuple[str, str]:
    """Split a name into provider and model. Raises `ModelError` for an unknown provider."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude-") and not model:
        return "claude", provider
    if provider in ("claude", "demo") or (provider in (*_PACKAGES, "replay") and model):
        return provider, model
    raise ModelError(f"There is no model {spec!r}. Possible names: {KNOWN}.")


def full_name(spec: str, provider: str | None) -> str:
    """Add a provider to a model's name that has none; None: add nothing."""
    spec = spec.strip()
    known = spec.partition(":")[0] in (*_PACKAGES, "claude", "demo", "replay")
    return spec if known or not spec or provider is None else f"{provider}:{spec}"


def default_model() -> str:
    """Return ``claude`` if the CLI is on the PATH, otherwise ``demo``."""
    return "claude" if shutil.which("claude") else "demo"


def chosen_model(settings: Settings) -> str:
    """Return the full name of the model that answers first."""
    return full_name(settings.model or default_model(), settings.provider)


def model_label(spec: str) -> str:
    """Return a short name for display: the model's, or the provider's if it has only one."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude"):
        return "claude"
    return model.rpartition("/")[2] if provider in _PACKAGES and model else provider


def check_name(spec: str) -> None:
    """Check that a name is valid; reads a replay file. Raises `ModelError`."""
    provider, model = split_spec(spec)
    if provider == "replay":
        from mahtab_tui.llm.replay_file import read_replay

        read_replay(Path(model))


def check_model(
    spec: str,
    *,
    provider: str | None = None,
    base_url: str | None = None,
    api_keys: Mapping[str, str] | None = None,
    claude_api_key: bool = False,
) -> None:
    """Check early, without loading anything, whether a model is available; arguments as for `get_llm`. Raises `ModelError`."""
    spec = full_name(spec, provider)
    check_name(spec)
    provider, _ = split_spec(spec)
    if provider == "claude" and shutil.which("claude") is None:
        raise ModelError("The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in --model demo.")
    if provider in _PACKAGES:
        package = _package(provider, base_url)
        if importlib.util.find_spec(package.module) is None:
            raise _missing(package)
        _key(package, spec, api_keys)


def get_llm(
    spec: str,
    *,
    timeout: float | None = None,
    on_notice: OnNotice | None = None,
    folder: Callable[[], str] | None = None,
    provider: str | None = None,
    base_url: str | None = None,
    api_keys: Mapping[str, str] | None = None,
    claude_api_key: bool = False,
    max_tokens: int | None = None,
    thinking: bool = True,
) -> BaseChatModel:
    """Make a model from its name. Raises `ModelError` for an unknown or unavailable one.

    timeout: seconds without a response before an answer is abandoned. on_notice: called with what the user should know (retries, billing).
    folder: returns the folder for the `claude` CLI before each call, since the CLI tells its model where it runs; by default this program's.
    provider: for a name without one.
    base_url: the address of a service compatible with OpenAI's, for models of ``openai:``.
    api_keys: keys that are not in the environment, by provider; "openai_compatible" for the service at `base_url`.
    claude_api_key: whether the CLI gets the environment's ANTHROPIC_API_KEY.
    max_tokens: of one answer; by default the model's limit.
    thinking: whether a model of the CLI thinks before it answers.
    """
    spec = full_name(spec, provider)
    provider, model = split_spec(spec)
    if provider == "claude":
        from mahtab_tui.llm.claude_cli import ChatClaudeCLI

        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        options |= {"max_tokens": max_tokens, "thinking": thinking}
        return ChatClaudeCLI(model=model or None, on_notice=on_notice, folder=folder, use_api_key=claude_api_key, **options)
    if provider == "demo":
        from mahtab_tui.llm.demo import ChatDemo

        return ChatDemo()
    if provider == "replay":
        from mahtab_tui.llm.replay import ChatReplay

        return ChatReplay.from_file(Path(model))
    package = _package(provider, base_url)
    key = _key(package, spec, api_keys)
    return _packaged(package, key, provider, model, _TIMEOUT if timeout is None else timeout, base_url, max_tokens)


def _package(provider: str, base_url: str | None) -> _Package:
    return _OWN_SERVICE if provider == "openai" and base_url else _PACKAGES[provider]


def _packaged(package: _Package, key: str, provider: str, model: str, timeout: float, base_url: str | None, max_tokens: int | None) -> BaseChatModel:
    try:
        module = importlib.import_module(package.module)
    except ImportError:
        raise _missing(package) from None
    from pydantic import SecretStr

    from mahtab_tui.llm.remote import ChatRemote

    # The caller retries, because it can tell the user and be stopped.
    arguments: dict[str, Any] = {"model": model, "api_key": key, "timeout": timeout, "max_retries": 0}
    priced_as = provider
    if package is _OWN_SERVICE:
        arguments["base_url"] = priced_as = str(base_url)
    if provider == "openai":
        arguments |= {"stream_usage": True, "stream_chunk_timeout": None}  # the connection's timeout counts keep-alives too
    elif provider == "openrouter":
        arguments |= {
            "timeout": int(timeout * 1000),
            "app_title": "mahtab-tui",
            "model_kwargs": {"retries": None},  # max_retries=0 would mean retries for an hour
        }
    elif provider == "ollama":
        arguments = {"model": model, "client_kwargs": {"timeout": timeout}, "num_ctx": _OLLAMA_WINDOW}
        priced_as = "local"
    try:
        inner: BaseChatModel = getattr(module, package.cls)(**arguments)
        most = inner.profile or {}
        if max_tokens is not None:
            max_tokens = min(max_tokens, most.get("max_output_tokens") or max_tokens)
            inner = getattr(module, package.cls)(**arguments, **{"num_predict" if provider == "ollama" else "max_tokens": max_tokens})
        return ChatRemote(
            inner=inner,
            model=model,
            provider=provider,
            priced_as=priced_as,
            timeout=timeout,
            key=package.key,
            secret=SecretStr(key),
            max_tokens=max_tokens or most.get("max_output_tokens"),
            window=_OLLAMA_WINDOW if provider == "ollama" else most.get("max_input_tokens"),
            sees=most.get("image_inputs", True if provider == "anthropic" else None),
        )
    except Exception as error:  # the package's own checks: a bad name or address
        raise ModelError(f"{provider}:{model} cannot be used: {_first_line(error, key)}") from None


def _first_line(error: Exception, key: str) -> str:
    from mahtab_tui.bus.masking import masked

    return str(masked((str(error).splitlines() or [type(error).__name__])[0], key))


def _key(package: _Package, spec: str, api_keys: Mapping[str, str] | None) -> str:
    """Return the key from the environment or the settings; a service at a `base_url` may need none. Raises `ModelError`."""
    if not package.key:
        return ""
    key = os.environ.get(package.key) or (api_keys or {}).get(package.key.removesuffix("_API_KEY").lower(), "")
    if not key and package is not _OWN_SERVICE:
        raise ModelError(f"{spec} needs a key: set {package.key} in the environment or in .env.")
    return key or "none"


def _missing(package: _Package) -> ModelError:
    return ModelError(f"This model needs a package that is not installed: pip install {package.module.replace('_', '-')} genai-prices")
