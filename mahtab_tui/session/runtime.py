"""What most parts of a session depend on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Decision, Record
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.session.frontend import Frontend
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.session.user_requests import UserRequests
from mahtab_tui.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """The bus, the kernel and the settings of a session, and how it asks the user."""

    log: logging.Logger
    """The bus. Its records are masked before any handler gets them."""
    secrets: Secrets
    """What is masked."""
    settings: Settings
    """The user's settings, which may change during the session."""
    kernel: Kernel
    """Its results are masked."""
    info: SessionInfo
    """What changes during the session, such as its model and its rules."""
    approvals: UserRequests[Decision]
    """Code, actions and changes that wait for the user's decision."""
    frontend: Frontend
    """The user interface."""
    past: Sequence[Record]
    """The records of the resumed session, the oldest first; empty for a new session."""
    by_program: bool
    """Whether a program provides the agent. `input()` then fails."""
    no_trace: bool
    """Whether nothing is written to disk."""
