"""Finds an agent's environment and manages its packages."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from mahtab_tui.kernel.launch import (
    VENV_NAMES,
    EnvironmentKind,
    environment_kind,
    environment_prefix,
)
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.system import find_program, signal_group
from mahtab_tui.worker.magic_commands import PIP

Kind = Literal["interpreter", "project"] | EnvironmentKind


class EnvironmentNotFound(McpToolError):
    pass


@dataclass(frozen=True, slots=True)
class Environment:
    kind: Kind
    path: Path
    python: Path | None
    """None for a project without its own environment."""
    folder: Path | None


def find_environment(path: str, cwd: Path) -> Environment:
    try:
        return _check_found(Path(os.path.abspath(cwd / Path(path).expanduser())), path)
    except RuntimeError:
        raise EnvironmentNotFound(f"{path} names an unknown user.") from None
    except OSError as error:
        raise EnvironmentNotFound(f"{path[:200]} cannot be read: {error.strerror}.") from None


def _check_found(found: Path, path: str) -> Environment:
    if found.is_file():
        if not os.access(found, os.X_OK):
            raise EnvironmentNotFound(f"{found} is not a program.")
        return Environment("interpreter", found, found, None)
    if not found.is_dir():
        raise EnvironmentNotFound(f"{found} does not exist.")
    if kind := environment_kind(found):
        return Environment(kind, found, found / "bin" / "python", None)
    for name in VENV_NAMES:
        if environment_kind(found / name):
            return Environment("project", found, found / name / "bin" / "python", found)
    files = ("pyproject.toml", "requirements.txt")
    if path == "." or any((found / name).is_file() for name in files):
        return Environment("project", found, None, found)
    raise EnvironmentNotFound(
        f"{found} is neither a virtual environment (pyvenv.cfg), nor a conda prefix (conda-meta), nor a project (.venv, pyproject.toml, requirements.txt)."
    )


def find_project(folder: Path) -> Path | None:
    return next(
        (each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), None
    )


Action = Literal["add", "rm", "status", "update", "install", "resolve", "test", "develop", "free"]

NEED_PACKAGES: frozenset[Action] = frozenset({"add", "rm", "develop", "free"})


class PackageError(McpToolError):
    pass


@dataclass(frozen=True, slots=True)
class PackageCommands:
    commands: list[list[str]]
    cwd: Path
    environment: dict[str, str]
    note: str = ""


def plan_commands(
    action: Action, packages: list[str], python: str, cwd: Path, uv: str | None = None
) -> PackageCommands:
    """uv: by default the one on the PATH, "" for none. Raises `PackageError`."""
    uv = find_program("uv") if uv is None else uv
    if action in NEED_PACKAGES and not packages:
        folders = " (or folders)" if action == "develop" else ""
        raise PackageError(f"pkg {action} needs the names of packages{folders}.")
    odd = next((package for package in packages if package.startswith("-")), None)
    if action != "test" and odd is not None:
        raise PackageError(f"{odd} is an option, not a package.")
    if action == "develop":
        packages = [str(cwd / package) for package in packages]
    project, prefix = find_project(cwd), environment_prefix(python)
    environment = {"VIRTUAL_ENV": str(prefix)} if prefix is not None else {}
    folder = project or cwd
    if action == "test":
        return PackageCommands([[python, "-m", "pytest", *packages]], folder, environment)
    if uv and project is not None and prefix is not None and action != "status":
        commands = _project_commands(uv, action, packages, project)
        environment["UV_PROJECT_ENVIRONMENT"] = str(prefix)
        return PackageCommands(commands, project, environment)
    pip = [uv, "pip"] if uv else [python, "-c", PIP, "--disable-pip-version-check"]
    where = ["--python", python] if uv else []
    commands = _environment_commands(pip, where, action, packages, folder)
    note = ""
    if project is not None and action in ("add", "rm"):
        note = "pyproject.toml was not changed: that needs uv."
    return PackageCommands(commands, folder, environment, note)


def _project_commands(
    uv: str, action: Action, packages: list[str], project: Path
) -> list[list[str]]:
    """Use uv's project commands, which keep pyproject.toml, lock file and environment in step."""
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
            own = project.resolve()
            others = [package for package in packages if Path(package).resolve() != own]
            add = [[uv, "add", "--editable", *others]] if others else []
            # The project cannot depend on itself; this installs it as editable.
            return add if len(others) == len(packages) else [*add, [uv, "sync"]]
        case "free":
            released = [word for package in packages for word in ("--no-sources-package", package)]
            # The first command changes nothing. If it fails, there is no such release, and the
            # project keeps its current one.
            check = [uv, "lock", "--dry-run", *released]
            return [check, [uv, "remove", *packages], [uv, "add", *packages]]
        case _:
            named = [word for package in packages for word in ("--upgrade-package", package)]
            return [[uv, "lock", *(named or ["--upgrade"])], [uv, "sync"]]


def _environment_commands(
    pip: list[str], where: list[str], action: Action, packages: list[str], folder: Path
) -> list[list[str]]:
    install = [*pip, "install", *where]
    uninstall = [*pip, "uninstall", *where, *([] if where else ["-y"])]
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
                again = [word for package in packages for word in ("--reinstall-package", package)]
                return [[*install, *again, *packages]]
            return [[*install, "--force-reinstall", "--no-deps", *packages], [*install, *packages]]
        case "install" if (folder / "requirements.txt").is_file():
            return [[*install, "-r", "requirements.txt"]]
        case "install" if (folder / "pyproject.toml").is_file():
            return [[*install, "-e", "."]]
        case "install":
            raise PackageError(
                f"There is nothing to install from: {folder} has neither a pyproject.toml nor a requirements.txt."
            )
        case "update":
            raise PackageError(
                "Name the packages to update: without uv and a pyproject.toml there is no list of the project's requirements."
            )
        case _:
            raise PackageError("resolve needs uv, a pyproject.toml, and an active environment.")


async def run_command(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    on_text: Callable[[str], Awaitable[None]],
) -> int:
    """Return the exit code. Cancelling kills the command and its children. Raises `OSError`."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while data := await process.stdout.read(65536):
            await on_text(decoder.decode(data))
        return await process.wait()
    except BaseException:
        signal_group(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
        raise
