"""The skills of a session, read in the background and again when their files change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, HeldError
from mahtab_tui.knowledge.index import Hit, SkillsIndex
from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders
from mahtab_tui.knowledge.skill_trust import is_trusted_file, skill_files
from mahtab_tui.knowledge.skills import Skill
from mahtab_tui.settings.model import load_settings, resource_folder

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex

FRESH = 1.0
"""Seconds for which files are assumed to be unchanged."""
_NAMED = 30
"""Up to this many skills are all named in the message about a missing one."""


class NoSkill(RuntimeError):
    """A skill, or a file of it, does not exist; the message is a sentence."""


class SkillLibrary:
    """The skills by name. May be used from any thread."""

    def __init__(
        self,
        loader: SkillsLoader,
        on_problem: Callable[[str], None],
        meaning: SemanticIndex | None = None,
    ) -> None:
        """on_problem: called once for each problem with a skill. meaning: None to find skills by
        words alone."""
        self._loader = loader
        self._on_problem = on_problem
        self._meaning = meaning
        self._texts: dict[str, str] = {}
        """Text of each skill, for `_meaning`."""
        self._lock = threading.Lock()
        self._skills: dict[str, Skill] = {}
        self._index: SkillsIndex | None = None
        self._indexing = threading.Lock()
        self._told: set[str] = set()
        self._looked = float("-inf")

    def skills(self) -> dict[str, Skill]:
        """Return all skills by name, as the files are now; waits for the first loading."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                found = {skill.name: skill for skill in self._loader.load_all()}
                if found != self._skills:
                    self._skills, self._index = found, None
                    self._texts = (
                        {
                            name: f"{name}: {skill.description}\n{skill.content}"
                            for name, skill in found.items()
                        }
                        if self._meaning
                        else {}
                    )
                self._looked = time.monotonic()
            problems = [problem for problem in self._loader.warnings if problem not in self._told]
            self._told.update(problems)
            skills = self._skills
        for problem in problems:
            self._on_problem(problem)
        return skills

    def renew(self) -> None:
        """Read changed files at the next use, even if they were read just now."""
        with self._lock:
            self._looked = float("-inf")

    @property
    def broken(self) -> dict[str, Path | None]:
        """For each unusable skill, a sentence saying why, and its file."""
        return {problem: self._loader.broken.get(problem) for problem in self._loader.problems}

    @property
    def held_back(self) -> tuple[Skill, ...]:
        """The project's skills that the user has not trusted as they are now."""
        return self._loader.held_back

    def index(self) -> SkillsIndex:
        """Return the index of all skills, as the files are now; waits until it is made."""
        with self._indexing:
            skills = self.skills()
            with self._lock:
                index = self._index
            if index is None:
                index = SkillsIndex(skills.values())
                with self._lock:
                    if self._skills is skills:
                        self._index = index
            return index

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return the skills that match a query, the best first."""
        return self.index().search(query, limit)

    def descriptions(self, *, bundled: bool = True) -> dict[str, str]:
        """Return descriptions by name. bundled: also of the skills that come with the program,
        which the model searches when it needs one."""
        shipped = resource_folder("skills")
        return {
            name: skill.description
            for name, skill in self.skills().items()
            if bundled or not skill.file.is_relative_to(shipped)
        }

    def get(self, name: str) -> Skill:
        """Return a skill by its name. Raises `NoSkill`."""
        skills = self.skills()
        if name not in skills:
            if any(skill.name == name for skill in self.held_back):
                raise NoSkill(
                    f"The skill {name!r} is the project's, and the user has not trusted it."
                )
            raise NoSkill(f"There is no skill {name!r}. {self._near(name)}")
        return skills[name]

    def instructions(self, name: str, args: str = "") -> str:
        """Return the instructions of a skill, with the arguments and the names of its other files.
        Raises `NoSkill`."""
        skill = self.get(name)
        parts = [skill.content]
        if args:
            parts.append(f"Arguments: {args}")
        if files := skill_files(skill):
            parts.append(
                f"Files of this skill, for load_skill({name!r}, file=...): {', '.join(files)}"
            )
        return "\n\n".join(parts)

    def found(self, query: str, limit: int = 5) -> str:
        """Format the output of `search_skills`: one line for each skill."""
        skills = self.skills()
        found = (name for name in self.near(query, limit) if name in skills)
        return (
            "\n".join(f"{name}: {skills[name].description}" for name in found)
            or f"No skill matches {query!r}."
        )

    def near(self, query: str, limit: int) -> list[str]:
        """Return the names of the skills that fit a query best, by words, and by meaning if there
        is an embedding model."""
        if self._meaning is None:
            return [hit.name for hit in self.search(query, limit)]
        from mahtab_tui.knowledge.semantic_index import NEAREST, joined

        by_words = [hit.name for hit in self.search(query, max(limit, NEAREST))]
        found = joined(by_words, self._meaning.nearest("skills", query, self._texts))
        exact = query.strip().lower()
        return sorted(found, key=lambda name: name != exact)[:limit]

    def file(self, name: str, path: str) -> str:
        """Read a file in a skill's folder. Raises `NoSkill`."""
        skill = self.get(name)
        if skill.folder is None:
            raise NoSkill(f"The skill {name!r} is a single file and has no others.")
        try:
            text = ConfinedFolder(skill.folder).read_text(path)
        except HeldError as error:
            raise NoSkill(str(error)) from None
        if not is_trusted_file(skill, path, text):
            raise NoSkill(f"The file {path!r} is the project's, and the user has not trusted it.")
        return text

    def _near(self, name: str) -> str:
        skills = self.skills()
        if len(skills) <= _NAMED:
            return f"Skills: {', '.join(sorted(skills)) or 'none'}."
        near = [hit.name for hit in self.search(name)]
        return f"Similar: {', '.join(near)}." if near else "Find one with search_skills(query)."


def load_skill_descriptions(skills_dir: Path | str | None = None) -> dict[str, str]:
    """Return the descriptions of the skills in a folder by name; by default of those that a session
    here would have. Broken ones are left out."""
    return {skill.name: skill.description for skill in _loader(skills_dir).load_all()}


def load_skill_content(name: str, skills_dir: Path | str | None = None) -> str:
    """Return the instructions of a skill by its name. Raises `NoSkill`."""
    return skill_library(skills_dir).get(name).content


def skill_library(skills_dir: Path | str | None = None) -> SkillLibrary:
    """Return the skills of a folder; by default those that a session here would have. Broken ones
    are left out silently."""
    return SkillLibrary(_loader(skills_dir), lambda problem: None)


def _loader(skills_dir: Path | str | None) -> SkillsLoader:
    if skills_dir is not None:
        return SkillsLoader(skills_dir)
    settings = load_settings()
    return SkillsLoader(
        *skill_folders(
            Path.cwd(), settings.skills_dir, of_project=settings.of_project("skills_dir")
        )
    )
