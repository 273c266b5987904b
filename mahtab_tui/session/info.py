"""A session's name and model, its backend, its frontend, and its requests to the user."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from mahtab_tui.bus.records import Approval, Decision, Notice, SessionRecord, emit, warn
from mahtab_tui.llm.names import model_label
from mahtab_tui.settings.model import ApprovalMode, Settings

if TYPE_CHECKING:
    from mahtab_tui.bus.logger import Store
    from mahtab_tui.kernel.base import Kernel
    from mahtab_tui.settings.approval_rules import Rule
    from mahtab_tui.store.session_lock import SessionLock

_PERMISSION_NOTICES: dict[ApprovalMode, str] = {
    "auto": "The model's code now runs without asking, with your permissions: it can read, change and delete whatever you can.",
    "review": "The model's code now runs at once, before you see it, with your permissions. Its changes to variables are shown and can be undone; "
    "what it does to files, programs and over the network cannot.",
}
_PLANNING_NOTICE = "The model now only reads and answers with a plan. /plan run has it carried out, /plan ends planning."
_PLAN_NOTICE = "/plan run carries out this plan. /plan ends planning."
_APPROVAL_STATES = {
    "run": "run",
    "all": "run",
    "keep": "run",
    "skip": "skipped",
    "stop": "stopped",
}
"""The state of an approval's record, by the action that the user chose."""

T = TypeVar("T")


class SessionInfo:
    """The session's name, model and approval mode. Logs each change."""

    def __init__(self, log: logging.Logger, settings: Settings, name: str, model: str) -> None:
        self._log = log
        self._settings = settings
        self.name = name
        self.model = model
        """Full name, with the provider."""
        self.party = model_label(self.model)
        self.approval: ApprovalMode = settings.approval
        self.planning = False
        """Whether the model may only read, and answers with a plan."""
        self._warned: set[ApprovalMode] = set()

    @property
    def rules(self) -> tuple[Rule, ...]:
        if not self._settings.approval_rules:
            return ()
        from mahtab_tui.settings.approval_rules import parse_rules

        return parse_rules(self._settings.approval_rules)

    def set_model(self, model: str) -> None:
        """Set the model by its full name, and log it."""
        self.model = model
        self.party = model_label(model)
        self._settings.change("model", model)
        self.report()

    def set_approval(self, approval: ApprovalMode) -> None:
        """Set the approval mode. Code that already waits for approval keeps waiting."""
        self.approval = approval
        self._settings.change("approval", approval)
        self.report()
        self.warn_about_permissions()

    def set_planning(self, planning: bool) -> None:
        """Begin or end planning. Code that already runs is not stopped."""
        self.planning = planning
        self.report()
        if planning:
            emit(self._log, Notice(_PLANNING_NOTICE))

    def offer_plan(self, answer: str) -> None:
        """Say how a plan is carried out, below the answer that proposes it."""
        if not self.planning:
            return
        from mahtab_tui.bus.plans import find_steps

        if find_steps(answer):
            emit(self._log, Notice(_PLAN_NOTICE))

    def warn_about_permissions(self) -> None:
        """Tell the user, once per approval mode, what it allows."""
        if self.approval in _PERMISSION_NOTICES and self.approval not in self._warned:
            self._warned.add(self.approval)
            warn(self._log, _PERMISSION_NOTICES[self.approval])

    def report(self) -> None:
        """Log the name, the model and the approval mode."""
        approval = "plan" if self.planning else self.approval
        emit(self._log, SessionRecord(name=self.name, model=self.model, approval=approval))


class Frontend(Protocol):
    """The user interface. Called from the session's threads, never from its own."""

    can_ask: bool
    """Whether a user can answer requests on the bus."""
    belongs_to_agent: bool
    """Whether the session is an agent's own: nobody watches it or asks a model in it, and the agent's
    code may end it."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program; returns its exit code. Raises `RuntimeError` if there is
        no terminal."""

    def leave(self) -> None:
        """Quit, because code called `exit()`."""


class HeadlessFrontend:
    """The frontend of a session without a screen."""

    can_ask = False
    belongs_to_agent = False

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        raise RuntimeError("This needs a terminal, and the session has no screen.")

    def leave(self) -> None:
        """Do nothing: there is no screen to close."""


MakeKernel = Callable[[str], "Kernel"]
"""Creates a kernel at an address; empty for this machine. Raises `KernelError`."""


class SessionBackend(NamedTuple):
    """Kernel, store and lock of a session."""

    kernel: Kernel
    store: Store | None = None
    """None if nothing is saved."""
    claim: SessionLock | None = None
    make_kernel: MakeKernel | None = None
    """None if the session must keep its kernel."""

    def release(self) -> None:
        if self.claim is not None:
            self.claim.release()


class Permission(NamedTuple):
    """Whether code of a model or of an agent may run."""

    action: Literal["allow", "lock", "ask", "deny"]
    """`lock`: run it in a locked fork, and ask if it needs more."""
    reason: str = ""
    """Why the user is asked, as a clause; or why it may not run, as a sentence."""


class UserRequests(Generic[T]):
    """Requests to the user by id, made on one thread and answered on another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[T]] = {}
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        return str(next(self._numbers))

    def wait(self, request: str, is_withdrawn: Callable[[], bool] = lambda: False) -> T:
        """Wait for the answer to a request.

        Args:
            request: Its id.
            is_withdrawn: Asked once, under the lock: whether there is no need to wait any more.

        Raises:
            CancelledError: The request was withdrawn.
        """
        with self._lock:
            question = self._open.setdefault(request, Future())
            # Checked here, so that a cancellation between the caller's last check and this
            # registration is not missed.
            if is_withdrawn():
                question.cancel()
        try:
            return question.result()
        finally:
            with self._lock:
                self._open.pop(request, None)

    def answer(self, request: str, answer: T) -> bool:
        """Answer a request, even before `wait`; False if it was already answered."""
        with self._lock:
            question = self._open.setdefault(request, Future())
            if question.done():
                return False
            question.set_result(answer)
            return True

    def cancel(self, request: str) -> None:
        """Withdraw a request, even before `wait`."""
        with self._lock:
            self._open.setdefault(request, Future()).cancel()

    def cancel_all(self) -> None:
        with self._lock:
            for question in self._open.values():
                question.cancel()

    @property
    def waiting(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(request for request, question in self._open.items() if not question.done())


class Cancellation:
    """Cancels something that several threads work on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            stop = self._stop
        # Called without the lock, because it may cancel something else or wait.
        if stop is not None:
            stop()

    def on_cancel(self, stop: Callable[[], object] | None) -> None:
        """Set what `cancel` calls. It is called at once if `cancel` was called before."""
        with self._lock:
            self._stop = stop
            is_cancelled = self.cancelled
        if is_cancelled and stop is not None:
            stop()


def ask_approval(
    log: logging.Logger,
    approvals: UserRequests[Decision],
    approval: Approval,
    is_withdrawn: Callable[[], bool] = lambda: False,
) -> Decision | None:
    """Ask the user, and log the decision.

    Args:
        log: The session's bus.
        approvals: The requests by which the screen answers.
        approval: The record of the request, without a state.
        is_withdrawn: Whether there is no need to ask any more.

    Returns:
        The decision; None if the request was withdrawn.
    """
    emit(log, approval.changed(state="waiting"))
    try:
        decision = approvals.wait(approval.request, is_withdrawn)
    except CancelledError:
        emit(log, approval.changed(state="stopped"))
        return None

    state = _APPROVAL_STATES[decision.action]
    text = approval.text
    if state == "run" and decision.code is not None and decision.code != text:
        state = "edited"
        text = decision.code
    emit(log, approval.changed(text=text, state=state, reason=decision.reason))
    return decision
