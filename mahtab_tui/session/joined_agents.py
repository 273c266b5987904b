"""The agents that have joined a session, and what the user can do about them."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, Notice, emit
from mahtab_tui.kernel.worker.frames import Frame
from mahtab_tui.session.cells import FinishedCell
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.session.requests import RequestCancelled, UserRequests

COLOURS = 4
"""Number of colours for agents; a fifth agent gets the first one again."""

_NAME = re.compile(r"[^a-z0-9-]+")


class AgentCallRefused(Exception):
    """The call is not served; the message is a sentence for the agent."""


class AgentCallDeclined(AgentCallRefused):
    """The user declined the call."""


class AgentCall:
    """One call of an agent, until it is answered."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self.send = send
        """Sends a frame about the call to the agent before the answer."""
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.cancelled = False
        self.running = False
        """Whether its cell runs now."""

    def say(self, sentence: str) -> None:
        """Report progress to the agent."""
        self.send({"op": "progress", "text": sentence})

    def cancel(self) -> None:
        """Cancel the call: the agent no longer waits for it."""
        with self._lock:
            self.cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    @contextmanager
    def stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `stop` within this context. Raises `AgentCallRefused` if the call was
        cancelled before."""
        with self._lock:
            if self.cancelled:
                raise AgentCallRefused("The call was cancelled.")
            self._stop = stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = None


@dataclass(eq=False)
class JoinedAgent:
    """An agent that has joined the session."""

    name: str
    colour: int
    leave: Callable[[str], None]
    """Ends its connection, with a sentence for the agent."""
    told: FinishedCell | None
    """The last finished cell that the agent knows."""
    owns_session: bool = False
    """Whether the session is the agent's own: nobody is there to ask."""
    trusted: bool = False
    """Whether its code runs without asking, because the user said so."""
    paused: bool = False
    gone: bool = False
    calls: set[AgentCall] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)
    cells: int = 0
    busy: float = 0.0


class JoinedAgents:
    """All agents of one session. Any thread may call."""

    def __init__(
        self,
        log: logging.Logger,
        inbox: Inbox,
        approvals: UserRequests[Decision],
        profile: SessionInfo,
    ) -> None:
        self._log = log
        self._inbox = inbox
        self._approvals = approvals
        self._profile = profile
        self._lock = threading.Condition()
        """Notified when an agent is resumed, or a call is cancelled."""
        self._agents: list[JoinedAgent] = []
        self._numbers = itertools.count(1)
        self._pauses: set[str] = set()
        """Names of paused agents. They may have left: a pause lasts until the user ends it."""

    @property
    def names(self) -> list[str]:
        with self._lock:
            return [agent.name for agent in self._agents]

    def join(
        self,
        wanted: str,
        leave: Callable[[str], None],
        told: FinishedCell | None,
        *,
        owns_session: bool = False,
    ) -> JoinedAgent:
        """Add an agent, with a name and a colour of its own. told: the last finished cell.

        While a pause lasts, new agents are paused too: the paused agent could come back under
        another name.
        """
        base = _NAME.sub("-", wanted.lower()).strip("-")[:20] or "agent"
        with self._lock:
            taken = {"you", self._profile.party.lower(), *(agent.name for agent in self._agents)}
            numbered = (f"{base}-{number}" for number in itertools.count(2))
            name = next(name for name in itertools.chain([base], numbered) if name not in taken)
            used = {agent.colour for agent in self._agents}
            colour = next(
                (colour for colour in range(COLOURS) if colour not in used), len(used) % COLOURS
            )
            agent = JoinedAgent(name, colour, leave, told, owns_session)
            agent.paused = bool(self._pauses)
            paused = ", ".join(sorted(self._pauses))
            self._agents.append(agent)
        if agent.paused:
            self._inbox.hold(name, True)
            self._notice(
                f"{name} has joined the session. It is paused, because {paused} is: /pause {name} resumes it, /disconnect {name} disconnects it."
            )
        else:
            self._notice(
                f"{name} has joined the session. /agents lists all agents, /pause and /disconnect act on one."
            )
        return agent

    def left(self, agent: JoinedAgent, *, stop: bool) -> None:
        """Remove an agent whose connection is gone, and withdraw its waiting calls. stop: also end
        its running cell."""
        with self._lock:
            if agent not in self._agents:
                return
            self._agents.remove(agent)
            agent.gone = (
                True  # before its calls are listed, so that a call that comes now is refused
            )
            calls = list(agent.calls)
        self._look_again()
        running = [call for call in calls if call.running]
        for call in calls:
            if stop or call not in running:
                call.cancel()
        self._inbox.hold(agent.name, False)  # now that none of its cells wait
        goes_on = " Its cell keeps running." if running and not stop else ""
        self._notice(f"{agent.name} has left the session.{goes_on}")

    def pause(self, name: str = "") -> str:
        """Pause or resume an agent; returns a sentence. name: may be empty if there is only one
        agent."""
        agent = self._named(name)
        if isinstance(agent, str):
            if name not in self._pauses:
                return agent
            with self._lock:
                self._pauses.discard(name)
            return f"{name} is not connected; pause cleared."
        agent.paused = not agent.paused
        with self._lock:
            (self._pauses.add if agent.paused else self._pauses.discard)(agent.name)
        self._inbox.hold(agent.name, agent.paused)
        self._look_again()
        if agent.paused:
            return f"{agent.name} is paused: its calls wait, even if it rejoins. /pause {agent.name} resumes it."
        return f"Resumed {agent.name}."

    def disconnect(self, name: str = "") -> str:
        """Disconnect an agent; returns a sentence."""
        agent = self._named(name)
        if isinstance(agent, str):
            return agent
        words = "The user disconnected you from the session."
        threading.Thread(
            target=agent.leave, args=(words,), name="disconnect", daemon=True
        ).start()  # sending may block if it does not read
        return f"Disconnected {agent.name}."

    def sentence(self) -> str:
        """Return a sentence that lists the agents."""
        with self._lock:
            here = [
                f"{agent.name}{' (paused)' if agent.paused else ''}, {agent.cells} cells"
                for agent in self._agents
            ]
            gone = sorted(self._pauses - {agent.name for agent in self._agents})
        sentence = (
            f"Agents in the session: {'; '.join(here)}." if here else "No agent is in the session."
        )
        return (
            f"{sentence} Paused, but not connected: {', '.join(gone)}; /pause NAME clears the pause."
            if gone
            else sentence
        )

    def close(self) -> None:
        """Disconnect all agents: the session ends."""
        with self._lock:
            agents = list(self._agents)
        for agent in agents:
            agent.leave("The session was closed.")

    def new_call(self) -> str:
        """Return a new id for the records of a call."""
        return f"guest-{next(self._numbers)}"

    def wait_while_paused(self, agent: JoinedAgent, call: AgentCall) -> None:
        """Wait until the agent is not paused. Raises `AgentCallRefused`."""
        if agent.paused:
            call.say("the user has paused you")
        with call.stoppable(self._look_again), self._lock:
            self._lock.wait_for(lambda: call.cancelled or agent.gone or not agent.paused)
        if call.cancelled or agent.gone:
            raise AgentCallRefused("The call was cancelled.")

    def approved(
        self,
        agent: JoinedAgent,
        call: AgentCall,
        request: str,
        code: str,
        *,
        is_code: bool = True,
        why: str | None = None,
    ) -> str:
        """Ask the user to approve code; returns the code to run, which they may have edited. Raises
        `AgentCallDeclined` and `AgentCallRefused`.

        is_code: False for the description of an action, which cannot be edited. why: why it waits,
        if the approval mode is not ``ask``.
        """
        about = Approval(
            code,
            request=request,
            call=request,
            party=agent.name,
            guest=agent.colour,
            step=0,
            block=0,
            blocks=1,
        )
        call.say("waits for the user's approval")
        emit(self._log, about.changed(state="waiting", is_code=is_code, why=why))
        try:
            with call.stoppable(lambda: self._approvals.cancel(request)):
                decision = self._approvals.wait(request)
        except (RequestCancelled, AgentCallRefused):
            emit(self._log, about.changed(state="stopped"))
            raise AgentCallRefused("The call was cancelled before the user had decided.") from None
        if decision.action in ("skip", "stop"):
            state = "skipped" if decision.action == "skip" else "stopped"
            emit(self._log, about.changed(state=state, reason=decision.reason))
            raise AgentCallDeclined(
                f"declined: {decision.reason}"
                if decision.reason
                else "declined: the user gave no reason"
            )
        agent.trusted = agent.trusted or (is_code and decision.action == "all")
        state = "run" if decision.code is None else "edited"
        emit(self._log, about.changed(text=decision.code or code, state=state))
        return decision.code or code

    def _look_again(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def _named(self, name: str) -> JoinedAgent | str:
        with self._lock:
            found = [agent for agent in self._agents if not name or agent.name == name]
        if len(found) == 1:
            return found[0]
        here = ", ".join(self.names)
        return f"Which one? In the session: {here}." if here else "No agent is in the session."

    def _notice(self, text: str) -> None:
        emit(self._log, Notice(text))
