"""Kernel, store and lock of a session of the screen. Loaded when they are made: for a new session
that is behind the first picture."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from mahtab_tui.bus.records import Kernel, Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.printing import fail
from mahtab_tui.export.reading import NotebookFile
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.environments import found_environments
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.session.backend import SessionBackend
from mahtab_tui.session.kernel_factory import Waiting, kernel_at, process_kernel
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.namespaces import keep_place
from mahtab_tui.store.resume import NoSession, new_store
from mahtab_tui.store.sqlite import SqliteStore


class Resumed(NamedTuple):
    """A session that goes on."""

    ground: SessionBackend
    name: str
    past: list[Record]
    notebook: NotebookFile | None
    kernel: str = ""
    """The address of its kernel; empty for this machine."""
    problem: str = ""
    """Says why it does not run on its kernel or interpreter."""


def new_ground(settings: Settings, project: Path) -> SessionBackend:
    """Create the kernel and the store of a new session. Ends the command with a sentence if the
    settings name no kernel."""
    return _ground(settings, new_store(project)[0])


def ground_without_store(settings: Settings) -> SessionBackend:
    """Create the kernel of a session that is not saved, and keep its records in memory. Ends the
    command as `new_ground`."""
    from mahtab_tui.store.memory import MemoryStore
    from mahtab_tui.system.exporting import keep_from_langsmith

    keep_from_langsmith()
    try:
        return SessionBackend(process_kernel(settings), MemoryStore())
    except KernelError as error:
        fail(str(error))


def resumed_ground(
    settings: Settings,
    session: str | None,
    project: Path | None,
    notebook: NotebookFile | None,
    *,
    its_kernel: bool = True,
) -> Resumed:
    """Continue a session: with its kernel, if it has waited. Ends the command with a sentence if it
    cannot go on.

    session: the start of its id; None for the last one, of the project or of all. notebook: the one
    to show; None for the session's own. its_kernel: go on at the address and with the interpreter
    that it had.
    """
    from mahtab_tui.cli.resume import attach, resume

    try:
        store, name, past = resume(session, project, variables=settings.keep_namespace)
    except NoSession as error:
        fail(str(error))
    if notebook is None and past:
        from mahtab_tui.cli.notebooks import notebook_of

        notebook = notebook_of(past)
    waiting, past = attach(store, past, settings)
    settings, problem = _with_kernel_of(settings, past) if its_kernel else (settings, "")
    return Resumed(
        _ground(settings, store, waiting), name, past, notebook, settings.kernel or "", problem
    )


def _with_kernel_of(settings: Settings, past: list[Record]) -> tuple[Settings, str]:
    """Return settings with the address and interpreter that a session had last, and a sentence if
    they are gone."""
    last = next(
        (
            each
            for each in reversed(past)
            if isinstance(each, Kernel) and each.pid and each.executable
        ),
        None,
    )
    if last is None or (
        last.place and not last.address
    ):  # of a version that did not save addresses
        return settings, ""
    update = (
        {"kernel": last.address} if last.address else {"kernel": None, "python": last.executable}
    )
    changed = settings.model_copy(update=update)
    try:
        if changed.kernel:
            process_kernel(changed)  # it starts nothing
        else:
            find_interpreter(changed.python)
    except KernelError as error:
        return settings, _gone(
            last, settings, f" ({str(error).rstrip('.')})" if last.address else ""
        )
    return changed, ""


def _gone(last: Kernel, settings: Settings, why: str) -> str:
    now, others = settings.kernel or "", ""
    if not now:
        with suppress(KernelError):  # the kernel's start says why it has none
            now = find_interpreter(settings.python)
        others = ", ".join(each.path for each in found_environments(Path.cwd(), now)[:3])
    had = f"kernel, {last.address}," if last.address else f"interpreter, {last.executable},"
    listed = f"/kernel lists others{f': {others}' * bool(others)}."
    return one_line(f"This session's {had} is gone{why}; it continues with {now}. {listed}")


def _ground(
    settings: Settings, store: SqliteStore, waiting: Waiting | None = None
) -> SessionBackend:
    keep = (
        keep_place(store.session, settings.keep_namespace_mb) if settings.keep_namespace else None
    )
    held = store.session if store.claim is not None else ""
    try:
        kernel = process_kernel(settings, keep, session=held, waiting=waiting)
    except KernelError as error:
        if store.claim is not None:
            store.claim.release()
        fail(str(error))
    return SessionBackend(kernel, store, store.claim, partial(kernel_at, settings, keep, held))


def tell_how_to_continue(ground: SessionBackend, name: str, *, resumed: bool, cell: int) -> None:
    """Print what has become of a session that was closed. cell: the one that its kernel still runs;
    0 for none."""
    store = ground.store
    if isinstance(store, SqliteStore) and (resumed or store.begun):
        typer.echo(f"The conversation of session {one_line(name)} ({store.session}) is saved.")
        typer.echo(f"To continue it: mahtab-tui --continue here, or --resume {store.session}")
        if cell:
            typer.echo(f"Session {store.session} is still running cell {cell} in the background.")
            typer.echo(f"To stop it: mahtab-tui sessions stop {store.session}")
