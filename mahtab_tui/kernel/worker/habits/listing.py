"""%who, %whos, %who_ls, %lsmagic, %env, %set_env, %history, %hist and %pwd; `magics.SUMMARIES` says
what they do."""

from __future__ import annotations

import builtins
import os
import re
from typing import Any

from ..listing import HIDDEN, described
from ..secret_names import looks_secret
from .magics import SUMMARIES, Caller

_SECRET = frozenset("key pass auth pat webhook dsn connection cookie".split())
"""More words in names of environment variables that may be secret."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
"""The login in an address."""


def _told(name: str, value: str) -> str:
    """Format an environment variable, with possible secrets hidden."""
    secret = name != "PWD" and (
        looks_secret(name) or not _SECRET.isdisjoint(name.lower().split("_"))
    )
    return f"{name}={'<hidden>' if secret else _LOGIN.sub('<hidden>@', value)}"


def _names(rest: str, caller: Caller) -> list[dict[str, Any]]:
    """List the variables, of the given types if there are any, without modules, functions and
    private names, like the namespace pane."""
    types = rest.split()
    public = [
        (name, value)
        for name, value in list(caller.namespace.items())
        if type(name) is str and name not in HIDDEN and name[:1] != "_"
    ]
    listed = [described(name, value) for name, value in public]
    return [each for each in listed if (each["type"] in types if types else each["kind"] == "data")]


def who(rest: str, caller: Caller) -> None:
    print("  ".join(each["name"] for each in _names(rest, caller)) or "There are no variables.")


def who_ls(rest: str, caller: Caller) -> list[str]:
    return sorted(each["name"] for each in _names(rest, caller))


def whos(rest: str, caller: Caller) -> None:
    rows = [(each["name"], each["type"], each["summary"]) for each in _names(rest, caller)]
    if not rows:
        print("There are no variables.")
        return
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, kind, told in rows:
        print(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {told}".rstrip())


def lsmagic(rest: str, caller: Caller) -> None:
    print("\n".join(SUMMARIES.values()))


def env(rest: str, caller: Caller) -> Any:
    name, sign, value = rest.strip().partition("=")
    if not sign:
        name, sign, value = rest.strip().partition(" ")
    if sign:
        os.environ[name.strip()] = value.strip()
        print(f"env: {_told(name.strip(), value.strip())}")
        return None
    if name:
        if name not in os.environ:
            raise KeyError(f"the environment has no {name}; to set it: %env {name}=VALUE")
        return os.environ[name]
    for name, value in sorted(os.environ.items()):
        print(_told(name, value))
    return None


def history(rest: str, caller: Caller) -> None:
    for number, source in enumerate(builtins.__dict__["In"]):
        if source:
            print(f"{number}: {source}" if "-n" in rest.split() else source)


def pwd(rest: str, caller: Caller) -> str:
    return os.getcwd()


set_env, hist = env, history
