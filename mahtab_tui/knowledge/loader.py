"""Reads the skills of several folders, and collects the problems of unusable ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.skill_trust import is_trusted
from mahtab_tui.knowledge.skills import SKILL_FILE, Skill, SkillError, read_skill
from mahtab_tui.settings import trust
from mahtab_tui.settings.model import home_folder, resource_folder
from mahtab_tui.settings.sources import trust_record

_NO_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})
"""Files in folders of skills that are not skills."""

_NAMED = 5
"""Up to this many skills are named in the sentence about those that are held back."""


class ProjectPlace(NamedTuple):
    """A folder of skills inside a project. Anyone may have written it, so links out of the project
    are not followed."""

    folder: Path
    project: Path


def skill_folders(
    project: Path, extra: Sequence[Path] = (), *, of_project: bool = False
) -> tuple[Path | ProjectPlace, ...]:
    """Return the folders of skills; if names clash, a later folder wins, and the user's own win
    over the project's.

    extra: the folders in the settings; if there are none, the project's ``skills``. of_project:
    whether a file of the project names them. It can name folders outside the project only if the
    user trusts it.
    """
    root = os.path.realpath(project)

    def of(folder: Path) -> Path | ProjectPlace:
        held = of_project and Path(os.path.realpath(project / folder)).is_relative_to(root)
        return ProjectPlace(project / folder, project) if held else folder

    named = [*map(of, extra)] or [ProjectPlace(project / "skills", project)]
    return (
        resource_folder("skills"),
        ProjectPlace(project / ".mahtab" / "skills", project),
        ProjectPlace(project / ".claude" / "skills", project),
        *(place for place in named if isinstance(place, ProjectPlace)),
        home_folder() / "skills",
        *(place for place in named if isinstance(place, Path)),
    )


_Stamp = tuple[int, int, int]
"""Identifies a version of a file: when it was changed, its permissions and name included, its size
and its inode."""


class SkillsLoader:
    """Reads the skills of some folders; unchanged files are not read again. For one thread at a
    time."""

    def __init__(self, *skills_dirs: Path | str | ProjectPlace) -> None:
        """skills_dirs: if names clash, a later folder wins; a missing folder has no skills. Links
        may lead anywhere, except in a project's folder."""
        self.places = tuple(
            place if isinstance(place, ProjectPlace) else Path(place) for place in skills_dirs
        )
        self.problems: tuple[str, ...] = ()
        """A sentence for each skill that was unusable when last read."""
        self.broken: dict[str, Path] = {}
        """The file of each sentence, if it is about one."""
        self.held_back: tuple[Skill, ...] = ()
        """The project's skills that the user has not trusted as they are now."""
        self._known: dict[Path, tuple[_Stamp, Skill]] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems, and a sentence about the skills that are held back."""
        if not self.held_back:
            return self.problems
        names = [skill.name for skill in self.held_back]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        listed = f"{'Skill' if len(names) == 1 else 'Skills'} of this project: {', '.join(names[:_NAMED])}{more}."
        return (
            *self.problems,
            f"{listed} No model gets them until you trust them: /skills, or mahtab-tui config trust.",
        )

    def load_all(self) -> list[Skill]:
        """Return all usable skills, sorted by name; `problems` describes the others."""
        return sorted(self.iter_skills(), key=lambda skill: skill.name)

    def iter_skills(self) -> Iterator[Skill]:
        """Yield skills as they are read, each name once, from the strongest folder to the
        weakest."""
        seen: dict[str, Skill] = {}
        held_back: list[Skill] = []
        met: dict[Path, tuple[_Stamp, Skill]] = {}
        problems: list[str] = []
        broken: dict[str, Path] = {}
        for place, project in _distinct(self.places):
            if project is not None and not (real := Path(os.path.realpath(place))).is_relative_to(
                os.path.realpath(project)
            ):
                problems.append(
                    f"{place}: this folder of skills is a link out of the project, to {real}, so it is not read."
                )
                continue
            try:
                files = list(_skill_files(place))
            except OSError as error:
                problems.append(f"{place}: this folder of skills cannot be read: {error.strerror}.")
                continue
            here: dict[str, Skill] = {}
            record = None if _is_own(project) else trust.read_record(trust_record())
            for path in files:
                try:
                    met[path] = self._read(path, project)
                except SkillError as error:
                    problems.append(str(error))
                    broken[str(error)] = path
                    continue
                found = met[path][1]
                stronger = here.get(found.name) or seen.get(found.name)
                if stronger is not None:
                    if found.name in here or (found.of_project and not stronger.of_project):
                        problems.append(
                            f"{path}: not used, because {stronger.file} has the same name."
                        )
                elif record is not None and not is_trusted(record, found):
                    held_back.append(found)
                else:
                    here[found.name] = found
                    yield found
            seen.update(here)
        self._known, self.problems, self.broken = met, tuple(problems), broken
        self.held_back = tuple(sorted(held_back, key=lambda skill: skill.name))

    def _read(self, path: Path, project: Path | None) -> tuple[_Stamp, Skill]:
        """Read a skill, with its file's stamp. Raises `SkillError`. A broken skill is read each
        time, since the cause may be outside its file."""
        try:
            status = path.stat()
        except OSError:
            return (0, 0, 0), read_skill(path, project)  # raises and says why
        stamp = (status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._known.get(path)
        return (
            known if known is not None and known[0] == stamp else (stamp, read_skill(path, project))
        )


def _is_own(project: Path | None) -> bool:
    """Return whether a folder of skills is the user's: it is of no project, or of the home
    folder."""
    return project is None or os.path.realpath(project) == os.path.realpath(Path.home())


def _skill_files(place: Path) -> Iterator[Path]:
    """Yield each folder's ``SKILL.md``, then the ``NAME.md`` files, both by name. Raises
    `OSError`."""
    if not place.is_dir():
        return
    with os.scandir(place) as entries:
        # A circular link must not hide the other skills.
        named = [
            (entry.name, os.path.isdir(entry) if entry.is_symlink() else entry.is_dir())
            for entry in entries
        ]
    names = sorted((name, is_folder) for name, is_folder in named if not name.startswith("."))
    for name, is_folder in names:
        if is_folder and _may_exist(path := place / name / SKILL_FILE):
            yield path
    for name, is_folder in names:
        if (
            not is_folder
            and name.endswith(".md")
            and name.lower() not in _NO_SKILLS
            and name != SKILL_FILE
        ):
            yield place / name


def _may_exist(path: Path) -> bool:
    """Tell whether a file exists; True if that is unknown, so that reading it reports why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _distinct(places: Sequence[Path | ProjectPlace]) -> Iterator[tuple[Path, Path | None]]:
    """Yield each real folder once, the last first, with its project. A folder that is also the
    user's own counts as the user's."""
    owns = {os.path.realpath(place) for place in places if isinstance(place, Path)}
    seen = set()
    for place in reversed(places):
        folder, project = place if isinstance(place, ProjectPlace) else (place, None)
        if (real := os.path.realpath(folder)) not in seen:
            seen.add(real)
            yield folder, None if real in owns else project
