"""Creates the kernel of a session, with the user's startup code."""

from __future__ import annotations

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.launch import Place
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.settings.model import Settings, home_folder

KEPT = 12.0
"""Hours that an idle kernel elsewhere is kept without a connection."""


def process_kernel(settings: Settings, keep: KeepPlace | None = None) -> Kernel:
    """Create a kernel in a process of its own, as the settings say. keep: where its namespace is kept; None for nowhere."""
    return ProcessKernel(
        settings.python,
        startup=startup_code(there=settings.kernel is not None),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=keep,
        place=_place(settings),
    )


def _place(settings: Settings) -> Place | None:
    """Return where the kernel runs; None for here. Raises `KernelError`."""
    if settings.kernel is None:
        return None
    from mahtab_tui.kernel.elsewhere.address import parse
    from mahtab_tui.kernel.elsewhere.place import Elsewhere

    return Elsewhere(parse(settings.kernel), KEPT)


def startup_code(*, there: bool = False) -> str:
    """Return code that runs the user's ``startup.py`` in the kernel's namespace; empty if there is none. there: the kernel cannot read it."""
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    if there:
        return f"exec(compile({path.read_bytes()!r}, {str(path)!r}, 'exec'))"
    # It binds no names, which would stay behind if the file fails.
    return f"exec(compile(__import__('pathlib').Path({str(path)!r}).read_bytes(), {str(path)!r}, 'exec'))"
