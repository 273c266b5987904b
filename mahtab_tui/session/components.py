"""Builds the components of a session, and its models."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.bus.logger import setup_logging
from mahtab_tui.bus.masking import MaskingFilter, Secrets
from mahtab_tui.bus.records import Decision, Notice, emit
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import check_model, default_model, get_llm
from mahtab_tui.llm.usage import Spending
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.agent_calls import JoinedAgents
from mahtab_tui.session.attachments import Attachments
from mahtab_tui.session.cells import Cells, Undo, last_changes
from mahtab_tui.session.inbox import Entries, Inbox
from mahtab_tui.session.info import SessionInfo, UserRequests
from mahtab_tui.session.kernel import CellThread, SessionKernelHost
from mahtab_tui.session.knowledge import Knowledge
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.searches import Searches, ServerCalls
from mahtab_tui.session.sharing import Broadcast, SharingError, past_for_watchers, running_sessions
from mahtab_tui.session.variables import PrivateNames, VariableHistory
from mahtab_tui.store.database import locked_sessions
from mahtab_tui.system import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

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
        self.log, self.prompt = setup_logging(
            backend.store, writes_later=session.frontend.belongs_to_agent
        )
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
        self.namespace_store = NamespaceStore(log, self.kernel, last_changes(past))
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


_MODEL_SETTINGS = frozenset(
    "provider base_url api_keys claude_api_key model_timeout max_answer_chars max_usd".split()
)
"""Settings that require a new model."""
_AGENT_SETTINGS = _MODEL_SETTINGS.union(
    "max_turns max_history reflection reflection_model output_answers loop".split()
)
"""Settings that require reconfiguring the agent."""
_IMMEDIATE_SETTINGS = _AGENT_SETTINGS.union(
    "model approval approval_rules reload sub_model".split()
)
"""Settings that take effect at once, as do those that start with ``rlm_``."""


def change_setting(session: Session, key: str, value: Any) -> bool:
    """Change a setting; returns whether it takes effect before the next start. Raises
    `ModelError`."""
    settings, agent = session.settings, session.agent
    if value is not None and key.endswith("_model") and key != "embedding_model":
        check_model(value, **settings.model_access())
    if key == "model":
        session.set_model(value or default_model())
    elif key == "approval":
        session.info.set_approval(value)
    settings.change(key, value)
    if key in _MODEL_SETTINGS:
        session.renew_model()
    if key in _AGENT_SETTINGS:
        agent.change(
            lambda it: it.configure(
                settings.max_turns,
                settings.reflection,
                session.models.reflection(),
                settings.max_history,
                output_answers=settings.output_answers,
                loop=settings.loop,
            )
        )
    elif key == "reload":
        session.kernel.set_reload(value)
    return key in _IMMEDIATE_SETTINGS or key.startswith("rlm_")


ANSWER_TOKENS = 8_192
"""Maximum tokens of an answer if the cost is limited, because the worst case must be known before
each call."""


class Models:
    def __init__(self, parts: Components) -> None:
        self._parts = parts

    def make(self, name: str | None = None) -> BaseChatModel:
        """Create a model; by default the session's. Raises `ModelError`."""
        with IMPORTS.turn():
            name = name or self._parts.info.model
            return get_llm(name, on_notice=self._notice, **self.options())

    def options(self) -> dict[str, Any]:
        """Return the arguments for `get_llm`."""
        return {
            "timeout": self._parts.settings.model_timeout,
            "folder": lambda: self._parts.kernel.info().local_folder,
            "max_tokens": None if self._parts.settings.max_usd is None else ANSWER_TOKENS,
            **self._parts.settings.model_access(),
        }

    def reflection(self) -> BaseChatModel | None:
        """Create the model for checks and summaries; None if none is set. Raises `ModelError`."""
        name = self._parts.settings.reflection_model
        try:
            return self.make(name) if name else None
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _notice(self, level: str, text: str) -> None:
        emit(self._parts.log, Notice(text, level=level))
