"""Servers of models on this machine: llama.cpp, LM Studio, vLLM and Ollama."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from mahtab_tui.llm.base import ModelError

SERVERS = {"llamacpp": 8080, "lmstudio": 1234, "vllm": 8000, "ollama": 11434}
"""Providers, with the ports on which they listen unless they are told otherwise."""
_LISTS = {"ollama": ("/api/tags", "models", "name")}
"""Path, key of the list, and key of a model's name, where they are not those of OpenAI's
protocol."""
_LIMIT = 0.3
"""Seconds for the answers of servers for which nobody has asked."""
_LONGER = 2.0
"""Seconds for the answer of a server that was named."""
_MOST = 200
"""Models of one server that are listed."""
_LONGEST_NAME = 200
_LISTENING = "0A"
_SERVICES = range(1_000)
"""User ids of the system and its services."""


class FoundServer(NamedTuple):
    """A server that answers."""

    provider: str
    address: str
    models: tuple[str, ...]
    """Names of its chat models, in the server's order."""

    @property
    def specs(self) -> list[str]:
        """Full names of its models."""
        return [f"{self.provider}:{model}" for model in self.models]


def server_address(provider: str) -> str:
    """Return where a provider's server is: here, or where its variable (as OLLAMA_HOST) says."""
    host = os.environ.get(f"{provider.upper()}_HOST", "").strip() or "127.0.0.1"
    scheme, _, rest = host.rpartition("://")
    rest = rest.rstrip("/").replace("0.0.0.0", "127.0.0.1")
    return f"{scheme or 'http'}://{rest if ':' in rest or scheme == 'https' else f'{rest}:{SERVERS[provider]}'}"


def find_server(provider: str, seconds: float) -> FoundServer | None:
    """Ask a provider's server for its models; None if it does not answer as such a server does.
    Waits for it."""
    from mahtab_tui.llm.http_service import HttpService, fetch_json

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
    return FoundServer(provider, address, tuple(each for each in names if _is_name(each))[:_MOST])


def find_servers(seconds: float) -> list[FoundServer]:
    """Ask all servers at once, and return those that have answered when the time is up."""
    found: dict[str, FoundServer] = {}

    def ask(provider: str) -> None:
        if _listens(provider, seconds) and (server := find_server(provider, seconds)) is not None:
            found[provider] = server

    threads = [
        threading.Thread(target=ask, args=(provider,), name="servers", daemon=True)
        for provider in SERVERS
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [found[provider] for provider in SERVERS if provider in found]


def first_model() -> str:
    """Return the full name of the first model of a server on this machine; empty if there is none.

    Servers of other people are left out: they would get questions that nobody meant for them.
    """
    servers = (
        server
        for server in find_servers(_LIMIT)
        if not _is_of_another_person(urlsplit(server.address).port)
    )
    return next((spec for server in servers for spec in server.specs), "")


def only_model(provider: str) -> str:
    """Return the name of the one model that a server has. Raises `ModelError`."""
    server = find_server(provider, _LONGER)
    if server is None:
        where = server_address(provider)
        raise ModelError(
            f"No {provider} server answers at {where}. Start it, or set {provider.upper()}_HOST to its address."
        )
    if not server.models:
        raise ModelError(f"The server at {server.address} has no model yet.")
    if len(server.models) > 1:
        some = ", ".join(server.specs[:5])
        raise ModelError(
            f"The server at {server.address} has {len(server.models)} models. Name one, as in {some}."
        )
    return server.models[0]


def _listens(provider: str, seconds: float) -> bool:
    """Tell whether something listens at a server's address: on this machine that is known at
    once."""
    try:
        url = urlsplit(server_address(provider))
        with socket.create_connection((url.hostname or "", url.port or 443), timeout=seconds):
            return True
    except (OSError, ValueError):
        return False


def _is_of_another_person(port: int | None) -> bool:
    """Tell whether another person of this machine listens at a port. Only Linux says so."""
    for table in ("tcp", "tcp6"):
        try:
            sockets = [
                line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
            ]
        except OSError:
            continue
        for _, local, _, state, _, _, _, owner, *_ in sockets:
            if (
                state == _LISTENING
                and int(local.rpartition(":")[2], 16) == port
                and int(owner) not in (os.getuid(), *_SERVICES)
            ):
                return True
    return False


def _is_name(name: Any) -> TypeGuard[str]:
    """Tell whether a model's name can be shown and typed, and is not that of a model for
    embeddings, which cannot chat."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and "embed" not in name.lower()
    )
