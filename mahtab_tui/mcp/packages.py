"""Finds an agent's environment, and manages its packages by uv or pip.

In a project, uv also keeps ``pyproject.toml`` and the lock file up to date; other commands know only
the environment.
"""

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

from mahtab_tui.kernel.environments import (
    VENV_NAMES,
    EnvironmentKind,
    environment_kind,
    environment_prefix,
)
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.system import find_program, signal_group
from mahtab_tui.worker.magic.programs import PIP

Action = Literal["add", "rm", "status", "update", "install", "resolve", "test", "develop", "free"]

_READ_BYTES = 65_536
_MAX_QUOTED_CHARS = 200
"""Characters of an agent's argument in a sentence."""


@dataclass(frozen=True, slots=True)
class ActivationTarget:
    """An interpreter, an environment or a project that an agent can activate."""

    kind: Literal["interpreter", "project"] | EnvironmentKind
    path: Path
    python: Path | None
    """None for a project without its own environment."""
    folder: Path | None
    """The project's folder; None for others."""


def find_environment(name: str, cwd: Path) -> ActivationTarget:
    """Find an environment.

    Args:
        name: A folder or the file of an interpreter, relative to `cwd`.
        cwd: The working directory.

    Raises:
        McpToolError: There is no environment.
    """
    try:
        path = Path(os.path.abspath(cwd / Path(name).expanduser()))
        if path.is_file():
            if not os.access(path, os.X_OK):
                raise McpToolError(f"{path} is not a program.")
            return ActivationTarget("interpreter", path, path, None)
        if not path.is_dir():
            raise McpToolError(f"{path} does not exist.")
        target = _classify_folder(path, may_be_empty=name == ".")
    except RuntimeError:  # from `expanduser`
        raise McpToolError(f"{name} names an unknown user.") from None
    except OSError as error:
        quoted_name = name[:_MAX_QUOTED_CHARS]
        raise McpToolError(f"{quoted_name} cannot be read: {error.strerror}.") from None
    if target is None:
        raise McpToolError(
            f"{path} is neither a virtual environment (pyvenv.cfg), nor a conda prefix (conda-meta), nor a project (.venv, pyproject.toml, requirements.txt)."
        )
    return target


def _classify_folder(path: Path, *, may_be_empty: bool) -> ActivationTarget | None:
    """Return what a folder is; None if it is neither an environment nor a project.

    Args:
        path: The folder.
        may_be_empty: Whether it is a project even without the files of one.

    Raises:
        OSError: It cannot be read.
    """
    kind = environment_kind(path)
    if kind:
        return ActivationTarget(kind, path, path / "bin" / "python", None)
    for venv_name in VENV_NAMES:
        if environment_kind(path / venv_name):
            python = path / venv_name / "bin" / "python"
            return ActivationTarget("project", path, python, path)
    project_files = ("pyproject.toml", "requirements.txt")
    if may_be_empty or any((path / file_name).is_file() for file_name in project_files):
        return ActivationTarget("project", path, None, path)
    return None


def find_project(folder: Path) -> Path | None:
    """Return the nearest folder with a ``pyproject.toml``, searching upwards from `folder`."""
    for candidate in (folder, *folder.parents):
        if (candidate / "pyproject.toml").is_file():
            return candidate
    return None


@dataclass(frozen=True, slots=True)
class PackageCommands:
    """Commands to run in order, until one fails."""

    commands: list[list[str]]
    cwd: Path
    environment: dict[str, str]
    """Variables besides those of this process."""
    note: str = ""
    """A sentence for the agent if all succeed."""


def plan_commands(
    action: Action, packages: list[str], python: str, cwd: Path, uv: str | None = None
) -> PackageCommands:
    """Plan the commands of an action.

    Args:
        action: What to do.
        packages: Names of packages; folders for develop, arguments for test.
        python: The environment's interpreter.
        cwd: The working directory.
        uv: Path of uv; by default the one on the PATH, "" for none.

    Raises:
        McpToolError: The action does not work in this environment.
    """
    uv = find_program("uv") if uv is None else uv
    _check_packages(action, packages)
    if action == "develop":
        packages = [str(cwd / package) for package in packages]

    project = find_project(cwd)
    prefix = environment_prefix(python)
    environment = {"VIRTUAL_ENV": str(prefix)} if prefix is not None else {}
    folder = project or cwd
    if action == "test":
        return PackageCommands([[python, "-m", "pytest", *packages]], folder, environment)
    if uv and project is not None and prefix is not None and action != "status":
        commands = _project_commands(uv, action, packages, project)
        environment["UV_PROJECT_ENVIRONMENT"] = str(prefix)
        return PackageCommands(commands, project, environment)

    pip = [uv, "pip"] if uv else [python, "-c", PIP, "--disable-pip-version-check"]
    python_options = ["--python", python] if uv else []
    commands = _environment_commands(pip, python_options, action, packages, folder)
    note = ""
    if project is not None and action in ("add", "rm"):
        missing = "an active environment" if uv else "uv"
        note = f"pyproject.toml was not changed: that needs {missing}."
    return PackageCommands(commands, folder, environment, note)


def _check_packages(action: Action, packages: list[str]) -> None:
    """Raise `McpToolError` if an action cannot be done with these packages."""
    if action in ("add", "rm", "develop", "free") and not packages:
        folders = " (or folders)" if action == "develop" else ""
        raise McpToolError(f"pkg {action} needs the names of packages{folders}.")
    # Tests get arguments, which may be options.
    if action == "test":
        return
    for package in packages:
        if package.startswith("-"):
            raise McpToolError(f"{package} is an option, not a package.")


def _repeat_option(option: str, packages: list[str]) -> list[str]:
    """Return the option with each package after it."""
    return [word for package in packages for word in (option, package)]


def _project_commands(
    uv: str, action: Action, packages: list[str], project: Path
) -> list[list[str]]:
    """Use uv's project commands, which keep pyproject.toml, lock file and environment in step."""
    add = [uv, "add", *packages]
    remove = [uv, "remove", *packages]
    sync = [uv, "sync"]
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
            project = project.resolve()
            dependencies = [package for package in packages if Path(package).resolve() != project]
            commands = [[uv, "add", "--editable", *dependencies]] if dependencies else []
            if len(dependencies) < len(packages):
                # The project cannot depend on itself; this installs it as editable.
                commands.append(sync)
            return commands
        case "free":
            # The first command changes nothing. If it fails, there is no such release, and the
            # project keeps its current one.
            check = [uv, "lock", "--dry-run", *_repeat_option("--no-sources-package", packages)]
            return [check, remove, add]
        case _:
            upgrades = _repeat_option("--upgrade-package", packages) or ["--upgrade"]
            return [[uv, "lock", *upgrades], sync]


def _environment_commands(
    pip: list[str],
    python_options: list[str],
    action: Action,
    packages: list[str],
    folder: Path,
) -> list[list[str]]:
    """Use the commands of pip, or of uv in its place, which know no project.

    Args:
        pip: Begins each command.
        python_options: Name the interpreter for uv; empty for pip.
        action: What to do.
        packages: Names of packages.
        folder: Where requirements are.
    """
    install = [*pip, "install", *python_options]
    match action:
        case "add":
            return [[*install, *packages]]
        case "rm":
            confirmation = [] if python_options else ["-y"]
            return [[*pip, "uninstall", *python_options, *confirmation, *packages]]
        case "status":
            return [[*pip, "list", *python_options]]
        case "update" if packages:
            return [[*install, "--upgrade", *packages]]
        case "develop":
            return [[*install, *_repeat_option("-e", packages)]]
        case "free" if python_options:
            return [[*install, *_repeat_option("--reinstall-package", packages), *packages]]
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
                "Name the packages to update: without uv, a pyproject.toml and an active environment there is no list of the project's requirements."
            )
        case _:
            raise McpToolError("resolve needs uv, a pyproject.toml, and an active environment.")


async def run_plan(plan: PackageCommands, on_text: Callable[[str], Awaitable[None]]) -> int:
    """Run commands until one fails, because each needs the one before it.

    Args:
        plan: The commands.
        on_text: Called with each command, and with each piece of its output.

    Returns:
        The exit code of the last command that ran.

    Raises:
        McpToolError: A command cannot be started.
    """
    exit_code = 0
    for command in plan.commands:
        await on_text(f"$ {' '.join(command)}\n")
        try:
            exit_code = await run_command(command, plan.cwd, plan.environment, on_text)
        except OSError as error:
            raise McpToolError(f"{command[0]} cannot be started: {error.strerror}.") from None
        if exit_code:
            break
    return exit_code


async def run_command(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    on_text: Callable[[str], Awaitable[None]],
) -> int:
    """Run a command, and return its exit code. Cancelling kills the command and its children.

    Args:
        command: The program and its arguments.
        cwd: The folder in which it runs.
        environment: Variables besides those of this process.
        on_text: Called with each piece of its output.

    Raises:
        OSError: It cannot be started.
    """
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
        while data := await process.stdout.read(_READ_BYTES):
            await on_text(decoder.decode(data))
        # The output may end within a character.
        if text := decoder.decode(b"", final=True):
            await on_text(text)
        return await process.wait()
    except BaseException:
        signal_group(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
        raise
