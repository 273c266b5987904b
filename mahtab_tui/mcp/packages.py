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


@dataclass(frozen=True, slots=True)
class Environment:
    kind: Kind
    path: Path
    python: Path | None
    """None for a project without its own environment."""
    folder: Path | None


def find_environment(path: str, cwd: Path) -> Environment:
    """Find the environment named by `path` (relative to `cwd`). Raises `McpToolError`."""
    try:
        found = Path(os.path.abspath(cwd / Path(path).expanduser()))
        if found.is_file():
            if not os.access(found, os.X_OK):
                raise McpToolError(f"{found} is not a program.")
            return Environment("interpreter", found, found, None)
        if not found.is_dir():
            raise McpToolError(f"{found} does not exist.")
        if kind := environment_kind(found):
            return Environment(kind, found, found / "bin" / "python", None)
        for name in VENV_NAMES:
            if environment_kind(found / name):
                return Environment("project", found, found / name / "bin" / "python", found)
        files = ("pyproject.toml", "requirements.txt")
        if path == "." or any((found / name).is_file() for name in files):
            return Environment("project", found, None, found)
    except RuntimeError:  # from `expanduser`
        raise McpToolError(f"{path} names an unknown user.") from None
    except OSError as error:
        raise McpToolError(f"{path[:200]} cannot be read: {error.strerror}.") from None
    raise McpToolError(
        f"{found} is neither a virtual environment (pyvenv.cfg), nor a conda prefix (conda-meta), nor a project (.venv, pyproject.toml, requirements.txt)."
    )


def find_project(folder: Path) -> Path | None:
    """Return the nearest folder with a ``pyproject.toml``, searching upwards from `folder`."""
    return next(
        (each for each in (folder, *folder.parents) if (each / "pyproject.toml").is_file()), None
    )


Action = Literal["add", "rm", "status", "update", "install", "resolve", "test", "develop", "free"]


@dataclass(frozen=True, slots=True)
class PackageCommands:
    """Commands to run in order, until one fails."""

    commands: list[list[str]]
    cwd: Path
    environment: dict[str, str]
    note: str = ""


def plan_commands(
    action: Action, packages: list[str], python: str, cwd: Path, uv: str | None = None
) -> PackageCommands:
    """uv: by default the one on the PATH, "" for none. Raises `McpToolError`."""
    uv = find_program("uv") if uv is None else uv
    if action in ("add", "rm", "develop", "free") and not packages:
        folders = " (or folders)" if action == "develop" else ""
        raise McpToolError(f"pkg {action} needs the names of packages{folders}.")
    odd = next((package for package in packages if package.startswith("-")), None)
    if action != "test" and odd is not None:
        raise McpToolError(f"{odd} is an option, not a package.")
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


def _each(option: str, packages: list[str]) -> list[str]:
    return [word for package in packages for word in (option, package)]


def _project_commands(
    uv: str, action: Action, packages: list[str], project: Path
) -> list[list[str]]:
    """Use uv's project commands, which keep pyproject.toml, lock file and environment in step."""
    add, remove, sync = [uv, "add", *packages], [uv, "remove", *packages], [uv, "sync"]
    match action:
        case "add":
            return [add]
        case "rm":
            return [remove]
        case "install":
            return [sync]
        case "resolve":
            return [[uv, "lock"]]
        case "develop":
            own = project.resolve()
            others = [package for package in packages if Path(package).resolve() != own]
            editable = [[uv, "add", "--editable", *others]] if others else []
            # The project cannot depend on itself; this installs it as editable.
            return editable if len(others) == len(packages) else [*editable, sync]
        case "free":
            # The first command changes nothing. If it fails, there is no such release, and the
            # project keeps its current one.
            check = [uv, "lock", "--dry-run", *_each("--no-sources-package", packages)]
            return [check, remove, add]
        case _:
            return [[uv, "lock", *(_each("--upgrade-package", packages) or ["--upgrade"])], sync]


def _environment_commands(
    pip: list[str], where: list[str], action: Action, packages: list[str], folder: Path
) -> list[list[str]]:
    install = [*pip, "install", *where]
    match action:
        case "add":
            return [[*install, *packages]]
        case "rm":
            return [[*pip, "uninstall", *where, *([] if where else ["-y"]), *packages]]
        case "status":
            return [[*pip, "list", *where]]
        case "update" if packages:
            return [[*install, "--upgrade", *packages]]
        case "develop":
            return [[*install, *_each("-e", packages)]]
        case "free" if where:
            return [[*install, *_each("--reinstall-package", packages), *packages]]
        case "free":
            return [[*install, "--force-reinstall", "--no-deps", *packages], [*install, *packages]]
        case "install" if (folder / "requirements.txt").is_file():
            return [[*install, "-r", "requirements.txt"]]
        case "install" if (folder / "pyproject.toml").is_file():
            return [[*install, "-e", "."]]
        case "install":
            raise McpToolError(
                f"There is nothing to install from: {folder} has neither a pyproject.toml nor a requirements.txt."
            )
        case "update":
            raise McpToolError(
                "Name the packages to update: without uv and a pyproject.toml there is no list of the project's requirements."
            )
        case _:
            raise McpToolError("resolve needs uv, a pyproject.toml, and an active environment.")


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
