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

from mahtab_tui.bus.hidden_characters import visible
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
from mahtab_tui.llm.choices import default_model
from mahtab_tui.llm.claude_login import login_hint, login_status
from mahtab_tui.llm.local_servers import ModelServer, find_servers
from mahtab_tui.manual import TOPICS, page
from mahtab_tui.sandbox.base import CallRefusedError, SandboxError, SearchedText
from mahtab_tui.sandbox.process import find_missing_support, open_sandboxes
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
from mahtab_tui.version import __version__

MAX_VALUE_WIDTH = 40
"""Columns of a value in the list of settings; longer ones push their origin to the right."""
MAX_MANUAL_WIDTH = 100
REPORT_NAME_WIDTH = 12
DISCOVERY_TIMEOUT_S = 1.0
MIN_FREE_BYTES = 10 * 2**20
"""`doctor` warns of a disk with less free space."""

DEFAULT_DESCRIPTION = "What this skill does. Use when the words of the question say so."
SKILL_TEMPLATE = """\
---
name: {name}
description: {description}
---

1. **First step.** What to look at, and with which call.
2. **Check.** How to see that it is right.
"""

SERVER_NAME = "mahtab"
DUPLICATE_SERVER = f"{{}} already has a server named {SERVER_NAME}. Remove that entry, or edit it to match the output of --print."
CODEX_TOOL_TIMEOUT_S = 86_400
"""Codex's default of 60 is too short for a long cell, or for a user to answer."""
CODEX_STARTUP_TIMEOUT_S = 120
"""Codex's default of 10 is too short for a slow disk or a busy machine."""

ClientName = Literal["claude-code", "codex"]

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
    for index, row in enumerate(rows):
        if row.key == "model" and row.value == NOT_SET:
            rows[index] = row._replace(value=default_model())

    key_width = max(len(row.key) for row in rows)
    value_width = min(max(len(row.value) for row in rows), MAX_VALUE_WIDTH)
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
    from mahtab_tui.tui.commands import COMMAND_IDS
    from mahtab_tui.tui.setting_check import check_setting

    provider = None
    with suppress(SettingsError):  # the invalid setting may be the changed one
        provider = load_settings().provider
    with fail_on(SettingsError):
        parsed_value = values.parse_value(key, value)
        check_setting(key, value, COMMAND_IDS, provider)
    path = _config_file(project)
    with fail_on(SettingsError, code=1):
        values.set_value(path, key, parsed_value)
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
        was_set = values.unset(path, key)
    if not was_set:
        fail(f"{path} does not set {key}.")
    echo(f"Removed {key} from {path}.")


@config_app.command()
def trust(yes: Annotated[bool, typer.Option("--yes", help="Trust without asking")] = False) -> None:
    """Show this project's settings and model instructions that are not trusted yet, and trust them
    if you agree.

    Exit codes: 0 done, 1 you did not agree or the record cannot be written, 2 a file is wrong.
    """
    with fail_on(SettingsError):
        untrusted_settings = all_untrusted_settings(Settings)
    instructions = find_instructions(project_folder()).untrusted
    loader = SkillsLoader(*_skill_folders(load_settings()))
    loader.load_all()
    skills: dict[Path, str] = {}
    for skill in loader.untrusted:
        skills |= skill_texts(skill)

    kinds = {"values": untrusted_settings, "instructions": instructions, "skills": skills}
    kind_names = " and ".join(name for name, items in kinds.items() if items)
    if not kind_names:
        echo("Nothing here needs trusting.")
        return

    # Show everything that is about to be trusted.
    for source in untrusted_settings:
        for key, value in source.values.items():
            echo(f"{source.path}: {key} = {_visible_value(key, value)}")
    for file in instructions:
        for part in file.parts:
            text = escape_for_model(part.text)
            echo(f"{file.path}: instructions for the model, from {part.name}:\n{text}")
    for path, text in skills.items():
        echo(f"{path}: a skill for the model:\n{escape_for_model(text)}")
    if not yes:
        typer.confirm(f"Trust these {kind_names}?", abort=True)

    with fail_on(SettingsError, code=1):
        values.allow({source.path: source.values for source in untrusted_settings})
        values.allow({file.path: file.value for file in instructions})
        trust_texts(skills)
    echo("Trusted. Anything that changes must be trusted again.")


def _visible_value(key: str, value: object) -> str:
    """Return a setting's value for the terminal, without its secrets."""
    if is_secret(key) and isinstance(value, dict):
        return " ".join(f"{name!r}={MASK}" for name in value)
    if is_secret(key):
        return MASK
    return format_value(repr(value))


def _config_file(project: bool) -> Path:
    project_file, home_file = config_files(Path.cwd())
    return project_file if project else home_file


skills_app = typer.Typer(help="List, show and make skills.", no_args_is_help=True)


def _skill_folders(settings: Settings) -> tuple[Path | ProjectFolder, ...]:
    is_from_project = settings.is_from_project("skills_dir")
    return skill_folders(project_folder(), settings.skills_dir, of_project=is_from_project)


def _open_loader(skills_dir: list[Path] | None) -> SkillsLoader:
    with fail_on(SettingsError):
        return SkillsLoader(*_skill_folders(load_settings(skills_dir=skills_dir or None)))


@skills_app.command("list")
def list_skills(skills_dir: SkillsDir = None) -> None:
    """List all skills with their descriptions."""
    library = SkillLibrary(_open_loader(skills_dir), warn)
    for name, description in library.descriptions().items():
        echo(f"{name}: {description}")


@skills_app.command()
def show(
    name: Annotated[str, typer.Argument(help="The skill's name")], skills_dir: SkillsDir = None
) -> None:
    """Print a skill: its description, its file, its instructions."""
    library = SkillLibrary(_open_loader(skills_dir), warn)
    with fail_on(SkillNotFound, code=1):
        library.skills()  # finds the untrusted ones, too
        untrusted = next((skill for skill in library.untrusted if skill.name == name), None)
        skill = untrusted or library.get(name)

    if untrusted:
        echo("held back: no model gets it until you trust it: mahtab-tui config trust")
    if skill.description:
        echo(f"description: {skill.description}")
    echo(f"file: {skill.file}")
    echo(f"\n{skill.content}")


@skills_app.command()
def new(
    name: Annotated[str, typer.Argument(help="a-z, 0-9 and single hyphens")],
    description: Annotated[
        str, typer.Option(help="What it does and when to use it")
    ] = DEFAULT_DESCRIPTION,
) -> None:
    """Make a skill of this project from a template, and print the path of its file."""
    if problem := name_problem(name):
        fail(f"The name {name!r} cannot be used: {problem}.")
    with fail_on(SettingsError):
        path = project_folder() / ".mahtab" / "skills" / name / "SKILL.md"

    # Strings of YAML in double quotes have the syntax of JSON strings.
    quoted_description = json.dumps(" ".join(description.split()), ensure_ascii=False)
    try:
        quoted_description.encode()  # fails before a file exists
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(SKILL_TEMPLATE.format(name=name, description=quoted_description))
    except UnicodeEncodeError:
        fail("The description is not valid text.")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")
    with fail_on(SkillError, SettingsError):
        trust_texts({path: instructions_text(read_skill(path))})
    echo(str(path))


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
    """Return the command with which a client starts the MCP server."""
    if program := find_program("mahtab-tui"):
        return [os.path.abspath(program), "mcp"]
    return [sys.executable, "-P", "-m", "mahtab_tui", "mcp"]


def render_configuration(client: ClientName) -> str:
    """Return the entry for a client's configuration file. Codex needs a required server and a
    longer time limit; Claude Code hides tools that are not always loaded."""
    if client == "claude-code":
        return _as_json({"mcpServers": {SERVER_NAME: _server_entry()}})

    # TOML basic strings have the syntax of JSON strings.
    program, *arguments = (json.dumps(word, ensure_ascii=False) for word in server_command())
    lines = [
        f"[mcp_servers.{SERVER_NAME}]",
        f"command = {program}",
        f"args = [{', '.join(arguments)}]",
        "required = true",
        f"startup_timeout_sec = {CODEX_STARTUP_TIMEOUT_S}",
        f"tool_timeout_sec = {CODEX_TOOL_TIMEOUT_S}",
    ]
    return "\n".join(lines) + "\n"


def configuration_file(client: ClientName, project: Path) -> Path:
    """Return the file that a client reads: Claude Code's in a project's folder, Codex's own."""
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex", "config.toml")
    return project / ".mcp.json"


def install(client: ClientName, project: Path) -> Path:
    """Add the server to a client's configuration; return the file. Raises `SettingsError`."""
    path = configuration_file(client, project)
    try:
        text = read_text(path)
        new_text = _add_section(path, text) if client == "codex" else _add_server(path, text)
        values.write_text(path, new_text)
    except SettingsError as error:
        raise SettingsError(f"{error} It was left as it is.") from None
    return path


def _server_entry() -> dict[str, Any]:
    program, *arguments = server_command()
    return {"command": program, "args": arguments, "alwaysLoad": True}


def _as_json(configuration: dict[str, Any]) -> str:
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def _add_server(path: Path, text: str) -> str:
    """Return a JSON configuration with our server. Raises `SettingsError`."""
    try:
        configuration = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not JSON ({error}).") from None
    servers = None
    if isinstance(configuration, dict):
        servers = configuration.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise SettingsError(f"{path} does not hold a list of servers (mcpServers).")
    if SERVER_NAME in servers:
        raise SettingsError(DUPLICATE_SERVER.format(path))

    servers[SERVER_NAME] = _server_entry()
    return _as_json(configuration)


def _add_section(path: Path, text: str) -> str:
    """Return a TOML configuration with a section for our server. Raises `SettingsError`."""
    servers = read_config(path).get("mcp_servers")
    if isinstance(servers, dict) and SERVER_NAME in servers:
        raise SettingsError(DUPLICATE_SERVER.format(path))

    # One empty line above the section, none at the start of the file.
    if text and not text.endswith("\n"):
        text += "\n"
    if text:
        text += "\n"
    new_text = text + render_configuration("codex")
    try:
        tomllib.loads(new_text)
    except tomllib.TOMLDecodeError:
        raise SettingsError(
            f"{path} lists its servers in a form to which no section can be added."
        ) from None
    return new_text


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
    from mahtab_tui.mcp.server import McpServerError, serve

    ensure_folder()
    session = None if attach == "." else attach  # "." is this project's
    with fail_on(McpServerError):
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


def overview() -> str:
    """Return the list of the manual's topics, as Markdown."""
    pages = [page(topic) for topic in TOPICS]
    rows = "\n".join(f"| `{topic_page.topic}` | {topic_page.summary} |" for topic_page in pages)
    return f"# Manual of mahtab-tui\n\n`mahtab-tui help TOPIC` shows a page. `F1` shows them in the program.\n\n| topic | about |\n| --- | --- |\n{rows}\n"


def show_page(text: str) -> None:
    """Print Markdown: rendered and paged if stdout is a terminal, otherwise unchanged."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-FRX")  # keeps colours, and just prints a page that fits
    console = Console(width=min(MAX_MANUAL_WIDTH, shutil.get_terminal_size().columns))
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))


def _format_line(name: str, status: str, advice: str = "") -> str:
    """Return a line of the report; with advice, a second one and a mark before the first."""
    if not advice:
        return f"✓ {name:<{REPORT_NAME_WIDTH}}{status}"
    return f"! {name:<{REPORT_NAME_WIDTH}}{status}\n  {'':<{REPORT_NAME_WIDTH}}{advice}"


def report() -> Iterator[str]:
    """Yield what `doctor` prints: the state of each thing that the program needs."""
    version = f"{__version__}, Python {platform.python_version()}, {sys.executable}"
    yield _format_line("mahtab-tui", version)

    settings: Settings | None = None
    config_problem = ""
    try:
        settings = load_settings()
        yield _format_line("kernel", find_interpreter(settings.python))
    except SettingsError as error:
        config_problem = str(error)
    except KernelError as error:
        yield _format_line("kernel", "none", str(error))

    yield _check_sandbox()
    yield _check_claude(use_api_key=settings is not None and settings.claude_api_key)
    yield _list_model_servers(find_servers(DISCOVERY_TIMEOUT_S))

    files = ", ".join(str(path) for path in config_files(Path.cwd()) if path.is_file())
    if settings is not None:
        config_problem = " ".join(settings.untrusted)
    yield _format_line("config", files or "no file; defaults are used", config_problem)

    if settings is not None:
        yield from _check_mcp_servers(settings.mcp)
    yield _check_home()


def _check_sandbox() -> str:
    """Try the search sandbox, because a system may have everything required and still forbid it."""
    try:
        name, unsupported = asyncio.run(_try_sandbox())
    except SandboxError as error:
        return _format_line("sandbox", "none: `rlm` cannot run", str(error))
    if not unsupported:
        return _format_line("sandbox", name)
    advice = f"It supports only part of Python. Linux gets a process with full Python instead; here {find_missing_support()}."
    return _format_line("sandbox", name, advice)


async def _try_sandbox() -> tuple[str, str]:
    """Run code in a sandbox; return its name, and what it does not support. Raises
    `SandboxError`."""
    sandboxes = open_sandboxes()
    try:
        sandbox = await sandboxes.start(SearchedText.root("text"), _RefusingHost())
        result = await sandbox.run("print(len(context))", seconds=20)
    finally:
        await sandboxes.close()
    if result.output != "4\n":
        raise SandboxError(f"It cannot run code: {result.output.strip()[:200]}")
    return sandboxes.name, sandboxes.unsupported_features


class _RefusingHost:
    """Answers no call of a sandbox."""

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        raise CallRefusedError("nobody answers here")

    def send(self, name: str, args: dict[str, Any]) -> None: ...


def _check_claude(*, use_api_key: bool) -> str:
    executable = find_program("claude")
    if executable is None:
        advice = "To use Claude, install Claude Code and run `claude` once to log in."
        return _format_line("claude", "not on the PATH", advice)

    hint = login_hint(use_api_key=use_api_key)
    if login_status(executable, use_api_key=use_api_key).get("loggedIn"):
        return _format_line("claude", f"{executable}, logged in. {hint}".rstrip(". "))
    return _format_line("claude", executable, f"Run `claude`, then /login in it. {hint}".rstrip())


def _list_model_servers(servers: Sequence[ModelServer]) -> str:
    if not servers:
        nothing = "no model server on this machine (llama.cpp, LM Studio, vLLM, Ollama)"
        return _format_line("models", nothing)
    descriptions: list[str] = []
    for server in servers:
        models = ", ".join(server.specs[:5]) or f"{server.provider}: no model"
        descriptions.append(f"{models} at {server.address}")
    return _format_line("models", "; ".join(descriptions))


def _check_mcp_servers(servers: Mapping[str, McpServer]) -> Iterator[str]:
    for name, server in servers.items():
        advice = ""
        try:
            command = server.expanded().command
            if command is not None and find_program(command) is None:
                advice = f"There is no program {visible(command)}."
        except LookupError as error:
            advice = error.args[0]
        yield _format_line("mcp", f"{visible(name)}: {visible(str(server))}", advice)


def _check_home() -> str:
    home = home_folder()
    existing_folder = home if home.exists() else home.parent
    advice = ""
    if not os.access(existing_folder, os.W_OK):
        advice = "This folder cannot be written to. Sessions and history will not be saved."
    elif shutil.disk_usage(existing_folder).free < MIN_FREE_BYTES:
        advice = "The disk is full. Sessions and history may not be saved."
    return _format_line("home", str(home), advice)
