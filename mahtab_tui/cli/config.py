"""``mahtab-tui config``: every setting, where it comes from, and what is trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.cli.options import (
    Assignments,
    echo,
    fail,
    fail_on,
    load_checked_settings,
    require_working_folder,
    warn,
)
from mahtab_tui.cli.skills import configured_folders
from mahtab_tui.knowledge.instructions import Instructions, find_instructions
from mahtab_tui.knowledge.skill_trust import skill_texts, trust_texts
from mahtab_tui.knowledge.skills_loader import SkillsLoader
from mahtab_tui.llm.starting_model import default_model
from mahtab_tui.settings import values
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.mcp_servers import MASK
from mahtab_tui.settings.model import Settings, SettingsError, config_files, load_settings
from mahtab_tui.settings.sources import UntrustedSettings, all_untrusted_settings
from mahtab_tui.settings.values import NOT_SET, format_value, is_secret, list_settings

MAX_VALUE_WIDTH = 40
"""Columns of a value in the list of settings; longer ones push their origin to the right."""

config_app = typer.Typer(help="Show every setting and where it comes from; change, trust.")

Project = Annotated[
    bool,
    typer.Option(
        "--project", help="Use the project's .mahtab/config.toml instead of ~/.mahtab/config.toml"
    ),
]


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context, assignments: Assignments = None) -> None:
    """Show every setting and where it comes from. Exit codes: 0 done, 2 a file cannot be read, or a
    key or value is wrong."""
    require_working_folder()
    if context.invoked_subcommand is not None:
        if assignments:
            fail(f"--set has no effect with `config {context.invoked_subcommand}`.")
        return

    settings = load_checked_settings((), assignments)
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
    """Write a setting to a configuration file. The rest of the file stays as it is.

    Exit codes: 0 done, 1 the file cannot be changed, 2 a wrong key or value.
    """
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
        echo(f"The new value has no effect: {origin.text} overrides it.", to_stderr=True)
    for sentence in settings.untrusted:
        warn(sentence)


@config_app.command()
def unset(
    key: Annotated[str, typer.Argument(help="A setting, or an entry of a table")],
    project: Project = False,
) -> None:
    """Remove a setting from a configuration file.

    Exit codes: 0 done, 1 the file cannot be changed, 2 the file does not contain the setting.
    """
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
        skill_folders = configured_folders(load_settings())
        instructions = find_instructions(project_folder()).untrusted
    loader = SkillsLoader(*skill_folders)
    loader.load_all()
    skills: dict[Path, str] = {}
    for skill in loader.untrusted:
        skills |= skill_texts(skill)

    kinds = {"values": untrusted_settings, "instructions": instructions, "skills": skills}
    kind_names = " and ".join(name for name, items in kinds.items() if items)
    if not kind_names:
        echo("Nothing here needs trusting.")
        return

    _show_untrusted(untrusted_settings, instructions, skills)
    if not yes:
        typer.confirm(f"Trust these {kind_names}?", abort=True)

    with fail_on(SettingsError, code=1):
        values.trust_values({source.path: source.values for source in untrusted_settings})
        values.trust_values({file.path: file.value for file in instructions})
        trust_texts(skills)
    echo("Trusted. Anything that changes must be trusted again.")


def _show_untrusted(
    settings: Sequence[UntrustedSettings],
    instructions: Sequence[Instructions],
    skills: Mapping[Path, str],
) -> None:
    """Print everything that the user is asked to trust, uncut.

    Args:
        settings: Files of settings.
        instructions: Files of instructions.
        skills: The texts of skills, by their files.
    """
    for source in settings:
        for key, value in source.values.items():
            echo(f"{source.path}: {key} = {_visible_value(key, value)}")
    for file in instructions:
        for part in file.parts:
            text = escape_controls(part.text)
            echo(f"{file.path}: instructions for the model, from {part.name}:\n{text}")
    for path, text in skills.items():
        echo(f"{path}: a skill for the model:\n{escape_controls(text)}")


def _visible_value(key: str, value: object) -> str:
    """Return a setting's value for the terminal, without its secrets."""
    if is_secret(key) and isinstance(value, dict):
        return " ".join(f"{name!r}={MASK}" for name in value)
    if is_secret(key):
        return MASK
    return format_value(repr(value))


def _config_file(project: bool) -> Path:
    """Return the configuration file of the project, or the user's own."""
    project_file, home_file = config_files(Path.cwd())
    return project_file if project else home_file
