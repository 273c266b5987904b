"""Sets up what a session needs before it starts: its kernel, its store and its notebook.

A session is new, or a saved one that goes on. What cannot be set up ends the command with a sentence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import typer

from mahtab_tui.bus.records import KernelRecord, NotebookOpened, NotebookWritten, Notice, Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import fail, fail_on
from mahtab_tui.cli.resuming import attach, resume
from mahtab_tui.export.reading import LoadedNotebook, NotebookError, read_notebook
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.session.kernel import ReattachedKernel, process_kernel
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.memory_store import MemoryStore
from mahtab_tui.store.resume import SessionNotFound, new_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.store.sqlite import SqliteStore
from mahtab_tui.system import disable_langsmith

MAX_FILE_NAME_BYTES = 255


def open_notebook(cell_files: Sequence[Path], notebook: Path | None) -> LoadedNotebook | None:
    """Read the file whose cells are shown. Ends the command if that is impossible.

    Args:
        cell_files: The files to be shown; there may be only one.
        notebook: The file that is kept up to date, which need not exist.
    """
    paths = [*cell_files, *([notebook] if notebook is not None else [])]
    if len(paths) > 1:
        fail(
            f"Only one file can be opened as cells: {paths[0]} or {paths[1]}. --load FILE loads the other as a variable."
        )
    try:
        if notebook is not None:
            return _open_rewritable_notebook(notebook)
        return read_notebook(paths[0]) if paths else None
    except NotebookError as error:
        fail(str(error))


def _open_rewritable_notebook(path: Path) -> LoadedNotebook:
    """Read a notebook that is kept up to date, or begin a new one.

    Raises `NotebookError`. Ends the command if the file could not be written.
    """
    if path.suffix.lower() != ".ipynb":
        fail(f"--notebook writes a notebook: {path} must end in .ipynb.")
    if os.path.lexists(path):
        return replace(read_notebook(path), rewritable=True)

    if not os.path.isdir(path.parent):
        fail(f"There is no folder {path.parent} for {path.name}.")
    if len(os.fsencode(path.name)) > MAX_FILE_NAME_BYTES:
        fail(f"The file name {path.name} is too long.")
    from mahtab_tui.export.merging import new_notebook

    return replace(new_notebook(path), rewritable=True)


def reopen_notebook(past: list[Record]) -> LoadedNotebook | None:
    """Return the notebook that a resumed session had opened, in its current state.

    Returns:
        None if the session opened none, or if it cannot be read, which a notice in `past` reports.
    """
    opened: NotebookOpened | None = None
    last_file = ""
    for record in past:
        if isinstance(record, NotebookOpened):
            opened = record
            last_file = record.file
        elif isinstance(record, NotebookWritten) and record.file:
            # The session may have saved it under another name since.
            last_file = record.file
    if opened is None:
        return None

    try:
        return replace(read_notebook(Path(last_file)), rewritable=opened.rewritable)
    except NotebookError as error:
        text = f"The session's notebook cannot be opened. {error}"
        past.append(Notice(text, level="warning", time=time.time()))
        return None


class ResumedSession(NamedTuple):
    """A saved session that goes on."""

    backend: SessionBackend
    name: str
    past: list[Record]
    """The records of the session so far."""
    notebook: LoadedNotebook | None
    kernel: str = ""
    """The kernel's address; empty on this machine."""
    problem: str = ""
    """Why the session does not continue with its own kernel; empty if it does."""


def new_backend(settings: Settings, project: Path) -> SessionBackend:
    """Return the kernel and store of a new session in a folder."""
    return _make_backend(settings, new_store(project).store)


def backend_without_store(settings: Settings) -> SessionBackend:
    """Return a kernel and a store in memory, for a session that saves nothing."""
    disable_langsmith()
    with fail_on(KernelError):
        return SessionBackend(process_kernel(settings), MemoryStore())


def resume_backend(
    settings: Settings,
    session: str | None,
    project: Path | None,
    notebook: LoadedNotebook | None,
    *,
    its_kernel: bool = True,
    asks_user: bool = True,
) -> ResumedSession:
    """Resume a session, and reattach its kernel if that is waiting.

    Ends the command if this is impossible.

    Args:
        settings: The settings of the model and the kernel.
        session: The beginning of the session's ID; None is the last one.
        project: Resume the last session of this folder; None looks in all folders.
        notebook: The notebook to show; None is the one that the session had opened.
        its_kernel: Use the session's own kernel address and interpreter.
        asks_user: Whether there is a user to ask if another terminal has it open; otherwise the
            command ends.
    """
    with fail_on(SessionNotFound):
        store, name, past = resume(
            session, project, variables=settings.keep_namespace, asks_user=asks_user
        )
    if notebook is None and past:
        notebook = reopen_notebook(past)
    attached = attach(store, past, settings)
    past = attached.past

    choice = _KernelChoice(settings)
    if its_kernel:
        choice = _choose_last_kernel(settings, past)
    backend = _make_backend(choice.settings, store, attached.kernel)
    kernel_address = choice.settings.kernel or ""
    return ResumedSession(backend, name, past, notebook, kernel_address, choice.problem)


class _KernelChoice(NamedTuple):
    """The settings with the kernel that a resumed session uses."""

    settings: Settings
    problem: str = ""
    """Why it is not the session's own kernel, as a sentence; empty if it is."""


def _choose_last_kernel(settings: Settings, past: list[Record]) -> _KernelChoice:
    """Return the settings with the kernel that the session last used.

    The settings are unchanged if that kernel is unknown or gone.
    """
    last_kernel = _find_last_kernel(past)
    if last_kernel is None:
        return _KernelChoice(settings)
    # Sessions from a version that did not save addresses have only the host's name.
    if last_kernel.host and not last_kernel.address:
        return _KernelChoice(settings)

    update: dict[str, str | None]
    if last_kernel.address:
        update = {"kernel": last_kernel.address}
    else:
        update = {"kernel": None, "python": last_kernel.executable}
    changed_settings = settings.model_copy(update=update)

    try:
        if changed_settings.kernel:
            process_kernel(changed_settings)  # this starts nothing
        else:
            find_interpreter(changed_settings.python)
    except KernelError as error:
        if last_kernel.address:
            reason = str(error).rstrip(".")
            problem = f"kernel, {last_kernel.address}, is gone ({reason})"
        else:
            problem = f"interpreter, {last_kernel.executable}, is gone"
        text = f"This session's {problem}; it continues with another one. /kernel lists others."
        return _KernelChoice(settings, one_line(text))
    return _KernelChoice(changed_settings)


def _find_last_kernel(past: list[Record]) -> KernelRecord | None:
    """Return the record of the last kernel that has started; None if there is none."""
    for record in reversed(past):
        if isinstance(record, KernelRecord) and record.pid and record.executable:
            return record
    return None


def _make_backend(
    settings: Settings, store: SqliteStore, waiting_kernel: ReattachedKernel | None = None
) -> SessionBackend:
    """Return the kernel, not started yet, and the store of a session.

    Ends the command if the settings name a kernel that cannot exist.
    """
    namespace_target = None
    if settings.keep_namespace:
        namespace_target = save_target(store.session, settings.keep_namespace_mb)
    # Only a session that this process may write can be found by its kernel again.
    session_id = store.session if store.claim is not None else ""
    try:
        kernel = process_kernel(
            settings, namespace_target, session=session_id, reattached=waiting_kernel
        )
    except KernelError as error:
        if store.claim is not None:
            store.claim.release()
        fail(str(error))

    def make_kernel(address: str) -> Kernel:
        changed_settings = settings.model_copy(update={"kernel": address or None})
        return process_kernel(changed_settings, namespace_target, session=session_id)

    return SessionBackend(kernel, store, store.claim, make_kernel)


def print_how_to_continue(backend: SessionBackend, name: str, *, resumed: bool, cell: int) -> None:
    """Print the commands that continue a saved session.

    Args:
        backend: The kernel and the store of the session.
        name: The session's name.
        resumed: Whether it was saved before; a new session is saved once it has a record.
        cell: The number of the cell that is still running in the background; 0 if none is.
    """
    store = backend.store
    if not isinstance(store, SqliteStore):
        return
    if not resumed and not store.has_written:
        return

    typer.echo(f"The conversation of session {one_line(name)} ({store.session}) is saved.")
    typer.echo(f"To continue it: mahtab-tui --continue here, or --resume {store.session}")
    if cell:
        typer.echo(f"Session {store.session} is still running cell {cell} in the background.")
        typer.echo(f"To stop it: mahtab-tui sessions stop {store.session}")
