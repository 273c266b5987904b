"""``mahtab-tui doctor``: what the program needs, and what is missing."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.cli.options import echo, require_working_folder
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_login import login_hint, login_status
from mahtab_tui.llm.local_servers import ModelServer, find_servers
from mahtab_tui.llm.providers import installed_agent
from mahtab_tui.sandbox.base import CallRefusedError, SandboxError
from mahtab_tui.sandbox.process import find_missing_support, open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.session.checking.check_folder import remove_abandoned_folders
from mahtab_tui.settings.acp_agents import KNOWN_AGENTS, AcpAgent
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import (
    Settings,
    SettingsError,
    config_files,
    home_folder,
    load_settings,
)
from mahtab_tui.store.file_copies import collect_file_copies
from mahtab_tui.system import find_program
from mahtab_tui.version import __version__

REPORT_NAME_WIDTH = 12
"""The width of the names in a report, in columns."""
DISCOVERY_TIMEOUT_S = 1.0
"""Seconds that model servers on this machine have to answer."""
MAX_LISTED_MODELS = 5
"""Models of a server that are named."""
MAX_OUTPUT_CHARS = 200
"""Characters of a failing sandbox's output that are shown."""
SANDBOX_TIMEOUT_S = 20
MIN_FREE_BYTES = 10 * 2**20
"""`doctor` warns of a disk with less free space."""


def doctor() -> None:
    """Check this machine, and show what to do about anything missing."""
    require_working_folder()
    for line in report():
        echo(line)


def report() -> Iterator[str]:
    """Yield what `doctor` prints: the state of each thing that the program needs."""
    version = f"{__version__}, Python {platform.python_version()}, {sys.executable}"
    yield _format_line("mahtab-tui", version)

    settings: Settings | None = None
    try:
        settings = load_settings()
    except SettingsError as error:
        settings_problem = str(error)
    else:
        settings_problem = " ".join(settings.untrusted)
        yield _check_interpreter(settings.python)

    yield _check_sandbox()
    yield _check_claude(use_api_key=settings is not None and settings.claude_api_key)
    yield _list_model_servers(find_servers(DISCOVERY_TIMEOUT_S))
    files = ", ".join(str(path) for path in config_files(Path.cwd()) if path.is_file())
    yield _format_line("config", files or "no file; defaults are used", settings_problem)
    if settings is not None:
        yield from _check_mcp_servers(settings.mcp)
        yield _list_agents(settings.acp)
    yield _check_home()
    yield from _remove_leftovers()


def _format_line(name: str, status: str, advice: str = "") -> str:
    """Return a line of the report; with advice, a second one and a mark before the first."""
    if not advice:
        return f"✓ {name:<{REPORT_NAME_WIDTH}}{status}"
    return f"! {name:<{REPORT_NAME_WIDTH}}{status}\n  {'':<{REPORT_NAME_WIDTH}}{advice}"


def _check_interpreter(python: str | None) -> str:
    """Report the interpreter of new kernels.

    Args:
        python: The interpreter that the settings name; None for the default.
    """
    try:
        return _format_line("kernel", find_interpreter(python))
    except KernelError as error:
        return _format_line("kernel", "none", str(error))


def _check_sandbox() -> str:
    """Try the search sandbox, because a system may have everything required and still forbid it."""
    try:
        sandbox = asyncio.run(_try_sandbox())
    except SandboxError as error:
        return _format_line("sandbox", "none: `rlm` cannot run", str(error))
    if not sandbox.unsupported_features:
        return _format_line("sandbox", sandbox.name)
    advice = f"It supports only part of Python. Linux gets a process with full Python instead; here {find_missing_support()}."
    return _format_line("sandbox", sandbox.name, advice)


class _WorkingSandbox(NamedTuple):
    """The kind of sandbox that searches get here."""

    name: str
    unsupported_features: str
    """What of Python it does not support; empty if it supports all."""


async def _try_sandbox() -> _WorkingSandbox:
    """Run code in a sandbox. Raises `SandboxError`."""
    sandboxes = open_sandboxes()
    try:
        sandbox = await sandboxes.start(SearchedText.root("text"), _RefusingHost())
        result = await sandbox.run("print(len(context))", seconds=SANDBOX_TIMEOUT_S)
    finally:
        await sandboxes.close()
    if result.output != "4\n":
        raise SandboxError(f"It cannot run code: {result.output.strip()[:MAX_OUTPUT_CHARS]}")
    return _WorkingSandbox(sandboxes.name, sandboxes.unsupported_features)


class _RefusingHost:
    """Answers no call of a sandbox."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise CallRefusedError("nobody answers here")

    def send(self, name: str, args: dict[str, Any]) -> None: ...


def _check_claude(*, use_api_key: bool) -> str:
    """Report whether the `claude` program is there and logged in."""
    executable = find_program("claude")
    if executable is None:
        advice = "To use Claude, install Claude Code and run `claude` once to log in."
        return _format_line("claude", "not on the PATH", advice)

    hint = login_hint(use_api_key=use_api_key)
    if login_status(executable, use_api_key=use_api_key).get("loggedIn"):
        return _format_line("claude", f"{executable}, logged in. {hint}".rstrip(". "))
    return _format_line("claude", executable, f"Run `claude`, then /login in it. {hint}".rstrip())


def _list_model_servers(servers: Sequence[ModelServer]) -> str:
    """Report the models that are served on this machine."""
    if not servers:
        nothing = "no model server on this machine (llama.cpp, LM Studio, vLLM, Ollama)"
        return _format_line("models", nothing)
    descriptions: list[str] = []
    for server in servers:
        missing = "no model that answers questions" if server.listed_count else "no model"
        models = ", ".join(server.specs[:MAX_LISTED_MODELS]) or f"{server.provider}: {missing}"
        descriptions.append(f"{models} at {server.address}")
    return _format_line("models", "; ".join(descriptions))


def _check_mcp_servers(servers: Mapping[str, McpServer]) -> Iterator[str]:
    """Report each configured MCP server, and whether its program is there."""
    for name, server in servers.items():
        advice = ""
        try:
            command = server.expanded().command
            if command is not None and find_program(command) is None:
                advice = f"There is no program {visible(command)}."
        except LookupError as error:
            advice = error.args[0]
        yield _format_line("mcp", f"{visible(name)}: {visible(str(server))}", advice)


def _list_agents(configured: Mapping[str, AcpAgent]) -> str:
    """Report the agents that can answer questions, and what those of the settings lack."""
    installed: list[str] = []
    problems: list[str] = []
    for name in dict.fromkeys((*KNOWN_AGENTS, *configured)):
        try:
            agent = installed_agent(name, configured)
        except ModelError as error:
            if name in configured:
                problems.append(str(error))
        else:
            installed.append(f"acp:{visible(name)} ({visible(agent.command[0])})")
    names = ", ".join(KNOWN_AGENTS)
    status = "; ".join(installed) or f"no agent that could answer in a session ({names})"
    return _format_line("agents", status, " ".join(map(visible, problems)))


def _check_home() -> str:
    """Report the home folder, and whether it can be written to."""
    home = home_folder()
    existing_folder = home if home.exists() else home.parent
    advice = ""
    if not os.access(existing_folder, os.W_OK):
        advice = "This folder cannot be written to. Sessions and history will not be saved."
    elif shutil.disk_usage(existing_folder).free < MIN_FREE_BYTES:
        advice = "The disk is full. Sessions and history may not be saved."
    return _format_line("home", str(home), advice)


def _remove_leftovers() -> Iterator[str]:
    """Remove what programs that were killed have left, and report it; nothing if there was none."""
    kernel_count = collect_file_copies()
    if kernel_count:
        yield _format_line("files", f"removed old copies for undo, of {kernel_count:,} kernels")
    check_count = remove_abandoned_folders()
    if check_count:
        yield _format_line("files", f"removed {check_count:,} copies of checks that were killed")
