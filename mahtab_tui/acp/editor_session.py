"""The sessions of an editor: new ones, saved ones, and copies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Record, ReplIn
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.detached import attach
from mahtab_tui.kernel.local_process import LocalProcess
from mahtab_tui.session import Session
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.session.cell_records import unfinished_cells
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import ReattachedKernel, process_kernel
from mahtab_tui.session.open_session import open_door
from mahtab_tui.session.recovered_cells import add_recovered_output
from mahtab_tui.session.running_sessions import SharingError
from mahtab_tui.session.session import QUIT_SAVE_S
from mahtab_tui.session.sharing import ShareServer
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.forks import fork
from mahtab_tui.store.resume import (
    MAX_PAST_RECORDS,
    OpenedSession,
    SessionNotFound,
    find_session,
    new_store,
    reattach,
    resumed_store,
)
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.store.session_lock import LockedElsewhere
from mahtab_tui.store.sqlite import load_records
from mahtab_tui.system import Lazy


class SessionUnavailable(Exception):
    """A session cannot be opened or used; the message is a sentence."""


class EditorFrontend(HeadlessFrontend):
    """The frontend of a session whose user sits at an editor, and is asked there."""

    can_ask = True


class EditorSession:
    """A session without a screen that is saved like every other one. Methods wait."""

    def __init__(
        self,
        settings: Settings,
        opened: OpenedSession,
        waiting_kernel: LocalProcess | None = None,
    ) -> None:
        """Build a session, and start nothing yet.

        Args:
            settings: Those of the session.
            opened: Its store, which is released when the session is closed.
            waiting_kernel: The kernel that a screen has left; None if there is none.

        Raises:
            SessionUnavailable: The settings name a kernel that cannot exist.
        """
        store = opened.store
        self.id = store.session
        self._store = store
        self._past = opened.past
        self.running_cell = _find_running_cell(opened.past, waiting_kernel)
        """The cell that still runs in the waiting kernel; None if there is none."""
        try:
            kernel = _make_kernel(settings, self.id, waiting_kernel)
        except KernelError as error:
            if store.claim is not None:
                store.claim.release()
            raise SessionUnavailable(str(error)) from None
        self._backend = SessionBackend(kernel, store, store.claim)
        self.session = Session(
            settings,
            Lazy.of(self._backend),
            EditorFrontend(),
            name=opened.name,
            past=opened.past,
            open_door=open_door,
        )
        self._share_server: ShareServer | None = None
        """Lets agents join; None before `share`, or if it is impossible."""

    @classmethod
    def begin(cls, settings: Settings, folder: Path) -> EditorSession:
        """Return a new session of a folder. Raises `SessionUnavailable`."""
        return cls(settings, new_store(folder))

    @classmethod
    def reopen(cls, settings: Settings, session_id: str) -> EditorSession:
        """Return a saved session, whose variables come back. Raises `SessionUnavailable`."""
        try:
            row = find_session(session_id, None)
            if row.id != session_id:
                raise SessionUnavailable(f"There is no session with the ID {session_id}.")
            opened = resumed_store(row, variables=settings.keep_namespace)
        except SessionNotFound as error:
            raise SessionUnavailable(str(error)) from None
        except LockedElsewhere as error:
            holder = error.holder.sentence_part()
            raise SessionUnavailable(
                f"The session {row.id} is open elsewhere: {holder}. Close it there first."
            ) from None
        waiting_kernel: LocalProcess | None = None
        if settings.keep_kernel and settings.kernel is None:
            waiting_kernel = attach(row.id)
        if waiting_kernel is not None:
            past = reattach(opened.store, opened.past, waiting_kernel.cell)
        else:
            # A kernel without a screen may have left output before it ended.
            past = add_recovered_output(opened.store, opened.past, Secrets(settings.secrets))
        return cls(settings, opened._replace(past=past), waiting_kernel)

    def copy(self, settings: Settings) -> EditorSession:
        """Return a copy of the session, with its variables. Raises `SessionUnavailable`."""
        if not self._store.has_written:
            return self.begin(settings, Path.cwd())
        if not self.session.settings.keep_namespace:
            raise SessionUnavailable(
                "Variables are not saved (keep_namespace), so a copy would not have them."
            )
        self.session.namespace_store.save(QUIT_SAVE_S)
        if self.session.namespace_store.has_unwritten_changes:
            raise SessionUnavailable(
                "The variables could not be saved in time, so a copy would not have them."
            )
        self.session.save()
        try:
            return self.reopen(settings, fork(self.id))
        except StoreError as error:
            raise SessionUnavailable(str(error)) from None

    def records(self) -> list[Record]:
        """Return what the session has recorded, in order; of a long one, the end.

        What a running cell has printed is left out, because it comes again.
        """
        try:
            page = load_records(self._store.path, self.id, limit=MAX_PAST_RECORDS)
        except StoreError:
            past = list(self._past)
        else:
            past = [record for _, record in page.records]
        if self.running_cell is None:
            return past
        number = self.running_cell.cell
        return [record for record in past if getattr(record, "cell", None) != number]

    def start(self) -> None:
        """Start the kernel and the threads.

        Raises `SessionUnavailable`; the session must be closed then.
        """
        try:
            self.session.start()
            self.session.ready.result()
        except KernelError as error:
            raise SessionUnavailable(str(error)) from None

    def start_servers(self, names: Collection[str]) -> list[Future[None]]:
        """Begin to start MCP servers. Raises `ServerError`, as the futures do."""
        servers = self.session.knowledge.servers
        if servers is None:
            return []
        states = [state for state in servers.states.values() if state.name in names]
        return [servers.ready(state.variable) for state in states]

    def share(self, folder: Path) -> None:
        """Let the user watch the session, and agents join it. Does nothing if that is impossible."""
        with suppress(SharingError):
            server = ShareServer(self.session, folder)
            server.start()
            self._share_server = server

    def close(self) -> None:
        """Save the variables, and end the session."""
        if self._share_server is not None:
            self._share_server.close()
        self.session.close()
        self._backend.release()


def _find_running_cell(
    past: Sequence[Record], waiting_kernel: LocalProcess | None
) -> ReplIn | None:
    """Return the record of the cell that a waiting kernel runs; None if there is none."""
    if waiting_kernel is None or not waiting_kernel.cell:
        return None
    for started in unfinished_cells(past):
        if started.cell == waiting_kernel.cell:
            return started
    return None


def _make_kernel(
    settings: Settings, session_id: str, waiting_kernel: LocalProcess | None
) -> Kernel:
    """Return the kernel of a session, which is not started. Raises `KernelError`.

    Args:
        settings: Those of the session.
        session_id: Its id.
        waiting_kernel: The kernel with which it goes on; None for a new one, which ends with the
            session.
    """
    target = None
    if settings.keep_namespace:
        target = save_target(session_id, settings.keep_namespace_mb)
    return process_kernel(
        settings,
        target,
        session=session_id if waiting_kernel else "",
        reattached=ReattachedKernel(waiting_kernel),
    )
