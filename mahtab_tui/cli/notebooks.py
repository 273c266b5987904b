"""The notebook that the command line names, or that a resumed session has opened."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mahtab_tui.bus.records import NotebookFile as NotebookOpened
from mahtab_tui.bus.records import NotebookWritten, Notice, Record
from mahtab_tui.cli.printing import fail
from mahtab_tui.export.reading import CannotOpen, NotebookFile, read_notebook

LONGEST_NAME = 255
"""Bytes of a file's name, on the disks of Linux and macOS."""


def named_notebook(paths: Sequence[Path], kept: Path | None) -> NotebookFile | None:
    """Read the file whose cells are shown. Ends the command with a sentence if it cannot be.

    paths: the files that were named as such. kept: the one that is kept up to date; it need not
    exist.
    """
    if len(paths) + (kept is not None) > 1:
        first, second, *_ = [*paths, *([] if kept is None else [kept])]
        fail(
            f"Only one file can be opened as cells: {first} or {second}. --load FILE loads the other as a variable."
        )
    try:
        if kept is not None:
            return _kept(kept)
        return read_notebook(paths[0]) if paths else None
    except CannotOpen as error:
        fail(str(error))


def _kept(path: Path) -> NotebookFile:
    if path.suffix.lower() != ".ipynb":
        fail(f"--notebook writes a notebook: {path} must end in .ipynb.")
    if os.path.lexists(path):
        return replace(read_notebook(path), kept=True)
    if not os.path.isdir(path.parent):
        fail(f"There is no folder {path.parent} for {path.name}.")
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        fail(f"The file name {path.name} is too long.")
    from mahtab_tui.export.saving import new_notebook

    return replace(new_notebook(path), kept=True)


def notebook_of(past: list[Record]) -> NotebookFile | None:
    """Return the notebook that a resumed session has opened, as it is now; None if there is none,
    or it cannot be read, which a notice tells."""
    opened = next((record for record in reversed(past) if isinstance(record, NotebookOpened)), None)
    if opened is None:
        return None
    written = next(
        (
            record
            for record in reversed(past)
            if isinstance(record, NotebookWritten) and record.time >= opened.time
        ),
        None,
    )
    file = written.file if written is not None and written.file else opened.file
    try:
        return replace(read_notebook(Path(file)), kept=opened.kept)
    except CannotOpen as error:
        past.append(
            Notice(
                f"The session's notebook cannot be opened. {error}",
                level="warning",
                time=time.time(),
            )
        )
        return None
