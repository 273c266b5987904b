"""``mahtab-tui config``, ``skills``, ``mcp``, ``doctor`` and ``help``."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import visible
from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.cli.options import (
    Assignments,
    Python,
    SkillsDir,
    checked_settings,
    echo,
    ensure_folder,
    fail,
    fail_on,
    warn,
)
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.knowledge.instructions import find_instructions
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.skills import (
    ProjectFolder,
    SkillError,
    SkillsLoader,
    instructions_text,
    name_problem,
    read_skill,
    skill_folders,
    skill_texts,
    trust_texts,
)
from mahtab_tui.llm.claude_process import login_hint, login_status
from mahtab_tui.llm.providers import FoundServer, default_model, find_servers
from mahtab_tui.manual import TOPICS, page
from mahtab_tui.sandbox.base import CallRefusedError, SandboxError, Text
from mahtab_tui.sandbox.process import missing, open_sandboxes
from mahtab_tui.settings import values
from mahtab_tui.settings.model import (
    PACKAGE,
    Settings,
    SettingsError,
    config_files,
    home_folder,
    load_settings,
)
from mahtab_tui.settings.sources import (
    MASK,
    McpServer,
    all_untrusted_settings,
    project_folder,
    read_config,
    read_text,
)
from mahtab_tui.settings.values import NOT_SET, format_value, is_secret, list_settings
from mahtab_tui.system import find_program

config_app = typer.Typer(help="Show every setting and where it comes from; change, trust.")

Project = Annotated[
    bool,
    typer.Option(
        "--project", help="Use the project's .mahtab/config.toml instead of ~/.mahtab/config.toml"
    ),
]


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context, assignments: Assignments = None) -> None:
    """Show every setting and where it comes from. Exit codes: 0 done, 1 a file cannot be read or
    written, 2 a wrong key or value."""
    if context.invoked_subcommand is not None:
        if assignments:
            fail(f"--set has no effect with `config {context.invoked_subcommand}`.")
        return

    settings = checked_settings((), assignments)
    with fail_on(SettingsError):
        rows = list_settings(settings)
    rows = [
        row._replace(value=default_model()) if row.key == "model" and row.value == NOT_SET else row
        for row in rows
    ]
    key_width = max(len(row.key) for row in rows)
    value_width = min(max(len(row.value) for row in rows), 40)
    for row in rows:
        echo(f"{row.key:<{key_width}}  {row.value:<{value_width}}  {row.origin.text}")


@config_app.command("set")
def set_(
    key: Annotated[
        str,
        typer.Argument(
            help="A setting, such as max_turns, or an entry of a table, such as keymap.help"
        ),
    ],
    value: Annotated[str, typer.Argument(help="The value; separate folders with :")],
    project: Project = False,
) -> None:
    """Write a setting to a configuration file. The rest of the file stays as it is."""
    from mahtab_tui.tui.screens.settings import check

    provider = None
    with suppress(SettingsError):  # the invalid setting may be the changed one
        provider = load_settings().provider
    with fail_on(SettingsError):
        new = values.parse_value(key, value)
        check(key, value, provider)
    path = _config_file(project)
    with fail_on(SettingsError, code=1):
        values.set_value(path, key, new)
    echo(f"Written to {path}.")
    try:
        settings = load_settings()
        origin = settings.origin(key)
    except SettingsError as error:
        warn(str(error))
        return
    if origin.file != path:
        echo(f"It has no effect: {origin.text} overrides it.", err=True)
    for sentence in settings.untrusted:
        warn(sentence)


@config_app.command()
def unset(
    key: Annotated[str, typer.Argument(help="A setting, or an entry of a table")],
    project: Project = False,
) -> None:
    """Remove a setting from a configuration file."""
    path = _config_file(project)
    with fail_on(SettingsError, code=1):
        was_there = values.unset(path, key)
    if not was_there:
        fail(f"{path} does not set {key}.")
    echo(f"Removed {key} from {path}.")


@config_app.command()
def trust(yes: Annotated[bool, typer.Option("--yes", help="Trust without asking")] = False) -> None:
    """Show this project's settings and model instructions that are not trusted yet, and trust them
    if you agree.

    Exit codes: 0 done, 1 you did not agree or the record cannot be written, 2 a file is wrong.
    """
    with fail_on(SettingsError):
        found = all_untrusted_settings(Settings)
    instructions = find_instructions(project_folder()).untrusted
    loader = SkillsLoader(*_skill_folders(load_settings()))
    loader.load_all()
    skills = {path: text for each in loader.untrusted for path, text in skill_texts(each).items()}
    kinds = {"values": found, "instructions": instructions, "skills": skills}
    named = " and ".join(name for name, kind in kinds.items() if kind)
    if not named:
        echo("Nothing here needs trusting.")
        return
    for each in found:
        for key, value in each.values.items():
            echo(f"{each.path}: {key} = {_visible_value(key, value)}")
    for file in instructions:
        for part in file.parts:
            text = escape_for_model(part.text)
            echo(f"{file.path}: instructions for the model, from {part.name}:\n{text}")
    for path, text in skills.items():
        echo(f"{path}: a skill for the model:\n{escape_for_model(text)}")
    if not yes:
        typer.confirm(f"Trust these {named}?", abort=True)
    with fail_on(SettingsError, code=1):
        values.allow({each.path: each.values for each in found})
        values.allow({file.path: file.value for file in instructions})
        trust_texts(skills)
    echo("Trusted. Anything that changes must be trusted again.")


def _visible_value(key: str, value: Any) -> str:
    if is_secret(key):
        return " ".join(f"{name!r}={MASK}" for name in value) if isinstance(value, dict) else MASK
    return format_value(repr(value))


def _config_file(project: bool) -> Path:
    return config_files(Path.cwd())[0 if project else 1]


skills_app = typer.Typer(help="List, show and make skills.", no_args_is_help=True)


def _skill_folders(settings: Settings) -> tuple[Path | ProjectFolder, ...]:
    of_project = settings.is_from_project("skills_dir")
    return skill_folders(project_folder(), settings.skills_dir, of_project=of_project)


def _loader(skills_dir: list[Path] | None) -> SkillsLoader:
    with fail_on(SettingsError):
        return SkillsLoader(*_skill_folders(load_settings(skills_dir=skills_dir or None)))


@skills_app.command("list")
def list_skills(skills_dir: SkillsDir = None) -> None:
    """List all skills with their descriptions."""
    for name, description in SkillLibrary(_loader(skills_dir), warn).descriptions().items():
        echo(f"{name}: {description}")


@skills_app.command()
def show(
    name: Annotated[str, typer.Argument(help="The skill's name")], skills_dir: SkillsDir = None
) -> None:
    """Print a skill: its description, its file, its instructions."""
    library = SkillLibrary(_loader(skills_dir), warn)
    with fail_on(SkillNotFound, code=1):
        library.skills()
        untrusted = next((skill for skill in library.untrusted if skill.name == name), None)
        skill = untrusted or library.get(name)
    about = {
        "held back": untrusted and "no model gets it until you trust it: mahtab-tui config trust",
        "description": skill.description,
        "file": str(skill.file),
    }
    for key, value in about.items():
        if value:
            echo(f"{key}: {value}")
    echo(f"\n{skill.content}")


_DESCRIPTION = "What this skill does. Use when the words of the question say so."
_SKILL = """\
---
name: {name}
description: {description}
---

1. **First step.** What to look at, and with which call.
2. **Check.** How to see that it is right.
"""


@skills_app.command()
def new(
    name: Annotated[str, typer.Argument(help="a-z, 0-9 and single hyphens")],
    description: Annotated[
        str, typer.Option(help="What it does and when to use it")
    ] = _DESCRIPTION,
) -> None:
    """Make a skill of this project from a template, and print the path of its file."""
    if problem := name_problem(name):
        fail(f"The name {name!r} cannot be used: {problem}.")
    with fail_on(SettingsError):
        path = project_folder() / ".mahtab" / "skills" / name / "SKILL.md"
    # Strings of YAML in double quotes have the syntax of JSON strings.
    quoted = json.dumps(" ".join(description.split()), ensure_ascii=False)
    try:
        quoted.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_SKILL.format(name=name, description=quoted))
    except UnicodeEncodeError:
        fail("The description is not valid text.")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")
    with fail_on(SkillError, SettingsError):
        trust_texts({path: instructions_text(read_skill(path))})
    echo(str(path))


# Clients of the MCP server

ClientName = Literal["claude-code", "codex"]

_SERVER_NAME = "mahtab"
_ALREADY_THERE = f"{{}} already has a server named {_SERVER_NAME}. Remove that entry, or edit it to match the output of --print."
_CODEX_SECONDS = 86_400
"""Codex's default of 60 is too short for a long cell, or for a user to answer."""
_CODEX_STARTUP_SECONDS = 120
"""Codex's default of 10 is too short for a slow disk or a busy machine."""


def write_plugin() -> Path:
    """Write the plug-in for Claude Code and return its folder. Its ``.mcp.json`` names the program
    by its full path: a client whose PATH lacks it would show no error and have no tools. Raises
    `SettingsError`."""
    folder = home_folder() / "claude-plugin"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(PACKAGE / "mcp" / "plugin", folder)
        values.write_text(folder / ".mcp.json", render_configuration("claude-code"))
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def server_command() -> list[str]:
    if program := find_program("mahtab-tui"):
        return [os.path.abspath(program), "mcp"]
    return [sys.executable, "-P", "-m", "mahtab_tui", "mcp"]


def render_configuration(client: ClientName) -> str:
    """Return the entry for a client's configuration file. Codex needs a required server and a
    longer time limit; Claude Code hides tools that are not always loaded."""
    if client == "codex":
        # TOML basic strings have the syntax of JSON strings.
        quoted = [json.dumps(word, ensure_ascii=False) for word in server_command()]
        start = f"command = {quoted[0]}\nargs = [{', '.join(quoted[1:])}]\n"
        limits = (
            f"startup_timeout_sec = {_CODEX_STARTUP_SECONDS}\ntool_timeout_sec = {_CODEX_SECONDS}\n"
        )
        return f"[mcp_servers.{_SERVER_NAME}]\n{start}required = true\n{limits}"
    return _as_json({"mcpServers": {_SERVER_NAME: _entry()}})


def configuration_file(client: ClientName, project: Path) -> Path:
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex", "config.toml")
    return project / ".mcp.json"


def install(client: ClientName, project: Path) -> Path:
    """Add the server to a client's configuration; returns the file. Raises `SettingsError`."""
    path = configuration_file(client, project)
    add = _add_section if client == "codex" else _add_server
    try:
        values.write_text(path, add(path, read_text(path)))
    except SettingsError as error:
        raise SettingsError(f"{error} It was left as it is.") from None
    return path


def _entry() -> dict[str, Any]:
    program, *words = server_command()
    return {"command": program, "args": words, "alwaysLoad": True}


def _as_json(configuration: dict[str, Any]) -> str:
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def _add_server(path: Path, before: str) -> str:
    try:
        known = json.loads(before or "{}")
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not JSON ({error}).") from None
    if not isinstance(known, dict) or not isinstance(known.setdefault("mcpServers", {}), dict):
        raise SettingsError(f"{path} does not hold a list of servers (mcpServers).")
    if _SERVER_NAME in known["mcpServers"]:
        raise SettingsError(_ALREADY_THERE.format(path))
    known["mcpServers"][_SERVER_NAME] = _entry()
    return _as_json(known)


def _add_section(path: Path, before: str) -> str:
    servers = read_config(path).get("mcp_servers")
    if isinstance(servers, dict) and _SERVER_NAME in servers:
        raise SettingsError(_ALREADY_THERE.format(path))
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + gap + render_configuration("codex")
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        raise SettingsError(
            f"{path} lists its servers in a form to which no section can be added."
        ) from None
    return after


mcp_app = typer.Typer(help="Serve MCP over stdin and stdout: a persistent Python for any agent.")


@mcp_app.callback(invoke_without_command=True)
def mcp(
    context: typer.Context,
    python: Python = None,
    project: Annotated[
        Path | None, typer.Option(help="The project to activate: its folder, or an environment")
    ] = None,
    attach: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME]",
            help="Join the session on a screen: this project's, or the one with this name or process id",
        ),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Never join a session")] = False,
) -> None:
    """Serve MCP over stdin and stdout: a persistent Python for any agent."""
    if context.invoked_subcommand is not None:
        return
    if attach and private:
        fail("Give --attach or --private, not both.")
    from mahtab_tui.mcp.handlers import AttachOptions
    from mahtab_tui.mcp.server import ServerError, serve

    ensure_folder()
    session = None if attach == "." else attach  # "." is this project's
    with fail_on(ServerError):
        serve(python, project, AttachOptions(attach is not None, session, private))


@mcp_app.command("install")
def mcp_install(
    client: Annotated[
        ClientName,
        typer.Option(help="claude-code: this folder's .mcp.json; codex: ~/.codex/config.toml"),
    ] = "claude-code",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Register the server with a client."""
    if only_print:
        typer.echo(render_configuration(client), nl=False)
        return
    with fail_on(SettingsError):
        echo(f"Written to {install(client, Path.cwd())}.")


@mcp_app.command("plugin")
def mcp_plugin() -> None:
    """Write the plug-in for Claude Code and print its folder: claude --plugin-dir "$(mahtab-tui mcp
    plugin)"."""
    with fail_on(SettingsError):
        typer.echo(write_plugin())


_WIDEST = 100


def overview() -> str:
    topics = "\n".join(f"| `{each.topic}` | {each.summary} |" for each in map(page, TOPICS))
    return f"# Manual of mahtab-tui\n\n`mahtab-tui help TOPIC` shows a page. `F1` shows them in the program.\n\n| topic | about |\n| --- | --- |\n{topics}\n"


def show_page(text: str) -> None:
    """Print Markdown: rendered and paged if stdout is a terminal, otherwise unchanged."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # keeps colours, and just prints a page that fits
    console = Console(width=min(_WIDEST, shutil.get_terminal_size().columns))
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))


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
