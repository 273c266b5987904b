"""``mahtab-tui doctor``: what was found on this machine, and what to do about anything missing."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import visible
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_environments, find_interpreter, has_package
from mahtab_tui.llm.claude_process import login_hint, login_status
from mahtab_tui.llm.providers import FoundServer, find_servers
from mahtab_tui.sandbox.base import CallRefusedError, SandboxError, Text
from mahtab_tui.sandbox.process import missing, open_sandboxes
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import (
    Settings,
    SettingsError,
    config_files,
    home_folder,
    load_settings,
    resource_folder,
)
from mahtab_tui.system import find_program, langsmith_variable

_WIDTH = 12
_SERVER_SECONDS = 1.0
_MOST_NAMED = 5
_ROOM = 10


def _line(name: str, found: str, advice: str = "") -> str:
    mark = "!" if advice else "✓"
    return f"{mark} {name:<{_WIDTH}}{found}" + (f"\n  {'':<{_WIDTH}}{advice}" if advice else "")


def report() -> Iterator[str]:
    settings, problem = None, ""
    try:
        settings = load_settings()
    except SettingsError as error:
        problem = str(error)
    yield _line("mahtab-tui", f"{__version__}, {resource_folder('styles').parent}")
    yield _line("python", f"{platform.python_version()}, {sys.executable}")
    advice = "The kernel cannot be forked: undo restores only names, variables are not saved."
    if sys.platform == "win32":
        advice = "Use WSL: the kernel and the screen need a Unix system."
    elif sys.platform == "linux":
        advice = ""
    yield _line("system", f"{platform.system()} {platform.release()}", advice)
    yield _line("kernel", "none", problem) if settings is None else _kernel(settings)
    yield _environments(settings)
    yield _sandbox()
    servers = find_servers(_SERVER_SECONDS)
    yield _claude(next((spec for server in servers for spec in server.specs), ""))
    if executable := find_program("claude"):
        yield _login(executable, use_api_key=settings is not None and settings.claude_api_key)
    yield _model_servers(servers)
    if variable := langsmith_variable():
        found = f"gets every prompt and answer ({variable}=true)"
        yield _line("langsmith", found, f"Without {variable}, or with --no-store, it gets none.")
    yield _terminal()
    yield _config(settings, problem)
    if settings is not None:
        yield from _mcp_servers(settings.mcp)
    yield _home()


def _model_servers(servers: Sequence[FoundServer]) -> str:
    found = []
    for server in servers:
        models = ", ".join(server.specs[:_MOST_NAMED]) or f"{server.provider}: no model"
        found.append(f"{models} at {server.address}")
    nothing = "no model server on this machine (llama.cpp, LM Studio, vLLM, Ollama)"
    return _line("models", "; ".join(found) or nothing)


def _kernel(settings: Settings) -> str:
    try:
        executable = find_interpreter(settings.python)
        command = [executable, "-I", "-c", "import platform; print(platform.python_version())"]
        return _line("kernel", f"Python {_output(command)}, {executable}")
    except KernelError as error:
        return _line("kernel", "none", str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return _line("kernel", executable, f"No answer: {error}.")


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def _environments(settings: Settings | None) -> str:
    used = ""
    if settings is not None:
        with suppress(KernelError):  # the line about the kernel reports it
            used = find_interpreter(settings.python)
    found = find_environments(Path.cwd(), used)
    if not found:
        return _line("others", "no other environment found (.venv, venv, the shell's, conda's)")
    listed = [
        f"{each.path}{' (with pandas)' if has_package(each.prefix, 'pandas') else ''}"
        for each in found
    ]
    path = found[0].path
    advice = f"--python {path}, or /python {path} in Ask, uses it for the kernel."
    return _line("others", ", ".join(listed), advice)


def _sandbox() -> str:
    """Try the search sandbox, because a system may have everything required and still forbid it."""
    try:
        name, gaps = asyncio.run(_try_sandbox())
    except SandboxError as error:
        return _line("sandbox", "none: `rlm` cannot run", str(error))
    advice = f"It supports only part of Python. Linux gets a process with full Python instead; here {missing()}."
    return _line("sandbox", name, advice if gaps else "")


async def _try_sandbox() -> tuple[str, str]:
    sandboxes = open_sandboxes()
    try:
        sandbox = await sandboxes.start(Text.root("text"), _RefusingHost())
        result = await sandbox.run("print(len(context))", seconds=20)
    finally:
        await sandboxes.close()
    if result.output != "4\n":
        raise SandboxError(f"It cannot run code: {result.output.strip()[:200]}")
    return sandboxes.name, sandboxes.gaps


class _RefusingHost:
    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise CallRefusedError("nobody answers here")

    def send(self, name: str, args: dict[str, Any]) -> None: ...


def _claude(local: str) -> str:
    """local: the model that answers without Claude; empty if there is only `demo`."""
    answers = f"{local} answers" if local else "the offline `demo` model answers, with canned rules"
    if (executable := find_program("claude")) is None:
        advice = "To use Claude, install Claude Code and run `claude` once to log in."
        return _line("claude", "not on the PATH", f"{advice} Until then {answers}.")
    try:
        return _line("claude", f"{_output([executable, '--version'])}, {executable}")
    except (OSError, subprocess.SubprocessError) as error:
        return _line("claude", executable, f"No answer: {error}.")


def _login(executable: str, *, use_api_key: bool) -> str:
    hint = login_hint(use_api_key=use_api_key)
    status = login_status(executable, use_api_key=use_api_key)
    if "loggedIn" not in status:
        advice = "`claude auth status` does not report it. Run `claude update`."
        return _line("login", "unknown", advice)
    if not status["loggedIn"]:
        advice = f"Run `claude`, then /login in it. {hint}".rstrip()
        return _line("login", "not logged in to `claude`", advice)
    facts = (status.get(name) for name in ("authMethod", "subscriptionType", "apiProvider"))
    method = ", ".join(str(fact) for fact in facts if fact not in (None, "", "none", "firstParty"))
    return _line("login", f"{method or 'logged in'}. {hint}".rstrip(". "))


def _terminal() -> str:
    term = os.environ.get("TERM", "")
    if term in ("", "dumb"):
        advice = "Set TERM, as in TERM=xterm-256color."
        return _line("terminal", f"TERM={term or '(not set)'}", advice)
    colours = "256 colours" if "256" in term else "few colours"
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        colours = "24-bit colour"
    columns, lines = shutil.get_terminal_size()
    inside = " in tmux" if os.environ.get("TMUX") else ""
    return _line("terminal", f"{term}{inside}, {colours}, {columns} x {lines}")


def _config(settings: Settings | None, problem: str) -> str:
    files = ", ".join(str(path) for path in config_files(Path.cwd()) if path.is_file())
    if settings is None:
        return _line("config", files, problem)
    found = f"{files or 'no file; defaults are used'}; model {settings.model or 'not set'}, approval {settings.approval}"
    return _line("config", found, " ".join(settings.untrusted))


def _mcp_servers(servers: Mapping[str, McpServer]) -> Iterator[str]:
    if servers and find_spec("mcp") is None:
        advice = "They need the package mcp: install mahtab-tui[mcp]."
        yield _line("mcp", f"{len(servers)} servers", advice)
    for name, server in servers.items():
        advice = ""
        try:
            command = server.expanded().command
            if command is not None and find_program(command) is None:
                advice = f"There is no program {visible(command)}."
        except LookupError as error:
            advice = error.args[0]
        yield _line("mcp", f"{visible(name)}: {visible(str(server))}", advice)


def _home() -> str:
    home = home_folder()
    folder = home if home.exists() else home.parent
    if not os.access(folder, os.W_OK):
        advice = "This folder cannot be written to. Sessions and history will not be saved."
        return _line("home", str(home), advice)
    free = shutil.disk_usage(folder).free // 2**20
    advice = "" if free >= _ROOM else "The disk is full. Sessions and history may not be saved."
    return _line("home", f"{home}, {free:,} MiB free", advice)
