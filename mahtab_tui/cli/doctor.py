"""``mahtab-tui doctor``: checks this machine, and gives advice about anything missing."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import visible
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.claude_process import login_hint, login_status
from mahtab_tui.llm.providers import FoundServer, find_servers
from mahtab_tui.sandbox.base import CallRefusedError, SandboxError, Text
from mahtab_tui.sandbox.process import missing, open_sandboxes
from mahtab_tui.settings.model import SettingsError, config_files, home_folder, load_settings
from mahtab_tui.settings.sources import McpServer
from mahtab_tui.system import find_program

_WIDTH = 12
_SERVER_SECONDS = 1.0


def _line(name: str, found: str, advice: str = "") -> str:
    mark = "!" if advice else "✓"
    return f"{mark} {name:<{_WIDTH}}{found}" + (f"\n  {'':<{_WIDTH}}{advice}" if advice else "")


def report() -> Iterator[str]:
    yield _line(
        "mahtab-tui", f"{__version__}, Python {platform.python_version()}, {sys.executable}"
    )
    settings, problem = None, ""
    try:
        settings = load_settings()
        yield _line("kernel", find_interpreter(settings.python))
    except SettingsError as error:
        problem = str(error)
    except KernelError as error:
        yield _line("kernel", "none", str(error))
    yield _sandbox()
    yield _claude(use_api_key=settings is not None and settings.claude_api_key)
    yield _model_servers(find_servers(_SERVER_SECONDS))
    files = ", ".join(str(path) for path in config_files(Path.cwd()) if path.is_file())
    waiting = problem if settings is None else " ".join(settings.untrusted)
    yield _line("config", files or "no file; defaults are used", waiting)
    if settings is not None:
        yield from _mcp_servers(settings.mcp)
    yield _home()


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


def _claude(*, use_api_key: bool) -> str:
    if (executable := find_program("claude")) is None:
        advice = "To use Claude, install Claude Code and run `claude` once to log in."
        return _line("claude", "not on the PATH", advice)
    hint = login_hint(use_api_key=use_api_key)
    if login_status(executable, use_api_key=use_api_key).get("loggedIn"):
        return _line("claude", f"{executable}, logged in. {hint}".rstrip(". "))
    return _line("claude", executable, f"Run `claude`, then /login in it. {hint}".rstrip())


def _model_servers(servers: Sequence[FoundServer]) -> str:
    found = [
        f"{', '.join(server.specs[:5]) or f'{server.provider}: no model'} at {server.address}"
        for server in servers
    ]
    nothing = "no model server on this machine (llama.cpp, LM Studio, vLLM, Ollama)"
    return _line("models", "; ".join(found) or nothing)


def _mcp_servers(servers: Mapping[str, McpServer]) -> Iterator[str]:
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
    advice = ""
    if not os.access(folder, os.W_OK):
        advice = "This folder cannot be written to. Sessions and history will not be saved."
    elif shutil.disk_usage(folder).free < 10 * 2**20:
        advice = "The disk is full. Sessions and history may not be saved."
    return _line("home", str(home), advice)
