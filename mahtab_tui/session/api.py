"""The session API for scripts and notebooks. Loads no library for models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SkipValidation,
)
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.bus.codec import as_json, from_json
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import (
    AssistantChat,
    Record,
    ReplIn,
    ReplOut,
    Usage,
    UserChat,
    get_record,
)
from mahtab_tui.kernel.base import Kernel, Restoration, Status
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.llm.providers import model_label
from mahtab_tui.llm.usage import UsageStats
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.session import Session
from mahtab_tui.settings.model import load_settings

if TYPE_CHECKING:
    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.tools import Toolset

MAX_OUTPUT_CHARS = 10_000
"""Characters of output that `execute_code` returns."""
ACTIVITY = 1_000
"""Number of cell records to keep."""
_LONGEST = 64_000


_AS_RECORD = BeforeValidator(lambda value: from_json(value) if isinstance(value, dict) else value)


class Message(TypedDict):
    """A message in the format that most model libraries accept."""

    role: Literal["user", "assistant"]
    content: str


class SessionState(BaseModel):
    """One conversation over one namespace. The model's code runs immediately, without asking."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    globals_ns: SkipValidation[dict[str, Any]] = Field(
        default_factory=dict, exclude=True, repr=False
    )
    """The caller's own dictionary, not a copy. Empty if the kernel is another process."""
    messages: list[Message] = Field(default_factory=list)
    repl_activity: list[Annotated[Record, PlainSerializer(as_json), _AS_RECORD]] = Field(
        default_factory=list, repr=False
    )
    """Cells with their output, newest last."""
    usage: UsageStats = Field(default_factory=UsageStats)
    skills_dir: Path | None = None
    """Skills in addition to the built-in ones."""
    kernel: SkipValidation[Kernel | None] = Field(default=None, exclude=True, repr=False)
    """A started kernel; by default code runs in this process, in `globals_ns`."""

    _session: Session | None = PrivateAttr(None)
    _over: object = PrivateAttr(None)
    _owns_kernel: bool = PrivateAttr(False)

    def init_namespace(self, ns: dict[str, Any]) -> None:
        """Use the caller's namespace, such as ``globals()``. Existing agents keep the old one."""
        self.globals_ns = ns

    def add_user_message(self, text: str) -> None:
        """Add a message to the conversation that new agents start with."""
        self.messages.append({"role": "user", "content": text})

    def add_assistant_message(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    @property
    def log(self) -> logging.Logger:
        return self._open().log

    def close(self) -> None:
        """Close the kernel, the agents and the bus; the namespace stays."""
        if (session := self._session) is not None:
            self._session = None
            session.close(keep_kernel=not self._owns_kernel)

    def run_code(self, code: str) -> tuple[str, bool]:
        result = self._open().cells.run(code)
        output = shorten(result.output or result.detail, MAX_OUTPUT_CHARS)
        return output, result.status is not Status.OK

    def undo(self, cell: int | None = None) -> Restoration:
        """Restore the namespace to the state before a cell; without one, before what ran last.
        Raises `KernelError`."""
        undo = self._open().undo
        return undo.undo(undo.last_step() if cell is None else cell)

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since. Raises `KernelError`."""
        return self._open().undo.redo()

    def agent_host(self, model: str) -> AgentHost:
        session = self._open()
        session.info.party = model_label(model)
        return session.agent

    def conversation(self) -> Sequence[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in self.messages]

    def skills(self) -> dict[str, str]:
        return self._open().knowledge.skills.descriptions()

    def tools(self) -> Toolset:
        return self._open().knowledge.toolset

    def adopt(self, agent: ReplAgent) -> None:
        self._open().agent.continue_from(agent)

    def _open(self) -> Session:
        over = self.globals_ns if self.kernel is None else self.kernel
        if (session := self._session) is None or self._over is not over:
            self.close()
            options = {"skills_dir": (self.skills_dir,)} if self.skills_dir else {}
            settings = load_settings(approval="auto", **options)
            kernel = self.kernel or InProcessKernel(self.globals_ns)
            session = Session(settings, kernel, HeadlessFrontend(), by_program=True)
            self._session, self._over, self._owns_kernel = session, over, kernel is not self.kernel
            session.log.addHandler(_Listener(self))
            for sentence in settings.untrusted:
                session.notice(sentence, "warning")
            if self._owns_kernel:
                session.start_kernel()
        return session


class _Listener(logging.Handler):
    def __init__(self, session: SessionState) -> None:
        super().__init__()
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        match get_record(record):
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
    """Run a cell in a session's namespace; returns its output, with value or traceback, and whether
    it failed. The middle of an output of more than 10,000 characters is left out."""
    return session.run_code(code)
