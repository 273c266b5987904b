"""The skills of a session: read from their folders, searched, and read again when they change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.skill_file import Skill, skill_files
from mahtab_tui.knowledge.skill_trust import is_trusted_file
from mahtab_tui.knowledge.skills_index import SkillHit, SkillsIndex
from mahtab_tui.knowledge.skills_loader import SkillsLoader, skill_folders
from mahtab_tui.settings.model import load_settings, resource_folder

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex

RELOAD_INTERVAL_S = 1.0
"""Seconds for which files are assumed to be unchanged."""
MAX_SUGGESTED_NAMES = 30
"""All skills are named if one is missing, unless there are more than these."""


class SkillNotFound(RuntimeError):
    """A skill, or a file of it, does not exist; the message is a sentence."""


class SkillLibrary:
    """The skills of some folders. Any thread may call it."""

    def __init__(
        self,
        loader: SkillsLoader,
        on_problem: Callable[[str], None],
        meaning: SemanticIndex | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            loader: Reads the skills.
            on_problem: Called once for each problem, with a sentence.
            meaning: Finds skills also by meaning; None to find them by words alone.
        """
        self._loader = loader
        self._on_problem = on_problem
        self._meaning = meaning
        self._lock = threading.Lock()
        """Held while the files are read."""
        self._skills: dict[str, Skill] = {}
        """The skills by name. A change of the files replaces the dictionary."""
        self._texts: dict[str, str] = {}
        """What is searched by meaning, by the names of the skills."""
        self._checked_at = float("-inf")
        """When the files were last read, in seconds of the monotonic clock."""
        self._reported_problems: set[str] = set()
        self._index_lock = threading.Lock()
        """Held while the index is made."""
        self._index: SkillsIndex | None = None
        self._indexed_skills: dict[str, Skill] = {}
        """The skills of which the index was made."""

    def skills(self) -> dict[str, Skill]:
        """Return all skills by name, as the files are now."""
        with self._lock:
            if time.monotonic() - self._checked_at > RELOAD_INTERVAL_S:
                self._reload()
            skills = self._skills
            problems = [
                problem
                for problem in self._loader.warnings
                if problem not in self._reported_problems
            ]
            self._reported_problems.update(problems)
        for problem in problems:
            self._on_problem(problem)
        return skills

    def _reload(self) -> None:
        """Read the files. The caller holds the lock."""
        skills = {skill.name: skill for skill in self._loader.load_all()}
        if skills != self._skills:
            self._skills = skills
            self._texts = {
                name: f"{name}: {skill.description}\n{skill.content}"
                for name, skill in skills.items()
            }
        self._checked_at = time.monotonic()

    def invalidate(self) -> None:
        """Read the files again before the next use."""
        with self._lock:
            self._checked_at = float("-inf")

    @property
    def broken(self) -> dict[str, Path | None]:
        """A sentence for each unusable skill, with its file."""
        return self._loader.problems

    @property
    def untrusted(self) -> tuple[Skill, ...]:
        """The project's skills that the user has not trusted yet, as of the last reading."""
        return self._loader.untrusted

    def index(self) -> SkillsIndex:
        """Return the full-text index of the skills as they are now."""
        with self._index_lock:
            skills = self.skills()
            if self._index is None or self._indexed_skills is not skills:
                self._index = SkillsIndex(skills.values())
                self._indexed_skills = skills
            return self._index

    def search(self, query: str, limit: int = 5) -> list[SkillHit]:
        """Return the best skills for a query, by words alone."""
        return self.index().search(query, limit)

    def descriptions(self, *, bundled: bool = True) -> dict[str, str]:
        """Return the descriptions of the skills by name.

        Args:
            bundled: Whether skills that come with the program are included.
        """
        bundled_folder = resource_folder("skills")
        return {
            name: skill.description
            for name, skill in self.skills().items()
            if bundled or not skill.file.is_relative_to(bundled_folder)
        }

    def get(self, name: str) -> Skill:
        """Return a skill. Raises `SkillNotFound`."""
        skills = self.skills()
        if name in skills:
            return skills[name]
        if any(skill.name == name for skill in self.untrusted):
            problem = f"The skill {name!r} is the project's, and the user has not trusted it."
            raise SkillNotFound(problem)
        raise SkillNotFound(f"There is no skill {name!r}. {self._suggestion(name)}")

    def instructions(self, name: str, args: str = "") -> str:
        """Return what a model gets of a skill: its text, the arguments, and the names of its files.

        Args:
            name: The skill's name.
            args: What the user has typed after the name; may be empty.

        Raises:
            SkillNotFound: There is no such skill.
        """
        skill = self.get(name)
        parts = [skill.content]
        if args:
            parts.append(f"Arguments: {args}")
        if files := ", ".join(skill_files(skill)):
            parts.append(f"Files of this skill, for load_skill({name!r}, file=...): {files}")
        return "\n\n".join(parts)

    def describe_matches(self, query: str, limit: int = 5) -> str:
        """Return the names and descriptions of the best skills for a query, one a line."""
        skills = self.skills()
        names = [name for name in self.nearest(query, limit) if name in skills]
        lines = [f"{name}: {skills[name].description}" for name in names]
        return "\n".join(lines) or f"No skill matches {query!r}."

    def nearest(self, query: str, limit: int) -> list[str]:
        """Return the names of the best skills for a query, by words and by meaning."""
        if self._meaning is None:
            return [hit.name for hit in self.search(query, limit)]
        from mahtab_tui.knowledge.semantic_index import MAX_RESULTS, merge_rankings

        by_words = [hit.name for hit in self.search(query, max(limit, MAX_RESULTS))]
        by_meaning = self._meaning.nearest("skills", query, self._texts)
        names = merge_rankings(by_words, by_meaning)
        exact_name = query.strip().lower()
        names.sort(key=lambda name: name != exact_name)
        return names[:limit]

    def file(self, name: str, path: str) -> str:
        """Return the text of a file in a skill's folder.

        Args:
            name: The skill's name.
            path: The file, relative to the folder.

        Raises:
            SkillNotFound: There is no such skill or file, or it is not trusted.
        """
        skill = self.get(name)
        if skill.folder is None:
            raise SkillNotFound(f"The skill {name!r} is a single file and has no others.")
        try:
            text = ConfinedFolder(skill.folder).read_text(path)
        except ConfinedFolderError as error:
            raise SkillNotFound(str(error)) from None
        if not is_trusted_file(skill, path, text):
            raise SkillNotFound(
                f"The file {path!r} is the project's, and the user has not trusted it."
            )
        return text

    def _suggestion(self, name: str) -> str:
        """Return a sentence that names skills, or how to find them, because one is missing."""
        skills = self.skills()
        if len(skills) <= MAX_SUGGESTED_NAMES:
            return f"Skills: {', '.join(sorted(skills)) or 'none'}."
        similar = [hit.name for hit in self.search(name)]
        if not similar:
            return "Find one with search_skills(query)."
        return f"Similar: {', '.join(similar)}."


def load_skill_descriptions(skills_dir: Path | str | None = None) -> dict[str, str]:
    """Return the descriptions of skills by name.

    Args:
        skills_dir: The folder that contains them; by default, those that a session would have.
    """
    return skill_library(skills_dir).descriptions()


def iter_skills(skills_dir: Path | str | None = None) -> Iterator[Skill]:
    """Yield skills, sorted by name.

    Args:
        skills_dir: The folder that contains them; by default, those that a session would have.

    Example:
        for skill in iter_skills():
            print(skill.name, skill.description)
    """
    skills = skill_library(skills_dir).skills()
    yield from (skills[name] for name in sorted(skills))


def load_skill_content(name: str, skills_dir: Path | str | None = None) -> str:
    """Return the text of a skill, without its frontmatter.

    Args:
        name: The skill's name.
        skills_dir: The folder that contains it; by default, those that a session would have.

    Raises:
        SkillNotFound: There is no such skill.
    """
    return skill_library(skills_dir).get(name).content


def skill_library(skills_dir: Path | str | None = None) -> SkillLibrary:
    """Return the skills of a folder; by default, those that a session here would have."""
    if skills_dir is not None:
        loader = SkillsLoader(skills_dir)
    else:
        settings = load_settings()
        is_from_project = settings.is_from_project("skills_dir")
        loader = SkillsLoader(
            *skill_folders(Path.cwd(), settings.skills_dir, of_project=is_from_project)
        )
    return SkillLibrary(loader, lambda problem: None)
