"""Reading the skills of several folders, and collecting the problems of those that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.skills import SKILL_FILE, Skill, SkillError, read_skill
from mahtab_tui.settings.model import home_folder, resource_folder

_NO_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})
"""Files that often lie beside skills and are not skills."""


class ProjectPlace(NamedTuple):
    """A folder of skills inside a project. Anybody may have written it, so links out of the project are not followed."""

    folder: Path
    project: Path


def skill_folders(project: Path, extra: Sequence[Path] = (), *, of_project: bool = False) -> tuple[Path | ProjectPlace, ...]:
    """The folders of skills; if names clash, a later folder wins.

    extra: the folders named in the settings; if there are none, the project's ``skills``.
    of_project: whether a file of the project named them. It can name folders outside the project only if the user trusts it.
    """
    root = os.path.realpath(project)

    def of(folder: Path) -> Path | ProjectPlace:
        held = of_project and Path(os.path.realpath(project / folder)).is_relative_to(root)
        return ProjectPlace(project / folder, project) if held else folder

    return (
        resource_folder("skills"),
        home_folder() / "skills",
        ProjectPlace(project / ".mahtab" / "skills", project),
        ProjectPlace(project / ".claude" / "skills", project),
        *(map(of, extra) if extra else (ProjectPlace(project / "skills", project),)),
    )


class _Stamp(NamedTuple):
    """Tells whether a file has changed."""

    changed: int
    """In nanoseconds; changes of rights and name count too."""
    size: int
    inode: int


class SkillsLoader:
    """Reads the skills of some folders; unchanged files are not read again. For one thread at a time."""

    def __init__(self, *skills_dirs: Path | str | ProjectPlace) -> None:
        """skills_dirs: if names clash, a later folder wins; a missing folder has no skills. Links may lead anywhere, except in a project's folder."""
        self.places = tuple(place if isinstance(place, ProjectPlace) else Path(place) for place in skills_dirs)
        self.problems: tuple[str, ...] = ()
        """A sentence for each skill that could not be used at the last reading."""
        self.broken: dict[str, Path] = {}
        """The file of each sentence, if it is about one."""
        self._known: dict[Path, tuple[_Stamp, Skill]] = {}

    def load_all(self) -> list[Skill]:
        """All skills, sorted by name; `problems` has the others."""
        return sorted(self.iter_skills(), key=lambda skill: skill.name)

    def iter_skills(self) -> Iterator[Skill]:
        """The skills as they are read, each name once, strongest place first."""
        seen: set[str] = set()
        met: dict[Path, tuple[_Stamp, Skill]] = {}
        problems: list[str] = []
        broken: dict[str, Path] = {}
        for place, project in _distinct(self.places):
            if project is not None and not (real := Path(os.path.realpath(place))).is_relative_to(os.path.realpath(project)):
                problems.append(f"{place}: this folder of skills is a link out of the project, to {real}, so it is not read.")
                continue
            try:
                files = list(_skill_files(place))
            except OSError as error:
                problems.append(f"{place}: this folder of skills cannot be read: {error.strerror}.")
                continue
            here: dict[str, Path] = {}
            for path in files:
                try:
                    met[path] = self._read(path, project)
                except SkillError as error:
                    problems.append(str(error))
                    broken[str(error)] = path
                    continue
                found = met[path][1]
                if found.name in here:
                    problems.append(f"{path}: not used, because {here[found.name]} has the same name.")
                elif found.name not in seen:
                    here[found.name] = path
                    yield found
            seen.update(here)
        self._known, self.problems, self.broken = met, tuple(problems), broken

    def _read(self, path: Path, project: Path | None) -> tuple[_Stamp, Skill]:
        """A skill with its file's stamp. Raises `SkillError`. A broken skill is read each time, because the cause may lie outside its file."""
        try:
            status = path.stat()
        except OSError:
            return _Stamp(0, 0, 0), read_skill(path, project)  # raises and says why
        stamp = _Stamp(status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        return known if known is not None and known[0] == stamp else (stamp, read_skill(path, project))


def _skill_files(place: Path) -> Iterator[Path]:
    """Each folder's ``SKILL.md`` before the ``NAME.md`` files, both by name. Raises `OSError`."""
    if not place.is_dir():
        return
    with os.scandir(place) as entries:
        # One link that leads in a circle must not hide the other skills.
        named = [(entry.name, os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()) for entry in entries]
    names = sorted((name, is_folder) for name, is_folder in named if not name.startswith("."))
    for name, is_folder in names:
        if is_folder and _is_there(path := place / name / SKILL_FILE):
            yield path
    for name, is_folder in names:
        if not is_folder and name.endswith(".md") and name.lower() not in _NO_SKILLS and name != SKILL_FILE:
            yield place / name


def _is_there(path: Path) -> bool:
    """Whether a file exists; True if that cannot be found out, so that reading it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _distinct(places: Sequence[Path | ProjectPlace]) -> Iterator[tuple[Path, Path | None]]:
    """Each real folder once, the last first, with its project. A folder that is also the user's own counts as the user's."""
    owns = {os.path.realpath(place) for place in places if isinstance(place, Path)}
    seen = set()
    for place in reversed(places):
        folder, project = place if isinstance(place, ProjectPlace) else (place, None)
        if (real := os.path.realpath(folder)) not in seen:
            seen.add(real)
            yield folder, None if real in owns else project
