"""Opens a session over the variables of a running Python, as `run_repl` and `python -i` do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from mahtab_tui.cli.screen import choose_interface, interface_problem, open_session
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.llm.names import check_name, full_name
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy

if TYPE_CHECKING:
    from mahtab_tui.session.open_session import Interface

LOOP_IS_RUNNING = (
    "run_repl() cannot open a screen here: an event loop is running already (is this a notebook?). "
    "Use create_repl_agent(...) and `await agent.ask(...)` here, or call run_repl() from a plain Python prompt or script."
)


def run_repl(
    ns: dict[str, Any] | None = None,
    *,
    model: str | None = None,
    approval: str | None = None,
    linear: bool | Literal["plain"] = False,
) -> None:
    """Open the full screen over a live namespace, by default a new one; returns when the user
    quits.

    Cells run in this process on a separate thread, and bind names in `ns`. Operations that need the
    main thread (signal handlers, a caller's sqlite connection) fail there with Python's own error.

    Args:
        ns: A dict of names, such as ``globals()``.
        model: A model's name, such as "claude" or "ollama:NAME"; None is that of the settings.
        approval: "ask", "review" or "auto"; None is that of the settings.
        linear: Whether to print below each other what the screen would show, in the terminal's own
            scrollback; "plain" does so for screen readers. A terminal that can do no more gets
            "plain" in any case.

    Raises:
        RuntimeError: Inside a running event loop, or without a terminal.
        SettingsError: Invalid settings.
        ModelError: An unknown model.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(LOOP_IS_RUNNING)
    namespace = {"__name__": "__main__"} if ns is None else ns
    kernel = InProcessKernel(namespace)
    settings = load_settings(model=model, approval=approval)
    if settings.model is not None:
        check_name(full_name(settings.model, settings.provider))
    interface = choose_interface(settings, _requested_interface(linear))
    if problem := interface_problem(interface):
        raise RuntimeError(problem)
    backend = Lazy.of(SessionBackend(kernel))
    open_session(settings, backend, interface, keeps_namespace=ns is not None)


def _requested_interface(linear: bool | Literal["plain"]) -> Interface | None:
    """Return the interface that an argument of `run_repl` asks for; None if it asks for none."""
    if linear == "plain":
        return "plain"
    return "linear" if linear else None
