"""The session's side of the model's turns: runs code, asks the user, and reports what happened."""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mahtab_tui.agent.host import ApprovalRequest, ExecutionResult, QuestionContext
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import (
    AssistantChat,
    Decision,
    Notice,
    NotRestored,
    Record,
    Review,
    UserAttachment,
    UserChat,
    emit,
)
from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.kernel.base import OUTPUT_LIMIT, Kernel, KernelError
from mahtab_tui.kernel.cells import inverted_changes
from mahtab_tui.kernel.values import CellResult, Lock, Status
from mahtab_tui.llm.messages import make_encodable
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.llm.prompts import (
    PLANNING,
    edited_note,
    render_context,
    render_surroundings,
    undone_note,
)
from mahtab_tui.llm.usage import Spending
from mahtab_tui.session.attachments import Attachments, render_attachment
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.info import Permission, RequestCancelled, SessionInfo, UserRequests
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.undo import Undo, name_cells, not_restored_rows, restored_rows
from mahtab_tui.session.variable_context import describe_changes, describe_for_model

if TYPE_CHECKING:
    from mahtab_tui.bus.prompt import PromptHandler
    from mahtab_tui.session.code_rules import CodeRules

_REVIEW_STATES = {"keep": "kept", "all": "kept", "undo": "undone", "stop": "stopped"}
_APPROVAL_STATES = {"run": "run", "all": "run", "skip": "skipped", "stop": "stopped"}
"""The state of a request after each of the user's decisions."""


class Reviews:
    """Asks the user whether to keep the changes made by the model's cells."""

    def __init__(self, log: logging.Logger, kernel: Kernel, undo: Undo) -> None:
        self._log = log
        self._kernel = kernel
        self._undo = undo

    def review(
        self, cell: int, request: str, party: str, wait: Callable[[str], Decision]
    ) -> Decision:
        """Show what a cell has changed, and wait until the user keeps or undoes it; returns `keep`
        at once if it changed nothing.

        request: the id of the request. wait: returns the user's decision. If other cells have run
        since, an undo would affect them too, so the user is asked about all of them.
        """
        while True:
            asked = self._changes(cell, Review(request=f"{request}.review", party=party))
            if not (asked.changes or asked.not_restored):
                return Decision("keep")
            emit(self._log, asked.changed(state="waiting"))
            decision = wait(asked.request)
            if decision.action == "undo" and not self._undo_cells(asked.cells):
                continue
            state = _REVIEW_STATES[decision.action]
            emit(self._log, asked.changed(state=state, reason=decision.reason))
            return decision

    def _changes(self, cell: int, about: Review) -> Review:
        """Add the changes made by a cell and those after it."""
        cells = self._undo.cells_from(cell)
        try:
            restoration = self._undo.preview(cell)
        except KernelError as error:
            return about.changed(
                cells=cells, not_restored=(NotRestored("", f"The changes are unknown. {error}"),)
            )
        return about.changed(
            cells=cells,
            changes=restored_rows(inverted_changes(restoration)),
            not_restored=not_restored_rows(restoration),
        )

    def _undo_cells(self, cells: tuple[int, ...]) -> bool:
        """Undo cells; returns False if others have run since, whose changes were not shown to the
        user."""
        now = self._undo.cells_from(cells[0])
        if now != cells:
            emit(
                self._log,
                Notice(
                    f"Another cell has run since. An undo would now cover {name_cells(now)}.",
                    level="warning",
                ),
            )
            return False
        try:
            self._undo.undo_during_turn(cells[0])
        except KernelError as error:
            emit(self._log, Notice(f"Nothing was undone. {error}", level="error"))
            return False
        return True


_PLAN = "This is a plan: nothing changes until the user accepts it."
_RECENT = 10
"""Number of recent cells whose variables are described to the model."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_MOST_DATA = 50_000
"""Maximum characters of variable descriptions in which words of a question are searched."""
_COMMON = frozenset(
    "what which with from that this have does many much there were the and for are how was all who why can you not head row column thi ha doe clas".split()
)
"""Words in questions that say nothing about data."""


@dataclass(eq=False, repr=False)
class TurnHost:
    """The `agent.host.AgentHost` of a session."""

    log: logging.Logger
    _kernel: Kernel
    _cells: Cells
    _undo: Undo
    _prompt: PromptHandler
    info: SessionInfo
    secrets: Secrets
    spending: Spending
    _attachments: Attachments
    approvals: UserRequests[Decision]
    _private: PrivateNames
    past: InitVar[Sequence[Record]]
    _: KW_ONLY
    can_ask: bool
    """Whether a user can answer."""

    def __post_init__(self, past: Sequence[Record]) -> None:
        self.cancelled = threading.Event()
        self.hidden = self._prompt.hidden
        self.pictures = dict(_pictures(past))
        self._allowed_private: tuple[str, ...] = ()
        """The private variables about which the user was asked for the code that runs next."""
        self._reviewed = False
        """Whether the user decides afterwards about what the code has changed that runs next."""
        self._fork_result: CellResult | None = None
        """Result of the code to execute next, if it has already run in a locked fork."""
        self.last = max(
            (record.turn or 0 for record in past if isinstance(record, UserChat | AssistantChat)),
            default=0,
        )
        """The number of the last question."""
        self._numbers = itertools.count(self.last + 1)
        self._attached: dict[int, str] = {}
        """Attachments as XML, by the numbers of questions not sent yet."""
        self._turns = 0
        self._waiting_cells = 0
        self._open_request: str | None = None
        """The id of the pending approval."""
        self._reviews = Reviews(self.log, self._kernel, self._undo)
        self._sent_data = ""
        """Descriptions of variables that the model got, in lower case."""

    @cached_property
    def rules(self) -> CodeRules:
        """The user's rules for code; loaded on first use."""
        from mahtab_tui.session.code_rules import CodeRules

        return CodeRules(self.info, self._kernel)

    @property
    def party(self) -> str:
        return self.info.party

    def new_turn(self) -> int:
        self.last = next(self._numbers)
        return self.last

    @property
    def in_turn(self) -> bool:
        """Whether a question is being answered."""
        return self._turns > 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Mark a question as being answered."""
        self._turns += 1
        try:
            with self._undo.during_turn():
                yield
        finally:
            self._turns -= 1

    @contextmanager
    def asked_from_cell(self) -> Iterator[None]:
        """Mark that a cell waits for the answer, so that the agent's cells run inside it."""
        self._waiting_cells += 1
        try:
            yield
        finally:
            self._waiting_cells -= 1

    def execute(self, request: ApprovalRequest, code: str) -> ExecutionResult:
        result, self._fork_result = self._fork_result, None
        if result is None:
            result = self._run(request, code)
        shown = PRIVATE_CELL if self._private.is_private_cell(result.cell) else result.output
        output = shown if not result.detail else f"{shown}\n{result.detail}".strip()
        ended = result.status in (Status.KILLED, Status.DIED) or self.cancelled.is_set()
        decision = (
            Decision("keep")
            if ended or not self._reviewed
            else self._reviews.review(result.cell, request.request, self.party, self._wait)
        )
        if decision.action == "stop":
            self.cancelled.set()
        undone = decision.action == "undo"
        note = "" if code == request.code else edited_note(request.block)
        return ExecutionResult(
            step=request.step,
            block=request.block,
            cell=result.cell,
            code=code,
            output=make_encodable(output),
            is_error=result.status is not Status.OK,
            status=str(result.status),
            note=undone_note(request.block, decision.reason) if undone else note,
            rewritten=result.rewritten,
            undone=undone,
            variables="" if ended or undone else make_encodable(self._describe_result(result)),
        )

    def _run(self, request: ApprovalRequest, code: str, lock: Lock | None = None) -> CellResult:
        return self._cells.run(
            code,
            origin="assistant",
            party=self.party,
            limit=OUTPUT_LIMIT,
            nested=self._waiting_cells > 0,
            given_up=self.cancelled.is_set,
            allowed=self._allowed_private,
            lock=lock,
            turn=request.turn,
            step=request.step,
            block=request.block,
        )

    def _run_in_fork(self, request: ApprovalRequest, lock: Lock) -> str:
        """Run code in a locked fork; returns what it needs beyond the lock, as a clause. `execute`
        then uses the result."""
        self._fork_result = None
        result = self._run(request, request.code, lock)
        if not result.needs:
            self._fork_result = result
        return result.needs

    def _describe_result(self, result: CellResult) -> str:
        """Describe the variables that a cell of the model made or changed."""
        try:
            return describe_changes(
                self._kernel, self._private, result.changes, printed=bool(result.output.strip())
            )
        except KernelError:
            return ""

    def _permit(self, request: ApprovalRequest) -> Permission:
        """Return whether code may run, must be asked about, or may not run; read-only code may run
        here."""
        self._fork_result, self._reviewed = None, False
        self._allowed_private = used = self._private.uses(request.code)
        cannot_review = self._cannot_review() if self.info.approval == "review" else ""
        trusted = self.info.approval != "ask" and not cannot_review
        permission = self.rules.permission(
            request.code,
            author=self.party,
            private=used,
            trusted=trusted or self.info.planning,
            can_ask=self.can_ask or self.info.planning,
        )
        if self.info.planning:
            return self._plan(request, permission)
        if permission.action == "lock":
            needs = self._run_in_fork(request, "keep")
            return self.rules.ask(needs, can_ask=self.can_ask) if needs else Permission("allow")
        if permission.action == "allow" and trusted:
            self._reviewed = self.info.approval == "review"
            self.info.warn_about_permissions()
        if permission.action == "ask" and not permission.reason:
            return Permission("ask", cannot_review)
        return permission

    def _cannot_review(self) -> str:
        """Return why changes of code cannot be reviewed after it has run, as a clause."""
        return (
            "another cell waits for this answer"
            if self._waiting_cells
            else self._kernel.cannot_undo
        )

    def _plan(self, request: ApprovalRequest, permission: Permission) -> Permission:
        """Run code of a plan in a locked fork, where all that it makes stays, or deny it."""
        if permission.action == "deny":
            return permission
        why = permission.reason or self.rules.lock_obstacle()
        why = why or self._run_in_fork(request, "discard")
        return (
            Permission("deny", f"{_PLAN} This code may not run in it: {why}.")
            if why
            else Permission("allow")
        )

    def decide(self, request: ApprovalRequest) -> Decision:
        permission, record = self._permit(request), request.record(self.party)
        if permission.action == "allow":
            return Decision("run")
        if permission.action == "deny":
            emit(self.log, record.changed(state="refused", reason=permission.reason))
            sentence = f"Code from {self.party} was not run. {permission.reason}"
            emit(self.log, Notice(sentence, level="warning"))
            return Decision("refuse", reason=permission.reason)
        asked = record.changed(why=permission.reason or None)
        emit(self.log, asked.changed(state="waiting"))
        decision = self._wait(request.request)
        state, text = _APPROVAL_STATES[decision.action], request.code
        if state == "run" and decision.code not in (None, text):
            state, text = "edited", decision.code
        emit(self.log, asked.changed(text=text, state=state, reason=decision.reason))
        return decision

    def _wait(self, request: str) -> Decision:
        try:
            self._open_request = request
            decision = self.approvals.wait(request, self.cancelled.is_set)
        except RequestCancelled:
            return Decision("stop")
        finally:
            self._open_request = None
        if decision.action == "all":
            self.info.set_approval("auto")
            self.info.warn_about_permissions()
        return decision

    def attach(
        self, question: str, turn: int, stopped: Callable[[], bool], *, commands: bool
    ) -> None:
        """Attach what a question mentions. commands: whether to run the commands it mentions."""
        elements = []
        for attachment in self._attachments.gather(question, stopped, commands=commands):
            picture = attachment.picture
            record = UserAttachment(
                escape_for_model(attachment.text),
                turn=turn,
                label=attachment.label,
                size=attachment.size,
                problem=attachment.problem,
            )
            if picture is not None:
                record = record.changed(picture=picture.id)
            if picture is None or picture.id in self.pictures:
                emit(self.log, record)
            else:
                emit(self.log, record.changed(**picture._asdict()))
                self.pictures[picture.id] = picture
            elements.append(render_attachment(record))
        self._attached[turn] = "\n".join(elements)

    def context(self, turn: int, question: str, known: str) -> QuestionContext:

        attached = self._attached.pop(turn, "")
        recent = [cell.code for cell in list(self._cells.finished)[-_RECENT:]]
        variables = describe_for_model(self._kernel, self._private, question, recent, known)
        self._sent_data = "\n".join([self._sent_data, *variables.values()]).casefold()[-_MOST_DATA:]
        sections = render_context(self._prompt.get_context(), attached)
        self._prompt.clear()
        if self.info.planning:
            sections = f"{sections}\n\n{PLANNING}".lstrip()
        return QuestionContext(sections, variables, self._mentions_data(question))

    def _mentions_data(self, question: str) -> bool:
        """Return whether the descriptions of variables contain a word of a question."""
        return any(word in self._sent_data for word in _data_words(question))

    def surroundings(self) -> str:

        info = self._kernel.info()
        return render_surroundings(info.cwd, info.python, info.executable, info.host)

    @property
    def folder(self) -> str:
        return self._kernel.info().local_folder

    def interrupt(self) -> None:
        """Withdraw the pending approval, and interrupt the model's cell."""
        if (asked := self._open_request) is not None:
            self.approvals.cancel(asked)
        if self._cells.assistant_runs:
            self._kernel.interrupt()


def _data_words(text: str) -> set[str]:
    """Return the words of a text that may name data, in lower case and singular."""
    return {word.casefold().rstrip("s") for word in _WORD.findall(text)} - _COMMON


def _pictures(past: Sequence[Record]) -> Iterator[tuple[str, EncodedPicture]]:
    """Yield the ids and pictures of earlier attachments."""
    for record in past:
        match record:
            case UserAttachment(
                picture=str(id),
                mime=str(mime),
                data=str(data),
                width=int(width),
                height=int(height),
            ):
                yield id, EncodedPicture(mime, data, width, height)
