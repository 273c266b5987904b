"""A session's name, model, and approval mode."""

from __future__ import annotations

import logging

from mahtab_tui.bus.records import Session, emit
from mahtab_tui.llm.providers import default_model, full_name, model_label
from mahtab_tui.settings.model import ApprovalMode, Settings


class Profile:
    """Holds the session's name, model and approval mode; logs each change."""

    def __init__(self, log: logging.Logger, settings: Settings, name: str) -> None:
        self._log = log
        self._settings = settings
        self.name = name
        self.model = full_name(settings.model or default_model(), settings.provider)
        """The model's full name, with its provider."""
        self.party = model_label(self.model)
        """The model's short name, shown beside its answers."""
        self.approval: ApprovalMode = settings.approval

    def rename(self, name: str) -> None:
        self.name = name
        self.tell()

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

    def tell(self) -> None:
        emit(self._log, Session(name=self.name, model=self.model, approval=self.approval))
