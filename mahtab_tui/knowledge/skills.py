"""Skills: folders with a ``SKILL.md``, by the Agent Skills specification."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from mahtab_tui.settings import home_folder, resource_folder

_FRONTMATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n(.*)\Z", re.DOTALL)


class Skill(NamedTuple):
    """Instructions that the model loads when it needs them."""

    name: str
    description: str
    folder: Path
    content: str
    """The instructions, without the frontmatter."""


class SkillError(Exception):
    """A skill that cannot be used; the message says what and where."""


def skill_folders(project: Path, extra: Path | None = None) -> tuple[Path, ...]:
    """Where skills are looked for; later folders win by name."""
    places = (resource_folder("skills"), home_folder() / "skills", project / ".mahtab" / "skills")
    return (*places, extra) if extra is not None else places


def read_skill(path: Path) -> Skill:
    """The skill of a ``SKILL.md``. Raises `SkillError`."""
    try:
        matched = _FRONTMATTER.match(path.read_text("utf-8"))
        fields = yaml.safe_load(matched[1]) if matched else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SkillError(f"{path}: the skill cannot be read: {error}") from None
    if matched is None or not isinstance(fields, dict):
        raise SkillError(f"{path}: the file does not begin with frontmatter between two lines of ---.")
    name, description = str(fields.get("name", "")), str(fields.get("description", "")).strip()
    if name != path.parent.name:
        raise SkillError(f"{path}: its name is {name!r}, but its folder is {path.parent.name!r}.")
    if not description:
        raise SkillError(f"{path}: the description is missing.")
    return Skill(name, description, path.parent, matched[2].strip())


def load_skills(folders: Sequence[Path]) -> tuple[dict[str, Skill], list[str]]:
    """All skills by name, and a sentence for each that cannot be used."""
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for path in _skill_files(folders):
        try:
            skill = read_skill(path)
        except SkillError as error:
            problems.append(str(error))
        else:
            skills[skill.name] = skill
    return skills, problems


def _skill_files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(folder.glob("*/SKILL.md"))
