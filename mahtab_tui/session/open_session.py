"""A session that the user has open: what front ends use of it besides its records, and what is
opened and closed with it."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.database import is_corrupt
from mahtab_tui.store.input_history import History

if TYPE_CHECKING:
    from mahtab_tui.agent.host import Door
    from mahtab_tui.bus.values import Mode
    from mahtab_tui.kernel.values import Completions, Explanation
    from mahtab_tui.session.frontend import Frontend
    from mahtab_tui.session.mentions import MentionChip
    from mahtab_tui.session.session import Session
    from mahtab_tui.session.sharing import ShareServer

INDEXING_PAUSE_FACTOR = 4.0
"""How many times as long as a step of the reading takes, the program pauses after it."""
_SLASH = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)
_PARTIAL_SLASH = re.compile(r"\s*(/[a-z-]*)")

Interface = Literal["screen", "linear", "plain"]
"""The full screen; lines below each other; the same without colours and redrawing."""


class InterfaceResult(NamedTuple):
    """How the user has left an interface."""

    exit_code: int = 0
    next_session: str = ""
    """The session to open next; empty for none."""
    next_interface: Interface | None = None
    """The interface in which the session goes on; None if it ends."""
    running_cell: int = 0
    """The cell that continues without an interface; 0 for none."""
    crash_report: Callable[[str], str] | None = None
    """Returns why the interface has crashed, with what the user can do; None if it has not."""


class CurrentFrontend:
    """The interface that has the session now. The user may go on in another one."""

    can_ask = True
    belongs_to_agent = False

    def __init__(self) -> None:
        self.current: Frontend | None = None
        """None while no interface is open."""

    def run_in_terminal(self, argv: Sequence[str], cwd: str) -> int:
        if self.current is None:
            raise RuntimeError("This needs a terminal, and the screen is not open.")
        return self.current.run_in_terminal(argv, cwd)

    def leave(self) -> None:
        if self.current is not None:
            self.current.leave()


class SlashCommand(Protocol):
    """A command that is typed after a slash."""

    @property
    def argument(self) -> str:
        """What is typed after it, as help names it; empty for nothing."""

    @property
    def help(self) -> str:
        """A phrase that says what it does."""


class TypedCommand(NamedTuple):
    """A command as it was typed."""

    name: str
    """The name without the slash; there need not be such a command."""
    argument: str
    """Empty if nothing follows the name."""


def parse_slash(text: str) -> TypedCommand | None:
    """Read a typed command; None for any other text."""
    match = _SLASH.fullmatch(text.strip())
    if match is None:
        return None
    return TypedCommand(match[1], (match[2] or "").strip())


def complete_command(
    text: str, cursor: int, commands: Mapping[str, SlashCommand]
) -> Completions | None:
    """Complete the name of a command before the cursor; None if there is none.

    Args:
        text: What was typed.
        cursor: Offset in characters.
        commands: The commands by name, without the slash.
    """
    match = _PARTIAL_SLASH.fullmatch(text, 0, cursor)
    if match is None:
        return None
    from mahtab_tui.kernel.values import Completion, Completions

    items = []
    for name, command in sorted(commands.items()):
        if not f"/{name}".startswith(match[1]):
            continue
        label = f"/{name} {command.argument}".rstrip()
        inserted_text = f"/{name} " if command.argument else f"/{name}"
        items.append(Completion(label, inserted_text, "command", command.help))
    return Completions(match.start(1), tuple(items), 0)


class SessionInputHelp:
    """Completes and explains what is typed.

    Each call goes to the part of the session that can answer it, which the session creates when the
    first text needs it.
    """

    def __init__(
        self, session: Session, complete_command: Callable[[str, int], Completions | None]
    ) -> None:
        """
        Args:
            complete_command: Completes the name of a command, of which each interface has its own.
        """
        self._session = session
        self._complete_command = complete_command

    def complete(self, code: str, cursor: int) -> Completions:
        return self._session.complete(code, cursor)

    def complete_question(self, question: str, cursor: int) -> Completions:
        return self._session.attachments.complete(question, cursor)

    def complete_command(self, text: str, cursor: int) -> Completions | None:
        return self._complete_command(text, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        return self._session.explain(code, cursor)

    def mention_chips(self, question: str) -> Sequence[MentionChip]:
        return self._session.attachments.chips(question)


class Draft(NamedTuple):
    """A text that the user has typed and not entered; it comes back into the editor."""

    mode: Mode
    text: str


NO_DRAFT = Draft("python", "")


class OpenSession:
    """A session, the history of inputs, and the servers and threads that end with the session."""

    def __init__(
        self,
        session: Session,
        frontend: CurrentFrontend,
        *,
        kernel_notice: str = "",
        keeps_namespace: bool = False,
        no_trace: bool = False,
        screen_problem: Callable[[], str] = str,
    ) -> None:
        """
        Args:
            session: Not started yet.
            frontend: The front end that the session has.
            kernel_notice: What to say about the kernel at first.
            keeps_namespace: Whether the variables outlive the session, without being saved.
            no_trace: Whether nothing is saved.
            screen_problem: Returns why the full screen cannot be shown here, as a sentence; empty if
                it can.
        """
        self.screen_problem = screen_problem
        project = Path.cwd()
        self.session = session
        self.frontend = frontend
        self.keeps_namespace = keeps_namespace
        self.no_trace = no_trace
        self.history = History(
            home_folder() / "history.db", str(project), session.mask, no_trace=no_trace
        )
        self.draft = NO_DRAFT
        """What was being typed when the user went to another interface."""
        self.leaves_kernel = False
        """Whether the kernel continues when the session is closed."""
        self.has_crashed = False
        """Whether an interface has crashed, so that closing must be short."""
        self._kernel_notice = kernel_notice
        self._closing_lines: list[str] = []
        """What is printed once the session is closed."""
        self._early_lines: list[str] = []
        """What was written before the session could show notices."""
        self._servers: list[ShareServer] = []
        share = partial(_share, session, project, self._servers)
        self._sharing = threading.Thread(target=share, name="share", daemon=True)
        self._late_work = self._plan_late_work()

    def add_line(self, text: str) -> None:
        """Show what a library or a child process has written. Any thread may call it."""
        if self.frontend.current is None:
            self._closing_lines.append(text)
        elif self.session.built:
            self.session.notice(text, "warning")
        else:
            # This must not wait for the session, because whoever writes the line waits.
            self._early_lines.append(text)

    def take_late_work(self) -> list[Callable[[], object]]:
        """Return what the first interface calls before it starts the session, once the user sees
        something; nothing for further interfaces."""
        steps = self._late_work
        self._late_work = []
        return steps

    def _plan_late_work(self) -> list[Callable[[], object]]:
        steps: list[Callable[[], object]] = [self._report_first_notices]
        if self.session.settings.share and not self.no_trace:
            steps.append(self._sharing.start)
        for name, work in (("leftovers", report_leftovers), ("digests", index_sessions)):
            thread = threading.Thread(target=work, args=(self.session,), name=name, daemon=True)
            steps.append(thread.start)
        return steps

    def _report_first_notices(self) -> None:
        """Show what had to wait until the session could show notices."""
        while self._early_lines:
            self.session.notice(self._early_lines.pop(0), "warning")
        if self._kernel_notice:
            self.session.notice(self._kernel_notice, "warning")
        if self.no_trace:
            self.session.notice(
                "Nothing of this session is saved: no conversation, no variables, no inputs."
            )

    def report_history(self) -> None:
        """Say once if inputs cannot be saved."""
        if self.history.problem:
            self.session.notice(self.history.problem, "warning")
            self.history.problem = ""

    def save_for_signal(self, draft: Draft = NO_DRAFT) -> None:
        """Save what can be saved in a few seconds, because a signal ends the program.

        Args:
            draft: What the user was typing.
        """
        if draft.text:
            self.history.add(draft.text, draft.mode)
        self.session.save()
        self.close(hurry=True)
        if self.session.backend.made:
            self.session.backend.get().release()

    def close(self, *, hurry: bool = False) -> None:
        """Close the session, and note what could not be saved.

        Args:
            hurry: Save nothing that takes long, because the program is about to be killed.
        """
        # Only a thread that was started can be joined.
        if self._sharing.ident is not None:
            self._sharing.join()
        for server in self._servers:
            server.close()

        session = self.session
        hurry = hurry or self.has_crashed
        leaves_kernel = hurry or self.leaves_kernel
        session.close(hurry=hurry, leave=leaves_kernel)

        lines = [*self._closing_lines, *self._early_lines]
        if session.built and session.namespace_store.has_unwritten_changes and not leaves_kernel:
            problem = "The last changes to variables could not be saved in time"
            lines.append(f"{problem}; earlier ones are saved.")
        notebook = session.notebook if session.built else None
        if notebook is not None and notebook.problem and not hurry:
            lines.append(notebook.problem)
        self.history.close()
        self._closing_lines = lines

    def print_closing_lines(self) -> None:
        """Print what could not be shown while the session was open."""
        if self._closing_lines:
            print(plain("\n".join(self._closing_lines)), file=sys.stderr)


def cell_can_detach(session: Session) -> bool:
    """Return whether a cell runs that can go on without an interface."""
    return session.cells.running and session.kernel.can_detach


def unsaved_items(session: Session, created_count: int) -> list[str]:
    """Return what leaving would lose of a session, as parts of a sentence.

    Args:
        session: The session.
        created_count: Number of variables that would be lost if nothing saves them.
    """
    items = []
    if session.cells.running and not cell_can_detach(session):
        items.append("the running cell")
    if session.agent.in_turn:
        items.append("the unfinished answer")
    if session.notebook is not None and session.notebook.unsaved:
        items.append(f"the unsaved changes of {session.notebook.label}")
    unsaved_count = session.namespace_store.count_unsaved(created_count) if created_count else 0
    if unsaved_count:
        noun = "name" if unsaved_count == 1 else "names"
        items.append(f"{unsaved_count:,} {noun} of the namespace")
    return items


def _share(session: Session, project: Path, servers: list[ShareServer]) -> None:
    """Let agents join the session.

    Args:
        servers: Gets the server that they join by.
    """
    from mahtab_tui.session.running_sessions import SharingError
    from mahtab_tui.session.sharing import ShareServer

    try:
        server = ShareServer(session, project)
        server.start()
        servers.append(server)
    except SharingError as error:
        session.notice(f"Agents cannot join this session: {error}", "warning")


def open_door(session: Session, agent: str) -> Door:
    """Let an agent reach the session whose questions it answers, also if others may not join.

    Raises `SharingError`.

    Args:
        agent: Its name.
    """
    from mahtab_tui.session.sharing import ShareServer

    server = ShareServer(session, Path.cwd(), model_name=agent)
    server.start()
    return server


def report_leftovers(session: Session) -> None:
    """Remove what ended programs have left, and report kernels that wait in the background."""
    from mahtab_tui.session.background_kernels import (
        describe_detached_kernels,
        stop_surplus_kernels,
    )
    from mahtab_tui.session.running_sessions import remove_leftovers

    try:
        remove_leftovers()
        stop_surplus_kernels()
        if not session.no_trace:
            sentence = describe_detached_kernels()
            if sentence:
                session.notice(sentence, "warning")
    except StoreError as error:
        session.notice(str(error), "warning")


def index_sessions(session: Session) -> None:
    """Read new records of all sessions for searches, slowly."""
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.session_words import catch_up

    if session.no_trace:
        return
    try:
        catch_up(database(), math.inf, pause=INDEXING_PAUSE_FACTOR)
    except StoreError as error:
        # A search reports any other problem.
        if is_corrupt(error.__cause__):
            session.notice(str(error), "warning")
