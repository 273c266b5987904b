"""What each new kernel of a session begins with."""

from __future__ import annotations

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.settings.model import Settings, home_folder


def process_kernel(settings: Settings) -> Kernel:
    """The kernel of a session by the settings, in a process of its own."""
    return ProcessKernel(
        settings.python,
        startup=startup_code(),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
    )


def startup_code() -> str:
    """Code that runs the person's ``startup.py`` in the kernel's namespace; empty where there is none."""
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    # No name of its own: one that ends with an error would leave it behind.
    return f"exec(compile(__import__('pathlib').Path({str(path)!r}).read_bytes(), {str(path)!r}, 'exec'))"
