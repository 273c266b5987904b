"""Builds the components of a session."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.logger import setup_logging
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import Decision
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.usage import Spending
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.agent_calls import JoinedAgents
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.inbox import Entries, Inbox
from mahtab_tui.session.info import SessionInfo, UserRequests
from mahtab_tui.session.kernel import CellThread, SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge, ToolCalls
from mahtab_tui.session.models import Models, Suggestions
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames, VariableHistory
from mahtab_tui.session.searches import Searches, ServerCalls
from mahtab_tui.session.sharing import Broadcast, SharingError, past_for_watchers, running_sessions
from mahtab_tui.session.undo import Undo
from mahtab_tui.store.database import locked_sessions

if TYPE_CHECKING:
    from mahtab_tui.session.notebooks import Notebook
    from mahtab_tui.session.session import Session

_PARTS = {
    "program": ("How to work here", ""),
    "instructions": ("Your instructions", "/instructions"),
    "skills": ("Names of skills", "/skills"),
    "loaded-skills": ("Loaded skills", "/unload"),
    "mcp-servers": ("MCP servers", "/mcp"),
    "earlier-conversation": ("Summary of earlier questions", "/compact"),
    "words": ("Questions, answers, code", "/compact, or m on it"),
    "outputs": ("Outputs of cells", "/compact, or m on it"),
    "variables": ("Variables", "del, or call it _name"),
    "attachments": ("Attached texts", "m in the entry's menu"),
    "pictures": ("Pictures", "m in the entry's menu"),
}
"""The name of each part, and a way to shorten it."""


class ContextPart(NamedTuple):
    name: str
    tokens: int
    advice: str
    """How to shorten it; empty if that is impossible."""


class ContextUse(NamedTuple):
    """How the model's window is used."""

    room: int
    """Number of tokens that may be sent."""
    parts: tuple[ContextPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


def context_use(room: int, sizes: Mapping[str, int]) -> ContextUse:
    """Describe sizes, from `ReplAgent.context_sizes`."""
    return ContextUse(
        room,
        tuple(
            ContextPart(name, sizes[key], advice)
            for key, (name, advice) in _PARTS.items()
            if sizes.get(key)
        ),
    )


_MAX_AGE = 24 * 60 * 60
"""Age in seconds after which temporary files and folders are removed."""


def remove_leftovers() -> None:
    """Remove unused lock files and sockets, old temporary pictures, and folders that earlier
    versions created for `claude`. Waits for sockets."""
    locked_sessions()
    with contextlib.suppress(SharingError):
        running_sessions()
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:  # nothing is writable
        return
    for left in (*temporary.glob("mahtab-claude-*"), *temporary.glob("mahtab-picture-*")):
        with contextlib.suppress(OSError):
            found = left.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime <= _MAX_AGE:
                continue
            if stat.S_ISREG(found.st_mode):
                left.unlink()
            else:
                shutil.rmtree(left)


class Components:
    """Builds the components in dependency order: each gets only those created before it."""

    def __init__(self, session: Session) -> None:
        settings, past, frontend = session.settings, session.past, session.frontend
        backend, by_program = session.backend.get(), session.by_program
        store = backend.store
        log, prompt = setup_logging(store)
        self.log = log
        self.secrets = secrets = Secrets(settings.secrets)
        log.addFilter(MaskingFilter(secrets))
        for begin in session.listeners:
            begin(log)
        prompt.resume(past, same_kernel=backend.kernel.was_reattached)
        self.masked = MaskedKernel(backend.kernel, secrets)
        self.kernel: Kernel = self.masked
        kernel = self.kernel
        self.info = info = SessionInfo(log, settings, session.name, session.first_model.result())
        self.inbox = inbox = Inbox(log)
        self.broadcast = Broadcast(past_for_watchers(past, same_kernel=kernel.was_reattached))
        log.addHandler(self.broadcast)
        self.variable_history = VariableHistory(past)
        log.addHandler(self.variable_history)
        self.private = PrivateNames(
            log, kernel, secrets, prompt.hidden, self.variable_history.codes
        )
        self.models = Models(log, settings, info, kernel)
        self.spending = Spending(lambda: settings.max_usd)
        self.spending.resume(past)
        self.knowledge = Knowledge(
            log, settings, secrets, self.spending, past, no_trace=session.no_trace
        )
        tools = ToolCalls(self.knowledge)
        asking: Literal["ask", "refuse"] = "ask" if frontend.can_ask else "refuse"
        self.searches = Searches(
            log, settings, self.models, self.spending, secrets, kernel, inbox, asking=asking
        )
        self.namespace_store = NamespaceStore(log, kernel)
        last = max(
            (
                record.cell or 0
                for record in past
                if isinstance(record, records.ReplIn | records.ReplOut)
            ),
            default=0,
        )
        self.cells = Cells(
            log, kernel, self.namespace_store, tools, self.private, frontend, first=last + 1
        )
        self.undo = Undo(log, kernel, self.namespace_store, self.cells)
        self.attachments = Attachments(
            kernel, store.pictures if store is not None else lambda cell: (), self.private
        )
        self.approvals: UserRequests[Decision] = UserRequests()
        self.agent = SessionAgent(
            log,
            settings,
            kernel,
            self.cells,
            self.undo,
            prompt,
            info,
            secrets,
            self.spending,
            inbox,
            self.models,
            self.knowledge,
            self.attachments,
            self.approvals,
            self.private,
            past,
            can_ask=frontend.can_ask,
            makes_agent=not by_program,
        )
        self.entries = Entries(log)
        self.joined_agents = JoinedAgents(log, inbox, self.approvals, info)
        self.suggestions: Suggestions | None = None
        if suggesting := settings.suggestion_model:
            make = partial(self.models.make, suggesting, thinking=False)
            self.suggestions = Suggestions(
                log, make, self.private.variables, self.spending, secrets
            )
        servers: ServerCalls | None = None
        if settings.mcp:
            servers = ServerCalls(
                log, self.knowledge, self.cells, info, self.approvals, self.agent.stop
            )
        self.host = SessionKernelHost(
            log,
            frontend,
            secrets,
            self.spending,
            self.cells,
            tools,
            servers,
            self.searches,
            self.agent,
            self.private,
            kernel,
            self.approvals,
            reads_input=not by_program,
        )
        self.notebook: Notebook | None = None
        if session.notebook_file is not None:
            from mahtab_tui.session.notebooks import Notebook

            self.notebook = Notebook(
                log,
                inbox,
                self.cells,
                secrets,
                session.notebook_file,
                past,
                session.all_records,
                lambda: kernel.info().language,
            )
            log.addHandler(self.notebook)
        self.cell_thread = CellThread(
            log,
            kernel,
            self.namespace_store,
            self.host,
            self.cells,
            inbox,
            session.ready,
            session.files,
            past,
        )
