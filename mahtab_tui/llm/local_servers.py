"""Finds the model servers on this machine, and those whose addresses the environment names."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import NamedTuple, TypeGuard
from urllib.parse import SplitResult, urlsplit

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import SERVERS, is_loopback
from mahtab_tui.system import start_thread

_DISCOVERY_TIMEOUT_S = 0.3
"""The time in which a server must answer to be chosen without being named."""
_LIST_MODELS_TIMEOUT_S = 2.0
"""The time in which a server that was named must answer."""
_MAX_SERVER_MODELS = 200
"""At most this many models of a server are offered."""
_MAX_NAME_CHARS = 200
"""A model with a longer name is not offered."""
_MAX_EXAMPLES = 5
"""At most this many models are named in an error."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
"""The port of a URL that names none, by the URL's scheme."""

# The tables of sockets in `/proc/net`
_ADDRESS_COLUMN = 1
_STATE_COLUMN = 3
_UID_COLUMN = 7
_LISTENING = "0A"
"""The state of a socket that listens."""
_SYSTEM_UIDS = range(1_000)
"""Ids of the system's own users, whose services may serve everyone."""


class _ModelListFormat(NamedTuple):
    """The JSON document in which a server lists its models."""

    path: str
    list_key: str
    """The key of the list in the answer."""
    name_key: str
    """The key of the name in each item of the list."""


_OPENAI_FORMAT = _ModelListFormat("/v1/models", "data", "id")
_OTHER_FORMATS = {"ollama": _ModelListFormat("/api/tags", "models", "name")}
"""The formats of providers whose servers do not list their models as OpenAI's protocol does."""


class ModelServer(NamedTuple):
    """A server that has answered with a list of its models."""

    provider: str
    address: str
    """The server's URL without the path of a protocol, such as ``http://127.0.0.1:11434``."""
    models: tuple[str, ...]
    """The names of the first models that can be offered."""
    usable_count: int
    """The number of models that can be offered, also of those that `models` leaves out."""
    listed_count: int
    """The number of models in the server's list, including embedding models."""

    @property
    def specs(self) -> list[str]:
        """The full names of `models`, such as ``ollama:llama3.2``."""
        return [f"{self.provider}:{model}" for model in self.models]


def server_address(provider: str) -> str:
    """Return the URL of a provider's server: on this machine, or as the provider's environment
    variable says (such as OLLAMA_HOST). A URL without a port gets the provider's port, unless its
    scheme is https.

    Raises:
        ModelError: The variable contains a user name or a password, which the server would not get.
    """
    variable = _address_variable(provider)
    value = os.environ.get(variable, "").strip() or "127.0.0.1"
    scheme, _, location = value.rpartition("://")
    scheme = scheme.lower() or "http"
    host_and_port, slash, path = location.rstrip("/").partition("/")
    if "@" in host_and_port:
        raise ModelError(
            f"{variable} contains a user name or a password, which are not supported. Remove them;"
            f" if the server needs a key, set {provider.upper()}_API_KEY."
        )
    host, port = _split_host_and_port(host_and_port)
    if port is None:
        port = "" if scheme == "https" else str(SERVERS[provider])
    # The variable also configures the server itself. These values make the server listen at all
    # addresses.
    if host in ("", "0.0.0.0", "[::]"):
        host = "127.0.0.1"
    host_and_port = f"{host}:{port}" if port else host
    # The client adds the paths of the protocols.
    return f"{scheme}://{host_and_port}{(slash + path).removesuffix('/v1')}"


def _split_host_and_port(host_and_port: str) -> tuple[str, str | None]:
    """Split the part of a URL that names a server. An IPv6 address gets brackets if it has none.

    Returns:
        The host, and the text of the port; None if there is no port.

    Example:
        >>> _split_host_and_port("box:8000")
        ('box', '8000')
        >>> _split_host_and_port("[::1]:8000")
        ('[::1]', '8000')
        >>> _split_host_and_port("::1")
        ('[::1]', None)
    """
    is_bare_ipv6 = host_and_port.count(":") > 1 and not host_and_port.startswith("[")
    if is_bare_ipv6:
        return f"[{host_and_port}]", None
    host, colon, port = host_and_port.rpartition(":")
    is_last_colon_in_ipv6 = port.endswith("]")
    if not colon or is_last_colon_in_ipv6:
        return host_and_port, None
    return host, port


def _address_variable(provider: str) -> str:
    """Return the name of the environment variable with the address of a provider's server."""
    return f"{provider.upper()}_HOST"


def find_server(provider: str, timeout_s: float) -> ModelServer | None:
    """Ask a provider's server for its models.

    Return None if the server does not answer in time, or the answer is not a list of models. Raises
    `ModelError` as `server_address` does.
    """
    from mahtab_tui.llm.http_exchange import HttpService, fetch_json

    address = server_address(provider)
    list_format = _OTHER_FORMATS.get(provider, _OPENAI_FORMAT)
    try:
        answer = fetch_json(HttpService(address), list_format.path, timeout_s)
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
    return ModelServer(
        provider=provider,
        address=address,
        models=usable_names[:_MAX_SERVER_MODELS],
        usable_count=len(usable_names),
        listed_count=len(models),
    )


def find_servers(timeout_s: float) -> list[ModelServer]:
    """Ask all servers at once. Return the servers that answer in time, in the order of `SERVERS`."""
    servers: dict[str, ModelServer] = {}

    def ask(provider: str) -> None:
        try:
            url = urlsplit(server_address(provider))
            # Most servers do not run. Trying the port first avoids loading the HTTP client for them.
            socket.create_connection((url.hostname or "", _port_of(url)), timeout_s).close()
            server = find_server(provider, timeout_s)
        except (OSError, ValueError, ModelError):  # nobody listens, or the variable is wrong
            return
        if server is not None:
            servers[provider] = server

    threads = [start_thread("servers", ask, provider) for provider in SERVERS]
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [servers[provider] for provider in SERVERS if provider in servers]


def first_model() -> str:
    """Return the full name of the first model of the first server that has one.

    Empty if there is none. Servers of other users of this machine are skipped.
    """
    for server in find_servers(_DISCOVERY_TIMEOUT_S):
        if server.models and not _is_of_another_user(server.address):
            return server.specs[0]
    return ""


def only_model(provider: str) -> str:
    """Return the name of the only model of a provider's server.

    Raises:
        ModelError: No server answers, or the server has several models, or none that can be used.
    """
    server = find_server(provider, _LIST_MODELS_TIMEOUT_S)
    if server is None:
        raise ModelError(
            f"No {provider} server answers at {server_address(provider)}. Start it, or set {_address_variable(provider)} to its address."
        )
    if server.usable_count == 1:
        return server.models[0]
    if server.listed_count == 0:
        raise ModelError(f"The server at {server.address} has no model yet.")
    if server.usable_count == 0:
        raise ModelError(
            f"The server at {server.address} has no model that answers questions. Embedding models"
            " and models with unprintable names are left out."
        )
    examples = ", ".join(server.specs[:_MAX_EXAMPLES])
    raise ModelError(
        f"The server at {server.address} has {server.usable_count:,} models. Name one, as in {examples}."
    )


def _is_of_another_user(address: str) -> bool:
    """Return whether another user of this machine listens at a URL.

    The system's own users do not count. Known only on Linux; elsewhere returns False.
    """
    url = urlsplit(address)
    port = _port_of(url)
    # A server on another machine has nothing to do with the sockets of this one.
    if not is_loopback(url.hostname or ""):
        return False
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            tcp_socket = _parse_socket(line)
            if not tcp_socket.is_listening or tcp_socket.port != port:
                continue
            if tcp_socket.uid != os.getuid() and tcp_socket.uid not in _SYSTEM_UIDS:
                return True
    return False


def _port_of(url: SplitResult) -> int:
    """Return the port of a URL; 0 if it is unknown. Raises `ValueError` if it is not a port."""
    return url.port or _DEFAULT_PORTS.get(url.scheme, 0)


class _TcpSocket(NamedTuple):
    """A TCP socket of this machine."""

    port: int
    is_listening: bool
    uid: int
    """The id of the user whose process has opened the socket."""


def _parse_socket(line: str) -> _TcpSocket:
    """Parse a line of a table of sockets in ``/proc/net``."""
    columns = line.split()
    port = columns[_ADDRESS_COLUMN].rpartition(":")[2]
    return _TcpSocket(
        port=int(port, 16),
        is_listening=columns[_STATE_COLUMN] == _LISTENING,
        uid=int(columns[_UID_COLUMN]),
    )


def _is_usable_name(name: object) -> TypeGuard[str]:
    """Return whether a value is the name of a model that can be offered: the name can be displayed
    and typed, and the model is not an embedding model."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _MAX_NAME_CHARS
        and name.isprintable()
        and name == name.strip()
        and "embed" not in name.lower()
    )
