"""Finds the skills of a session in their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.skill_file import (
    SKILL_FILE,
    Skill,
    SkillError,
    instructions_text,
    read_skill,
)
from mahtab_tui.knowledge.skill_trust import is_trusted
from mahtab_tui.settings import trust
from mahtab_tui.settings.model import home_folder, resource_folder

MAX_WARNED_SKILLS = 5
"""Untrusted skills that a warning names."""

NOT_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})
"""Markdown files that lie in a folder of skills."""


class ProjectFolder(NamedTuple):
    """A project's folder; no link that leads out of it is followed."""

    folder: Path
    project: Path


def skill_folders(
    project: Path, extra: Sequence[Path] = (), *, of_project: bool = False
) -> tuple[Path | ProjectFolder, ...]:
    """Return the folders in which a session finds skills; a later one wins.

    Args:
        project: The project's folder.
        extra: Folders to search instead of the project's ``skills``.
        of_project: A project's file names them, so that those inside the project need trust.
    """
    real_project = os.path.realpath(project)
    project_folders: list[ProjectFolder] = []
    own_folders: list[Path] = []
    for folder in extra:
        is_inside = Path(os.path.realpath(project / folder)).is_relative_to(real_project)
        if of_project and is_inside:
            project_folders.append(ProjectFolder(project / folder, project))
        else:
            own_folders.append(folder)
    if not extra:
        project_folders.append(ProjectFolder(project / "skills", project))

    return (
        resource_folder("skills"),
        ProjectFolder(project / ".mahtab" / "skills", project),
        ProjectFolder(project / ".claude" / "skills", project),
        *project_folders,
        home_folder() / "skills",
        *own_folders,
    )


class SkillsLoader:
    """Reads the skills of folders; one thread at a time."""

    def __init__(self, *skills_dirs: Path | str | ProjectFolder) -> None:
        """A later folder wins."""
        self.folders = tuple(
            folder if isinstance(folder, ProjectFolder) else Path(folder) for folder in skills_dirs
        )
        self.problems: dict[str, Path | None] = {}
        """A sentence per unusable skill, and its file."""
        self.untrusted: tuple[Skill, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems, and which skills are held back."""
        if not self.untrusted:
            return tuple(self.problems)
        names = ", ".join(skill.name for skill in self.untrusted[:MAX_WARNED_SKILLS])
        unnamed_count = len(self.untrusted) - MAX_WARNED_SKILLS
        if unnamed_count > 0:
            names += f" and {unnamed_count:,} more"
        noun = "Skill" if len(self.untrusted) == 1 else "Skills"
        return (
            *self.problems,
            f"{noun} of this project: {names}. No model gets them until you trust them: /skills, or mahtab-tui config trust.",
        )

    def load_all(self) -> list[Skill]:
        """Return the usable skills, by name."""
        skills: dict[str, Skill] = {}
        untrusted: list[Skill] = []
        problems: dict[str, Path | None] = {}
        for folder, project in _distinct_folders(self.folders):  # the strongest first
            try:
                paths = _list_skills(folder, project)
            except SkillError as error:
                problems[str(error)] = None
                continue

            # The home folder is the user's own even if it is the project.
            is_own = project is None or os.path.realpath(project) == os.path.realpath(Path.home())
            trust_record = None if is_own else trust.read_trust_record()
            for path in paths:
                try:
                    skill = read_skill(path, project)
                except SkillError as error:
                    problems[str(error)] = path
                    continue
                stronger = skills.get(skill.name)
                if stronger is not None:
                    if skill.of_project and not stronger.of_project:
                        reason = f"not used, because {stronger.file} has the same name"
                        problems[f"{path}: {reason}."] = None
                    continue
                text = instructions_text(skill)
                if trust_record is not None and not is_trusted(trust_record, path, text):
                    untrusted.append(skill)
                else:
                    skills[skill.name] = skill

        # A clone of this program has the skills that are bundled with it.
        untrusted = [skill for skill in untrusted if not _is_copy(skill, skills.get(skill.name))]
        self.problems = problems
        self.untrusted = tuple(sorted(untrusted, key=lambda skill: skill.name))
        return sorted(skills.values(), key=lambda skill: skill.name)


def _is_copy(skill: Skill, other: Skill | None) -> bool:
    """Return whether models get the instructions of a project's skill anyway, from the user's own
    or a bundled one."""
    if other is None or other.of_project:
        return False
    return (other.description, other.content) == (skill.description, skill.content)


def _list_skills(folder: Path, project: Path | None) -> list[Path]:
    """List the files of skills in a folder. Raises `SkillError`."""
    real_folder = Path(os.path.realpath(folder))
    if project is not None and not real_folder.is_relative_to(os.path.realpath(project)):
        raise SkillError(
            f"{folder}: this folder of skills is a link out of the project, to {real_folder}, so it is not read."
        )
    try:
        return list(_skill_paths(folder))
    except OSError as error:
        raise SkillError(
            f"{folder}: this folder of skills cannot be read: {error.strerror}."
        ) from None


def _skill_paths(folder: Path) -> Iterator[Path]:
    """Yield ``SKILL.md`` files, then others. Raises `OSError`."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(".")]
    for name in names:
        path = folder / name / SKILL_FILE
        if os.path.lexists(path):
            yield path
    for name in names:
        is_skill = name.endswith(".md") and name != SKILL_FILE and name.lower() not in NOT_SKILLS
        if is_skill and not (folder / name).is_dir():
            yield folder / name


def _distinct_folders(
    folders: Sequence[Path | ProjectFolder],
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each real folder once, the last first, with its project; the user's own have none."""
    own_folders = {os.path.realpath(folder) for folder in folders if isinstance(folder, Path)}
    real_paths: set[str] = set()
    for entry in reversed(folders):
        folder, project = entry if isinstance(entry, ProjectFolder) else (entry, None)
        real_folder = os.path.realpath(folder)
        if real_folder in real_paths:
            continue
        real_paths.add(real_folder)
        yield folder, None if real_folder in own_folders else project
