"""What the agent may do to a session: run code, ask the user, read what happened."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mahtab_tui.agent.host import ApprovalRequest, Execution
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import AssistantChat, Notice, Record, Usage, UserAttachment, UserChat, emit
from mahtab_tui.bus.told import told
from mahtab_tui.kernel.base import OUTPUT_LIMIT, Kernel, Status
from mahtab_tui.llm.pictures import Picture
from mahtab_tui.llm.spending import Spending
from mahtab_tui.session.attachments import Attachments, element_of
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.profile import Profile
from mahtab_tui.session.requests import Cancelled, Requests
from mahtab_tui.settings.model import ApprovalMode
from mahtab_tui.store.last_session import LastSessionError, forget_last_session, load_last_session, save_last_session

if TYPE_CHECKING:
    from mahtab_tui.bus.handlers import PromptHandler

_RIGHTS = "The model's code now runs without asking, with your own rights: it can read, change and delete whatever you can."


class TurnHost:
    """`agent.host.AgentHost` over a session's cells, its bus and the user."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: Kernel,
        cells: Cells,
        prompt: PromptHandler,
        profile: Profile,
        secrets: Secrets,
        spending: Spending,
        attachments: Attachments,
        approvals: Requests[Decision],
        past: Sequence[Record] = (),
        *,
        keeps_exchange: bool,
    ) -> None:
        """past: the records of the session that is resumed. keeps_exchange: whether the last question and its answer are kept for the session
        after this one, and those of the session before are told in this one."""
        self.log = log
        self.cancelled = threading.Event()
        self.profile = profile
        self.secrets = secrets
        self.spending = spending
        self.approvals = approvals
        self.left_out = prompt.left_out
        self.pictures = dict(_pictures(past))
        self._kernel = kernel
        self._cells = cells
        self._prompt = prompt
        self._attachments = attachments
        self._numbers = itertools.count(1 + max((record.turn or 0 for record in past if isinstance(record, UserChat | AssistantChat)), default=0))
        self._keeps_exchange = keeps_exchange
        self._exchange: tuple[str, str] | None = None
        """The last question and its answer."""
        self._kept = False
        """Whether it is kept for the session after this one."""
        self._tells_prior = keeps_exchange and not past
        self._prior = ""
        """What is told of the session before, with the next question."""
        self._attached: dict[int, str] = {}
        """What goes with the questions that were not asked yet, as XML, by their numbers."""
        self._turns = 0
        self._waiting_cells = 0
        self._asked: str | None = None
        """The approval that is waited for."""
        self._said_rights = False

    @property
    def party(self) -> str:
        return self.profile.party

    @property
    def approval(self) -> ApprovalMode:
        return self.profile.approval

    def new_turn(self) -> int:
        return next(self._numbers)

    @property
    def in_turn(self) -> bool:
        """Whether a question is being answered."""
        return self._turns > 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While a question is being answered."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1

    @contextmanager
    def asked_from_cell(self) -> Iterator[None]:
        """While a cell waits for the agent's answer, the agent's own cells run inside it."""
        self._waiting_cells += 1
        try:
            yield
        finally:
            self._waiting_cells -= 1

    def execute(self, code: str, *, turn: int, step: int, block: int) -> Execution:
        result = self._cells.run(
            code,
            origin="assistant",
            party=self.party,
            limit=OUTPUT_LIMIT,
            nested=self._waiting_cells > 0,
            given_up=self.cancelled.is_set,
            turn=turn,
            step=step,
            block=block,
        )
        output = result.output if not result.detail else f"{result.output}\n{result.detail}".strip()
        return Execution(result.cell, output, result.status is not Status.OK, str(result.status), result.rewritten)

    def decide(self, request: ApprovalRequest) -> Decision:
        if self.approval == "auto":
            self._say_rights()
            return Decision("run")
        try:
            self._asked = request.request
            decision = self.approvals.wait(request.request, self.cancelled.is_set)
        except Cancelled:
            return Decision("stop")
        finally:
            self._asked = None
        if decision.action == "all":
            self.profile.set_approval("auto")
            self._say_rights()
        return decision

    def attach(self, question: str, turn: int, stopped: Callable[[], bool], *, commands: bool) -> None:
        """Have what a question points at go with it. commands: whether those that it names are run."""
        elements = []
        for attachment in self._attachments.gather(question, stopped, commands=commands):
            picture = attachment.picture
            record = UserAttachment(told(attachment.text), turn=turn, label=attachment.label, size=attachment.size, problem=attachment.problem)
            if picture is not None:
                record = record.changed(picture=picture.id)
            if picture is None or picture.id in self.pictures:
                emit(self.log, record)
            else:
                emit(self.log, record.changed(**picture._asdict()))
                self.pictures[picture.id] = picture
            elements.append(element_of(record))
        self._attached[turn] = "\n".join(elements)

    def context(self, turn: int) -> str:
        from mahtab_tui.llm.prompts import render_context

        attached = self._attached.pop(turn, "")
        text = render_context(self._kernel.variables(), self._prompt.get_context(), self._take_prior(), attached)
        self._prompt.clear()
        return text

    def surroundings(self) -> str:
        from mahtab_tui.llm.prompts import render_surroundings

        info = self._kernel.info()
        return render_surroundings(info.cwd, info.python, info.executable)

    @property
    def folder(self) -> str:
        return self._kernel.info().cwd

    def usage(self, used: Usage) -> None:
        self.spending.count(used)
        emit(self.log, used)

    def interrupt(self) -> None:
        """Withdraw the approval that waits, and interrupt the model's cell."""
        if (asked := self._asked) is not None:
            self.approvals.cancel(asked)
        if self._cells.assistant_runs:
            self._kernel.interrupt()

    def tell_prior(self, text: str) -> None:
        """Tell the model of the session before, once, with the next question."""
        self._prior = text

    def _take_prior(self) -> str:
        if self._tells_prior:
            self._tells_prior = False
            try:
                if (last := load_last_session()) is not None:
                    self._prior = last.as_text()
            except LastSessionError as error:
                emit(self.log, Notice(str(error), level="warning"))
        prior, self._prior = self._prior, ""
        return prior

    def answered(self, question: str, answer: str) -> None:
        """Keep an exchange for the session after this one."""
        if self._keeps_exchange:
            self._exchange, self._kept = (question, answer), False
            self.keep_exchange()

    def keep_exchange(self) -> None:
        """What is left out of this session's conversation is not told in the next one either."""
        wanted = not self.left_out.last_exchange
        if self._exchange is None or wanted == self._kept:
            return
        self._kept = wanted
        try:
            if wanted:
                save_last_session(*map(self.secrets.mask, self._exchange))
            else:
                forget_last_session()
        except LastSessionError as error:
            emit(self.log, Notice(str(error), level="warning"))

    def _say_rights(self) -> None:
        if not self._said_rights:
            self._said_rights = True
            emit(self.log, Notice(_RIGHTS, level="warning"))


def _pictures(past: Sequence[Record]) -> Iterator[tuple[str, Picture]]:
    """The pictures that have gone with questions, by their ids."""
    for record in past:
        match record:
            case UserAttachment(picture=str(id), mime=str(mime), data=str(data), width=int(width), height=int(height)):
                yield id, Picture(mime, data, width, height)
