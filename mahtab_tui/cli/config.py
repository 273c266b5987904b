"""``mahtab-tui config``: show, change and trust settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mahtab_tui.cli.options import Given, given_by, warn_of_held_back
from mahtab_tui.cli.printing import fail, fail_on, say, warn
from mahtab_tui.settings.model import Settings, SettingsError, config_files, load_settings

config_app = typer.Typer(help="Show every setting and where it comes from; change, edit, trust.")

Project = Annotated[
    bool,
    typer.Option(
        "--project", help="Use the project's .mahtab/config.toml instead of ~/.mahtab/config.toml"
    ),
]


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context, given: Given = None) -> None:
    """Show every setting and where it comes from. Exit codes: 0 done, 1 a file cannot be read or
    written, 2 a wrong key or value."""
    if context.invoked_subcommand is not None:
        if given:
            fail(f"--set has no effect with `config {context.invoked_subcommand}`.")
        return
    from mahtab_tui.llm.providers import default_model
    from mahtab_tui.settings.values import NOT_SET, SettingEntry, entries

    with fail_on(SettingsError):
        settings = load_settings(**given_by(given))
        rows = entries(settings)
    rows = [
        row._replace(value=default_model()) if row.key == "model" and row.value == NOT_SET else row
        for row in rows
    ]
    widths = [
        max(len(row[column]) for row in rows)
        for column in (SettingEntry._fields.index("key"), SettingEntry._fields.index("value"))
    ]
    for row in rows:
        say(f"{row.key:<{widths[0]}}  {row.value:<{min(widths[1], 40)}}  {row.place.text}")
    warn_of_held_back(settings)


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
    from mahtab_tui.settings.values import written
    from mahtab_tui.settings.writing import set_value
    from mahtab_tui.tui.screens.settings.checks import check

    with fail_on(SettingsError):
        new = written(key, value)
        check(key, value, _provider())
    path = _file(project)
    with fail_on(SettingsError, code=1):
        set_value(path, key, new)
    say(f"Written to {path}.")
    _tell_of_winner(key, path)


@config_app.command()
def unset(
    key: Annotated[str, typer.Argument(help="A setting, or an entry of a table")],
    project: Project = False,
) -> None:
    """Remove a setting from a configuration file."""
    from mahtab_tui.settings.writing import unset as take_out

    path = _file(project)
    with fail_on(SettingsError, code=1):
        was_there = take_out(path, key)
    if not was_there:
        fail(f"{path} does not set {key}.")
    say(f"Removed {key} from {path}.")


@config_app.command()
def edit(project: Project = False) -> None:
    """Open a configuration file in your editor and check it afterwards. A new file lists all
    defaults as comments."""
    import subprocess

    from mahtab_tui.settings.writing import problems, template, write_text
    from mahtab_tui.tui.external_editor import editor_command

    path = _file(project)
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
            warn_of_held_back(load_settings())
        except SettingsError as error:  # of another file
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
    from mahtab_tui.bus.escaping import escape_for_model
    from mahtab_tui.knowledge.instructions import find
    from mahtab_tui.knowledge.skill_trust import trust_texts
    from mahtab_tui.settings.sources import all_held_back, project_folder
    from mahtab_tui.settings.writing import allow

    with fail_on(SettingsError):
        found = all_held_back(Settings)
    instructions = find(project_folder()).held_back
    skills = _held_back_skills()
    if not found and not instructions and not skills:
        say("Nothing here needs trusting.")
        return
    for each in found:
        for line, (key, value) in zip(each.lines, each.values.items(), strict=True):
            say(f"{each.path}, line {line}: {key} = {_in_full(key, value)}")
    for file in instructions:
        for part in file.parts:
            say(
                f"{file.path}: instructions for the model, from {part.name}:\n{escape_for_model(part.text)}"
            )
    for path, text in skills.items():
        say(f"{path}: a skill for the model:\n{escape_for_model(text)}")
    if not yes:
        named = [
            name
            for name, held in (
                ("values", found),
                ("instructions", instructions),
                ("skills", skills),
            )
            if held
        ]
        typer.confirm(f"Trust these {' and '.join(named)}?", abort=True)
    with fail_on(SettingsError, code=1):
        for each in found:
            allow(each.path, each.values)
        for file in instructions:
            allow(file.path, file.value)
        trust_texts(skills)
    say("Trusted. Anything that changes must be trusted again.")


def _held_back_skills() -> dict[Path, str]:
    """Return everything that a model could read of the project's skills that are not trusted."""
    from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders
    from mahtab_tui.knowledge.skill_trust import skill_texts
    from mahtab_tui.settings.sources import project_folder

    settings = load_settings()
    of_project = settings.of_project("skills_dir")
    loader = SkillsLoader(
        *skill_folders(project_folder(), settings.skills_dir, of_project=of_project)
    )
    loader.load_all()
    return {path: text for skill in loader.held_back for path, text in skill_texts(skill).items()}


def _in_full(key: str, value: Any) -> str:
    """Return a value with its invisible characters escaped and its secrets masked."""
    from mahtab_tui.settings.mcp_servers import MASK
    from mahtab_tui.settings.values import is_secret, shown

    if is_secret(key):
        return " ".join(f"{name!r}={MASK}" for name in value) if isinstance(value, dict) else MASK
    return shown(repr(value))


def _provider() -> str | None:
    try:
        return load_settings().provider
    except SettingsError:  # the wrong setting may be the one that is being changed
        return None


def _file(project: bool) -> Path:
    return config_files(Path.cwd())[0 if project else 1]


def _tell_of_winner(key: str, path: Path) -> None:
    """Warn if another source is stronger than the file that was written."""
    try:
        settings = load_settings()
        place = settings.place_of(key)
    except SettingsError as error:
        warn(str(error))
        return
    if place.file != path:
        say(f"It has no effect: {place.text} overrides it.", err=True)
    warn_of_held_back(settings)
