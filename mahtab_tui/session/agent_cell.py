"""The code of a joined agent on its way through the queue and the kernel, and the answer that the
agent gets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from mahtab_tui.bus.change_words import MAX_CHANGES
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import RESET
from mahtab_tui.kernel.bounded_cell import BoundedCell
from mahtab_tui.kernel.cell_results import first_pictures
from mahtab_tui.kernel.values import CellResult, Lock, OutputKind
from mahtab_tui.session.agent import start_nested_cell
from mahtab_tui.session.joined_agents import AgentCall, AgentCallRefused
from mahtab_tui.session.session import Session

MAX_OUTPUT_CHARS = 1_000_000
"""Maximum characters of output to keep for the answer about an unresponsive cell."""
NOT_RUN = CellResult(0, Status.ERROR, "", (), 0.0, ())
"""The result of code that did not run."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answer to an agent's code: about a cell that has ended, or that still runs after its
    timeout."""

    result: CellResult = NOT_RUN
    timed_out: bool = False
    """Whether the cell was interrupted because its time was up."""
    running: bool = False
    """Whether the cell still runs, because it ignored its interrupt; the result has its output so
    far."""
    late: str = ""
    """What threads have printed since the last cell ended."""
    edited: str = ""
    """The code that ran, if the user edited it; else empty."""
    declined: str = ""
    """Why the code did not run; empty if it did."""
    restores: bool = False
    """Whether saved variables return when a kernel that has ended starts again."""
    omitted_changes: int = 0
    """Changes of variables that the result leaves out."""


def runs_nested(session: Session, call: AgentCall) -> bool:
    """Return whether a call's code runs inside a cell that waits for the agent's answer."""
    return call.agent.is_model and session.agent.is_awaited_by_cell


@dataclass(eq=False)
class AgentCell:
    """An agent's code: queued, run, and answered once, also if it does not end."""

    session: Session
    call: AgentCall
    request: str
    """Names the call in the records of its cell."""
    code: str
    timeout: float | None
    """Seconds until it is interrupted; None for no limit."""
    allowed: tuple[str, ...]
    """Private variables that the user was asked about."""
    lock: Lock | None
    """How a fork confines it; None if the user has allowed it."""
    needs: str = ""
    """The action that the locked fork refused; empty if none."""
    _evaluation: Future[Evaluation] = field(default_factory=Future)
    """Set when the cell has ended, is withdrawn, or does not respond."""
    _output_pieces: list[str] = field(default_factory=list)
    _free_output_chars: int = MAX_OUTPUT_CHARS

    def __post_init__(self) -> None:
        # Partial output cannot be checked for private texts.
        self._sends_output = not self.session.private.names
        """Whether the agent gets the cell's start and output while it runs."""
        self._bounded = BoundedCell(
            self.session.kernel,
            self.timeout,
            may_kill=self.call.agent.owns_session,
            on_unresponsive=self._on_unresponsive,
        )

    def answer(self) -> Evaluation:
        """Run the code when its turn comes, and wait for its result. Raises `AgentCallRefused`."""
        if self.call.cancelled:
            raise AgentCallRefused("The call was cancelled.")
        is_nested = runs_nested(self.session, self.call)
        stop = self._start_nested() if is_nested else self._queue()
        try:
            with self.call.stoppable(stop):
                # This waits, at less cost than `concurrent.futures.wait`.
                self._evaluation.exception()
        except AgentCallRefused:
            stop()
            raise
        return self._evaluation.result()

    def _queue(self) -> Callable[[], object]:
        """Queue the code; return what stops it."""
        inbox = self.session.inbox
        item_id, cells_before = inbox.put_agent_cell(
            self.call.agent.name,
            self.code,
            self._work,
            self._withdraw,
            can_nest=self.call.agent.is_model,
        )
        if runs_nested(self.session, self.call):
            # The cell that runs has asked meanwhile.
            self.session.agent.start_queued_cells()
        elif cells_before:
            self.call.report(f"waits in the session's queue, {cells_before:,} before it")

        def stop() -> None:
            # It is interrupted if it is no longer in the queue.
            if inbox.cancel(item_id) is None:
                self._bounded.stop()

        return stop

    def _start_nested(self) -> Callable[[], object]:
        """Run the code at once, because the queue waits for the cell that waits for the agent.

        Return what stops it.
        """
        start_nested_cell(self._work)
        return self._bounded.stop

    def _work(self) -> None:
        """Run the code."""
        session = self.session
        agent = self.call.agent
        self.call.running = True
        try:
            result = session.cells.run(
                self.code,
                origin="assistant",
                party=agent.name,
                is_nested=partial(runs_nested, session, self.call),
                bounded=self._bounded,
                on_begin=self._on_begin,
                listener=self._on_output,
                is_cancelled=lambda: self.call.cancelled,
                allowed=self.allowed,
                lock=self.lock,
                guest=agent.colour,
                call=self.request,
            )
            self.needs = result.needs
            agent.cell_count += 1
            agent.busy_seconds += result.duration
            can_restore = session.namespace_store.can_restore and result.detail != RESET
            changes = result.changes[:MAX_CHANGES]
            sent_result = replace(result, changes=changes, displays=first_pictures(result))
            evaluation = Evaluation(
                session.private.redact_result(sent_result),
                self._bounded.timed_out,
                restores=can_restore,
                omitted_changes=len(result.changes) - len(changes),
            )
            self._settle(evaluation)
        except Exception as error:
            # The agent needs an answer, whatever went wrong.
            sentence = f"The cell could not be run: {type(error).__name__}: {error}"
            self.call.running = False
            with suppress(InvalidStateError):
                self._evaluation.set_exception(AgentCallRefused(sentence))
            raise

    def _withdraw(self) -> None:
        """Answer that the user has removed the code from the queue."""
        self._settle(Evaluation(declined="declined: the user removed the code from the queue"))

    def _on_unresponsive(self) -> None:
        """Answer with the output so far, because the cell ignores its interrupt."""
        output = "".join(self._output_pieces)
        kinds: tuple[tuple[OutputKind, int], ...] = (("stdout", len(output)),)
        result = CellResult(self.session.cells.last, Status.OK, output, kinds, 0.0, ())
        self._settle(Evaluation(result, self._bounded.timed_out, running=True))

    def _settle(self, evaluation: Evaluation) -> None:
        """Give the agent its answer, unless it has one."""
        self.call.running = False
        # The future already has a result if an unresponsive cell has ended after all.
        with suppress(InvalidStateError):
            self._evaluation.set_result(evaluation)

    def _on_begin(self, cell: int) -> None:
        """Tell the agent that its code begins to run, as the cell of this number."""
        if self.call.is_logged and self._sends_output:
            code = self.session.secrets.mask(self.code)
            self.call.send({"op": "begun", "cell": cell, "code": code})
        elif self.call.has_reported:
            self.call.report("runs")

    def _on_output(self, kind: OutputKind, text: str) -> None:
        """Pass a piece of the cell's output on, and keep it for the case that the cell does not
        end."""
        # A value or a traceback is the end of the output, so the answer with it follows at once.
        if self._sends_output and kind not in ("value", "traceback"):
            self.call.send({"op": "output", "kind": kind, "text": text})
        if self._free_output_chars > 0:
            self._output_pieces.append(text[: self._free_output_chars])
            self._free_output_chars -= len(text)
