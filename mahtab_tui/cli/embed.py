"""The screen over the caller's own namespace."""

from __future__ import annotations

import asyncio
from typing import Any

from mahtab_tui.settings.model import load_settings

_IN_A_LOOP = (
    "run_repl() cannot open a screen here: an event loop is running already (is this a notebook?). "
    "Use create_repl_agent(...) and `await agent.ask(...)` here, or call run_repl() from a plain Python prompt or script."
)


def run_repl(
    ns: dict[str, Any] | None = None, *, model: str | None = None, approval: str | None = None
) -> None:
    """Open the full screen over a live namespace, by default a new one; returns when the user
    leaves.

    ns: a dictionary of names, such as ``globals()``. Cells run in this process on their own thread,
    and bind names in `ns`. What only the main thread may do (signal handlers, a caller's sqlite
    connection) fails there with Python's own error.

    Raises `RuntimeError` inside a running event loop or without a terminal, `SettingsError` for
    invalid settings, `ModelError` for an unknown model.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(_IN_A_LOOP)
    from mahtab_tui.kernel.inprocess import InProcessKernel
    from mahtab_tui.llm.providers import check_name, full_name
    from mahtab_tui.session.backend import SessionBackend
    from mahtab_tui.system.lazy import Lazy
    from mahtab_tui.tui.open import NoTerminal, open_screen

    kernel = InProcessKernel({"__name__": "__main__"} if ns is None else ns)
    settings = load_settings(model=model, approval=approval)
    if settings.model is not None:
        check_name(full_name(settings.model, settings.provider))
    try:
        open_screen(settings, Lazy.of(SessionBackend(kernel)), namespace_stays=ns is not None)
    except NoTerminal as error:
        raise RuntimeError(str(error)) from None
