"""``mahtab-tui config``, ``skills``, ``mcp`` and ``help``."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mahtab_tui.bus.terminal_screen import escape_for_model
from mahtab_tui.cli.options import (
    Assignments,
    Python,
    SkillsDir,
    echo,
    ensure_folder,
    fail,
    fail_on,
    parse_assignments,
    warn,
    warn_about_untrusted,
)
from mahtab_tui.knowledge.instructions import find_instructions
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.skills import (
    ProjectFolder,
    SkillError,
    SkillsLoader,
    create_skill,
    instructions_text,
    read_skill,
    skill_folders,
    skill_texts,
    trust_texts,
)
from mahtab_tui.llm.providers import default_model
from mahtab_tui.manual import TOPICS, page
from mahtab_tui.mcp.install import (
    InstallError,
    install,
    render_configuration,
    server_command,
    write_plugin,
)
from mahtab_tui.settings.mcp_servers import MASK
from mahtab_tui.settings.model import Settings, SettingsError, config_files, load_settings
from mahtab_tui.settings.sources import all_untrusted_settings, project_folder
from mahtab_tui.settings.values import (
    NOT_SET,
    SettingEntry,
    allow,
    format_value,
    is_secret,
    list_settings,
    parse_value,
    problems,
    set_value,
    template,
    write_text,
)
from mahtab_tui.settings.values import unset as take_out
from mahtab_tui.system.processes import find_program

config_app = typer.Typer(help="Show every setting and where it comes from; change, edit, trust.")

Project = Annotated[
    bool,
    typer.Option(
        "--project", help="Use the project's .mahtab/config.toml instead of ~/.mahtab/config.toml"
    ),
]


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context, given: Assignments = None) -> None:
    """Show every setting and where it comes from. Exit codes: 0 done, 1 a file cannot be read or
    written, 2 a wrong key or value."""
    if context.invoked_subcommand is not None:
        if given:
            fail(f"--set has no effect with `config {context.invoked_subcommand}`.")
        return

    with fail_on(SettingsError):
        settings = load_settings(**parse_assignments(given))
        rows = list_settings(settings)
    rows = [
        row._replace(value=default_model()) if row.key == "model" and row.value == NOT_SET else row
        for row in rows
    ]
    widths = [
        max(len(row[column]) for row in rows)
        for column in (SettingEntry._fields.index("key"), SettingEntry._fields.index("value"))
    ]
    for row in rows:
        echo(f"{row.key:<{widths[0]}}  {row.value:<{min(widths[1], 40)}}  {row.origin.text}")
    warn_about_untrusted(settings)


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

    with fail_on(SettingsError):
        new = parse_value(key, value)
        check(key, value, _provider())
    path = _config_file(project)
    with fail_on(SettingsError, code=1):
        set_value(path, key, new)
    echo(f"Written to {path}.")
    _report_winner(key, path)


@config_app.command()
def unset(
    key: Annotated[str, typer.Argument(help="A setting, or an entry of a table")],
    project: Project = False,
) -> None:
    """Remove a setting from a configuration file."""

    path = _config_file(project)
    with fail_on(SettingsError, code=1):
        was_there = take_out(path, key)
    if not was_there:
        fail(f"{path} does not set {key}.")
    echo(f"Removed {key} from {path}.")


@config_app.command()
def edit(project: Project = False) -> None:
    """Open a configuration file in your editor and check it afterwards. A new file lists all
    defaults as comments."""
    import subprocess

    from mahtab_tui.tui.external import editor_command

    path = _config_file(project)
    with fail_on(RuntimeError, code=1):
        command = editor_command()
    try:
        with fail_on(SettingsError, code=1):
            if not path.exists():
                write_text(path, template())
        code = subprocess.run([*command, str(path)], check=False).returncode
    except OSError as error:
        fail(f"{command[0]} cannot be started: {error.strerror}.", 1)
    found = problems(path)
    if project and not found:
        try:
            warn_about_untrusted(load_settings())
        except SettingsError as error:  # other files do not matter here
            warn(str(error))
    for problem in found:
        warn(problem)
    if found:
        raise typer.Exit(2)
    if code:
        fail(f"{command[0]} ended with exit code {code}.", 1)


@config_app.command()
def trust(yes: Annotated[bool, typer.Option("--yes", help="Trust without asking")] = False) -> None:
    """Show this project's settings and model instructions that are not trusted yet, and trust them
    if you agree.

    Exit codes: 0 done, 1 you did not agree or the record cannot be written, 2 a file is wrong.
    """

    with fail_on(SettingsError):
        found = all_untrusted_settings(Settings)
    instructions = find_instructions(project_folder()).untrusted
    skills = _untrusted_skills()
    if not found and not instructions and not skills:
        echo("Nothing here needs trusting.")
        return
    for each in found:
        for line, (key, value) in zip(each.lines, each.values.items(), strict=True):
            echo(f"{each.path}, line {line}: {key} = {_visible_value(key, value)}")
    for file in instructions:
        for part in file.parts:
            echo(
                f"{file.path}: instructions for the model, from {part.name}:\n{escape_for_model(part.text)}"
            )
    for path, text in skills.items():
        echo(f"{path}: a skill for the model:\n{escape_for_model(text)}")
    if not yes:
        named = [
            name
            for name, settings in (
                ("values", found),
                ("instructions", instructions),
                ("skills", skills),
            )
            if settings
        ]
        typer.confirm(f"Trust these {' and '.join(named)}?", abort=True)
    with fail_on(SettingsError, code=1):
        for each in found:
            allow(each.path, each.values)
        for file in instructions:
            allow(file.path, file.value)
        trust_texts(skills)
    echo("Trusted. Anything that changes must be trusted again.")


def _untrusted_skills() -> dict[Path, str]:
    """Return everything that a model could read in the project's untrusted skills."""

    settings = load_settings()
    of_project = settings.is_from_project("skills_dir")
    loader = SkillsLoader(
        *skill_folders(project_folder(), settings.skills_dir, of_project=of_project)
    )
    loader.load_all()
    return {path: text for skill in loader.untrusted for path, text in skill_texts(skill).items()}


def _visible_value(key: str, value: Any) -> str:
    """Return a value with invisible characters escaped and secrets masked."""

    if is_secret(key):
        return " ".join(f"{name!r}={MASK}" for name in value) if isinstance(value, dict) else MASK
    return format_value(repr(value))


def _provider() -> str | None:
    try:
        return load_settings().provider
    except SettingsError:  # the invalid setting may be the one being changed
        return None


def _config_file(project: bool) -> Path:
    return config_files(Path.cwd())[0 if project else 1]


def _report_winner(key: str, path: Path) -> None:
    """Warn if a stronger source overrides the file that was written."""
    try:
        settings = load_settings()
        origin = settings.origin(key)
    except SettingsError as error:
        warn(str(error))
        return
    if origin.file != path:
        echo(f"It has no effect: {origin.text} overrides it.", err=True)
    warn_about_untrusted(settings)


skills_app = typer.Typer(help="List, show, search, make and check skills.", no_args_is_help=True)


def _folders(skills_dir: list[Path] | None) -> tuple[Path | ProjectFolder, ...]:
    with fail_on(SettingsError):
        settings = load_settings(skills_dir=skills_dir or None)
    return skill_folders(
        project_folder(), settings.skills_dir, of_project=settings.is_from_project("skills_dir")
    )


def _library(skills_dir: list[Path] | None) -> SkillLibrary:
    return SkillLibrary(SkillsLoader(*_folders(skills_dir)), warn)


@skills_app.command("list")
def list_skills(skills_dir: SkillsDir = None) -> None:
    """List all skills with their descriptions."""
    for name, description in _library(skills_dir).descriptions().items():
        echo(f"{name}: {description}")


@skills_app.command()
def show(
    name: Annotated[str, typer.Argument(help="The skill's name")], skills_dir: SkillsDir = None
) -> None:
    """Print a skill: its file, its fields, its instructions."""
    library = _library(skills_dir)
    with fail_on(SkillNotFound, code=1):
        library.skills()
        untrusted = next((skill for skill in library.untrusted if skill.name == name), None)
        skill = untrusted or library.get(name)
    about = [
        (
            "held back",
            ""
            if untrusted is None
            else "no model gets it until you trust it: mahtab-tui config trust",
        ),
        ("description", skill.description),
        ("file", str(skill.file)),
        ("license", skill.license),
        ("compatibility", skill.compatibility),
        ("allowed-tools", " ".join(skill.allowed_tools)),
        *((f"metadata, {key}", value) for key, value in skill.metadata.items()),
    ]
    for key, value in about:
        if value:
            echo(f"{key}: {value}")
    echo(f"\n{skill.content}")


@skills_app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words, or an identifier or a part of one")],
    limit: Annotated[int, typer.Option(min=1, help="At most this many")] = 5,
    skills_dir: SkillsDir = None,
) -> None:
    """Print the skills that match a query, the best first. Exit codes: 0 found, 1 nothing found."""
    hits = _library(skills_dir).search(query, limit)
    for hit in hits:
        echo(f"{hit.name}: {hit.description}")
    if not hits:
        fail(f"No skill matches {query!r}.", 1)


@skills_app.command()
def new(
    name: Annotated[str, typer.Argument(help="a-z, 0-9 and single hyphens")],
    description: Annotated[str | None, typer.Option(help="What it does and when to use it")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to make it  [default: the project's .mahtab/skills]")
    ] = None,
) -> None:
    """Make a skill from a template, and print the path of its file."""
    with fail_on(SkillError, SettingsError):
        path = create_skill(folder or project_folder() / ".mahtab" / "skills", name, description)
        trust_texts({path: instructions_text(read_skill(path))})
        echo(str(path))


@skills_app.command()
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...", help="Folders of skills  [default: all that are in use]"
        ),
    ] = None,
    skills_dir: SkillsDir = None,
) -> None:
    """Check the skills. Exit codes: 0 all can be used, 1 some cannot."""
    for path in paths or ():
        if not path.is_dir():
            fail(f"{path} is not a folder.")
    loader = SkillsLoader(*(paths or _folders(skills_dir)))
    count = len(loader.load_all())
    for problem in loader.problems:
        echo(problem)
    if loader.untrusted:
        echo(
            f"Held back until you trust them: {', '.join(skill.name for skill in loader.untrusted)}."
        )
    echo(f"Skills that can be used: {count}. Problems: {len(loader.problems)}.")
    if loader.problems:
        raise typer.Exit(1)


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
    from mahtab_tui.mcp.server import ServerError, parse_attach_options, serve

    ensure_folder()
    with fail_on(ServerError):
        serve(python, project, parse_attach_options(attach, private))


@mcp_app.command("install")
def mcp_install(
    client: Annotated[
        Literal["claude-code", "codex"],
        typer.Option(help="claude-code: this folder's .mcp.json; codex: ~/.codex/config.toml"),
    ] = "claude-code",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Register the server with a client."""

    if only_print:
        typer.echo(render_configuration(client, server_command()), nl=False)
        return
    with fail_on(InstallError):
        echo(f"Written to {install(client, Path.cwd())}.")


@mcp_app.command("plugin")
def mcp_plugin() -> None:
    """Write the plug-in for Claude Code and print its folder: claude --plugin-dir "$(mahtab-tui mcp
    plugin)"."""

    with fail_on(InstallError):
        typer.echo(write_plugin())


_WIDEST = 100
"""Maximum columns of a page on a terminal."""


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

    console = Console(width=min(_WIDEST, shutil.get_terminal_size().columns))
    with console.capture() as captured:
        console.print(Markdown(text, hyperlinks=False))
    if not _show_in_pager(captured.get()):
        typer.echo(captured.get(), nl=False)


def _show_in_pager(text: str) -> bool:
    """Show a text in the user's pager, as man does; returns False if there is none."""
    chosen = os.environ.get("MANPAGER") or os.environ.get("PAGER")
    command = shlex.split(chosen) if chosen else ["less"]
    if not command or find_program(command[0]) is None:
        return False
    # Keep colours, and just print a page that fits the screen. The user's own LESS variable takes
    # precedence.
    surroundings = {"LESS": "-FRX", **os.environ}
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager handles Ctrl+C
    try:
        subprocess.run(command, input=text.encode(), env=surroundings, check=False)
    finally:
        signal.signal(signal.SIGINT, ignored)
    return True
