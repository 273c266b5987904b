"""Imports some modules after the first picture, on the main thread, one between two messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from inspect import isawaitable

from textual.message_pump import MessagePump

from mahtab_tui.system.imports import IMPORTS

SESSION = (
    "mahtab_tui.tui.panes.editor.pasting",
    "mahtab_tui.bus.records.cells",
    "mahtab_tui.bus.records.chat",
    "mahtab_tui.bus.records",
    "mahtab_tui.bus.setup",
    "mahtab_tui.kernel.masked",
    "mahtab_tui.kernel.process",
    "mahtab_tui.session.kernel_factory",
    "mahtab_tui.store.resume",
    "mahtab_tui.export.reading",
    "mahtab_tui.kernel.worker_process",
    "mahtab_tui.store.session_index",
    "mahtab_tui.kernel.inspector_client",
    "mahtab_tui.session.attachments",
    "mahtab_tui.session.agent_thread",
    "mahtab_tui.session.components",
    "mahtab_tui.kernel.environments",
    "mahtab_tui.tui.panes.transcript.viewport",
    "mahtab_tui.tui.panes.transcript.pane",
    "mahtab_tui.tui.widgets.approval_row",
    "mahtab_tui.tui.widgets.review_row",
)
"""Modules that a session needs to start, the transcript, and the rows that ask the user; each takes
a few milliseconds."""

TRANSCRIPT = (
    "pygments.lexers.python",
    "markdown_it",
    "mahtab_tui.bus.parser",
    "mahtab_tui.tui.cell_output.picture",
    "mahtab_tui.tui.panes.transcript.layout.cell",
    "mahtab_tui.tui.panes.transcript.layout.words",
)
"""Modules for the first cell and the first answer."""


class LateImports:
    """Imports modules while an application is on the screen."""

    def __init__(
        self,
        app: MessagePump,
        session: Sequence[str] = (),
        begin: Sequence[Callable[[], object]] = (),
    ) -> None:
        """session: modules to import first. begin: functions to call then; the modules of the
        transcript come after them."""
        self._app = app
        self._left: Iterator[Callable[[], object]] = iter(
            [*map(_importing, session), *begin, *map(_importing, TRANSCRIPT)]
        )

    def begin(self) -> None:
        """Begin; call it when the application is mounted, before threads start."""
        IMPORTS.screen_begins()
        self._app.call_after_refresh(self._step)

    def end(self) -> None:
        """End; call it when the application is unmounted, at the latest."""
        IMPORTS.screen_ends()

    async def _step(self) -> None:
        if (step := next(self._left, None)) is None:
            self.end()
        else:
            if isawaitable(done := step()):
                await done
            self._app.call_later(self._step)


def _importing(name: str) -> Callable[[], object]:
    return partial(import_module, name)
