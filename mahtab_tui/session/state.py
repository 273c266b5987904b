"""A `Session` as a script or a notebook uses it. Loads nothing of the model's libraries."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PrivateAttr, SkipValidation
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.bus.codec import as_json, from_json
from mahtab_tui.bus.prompt import PromptHandler, shorten
from mahtab_tui.bus.records import AssistantChat, Record, ReplIn, ReplOut, Usage, UserChat, record_of
from mahtab_tui.kernel.base import OUTPUT_LIMIT, Kernel, Status
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.llm.prompts import MAX_VARIABLES, render_variables
from mahtab_tui.llm.providers import model_label
from mahtab_tui.llm.spending import UsageStats
from mahtab_tui.session.face import NoFace
from mahtab_tui.session.session import Session
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.last_session import LastSession, LastSessionError, load_last_session, save_last_session

if TYPE_CHECKING:
    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.tools.toolset import Toolset

ACTIVITY = 1_000
"""Records of cells that are kept; the oldest go first."""
_LONGEST = 64_000
"""Characters of one of them."""


def _record(value: object) -> object:
    """A record that was saved as JSON; another value as it is."""
    return from_json(value) if isinstance(value, dict) else value


class Message(TypedDict):
    """What somebody said, as most model libraries take it."""

    role: Literal["user", "assistant"]
    content: str


class SessionState(BaseModel):
    """One conversation over one namespace. Code that a model writes in it runs at once, without asking."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    globals_ns: SkipValidation[dict[str, Any]] = Field(default_factory=dict, exclude=True, repr=False)
    """The namespace: the caller's own dictionary, not a copy. Empty with a kernel of another process."""
    locals_ns: SkipValidation[dict[str, Any]] = Field(default_factory=dict, exclude=True, repr=False)
    """The same dictionary after `init_namespace`, as at the top of a module."""
    messages: list[Message] = Field(default_factory=list)
    """What was said, in words and code."""
    repl_activity: list[Annotated[Record, PlainSerializer(as_json), BeforeValidator(_record)]] = Field(default_factory=list, repr=False)
    """The cells of both parties and what they printed, the newest last."""
    usage: UsageStats = Field(default_factory=UsageStats)
    skills_dir: Path | None = None
    """A folder of skills beside those that ship with the program."""
    kernel: SkipValidation[Kernel | None] = Field(default=None, exclude=True, repr=False)
    """A started kernel to run code in; by default code runs in this process, in `globals_ns`."""

    _session: Session | None = PrivateAttr(None)
    _over: object = PrivateAttr(None)
    """The kernel or the namespace that the session is over."""
    _owns_kernel: bool = PrivateAttr(False)
    _agents: weakref.WeakSet[ReplAgent] = PrivateAttr(default_factory=weakref.WeakSet)

    def init_namespace(self, ns: dict[str, Any]) -> None:
        """Work in the caller's namespace, as from ``globals()``. Agents that were made before keep the old one."""
        self.globals_ns = self.locals_ns = ns

    # What was said

    def add_user_message(self, text: str) -> None:
        """Add to the conversation that agents made from now on begin with."""
        self.messages.append({"role": "user", "content": text})

    def add_assistant_message(self, text: str) -> None:
        """Add to the conversation that agents made from now on begin with."""
        self.messages.append({"role": "assistant", "content": text})

    def clear_history(self) -> None:
        """Forget what was said and what ran; agents begin anew. The namespace stays. Waits for a turn that goes on."""
        for agent in self._agents:
            agent.forget()
        self.messages.clear()
        self.repl_activity.clear()

    # What the model is told

    def summarize_namespace(self, max_vars: int = MAX_VARIABLES) -> str:
        """A line a variable: ``name: type = summary``. No code of the objects' own runs."""
        return render_variables(self._open().kernel.variables(), max_vars)

    def get_activity_context(self, max_chars: int = 20_000) -> str:
        """The newest cells and outputs as XML of at most `max_chars` characters; what is left out is counted."""
        activity = PromptHandler()
        for record in self.repl_activity:
            activity.take(record)
        return activity.get_context(max_chars)

    # The session before this one

    def save_last_session(self) -> None:
        """Keep the last question and its answer for the next session; a notice tells where that fails."""
        said = {message["role"]: message["content"] for message in self.messages}
        if "user" in said:
            try:
                mask = self._open().secrets.mask
                save_last_session(mask(said["user"]), mask(said.get("assistant", "")))
            except LastSessionError as error:
                self._open().notice(str(error), "warning")

    def load_last_session(self) -> LastSession | None:
        """What an earlier session has kept; it goes with the next question. A broken file is ignored with a notice."""
        try:
            last = load_last_session()
        except LastSessionError as error:
            self._open().notice(str(error), "warning")
            return None
        if last is not None:
            self._open().turns.tell_prior(last.as_text())
        return last

    # What works on it

    @property
    def log(self) -> logging.Logger:
        """The bus of this session."""
        return self._open().log

    def close(self) -> None:
        """Let go of the kernel, the agents and the bus; the namespace stays."""
        if (session := self._session) is not None:
            self._session = None
            session.close(keep_kernel=not self._owns_kernel)

    def run_code(self, code: str) -> tuple[str, bool]:
        """`execute_code`."""
        result = self._open().cells.run(code, limit=OUTPUT_LIMIT)
        return result.output or result.detail, result.status is not Status.OK

    def agent_host(self, model: str) -> AgentHost:
        """The session as an agent sees it."""
        session = self._open()
        session.profile.party = model_label(model)
        return session.turns

    def conversation(self) -> Sequence[tuple[str, str]]:
        """Pairs of role and text."""
        return [(message["role"], message["content"]) for message in self.messages]

    def skills(self) -> dict[str, str]:
        """Descriptions of skills by name."""
        return self._open().knowledge.skills.descriptions()

    def tools(self) -> Toolset:
        """What it knows, and the tools over that."""
        return self._open().knowledge.toolset

    def adopt(self, agent: ReplAgent) -> None:
        """An agent has been made over this session."""
        self._agents.add(agent)
        self._open().agent.adopt(agent)

    def _open(self) -> Session:
        """The session over the kernel, or else the namespace, that this state has now."""
        over = self.globals_ns if self.kernel is None else self.kernel
        if (session := self._session) is None or self._over is not over:
            self.close()
            given = {"skills_dir": (self.skills_dir,)} if self.skills_dir else {}
            settings = load_settings(approval="auto", **given)
            kernel = self.kernel or InProcessKernel(self.globals_ns)
            session = Session(settings, kernel, NoFace(), by_program=True)
            self._session, self._over, self._owns_kernel = session, over, kernel is not self.kernel
            session.log.addHandler(_Listener(self))
            for sentence in settings.held_back:
                session.notice(sentence, "warning")
            if self._owns_kernel:
                session.start_kernel()
        return session


class _Listener(logging.Handler):
    """Keeps a session up to date with what goes over its bus."""

    def __init__(self, session: SessionState) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        match record_of(record):
            case UserChat(text=text):
                self._session.add_user_message(text)
            case AssistantChat(text=text):
                self._session.add_assistant_message(text)
            case Usage() as used:
                self._session.usage.add(used)
            case ReplIn() | ReplOut() as cell:
                activity = self._session.repl_activity
                activity.append(cell.changed(text=shorten(cell.text, _LONGEST)))
                del activity[: max(0, len(activity) - ACTIVITY)]


def execute_code(code: str, session: SessionState) -> tuple[str, bool]:
    """Run a cell in a session's namespace; its output, with its value or traceback, and whether it failed.

    After 10,000 characters of output it is stopped with an error.
    """
    return session.run_code(code)
