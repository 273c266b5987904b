"""Makes models from their names, and lists those of this machine."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeGuard, Unpack
from urllib.parse import urlsplit

from mahtab_tui.llm.base import MAX_ANSWER_CHARS, ModelError
from mahtab_tui.system import find_program, start_thread

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.llm.chat_protocols import Dialect
    from mahtab_tui.settings.model import Settings

Sampling = Mapping[str, float]
"""Options by name: temperature, top_p, seed."""


def parse_sampling(**options: float | None) -> Sampling:
    """Return the options that are given. Raises `ValueError` with a sentence."""
    chosen = {name: value for name, value in options.items() if value is not None}
    for name, value in chosen.items():
        kinds, kind = (int, "whole number") if name == "seed" else (int | float, "number")
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"{name} must be a {kind}, not {value!r}.")
    return chosen


def pop_access(options: dict[str, Any]) -> dict[str, str]:
    """Take `base_url` and `api_key` out of options, as `address` and `api_key`. Raises
    `ValueError`."""
    access: dict[str, str] = {}
    for name, argument in (("base_url", "address"), ("api_key", "api_key")):
        value = options.pop(name, None)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} must be a text.")
        access[argument] = value.strip()
    return access


def with_sampling(llm: BaseChatModel, name: str, sampling: Sampling) -> BaseChatModel:
    """Return a copy of a model with these options. Raises `ModelError` if it does not take one of
    them."""
    if not sampling:
        return llm
    check_sampling(name, sampling, type(llm).model_fields, getattr(llm, "dialect", ""))
    return llm.model_copy(update=dict(sampling))


def check_sampling(name: str, sampling: Sampling, known: Container[str], dialect: str) -> None:
    """Raise `ModelError` if a model does not take one of these options. known: those that its class
    has."""
    for option in sampling:
        if option not in known or (dialect == "anthropic" and option == "seed"):
            raise ModelError(f"{name} takes no {option}. Leave it out, or choose another model.")


SERVERS = {"llamacpp": 8080, "lmstudio": 1234, "vllm": 8000, "ollama": 11434}
_LISTS = {"ollama": ("/api/tags", "models", "name")}
"""Path, key of the list, and key of a model's name, where they are not those of OpenAI's
protocol."""
_LIMIT = 0.3
_LONGER = 2.0
_MOST = 200
_LONGEST_NAME = 200
_LISTENING = "0A"
_SERVICES = range(1_000)


class FoundServer(NamedTuple):
    provider: str
    address: str
    models: tuple[str, ...]

    @property
    def specs(self) -> list[str]:
        return [f"{self.provider}:{model}" for model in self.models]


def server_address(provider: str) -> str:
    """Return where a provider's server is: here, or where its variable (as OLLAMA_HOST) says."""
    host = os.environ.get(f"{provider.upper()}_HOST", "").strip() or "127.0.0.1"
    scheme, _, rest = host.rpartition("://")
    server, slash, path = rest.rstrip("/").replace("0.0.0.0", "127.0.0.1").partition("/")
    if ":" not in server and scheme != "https":
        server = f"{server}:{SERVERS[provider]}"
    # The paths of the protocols are added later.
    return f"{scheme or 'http'}://{server}{(slash + path).removesuffix('/v1')}"


def find_server(provider: str, seconds: float) -> FoundServer | None:
    """Ask a provider's server for its models; None if there is no such server."""
    from mahtab_tui.llm.chat_client import HttpService, fetch_json

    address = server_address(provider)
    path, key, name = _LISTS.get(provider, ("/v1/models", "data", "id"))
    try:
        listed = fetch_json(HttpService(address), path, seconds)
    except (ModelError, ValueError):
        return None
    models = listed.get(key) if isinstance(listed, dict) else None
    if not isinstance(models, list):
        return None
    names = [model.get(name) for model in models if isinstance(model, dict)]
    if models and not any(isinstance(each, str) for each in names):
        return None
    return FoundServer(provider, address, tuple(filter(_is_name, names))[:_MOST])


def find_servers(seconds: float) -> list[FoundServer]:
    """Ask all servers at once, and return those that have answered in time."""
    found: dict[str, FoundServer] = {}

    def ask(provider: str) -> None:
        try:
            url = urlsplit(server_address(provider))
            address = url.hostname or "", url.port or 443
            socket.create_connection(address, timeout=seconds).close()
        except (OSError, ValueError):  # nobody listens
            return
        if (server := find_server(provider, seconds)) is not None:
            found[provider] = server

    threads = [start_thread("servers", ask, provider) for provider in SERVERS]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [found[provider] for provider in SERVERS if provider in found]


def first_model() -> str:
    """Return the full name of a server's first model; empty if there is none. Other users'
    servers are skipped."""
    for server in find_servers(_LIMIT):
        if server.models and not _is_of_another_user(urlsplit(server.address).port):
            return server.specs[0]
    return ""


def only_model(provider: str) -> str:
    """Return the name of the one model that a server has. Raises `ModelError`."""
    server = find_server(provider, _LONGER)
    if server is None:
        variable = f"{provider.upper()}_HOST"
        raise ModelError(
            f"No {provider} server answers at {server_address(provider)}. Start it, or set {variable} to its address."
        )
    if len(server.models) == 1:
        return server.models[0]
    some = ", ".join(server.specs[:5])
    several = f"{len(server.models)} models. Name one, as in {some}"
    raise ModelError(f"The server at {server.address} has {several if some else 'no model yet'}.")


def _is_of_another_user(port: int | None) -> bool:
    """Tell whether another user of this machine listens at a port; only Linux tells."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, _, _, _, owner, *_ = line.split()
            is_here = state == _LISTENING and int(local.rpartition(":")[2], 16) == port
            if is_here and int(owner) not in (os.getuid(), *_SERVICES):
                return True
    return False


def _is_name(name: Any) -> TypeGuard[str]:
    """Tell whether a model's name can be shown and typed, and is not that of a model for
    embeddings."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and "embed" not in name.lower()
    )


OnNotice = Callable[[str, str], None]
"""Takes a level ("info", "warning", "error") and a sentence."""

MakeLLM = Callable[..., "BaseChatModel"]


SERVICES = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
_ADDRESSES = {
    "anthropic": ("ANTHROPIC_API_URL", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "openrouter": ("OPENROUTER_API_BASE",),
}
"""Variables that name another address, as in the services' own programs."""
PROVIDERS = (*SERVICES, *SERVERS)
_COMPATIBLE = "openai_compatible"
"""Names the key of the service at `base_url`, which must not get the OpenAI key."""
_DIALECTS: Mapping[str, Dialect] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "ollama": "ollama",
}
_TIMEOUT = 120.0
_OLLAMA_WINDOW = 16_384
"""Context window requested from Ollama, which otherwise silently drops the beginning."""
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
    """Return ``claude`` if the CLI is on the PATH, else the first model of a server here, or
    ``demo``."""
    return "claude" if find_program("claude") else first_model() or "demo"


def chosen_model(settings: Settings) -> Future[str]:
    """Return the full name of the model that answers first; later, if servers must be asked."""
    chosen: Future[str] = Future()
    if settings.model or find_program("claude"):
        chosen.set_result(full_name(settings.model or "claude", settings.provider))
    else:
        start_thread("models", lambda: chosen.set_result(first_model() or "demo"))
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


class ModelAccess(TypedDict, total=False):
    """Addresses, keys and options of providers, as `Settings.model_access` returns them."""

    provider: str | None
    base_url: str | None
    """The address of a service compatible with OpenAI's, for models of ``openai:``."""
    api_keys: Mapping[str, str]
    """Keys that are not in the environment, by provider; "openai_compatible" for `base_url`."""
    claude_api_key: bool
    max_answer_chars: int


class ModelOptions(ModelAccess, total=False):
    timeout: float | None
    on_notice: OnNotice | None
    folder: Callable[[], str] | None
    """Returns the folder in which the `claude` CLI runs, before each call."""
    max_tokens: int | None


def check_model(spec: str, **access: Unpack[ModelAccess]) -> None:
    """Check early, without loading anything, whether a model is available. Raises `ModelError`."""
    spec = full_name(spec, access.get("provider"))
    check_name(spec)
    provider, _ = split_spec(spec)
    if provider == "claude" and find_program("claude") is None:
        raise ModelError(
            "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in --model demo."
        )
    _key(provider, spec, access.get("base_url"), access.get("api_keys"))


def get_llm(spec: str, **options: Unpack[ModelOptions]) -> BaseChatModel:
    """Make a model from its name. Raises `ModelError` for an unknown or unavailable one."""
    if (service := find_service(spec, **options)) is not None:
        from mahtab_tui.llm.chat_service import ChatService

        return ChatService.from_service(service, options.get("on_notice"))
    provider, model = split_spec(full_name(spec, options.get("provider")))
    if provider == "claude":
        from mahtab_tui.llm.claude_cli import ChatClaudeCLI

        return ChatClaudeCLI(
            model=model or None,
            on_notice=options.get("on_notice"),
            folder=options.get("folder"),
            use_api_key=options.get("claude_api_key", False),
            max_tokens=options.get("max_tokens"),
            max_answer_chars=options.get("max_answer_chars", MAX_ANSWER_CHARS),
            timeout=options.get("timeout") or _TIMEOUT,
        )
    from mahtab_tui.llm.scripted import ChatDemo, ChatReplay

    return ChatDemo() if provider == "demo" else ChatReplay.from_file(Path(model))


@dataclass(frozen=True)
class Service:
    dialect: Dialect
    address: str
    model: str
    provider: str
    priced_as: str
    """Name whose prices apply: a provider of genai-prices, a service's address, "local" if free."""
    timeout: float
    key: str
    secret: str = field(repr=False)
    max_tokens: int | None
    num_ctx: int | None = None
    max_answer_chars: int = MAX_ANSWER_CHARS


def find_service(
    spec: str,
    *,
    address: str | None = None,
    api_key: str | None = None,
    **options: Unpack[ModelOptions],
) -> Service | None:
    """Return the service of a model; None if it has none, as `claude`. address: gets no other key
    than `api_key`. Raises `ModelError`."""
    spec = full_name(spec, options.get("provider"))
    provider, model = split_spec(spec)
    if provider not in PROVIDERS:
        return None
    if address is not None and not model:
        raise ModelError(f"Name a model as well, as in {provider}:NAME.")
    base_url = address or (options.get("base_url") if provider == "openai" else None)
    if api_key is not None or (address is not None and provider != "openai"):
        key_name, key = "api_key", api_key or ""
    else:
        key_name, key = _key(provider, spec, base_url, options.get("api_keys"))
    root = (base_url or _address(provider)).rstrip("/")
    dialect = _DIALECTS.get(provider, "compatible")
    if provider == "openai" and base_url is not None:
        dialect = "compatible"
    return Service(
        dialect=dialect,
        address=root.removesuffix("/v1") if dialect in ("anthropic", "ollama") else root,
        model=model or only_model(provider),
        provider=provider,
        priced_as=base_url or ("local" if provider in SERVERS else provider),
        timeout=options.get("timeout") or _TIMEOUT,
        key=key_name,
        secret=key,
        max_tokens=options.get("max_tokens"),
        num_ctx=_OLLAMA_WINDOW if provider == "ollama" else None,
        max_answer_chars=options.get("max_answer_chars", MAX_ANSWER_CHARS),
    )


def _address(provider: str) -> str:
    if provider in SERVERS:
        return f"{server_address(provider)}/v1"
    named = (os.environ.get(name) for name in _ADDRESSES[provider])
    return next(filter(None, named), SERVICES[provider])


def _key(
    provider: str, spec: str, base_url: str | None, api_keys: Mapping[str, str] | None
) -> tuple[str, str]:
    if provider not in PROVIDERS:
        return "", ""
    name = _COMPATIBLE if provider == "openai" and base_url else provider
    variable = f"{name.upper()}_API_KEY"
    key = os.environ.get(variable) or (api_keys or {}).get(name, "")
    if not key and name in SERVICES:
        raise ModelError(f"{spec} needs a key: set {variable} in the environment or in .env.")
    return variable, key


_LISTING_S = 1.0
_CLAUDE = ("claude", "claude:opus", "claude:sonnet", "claude:haiku")


class ModelChoice(NamedTuple):
    spec: str
    """Ends with a colon if a model's name must follow."""
    about: str
    problem: str = ""
    """A sentence saying why it cannot be used; empty if it can."""

    @property
    def is_provider(self) -> bool:
        return self.spec.endswith(":")


def found_models(
    chosen: Iterable[tuple[str, str]], used: Iterable[str], access: Mapping[str, Any]
) -> list[ModelChoice]:
    """List the models that are known without network access. chosen: those in the settings, with
    what each is for."""
    claude = _CLAUDE if find_program("claude") else _CLAUDE[:1]
    offered = [
        *((spec, "used before") for spec in used),
        *((spec, "the claude program, with your login") for spec in claude),
        *((f"{provider}:", "type a model's name after it") for provider in (*SERVICES, "ollama")),
        ("demo", "offline, canned rules"),
    ]
    found: dict[str, ModelChoice] = {}
    for spec, about in (*chosen, *offered):
        if spec not in found:
            found[spec] = ModelChoice(spec, about, availability_problem(spec, access))
    return list(found.values())


def availability_problem(spec: str, access: Mapping[str, Any]) -> str:
    """Say why a model cannot be used, as far as known without asking it; empty if it can."""
    try:
        check_model(f"{spec}NAME" if spec.endswith(":") else spec, **access)
    except ModelError as error:
        return str(error)
    return ""


def server_models() -> list[ModelChoice]:
    return [
        ModelChoice(spec, f"at {server.address}")
        for server in find_servers(_LISTING_S)
        for spec in server.specs or (f"{server.provider}:",)
    ]
