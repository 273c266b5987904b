"""What the agents that joined a session get to know of it: without private values, and without what the
user has hidden."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.session.joined_agents import JoinedAgent
from mahtab_tui.session.session import Session

MAX_FIRST_LINE_CHARS = 100
"""Maximum characters of a cell's first line for other agents."""
MAX_STALE_CELLS = 10
"""Stale cells that an agent is told of, the newest."""


@dataclass(frozen=True, slots=True)
class SessionContents:
    """What an agent gets to know about a session.

    The names of the fields are those of the answer, which agents of other versions read.
    """

    kernel: KernelInfo
    variables: list[Variable]
    cells: int
    """How many cells the agent has run."""
    busy: float
    """For how many seconds these cells ran, all together."""
    alive: float
    """How many seconds ago the agent joined."""
    others: list[str]
    """Cells that others have run since the last request."""
    stale: list[str] = field(default_factory=list)
    """The newest cells whose results no longer hold, each with the reason."""
    marks: dict[str, str] = field(default_factory=dict)
    """What is said of variables that come from stale cells, by their names."""


class AgentView:
    """A session as its agents may see it. Any thread may call it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def contents(self, agent: JoinedAgent, *, seen: bool) -> SessionContents:
        """Describe the session to an agent. Waits for the kernel.

        Args:
            agent: The agent.
            seen: Whether the agent will read this answer, so that the next one leaves out the
                cells of others that this one reports.
        """
        session = self._session
        return SessionContents(
            kernel=session.kernel.info(),
            variables=session.private.variables(),
            cells=agent.cell_count,
            busy=agent.busy_seconds,
            alive=time.monotonic() - agent.joined_at,
            others=self._cells_of_others(agent, seen=seen),
            stale=self._stale_lines(),
            marks=session.agent.stale_outputs.stale_marks(),
        )

    def first_line(self, cell: int, code: str) -> str:
        """Return how a cell's code begins, unless it uses a private variable.

        Args:
            cell: Its number.
            code: Its code.
        """
        if self._session.private.is_private_cell(cell):
            return "uses a private variable"
        first_line, _, later_lines = code.strip().partition("\n")
        if later_lines or len(first_line) > MAX_FIRST_LINE_CHARS:
            return f"{first_line[:MAX_FIRST_LINE_CHARS]} …"
        return first_line

    def _cells_of_others(self, agent: JoinedAgent, *, seen: bool) -> list[str]:
        """Return a line for each cell that others have run since the agent was last told of any."""
        session = self._session
        new_cells = list(session.cells.finished)
        if agent.last_sent in new_cells:
            del new_cells[: new_cells.index(agent.last_sent) + 1]
        if new_cells and seen:
            agent.last_sent = new_cells[-1]

        lines: list[str] = []
        for finished in new_cells:
            started = finished.started
            if started.party == agent.name or started.entry_name in session.agent.hidden:
                continue
            first_line = self.first_line(started.cell or 0, started.text)
            lines.append(f"In [{started.cell}] {started.party} ({finished.status}): {first_line}")
        return lines

    def _stale_lines(self) -> list[str]:
        """Return a line for each cell whose result may no longer hold, and why."""
        hidden = self._session.agent.hidden
        cells = [
            cell
            for cell in self._session.agent.stale_outputs.stale_cells()
            if cell_entry(cell.number) not in hidden
        ]
        lines: list[str] = []
        for cell in cells[-MAX_STALE_CELLS:]:
            first_line = self.first_line(cell.number, cell.code)
            lines.append(f"In [{cell.number}] {first_line}: {cell.reason}")
        omitted_count = len(cells) - len(lines)
        if omitted_count:
            lines.insert(0, f"… {omitted_count:,} earlier")
        return lines
