"""The models that a user can choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import AGENT, SERVICES
from mahtab_tui.llm.providers import check_model
from mahtab_tui.settings.acp_agents import KNOWN_AGENTS
from mahtab_tui.system import find_program

_MODEL_LIST_TIMEOUT_S = 1.0
"""Seconds in which a server must answer to be listed for the user."""
_CLAUDE_MODELS = ("claude", "claude:opus", "claude:sonnet", "claude:haiku")
"""Models of the ``claude`` program; the first one is its own default."""


class ModelChoice(NamedTuple):
    """A model that the user may choose."""

    spec: str
    """The full name, or a provider with a colon if a model's name must follow."""
    about: str
    """What it is for or where it comes from, as a clause."""
    problem: str = ""
    """A sentence saying why it cannot be used; empty if it can."""

    @property
    def is_provider(self) -> bool:
        return self.spec.endswith(":")


class ConfiguredModel(NamedTuple):
    """A model that a setting names."""

    spec: str
    about: str
    """Which setting names it, as a clause."""


def offered_models(
    configured_models: Iterable[ConfiguredModel],
    used_names: Iterable[str],
    access: Mapping[str, Any],
) -> list[ModelChoice]:
    """List the models that can be offered without network access, each once.

    Args:
        configured_models: The models in the settings.
        used_names: Full names of those used before.
        access: Addresses, keys and options of providers, as for `check_model`.
    """
    # Without the program, one row is enough to say that it is missing.
    claude_models = _CLAUDE_MODELS if find_program("claude") else _CLAUDE_MODELS[:1]
    offers: list[tuple[str, str]] = list(configured_models)
    offers += [(spec, "used before") for spec in used_names]
    offers += [(spec, "the claude program, with your login") for spec in claude_models]
    for provider in (*SERVICES, "ollama"):
        offers.append((f"{provider}:", "type a model's name after it"))
    for name in (*KNOWN_AGENTS, *access.get("agents", {})):
        offers.append((f"{AGENT}:{name}", "an agent that works in this session"))
    offers.append(("demo", "offline, canned rules"))

    choices: dict[str, ModelChoice] = {}
    for spec, about in offers:
        if spec not in choices:
            choices[spec] = ModelChoice(spec, about, availability_problem(spec, access))
    return list(choices.values())


def availability_problem(spec: str, access: Mapping[str, Any]) -> str:
    """Return why a model cannot be used, as a sentence; empty if it can be used.

    Does not ask its service.
    """
    # A provider is checked with any model's name.
    checked_spec = f"{spec}NAME" if spec.endswith(":") else spec
    try:
        check_model(checked_spec, **access)
    except ModelError as error:
        return str(error)
    return ""


def server_models() -> list[ModelChoice]:
    """List the models of the servers that answer; of a server without models, its provider."""
    from mahtab_tui.llm.local_servers import find_servers

    return [
        ModelChoice(spec, f"at {server.address}")
        for server in find_servers(_MODEL_LIST_TIMEOUT_S)
        for spec in server.specs or (f"{server.provider}:",)
    ]
