"""A session's name, model, and approval mode."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, Session, emit
from mahtab_tui.llm.providers import model_label
from mahtab_tui.settings.model import ApprovalMode, Settings

if TYPE_CHECKING:
    from mahtab_tui.settings.approval_rules import Rule

_RIGHTS: dict[ApprovalMode, str] = {
    "auto": "The model's code now runs without asking, with your permissions: it can read, change and delete whatever you can.",
    "review": "The model's code now runs at once, before you see it, with your permissions. Its changes to variables are shown and can be undone; "
    "what it does to files, programs and over the network cannot.",
}
_PLANNING = "The model now only reads and answers with a plan. /plan run has it carried out, /plan ends planning."


class SessionInfo:
    """Holds the session's name, model and approval mode; logs each change."""

    def __init__(self, log: logging.Logger, settings: Settings, name: str, model: str) -> None:
        """model: a full name."""
        self._log = log
        self._settings = settings
        self.name = name
        self.model = model
        """The model's full name, with its provider."""
        self.party = model_label(self.model)
        """The model's short name, shown beside its answers."""
        self.approval: ApprovalMode = settings.approval
        self.planning = False
        """Whether the model may only read, and answers with a plan."""
        self._said: set[ApprovalMode] = set()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The user's rules for code."""
        if not self._settings.approval_rules:
            return ()
        from mahtab_tui.settings.approval_rules import rules_of

        return rules_of(self._settings.approval_rules)

    def set_model(self, model: str) -> None:
        """Change the model. model: a full name."""
        self.model, self.party = model, model_label(model)
        self._settings.change("model", model)
        self.tell()

    def set_approval(self, approval: ApprovalMode) -> None:
        """Change the approval mode. Code that waits already goes on waiting."""
        self.approval = approval
        self._settings.change("approval", approval)
        self.tell()
        self.say_rights()

    def set_planning(self, planning: bool) -> None:
        """Let the model only plan, or act again. Code that runs already goes on."""
        self.planning = planning
        self.tell()
        if planning:
            emit(self._log, Notice(_PLANNING))

    def say_rights(self) -> None:
        """Tell the user, once for each approval mode, what it allows the model's code to do."""
        if self.approval in _RIGHTS and self.approval not in self._said:
            self._said.add(self.approval)
            emit(self._log, Notice(_RIGHTS[self.approval], level="warning"))

    def tell(self) -> None:
        emit(
            self._log,
            Session(
                name=self.name,
                model=self.model,
                approval="plan" if self.planning else self.approval,
            ),
        )
