"""The model that answers when none is chosen, and with which a session starts."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import full_name
from mahtab_tui.system import find_program, start_thread

if TYPE_CHECKING:
    from mahtab_tui.settings.model import Settings


def default_model() -> str:
    """Return ``claude`` if the CLI is on the PATH; else the first model of a server; else ``demo``.

    Waits for servers. Raises `ModelError` if they cannot be asked.
    """
    return _installed_model() or _served_model()


class FirstModel(NamedTuple):
    """The model that a session starts with."""

    name: str
    """Its full name."""
    search_failure: str = ""
    """A sentence if servers could not be asked, so that `demo` answers; empty otherwise."""


def chosen_model(settings: Settings) -> Future[FirstModel]:
    """Return the session's first model: that of the settings, or the default.

    The future is done at once, unless servers must be asked; it never raises.
    """
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
    """Return an error which says that the search for a model failed.

    Args:
        error: Its cause.
    """
    reason = f"{type(error).__name__}: {error}".rstrip(" :.")
    return ModelError(f"The search for a model on this machine failed ({reason}).")


def _installed_model() -> str:
    """Return ``claude`` if the CLI is on the PATH; empty otherwise."""
    return "claude" if find_program("claude") else ""


def _served_model() -> str:
    """Return the first model of a server on this machine, or else ``demo``.

    Waits for servers. Raises `ModelError` if they cannot be asked.
    """
    from mahtab_tui.llm.local_servers import first_model

    try:
        return first_model() or "demo"
    except (
        Exception
    ) as error:  # the system refuses a thread or a file; a session starts all the same
        raise _search_error(error) from error
