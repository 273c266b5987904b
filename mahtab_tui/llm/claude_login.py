"""How `claude` reaches its service: the user's login, a gateway, or a key.

Only ANTHROPIC_API_KEY is withheld from it, because it would bill the key instead of the login.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.llm.base import as_mapping
from mahtab_tui.system import safe_path

KEY = "ANTHROPIC_API_KEY"
"""The variable that holds a key."""
_GATEWAY = "ANTHROPIC_BASE_URL"
"""The variable with the address of a gateway."""
USER_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The user's settings say how to reach the service. Safe mode ignores their hooks, memory, skills
and plug-ins."""
_LOGIN_STATUS_TIMEOUT_S = 20


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    """Return the variables with which `claude` finds its login."""
    env = {**os.environ, "PATH": safe_path()}
    if _is_withheld(use_api_key):
        del env[KEY]
    return env


def login_hint(*, use_api_key: bool) -> str:
    """Return a hint for a rejected login: where requests go, or which key was not used."""
    if has_gateway():
        return f"Requests go to the gateway in {_GATEWAY}."
    if _is_withheld(use_api_key):
        return f"{KEY} is set but was not passed to `claude`, which would bill it. To pass it: `mahtab-tui config set claude_api_key true`."
    return ""


def has_gateway() -> bool:
    """Return whether the user has set a gateway for `claude`, in its settings or the environment."""
    if os.environ.get(_GATEWAY):
        return True
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    try:
        address = json.loads(Path(folder, "settings.json").read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(address, str) and bool(address)


def login_status(executable: str, *, use_api_key: bool) -> Mapping[str, Any]:
    """Return what `claude auth status` says; empty if it says nothing."""
    try:
        answer = subprocess.run(
            [executable, *USER_SETTINGS, "auth", "status"],
            env=login_environment(use_api_key=use_api_key),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOGIN_STATUS_TIMEOUT_S,
            check=False,
        )
        return as_mapping(json.loads(answer.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return {}


def _is_withheld(use_api_key: bool) -> bool:
    """Return whether the key is kept from `claude`.

    A gateway gets it, since otherwise the login would be sent there.
    """
    return bool(os.environ.get(KEY)) and not use_api_key and not has_gateway()
