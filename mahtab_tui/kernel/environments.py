"""Pythons that the kernel could run on, found by looking at files: nothing of them is started, nor any program that manages them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

EnvironmentKind = Literal["virtual environment", "conda environment"]

INSIDE = (".venv", "venv")
"""Where a project's virtual environment is looked for."""

_MOST = 100
"""Conda environments that are looked at."""
_LIST_BYTES = 65_536
"""Of conda's list of them that are read."""


class Found(NamedTuple):
    """An environment that may be chosen."""

    path: str
    """As it is given to ``/python`` and ``--python``: short where it stands in the folder."""
    prefix: Path


def environment_kind(folder: Path) -> EnvironmentKind | None:
    """What kind of environment a folder is; None where it is none."""
    if not (folder / "bin" / "python").exists():
        return None
    if (folder / "pyvenv.cfg").is_file():
        return "virtual environment"
    return "conda environment" if (folder / "conda-meta").is_dir() else None


def prefix_of(python: str) -> Path | None:
    """The environment that an interpreter's file belongs to; None for one that belongs to the system."""
    folder = Path(python).parent.parent
    return folder if environment_kind(folder) else None


def found_environments(folder: Path, python: str) -> list[Found]:
    """The environments of a project's folder, of the shell, and conda's; without the one of `python`, which is in use. uv makes a ``.venv``, too."""
    used = prefix_of(python)
    found: dict[str, Found] = {}
    for path, prefix in _places(folder):
        try:
            if path.isprintable() and environment_kind(prefix) and not (used and prefix.samefile(used)):
                found.setdefault(os.path.realpath(prefix), Found(path, prefix))
        except OSError:  # a folder that cannot be looked into
            continue
    return list(found.values())


def has_package(prefix: Path, name: str) -> bool:
    """Whether a package stands in an environment's own folder of packages."""
    try:
        return any(path.exists() for lib in prefix.glob("lib/python3.*/site-packages") for path in (lib / name, lib / f"{name}.py"))
    except OSError:
        return False


def _places(folder: Path) -> Iterator[tuple[str, Path]]:
    for name in INSIDE:
        yield name, folder / name
    for variable in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if place := os.environ.get(variable):
            yield place, folder / place
    try:
        with (Path.home() / ".conda" / "environments.txt").open(encoding="utf-8", errors="surrogateescape") as file:
            listed = file.read(_LIST_BYTES)
    except (OSError, RuntimeError):  # of `home`
        return
    for line in listed.splitlines()[:_MOST]:
        if os.path.isabs(line):
            yield line, Path(line)
