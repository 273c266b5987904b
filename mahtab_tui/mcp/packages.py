"""The commands that manage an environment's packages: uv's where it is, else pip's."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mahtab_tui.kernel.environments import prefix_of
from mahtab_tui.kernel.worker.habits.running import PIP
from mahtab_tui.mcp.environments import project_of

Action = Literal["add", "rm", "status", "update", "install", "resolve", "test", "develop", "free"]

WANT_PACKAGES: frozenset[Action] = frozenset({"add", "rm", "develop", "free"})


class NoCommand(Exception):
    """It cannot be done here; the message says why, and what can be done instead."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run, one after the other, up to the first that fails."""

    commands: list[list[str]]
    cwd: Path
    environment: dict[str, str]
    """What is set on top of the server's own."""
    note: str = ""


def plan(action: Action, packages: list[str], python: str, cwd: Path, uv: str | None = None) -> Plan:
    """The commands for an action in the environment of `python`. uv: its file, by default the one on the PATH, "" for none.

    Raises `NoCommand`.
    """
    uv = shutil.which("uv") if uv is None else uv
    if action in WANT_PACKAGES and not packages:
        raise NoCommand(f"pkg {action} needs the names of packages{' (or folders)' if action == 'develop' else ''}.")
    if action != "test" and (odd := next((package for package in packages if package.startswith("-")), None)):
        raise NoCommand(f"{odd} is an option, not a package.")
    if action == "develop":
        packages = [str(cwd / package) for package in packages]
    project, prefix = project_of(cwd), prefix_of(python)
    environment = {"VIRTUAL_ENV": str(prefix)} if prefix is not None else {}
    if action == "test":
        return Plan([[python, "-m", "pytest", *packages]], project or cwd, environment)
    if uv and project is not None and prefix is not None and action != "status":
        return Plan(_of_project(uv, action, packages, project), project, {**environment, "UV_PROJECT_ENVIRONMENT": str(prefix)})
    pip = [uv, "pip"] if uv else [python, "-c", PIP, "--disable-pip-version-check"]
    where = ["--python", python] if uv else []
    note = "pyproject.toml was not changed: that needs uv." if project is not None and action in ("add", "rm") else ""
    return Plan(_of_environment(pip, where, action, packages, project or cwd), project or cwd, environment, note)


def _of_project(uv: str, action: Action, packages: list[str], project: Path) -> list[list[str]]:
    """uv's own project commands: they keep pyproject.toml, the lock file and the environment together."""
    match action:
        case "add":
            return [[uv, "add", *packages]]
        case "rm":
            return [[uv, "remove", *packages]]
        case "install":
            return [[uv, "sync"]]
        case "resolve":
            return [[uv, "lock"]]
        case "develop":
            others = [package for package in packages if Path(package).resolve() != project.resolve()]
            add = [[uv, "add", "--editable", *others]] if others else []
            # The project cannot depend on itself: it is installed so by this.
            return add if len(others) == len(packages) else [*add, [uv, "sync"]]
        case "free":
            released = [word for package in packages for word in ("--no-sources-package", package)]
            # The first changes nothing: where it fails there is no released one, and the project keeps what it has.
            return [[uv, "lock", "--dry-run", *released], [uv, "remove", *packages], [uv, "add", *packages]]
        case _:
            named = [word for package in packages for word in ("--upgrade-package", package)]
            return [[uv, "lock", *(named or ["--upgrade"])], [uv, "sync"]]


def _of_environment(pip: list[str], where: list[str], action: Action, packages: list[str], folder: Path) -> list[list[str]]:
    """Commands on an environment alone."""
    install, uninstall = [*pip, "install", *where], [*pip, "uninstall", *where, *([] if where else ["-y"])]
    match action:
        case "add":
            return [[*install, *packages]]
        case "rm":
            return [[*uninstall, *packages]]
        case "status":
            return [[*pip, "list", *where]]
        case "update" if packages:
            return [[*install, "--upgrade", *packages]]
        case "develop":
            return [[*install, *(word for package in packages for word in ("-e", package))]]
        case "free":
            if where:
                return [[*install, *(word for package in packages for word in ("--reinstall-package", package)), *packages]]
            return [[*install, "--force-reinstall", "--no-deps", *packages], [*install, *packages]]
        case "install" if (folder / "requirements.txt").is_file():
            return [[*install, "-r", "requirements.txt"]]
        case "install" if (folder / "pyproject.toml").is_file():
            return [[*install, "-e", "."]]
        case "install":
            raise NoCommand(f"There is nothing to install from: {folder} has neither a pyproject.toml nor a requirements.txt.")
        case "update":
            raise NoCommand("Say which packages to update: without uv and a pyproject.toml there is no list of what the project wants.")
        case _:
            raise NoCommand("resolve needs uv, a pyproject.toml, and an environment of its own to be active.")
