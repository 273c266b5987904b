"""The screen with the MCP servers and their tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.servers.state import ServerError, ServerState
from mahtab_tui.servers.tool_signature import ToolSignature
from mahtab_tui.tui.messages import OpenText
from mahtab_tui.tui.screens.listing import ListScreen
from mahtab_tui.tui.textual_fixes import is_being_removed

if TYPE_CHECKING:
    from mahtab_tui.session import Session

POLL_INTERVAL_S = 0.3
"""Seconds between two looks at the states of the servers."""
MAX_LISTED_TOOLS = 300
"""At most this many tools of a server are listed."""
_PHASE_MARKS = {
    "not started": ("○ ", "$muted"),
    "starting": ("◌ ", "$highlight"),
    "running": ("● ", "$good"),
    "ended": ("✗ ", "$bad"),
}
"""The sign and the colour of each phase of a server."""
_NO_SERVERS = "No MCP server is configured. [mcp.NAME] in ~/.mahtab/config.toml or the project's .mcp.json names them: /help mcp."


class ServersScreen(ListScreen[None, ServerState]):
    """The MCP servers, with the tools of the chosen one beside the list."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "restart", "Start")]
    heading_text = "MCP servers"
    box_classes = "large listing fitted"
    hint = "Enter messages · Ctrl+R restarts it · Tab reads · Esc leaves"
    placeholder = "type to filter servers and tools"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._servers = session.knowledge.servers
        # What servers write may contain secrets.
        self._mask = session.secrets.mask
        self._tools = Static(id="server-tools-text", markup=False)
        self.companion: Widget = VerticalScroll(self._tools, id="server-tools")
        self._drawn_states: object = None
        """What of the servers was drawn last, to see whether it has changed."""

    def on_mount(self) -> None:
        self.set_interval(POLL_INTERVAL_S, self._poll)
        self.fill(0)

    def _poll(self) -> None:
        """Draw the servers again if something about them has changed."""
        states = [
            (state.phase, state.end_reason, state.login, state.revision) for state in self._states
        ]
        if states != self._drawn_states:
            self._drawn_states = states
            self.fill()

    @property
    def _states(self) -> list[ServerState]:
        """The states of all servers."""
        if self._servers is None:
            return []
        return list(self._servers.states.values())

    def find_rows(self, typed: str) -> Sequence[ServerState]:
        """Return the servers whose name, or one of whose tools, contains what is typed."""
        matches = []
        for state in self._states:
            if typed.lower() in state.variable.lower() or self._matching_tools(state, typed):
                matches.append(state)
        return matches

    def line(self, row: ServerState, width: int) -> Content:
        tool_count = f"{len(row.tools):,} tools" if row.revision else ""
        facts = (row.phase, tool_count, self._one_line(row.self_description))
        about = " · ".join(fact for fact in facts if fact)
        return Content.assemble(_PHASE_MARKS[row.phase], f"{row.variable:<16}  ", (about, "$muted"))

    def describe(self, row: ServerState | None) -> Content:
        self.companion.display = row is not None
        if row is None:
            self._tools.update("")
            return Content(_NO_SERVERS if not self._states else "Nothing matches.")
        self._tools.update(self._server_tools(row))
        remark: tuple[str, str] | str = ""
        if row.login:
            login = f"\nIt waits for your login: open {row.login} in a browser on this machine."
            remark = (login, "$highlight")
        elif row.phase == "ended" and row.end_reason:
            remark = (f"\n{self._one_line(row.end_reason)}", "$bad")
        return Content.assemble((self._one_line(row.command_or_address), "$muted"), remark)

    def _one_line(self, text: str) -> str:
        """Return a server's words on one line, without secrets."""
        return one_line(visible(self._mask(text)))

    def _matching_tools(self, state: ServerState, typed: str) -> list[ToolSignature]:
        """Return the tools of a server whose names contain what is typed."""
        return [tool for tool in state.tools.values() if typed.lower() in tool.name.lower()]

    def _server_tools(self, state: ServerState) -> Content:
        """Draw the tools of a server, or those that match what is typed."""
        if not state.revision:
            start = "it starts when a tool is used or you press Ctrl+R."
            if state.phase == "ended":
                start = "Ctrl+R starts it again, and Enter shows its messages."
            return Content.styled(f"Its tools are known once it has started: {start}", "$muted")
        tools = self._matching_tools(state, self.typed) or list(state.tools.values())
        lines: list[Content] = []
        for tool in tools[:MAX_LISTED_TOOLS]:
            effect = (" may change something", "$highlight")
            if tool.read_only:
                effect = (" reads", "$good")
            summary = self._one_line(tool.summary)
            if summary:
                summary = f"\n  {summary}"
            signature = self._one_line(tool.written)
            lines.append(
                Content.assemble((tool.name, "bold"), signature, effect, (summary, "$muted"))
            )
        hidden_count = len(tools) - MAX_LISTED_TOOLS
        if hidden_count > 0:
            lines.append(Content.styled(f"… {hidden_count:,} more: type to filter", "$muted"))
        return Content("\n").join(lines)

    def choose(self, row: ServerState) -> None:
        """Show what a server has written."""
        messages = self._mask(row.messages.text) or "It has written nothing."
        self.post_message(OpenText(f"Messages of {row.variable}", messages, "messages.txt"))

    def action_restart(self) -> None:
        self.app.run_worker(self._restart())  # continues when the screen is closed

    async def _restart(self) -> None:
        """Start the chosen server again, and say how that went."""
        state = self.chosen
        servers = self._servers
        if state is None or servers is None:
            return
        self.show_status(f"{state.variable} starts …", "$muted")
        outcome = f"{state.variable} runs."
        style = "$good"
        try:
            await asyncio.wrap_future(servers.restart(state.variable))
        except ServerError as error:
            style = "$bad"
            # Why a server has ended is shown below the list.
            if state.phase == "ended":
                outcome = f"{state.variable} could not be started."
            else:
                outcome = self._one_line(str(error))
        if not is_being_removed(self):
            self.fill()
            self.show_status(outcome, style)
