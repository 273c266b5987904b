"""Screens of the session: context, usage, instructions, undo, MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.sanitize import one_line, visible
from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.kernel.base import Restoration
from mahtab_tui.knowledge.instructions import FoundInstructions
from mahtab_tui.servers.servers import ServerError, Servers, ServerState
from mahtab_tui.session.cells import not_restored_rows, restored_rows
from mahtab_tui.session.components import ContextUse
from mahtab_tui.settings.sources import SettingsError
from mahtab_tui.settings.values import allow
from mahtab_tui.tui.rows.code import change_lines
from mahtab_tui.tui.screens.dialog import Confirm, TextDialog, confirm
from mahtab_tui.tui.screens.listing import ListScreen
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.workers import Fetcher

_COLOURS = ("$model", "$moon", "$person", "$good", "$bad", "$foreground")
_ROOM = "░"


class ReportScreen(TextDialog):
    """Asks for a report on a thread, which may have to wait. report: gets the width."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "leave", "Close")]

    def __init__(
        self, title: str, report: Callable[[int], str | Content], *, text: str = "", id: str
    ) -> None:
        super().__init__(title, text, id=id)
        self._report = report

    def on_mount(self) -> None:
        self.call_after_refresh(self._ask)

    def _ask(self) -> None:

        def fail(sentence: str) -> None:
            self.text.update(Content.styled(one_line(sentence), "$bad"))

        report = partial(self._report, self.text.size.width)
        Fetcher(self).ask("report", report, self.text.update, fail)


def context_lines(use: ContextUse, width: int) -> Content:
    width = max(20, width)
    cells = [max(1, part.tokens * width // max(use.room, use.tokens)) for part in use.parts]
    if (over := sum(cells) - width) > 0:
        cells[cells.index(max(cells))] -= over
    colours = list(islice(cycle(_COLOURS), len(cells)))
    bar = [("█" * count, colour) for count, colour in zip(cells, colours, strict=True)]
    total = f"About {use.tokens:,} of {use.room:,} tokens ({use.tokens / use.room:.0%})"
    lines = [
        Content(f"{total} go with the next question."),
        Content.assemble(*bar, (_ROOM * max(0, width - sum(cells)), "$muted")),
        Content(""),
    ]
    for part, colour in zip(use.parts, colours, strict=True):
        text = f"{part.name:<26}{part.tokens:>9,}{part.tokens / use.room:>6.0%}  "
        lines.append(Content.assemble(("█ ", colour), text, (part.advice, "$muted")))
    return Content("\n").join(lines)


_NO_INSTRUCTIONS = (
    "There are no instructions. Yours go into ~/.mahtab/AGENTS.md, a project's into its AGENTS.md."
)


class InstructionsScreen(TextDialog):
    BINDINGS: ClassVar[list[BindingType]] = [("t", "trust", "Trust")]

    def __init__(self, read: Callable[[], FoundInstructions]) -> None:
        super().__init__("Instructions", id="instructions-text")
        self._read = read
        self._found = read()

    def on_mount(self) -> None:
        self._show()
        self.query_one(VerticalScroll).focus()

    def _show(self) -> None:
        keys = "t trusts what is held back · Esc closes" if self._found.untrusted else "Esc closes"
        self.keys.update(keys)
        lines: list[Content] = []
        sent = self._found.texts()
        for each in self._found.files:
            state = ("sent to the model", "$good")
            if not each.trusted:
                state = ("held back: not trusted", "$bad")
            for part in each.parts:
                text = escape_for_model(sent.get(part.name, part.text)).rstrip("\n")
                lines.append(Content.assemble((one_line(part.name), "bold"), " · ", state))
                lines.append(Content.styled(f"{text}\n", "$muted"))
        lines += [Content.styled(one_line(problem), "$bad") for problem in self._found.problems]
        self.text.update(Content("\n").join(lines or [Content.styled(_NO_INSTRUCTIONS, "$muted")]))

    def action_trust(self) -> None:
        untrusted = self._found.untrusted
        if not untrusted:
            return

        def trust() -> None:
            try:
                # Trust what was shown, even if a file has changed since.
                allow({each.path: each.value for each in untrusted})
            except SettingsError as error:
                self.app.notify(str(error), severity="error")
            self._found = self._read()
            self._show()

        names = ", ".join(one_line(each.name) for each in untrusted)
        question = f"Send {names} to the model with every question?"
        confirm(self.app, question, trust, yes="Trust", no="Hold back")


OUTSIDE = "Files, and everything else outside this kernel, stay as they are."


class UndoScreen(Confirm):
    def __init__(
        self,
        cells: Sequence[int],
        preview: Callable[[], Restoration],
        undo: Callable[[], Restoration],
    ) -> None:
        """preview, undo: wait for the kernel, and raise `KernelError`."""
        question = f"Undo cell {cells[0]}?"
        if len(cells) > 1:
            question = f"Undo {len(cells)} cells, from cell {cells[0]} to cell {cells[-1]}?"
        self._changes = Static("Comparing with the state before …", id="undo-changes", markup=False)
        details = VerticalScroll(self._changes, can_focus=False)
        super().__init__(question, yes="Undo", no="Keep", details=details)
        self._yes.disabled = True
        self._preview = preview
        self._undo = undo
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        self._fetcher.ask("undo", self._preview, self._ready, self._failed)

    def _ready(self, restoration: Restoration) -> None:
        lines = change_lines(restored_rows(restoration.changes), not_restored_rows(restoration))
        outside = Content.styled(OUTSIDE, "$muted")
        self._changes.update(Content("\n").join([*lines, Content(""), outside]))
        self._yes.disabled = False

    def _failed(self, sentence: str) -> None:
        self._changes.update(Content.styled(one_line(sentence), "$bad"))
        self._yes.disabled = True

    def action_answer(self, yes: bool) -> None:
        if not yes:
            self.action_leave()
        elif not self._yes.disabled:
            self._yes.disabled = True
            self._changes.update("Undoing …")
            self._fetcher.ask("undo", self._undo, lambda _: self.action_leave(), self._failed)


_POLL_INTERVAL = 0.3
_SHOWN = 300
_MARKS = {
    "not started": ("○ ", "$muted"),
    "starting": ("◌ ", "$moon"),
    "running": ("● ", "$good"),
    "ended": ("✗ ", "$bad"),
}
_NO_SERVERS = "No MCP server is configured. [mcp.NAME] in ~/.mahtab/config.toml or the project's .mcp.json names them: /help mcp."


class ServersScreen(ListScreen[None, ServerState]):
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "restart", "Start")]
    heading_text = "MCP servers"
    box_classes = "large listing fitted"
    hint = "Enter messages · Ctrl+R restarts it · Tab reads · Esc leaves"
    placeholder = "type to filter servers and tools"

    def __init__(
        self,
        servers: Servers | None,
        mask: Callable[[str], str],
        show_messages: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._mask = mask
        self._servers = servers
        self._show_messages = show_messages
        self._tools = Static(id="server-tools-text", markup=False)
        self.companion: Widget = VerticalScroll(self._tools, id="server-tools")
        self._drawn: object = None

    def on_mount(self) -> None:
        self.set_interval(_POLL_INTERVAL, self._poll)
        self.fill(0)

    def _poll(self) -> None:
        now = [(state.phase, state.why, state.login, state.revision) for state in self._states]
        if now != self._drawn:
            self._drawn = now
            self.fill()

    @property
    def _states(self) -> list[ServerState]:
        return [] if self._servers is None else list(self._servers.states.values())

    def find_rows(self, typed: str) -> Sequence[ServerState]:
        def matches(state: ServerState) -> bool:
            return typed.lower() in state.python.lower() or bool(self._matching(state, typed))

        return list(filter(matches, self._states))

    def line(self, row: ServerState, width: int) -> Content:
        known = f"{len(row.tools):,} tools" if row.revision else ""
        about = " · ".join(filter(None, (row.phase, known, self._one_line(row.about))))
        return Content.assemble(_MARKS[row.phase], f"{row.python:<16}  ", (about, "$muted"))

    def describe(self, row: ServerState | None) -> Content:
        self.companion.display = row is not None
        if row is None:
            self._tools.update("")
            return Content(_NO_SERVERS if not self._states else "Nothing matches.")
        self._tools.update(self._server_tools(row))
        why = (f"\n{self._one_line(row.why)}", "$bad") if row.phase == "ended" and row.why else ""
        if row.login:
            login = f"\nIt waits for your login: open {row.login} in a browser on this machine."
            why = (login, "$moon")
        return Content.assemble((self._one_line(row.where), "$muted"), why)

    def _one_line(self, text: str) -> str:
        return one_line(visible(self._mask(text)))

    def _matching(self, state: ServerState, typed: str) -> list[str]:
        return [wire for wire, tool in state.tools.items() if typed.lower() in tool.name.lower()]

    def _server_tools(self, state: ServerState) -> Content:
        if not state.revision:
            known = "Its tools are known once it has started"
            started = "it starts when a tool is used or you press Ctrl+R."
            return Content.styled(f"{known}: {started}", "$muted")
        wires = self._matching(state, self.typed) or list(state.tools)
        parts: list[Content] = []
        for tool in map(state.tools.__getitem__, wires[:_SHOWN]):
            reads = (" reads", "$good") if tool.read_only else (" may change something", "$moon")
            if summary := self._one_line(tool.summary):
                summary = f"\n  {summary}"
            call = (tool.name, "bold"), self._one_line(tool.written)
            parts.append(Content.assemble(*call, reads, (summary, "$muted")))
        if (more := len(wires) - _SHOWN) > 0:
            parts.append(Content.styled(f"… {more:,} more: type to filter", "$muted"))
        return Content("\n").join(parts)

    def choose(self, row: ServerState) -> None:
        messages = self._mask(row.messages.text) or "It has written nothing."
        self._show_messages(f"Messages of {row.python}", messages)

    def action_restart(self) -> None:
        self.app.run_worker(self._restart())  # continues when the screen is closed

    async def _restart(self) -> None:
        state, servers = self.chosen, self._servers
        if state is None or servers is None:
            return
        self.show_status(f"{state.python} starts …", "$muted")
        outcome, style = f"{state.python} runs.", "$good"
        try:
            await asyncio.wrap_future(servers.restart(state.python))
        except ServerError as error:
            outcome, style = f"{state.python} could not be started.", "$bad"
            if state.phase != "ended":
                outcome = self._one_line(str(error))
        if not is_being_removed(self):
            self.fill()
            self.show_status(outcome, style)
