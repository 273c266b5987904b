"""Finds what an agent can activate: a project, a virtual environment, a conda prefix, an
interpreter."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mahtab_tui.kernel.environments import INSIDE, EnvironmentKind, environment_kind
from mahtab_tui.mcp.tools import McpToolError

Kind = Literal["interpreter", "project"] | EnvironmentKind


class EnvironmentNotFound(McpToolError):
    """A path names nothing that can be activated; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Something to activate."""

    kind: Kind
    path: Path
    python: Path | None
    """Its interpreter; None for a project without its own environment."""
    folder: Path | None
    """The folder to work in; None to stay in the current one."""


def find_environment(path: str, cwd: Path) -> Environment:
    """Find the environment that `path` (relative to `cwd`) names. Raises `EnvironmentNotFound`."""
    try:
        return _found(Path(os.path.abspath(cwd / Path(path).expanduser())), path)
    except RuntimeError:  # from `expanduser`
        raise EnvironmentNotFound(f"{path} names an unknown user.") from None
    except OSError as error:
        raise EnvironmentNotFound(f"{path[:200]} cannot be read: {error.strerror}.") from None


def _found(found: Path, path: str) -> Environment:
    if found.is_file():
        if not os.access(found, os.X_OK):
            raise EnvironmentNotFound(f"{found} is not a program.")
        return Environment("interpreter", found, found, None)
    if not found.is_dir():
        raise EnvironmentNotFound(f"{found} does not exist.")
    if kind := environment_kind(found):
        return Environment(kind, found, found / "bin" / "python", None)
    for name in INSIDE:
        if environment_kind(found / name):
            return Environment("project", found, found / name / "bin" / "python", found)
    if (
        (found / "pyproject.toml").is_file()
        or (found / "requirements.txt").is_file()
        or path == "."
    ):
        return Environment("project", found, None, found)
    raise EnvironmentNotFound(
        f"{found} is neither a virtual environment (pyvenv.cfg), nor a conda prefix (conda-meta), nor a project (.venv, pyproject.toml, requirements.txt)."
    )


def project_of(folder: Path) -> Path | None:
    """Return the nearest folder with a ``pyproject.toml``, from `folder` upwards."""
    return next(
        (place for place in (folder, *folder.parents) if (place / "pyproject.toml").is_file()), None
    )
