"""Makes models from their names."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.local_servers import SERVERS, first_model, only_model, server_address
from mahtab_tui.system.programs import find_program

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.settings.model import Settings

OnNotice = Callable[[str, str], None]
"""Takes a level ("info", "warning", "error") and a sentence."""

MakeLLM = Callable[..., "BaseChatModel"]
"""`get_llm` or a replacement: takes a name and `on_notice`."""


SERVICES = {"openai": "https://api.openai.com/v1", "openrouter": "https://openrouter.ai/api/v1"}
"""Addresses of services that want a key."""
_ADDRESSES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "openrouter": ("OPENROUTER_API_BASE",),
}
"""Variables that name another address, as in the services' own programs."""
PROVIDERS = ("anthropic", *SERVICES, *SERVERS)
_OWN = "openai_compatible"
"""Names the key of the service at `base_url`, which must not get the OpenAI key."""
_TIMEOUT = 120.0
_OLLAMA_WINDOW = 16_384
"""Context window requested from Ollama. By default it reads a few thousand tokens and silently
drops the beginning."""
KNOWN = f"claude, claude:MODEL, {', '.join(f'{provider}:MODEL' for provider in PROVIDERS)}, demo, replay:FILE"


def split_spec(spec: str) -> tuple[str, str]:
    """Split a name into provider and model. Raises `ModelError` for an unknown provider."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude-") and not model:
        return "claude", provider
    if provider in ("claude", "demo", *SERVERS) or (provider in (*PROVIDERS, "replay") and model):
        return provider, model
    raise ModelError(f"There is no model {spec!r}. Possible names: {KNOWN}.")


def full_name(spec: str, provider: str | None) -> str:
    """Add a provider to a model's name that has none; None: add nothing."""
    spec = spec.strip()
    known = spec.partition(":")[0] in (*PROVIDERS, "claude", "demo", "replay")
    return spec if known or not spec or provider is None else f"{provider}:{spec}"


def default_model() -> str:
    """Return ``claude`` if the CLI is on the PATH, else the first model of a server on this
    machine, or ``demo``.

    Waits for servers that listen, for a moment.
    """
    return "claude" if find_program("claude") else first_model() or "demo"


def chosen_model(settings: Settings) -> Future[str]:
    """Return the full name of the model that answers first; later, if servers on this machine must
    be asked for one."""
    chosen: Future[str] = Future()
    if settings.model or find_program("claude"):
        chosen.set_result(full_name(settings.model or "claude", settings.provider))
    else:
        threading.Thread(
            target=lambda: chosen.set_result(first_model() or "demo"), name="models", daemon=True
        ).start()
    return chosen


def model_label(spec: str) -> str:
    """Return a short name for display: the model's, or the provider's if it has only one."""
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude"):
        return "claude"
    return model.rpartition("/")[2] if provider in PROVIDERS and model else provider


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
    """Check early, without loading anything, whether a model is available; arguments as for
    `get_llm`. Raises `ModelError`."""
    spec = full_name(spec, provider)
    check_name(spec)
    provider, _ = split_spec(spec)
    if provider == "claude" and find_program("claude") is None:
        raise ModelError(
            "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in --model demo."
        )
    if provider == "anthropic" and importlib.util.find_spec("langchain_anthropic") is None:
        raise _missing_package()
    _key(provider, spec, base_url, api_keys)


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

    The name of a model on this machine's only server may be left out; then the server is asked, for
    a moment. timeout: seconds without a response before an answer is abandoned. on_notice: called
    with what the user should know (retries, billing). folder: returns the folder for the `claude`
    CLI before each call, since the CLI tells its model where it runs; by default this program's.
    provider: for a name without one. base_url: the address of a service compatible with OpenAI's,
    for models of ``openai:``. api_keys: keys that are not in the environment, by provider;
    "openai_compatible" for the service at `base_url`. claude_api_key: whether the CLI gets the
    environment's ANTHROPIC_API_KEY. max_tokens: of one answer; by default the model's limit.
    thinking: whether a model of the CLI thinks before it answers.
    """
    spec = full_name(spec, provider)
    provider, model = split_spec(spec)
    if provider == "claude":
        from mahtab_tui.llm.claude_cli import ChatClaudeCLI

        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        options |= {"max_tokens": max_tokens, "thinking": thinking}
        return ChatClaudeCLI(
            model=model or None,
            on_notice=on_notice,
            folder=folder,
            use_api_key=claude_api_key,
            **options,
        )
    if provider == "demo":
        from mahtab_tui.llm.demo import ChatDemo

        return ChatDemo()
    if provider == "replay":
        from mahtab_tui.llm.replay import ChatReplay

        return ChatReplay.from_file(Path(model))
    key_name, key = _key(provider, spec, base_url, api_keys)
    timeout = _TIMEOUT if timeout is None else timeout
    if provider == "anthropic":
        return _anthropic(model, key_name, key, timeout, max_tokens)
    from pydantic import SecretStr

    from mahtab_tui.llm.chat_service import ChatService

    common: dict[str, Any] = {
        "provider": provider,
        "timeout": timeout,
        "key": key_name,
        "secret": SecretStr(key),
        "max_tokens": max_tokens,
    }
    if provider in SERVERS:
        common |= {"model": model or only_model(provider), "priced_as": "local"}
        if provider == "ollama":
            return ChatService(
                dialect="ollama", address=server_address(provider), num_ctx=_OLLAMA_WINDOW, **common
            )
        return ChatService(dialect="compatible", address=f"{server_address(provider)}/v1", **common)
    if key_name.startswith(_OWN.upper()):
        return ChatService(
            dialect="compatible",
            model=model,
            address=str(base_url),
            priced_as=str(base_url),
            **common,
        )
    address = next(
        (address for name in _ADDRESSES[provider] if (address := os.environ.get(name))),
        SERVICES[provider],
    )
    return ChatService(
        dialect="openai" if provider == "openai" else "openrouter",
        model=model,
        address=address,
        priced_as=provider,
        **common,
    )


def _anthropic(
    model: str, key_name: str, key: str, timeout: float, max_tokens: int | None
) -> BaseChatModel:
    try:
        from langchain_anthropic import ChatAnthropic
    except ImportError:
        raise _missing_package() from None
    from pydantic import SecretStr

    from mahtab_tui.llm.remote import ChatRemote

    # The caller retries, because it can tell the user and be stopped.
    arguments: dict[str, Any] = {
        "model": model,
        "api_key": key,
        "timeout": timeout,
        "max_retries": 0,
    }
    try:
        inner = ChatAnthropic(**arguments)
        most = inner.profile or {}
        if max_tokens is not None:
            max_tokens = min(max_tokens, most.get("max_output_tokens") or max_tokens)
            inner = ChatAnthropic(**arguments | {"max_tokens": max_tokens})
        return ChatRemote(
            inner=inner,
            model=model,
            provider="anthropic",
            priced_as="anthropic",
            timeout=timeout,
            key=key_name,
            secret=SecretStr(key),
            max_tokens=max_tokens or most.get("max_output_tokens"),
            window=most.get("max_input_tokens"),
            sees=most.get("image_inputs", True),
        )
    except Exception as error:  # the package's own checks: a bad name or address
        raise ModelError(f"anthropic:{model} cannot be used: {_first_line(error, key)}") from None


def _first_line(error: Exception, key: str) -> str:
    from mahtab_tui.bus.masking import masked

    return str(masked((str(error).splitlines() or [type(error).__name__])[0], key))


def _key(
    provider: str, spec: str, base_url: str | None, api_keys: Mapping[str, str] | None
) -> tuple[str, str]:
    """Return a key's variable, and the key from the environment or the settings; empty if none is
    needed. Raises `ModelError`."""
    if provider not in PROVIDERS:
        return "", ""
    name = _OWN if provider == "openai" and base_url else provider
    variable = f"{name.upper()}_API_KEY"
    key = os.environ.get(variable) or (api_keys or {}).get(name, "")
    if not key and name in ("anthropic", *SERVICES):
        raise ModelError(f"{spec} needs a key: set {variable} in the environment or in .env.")
    return variable, key


def _missing_package() -> ModelError:
    return ModelError(
        "This model needs a package that is not installed: pip install langchain-anthropic"
    )
