"""Kernel, store and notebook of a session on the screen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from mahtab_tui.bus.records import Kernel, NotebookWritten, Notice, Record
from mahtab_tui.bus.records import NotebookFile as NotebookOpened
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import fail, fail_on
from mahtab_tui.cli.sessions import attach, resume
from mahtab_tui.export.reading import NotebookError, NotebookFile, read_notebook
from mahtab_tui.kernel import base
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.providers import check_name, full_name
from mahtab_tui.session.info import SessionBackend
from mahtab_tui.session.kernel import DetachedKernel, process_kernel
from mahtab_tui.settings.model import Settings, load_settings
from mahtab_tui.store.resume import SessionNotFound, new_store, save_target
from mahtab_tui.store.sqlite import MemoryStore, SqliteStore
from mahtab_tui.system import Lazy, disable_langsmith

LONGEST_NAME = 255


def open_notebook(paths: Sequence[Path], opened: Path | None) -> NotebookFile | None:
    """Read the file whose cells are shown. Ends the command if that is impossible. opened: the file
    that is kept up to date, which need not exist."""
    if len(paths) + (opened is not None) > 1:
        first, second, *_ = [*paths, *([] if opened is None else [opened])]
        fail(
            f"Only one file can be opened as cells: {first} or {second}. --load FILE loads the other as a variable."
        )
    try:
        if opened is not None:
            return _opened_notebook(opened)
        return read_notebook(paths[0]) if paths else None
    except NotebookError as error:
        fail(str(error))


def _opened_notebook(path: Path) -> NotebookFile:
    if path.suffix.lower() != ".ipynb":
        fail(f"--notebook writes a notebook: {path} must end in .ipynb.")
    if os.path.lexists(path):
        return replace(read_notebook(path), rewritable=True)
    if not os.path.isdir(path.parent):
        fail(f"There is no folder {path.parent} for {path.name}.")
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        fail(f"The file name {path.name} is too long.")
    from mahtab_tui.export.writing import new_notebook

    return replace(new_notebook(path), rewritable=True)


def reopen_notebook(past: list[Record]) -> NotebookFile | None:
    """Return the notebook that a resumed session opened, in its current state; None if there is
    none, or if it cannot be read, which a notice reports."""
    opened = next((each for each in reversed(past) if isinstance(each, NotebookOpened)), None)
    if opened is None:
        return None
    written = [
        each.file
        for each in past
        if isinstance(each, NotebookWritten) and each.time >= opened.time and each.file
    ]
    try:
        found = read_notebook(Path([opened.file, *written][-1]))
        return replace(found, rewritable=opened.rewritable)
    except NotebookError as error:
        text = f"The session's notebook cannot be opened. {error}"
        past.append(Notice(text, level="warning", time=time.time()))
        return None


class ResumedSession(NamedTuple):
    backend: SessionBackend
    name: str
    past: list[Record]
    notebook: NotebookFile | None
    kernel: str = ""
    problem: str = ""


def new_backend(settings: Settings, project: Path) -> SessionBackend:
    return _make_backend(settings, new_store(project)[0])


def backend_without_store(settings: Settings) -> SessionBackend:
    disable_langsmith()
    with fail_on(KernelError):
        return SessionBackend(process_kernel(settings), MemoryStore())


def resume_backend(
    settings: Settings,
    session: str | None,
    project: Path | None,
    notebook: NotebookFile | None,
    *,
    its_kernel: bool = True,
) -> ResumedSession:
    """Resume a session, reattaching its kernel if that is waiting. Ends the command if this is
    impossible. its_kernel: use the session's own kernel address and interpreter."""
    with fail_on(SessionNotFound):
        store, name, past = resume(session, project, variables=settings.keep_namespace)
    if notebook is None and past:
        notebook = reopen_notebook(past)
    waiting, past = attach(store, past, settings)
    settings, problem = _use_last_kernel(settings, past) if its_kernel else (settings, "")
    backend = _make_backend(settings, store, waiting)
    return ResumedSession(backend, name, past, notebook, settings.kernel or "", problem)


def _use_last_kernel(settings: Settings, past: list[Record]) -> tuple[Settings, str]:
    kernels = (each for each in reversed(past) if isinstance(each, Kernel))
    last = next((each for each in kernels if each.pid and each.executable), None)
    # From a version that did not save addresses.
    if last is None or (last.host and not last.address):
        return settings, ""
    update = {"kernel": None, "python": last.executable}
    if last.address:
        update = {"kernel": last.address}
    changed = settings.model_copy(update=update)
    try:
        if changed.kernel:
            process_kernel(changed)  # this starts nothing
        else:
            find_interpreter(changed.python)
    except KernelError as error:
        had = f"interpreter, {last.executable}, is gone"
        if last.address:
            had = f"kernel, {last.address}, is gone ({str(error).rstrip('.')})"
        text = f"This session's {had}; it continues with another one. /kernel lists others."
        return settings, one_line(text)
    return changed, ""


def _make_backend(
    settings: Settings, store: SqliteStore, waiting: DetachedKernel | None = None
) -> SessionBackend:
    keep = None
    if settings.keep_namespace:
        keep = save_target(store.session, settings.keep_namespace_mb)
    session = store.session if store.claim is not None else ""
    try:
        kernel = process_kernel(settings, keep, session=session, waiting=waiting)
    except KernelError as error:
        if store.claim is not None:
            store.claim.release()
        fail(str(error))

    def make_kernel(address: str) -> base.Kernel:
        elsewhere = settings.model_copy(update={"kernel": address or None})
        return process_kernel(elsewhere, keep, session=session)

    return SessionBackend(kernel, store, store.claim, make_kernel)


def print_how_to_continue(backend: SessionBackend, name: str, *, resumed: bool, cell: int) -> None:
    store = backend.store
    if isinstance(store, SqliteStore) and (resumed or store.has_written):
        typer.echo(f"The conversation of session {one_line(name)} ({store.session}) is saved.")
        typer.echo(f"To continue it: mahtab-tui --continue here, or --resume {store.session}")
        if cell:
            typer.echo(f"Session {store.session} is still running cell {cell} in the background.")
            typer.echo(f"To stop it: mahtab-tui sessions stop {store.session}")


_LOOP_RUNS = (
    "run_repl() cannot open a screen here: an event loop is running already (is this a notebook?). "
    "Use create_repl_agent(...) and `await agent.ask(...)` here, or call run_repl() from a plain Python prompt or script."
)


def run_repl(
    ns: dict[str, Any] | None = None, *, model: str | None = None, approval: str | None = None
) -> None:
    """Open the full screen over a live namespace, by default a new one; returns when the user
    quits.

    ns: a dict of names, such as ``globals()``. Cells run in this process on a separate thread, and
    bind names in `ns`. Operations that need the main thread (signal handlers, a caller's sqlite
    connection) fail there with Python's own error.

    Raises `RuntimeError` inside a running event loop or without a terminal, `SettingsError` for
    invalid settings, `ModelError` for an unknown model.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(_LOOP_RUNS)
    from mahtab_tui.tui.open import TerminalUnavailable, open_screen

    kernel = InProcessKernel({"__name__": "__main__"} if ns is None else ns)
    settings = load_settings(model=model, approval=approval)
    if settings.model is not None:
        check_name(full_name(settings.model, settings.provider))
    try:
        open_screen(settings, Lazy.of(SessionBackend(kernel)), keeps_namespace=ns is not None)
    except TerminalUnavailable as error:
        raise RuntimeError(str(error)) from None
