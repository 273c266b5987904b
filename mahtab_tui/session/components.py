"""Builds the components of a session."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.logger import setup_logging
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import Decision
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.usage import Spending
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.agent_calls import JoinedAgents
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.cells import Cells, Undo
from mahtab_tui.session.inbox import Entries, Inbox
from mahtab_tui.session.info import SessionInfo, UserRequests
from mahtab_tui.session.kernel import CellThread, SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.models import Models
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.searches import Searches, ServerCalls
from mahtab_tui.session.sharing import Broadcast, SharingError, past_for_watchers, running_sessions
from mahtab_tui.session.variables import PrivateNames, VariableHistory
from mahtab_tui.store.database import locked_sessions

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.session.info import Frontend
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.session.session import Session
    from mahtab_tui.settings.model import Settings

_PARTS = {
    "program": ("How to work here", ""),
    "instructions": ("Your instructions", "/instructions"),
    "skills": ("Names of skills", "/skills"),
    "loaded-skills": ("Loaded skills", "/skills"),
    "mcp-servers": ("MCP servers", "/mcp"),
    "earlier-conversation": ("Summary of earlier questions", "/compact"),
    "words": ("Questions, answers, code", "/compact, or m on it"),
    "outputs": ("Outputs of cells", "/compact, or m on it"),
    "variables": ("Variables", "del, or call it _name"),
    "attachments": ("Attached texts", "m in the entry's menu"),
    "pictures": ("Pictures", "m in the entry's menu"),
}
"""Names, and ways to shorten."""


class ContextPart(NamedTuple):
    """A part of what is sent. advice: how to shorten it, if possible."""

    name: str
    tokens: int
    advice: str


class ContextUse(NamedTuple):
    """How the model's window is used. room: the tokens that may be sent."""

    room: int
    parts: tuple[ContextPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def context_use(room: int, sizes: Mapping[str, int]) -> ContextUse:
    parts = (
        ContextPart(name, sizes[key], advice)
        for key, (name, advice) in _PARTS.items()
        if sizes.get(key)
    )
    return ContextUse(room, tuple(parts))


def remove_leftovers() -> None:
    """Remove unused lock files and sockets. Waits for sockets."""
    locked_sessions()
    with contextlib.suppress(SharingError):
        running_sessions()


class Components:
    """Builds the components in dependency order: a new one uses only those above it."""

    settings: Settings
    past: Sequence[Record]
    frontend: Frontend
    by_program: bool
    no_trace: bool
    kernel: Kernel

    def __init__(self, session: Session) -> None:
        backend = session.backend.get()
        self.settings = settings = session.settings
        self.past = past = session.past
        self.frontend = session.frontend
        self.by_program = session.by_program
        self.no_trace = session.no_trace
        self.make_kernel = backend.make_kernel
        self.log, self.prompt = setup_logging(backend.store)
        log = self.log
        self.secrets = Secrets(settings.secrets)
        log.addFilter(MaskingFilter(self.secrets))
        for begin in session.listeners:
            begin(log)
        same_kernel = backend.kernel.was_reattached
        self.prompt.resume(past, same_kernel=same_kernel)
        self.masked = MaskedKernel(backend.kernel, self.secrets)
        self.kernel = self.masked
        self.info = SessionInfo(log, settings, session.name, session.first_model.result())
        self.inbox = Inbox(log)
        self.approvals: UserRequests[Decision] = UserRequests()
        self.broadcast = Broadcast(past_for_watchers(past, same_kernel=same_kernel))
        log.addHandler(self.broadcast)
        self.variable_history = VariableHistory(past)
        log.addHandler(self.variable_history)
        self.private = PrivateNames(self)
        self.models = Models(self)
        self.spending = Spending(lambda: settings.max_usd)
        self.spending.resume(past)
        self.knowledge = Knowledge(self)
        self.searches = Searches(self)
        self.namespace_store = NamespaceStore(log, self.kernel)
        self.cells = Cells(self)
        self.undo = Undo(self)
        pictures = backend.store.pictures if backend.store is not None else lambda cell: ()
        self.attachments = Attachments(self.kernel, pictures, self.private)
        self.agent = SessionAgent(self)
        self.entries = Entries(log)
        self.joined_agents = JoinedAgents(self)
        self.servers = ServerCalls(self) if settings.mcp else None
        self.host = SessionKernelHost(self)
        self.notebook: Notebook | None = None
        if session.notebook_file is not None:
            from mahtab_tui.session.notebooks import Notebook

            self.notebook = Notebook(self, session.notebook_file, session.all_records)
            log.addHandler(self.notebook)
        self.cell_thread = CellThread(self, session.ready, session.files)
