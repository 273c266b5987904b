"""Python environments and kernels of Jupyter that the user can switch to, without running them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

EnvironmentKind = Literal["virtual environment", "conda environment"]
VENV_NAMES = (".venv", "venv")
MAX_SPECS = 100
"""Kernels of Jupyter that are listed from a folder."""
MAX_CONDA_ENVIRONMENTS = 100
"""Lines of conda's list of environments that are read."""
MAX_CONDA_LIST_BYTES = 65_536
_SPEC_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class PythonEnvironment(NamedTuple):
    """The folder of an environment that the user can switch to."""

    path: str
    """The path as the user would type it."""
    prefix: Path
    """The folder itself."""


def environment_kind(folder: Path) -> EnvironmentKind | None:
    """Return the kind of an environment's folder; None if it is not an environment."""
    if not (folder / "bin" / "python").exists():
        return None
    if (folder / "pyvenv.cfg").is_file():
        return "virtual environment"
    if (folder / "conda-meta").is_dir():
        return "conda environment"
    return None


def environment_prefix(python: str) -> Path | None:
    """Return the folder of an interpreter's environment, if it belongs to one."""
    folder = Path(python).parent.parent
    if environment_kind(folder) is None:
        return None
    return folder


def find_environments(folder: Path, python: str) -> list[PythonEnvironment]:
    """Find environments in a folder and those that are active or that conda lists.

    Args:
        folder: The working directory.
        python: The kernel's interpreter, whose environment is left out.
    """
    current_prefix = environment_prefix(python)
    environments: dict[str, PythonEnvironment] = {}
    """Environments by the real paths of their folders, because several names may mean the same."""
    for candidate in _environment_candidates(folder):
        with suppress(OSError):
            if not candidate.path.isprintable():
                continue
            prefix = candidate.prefix
            if current_prefix is not None and prefix.samefile(current_prefix):
                continue
            if environment_kind(prefix) is not None:
                environments.setdefault(os.path.realpath(prefix), candidate)
    return list(environments.values())


def find_kernelspecs() -> list[str]:
    """Return the names of Jupyter's kernels on this machine, without importing its libraries."""
    user_folder = os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter")
    prefixes = (sys.prefix, "/usr/local", "/usr")
    names: dict[str, None] = {}
    for folder in (user_folder, *(f"{prefix}/share/jupyter" for prefix in prefixes)):
        with suppress(OSError):
            spec_files = sorted(Path(folder, "kernels").glob("*/kernel.json"))
            for file in spec_files[:MAX_SPECS]:
                names[file.parent.name] = None
    return [name for name in names if _SPEC_NAME.fullmatch(name)]


def has_package(prefix: Path, name: str) -> bool:
    """Return whether an environment has a package or a module with this name."""
    try:
        return any(
            path.exists()
            for site_packages in prefix.glob("lib/python3.*/site-packages")
            for path in (site_packages / name, site_packages / f"{name}.py")
        )
    except OSError:
        return False


def _environment_candidates(folder: Path) -> Iterator[PythonEnvironment]:
    """Yield folders that may be environments."""
    for name in VENV_NAMES:
        yield PythonEnvironment(name, folder / name)
    for variable in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if configured := os.environ.get(variable):
            yield PythonEnvironment(configured, folder / configured)
    # `Path.home` raises a RuntimeError if there is no home folder.
    with suppress(OSError, RuntimeError):
        with (Path.home() / ".conda" / "environments.txt").open("rb") as file:
            conda_list = os.fsdecode(file.read(MAX_CONDA_LIST_BYTES))
        for line in conda_list.splitlines()[:MAX_CONDA_ENVIRONMENTS]:
            if os.path.isabs(line):
                yield PythonEnvironment(line, Path(line))
