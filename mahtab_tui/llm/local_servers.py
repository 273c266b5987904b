"""Model servers on this machine, or at the address in their environment variable."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import NamedTuple, TypeGuard
from urllib.parse import urlsplit

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import SERVERS
from mahtab_tui.system import start_thread

_DISCOVERY_TIMEOUT_S = 0.3
"""Seconds in which a server must answer to be chosen without being named."""
_LIST_MODELS_TIMEOUT_S = 2.0
"""Seconds in which a server that was named must answer."""
_MAX_SERVER_MODELS = 200
"""Models of one server."""
_MAX_NAME_CHARS = 200
"""Characters of a model's name."""
_ADDRESS_COLUMN = 1
_STATE_COLUMN = 3
_UID_COLUMN = 7
"""Columns of the tables of sockets in ``/proc/net``."""
_LISTENING = "0A"
"""State of a listening socket in the tables of Linux, in ``/proc/net``."""
_SYSTEM_UIDS = range(1_000)
"""Ids of the system's own users, whose services may serve everyone."""


class _ModelListFormat(NamedTuple):
    """How a server lists its models, as JSON."""

    path: str
    list_key: str
    """Key of the list in the answer."""
    name_key: str
    """Key of the name in each of its models."""


_OPENAI_FORMAT = _ModelListFormat("/v1/models", "data", "id")
_OTHER_FORMATS = {"ollama": _ModelListFormat("/api/tags", "models", "name")}
"""Formats by provider; the other servers use that of OpenAI's protocol."""


class ModelServer(NamedTuple):
    """A server that has answered, and its models."""

    provider: str
    address: str
    """A URL without the path of a protocol, such as ``http://127.0.0.1:11434``."""
    models: tuple[str, ...]

    @property
    def specs(self) -> list[str]:
        """The full names of its models, such as ``ollama:llama3.2``."""
        return [f"{self.provider}:{model}" for model in self.models]


def server_address(provider: str) -> str:
    """Return the URL of a provider's server: on this machine, or as its environment variable says
    (such as OLLAMA_HOST). Without a port, it gets that of the provider, except for https."""
    value = os.environ.get(f"{provider.upper()}_HOST", "").strip() or "127.0.0.1"
    scheme, _, location = value.rpartition("://")
    server, slash, path = location.rstrip("/").partition("/")
    is_bare_ipv6 = server.count(":") > 1 and not server.startswith("[")
    if is_bare_ipv6:
        server = f"[{server}]"
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):
        host = server
        port = "" if scheme == "https" else str(SERVERS[provider])
    # The variable is also the server's own: these make it listen at all addresses.
    if host in ("", "0.0.0.0", "[::]"):
        host = "127.0.0.1"
    address = f"{host}:{port}" if port else host
    # The paths of the protocols are added later.
    return f"{scheme or 'http'}://{address}{(slash + path).removesuffix('/v1')}"


def find_server(provider: str, seconds: float) -> ModelServer | None:
    """Ask a provider's server for its models; None if it does not answer within `seconds`, or its
    answer is not a list of models."""
    from mahtab_tui.llm.http_exchange import HttpService, fetch_json

    address = server_address(provider)
    list_format = _OTHER_FORMATS.get(provider, _OPENAI_FORMAT)
    try:
        answer = fetch_json(HttpService(address), list_format.path, seconds)
    except (ModelError, ValueError):
        return None

    # Another kind of server may listen at the port, and answer anything.
    models = answer.get(list_format.list_key) if isinstance(answer, dict) else None
    if not isinstance(models, list):
        return None
    names = [model.get(list_format.name_key) for model in models if isinstance(model, dict)]
    if models and not any(isinstance(name, str) for name in names):
        return None

    usable_names = tuple(filter(_is_usable_name, names))
    return ModelServer(provider, address, usable_names[:_MAX_SERVER_MODELS])


def find_servers(seconds: float) -> list[ModelServer]:
    """Ask all servers at once, and return those that answer within `seconds`, in the order of
    `SERVERS`."""
    servers: dict[str, ModelServer] = {}

    def ask(provider: str) -> None:
        try:
            url = urlsplit(server_address(provider))
            address = (url.hostname or "", url.port or 443)
            socket.create_connection(address, timeout=seconds).close()
        except (OSError, ValueError):  # nobody listens
            return
        server = find_server(provider, seconds)
        if server is not None:
            servers[provider] = server

    threads = [start_thread("servers", ask, provider) for provider in SERVERS]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [servers[provider] for provider in SERVERS if provider in servers]


def first_model() -> str:
    """Return the full name of the first model of the first server that has one; empty if there is
    none. Servers of other users are skipped."""
    for server in find_servers(_DISCOVERY_TIMEOUT_S):
        if server.models and not _is_of_another_user(urlsplit(server.address).port):
            return server.specs[0]
    return ""


def only_model(provider: str) -> str:
    """Return the name of the only model of a provider's server.

    Raises:
        ModelError: No server answers, or it has no model or several.
    """
    server = find_server(provider, _LIST_MODELS_TIMEOUT_S)
    if server is None:
        variable = f"{provider.upper()}_HOST"
        raise ModelError(
            f"No {provider} server answers at {server_address(provider)}. Start it, or set {variable} to its address."
        )
    if len(server.models) == 1:
        return server.models[0]
    if not server.models:
        raise ModelError(f"The server at {server.address} has no model yet.")
    examples = ", ".join(server.specs[:5])
    raise ModelError(
        f"The server at {server.address} has {len(server.models):,} models. Name one, as in {examples}."
    )


def _is_of_another_user(port: int | None) -> bool:
    """Return whether another user of this machine listens at a port. Only Linux tells; elsewhere,
    nobody does. The system's own users do not count."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            user_socket = _parse_socket(line)
            if not user_socket.is_listening or user_socket.port != port:
                continue
            if user_socket.uid != os.getuid() and user_socket.uid not in _SYSTEM_UIDS:
                return True
    return False


class _UserSocket(NamedTuple):
    """A socket of a user of this machine."""

    port: int
    is_listening: bool
    uid: int


def _parse_socket(line: str) -> _UserSocket:
    """Parse a line of a table of sockets in ``/proc/net``."""
    columns = line.split()
    port = columns[_ADDRESS_COLUMN].rpartition(":")[2]
    return _UserSocket(
        port=int(port, 16),
        is_listening=columns[_STATE_COLUMN] == _LISTENING,
        uid=int(columns[_UID_COLUMN]),
    )


def _is_usable_name(name: object) -> TypeGuard[str]:
    """Return whether a model's name can be displayed and typed, and is not that of an embedding
    model."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _MAX_NAME_CHARS
        and name.isprintable()
        and name == name.strip()
        and "embed" not in name.lower()
    )
