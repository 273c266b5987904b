"""The screen of all MCP servers: their state, their tools, and what they have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.servers.servers import Servers
from mahtab_tui.servers.state import ServerError, ServerState
from mahtab_tui.tui.screens.listing import Listing, ListScreen
from mahtab_tui.tui.textual_fixes.removable import is_leaving

_LOOK_AGAIN = 0.3
"""Seconds: servers start and end by themselves."""
_SHOWN = 300
"""Tools that are listed at most."""
_MARKS = {
    "not started": ("○ ", "$muted"),
    "starting": ("◌ ", "$moon"),
    "running": ("● ", "$good"),
    "ended": ("✗ ", "$bad"),
}
_NO_SERVERS = "No MCP server is configured. [mcp.NAME] in ~/.mahtab/config.toml or the project's .mcp.json names them: /help mcp."


class ServersScreen(ListScreen[None, ServerState]):
    """Enter shows what the server at the cursor has written; Ctrl+R starts it, or starts it
    again."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("ctrl+r", "restart", "Start"),
        ("enter", "take", "Messages"),  # while the tools have the focus
    ]

    def __init__(
        self,
        servers: Servers | None,
        mask: Callable[[str], str],
        show_messages: Callable[[str, str], None],
    ) -> None:
        """mask: masks secrets in a text. show_messages: shows a text under a title."""
        super().__init__()
        self._mask = mask
        self._servers = servers
        self._show_messages = show_messages
        self._tools = Static(id="server-tools-text", markup=False)
        hint = "Enter messages · Ctrl+R restarts it · Tab reads · Esc leaves"
        self.listing = Listing(
            self,
            "MCP servers",
            hint,
            "type to filter servers and tools",
            beside=VerticalScroll(self._tools, id="server-tools"),
        )
        self._drawn: object = None
        """Data that the rows were drawn from."""

    def on_mount(self) -> None:
        self.set_interval(_LOOK_AGAIN, self._look_again)
        self.listing.fill(0)

    def _look_again(self) -> None:
        now = [(state.phase, state.why, state.login, state.revision) for state in self._states]
        if now != self._drawn:
            self._drawn = now
            self.listing.fill()

    @property
    def _states(self) -> list[ServerState]:
        return [] if self._servers is None else list(self._servers.states.values())

    def rows(self, typed: str) -> Sequence[ServerState]:
        return [
            state
            for state in self._states
            if typed.lower() in state.python.lower() or self._matching(state, typed)
        ]

    def line(self, row: ServerState, width: int) -> Content:
        known = f"{len(row.tools):,} tools" if row.revision else ""
        about = " · ".join(part for part in (row.phase, known, self._line_of(row.about)) if part)
        return Content.assemble(_MARKS[row.phase], f"{row.python:<16}  ", (about, "$muted"))

    def describe(self, row: ServerState | None) -> Content:
        if row is None:
            self._tools.update("")
            return Content(_NO_SERVERS if not self._states else "Nothing matches.")
        self._tools.update(self._tools_of(row))
        why = (f"\n{self._line_of(row.why)}", "$bad") if row.phase == "ended" and row.why else ""
        if row.login:
            why = (
                f"\nIt waits for your login: open {row.login} in a browser on this machine.",
                "$moon",
            )
        return Content.assemble((self._line_of(row.where), "$muted"), why)

    def _line_of(self, text: str) -> str:
        """A text from outside on one line."""
        return one_line(visible(self._mask(text)))

    def _matching(self, state: ServerState, typed: str) -> list[str]:
        return [wire for wire, tool in state.tools.items() if typed.lower() in tool.name.lower()]

    def _tools_of(self, state: ServerState) -> Content:
        if not state.revision:
            return Content.styled(
                "Its tools are known once it has started: it starts when a tool is used or you press Ctrl+R.",
                "$muted",
            )
        typed = self.listing.typed.strip()
        wires = self._matching(state, typed) or list(state.tools)
        parts: list[Content] = []
        for wire in wires[:_SHOWN]:
            tool = state.tools[wire]
            reads = (" reads", "$good") if tool.read_only else (" may change something", "$moon")
            summary = self._line_of(tool.summary)
            parts.append(
                Content.assemble(
                    (tool.name, "bold"),
                    self._line_of(tool.written),
                    reads,
                    (f"\n  {summary}" if summary else "", "$muted"),
                )
            )
        if len(wires) > _SHOWN:
            parts.append(
                Content.styled(f"… {len(wires) - _SHOWN:,} more: type to filter", "$muted")
            )
        return Content("\n").join(parts)

    def take(self) -> None:
        if (state := self.listing.chosen) is not None:
            self._show_messages(
                f"Messages of {state.python}",
                self._mask(state.messages.text) or "It has written nothing.",
            )

    def action_restart(self) -> None:
        state, servers = self.listing.chosen, self._servers
        if state is None or servers is None:
            return
        self.listing.say(f"{state.python} starts …", "$muted")

        def done(future: Future[None]) -> None:
            self.app.call_from_thread(
                self._restarted, state, None if future.cancelled() else future.exception()
            )

        try:
            servers.restart(state.python).add_done_callback(done)
        except ServerError as error:
            self.listing.say(str(error))

    def _restarted(self, state: ServerState, error: BaseException | None) -> None:
        if not is_leaving(self):
            self.listing.fill()
            if error is None:
                self.listing.say(f"{state.python} runs.", "$good")
            else:
                self.listing.say(
                    f"{state.python} could not be started."
                    if state.phase == "ended"
                    else self._line_of(str(error))
                )
