"""Lists the models for this machine, with the reason for each that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.local_servers import find_servers
from mahtab_tui.llm.providers import check_model
from mahtab_tui.system.programs import find_program

_LISTING_S = 1.0
"""Seconds to wait for the servers."""
_PROVIDERS = ("anthropic", "openai", "openrouter", "ollama")
_CLAUDE = ("claude", "claude:opus", "claude:sonnet", "claude:haiku")


class ModelChoice(NamedTuple):
    """A model, or a provider whose model is still to be named."""

    spec: str
    """Ends with a colon if a model's name must follow."""
    about: str
    problem: str = ""
    """A sentence saying why it cannot be used; empty if it can."""

    @property
    def is_provider(self) -> bool:
        return self.spec.endswith(":")


def found_models(
    chosen: Iterable[tuple[str, str]], used: Iterable[str], access: Mapping[str, Any]
) -> list[ModelChoice]:
    """List the models that are known without network access, those already chosen first. Loads
    nothing.

    chosen: the models in the settings, with what each is for. used: those of earlier sessions.
    access: `Settings.model_access`.
    """
    found: dict[str, ModelChoice] = {}
    for spec, about in (*chosen, *((spec, "used before") for spec in used), *_offered()):
        if spec not in found:
            found[spec] = ModelChoice(spec, about, problem_of(spec, access))
    return list(found.values())


def problem_of(spec: str, access: Mapping[str, Any]) -> str:
    """Say why a model cannot be used, as far as that is known without asking it; empty if it
    can."""
    try:
        check_model(f"{spec}NAME" if spec.endswith(":") else spec, **access)
    except ModelError as error:
        return str(error)
    return ""


def _offered() -> Iterator[tuple[str, str]]:
    for spec in _CLAUDE if find_program("claude") else _CLAUDE[:1]:
        yield spec, "the claude program, with your login"
    for provider in _PROVIDERS:
        yield f"{provider}:", "type a model's name after it"
    yield "demo", "offline, canned rules"


def server_models() -> list[ModelChoice]:
    """List the models of servers on this machine; a server without one asks for a name. Waits for
    the servers, for a moment."""
    return [
        ModelChoice(spec, f"at {server.address}")
        for server in find_servers(_LISTING_S)
        for spec in server.specs or (f"{server.provider}:",)
    ]
