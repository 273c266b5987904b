"""Runs the model's code: first decides whether it may, by rules or by asking the user, and then has its
changes reviewed, if the user wants that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.agent.host import ApprovalRequest, ExecutionResult
from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import PICTURE_MIMES, Approval, Decision, Notice, Review, emit, warn
from mahtab_tui.bus.values import NotRestored, Status, describe_files
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.restorations import inverted_changes
from mahtab_tui.kernel.values import CellResult, Lock
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.prompts import edited_note, undone_note
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.descriptions import VariableDescriptions
from mahtab_tui.session.output_doubts import output_doubts
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.step_pictures import StepPictures
from mahtab_tui.session.undo_control import UndoControl, name_cells
from mahtab_tui.session.user_requests import Permission, ask_approval

if TYPE_CHECKING:
    from mahtab_tui.session.code_rules import CodeRules

_REVIEW_STATES = {"keep": "kept", "all": "kept", "undo": "undone", "stop": "stopped"}
"""The state of a review's record, by the action that the user chose."""


@dataclass
class _Clearance:
    """What was decided about the next code."""

    private: tuple[str, ...] = ()
    """The private variables that it uses, which the user was asked about."""
    is_reviewed: bool = False
    """Whether its changes are reviewed."""
    is_approved: bool = False
    """Whether the user has approved it."""
    fork_result: CellResult | None = None
    """Its result if it has already run in a locked fork."""


class _Effects(NamedTuple):
    """What code has done besides printing, as the model gets it."""

    variables: str = ""
    """Describes the variables and files that it has changed."""
    pictures: Sequence[str] = ()
    """The ids of the figures that it has drawn."""
    doubts: Sequence[str] = ()
    """Sentences about what may be wrong with its result."""


class ModelCode:
    """Decides about the model's code, and runs it.

    The methods wait; the turn's thread calls them.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        cells: Cells,
        undo: UndoControl,
        private: PrivateNames,
        descriptions: VariableDescriptions,
        step_pictures: StepPictures,
        cancelled: threading.Event,
        is_nested: Callable[[], bool],
        sees_pictures: Callable[[], bool],
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            cells: Runs the code.
            undo: Takes its changes back.
            private: The private variables, which the user is asked about.
            descriptions: Describes what the code has changed, for the model.
            step_pictures: Keeps the figures that it draws, for the model.
            cancelled: Set when the turn must end; also set here if the user stops it.
            is_nested: Returns whether a cell waits for the answer, so that code runs inside it.
            sees_pictures: Returns whether the model is known to accept pictures.
        """
        self._runtime = runtime
        self._cells = cells
        self._undo = undo
        self._private = private
        self._descriptions = descriptions
        self._step_pictures = step_pictures
        self._cancelled = cancelled
        self._is_nested = is_nested
        self._sees_pictures = sees_pictures
        self._clearance = _Clearance()
        self._open_request: str | None = None
        """The id of the request that the user has not answered."""

    @cached_property
    def rules(self) -> CodeRules:
        """The rules by which code may run, loaded with the first code."""
        from mahtab_tui.session.code_rules import CodeRules

        return CodeRules(self._runtime.info, self._runtime.kernel, self._cells.still_means_same)

    # Decisions

    def decide(self, request: ApprovalRequest) -> Decision:
        """Decide whether code may run: by the settings and rules, or by asking the user."""
        log = self._runtime.log
        party = self._runtime.info.party
        permission = self._permit(request)
        record = request.record(party)
        if permission.action == "allow":
            return Decision("run")
        if permission.action == "deny":
            reason = permission.reason
            emit(log, record.changed(state="refused", reason=reason))
            warn(log, f"Code from {party} was not run. {reason}")
            return Decision("refuse", reason=reason)

        decision = self.ask(record.changed(why=permission.reason or None))
        self._clearance.is_approved = decision is not None and decision.action in ("run", "all")
        return self._apply_all(decision or Decision("stop"))

    def _permit(self, request: ApprovalRequest) -> Permission:
        """Decide about code without asking; read-only code may run here."""
        # Loaded with the first code, as the rules are.
        from mahtab_tui.session.code_rules import CodeRequest

        info = self._runtime.info
        is_planning = info.planning
        private_names = self._private.uses(request.code)
        self._clearance = _Clearance(private_names)

        review_obstacle = self._review_obstacle()
        is_trusted = info.approval != "ask" and not review_obstacle
        code_request = CodeRequest(
            request.code,
            author=info.party,
            private=private_names,
            trusted=is_trusted,
            planning=is_planning,
            can_ask=self._runtime.frontend.can_ask,
        )
        permission = self.rules.clear_code(code_request, partial(self._run_in_fork, request))
        if is_planning:
            return permission
        if permission.action == "allow" and is_trusted:
            self._clearance.is_reviewed = info.approval == "review"
            info.warn_about_permissions()
        if permission.action == "ask" and not permission.reason:
            return Permission("ask", review_obstacle)
        return permission

    def _review_obstacle(self) -> str:
        """Return why changes cannot be reviewed, although they should be; empty otherwise."""
        if self._runtime.info.approval != "review":
            return ""
        if self._is_nested():
            return "another cell waits for this answer"
        return self._runtime.kernel.undo_unavailable_reason

    def ask(self, approval: Approval) -> Decision | None:
        """Ask the user, and wait; None if the request was withdrawn, which `withdraw` does."""
        self._open_request = approval.request
        try:
            return ask_approval(
                self._runtime.log, self._runtime.approvals, approval, self._cancelled.is_set
            )
        finally:
            self._open_request = None

    def withdraw(self) -> None:
        """Withdraw the open request. Any thread may call it."""
        request = self._open_request
        if request is not None:
            self._runtime.approvals.cancel(request)

    def _apply_all(self, decision: Decision) -> Decision:
        """Run all code without asking from now on, if the user has chosen that."""
        if decision.action == "all":
            self._runtime.info.set_approval("auto")
        return decision

    # Running

    def execute(self, request: ApprovalRequest, code: str, question: str = "") -> ExecutionResult:
        """Run code that `decide` has allowed, and let the user review its changes if that is set.

        Args:
            request: The request for approval.
            code: The code to run, which the user may have edited.
            question: The question that the result must fit; empty if it need not fit one.
        """
        # Read-only code has already run in a locked fork, to find out what it needs.
        result = self._clearance.fork_result
        self._clearance.fork_result = None
        if result is None:
            # Only code that the user has approved may change protected files.
            lock: Lock | None = None if self._clearance.is_approved else "guard"
            result = self._run(request, code, lock)

        has_ended = result.status in (Status.KILLED, Status.DIED) or self._cancelled.is_set()
        decision = Decision("keep")
        if self._clearance.is_reviewed and not has_ended:
            decision = self._review(result.cell, request.request)
        if decision.action == "stop":
            self._cancelled.set()

        is_undone = decision.action == "undo"
        effects = _Effects()
        if not has_ended and not is_undone:
            effects = self._describe_effects(request, code, result, question)
        return ExecutionResult(
            step=request.step,
            block=request.block,
            cell=result.cell,
            code=code,
            output=make_encodable(self._visible_output(result)),
            is_error=result.status is not Status.OK,
            status=str(result.status),
            note=_note_for_model(request, code, decision),
            rewritten=result.rewritten,
            undone=is_undone,
            variables=effects.variables,
            drew=any(display.mime in PICTURE_MIMES for display in result.displays),
            pictures=effects.pictures,
            doubts=effects.doubts,
        )

    def _visible_output(self, result: CellResult) -> str:
        """Return what the model may read of a cell's output, and how the cell has ended."""
        is_private = self._private.is_private_cell(result.cell)
        output = PRIVATE_CELL if is_private else result.output
        if result.detail:
            output = f"{output}\n{result.detail}".strip()
        return output

    def _describe_effects(
        self, request: ApprovalRequest, code: str, result: CellResult, question: str
    ) -> _Effects:
        """Describe what code has done besides printing, for the model."""
        variables = self._describe_changed(result, code)
        if self._private.is_private_cell(result.cell):
            return _Effects(variables)
        pictures = self._keep_pictures(request, result)
        doubts: Sequence[str] = ()
        if result.status is Status.OK:
            code_doubts = self._descriptions.doubts_about(code, result.output, question)
            doubts = (*code_doubts, *output_doubts(result.output))
        return _Effects(variables, pictures, doubts)

    def _describe_changed(self, result: CellResult, code: str) -> str:
        """Describe the variables that code has changed; empty if the kernel does not answer."""
        variables = ""
        with suppress(KernelError):
            variables = self._descriptions.for_changes(
                result.changes, result.output, code, result.cell
            )
        if not self._private.is_private_cell(result.cell):
            variables = "\n".join(filter(None, (variables, describe_files(result.files))))
        return make_encodable(variables)

    def _keep_pictures(self, request: ApprovalRequest, result: CellResult) -> Sequence[str]:
        """Keep the figures that code has drawn, if the model gets them; return their ids."""
        if not self._runtime.settings.return_pictures or not self._sees_pictures():
            return ()
        return self._step_pictures.add(request.turn, request.step, result.displays)

    def _run(self, request: ApprovalRequest, code: str, lock: Lock | None) -> CellResult:
        """Run code as a cell.

        Args:
            lock: How a fork confines it; None if the user has approved it.
        """
        return self._cells.run(
            code,
            origin="assistant",
            party=self._runtime.info.party,
            is_nested=self._is_nested,
            is_cancelled=self._cancelled.is_set,
            allowed=self._clearance.private,
            lock=lock,
            turn=request.turn,
            step=request.step,
            block=request.block,
        )

    def _run_in_fork(self, request: ApprovalRequest, lock: Lock) -> str:
        """Return what code needs beyond the lock, as a clause.

        If nothing, `execute` uses its result.
        """
        result = self._run(request, request.code, lock)
        self._clearance.fork_result = None if result.needs else result
        return result.needs

    # Reviews

    def _review(self, cell: int, request: str) -> Decision:
        """Wait until the user keeps or undoes what a cell and those after it have changed.

        `keep` if they changed nothing.
        """
        log = self._runtime.log
        while True:
            review = Review(request=f"{request}.review", party=self._runtime.info.party)
            review = self._describe_changes(cell, review)
            if not (review.changes or review.not_restored or review.files):
                return Decision("keep")

            emit(log, review.changed(state="waiting"))
            decision = self._wait_for_review(review)
            # If the undo failed, the user decides again about what there is now.
            if decision.action == "undo" and not self._undo_cells(review.cells):
                continue
            state = _REVIEW_STATES[decision.action]
            emit(log, review.changed(state=state, reason=decision.reason))
            return self._apply_all(decision)

    def _wait_for_review(self, review: Review) -> Decision:
        """Return the user's decision; `stop` if the request was withdrawn."""
        self._open_request = review.request
        try:
            return self._runtime.approvals.wait(review.request, self._cancelled.is_set)
        except CancelledError:
            return Decision("stop")
        finally:
            self._open_request = None

    def _describe_changes(self, cell: int, review: Review) -> Review:
        """Add to a review what a cell and those after it have changed."""
        review = review.changed(cells=self._undo.cells_from(cell))
        try:
            restoration = self._runtime.kernel.preview_undo(cell)
        except KernelError as error:
            unknown = NotRestored("", f"The changes are unknown. {error}")
            return review.changed(not_restored=(unknown,))
        return review.changed(
            changes=inverted_changes(restoration),
            not_restored=restoration.not_restored,
            files=restoration.files,
        )

    def _undo_cells(self, cells: tuple[int, ...]) -> bool:
        """Undo cells, unless others have run since, whose changes the user has not seen.

        Return whether they were undone.
        """
        log = self._runtime.log
        cells_now = self._undo.cells_from(cells[0])
        if cells_now != cells:
            text = f"Another cell has run since. An undo would now cover {name_cells(cells_now)}."
            warn(log, text)
            return False
        try:
            self._undo.undo(cells[0], during_turn=True)
        except KernelError as error:
            emit(log, Notice(f"Nothing was undone. {error}", level="error"))
            return False
        return True


def _note_for_model(request: ApprovalRequest, code: str, decision: Decision) -> str:
    """Return what the model is told about code that has run; empty if nothing is special."""
    if decision.action == "undo":
        return undone_note(request.block, decision.reason)
    if code != request.code:
        return edited_note(request.block)
    return ""
