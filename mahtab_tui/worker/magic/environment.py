"""The variables of the environment, without their secrets: `%env`."""

from __future__ import annotations

import os
import re

from ..values.secret_names import looks_secret
from .state import MagicContext

_SECRET_WORDS = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""Parts of names of secret environment variables, besides those that `looks_secret` knows."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
"""Name and password in an address."""


def _format_variable(name: str, value: str) -> str:
    """Return an environment variable as ``NAME=value``, without secrets."""
    has_secret_word = not _SECRET_WORDS.isdisjoint(name.lower().split("_"))
    if name != "PWD" and (looks_secret(name) or has_secret_word):
        return f"{name}=<hidden>"
    return f"{name}={_LOGIN.sub('<hidden>@', value)}"


def show_or_set_variable(text: str, caller: MagicContext) -> str | None:
    """`%env`: list the environment, or return or set a variable."""
    name, separator, value = text.strip().partition("=")
    if not separator:
        name, separator, value = text.strip().partition(" ")
    if separator:
        name = name.strip()
        value = value.strip()
        os.environ[name] = value
        print(f"env: {_format_variable(name, value)}")
        return None
    if not name:
        for other_name, other_value in sorted(os.environ.items()):
            print(_format_variable(other_name, other_value))
        return None
    if name not in os.environ:
        raise KeyError(f"the environment has no {name}; to set it: %env {name}=VALUE")
    return os.environ[name]
