"""A session's name, model and approval mode."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, SessionRecord, emit, warn
from mahtab_tui.llm.names import model_label
from mahtab_tui.settings.model import ApprovalMode, Settings

if TYPE_CHECKING:
    from mahtab_tui.settings.approval_rules import Rule

_PERMISSION_NOTICES: dict[ApprovalMode, str] = {
    "auto": "The model's code now runs without asking, with your permissions: it can read, change and delete whatever you can.",
    "review": "The model's code now runs at once, before you see it, with your permissions. Its changes to variables are shown and can be undone; "
    "what it does to files, programs and over the network cannot.",
}
_PLANNING_NOTICE = "The model now only reads and answers with a plan. /plan run has it carried out, /plan ends planning."
PLAN_REFUSAL = "This is a plan: nothing changes until the user accepts it."
_PLAN_NOTICE = "/plan run carries out this plan. /plan ends planning."


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
