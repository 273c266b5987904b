"""``mahtab-tui skills``: list, show, search, make and check skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.cli.options import SkillsDir
from mahtab_tui.cli.printing import fail, fail_on, say, warn
from mahtab_tui.knowledge.library import NoSkill, SkillLibrary
from mahtab_tui.knowledge.loader import ProjectPlace, SkillsLoader, skill_folders
from mahtab_tui.knowledge.skill_trust import instructions_text, trust_texts
from mahtab_tui.knowledge.skills import SkillError, create_skill, read_skill
from mahtab_tui.settings.model import SettingsError, load_settings
from mahtab_tui.settings.sources import project_folder

skills_app = typer.Typer(help="List, show, search, make and check skills.", no_args_is_help=True)


def _places(skills_dir: list[Path] | None) -> tuple[Path | ProjectPlace, ...]:
    with fail_on(SettingsError):
        settings = load_settings(skills_dir=skills_dir or None)
    return skill_folders(
        project_folder(), settings.skills_dir, of_project=settings.of_project("skills_dir")
    )


def _library(skills_dir: list[Path] | None) -> SkillLibrary:
    return SkillLibrary(SkillsLoader(*_places(skills_dir)), warn)


@skills_app.command("list")
def list_skills(skills_dir: SkillsDir = None) -> None:
    """List all skills with their descriptions."""
    for name, description in _library(skills_dir).descriptions().items():
        say(f"{name}: {description}")


@skills_app.command()
def show(
    name: Annotated[str, typer.Argument(help="The skill's name")], skills_dir: SkillsDir = None
) -> None:
    """Print a skill: its file, its fields, its instructions."""
    library = _library(skills_dir)
    with fail_on(NoSkill, code=1):
        library.skills()
        held_back = next((skill for skill in library.held_back if skill.name == name), None)
        skill = held_back or library.get(name)
    about = [
        (
            "held back",
            ""
            if held_back is None
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
            say(f"{key}: {value}")
    say(f"\n{skill.content}")


@skills_app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words, or an identifier or a part of one")],
    limit: Annotated[int, typer.Option(min=1, help="At most this many")] = 5,
    skills_dir: SkillsDir = None,
) -> None:
    """Print the skills that match a query, the best first. Exit codes: 0 found, 1 nothing found."""
    hits = _library(skills_dir).search(query, limit)
    for hit in hits:
        say(f"{hit.name}: {hit.description}")
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
        say(str(path))


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
    loader = SkillsLoader(*(paths or _places(skills_dir)))
    count = len(loader.load_all())
    for problem in loader.problems:
        say(problem)
    if loader.held_back:
        say(
            f"Held back until you trust them: {', '.join(skill.name for skill in loader.held_back)}."
        )
    say(f"Skills that can be used: {count}. Problems: {len(loader.problems)}.")
    if loader.problems:
        raise typer.Exit(1)
