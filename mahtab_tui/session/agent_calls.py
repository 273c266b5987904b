"""Serves the agents that joined a session."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from mahtab_tui.bus.records import Approval, Notice, ReplIn, emit
from mahtab_tui.bus.sanitize import refusal
from mahtab_tui.kernel.base import (
    RESET,
    CellResult,
    Detail,
    KernelError,
    KernelInfo,
    Lock,
    OutputKind,
    Status,
    Variable,
)
from mahtab_tui.kernel.cells import BoundedCell, describe_restoration
from mahtab_tui.session.cells import FinishedCell, name_cells
from mahtab_tui.session.info import Cancellation, ask_approval
from mahtab_tui.system import start_thread
from mahtab_tui.worker.frames import Frame

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components
    from mahtab_tui.session.session import Session

COLOURS = 4

_NAME = re.compile(r"[^a-z0-9-]+")
_NO_AGENT = "No agent is in the session."


class AgentCallRefused(Exception):
    """The message is a sentence for the agent."""


class AgentCallDeclined(AgentCallRefused):
    """The user declined the call."""


class AgentCall(Cancellation):
    """A call of an agent, until it is answered."""

    def __init__(self, agent: JoinedAgent, send: Callable[[Frame], None]) -> None:
        """send: sends a frame about the call, before the answer."""
        super().__init__()
        self.agent = agent
        self.send = send
        self.running = False

    def report(self, sentence: str) -> None:
        self.send({"op": "progress", "text": sentence})

    @contextmanager
    def stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `stop` within this context. Raises `AgentCallRefused` if the call was
        already cancelled."""
        if self.cancelled:
            raise AgentCallRefused("The call was cancelled.")
        self.on_cancel(stop)
        try:
            yield
        finally:
            self.on_cancel(None)


@dataclass(eq=False)
class JoinedAgent:
    name: str
    colour: int
    leave: Callable[[str], None]
    """Ends its connection, with a sentence for the agent."""
    last_sent: FinishedCell | None
    """The last finished cell reported to it."""
    owns_session: bool = False
    """Whether there is no user to ask."""
    trusted: bool = False
    """Whether its code runs without asking."""
    gone: bool = False
    calls: set[AgentCall] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)
    cells: int = 0
    busy: float = 0.0


class JoinedAgents:
    """All agents of a session. Any thread may call this."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._approvals = parts.approvals
        self._info = parts.info
        self._lock = threading.Lock()
        self._agents: list[JoinedAgent] = []
        self._numbers = itertools.count(1)
        self._colours = itertools.cycle(range(COLOURS))

    @property
    def names(self) -> list[str]:
        with self._lock:
            return [agent.name for agent in self._agents]

    def join(
        self,
        wanted: str,
        leave: Callable[[str], None],
        last_sent: FinishedCell | None,
        *,
        owns_session: bool = False,
    ) -> JoinedAgent:
        base = _NAME.sub("-", wanted.lower()).strip("-")[:20] or "agent"
        with self._lock:
            others = {"you", self._info.party.lower(), *(agent.name for agent in self._agents)}
            names = (base if number == 1 else f"{base}-{number}" for number in itertools.count(1))
            name = next(name for name in names if name not in others)
            agent = JoinedAgent(name, next(self._colours), leave, last_sent, owns_session)
            self._agents.append(agent)
        how = "/agents lists all agents, /disconnect disconnects one."
        emit(self._log, Notice(f"{name} has joined the session. {how}"))
        return agent

    def remove(self, agent: JoinedAgent) -> None:
        """Remove an agent whose connection is gone, and withdraw its queued calls. A running cell
        continues."""
        with self._lock:
            if agent not in self._agents:
                return
            self._agents.remove(agent)
            agent.gone = True  # before its calls are listed, so that a new call is refused
            calls = list(agent.calls)
        keeps_running = ""
        for call in calls:
            if call.running:
                keeps_running = " Its cell keeps running."
            else:
                call.cancel()
        emit(self._log, Notice(f"{agent.name} has left the session.{keeps_running}"))

    def disconnect(self, name: str = "") -> str:
        agent = self._find(name)
        if isinstance(agent, str):
            return agent
        words = "The user disconnected you from the session."
        # On a thread, because sending may block if the agent does not read.
        start_thread("disconnect", agent.leave, words)
        return f"Disconnected {agent.name}."

    def sentence(self) -> str:
        with self._lock:
            joined = [f"{agent.name}, {agent.cells} cells" for agent in self._agents]
        return f"Agents in the session: {'; '.join(joined)}." if joined else _NO_AGENT

    def close(self) -> None:
        with self._lock:
            agents = list(self._agents)
        for agent in agents:
            agent.leave("The session was closed.")

    def new_call(self) -> str:
        return f"guest-{next(self._numbers)}"

    def request_approval(
        self,
        call: AgentCall,
        request: str,
        code: str,
        *,
        is_code: bool = True,
        why: str | None = None,
    ) -> str:
        """Return the code to run, which the user may have edited. is_code: False for an action,
        which cannot be edited. Raises `AgentCallDeclined` and `AgentCallRefused`."""
        agent = call.agent
        about = Approval(code, request=request, call=request, party=agent.name, guest=agent.colour)
        about = about.changed(step=0, block=0, blocks=1, is_code=is_code, why=why)
        call.report("waits for the user's approval")
        with call.stoppable(lambda: self._approvals.cancel(request)):
            decision = ask_approval(self._log, self._approvals, about)
        if decision is None:
            raise AgentCallRefused("The call was cancelled before the user had decided.")
        if decision.action in ("skip", "stop"):
            raise AgentCallDeclined(f"declined: {decision.reason or 'the user gave no reason'}")
        agent.trusted = agent.trusted or (is_code and decision.action == "all")
        return decision.code or code

    def _find(self, name: str) -> JoinedAgent | str:
        with self._lock:
            found = [agent for agent in self._agents if not name or agent.name == name]
        if len(found) == 1:
            return found[0]
        names = ", ".join(self.names)
        return f"Which one? In the session: {names}." if names else _NO_AGENT


FIRST_LINE_CHARS = 100
"""Maximum characters of a cell's first line for other agents."""
OUTPUT_CHARS = 1_000_000
"""Maximum characters of output to keep for the answer."""
NOT_RUN = CellResult(0, Status.ERROR, "", (), 0.0, ())


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer to an agent's code: a cell that has ended, or still runs after its timeout."""

    result: CellResult = NOT_RUN
    timed_out: bool = False
    running: bool = False
    """Whether it ignored its interrupt; the result has its output so far."""
    late: str = ""
    """Output between cells since the last one."""
    edited: str = ""
    """The code that ran, if the user edited it."""
    declined: str = ""
    """Why the code did not run."""
    restores: bool = False
    """Whether saved variables return if the kernel has ended."""


@dataclass(frozen=True, slots=True)
class SessionContents:
    kernel: KernelInfo
    variables: list[Variable]
    cells: int
    busy: float
    """Total seconds of these cells."""
    alive: float
    """Seconds since the agent joined."""
    others: list[str]
    """Cells that others have run since the last request."""


class AgentCalls:
    """Serves the calls of a session's agents, each on a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._serve: dict[str, Callable[..., Any]] = {
            "evaluate": self._evaluate,
            "reset": self._reset,
            "undo": self._undo,
            "activate": self._activate,
            "permit": self._permit,
            "invalidate_caches": lambda call: session.kernel.execute(
                "__import__('importlib').invalidate_caches()",
                cell=0,
                on_output=lambda kind, text: None,
            ),
            "contents": self._contents,
            "kernel": lambda call: session.kernel.info(),
            "inspect": self._inspect,
        }

    def serve(self, call: AgentCall, what: str, args: Mapping[str, Any]) -> Any:
        """Answer a call with a JSON value. Raises `AgentCallRefused`."""
        served = self._serve.get(what)
        if served is None:
            raise AgentCallRefused(f"The session knows no {what!r}.")
        call.agent.calls.add(call)
        try:
            if call.cancelled or call.agent.gone:
                raise AgentCallRefused("The call was cancelled.")
            answer = to_jsonable_python(served(call, **args))
            return self._session.secrets.redact_value(answer)
        except AgentCallRefused:
            raise
        except Exception as error:  # the agent needs an answer, whatever went wrong
            sentence = str(error)
            if not isinstance(error, KernelError):
                sentence = f"The session failed: {type(error).__name__}: {sentence}"
            raise AgentCallRefused(self._session.secrets.redact_for_model(sentence)) from None
        finally:
            call.agent.calls.discard(call)

    def _evaluate(self, call: AgentCall, code: str, timeout: float | None = None) -> Evaluation:
        session, sent = self._session, self._normalize_code(call.agent, code)
        agents = session.joined_agents
        request = agents.new_call()
        try:
            code, used_names, lock = self._approve_code(call, request, sent)
            if lock == "keep":
                locked_cell = _AgentCell(session, call, request, code, timeout, used_names, lock)
                answer = locked_cell.answer()
                if not locked_cell.needs:
                    return answer

                # It needs more than its lock allows: the user decides whether it may run unlocked.
                request = agents.new_call()
                lock = None
                code = agents.request_approval(call, request, code, why=locked_cell.needs)
        except AgentCallDeclined as error:
            return Evaluation(declined=str(error))
        answer = _AgentCell(session, call, request, code, timeout, used_names, lock).answer()
        return replace(answer, edited=code if code != sent else "")

    def _approve_code(
        self, call: AgentCall, request: str, code: str
    ) -> tuple[str, tuple[str, ...], Lock | None]:
        """Return the code to run, the private variables that the user was asked about, and how the
        code is confined."""
        session = self._session
        used_names = session.private.uses(code)
        permission = session.agent.rules.permission(
            code,
            author=call.agent.name,
            private=used_names,
            trusted=session.info.approval == "auto" or call.agent.trusted,
            can_ask=not call.agent.owns_session,
        )
        if permission.action == "deny":
            denial = permission.reason.rstrip(".")
            raise AgentCallDeclined(f"declined: {denial[0].lower()}{denial[1:]}")
        if permission.action != "ask":
            return code, used_names, "keep" if permission.action == "lock" else "guard"

        reason = permission.reason or None
        if reason is None and session.info.approval == "review":
            reason = "changes of agents are not reviewed afterwards"
        approved_code = session.joined_agents.request_approval(call, request, code, why=reason)
        return approved_code, used_names, None

    def _reset(self, call: AgentCall) -> tuple[int, int]:
        session = self._session
        self._approve_action(call, "# start over: a fresh kernel, all variables are lost")
        old = session.kernel.info().pid
        session.notice(f"{call.agent.name} resets the kernel.")
        session.cells.reset_kernel()
        return old, session.kernel.info().pid

    def _undo(self, call: AgentCall, cell: int | None) -> str:
        session, undo = self._session, self._session.undo
        first = undo.last_step() if cell is None else cell
        cells = name_cells(undo.cells_from(first))
        names = ", ".join(change.name for change in session.kernel.preview_undo(first).changes)
        self._approve_action(call, f"# undo {cells}: {names or 'no variable changes'}")
        session.notice(f"{call.agent.name} undoes {cells}.")
        return describe_restoration(undo.undo(first), f"before cell {first} ran")

    def _activate(self, call: AgentCall, python: str | None, folder: str | None) -> KernelInfo:
        session = self._session
        action = f"# switch to {' in '.join(filter(None, (python, folder)))}"
        if python:
            restores = session.namespace_store.can_restore
            action += "; only saved variables come back" if restores else "; all variables are lost"
        self._approve_action(call, action)
        if python is not None:
            session.cells.change_kernel(lambda: session.kernel.activate(python))
        if folder is not None:
            session.kernel.change_directory(folder)
        info = session.kernel.info()
        where = f"{info.executable}, in {info.cwd}"
        session.notice(f"{call.agent.name} has changed the environment: {where}.")
        return info

    def _permit(self, call: AgentCall, action: str) -> None:
        self._approve_action(call, f"# {action}")
        self._session.notice(f"{call.agent.name}: {action}")

    def _inspect(self, call: AgentCall, name: str) -> Detail:
        session = self._session
        session.private.refresh()
        if session.private.is_private(name):
            raise AgentCallRefused(f"{name} is private: the user does not share what it contains.")
        return session.kernel.inspect(name, run_code=False)

    def _contents(self, call: AgentCall, seen: bool) -> SessionContents:
        session, agent = self._session, call.agent
        finished = list(session.cells.finished)
        if agent.last_sent in finished:
            del finished[: finished.index(agent.last_sent) + 1]
        if finished and seen:
            agent.last_sent = finished[-1]
        others = [
            f"In [{started.cell}] {started.party} ({status}): {self._first_line(started)}"
            for started, status in finished
            if started.party != agent.name and started.entry_name not in session.agent.hidden
        ]
        alive = time.monotonic() - agent.since
        info, variables = session.kernel.info(), session.private.variables()
        return SessionContents(info, variables, agent.cells, agent.busy, alive, others)

    def _first_line(self, started: ReplIn) -> str:
        if self._session.private.is_private_cell(started.cell or 0):
            return "uses a private variable"
        line, _, more = started.text.strip().partition("\n")
        return line[:FIRST_LINE_CHARS] + (" …" if more or len(line) > FIRST_LINE_CHARS else "")

    def _approve_action(self, call: AgentCall, action: str) -> None:
        """Ask about an action on the environment, except in the agent's own session."""
        if call.agent.owns_session:
            return
        agents, action = self._session.joined_agents, self._normalize_code(call.agent, action)
        agents.request_approval(call, agents.new_call(), action, is_code=False)

    def _normalize_code(self, agent: JoinedAgent, code: str) -> str:
        """Raises `AgentCallRefused` if it contains dangerous characters."""
        code = code.replace("\r\n", "\n")
        if why := refusal(code):
            self._session.notice(f"Code from {agent.name} was not run. {why}", "warning")
            raise AgentCallRefused(f"The code was not run. {why}")
        return code


@dataclass(eq=False)
class _AgentCell:
    session: Session
    call: AgentCall
    request: str
    code: str
    timeout: float | None
    allowed: tuple[str, ...]
    """Private variables that the user was asked about."""
    lock: Lock | None
    needs: str = ""
    """The action that the locked fork refused; empty if none."""
    _answer: Future[Evaluation] = field(default_factory=Future)
    """Set when the cell has ended, is withdrawn, or does not respond."""
    _printed: list[str] = field(default_factory=list)
    _room: int = OUTPUT_CHARS

    def __post_init__(self) -> None:
        # Partial output cannot be checked for private texts.
        self._follow = not self.session.private.names
        """Whether the agent gets its start and output while it runs."""
        self._bounded = BoundedCell(
            self.session.kernel,
            self.timeout,
            may_kill=self.call.agent.owns_session,
            on_unresponsive=self._on_unresponsive,
        )

    def answer(self) -> Evaluation:
        item, before = self.session.inbox.put_agent_cell(
            self.call.agent.name, self.code, self._work, self._withdraw
        )
        if before:
            self.call.report(f"waits in the session's queue, {before} before it")

        def stop() -> None:
            if self.session.inbox.cancel(item) is None:
                self._bounded.stop()

        try:
            with self.call.stoppable(stop):
                wait([self._answer])
        except AgentCallRefused:
            stop()
            raise
        return self._answer.result()

    def _work(self) -> None:
        session, agent = self.session, self.call.agent
        self.call.running = True
        self.call.report("runs")
        try:
            result = session.cells.run(
                self.code,
                origin="assistant",
                party=agent.name,
                bounded=self._bounded,
                on_begin=self._on_begin,
                listener=self._on_output,
                allowed=self.allowed,
                lock=self.lock,
                guest=agent.colour,
                call=self.request,
            )
            self.needs = result.needs
            agent.cells += 1
            agent.busy += result.duration
            can_restore = session.namespace_store.can_restore and result.detail != RESET
            redacted = session.private.redact_result(result)
            self._settle(Evaluation(redacted, self._bounded.timed_out, restores=can_restore))
        except Exception as error:  # the agent needs an answer, whatever went wrong
            sentence = f"The cell could not be run: {type(error).__name__}: {error}"
            self.call.running = False
            with suppress(InvalidStateError):
                self._answer.set_exception(AgentCallRefused(sentence))
            raise

    def _withdraw(self) -> None:
        self._settle(Evaluation(declined="declined: the user removed the code from the queue"))

    def _on_unresponsive(self) -> None:
        output, cell = "".join(self._printed), self.session.cells.last
        result = CellResult(cell, Status.OK, output, (("stdout", len(output)),), 0.0, ())
        self._settle(Evaluation(result, self._bounded.timed_out, running=True))

    def _settle(self, evaluation: Evaluation) -> None:
        self.call.running = False
        with suppress(InvalidStateError):  # an unresponsive cell has ended after all
            self._answer.set_result(evaluation)

    def _on_begin(self, cell: int) -> None:
        if self._follow:
            code = self.session.secrets.mask(self.code)
            self.call.send({"op": "begun", "cell": cell, "code": code})

    def _on_output(self, kind: OutputKind, text: str) -> None:
        if self._follow:
            self.call.send({"op": "output", "kind": kind, "text": text})
        if self._room > 0:
            self._printed.append(text[: self._room])
            self._room -= len(text)
