"""How the `claude` program reaches its service: the person's login, gateway or key, as they have set them up for it.

The one thing that is kept from it is ANTHROPIC_API_KEY of the environment, which it would bill in place of the login. A gateway's address is
never kept from it: prompts would go where the person does not want them.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

KEY = "ANTHROPIC_API_KEY"
_GATEWAY = "ANTHROPIC_BASE_URL"
PERSONS_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The person's own settings say how their service is reached (`env`, `apiKeyHelper`). Safe mode leaves out their hooks, memory, skills and plug-ins."""
_PATIENCE = 20
"""Seconds that `claude auth status` may take; it takes one at most."""


class LoginStatus(NamedTuple):
    """What `claude auth status` says."""

    logged_in: bool
    method: str
    """As in "claude.ai, max" or "api_key_helper"; empty where nobody is logged in."""


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    """The environment that a `claude` is started with. use_api_key: whether the key is given to it also where no gateway needs it."""
    return {name: value for name, value in os.environ.items() if name != KEY or not _is_withheld(use_api_key)}


def login_hint(*, use_api_key: bool) -> str:
    """What a person should know whose login is not accepted: where requests go, and the key that was not used. Empty where there is nothing."""
    hints = []
    if gateway := gateway_address():
        hints.append(f"Requests go to {gateway} ({_GATEWAY}).")
    if _is_withheld(use_api_key):
        hints.append(f"{KEY} is set but not given to `claude`, which would bill it: `mahtab-tui config set claude_api_key true` gives it.")
    return " ".join(hints)


def gateway_address() -> str:
    """The host that `claude` sends its requests to, if the person has set that; else empty. As `claude` does, it reads its settings before the environment."""
    file = Path(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "settings.json")
    try:
        address = json.loads(file.read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        address = None
    return _host(address if isinstance(address, str) and address else os.environ.get(_GATEWAY, ""))


def _host(address: str) -> str:
    """The host of an address, with scheme and port: neither a password nor a key in its path or query."""
    if not address:
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, f":{parts.port}" if parts.port else ""
    except ValueError:
        host = None
    return f"{parts.scheme}://{host}{port}".removeprefix("://") if host else "a gateway"


def login_status(executable: str, *, use_api_key: bool) -> LoginStatus | None:
    """Ask `claude` whether somebody is logged in; None where it does not say. Raises `OSError`, `subprocess.TimeoutExpired`."""
    answer = subprocess.run(
        [executable, *PERSONS_SETTINGS, "auth", "status"],
        env=login_environment(use_api_key=use_api_key),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    try:
        told: dict[str, Any] = json.loads(answer.stdout)
        logged_in = bool(told["loggedIn"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    method = [str(told[name]) for name in ("authMethod", "subscriptionType", "apiProvider") if told.get(name) not in (None, "", "none", "firstParty")]
    return LoginStatus(logged_in, ", ".join(method))


def _is_withheld(use_api_key: bool) -> bool:
    """Whether a key is set and not given to `claude`. Behind a gateway the key is the gateway's: without it the login would be sent there."""
    return bool(os.environ.get(KEY)) and not use_api_key and not gateway_address()
