"""Finds the skills of a session in their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
"""Markdown files in a folder of skills that are not skills themselves, in lower case."""


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
        of_project: Whether a project's file names the extra folders, so that those inside the project
            need trust.
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
        """Read nothing yet.

        Args:
            *skills_dirs: The folders. If several have a skill of the same name, the last one wins.
        """
        self.folders = tuple(
            folder if isinstance(folder, ProjectFolder) else Path(folder) for folder in skills_dirs
        )
        self.problems: dict[str, Path | None] = {}
        """A sentence for each unusable skill, with the file to mend; None if there is none."""
        self.untrusted: tuple[Skill, ...] = ()
        """Skills of the project that the user has not trusted yet, by name."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the problems, and about the skills that wait for the user's trust."""
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
        reading = _SkillReading()
        for folder in _distinct_folders(self.folders):
            reading.read_folder(folder)

        # A clone of this program has the skills that are bundled with it.
        untrusted = [
            skill
            for skill in reading.untrusted
            if not _is_copy(skill, reading.skills.get(skill.name))
        ]
        self.problems = reading.problems
        self.untrusted = tuple(sorted(untrusted, key=lambda skill: skill.name))
        return sorted(reading.skills.values(), key=lambda skill: skill.name)


class _SkillFolder(NamedTuple):
    """A folder in which skills are looked for."""

    path: Path
    project: Path | None
    """The project that it belongs to; None if it is the user's own."""

    @property
    def needs_trust(self) -> bool:
        """Whether anybody may have written its skills.

        The home folder is the user's own even if it is the project.
        """
        if self.project is None:
            return False
        return os.path.realpath(self.project) != os.path.realpath(Path.home())


@dataclass
class _SkillReading:
    """What was found in the folders that were read so far, the strongest first."""

    skills: dict[str, Skill] = field(default_factory=dict)
    """The usable skills by name."""
    untrusted: list[Skill] = field(default_factory=list)
    problems: dict[str, Path | None] = field(default_factory=dict)
    """As `SkillsLoader.problems`."""

    def read_folder(self, folder: _SkillFolder) -> None:
        """Read the skills of a folder that is weaker than those read before."""
        try:
            paths = _list_skills(folder)
        except SkillError as error:
            self.problems[str(error)] = None
            return
        trust_record = trust.read_trust_record() if folder.needs_trust else None
        for path in paths:
            try:
                skill = read_skill(path, folder.project)
            except SkillError as error:
                self.problems[str(error)] = path
                continue
            stronger_skill = self.skills.get(skill.name)
            if stronger_skill is not None:
                self._report_hidden(skill, stronger_skill)
            elif trust_record is None or is_trusted(trust_record, path, instructions_text(skill)):
                self.skills[skill.name] = skill
            else:
                self.untrusted.append(skill)

    def _report_hidden(self, skill: Skill, stronger_skill: Skill) -> None:
        """Note that a project's skill has no effect, because the user's own has its name."""
        if skill.of_project and not stronger_skill.of_project:
            reason = f"not used, because {stronger_skill.file} has the same name"
            self.problems[f"{skill.file}: {reason}."] = None


def _is_copy(skill: Skill, other: Skill | None) -> bool:
    """Return whether models get the instructions of a project's skill anyway, from the user's own
    or a bundled one."""
    if other is None or other.of_project:
        return False
    return (other.description, other.content) == (skill.description, skill.content)


def _list_skills(folder: _SkillFolder) -> list[Path]:
    """List the files of skills in a folder. Raises `SkillError`."""
    real_folder = Path(os.path.realpath(folder.path))
    project = folder.project
    if project is not None and not real_folder.is_relative_to(os.path.realpath(project)):
        raise SkillError(
            f"{folder.path}: this folder of skills is a link out of the project, to {real_folder}, so it is not read."
        )
    try:
        return list(_skill_paths(folder.path))
    except OSError as error:
        raise SkillError(
            f"{folder.path}: this folder of skills cannot be read: {error.strerror}."
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


def _distinct_folders(folders: Sequence[Path | ProjectFolder]) -> Iterator[_SkillFolder]:
    """Yield each real folder once, the last and strongest first.

    A folder that is also one of the user's own belongs to no project.
    """
    own_folders = {os.path.realpath(folder) for folder in folders if isinstance(folder, Path)}
    seen_folders: set[str] = set()
    for entry in reversed(folders):
        path, project = entry if isinstance(entry, ProjectFolder) else (entry, None)
        real_folder = os.path.realpath(path)
        if real_folder in seen_folders:
            continue
        seen_folders.add(real_folder)
        yield _SkillFolder(path, None if real_folder in own_folders else project)
