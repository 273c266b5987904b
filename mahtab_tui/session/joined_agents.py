"""The agents that have joined a session: their names, their open calls, and what the user allows them.

An agent joins by the MCP server. The one that answers the session's questions may be among them.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mahtab_tui.bus.records import Approval, Notice, emit
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.session.cells import FinishedCell
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.user_requests import ask_approval
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame

COLOUR_COUNT = 4
"""Colours that tell agents apart; a fifth agent gets the first one again."""
MAX_NAME_CHARS = 20
"""Maximum length of the name that an agent gives itself."""

_NOT_IN_NAME = re.compile(r"[^a-z0-9-]+")
_NO_AGENT = "No agent is in the session."


class AgentCallRefused(Exception):
    """A call of an agent was not carried out; the message is for the agent."""


class AgentCallDeclined(AgentCallRefused):
    """The user declined the call."""

    def __init__(self, sentence: str, *, is_stop: bool = False) -> None:
        """
        Args:
            is_stop: Whether the user wants the agent to stop.
        """
        super().__init__(sentence)
        self.is_stop = is_stop


class AgentCall(Cancellation):
    """A call of an agent, until it is answered."""

    def __init__(
        self, agent: JoinedAgent, send: Callable[[Frame], None], *, is_logged: bool = False
    ) -> None:
        """Register a call.

        Args:
            agent: The agent.
            send: Sends a frame about the call, before the answer.
            is_logged: Whether the agent's server logs it, and so needs to know when a cell starts.
        """
        super().__init__()
        self.agent = agent
        self.send = send
        self.is_logged = is_logged
        self.has_reported = False
        """Whether the agent's server was sent a sentence about it. Until then, that server tells the
        agent that the call runs."""
        self.running = False
        """Whether its cell is running."""

    def report(self, sentence: str) -> None:
        """Inform the agent about the progress of its call."""
        self.has_reported = True
        self.send({"op": "progress", "text": sentence})

    @contextmanager
    def stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `stop` within this context.

        Raises `AgentCallRefused` if the call was already cancelled.
        """
        if self.cancelled:
            raise AgentCallRefused("The call was cancelled.")
        self.on_cancel(stop)
        try:
            yield
        finally:
            self.on_cancel(None)


@dataclass(eq=False)
class JoinedAgent:
    """An agent that has joined the session, until it leaves."""

    name: str
    colour: int
    """The index of its colour, below `COLOUR_COUNT`."""
    leave: Callable[[str], None]
    """Ends its connection, with a sentence for the agent."""
    last_sent: FinishedCell | None
    """The last finished cell reported to it."""
    owns_session: bool = False
    """Whether the session is the agent's own, without a user to ask."""
    is_model: bool = False
    """Whether it answers the session's questions, in place of a model."""
    trusted: bool = False
    """Whether its code runs without asking."""
    has_left: bool = False
    """Whether its connection is gone."""
    calls: set[AgentCall] = field(default_factory=set)
    """Its calls that are not answered yet."""
    joined_at: float = field(default_factory=time.monotonic)
    """Monotonic time in seconds."""
    cell_count: int = 0
    busy_seconds: float = 0.0
    """Total duration of its cells."""


class JoinedAgents:
    """All agents of a session. Any thread may call this."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._agents: list[JoinedAgent] = []
        self._call_numbers = itertools.count(1)
        self._colours = itertools.cycle(range(COLOUR_COUNT))

    @property
    def names(self) -> list[str]:
        """The names of the agents, in the order in which they have joined."""
        with self._lock:
            return [agent.name for agent in self._agents]

    def join(
        self,
        requested_name: str,
        leave: Callable[[str], None],
        last_sent: FinishedCell | None,
        *,
        owns_session: bool = False,
        is_model: bool = False,
    ) -> JoinedAgent:
        """Add an agent under a unique name.

        Args:
            requested_name: The name that the agent gives itself, which is not trusted.
            leave: Ends its connection, with a sentence for the agent.
            last_sent: The last finished cell, so that only later ones are reported to it.
            owns_session: Whether there is no user to ask.
            is_model: Whether it is the one that answers the session's questions.
        """
        with self._lock:
            name = self._make_unique_name(requested_name, is_model=is_model)
            agent = JoinedAgent(name, next(self._colours), leave, last_sent, owns_session, is_model)
            self._agents.append(agent)
        if is_model:
            return agent
        commands = "/agents lists all agents, /disconnect disconnects one."
        emit(self._runtime.log, Notice(f"{name} has joined the session. {commands}"))
        return agent

    def _make_unique_name(self, requested_name: str, *, is_model: bool) -> str:
        """Return a name that nobody in the session has. The caller holds the lock.

        The agent that answers questions keeps its name, because its answers stand under it.
        """
        if is_model:
            return requested_name
        base_name = _NOT_IN_NAME.sub("-", requested_name.lower()).strip("-")
        base_name = base_name[:MAX_NAME_CHARS] or "agent"
        used_names = {"you", self._runtime.info.party.lower()}
        used_names.update(agent.name for agent in self._agents)
        name = base_name
        number = 1
        while name in used_names:
            number += 1
            name = f"{base_name}-{number}"
        return name

    def remove(self, agent: JoinedAgent) -> None:
        """Remove an agent whose connection is gone, and withdraw its queued calls.

        A running cell continues, unless the agent was answering.
        """
        with self._lock:
            if agent not in self._agents:
                return
            self._agents.remove(agent)
            # Set before its calls are listed, so that a new call is refused.
            agent.has_left = True
            calls = list(agent.calls)

        text = "" if agent.is_model else f"{agent.name} has left the session."
        for call in calls:
            if call.running and not agent.is_model:
                text = f"{agent.name} has left the session. Its cell keeps running."
            else:
                call.cancel()
        if text:
            emit(self._runtime.log, Notice(text))

    def disconnect(self, name: str = "") -> str:
        """Disconnect an agent, without waiting. The one that answers cannot be disconnected.

        Args:
            name: The agent's name; may be empty if there is only one.

        Returns:
            A sentence for the user, which asks for a name if there is not exactly one such agent.
        """
        with self._lock:
            agents = list(self._agents)
        guests = [agent for agent in agents if not agent.is_model]
        named_guests = [agent for agent in guests if not name or agent.name == name]
        if len(named_guests) == 1:
            agent = named_guests[0]
            # On a thread, because sending may block if the agent does not read.
            start_thread("disconnect", agent.leave, "The user disconnected you from the session.")
            return f"Disconnected {agent.name}."

        if not agents:
            return _NO_AGENT
        answering_names = [agent.name for agent in agents if agent.is_model]
        if not guests or name in answering_names:
            return f"{answering_names[0]} answers your questions. Esc stops it, /model chooses another one."
        names = ", ".join(agent.name for agent in guests)
        return f"Which one? In the session: {names}."

    def describe(self) -> str:
        """Return a sentence for the user that lists the agents."""
        with self._lock:
            agents = [f"{agent.name}, {agent.cell_count:,} cells" for agent in self._agents]
        if not agents:
            return _NO_AGENT
        return f"Agents in the session: {'; '.join(agents)}."

    def close(self) -> None:
        """Disconnect all agents."""
        with self._lock:
            agents = list(self._agents)
        for agent in agents:
            agent.leave("The session was closed.")

    def new_call_id(self) -> str:
        """Return the id of a new call."""
        return f"guest-{next(self._call_numbers)}"

    def request_approval(
        self,
        call: AgentCall,
        request: str,
        code: str,
        *,
        is_code: bool = True,
        reason: str | None = None,
    ) -> str:
        """Ask the user about code or an action, and wait for the answer.

        Args:
            call: The agent's call.
            request: The id of the request.
            code: The code, or the action as a comment.
            is_code: Whether it is code. An action cannot be edited.
            reason: Why the user is asked, as a clause.

        Returns:
            The code to run, which the user may have edited.

        Raises:
            AgentCallDeclined: The user does not allow it.
            AgentCallRefused: The call was cancelled.
        """
        agent = call.agent
        approval = Approval(
            code,
            request=request,
            call=request,
            party=agent.name,
            guest=agent.colour,
            step=0,
            block=0,
            blocks=1,
            is_code=is_code,
            why=reason,
        )
        call.report("waits for the user's approval")
        with call.stoppable(lambda: self._runtime.approvals.cancel(request)):
            decision = ask_approval(self._runtime.log, self._runtime.approvals, approval)
        if decision is None:
            raise AgentCallRefused("The call was cancelled before the user had decided.")
        if decision.action in ("skip", "stop"):
            reason = decision.reason or "the user gave no reason"
            raise AgentCallDeclined(f"declined: {reason}", is_stop=decision.action == "stop")
        if is_code and decision.action == "all":
            agent.trusted = True
        return decision.code or code
