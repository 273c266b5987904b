"""All skills of some places, and what is wrong with those that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.skills import SKILL_FILE, Skill, SkillError, read_skill
from mahtab_tui.settings.model import home_folder, resource_folder

_NO_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})
"""Files that are met beside skills and are none."""


class ProjectPlace(NamedTuple):
    """A folder of skills that comes with a project: who wrote it may be anybody, so nothing outside of the project is read over it."""

    folder: Path
    project: Path


def skill_folders(project: Path, extra: Sequence[Path] = (), *, of_project: bool = False) -> tuple[Path | ProjectPlace, ...]:
    """Where skills are looked for; later folders win by name.

    extra: folders that were named in the settings; where there are none, the project's ``skills`` stands in their place.
    of_project: whether a file of the project has named them, which names others than the project's only with the person's word.
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
    """By what a changed file is known."""

    changed: int
    """In nanoseconds; also when its rights or its name were changed."""
    size: int
    inode: int


class SkillsLoader:
    """Reads the skills of some folders; what has not changed since the last time is not read again. For one thread at a time."""

    def __init__(self, *skills_dirs: Path | str | ProjectPlace) -> None:
        """skills_dirs: folders of skills, later ones win by name; one that does not exist has none. Over links they may lead anywhere, but a project's."""
        self.places = tuple(place if isinstance(place, ProjectPlace) else Path(place) for place in skills_dirs)
        self.problems: tuple[str, ...] = ()
        """A sentence for each skill that cannot be used, as of the last time all were read."""
        self.broken: dict[str, Path] = {}
        """The file that each sentence is of, where it is of one."""
        self._known: dict[Path, tuple[_Stamp, Skill]] = {}

    def load_all(self) -> list[Skill]:
        """All skills by name, sorted; `problems` tells of the others."""
        return sorted(self.iter_skills(), key=lambda skill: skill.name)

    def iter_skills(self) -> Iterator[Skill]:
        """The skills as they are read, each name once: from the place that wins to the one that loses."""
        seen: set[str] = set()
        met: dict[Path, tuple[_Stamp, Skill]] = {}
        problems: list[str] = []
        broken: dict[str, Path] = {}
        for place, project in _distinct(self.places):
            if project is not None and not (real := Path(os.path.realpath(place))).is_relative_to(os.path.realpath(project)):
                problems.append(f"{place}: the folder of skills leads over a link out of the project, to {real}, and is not read.")
                continue
            try:
                files = list(_skill_files(place))
            except OSError as error:
                problems.append(f"{place}: the folder of skills cannot be read: {error.strerror}.")
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
                    problems.append(f"{path}: {here[found.name]} has the same name and is used.")
                elif found.name not in seen:
                    here[found.name] = path
                    yield found
            seen.update(here)
        self._known, self.problems, self.broken = met, tuple(problems), broken

    def _read(self, path: Path, project: Path | None) -> tuple[_Stamp, Skill]:
        """A skill with its file's stamp. Raises `SkillError`: one that is broken is read each time, since what broke it may be none of its own."""
        try:
            status = path.stat()
        except OSError:
            return _Stamp(0, 0, 0), read_skill(path, project)  # which says why
        stamp = _Stamp(status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        return known if known is not None and known[0] == stamp else (stamp, read_skill(path, project))


def _skill_files(place: Path) -> Iterator[Path]:
    """Each folder's ``SKILL.md`` before the ``NAME.md`` files, both by name. Raises `OSError`."""
    if not place.is_dir():
        return
    with os.scandir(place) as entries:
        # A link that leads round in a circle is no reason to pass over the others.
        named = [(entry.name, os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()) for entry in entries]
    names = sorted((name, is_folder) for name, is_folder in named if not name.startswith("."))
    for name, is_folder in names:
        if is_folder and _is_there(path := place / name / SKILL_FILE):
            yield path
    for name, is_folder in names:
        if not is_folder and name.endswith(".md") and name.lower() not in _NO_SKILLS and name != SKILL_FILE:
            yield place / name


def _is_there(path: Path) -> bool:
    """Also where it cannot be looked at: then it is said why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _distinct(places: Sequence[Path | ProjectPlace]) -> Iterator[tuple[Path, Path | None]]:
    """Each folder once, the last first, whatever it is called, with the project that it comes with; one that a person has, too, is the person's."""
    owns = {os.path.realpath(place) for place in places if isinstance(place, Path)}
    seen = set()
    for place in reversed(places):
        folder, project = place if isinstance(place, ProjectPlace) else (place, None)
        if (real := os.path.realpath(folder)) not in seen:
            seen.add(real)
            yield folder, None if real in owns else project
