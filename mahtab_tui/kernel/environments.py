"""Finds Python environments for the kernel from files alone, without starting any program."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

EnvironmentKind = Literal["virtual environment", "conda environment"]

INSIDE = (".venv", "venv")
"""Names of a project's virtual environment."""

_SPEC = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""A kernelspec's name."""
_MOST = 100
"""Conda environments and kernelspecs that are examined."""
_LIST_BYTES = 65_536
"""Bytes of conda's list that are read."""


class PythonEnvironment(NamedTuple):
    """A Python environment."""

    path: str
    """For ``/python`` and ``--python``; relative if it is in the folder."""
    prefix: Path


def environment_kind(folder: Path) -> EnvironmentKind | None:
    """Return a folder's kind of environment; None if it is not one."""
    if not (folder / "bin" / "python").exists():
        return None
    if (folder / "pyvenv.cfg").is_file():
        return "virtual environment"
    return "conda environment" if (folder / "conda-meta").is_dir() else None


def prefix_of(python: str) -> Path | None:
    """Return the environment of an interpreter; None for a system interpreter."""
    folder = Path(python).parent.parent
    return folder if environment_kind(folder) else None


def found_environments(folder: Path, python: str) -> list[PythonEnvironment]:
    """Find the environments of a project's folder (also uv's), the shell and conda, except the one
    of `python`, which is in use."""
    used = prefix_of(python)
    found: dict[str, PythonEnvironment] = {}
    for path, prefix in _places(folder):
        try:
            if (
                path.isprintable()
                and environment_kind(prefix)
                and not (used and prefix.samefile(used))
            ):
                found.setdefault(os.path.realpath(prefix), PythonEnvironment(path, prefix))
        except OSError:  # an unreadable folder
            continue
    return list(found.values())


def found_kernelspecs() -> list[str]:
    """Find the names of Jupyter's kernels on this machine."""
    data = os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter")
    names: dict[str, None] = {}
    for place in (
        data,
        os.path.join(sys.prefix, "share", "jupyter"),
        "/usr/local/share/jupyter",
        "/usr/share/jupyter",
    ):
        try:
            found = sorted(Path(place, "kernels").glob("*/kernel.json"))
        except OSError:  # an unreadable folder
            continue
        names.update(
            dict.fromkeys(
                file.parent.name for file in found[:_MOST] if _SPEC.fullmatch(file.parent.name)
            )
        )
    return list(names)


def has_package(prefix: Path, name: str) -> bool:
    """Tell whether an environment has a package in its site-packages."""
    try:
        return any(
            path.exists()
            for lib in prefix.glob("lib/python3.*/site-packages")
            for path in (lib / name, lib / f"{name}.py")
        )
    except OSError:
        return False


def _places(folder: Path) -> Iterator[tuple[str, Path]]:
    for name in INSIDE:
        yield name, folder / name
    for variable in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if place := os.environ.get(variable):
            yield place, folder / place
    try:
        with (Path.home() / ".conda" / "environments.txt").open(
            encoding="utf-8", errors="surrogateescape"
        ) as file:
            listed = file.read(_LIST_BYTES)
    except (OSError, RuntimeError):  # RuntimeError from `home`
        return
    for line in listed.splitlines()[:_MOST]:
        if os.path.isabs(line):
            yield line, Path(line)
