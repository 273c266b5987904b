"""Writes a session into a file whose ending says how."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.asides import Aside
from mahtab_tui.export.selection import Selected

ENDINGS = (".ipynb", ".py", ".md", ".html")


def rendered(selected: Selected, ending: str) -> str:
    """Return the text of a file with this ending, one of `ENDINGS`."""
    if ending == ".html":
        from mahtab_tui.export.page import page

        return page(selected)
    import nbformat

    from mahtab_tui.export.notebook import markdown, notebook

    if ending == ".md":
        return markdown(selected)
    if ending == ".ipynb":
        return str(nbformat.writes(notebook(selected))) + "\n"
    import jupytext

    made = notebook(selected._replace(entries=[entry for entry in selected.entries if not isinstance(entry, Aside)]))
    made.metadata = {"kernelspec": made.metadata.kernelspec}
    for cell in made.cells:
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)  # Python reads no file with a NUL in it
    return str(jupytext.writes(made, fmt="py:percent"))


def write(selected: Selected, path: Path, *, over: bool = False) -> None:
    """Write the file in one step. Raises `OSError`; `FileExistsError` if it is there and not `over`."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    text = rendered(selected, path.suffix.lower())
    if not over and os.path.lexists(path):  # also a link that leads nowhere
        raise FileExistsError(f"{path} already exists.")
    replace_file(path, text)


def replace_file(path: Path, text: str, encoding: str = "utf-8") -> None:
    """Write a file in one step: others see the old one or the new one, whole. A link stays one. Raises `OSError`."""
    path = Path(os.path.realpath(path))
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".mahtab-")
    except OSError as error:
        error.filename = str(path)  # not the name of the draft
        raise
    try:
        with os.fdopen(handle, "w", encoding=encoding, errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode(path))
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _mode(path: Path) -> int:
    """Return the mode that the file has, or that a new one gets."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
