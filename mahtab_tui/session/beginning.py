"""Creates the kernel of a session, with the user's startup code."""

from __future__ import annotations

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.restoration import KeepPlace
from mahtab_tui.settings.model import Settings, home_folder


def process_kernel(settings: Settings, keep: KeepPlace | None = None) -> Kernel:
    """Create a kernel in a process of its own, as the settings say. keep: where its namespace is kept; None for nowhere."""
    return ProcessKernel(
        settings.python,
        startup=startup_code(),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=keep,
    )


def startup_code() -> str:
    """Return code that runs the user's ``startup.py`` in the kernel's namespace; empty if there is none."""
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    # It binds no names, which would stay behind if the file fails.
    return f"exec(compile(__import__('pathlib').Path({str(path)!r}).read_bytes(), {str(path)!r}, 'exec'))"
