"""How the `claude` program reaches its service: with the login, gateway or key that the user has
set up for it.

Only the environment's ANTHROPIC_API_KEY is withheld from it, because it would bill the key instead
of the login. A gateway's address is never withheld, since prompts would then go where the user does
not want them.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mahtab_tui.system.programs import safe_path

KEY = "ANTHROPIC_API_KEY"
_GATEWAY = "ANTHROPIC_BASE_URL"
USER_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The user's settings say how to reach the service (`env`, `apiKeyHelper`). Safe mode ignores their
hooks, memory, skills and plug-ins."""
_PATIENCE = 20
"""Seconds that `claude auth status` may take; usually less than one."""


class LoginStatus(NamedTuple):
    """The output of `claude auth status`."""

    logged_in: bool
    method: str
    """Such as "claude.ai, max" or "api_key_helper"; empty if nobody is logged in."""


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    """Return the environment for `claude`. use_api_key: pass the key even if no gateway needs
    it."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name != KEY or not _is_withheld(use_api_key)
    }
    return {**own, "PATH": safe_path()}


def login_hint(*, use_api_key: bool) -> str:
    """Return a hint for when the login is not accepted: where requests go, and which key was not
    used. May be empty."""
    hints = []
    if gateway := gateway_address():
        hints.append(f"Requests go to {gateway} ({_GATEWAY}).")
    if _is_withheld(use_api_key):
        hints.append(
            f"{KEY} is set but was not passed to `claude`, which would bill it. To pass it: `mahtab-tui config set claude_api_key true`."
        )
    return " ".join(hints)


def gateway_address() -> str:
    """Return the gateway that the user has set for `claude`, or an empty string. Like `claude`, it
    prefers the settings to the environment."""
    file = Path(
        os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "settings.json"
    )
    try:
        address = json.loads(file.read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        address = None
    return _host(address if isinstance(address, str) and address else os.environ.get(_GATEWAY, ""))


def _host(address: str) -> str:
    """Return scheme, host and port of an address, without path and query, which may hold a password
    or key."""
    if not address:
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, f":{parts.port}" if parts.port else ""
    except ValueError:
        host = None
    return f"{parts.scheme}://{host}{port}".removeprefix("://") if host else "a gateway"


def login_status(executable: str, *, use_api_key: bool) -> LoginStatus | None:
    """Ask `claude` whether it is logged in; None if it does not say. Raises `OSError`,
    `subprocess.TimeoutExpired`."""
    answer = subprocess.run(
        [executable, *USER_SETTINGS, "auth", "status"],
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
    method = [
        str(told[name])
        for name in ("authMethod", "subscriptionType", "apiProvider")
        if told.get(name) not in (None, "", "none", "firstParty")
    ]
    return LoginStatus(logged_in, ", ".join(method))


def _is_withheld(use_api_key: bool) -> bool:
    """Tell whether a key is withheld from `claude`. A gateway gets the key, since otherwise the
    login would be sent there."""
    return bool(os.environ.get(KEY)) and not use_api_key and not gateway_address()
