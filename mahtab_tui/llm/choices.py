"""The models that a user can choose from, and the default model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import SERVICES, full_name
from mahtab_tui.llm.providers import check_model
from mahtab_tui.system import find_program, start_thread

if TYPE_CHECKING:
    from mahtab_tui.settings.model import Settings

_MODEL_LIST_TIMEOUT_S = 1.0
"""Seconds in which a server must answer to be listed for the user."""
_CLAUDE_MODELS = ("claude", "claude:opus", "claude:sonnet", "claude:haiku")
"""Models of the ``claude`` program; the first one is its own default."""


def default_model() -> str:
    """Return ``claude`` if the CLI is on the PATH; else the first model of a server; else
    ``demo``. Waits for servers. Raises `ModelError` if they cannot be asked."""
    return _installed_model() or _served_model()


class FirstModel(NamedTuple):
    """The model that a session starts with."""

    name: str
    """Its full name."""
    search_failure: str = ""
    """A sentence if servers could not be asked, so that `demo` answers; empty otherwise."""


def chosen_model(settings: Settings) -> Future[FirstModel]:
    """Return the session's first model: that of the settings, or the default. The future is done at
    once, unless servers must be asked; it never raises."""
    first_model: Future[FirstModel] = Future()
    name = settings.model or _installed_model()
    if name:
        first_model.set_result(FirstModel(full_name(name, settings.provider)))
    else:
        try:
            start_thread("models", lambda: first_model.set_result(_find_served_model()))
        except RuntimeError as error:  # the system refuses a thread
            first_model.set_result(_demo_after(_search_error(error)))
    return first_model


def _find_served_model() -> FirstModel:
    try:
        return FirstModel(_served_model())
    except ModelError as error:
        return _demo_after(error)


def _demo_after(error: ModelError) -> FirstModel:
    """Return `demo`, because the search for a model failed."""
    reason = str(error).removesuffix(".")
    return FirstModel("demo", f"{reason}, so demo answers. /model chooses a model.")


def _search_error(error: Exception) -> ModelError:
    """Return an error which says that the search for a model failed. error: its cause."""
    reason = f"{type(error).__name__}: {error}".rstrip(" :.")
    return ModelError(f"The search for a model on this machine failed ({reason}).")


def _installed_model() -> str:
    """Return ``claude`` if the CLI is on the PATH; empty otherwise."""
    return "claude" if find_program("claude") else ""


def _served_model() -> str:
    """Return the first model of a server on this machine, or else ``demo``. Waits for servers.
    Raises `ModelError` if they cannot be asked."""
    from mahtab_tui.llm.local_servers import first_model

    try:
        return first_model() or "demo"
    except (
        Exception
    ) as error:  # the system refuses a thread or a file; a session starts all the same
        raise _search_error(error) from error


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


def offered_models(
    configured_models: Iterable[tuple[str, str]],
    used_names: Iterable[str],
    access: Mapping[str, Any],
) -> list[ModelChoice]:
    """List the models that can be offered without network access, each once.

    Args:
        configured_models: Full names of the models in the settings, with what each is for.
        used_names: Full names of those used before.
        access: Addresses, keys and options of providers, as for `check_model`.
    """
    # Without the program, one row is enough to say that it is missing.
    claude_models = _CLAUDE_MODELS if find_program("claude") else _CLAUDE_MODELS[:1]
    offers = list(configured_models)
    offers += [(spec, "used before") for spec in used_names]
    offers += [(spec, "the claude program, with your login") for spec in claude_models]
    for provider in (*SERVICES, "ollama"):
        offers.append((f"{provider}:", "type a model's name after it"))
    offers.append(("demo", "offline, canned rules"))

    choices: dict[str, ModelChoice] = {}
    for spec, about in offers:
        if spec not in choices:
            choices[spec] = ModelChoice(spec, about, availability_problem(spec, access))
    return list(choices.values())


def availability_problem(spec: str, access: Mapping[str, Any]) -> str:
    """Return why a model cannot be used, as a sentence; empty if it can be used. Does not ask
    its service."""
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
