"""The session API for scripts and notebooks. Loads no library for models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

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
from mahtab_tui.bus.prompt import PromptHandler, shorten
from mahtab_tui.bus.records import (
    AssistantChat,
    LastConversation,
    Record,
    RecordHandler,
    ReplIn,
    ReplOut,
    Usage,
    UserChat,
    UserReplIn,
    UserReplOut,
    emit,
)
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.values import Restoration
from mahtab_tui.llm.names import model_label
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.last_session import LastSession, load_last_session, save_last_session
from mahtab_tui.session.session import Session
from mahtab_tui.settings.model import load_settings

if TYPE_CHECKING:
    from mahtab_tui.agent.repl_agent import ReplAgent
    from mahtab_tui.tools.toolset import Toolset

MAX_OUTPUT_CHARS = 10_000
"""Characters of output that `execute_code` returns."""
MAX_ACTIVITY_RECORDS = 1_000
"""Number of cell records to keep."""
MAX_ACTIVITY_CHARS = 64_000
"""Characters of the text of such a record; the middle of a longer one is left out."""


_AS_RECORD = BeforeValidator(lambda value: from_json(value) if isinstance(value, dict) else value)


class ChatMessage(TypedDict):
    """A message in the format that most model libraries accept."""

    role: Literal["user", "assistant"]
    content: str


class CodeOutput(NamedTuple):
    """What a cell has printed and returned."""

    output: str
    """The output, with the value or the traceback. The middle of a long one is left out."""
    has_failed: bool


class SessionState(BaseModel):
    """One conversation over one namespace. The model's code runs immediately, without asking.

    What needs the kernel, the settings or the bus opens a session when it is first used, and again
    after `close` or `init_namespace`. This loads the settings, starts the kernel and reports on the
    bus. The conversation itself (`messages`, `usage`, `repl_activity`) needs no session.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    globals_ns: SkipValidation[dict[str, Any]] = Field(
        default_factory=dict, exclude=True, repr=False
    )
    """The caller's own dictionary, not a copy. Empty if the kernel is another process."""
    locals_ns: SkipValidation[dict[str, Any] | None] = Field(default=None, exclude=True, repr=False)
    """Names that cells see before those in `globals_ns`, and where cells store new names; None if there
    is only one namespace."""
    messages: list[ChatMessage] = Field(default_factory=list)
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
    _base: object = PrivateAttr(None)
    """The kernel or namespace over which the session was opened."""
    _owns_kernel: bool = PrivateAttr(False)
    """Whether the kernel runs in this process, and ends with the session."""
    _joined: _JoinedNamespace | None = PrivateAttr(None)
    """What cells see, if there are `locals_ns`."""

    def init_namespace(self, globals: dict[str, Any], locals: dict[str, Any] | None = None) -> None:
        """Use the caller's namespace. Existing agents keep the old one.

        Args:
            globals: Such as ``globals()``. Cells store their names here.
            locals: Such as ``locals()`` of a function. If given, cells see these names first, and
                store their own here, as code that runs by ``exec(code, globals, locals)`` does.

        Example:
            session.init_namespace(globals())
        """
        self.globals_ns = globals
        self.locals_ns = locals
        self._joined = None if locals is None else _JoinedNamespace(globals, locals)

    def summarize_namespace(self, max_vars: int = 20) -> str:
        """Describe the variables, one a line: name, type, and a summary of the value.

        Private variables, modules and names with an underscore are left out.

        Args:
            max_vars: At most this many variables are described; none if it is negative. A last line
                says how many others there are.

        Example:
            print(session.summarize_namespace(max_vars=5))
        """
        session = self._open()
        max_vars = max(max_vars, 0)
        variables = [
            variable
            for variable in session.kernel.variables()
            if variable.kind != "module"
            and not variable.underscored
            and not session.private.is_private(variable.name)
        ]
        lines = [
            f"{variable.name}: {variable.type} {variable.summary}".rstrip()
            for variable in variables[:max_vars]
        ]
        if len(variables) > max_vars:
            lines.append(f"… and {len(variables) - max_vars:,} more")
        return "\n".join(lines)

    def get_activity_context(self, max_chars: int = 4_000) -> str:
        """Return the newest cells with their output, as the model gets them: elements of XML.

        Args:
            max_chars: The maximum length of the result. The oldest cells are left out whole; a cell
                or an output that is longer than half of it is shortened.

        Example:
            prompt = f"{session.get_activity_context(2_000)}\\nWhat went wrong?"
        """
        handler = PromptHandler()
        try:
            for record in self.repl_activity:
                handler.fold(_as_user_record(record))
            return handler.get_context(max_chars)
        finally:
            handler.close()

    def save_last_session(self, user: str, assistant: str) -> Path:
        """Save a question and its answer in ``~/.mahtab/last_session.json``, and return its path.

        The first prompt of the next session mentions them, unless the setting
        ``mention_last_session`` is off. Secrets are masked. Raises `OSError`.

        Example:
            session.save_last_session("which rows are odd?", "Rows 3 and 7.")
        """
        mask = self._open().secrets.mask
        return save_last_session(mask(user), mask(assistant))

    def load_last_session(self) -> LastSession | None:
        """Return what was saved last, by any session; None if there is nothing.

        Example:
            if last := session.load_last_session():
                print(last.user, last.assistant)
        """
        return load_last_session()

    def add_user_message(self, text: str) -> None:
        """Add a message to the conversation that new agents start with."""
        self.messages.append({"role": "user", "content": text})

    def add_assistant_message(self, text: str) -> None:
        """Add an answer to the conversation that new agents start with."""
        self.messages.append({"role": "assistant", "content": text})

    @property
    def log(self) -> logging.Logger:
        """The bus, which passes on everything that happens. Opens a session if there is none."""
        return self._open().log

    def close(self) -> None:
        """Close the kernel, the agents and the bus; the namespace stays."""
        session = self._session
        if session is not None:
            self._session = None
            session.close(keep_kernel=not self._owns_kernel)

    def run_code(self, code: str) -> CodeOutput:
        """Run a cell, and return what it has printed, and whether it failed."""
        result = self._open().cells.run(code)
        output = shorten(result.output or result.detail, MAX_OUTPUT_CHARS)
        return CodeOutput(output, has_failed=result.status is not Status.OK)

    def undo(self, cell: int | None = None) -> Restoration:
        """Restore the namespace to the state before a cell; without one, before what ran last.

        Raises `KernelError`.
        """
        undo = self._open().undo
        if cell is None:
            cell = undo.last_step()
        return undo.undo(cell)

    def redo(self) -> Restoration:
        """Reverse the last undo, if no other cell has run since. Raises `KernelError`."""
        return self._open().undo.redo()

    def agent_host(self, model: str) -> AgentHost:
        """Return what an agent needs of the session.

        Args:
            model: Its full name.
        """
        session = self._open()
        session.info.party = model_label(model)
        return session.agent

    def conversation(self) -> Sequence[tuple[str, str]]:
        """Return the messages as pairs of "user" or "assistant" and text."""
        return [(message["role"], message["content"]) for message in self.messages]

    def skills(self) -> dict[str, str]:
        """Return the descriptions of the skills, by name."""
        return self._open().knowledge.skills.descriptions()

    def tools(self) -> Toolset:
        """Return the functions that a model can call."""
        return self._open().knowledge.toolset

    def adopt(self, agent: ReplAgent) -> None:
        """Use an agent for ``ask()`` in cells."""
        self._open().agent.continue_from(agent)

    def _note_cell(self, record: ReplIn | ReplOut) -> None:
        """Keep a record of a cell, and store what the cell has changed in joined namespaces."""
        text = shorten(record.text, MAX_ACTIVITY_CHARS)
        self.repl_activity.append(record.changed(text=text))
        surplus_count = max(0, len(self.repl_activity) - MAX_ACTIVITY_RECORDS)
        del self.repl_activity[:surplus_count]
        if self._joined is not None and isinstance(record, ReplOut):
            self._joined.store_changes()

    def _open(self) -> Session:
        """Return the session; a new one if there is none, or if its namespace was replaced.

        A new session starts its kernel, unless the caller's is used, and reports on the bus which
        settings are not trusted and what the last session was about.
        """
        namespace = self.globals_ns if self._joined is None else self._joined.namespace
        base = namespace if self.kernel is None else self.kernel
        if self._session is not None and self._base is base:
            return self._session

        self.close()
        session = self._make_session(namespace)
        self._session = session
        self._base = base
        self._owns_kernel = self.kernel is None
        self._start_session(session)
        return session

    def _make_session(self, namespace: dict[str, Any]) -> Session:
        options = {"skills_dir": (self.skills_dir,)} if self.skills_dir else {}
        settings = load_settings(approval="auto", **options)
        kernel = self.kernel or InProcessKernel(namespace)
        return Session(settings, kernel, HeadlessFrontend(), by_program=True)

    def _start_session(self, session: Session) -> None:
        """Follow a new session, start its kernel, and report what its user must know."""
        session.log.addHandler(_Listener(self))
        for sentence in session.settings.untrusted:
            session.notice(sentence, "warning")
        if self._owns_kernel:
            session.start_kernel()
        if session.settings.mention_last_session and not self.messages:
            last_session = load_last_session()
            if last_session is not None:
                emit(session.log, LastConversation(last_session.describe()))


class _JoinedNamespace:
    """Two namespaces, copied into the one that a kernel needs."""

    def __init__(self, outer: dict[str, Any], inner: dict[str, Any]) -> None:
        self._inner = inner
        self.namespace = {**outer, **inner}
        self._stored = dict(self.namespace)
        """The namespace as it was when its changes were last stored."""

    def store_changes(self) -> None:
        """Set and delete in the inner namespace the names that cells have set and deleted."""
        for name, value in self.namespace.items():
            is_changed = name not in self._stored or self._stored[name] is not value
            if is_changed and not name.startswith("__"):
                self._inner[name] = value
        for name in self._stored.keys() - self.namespace.keys():
            self._inner.pop(name, None)
        self._stored = dict(self.namespace)


def _as_user_record(record: Record) -> Record:
    """Return a cell's record as if the user had run it, because a prompt leaves out the model's own
    cells."""
    fields = {name: getattr(record, name) for name in ("cell", "text", "time")}
    if isinstance(record, ReplIn):
        return UserReplIn(**fields)
    if isinstance(record, ReplOut):
        return UserReplOut(
            **fields, status=record.status, detail=record.detail, private=record.private
        )
    return record


class _Listener(RecordHandler):
    """Keeps a state up to date with what happens in its session."""

    kinds = (UserChat, AssistantChat, Usage, ReplIn, ReplOut)

    def __init__(self, state: SessionState) -> None:
        super().__init__()
        self._state = state

    def fold(self, record: Record) -> None:
        match record:
            case UserChat(text=text):
                self._state.add_user_message(text)
            case AssistantChat(text=text):
                self._state.add_assistant_message(text)
            case Usage() as usage:
                self._state.usage.add(usage)
            case ReplIn() | ReplOut() as cell_record:
                self._state._note_cell(cell_record)


def execute_code(code: str, session: SessionState) -> CodeOutput:
    """Run a cell in a session's namespace.

    Returns:
        The output, with the value or the traceback, and whether the cell failed. The middle of an
        output of more than 10,000 characters is left out.

    Example:
        output, has_failed = execute_code("1 + 1", session)
    """
    return session.run_code(code)
