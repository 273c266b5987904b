"""A session's name and model, its backend, its frontend, and its requests to the user."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Approval, Decision, Notice, Session, emit, warn
from mahtab_tui.kernel.base import Change, ChangeKind, Variable
from mahtab_tui.llm.providers import model_label
from mahtab_tui.settings.model import ApprovalMode, Settings

if TYPE_CHECKING:
    from mahtab_tui.bus.logger import Store
    from mahtab_tui.kernel.base import Kernel
    from mahtab_tui.settings.approval_rules import Rule
    from mahtab_tui.store.database import SessionLock

_PERMISSION_NOTICES: dict[ApprovalMode, str] = {
    "auto": "The model's code now runs without asking, with your permissions: it can read, change and delete whatever you can.",
    "review": "The model's code now runs at once, before you see it, with your permissions. Its changes to variables are shown and can be undone; "
    "what it does to files, programs and over the network cannot.",
}
_PLANNING_NOTICE = "The model now only reads and answers with a plan. /plan run has it carried out, /plan ends planning."


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
        self.model, self.party = model, model_label(model)
        self._settings.change("model", model)
        self.report()

    def set_approval(self, approval: ApprovalMode) -> None:
        """Code that already waits keeps waiting."""
        self.approval = approval
        self._settings.change("approval", approval)
        self.report()
        self.warn_about_permissions()

    def set_planning(self, planning: bool) -> None:
        """Code that already runs is not stopped."""
        self.planning = planning
        self.report()
        if planning:
            emit(self._log, Notice(_PLANNING_NOTICE))

    def warn_about_permissions(self) -> None:
        """Tell the user, once per approval mode, what it allows."""
        if self.approval in _PERMISSION_NOTICES and self.approval not in self._warned:
            self._warned.add(self.approval)
            warn(self._log, _PERMISSION_NOTICES[self.approval])

    def report(self) -> None:
        approval = "plan" if self.planning else self.approval
        emit(self._log, Session(name=self.name, model=self.model, approval=approval))


class Frontend(Protocol):
    """The user interface. Called from the session's threads, never from its own."""

    can_ask: bool
    """Whether a user can answer requests on the bus."""
    belongs_to_agent: bool
    """Whether an agent's code may end the session."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        """Give the terminal to a program; returns its exit code. Raises `RuntimeError` if there is
        no terminal."""

    def leave(self) -> None:
        """Quit, because code called `exit()`."""


class HeadlessFrontend:
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


def change_row(change: Change, before: Variable | None) -> records.Change:
    """Convert a change for the `namespace` record."""
    now = change.variable
    if now is None:
        return records.Change(change.name, change.change)
    row = variable_row(now, change.change)
    if before is not None and (before.type, before.summary) != (now.type, now.summary):
        row = row._replace(was_type=before.type, was=before.summary)
    return row._replace(columns=change.columns or None)


def variable_row(variable: Variable, change: ChangeKind = "added") -> records.Change:
    name, type, summary, kind = variable.name, variable.type, variable.summary, variable.kind
    return records.Change(name, change, type, summary, kind, size=variable.size or None)


class Permission(NamedTuple):
    """Whether code of a model or of an agent may run."""

    action: Literal["allow", "lock", "ask", "deny"]
    """`lock`: run it in a locked fork, and ask if it needs more."""
    reason: str = ""
    """Why the user is asked, as a clause; or why it may not run, as a sentence."""


T = TypeVar("T")


class UserRequests(Generic[T]):
    """Requests to the user by id, made on one thread and answered on another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[T]] = {}
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        return str(next(self._numbers))

    def wait(self, request: str, withdrawn: Callable[[], bool] = lambda: False) -> T:
        """Wait for the answer, unless `withdrawn()`. Raises `CancelledError`."""
        with self._lock:
            question = self._open.setdefault(request, Future())
            if withdrawn():
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
            self.cancelled, stop = True, self._stop
        if stop is not None:
            stop()

    def on_cancel(self, stop: Callable[[], object] | None) -> None:
        """Set what `cancel` calls; it is called at once if that came before."""
        with self._lock:
            self._stop, cancelled = stop, self.cancelled
        if cancelled and stop is not None:
            stop()


_STATES = {"run": "run", "all": "run", "keep": "run", "skip": "skipped", "stop": "stopped"}


def ask_approval(
    log: logging.Logger,
    approvals: UserRequests[Decision],
    about: Approval,
    withdrawn: Callable[[], bool] = lambda: False,
) -> Decision | None:
    """Ask the user, and log the decision; None if the request was withdrawn."""
    emit(log, about.changed(state="waiting"))
    try:
        decision = approvals.wait(about.request, withdrawn)
    except CancelledError:
        emit(log, about.changed(state="stopped"))
        return None
    state, text = _STATES[decision.action], about.text
    if state == "run" and decision.code not in (None, text):
        state, text = "edited", decision.code
    emit(log, about.changed(text=text, state=state, reason=decision.reason))
    return decision
