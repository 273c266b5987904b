"""The skills of a session: found, loaded, and reread when they change."""

from __future__ import annotations

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record, emit, warn
from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.skills import (
    Skill,
    SkillsLoader,
    is_trusted_file,
    skill_files,
    skill_folders,
)
from mahtab_tui.settings.model import load_settings, resource_folder

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex

INDEXED = 20_000
QUERY_WORDS = 12
"""Words of a query: the longest, which are the most specific."""

_SEARCH = "SELECT rowid, -bm25(skill, 10.0, 5.0, 1.0) AS score FROM skill WHERE skill MATCH ? ORDER BY score DESC, rowid LIMIT 500"
_WORDS = re.compile(r"\w+")
_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its me my not of on or our so than that the their them then there these "
    "this to use was we what when where which who why will with you your".split()
)


class Hit(NamedTuple):
    name: str
    description: str
    score: float
    """From 0 to 1; comparable only within one search."""


class SkillsIndex:
    """A full-text index of skills, for any thread."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._lock = threading.Lock()
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self._names = list(self._skills)
        self._database = _create_index(self._skills.values())

    def get(self, name: str) -> Skill | None:
        return self._skills.get(name)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return the skills with words of the query, the best first; if there are none, those with a
        part of a word."""
        words = list(dict.fromkeys(_WORDS.findall(query.replace("\0", " ").lower())))
        words = [word for word in words if word not in _COMMON] or words
        if not words or limit < 1:
            return []
        words = sorted(words, key=len, reverse=True)[:QUERY_WORDS]
        wanted = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            rows = self._database.execute(_SEARCH, (wanted,)).fetchall()
        found = [(self._names[row], score) for row, score in rows] or [
            (name, 1.0)
            for name, skill in self._skills.items()
            if words[0] in f"{name} {skill.description} {skill.content}".lower()
        ]
        best, exact = max((score for _, score in found), default=1.0), query.strip().lower()
        hits = [
            Hit(name, self._skills[name].description, round(score / best, 6))
            for name, score in found
        ]
        hits.sort(key=lambda hit: (hit.name != exact, -hit.score, hit.name))
        return hits[:limit]


def _create_index(skills: Iterable[Skill]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    database.execute(
        "CREATE VIRTUAL TABLE skill USING fts5(name, description, content, content='', tokenize='porter unicode61 remove_diacritics 2')"
    )
    database.execute("BEGIN")
    insert = "INSERT INTO skill(rowid, name, description, content) VALUES (?, ?, ?, ?)"
    for row, skill in enumerate(skills):
        values = row, skill.name, skill.description, skill.content[:INDEXED]
        database.execute(insert, values)
    database.execute("COMMIT")
    return database


FRESH = 1.0
"""Seconds for which files are assumed to be unchanged."""
_NAMED = 30
"""Up to this number, all skills are named if one is missing."""


class SkillNotFound(RuntimeError):
    """A skill, or a file of it, does not exist; the message is a sentence."""


class SkillLibrary:
    """The skills by name, for any thread."""

    def __init__(
        self,
        loader: SkillsLoader,
        on_problem: Callable[[str], None],
        meaning: SemanticIndex | None = None,
    ) -> None:
        """on_problem: called once per problem. meaning: None to find by words alone."""
        self._loader = loader
        self._on_problem = on_problem
        self._meaning = meaning
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()
        self._skills: dict[str, Skill] = {}
        self._index: SkillsIndex | None = None
        self._indexed: dict[str, Skill] = {}
        self._indexing = threading.Lock()
        self._reported: set[str] = set()
        self._checked_at = float("-inf")

    def skills(self) -> dict[str, Skill]:
        """Return all skills, as the files are now."""
        with self._lock:
            if time.monotonic() - self._checked_at > FRESH:
                found = {skill.name: skill for skill in self._loader.load_all()}
                if found != self._skills:
                    self._skills = found
                    self._texts = {
                        name: f"{name}: {skill.description}\n{skill.content}"
                        for name, skill in found.items()
                    }
                self._checked_at = time.monotonic()
            problems = [each for each in self._loader.warnings if each not in self._reported]
            self._reported.update(problems)
            skills = self._skills
        for problem in problems:
            self._on_problem(problem)
        return skills

    def invalidate(self) -> None:
        with self._lock:
            self._checked_at = float("-inf")

    @property
    def broken(self) -> dict[str, Path | None]:
        """A sentence and the file of each unusable skill."""
        return self._loader.problems

    @property
    def untrusted(self) -> tuple[Skill, ...]:
        return self._loader.untrusted

    def index(self) -> SkillsIndex:
        with self._indexing:
            skills = self.skills()
            if self._index is None or self._indexed is not skills:
                self._index, self._indexed = SkillsIndex(skills.values()), skills
            return self._index

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        return self.index().search(query, limit)

    def descriptions(self, *, bundled: bool = True) -> dict[str, str]:
        """bundled: also skills that come with the program."""
        shipped = resource_folder("skills")
        return {
            name: skill.description
            for name, skill in self.skills().items()
            if bundled or not skill.file.is_relative_to(shipped)
        }

    def get(self, name: str) -> Skill:
        skills = self.skills()
        if name not in skills:
            if any(skill.name == name for skill in self.untrusted):
                problem = f"The skill {name!r} is the project's, and the user has not trusted it."
                raise SkillNotFound(problem)
            raise SkillNotFound(f"There is no skill {name!r}. {self._suggestion(name)}")
        return skills[name]

    def instructions(self, name: str, args: str = "") -> str:
        """Return a skill's text, arguments and file names. Raises `SkillNotFound`."""
        skill = self.get(name)
        parts = [skill.content]
        if args:
            parts.append(f"Arguments: {args}")
        if files := ", ".join(skill_files(skill)):
            parts.append(f"Files of this skill, for load_skill({name!r}, file=...): {files}")
        return "\n\n".join(parts)

    def describe_matches(self, query: str, limit: int = 5) -> str:
        skills = self.skills()
        found = (name for name in self.nearest(query, limit) if name in skills)
        lines = [f"{name}: {skills[name].description}" for name in found]
        return "\n".join(lines) or f"No skill matches {query!r}."

    def nearest(self, query: str, limit: int) -> list[str]:
        if self._meaning is None:
            return [hit.name for hit in self.search(query, limit)]
        from mahtab_tui.knowledge.semantic_index import NEAREST, merge_rankings

        by_words = [hit.name for hit in self.search(query, max(limit, NEAREST))]
        found = merge_rankings(by_words, self._meaning.nearest("skills", query, self._texts))
        exact = query.strip().lower()
        return sorted(found, key=lambda name: name != exact)[:limit]

    def file(self, name: str, path: str) -> str:
        """Read a file in a skill's folder. Raises `SkillNotFound`."""
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
        skills = self.skills()
        if len(skills) <= _NAMED:
            return f"Skills: {', '.join(sorted(skills)) or 'none'}."
        near = [hit.name for hit in self.search(name)]
        return f"Similar: {', '.join(near)}." if near else "Find one with search_skills(query)."


def load_skill_descriptions(skills_dir: Path | str | None = None) -> dict[str, str]:
    """By default the skills of a session here."""
    return skill_library(skills_dir).descriptions()


def iter_skills(skills_dir: Path | str | None = None) -> Iterator[Skill]:
    """Yield skills, sorted by name.

    Args:
        skills_dir: the folder that contains them; by default, those that a session would have.

    Example:
        for skill in iter_skills():
            print(skill.name, skill.description)
    """
    skills = skill_library(skills_dir).skills()
    yield from (skills[name] for name in sorted(skills))


def load_skill_content(name: str, skills_dir: Path | str | None = None) -> str:
    """Raises `SkillNotFound`."""
    return skill_library(skills_dir).get(name).content


def skill_library(skills_dir: Path | str | None = None) -> SkillLibrary:
    """By default the skills of a session here."""
    return SkillLibrary(_loader(skills_dir), lambda problem: None)


def _loader(skills_dir: Path | str | None) -> SkillsLoader:
    if skills_dir is not None:
        return SkillsLoader(skills_dir)
    settings = load_settings()
    of_project = settings.is_from_project("skills_dir")
    return SkillsLoader(*skill_folders(Path.cwd(), settings.skills_dir, of_project=of_project))


class SkillsBudgetExceeded(RuntimeError):
    """A skill does not fit into the budget of loaded skills; the message is a sentence."""


class LoadedSkills:
    """The loaded skills, for any thread."""

    def __init__(
        self, skills: Callable[[], SkillLibrary], budget: int, log: logging.Logger | None = None
    ) -> None:
        """budget: characters of all instructions."""
        self._skills = skills
        self._budget = budget
        self._log = log
        self._lock = threading.RLock()
        self._sizes: dict[str, int] = {}

    def fold(self, record: Record) -> None:
        """Apply a record of a resumed session."""
        if not isinstance(record, records.Skill):
            return
        if record.loaded:
            self._sizes[record.name] = record.chars
        else:
            self._sizes.pop(record.name, None)

    @property
    def used(self) -> tuple[int, int]:
        """Characters that are loaded, and the budget."""
        with self._lock:
            return sum(self._sizes.values()), self._budget

    @property
    def names(self) -> list[str]:
        with self._lock:
            return list(self._sizes)

    def load(self, name: str) -> None:
        """Raises `SkillNotFound`, `SkillsBudgetExceeded`."""
        size = len(self._skills().instructions(name))
        with self._lock:
            self._keep(name, size)

    def _keep(self, name: str, size: int) -> None:
        if self._sizes.get(name) != size:
            left = self._budget - sum(self._sizes.values()) + self._sizes.get(name, 0)
            if size > left:
                sizes = (f"{each} ({chars:,})" for each, chars in self._sizes.items())
                loaded = ", ".join(sizes) or "none"
                raise SkillsBudgetExceeded(
                    f"The skill {name} has {size:,} characters, but only {max(0, left):,} of the {self._budget:,} for loaded skills are left. Loaded: {loaded}."
                )
            self._report(name, size)

    def unload(self, name: str) -> None:
        """Raises `SkillNotFound`."""
        with self._lock:
            if name not in self._sizes:
                raise SkillNotFound(
                    f"The skill {name!r} is not loaded. Loaded: {', '.join(self._sizes) or 'none'}."
                )
            self._report(name, None)

    def instructions(self) -> dict[str, str]:
        """Return loaded texts; skills that are gone or too large are unloaded."""
        texts: dict[str, str] = {}
        for name in self.names:
            try:
                text = self._skills().instructions(name)
                with self._lock:
                    if name in self._sizes:  # it may have been unloaded meanwhile
                        self._keep(name, len(text))
                        texts[name] = text
            except (SkillNotFound, SkillsBudgetExceeded) as error:
                with self._lock:
                    if name in self._sizes:
                        self._report(name, None)
                if self._log is not None:
                    warn(self._log, f"The skill {name} is no longer loaded. {error}")
        return texts

    def _report(self, name: str, size: int | None) -> None:
        """size: None if it is unloaded."""
        if size is None:
            chars = self._sizes.pop(name, 0)
        else:
            chars = self._sizes[name] = size
        if self._log is not None:
            loaded = size is not None
            record = records.Skill(name=name, loaded=loaded, chars=chars, budget=self._budget)
            emit(self._log, record)
