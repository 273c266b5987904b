"""Screens of the session: context, usage, instructions, undo, MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.terminal_screen import escape_controls
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.servers.state import ServerError, ServerState
from mahtab_tui.servers.tool_signature import ToolSignature
from mahtab_tui.settings.sources import SettingsError
from mahtab_tui.settings.values import trust_values
from mahtab_tui.tui.messages import OpenText
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.screens.dialog import Confirm, TextDialog, confirm
from mahtab_tui.tui.screens.listing import ListScreen
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.session.context_use import ContextUse

_PART_COLOURS = ("$model", "$highlight", "$person", "$good", "$bad", "$foreground")
_FREE_GLYPH = "░"
_NO_INSTRUCTIONS = (
    "There are no instructions. Yours go into ~/.mahtab/AGENTS.md, a project's into its AGENTS.md."
)
OUTSIDE = "Files, and everything else outside this kernel, stay as they are."
OUTSIDE_WATCHED = "Everything else outside this kernel stays as it is."
POLL_INTERVAL_S = 0.3
MAX_LISTED_TOOLS = 300
_PHASE_MARKS = {
    "not started": ("○ ", "$muted"),
    "starting": ("◌ ", "$highlight"),
    "running": ("● ", "$good"),
    "ended": ("✗ ", "$bad"),
}
_NO_SERVERS = "No MCP server is configured. [mcp.NAME] in ~/.mahtab/config.toml or the project's .mcp.json names them: /help mcp."


class ReportScreen(TextDialog):
    """Shows a report, which a subclass makes on a thread, because it may have to wait."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "leave", "Close")]

    def report(self, width: int) -> str | Content:
        """Return the report; called on a thread. width: of a line, in cells."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.call_after_refresh(self._ask)

    def _ask(self) -> None:

        def fail(sentence: str) -> None:
            self.text.update(Content.styled(one_line(sentence), "$bad"))

        report = partial(self.report, self.text.size.width)
        Fetcher(self).ask("report", report, self.text.update, fail)


class UsageScreen(ReportScreen):
    """What the session, its questions and its searches have used and cost."""

    def __init__(self, session: Session) -> None:
        super().__init__("Usage", "", id="usage-rows")
        self._session = session

    def report(self, width: int) -> str:
        return self._session.spending.table(width)


class ContextScreen(ReportScreen):
    """What fills the model's window."""

    def __init__(self, session: Session) -> None:
        super().__init__("Context", "counting …", id="context-rows")
        self._session = session

    def report(self, width: int) -> Content:
        return context_lines(self._session.context_use(), width)


def context_lines(use: ContextUse, width: int) -> Content:
    """Draw how the parts of a prompt fill the model's window."""
    width = max(20, width)
    # Each part has at least one cell, so that together they may be too wide.
    capacity = max(use.max_tokens, use.tokens)
    part_cells = [max(1, part.tokens * width // capacity) for part in use.parts]
    excess_cells = sum(part_cells) - width
    if excess_cells > 0:
        widest = part_cells.index(max(part_cells))
        part_cells[widest] -= excess_cells

    colours = list(islice(cycle(_PART_COLOURS), len(part_cells)))
    bar = [("█" * cells, colour) for cells, colour in zip(part_cells, colours, strict=True)]
    free_cells = max(0, width - sum(part_cells))
    bar.append((_FREE_GLYPH * free_cells, "$muted"))

    total = f"About {use.tokens:,} of {use.max_tokens:,} tokens ({use.tokens / use.max_tokens:.0%})"
    lines = [
        Content(f"{total} go with the next question."),
        Content.assemble(*bar),
        Content(""),
    ]
    for part, colour in zip(use.parts, colours, strict=True):
        text = f"{part.name:<26}{part.tokens:>9,}{part.tokens / use.max_tokens:>6.0%}  "
        lines.append(Content.assemble(("█ ", colour), text, (part.advice, "$muted")))
    return Content("\n").join(lines)


class InstructionsScreen(TextDialog):
    """Shows what is sent to the model as instructions, and lets the user trust a project's."""

    BINDINGS: ClassVar[list[BindingType]] = [("t", "trust", "Trust")]

    def __init__(self, session: Session) -> None:
        super().__init__("Instructions", id="instructions-text")
        self._session = session
        self._instructions = session.knowledge.read_instructions()

    def on_mount(self) -> None:
        self._show()
        self.query_one(VerticalScroll).focus()

    def _show(self) -> None:
        """Draw the instructions of each file, and whether a model gets them."""
        has_untrusted = bool(self._instructions.untrusted)
        self.keys.update(
            "t trusts what is held back · Esc closes" if has_untrusted else "Esc closes"
        )

        # The texts that are sent may be shortened.
        sent_texts = self._instructions.texts()
        lines: list[Content] = []
        for file in self._instructions.files:
            state = ("sent to the model", "$good")
            if not file.trusted:
                state = ("held back: not trusted", "$bad")
            for part in file.parts:
                text = escape_controls(sent_texts.get(part.name, part.text)).rstrip("\n")
                lines.append(Content.assemble((one_line(part.name), "bold"), " · ", state))
                lines.append(Content.styled(f"{text}\n", "$muted"))
        for problem in self._instructions.problems:
            lines.append(Content.styled(one_line(problem), "$bad"))
        if not lines:
            lines = [Content.styled(_NO_INSTRUCTIONS, "$muted")]
        self.text.update(Content("\n").join(lines))

    def action_trust(self) -> None:
        """Ask whether models may get what is held back."""
        untrusted = self._instructions.untrusted
        if not untrusted:
            return

        def trust() -> None:
            try:
                # Trust what was shown, even if a file has changed since.
                trust_values({file.path: file.value for file in untrusted})
            except SettingsError as error:
                self.app.notify(str(error), severity="error")
            self._instructions = self._session.knowledge.read_instructions()
            self._show()

        names = ", ".join(one_line(file.name) for file in untrusted)
        question = f"Send {names} to the model with every question?"
        confirm(self.app, question, trust, yes="Trust", no="Hold back")


def _undo_question(cells: Sequence[int]) -> str:
    """cells: those to undo; empty while they are not known."""
    if not cells:
        return "Undo what ran last?"
    if len(cells) == 1:
        return f"Undo cell {cells[0]}?"
    return f"Undo {len(cells):,} cells, from cell {cells[0]} to cell {cells[-1]}?"


class UndoScreen(Confirm):
    """Shows what undoing cells would change, and asks whether to do it."""

    def __init__(self, cells: Sequence[int], session: Session) -> None:
        """cells: the cells to undo, in order; empty for what ran last, which the kernel knows."""
        self._changes = Static("Comparing with the state before …", id="undo-changes", markup=False)
        details = VerticalScroll(self._changes, can_focus=False)
        super().__init__(_undo_question(cells), yes="Undo", no="Keep", details=details)
        self._yes.disabled = True
        self._cells = cells
        self._session = session
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        if self._cells:
            self._preview(self._cells)
        else:
            # On a thread, because a busy kernel answers late.
            self._fetcher.ask("undo", self._find_cells, self._preview, self._nothing_to_undo)

    def _find_cells(self) -> Sequence[int]:
        undo = self._session.undo
        return undo.cells_from(undo.last_step())

    def _nothing_to_undo(self, sentence: str) -> None:
        self.action_leave()
        self.app.notify(sentence)

    def _preview(self, cells: Sequence[int]) -> None:
        self._cells = cells
        self.query_one("#question", Static).update(_undo_question(cells))
        preview = partial(self._session.kernel.preview_undo, cells[0])
        self._fetcher.ask("undo", preview, self._ready, self._failed)

    def _ready(self, restoration: Restoration) -> None:
        lines = change_lines(restoration.changes, restoration.not_restored, restoration.files)
        text = OUTSIDE_WATCHED
        if restoration.files_unwatched:
            text = f"{OUTSIDE} Files are not watched here: {restoration.files_unwatched}."
        outside = Content.styled(text, "$muted")
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
            undo = partial(self._session.undo.undo, self._cells[0])
            self._fetcher.ask("undo", undo, lambda _: self.action_leave(), self._failed)


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

    def on_mount(self) -> None:
        self.set_interval(POLL_INTERVAL_S, self._poll)
        self.fill(0)

    def _poll(self) -> None:
        states = [
            (state.phase, state.end_reason, state.login, state.revision) for state in self._states
        ]
        if states != self._drawn_states:
            self._drawn_states = states
            self.fill()

    @property
    def _states(self) -> list[ServerState]:
        if self._servers is None:
            return []
        return list(self._servers.states.values())

    def find_rows(self, typed: str) -> Sequence[ServerState]:
        matches = []
        for state in self._states:
            if typed.lower() in state.python.lower() or self._matching_tools(state, typed):
                matches.append(state)
        return matches

    def line(self, row: ServerState, width: int) -> Content:
        tool_count = f"{len(row.tools):,} tools" if row.revision else ""
        facts = (row.phase, tool_count, self._one_line(row.about))
        about = " · ".join(fact for fact in facts if fact)
        return Content.assemble(_PHASE_MARKS[row.phase], f"{row.python:<16}  ", (about, "$muted"))

    def describe(self, row: ServerState | None) -> Content:
        self.companion.display = row is not None
        if row is None:
            self._tools.update("")
            return Content(_NO_SERVERS if not self._states else "Nothing matches.")
        self._tools.update(self._server_tools(row))
        state: tuple[str, str] | str = ""
        if row.login:
            login = f"\nIt waits for your login: open {row.login} in a browser on this machine."
            state = (login, "$highlight")
        elif row.phase == "ended" and row.end_reason:
            state = (f"\n{self._one_line(row.end_reason)}", "$bad")
        return Content.assemble((self._one_line(row.where), "$muted"), state)

    def _one_line(self, text: str) -> str:
        return one_line(visible(self._mask(text)))

    def _matching_tools(self, state: ServerState, typed: str) -> list[ToolSignature]:
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
            effect = (
                (" reads", "$good") if tool.read_only else (" may change something", "$highlight")
            )
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
        messages = self._mask(row.messages.text) or "It has written nothing."
        self.post_message(OpenText(f"Messages of {row.python}", messages, "messages.txt"))

    def action_restart(self) -> None:
        self.app.run_worker(self._restart())  # continues when the screen is closed

    async def _restart(self) -> None:
        """Start the chosen server again, and say how that went."""
        state = self.chosen
        servers = self._servers
        if state is None or servers is None:
            return
        self.show_status(f"{state.python} starts …", "$muted")
        outcome = f"{state.python} runs."
        style = "$good"
        try:
            await asyncio.wrap_future(servers.restart(state.python))
        except ServerError as error:
            style = "$bad"
            # Why a server has ended is shown below the list.
            if state.phase == "ended":
                outcome = f"{state.python} could not be started."
            else:
                outcome = self._one_line(str(error))
        if not is_being_removed(self):
            self.fill()
            self.show_status(outcome, style)
