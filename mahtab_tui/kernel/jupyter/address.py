"""Which Jupyter kernel is meant, as ``--kernel`` says it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from mahtab_tui.kernel.base import KernelError

LOCAL, SERVER, EXISTING = "jupyter:", "jupyter+", "existing:"
WANTED = "give jupyter:NAME, jupyter+https://HOST/PATH or existing:CONNECTION.json"


class Local(NamedTuple):
    """A kernel of this machine, which we start."""

    name: str
    """Name of its kernelspec."""


class Server(NamedTuple):
    """A kernel of a server, which we start there, or join."""

    url: str
    """Without a token and without a slash at its end."""
    token: str
    name: str
    """Name of the kernelspec there; empty for the server's own choice."""
    kernel_id: str
    """Id of a kernel that runs there; empty for a new one."""

    @property
    def label(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.netloc}{parts.path}"

    @property
    def text(self) -> str:
        """The address for ``--kernel``, without the token."""
        chosen = {"kernel": self.name, "id": self.kernel_id}
        query = urlencode({name: value for name, value in chosen.items() if value})
        return f"{SERVER}{self.url}{'?' * bool(query)}{query}"


class Existing(NamedTuple):
    """A kernel of this machine that another program has started."""

    file: str
    """Its connection file."""


def parse(text: str, token: str = "") -> Local | Server | Existing:
    """Read an address. token: for a server whose address names none. Raises `KernelError`, which
    does not repeat a token."""
    if text.startswith(EXISTING):
        return Existing(_named(text.removeprefix(EXISTING), EXISTING))
    if text.startswith(LOCAL):
        return Local(_named(text.removeprefix(LOCAL), LOCAL))
    try:
        parts = urlsplit(text.removeprefix(SERVER))
        host, query = parts.hostname, parse_qs(parts.query)
        _ = parts.port
    except ValueError:
        raise KernelError(f"The address of the server cannot be read: {WANTED}.") from None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise KernelError(
            f"The address of the server cannot be read: {WANTED}, with the token as ?token=… or in the setting jupyter_token."
        )
    if unknown := sorted(query.keys() - {"token", "kernel", "id"}):
        raise KernelError(
            f"The address of a server takes ?token=, &kernel= and &id=, not {', '.join(unknown)}."
        )
    values = {name: each[-1] for name, each in query.items()}
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return Server(url, values.get("token", token), values.get("kernel", ""), values.get("id", ""))


def token_in(text: str) -> str:
    """The token that an address names; empty if it names none."""
    _, found, rest = text.partition("?") if text.startswith(SERVER) else ("", "", "")
    return (parse_qs(rest).get("token") or [""])[-1] if found else ""


def _named(name: str, kind: str) -> str:
    if not name.strip():
        raise KernelError(f"{kind} names no kernel: {WANTED}.")
    return name.strip()
