"""Makes models from their names, such as ``openai:gpt-5``, ``ollama:`` or ``claude``.

Nothing is asked of a service here. `check_model` tells early what is missing: a key, a program, an
agent. `find_service` says where and how a model's service is asked, which searches do directly;
`get_llm` wraps it as a LangChain model, for the graph that answers questions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from mahtab_tui.llm.base import MAX_ANSWER_CHARS, ModelError
from mahtab_tui.llm.names import (
    AGENT,
    PROVIDERS,
    SERVERS,
    SERVICES,
    check_name,
    full_name,
    split_spec,
)
from mahtab_tui.system import find_program

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.llm.chat_answers import Dialect
    from mahtab_tui.llm.services import OnNotice, Service
    from mahtab_tui.settings.acp_agents import AcpAgent

MakeLLM = Callable[..., "BaseChatModel"]

_ADDRESS_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_URL", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "openrouter": ("OPENROUTER_API_BASE",),
}
"""Variables that name another address, as in the services' own programs."""
_COMPATIBLE = "openai_compatible"
"""The provider in the name of the key for `base_url`, because that service must not get OpenAI's key."""
_DIALECTS: Mapping[str, Dialect] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "ollama": "ollama",
}
"""The protocols of providers' services; all others speak Chat Completions."""
_DIALECTS_WITH_VERSION = ("anthropic", "ollama")
"""Protocols whose paths begin with a version, so that an address must not end in it."""
_ACCESS_ARGUMENTS = {"base_url": "address", "api_key": "api_key"}
"""The arguments of `find_service`, by the option of a search that sets them."""
_TIMEOUT_S = 120.0
"""Seconds without a byte before an answer is abandoned, by default."""
_OLLAMA_WINDOW_TOKENS = 16_384
"""Context window requested from Ollama, which otherwise silently drops the beginning."""


class ModelAccess(TypedDict, total=False):
    """Addresses, keys and options of providers, as `Settings.model_access` returns them."""

    provider: str | None
    base_url: str | None
    """The address of a service compatible with OpenAI's, for models of ``openai:``."""
    api_keys: Mapping[str, str]
    """Keys that are not in the environment, by provider; "openai_compatible" for `base_url`."""
    claude_api_key: bool
    """Whether the `claude` CLI may use a key that is billed, in place of the user's subscription."""
    max_answer_chars: int
    """Characters after which an answer is given up."""
    agents: Mapping[str, AcpAgent]
    """The agents of the settings, by name."""


class ModelOptions(ModelAccess, total=False):
    """What a model is made with."""

    timeout: float | None
    """Seconds without a byte before an answer is abandoned."""
    on_notice: OnNotice | None
    """Called with what the user should know."""
    folder: Callable[[], str] | None
    """Returns the folder in which the `claude` CLI runs, before each call."""
    max_tokens: int | None
    """The highest number of tokens of an answer; None for the service's own limit."""


class _Key(NamedTuple):
    """A key for a service."""

    variable: str
    """The variable that holds it; empty if no key is needed."""
    value: str
    """Empty if there is none."""


def check_model(spec: str, **access: Unpack[ModelAccess]) -> None:
    """Check early, without loading anything, whether a model is available. Raises `ModelError`."""
    spec = full_name(spec, access.get("provider"))
    check_name(spec)
    provider, model = split_spec(spec)
    if provider == AGENT:
        installed_agent(model, access.get("agents", {}))
    if provider == "claude" and find_program("claude") is None:
        raise ModelError(
            "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in --model demo."
        )
    _find_key(provider, spec, access.get("base_url"), access.get("api_keys"))


def installed_agent(name: str, configured: Mapping[str, AcpAgent]) -> AcpAgent:
    """Return an agent whose program is installed, and has its path. Raises `ModelError`.

    Args:
        name: Its name.
        configured: The agents of the settings, by name.
    """
    # Loads pydantic, which searches with other models do not need.
    from mahtab_tui.settings.acp_agents import KNOWN_AGENTS, find_agent

    agent = find_agent(name, configured)
    if agent is None:
        names = ", ".join(sorted({*KNOWN_AGENTS, *configured}))
        raise ModelError(
            f"There is no agent {name!r}. Agents: {names}; [acp.NAME] with command adds another one."
        )
    program, *arguments = agent.command
    path = find_program(program)
    if path is None:
        known_agent = KNOWN_AGENTS.get(name)
        advice = f" {known_agent.advice}" if known_agent else ""
        raise ModelError(
            f"The agent {name} needs the program {program}, which is not on the PATH.{advice}"
        )
    return agent.model_copy(update={"command": (path, *arguments)})


def get_llm(spec: str, **options: Unpack[ModelOptions]) -> BaseChatModel:
    """Make a model from its name. Raises `ModelError` for an unknown or unavailable one."""
    # Each import is late, because only the module of the chosen model is needed.
    service = find_service(spec, **options)
    if service is not None:
        from mahtab_tui.llm.chat_service import ChatService

        return ChatService.from_service(service, options.get("on_notice"))

    provider, model = split_spec(full_name(spec, options.get("provider")))
    if provider == "claude":
        return _make_claude(model, options)
    if provider == AGENT:
        raise ModelError(
            f"{spec} is an agent, which only answers questions. Name a model for this, such as claude."
        )
    if provider == "demo":
        from mahtab_tui.llm.demo import ChatDemo

        return ChatDemo()
    from mahtab_tui.llm.scripted import ChatReplay

    return ChatReplay.from_file(Path(model))


def _make_claude(model: str, options: ModelOptions) -> BaseChatModel:
    from mahtab_tui.llm.claude_cli import ChatClaudeCLI

    return ChatClaudeCLI(
        model=model or None,
        on_notice=options.get("on_notice"),
        folder=options.get("folder"),
        use_api_key=options.get("claude_api_key", False),
        max_tokens=options.get("max_tokens"),
        max_answer_chars=options.get("max_answer_chars", MAX_ANSWER_CHARS),
        timeout=options.get("timeout") or _TIMEOUT_S,
    )


def find_service(
    spec: str,
    *,
    address: str | None = None,
    api_key: str | None = None,
    **options: Unpack[ModelOptions],
) -> Service | None:
    """Return the service of a model; None if it has none, such as ``claude`` and ``demo``.

    Args:
        spec: The model's name.
        address: Where the service is; None for where the settings or the environment say. Another
            address gets no key but `api_key`.
        api_key: The key, in place of the configured one.
        options: As for `get_llm`.

    Returns:
        The service, with the model's name, its key and its limits.

    Raises:
        ModelError: The name is not valid, or there is no key or no model.
    """
    from mahtab_tui.llm.local_servers import only_model
    from mahtab_tui.llm.services import Service

    spec = full_name(spec, options.get("provider"))
    provider, model = split_spec(spec)
    if provider not in PROVIDERS:
        return None
    if address is not None and not model:
        raise ModelError(f"Name a model as well, as in {provider}:NAME.")

    base_url = address
    if base_url is None and provider == "openai":
        base_url = options.get("base_url")

    # Another address must not get the key of the provider's own service.
    is_elsewhere = address is not None and provider != "openai"
    if api_key is not None or is_elsewhere:
        key = _Key("api_key", api_key or "")
    else:
        key = _find_key(provider, spec, base_url, options.get("api_keys"))

    priced_as = "local" if provider in SERVERS else provider
    dialect = _choose_dialect(provider, base_url)
    return Service(
        dialect=dialect,
        address=_root_address(base_url or _find_address(provider), dialect),
        model=model or only_model(provider),
        provider=provider,
        priced_as=base_url or priced_as,
        timeout=options.get("timeout") or _TIMEOUT_S,
        key_name=key.variable,
        secret=key.value,
        max_tokens=options.get("max_tokens"),
        num_ctx=_OLLAMA_WINDOW_TOKENS if provider == "ollama" else None,
        max_answer_chars=options.get("max_answer_chars", MAX_ANSWER_CHARS),
    )


def _choose_dialect(provider: str, base_url: str | None) -> Dialect:
    """Return the protocol of a provider's service.

    Args:
        provider: The provider in the model's name.
        base_url: Another address than the provider's own; None for that.
    """
    if provider == "openai" and base_url is not None:
        return "compatible"
    return _DIALECTS.get(provider, "compatible")


def _root_address(address: str, dialect: Dialect) -> str:
    """Return an address without the version with which the paths of a protocol begin.

    Users and variables write it with the version or without.
    """
    root = address.rstrip("/")
    if dialect in _DIALECTS_WITH_VERSION:
        return root.removesuffix("/v1")
    return root


def pop_access(options: dict[str, Any]) -> dict[str, str]:
    """Take `base_url` and `api_key` out of the options of a search.

    Returns:
        Those of them that were given, as the arguments `address` and `api_key` of `find_service`.

    Raises:
        ValueError: One of them is not a text, or is empty.
    """
    access: dict[str, str] = {}
    for option, argument in _ACCESS_ARGUMENTS.items():
        value = options.pop(option, None)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{option} must be a text.")
        access[argument] = value.strip()
    return access


def _find_address(provider: str) -> str:
    """Return where a provider's service is. A variable of the environment may say so."""
    if provider in SERVERS:
        from mahtab_tui.llm.local_servers import server_address

        return f"{server_address(provider)}/v1"
    for variable in _ADDRESS_VARIABLES.get(provider, ()):
        address = os.environ.get(variable)
        if address:
            return address
    return SERVICES[provider]


def _find_key(
    provider: str, spec: str, base_url: str | None, api_keys: Mapping[str, str] | None
) -> _Key:
    """Return the key for a model's service.

    Args:
        provider: The provider of the model.
        spec: The model's full name, for a message.
        base_url: Another address of the service, which gets a key of its own.
        api_keys: Keys that are not in the environment.

    Raises:
        ModelError: There is no key, and the service needs one.
    """
    if provider not in PROVIDERS:
        return _Key("", "")
    name = _COMPATIBLE if provider == "openai" and base_url else provider
    variable = f"{name.upper()}_API_KEY"
    value = os.environ.get(variable) or (api_keys or {}).get(name, "")
    if not value and name in SERVICES:
        raise ModelError(f"{spec} needs a key: set {variable} in the environment or in .env.")
    return _Key(variable, value)
