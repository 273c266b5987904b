"""Where a kernel runs: the interface of launchers, the one for this machine, and its
interpreters."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.local_process import environment, spawn
from mahtab_tui.kernel.process_parts import Process
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.system import find_program

_INTERPRETER_NAME = re.compile(r"(python|pypy)[\d.]*[a-z]?")
_PYTHON_HINT = "give a Python interpreter's file, or a virtual environment's folder"


class Launcher(Protocol):
    """Starts a kernel's processes, on this machine or another one."""

    label: str
    """The name of the other machine, for the user; empty for this one."""
    address: str
    """The address of the other machine, as ``--kernel`` takes it; empty for this one."""
    problem: str
    """Why the last process ends with its screen, as a sentence; empty if that is meant so."""
    will_reattach: bool
    """Whether the first `start` attaches to a waiting kernel."""

    def find(self, python: str | None) -> str:
        """Find an interpreter; None for the default one. Raises `KernelError`."""
        ...

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], state: ConnectionState
    ) -> Process:
        """Start the worker, on a thread that lives as long as it does.

        Raises `OSError`, `ValueError` and `KernelError`.
        """

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Return what the worker needs to save the namespace. Raises `KernelError`."""
        ...


class LocalLauncher:
    """Launches kernels on this machine that end with their screen."""

    label = ""
    address = ""
    problem = ""
    will_reattach = False
    watches_files = False
    """Whether kernels start with a witness of their files."""

    def find(self, python: str | None) -> str:
        return find_interpreter(python)

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], state: ConnectionState
    ) -> Process:
        return spawn(executable, cwd, environment(*size), witness=self.watches_files)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        return {**target._asdict(), "cloudpickle": cloudpickle_folder()}


def cloudpickle_folder() -> str:
    """Return the folder of cloudpickle, which is not imported here. Raises `KernelError`."""
    spec = find_spec("cloudpickle")
    if spec is None or spec.origin is None:
        raise KernelError(
            "Variables are not saved, because the package cloudpickle is missing. Install mahtab-tui again."
        )
    return os.path.dirname(spec.origin)


def find_interpreter(python: str | None) -> str:
    """Find an interpreter's file.

    Args:
        python: A path, a name on the PATH, the folder of a virtual environment, or None for our own.
            Names such as ``python3`` are looked up only on the PATH, because a folder may contain a
            file with that name.

    Raises:
        KernelError: There is no such program; the message is a sentence.
    """
    if python is None:
        return sys.executable
    path = Path(python).expanduser()
    if os.sep not in python and (_INTERPRETER_NAME.fullmatch(python) or not path.is_dir()):
        program = find_program(python)
        if program is None:
            raise KernelError(f"There is no {python} on the PATH: {_PYTHON_HINT}.")
        path = Path(program)
    elif path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK):
        raise KernelError(f"There is no program {path}: {_PYTHON_HINT}.")
    # Links are not resolved, because the python of a virtual environment is a link that only works
    # under its own name.
    return os.path.abspath(path)
