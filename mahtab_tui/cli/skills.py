"""``mahtab-tui skills``: lists, shows and makes skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.cli.options import SkillsDir, echo, fail, fail_on, warn
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.skill_file import (
    SkillError,
    instructions_text,
    name_problem,
    parse_skill,
    read_skill,
)
from mahtab_tui.knowledge.skill_trust import trust_texts
from mahtab_tui.knowledge.skills_loader import ProjectFolder, SkillsLoader, skill_folders
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import Settings, SettingsError, load_settings

DEFAULT_DESCRIPTION = "What this skill does. Use when the words of the question say so."
SKILL_TEMPLATE = """\
---
name: {name}
description: {description}
---

1. **First step.** What to look at, and with which call.
2. **Check.** How to see that it is right.
"""

skills_app = typer.Typer(help="List, show and make skills.", no_args_is_help=True)


def configured_folders(settings: Settings) -> tuple[Path | ProjectFolder, ...]:
    """Return the folders in which skills are looked for."""
    is_from_project = settings.is_from_project("skills_dir")
    return skill_folders(project_folder(), settings.skills_dir, of_project=is_from_project)


def _open_loader(skills_dir: list[Path] | None) -> SkillsLoader:
    """Return what finds skills. Ends the command if the settings are wrong.

    Args:
        skills_dir: More folders with skills.
    """
    with fail_on(SettingsError):
        return SkillsLoader(*configured_folders(load_settings(skills_dir=skills_dir or None)))


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
    text = SKILL_TEMPLATE.format(name=name, description=quoted_description)
    try:
        # Both fail before a file exists, which would be in the way of the next try.
        text.encode()
        parse_skill(path, text)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except UnicodeEncodeError:
        fail("The description is not valid text.")
    except SkillError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")
    with fail_on(SkillError, SettingsError):
        trust_texts({path: instructions_text(read_skill(path))})
    echo(str(path))
