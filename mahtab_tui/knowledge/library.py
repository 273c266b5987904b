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

MAX_INDEXED_CHARS = 20_000
"""Characters of a skill's content that are searched."""
MAX_QUERY_WORDS = 12
"""Words of a query: the longest, which are the most specific."""
RELOAD_INTERVAL_S = 1.0
"""How long files are assumed to be unchanged."""
MAX_SUGGESTED_NAMES = 30
"""Up to this number, all skills are named if one is missing."""

_SEARCH = "SELECT rowid, -bm25(skill, 10.0, 5.0, 1.0) AS score FROM skill WHERE skill MATCH ? ORDER BY score DESC, rowid LIMIT 500"
_WORDS = re.compile(r"\w+")
_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its me my not of on or our so than that the their them then there these "
    "this to use was we what when where which who why will with you your".split()
)


class SkillHit(NamedTuple):
    """A skill that a search found."""

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

    def search(self, query: str, limit: int = 5) -> list[SkillHit]:
        """Return the skills with words of the query, the best first; if there are none, those with a
        part of a word."""
        words = list(dict.fromkeys(_WORDS.findall(query.replace("\0", " ").lower())))
        # A query of common words only is searched as it is.
        words = [word for word in words if word not in _COMMON] or words
        if not words or limit < 1:
            return []

        words = sorted(words, key=len, reverse=True)[:MAX_QUERY_WORDS]
        match_query = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            rows = self._database.execute(_SEARCH, (match_query,)).fetchall()
        scores = {self._names[row]: score for row, score in rows}
        if not scores:
            scores = dict.fromkeys(self._names_containing(words[0]), 1.0)

        best_score = max(scores.values(), default=1.0)
        hits = [
            SkillHit(name, self._skills[name].description, round(score / best_score, 6))
            for name, score in scores.items()
        ]
        exact_name = query.strip().lower()
        hits.sort(key=lambda hit: (hit.name != exact_name, -hit.score, hit.name))
        return hits[:limit]

    def _names_containing(self, part: str) -> Iterator[str]:
        """Yield the skills that contain a part of a word."""
        for name, skill in self._skills.items():
            if part in f"{name} {skill.description} {skill.content}".lower():
                yield name


def _create_index(skills: Iterable[Skill]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    database.execute(
        "CREATE VIRTUAL TABLE skill USING fts5(name, description, content, content='', tokenize='porter unicode61 remove_diacritics 2')"
    )
    database.execute("BEGIN")
    insert = "INSERT INTO skill(rowid, name, description, content) VALUES (?, ?, ?, ?)"
    for row, skill in enumerate(skills):
        values = (row, skill.name, skill.description, skill.content[:MAX_INDEXED_CHARS])
        database.execute(insert, values)
    database.execute("COMMIT")
    return database


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
        """
        Args:
            on_problem: Called once for each problem, with a sentence.
            meaning: Finds skills by meaning, too; None finds them by words alone.
        """
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
            if time.monotonic() - self._checked_at > RELOAD_INTERVAL_S:
                loaded = {skill.name: skill for skill in self._loader.load_all()}
                if loaded != self._skills:
                    self._skills = loaded
                    self._texts = {
                        name: f"{name}: {skill.description}\n{skill.content}"
                        for name, skill in loaded.items()
                    }
                self._checked_at = time.monotonic()
            problems = [text for text in self._loader.warnings if text not in self._reported]
            self._reported.update(problems)
            skills = self._skills
        for problem in problems:
            self._on_problem(problem)
        return skills

    def invalidate(self) -> None:
        """Read the files again before the next use."""
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
        """Return the full-text index of the skills as they are now."""
        with self._indexing:
            skills = self.skills()
            if self._index is None or self._indexed is not skills:
                self._index = SkillsIndex(skills.values())
                self._indexed = skills
            return self._index

    def search(self, query: str, limit: int = 5) -> list[SkillHit]:
        return self.index().search(query, limit)

    def descriptions(self, *, bundled: bool = True) -> dict[str, str]:
        """Return the descriptions by name. bundled: also of skills that come with the program."""
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
        """Return a skill's text, arguments and file names. Raises `SkillNotFound`."""
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
        from mahtab_tui.knowledge.semantic_index import NEAREST, merge_rankings

        by_words = [hit.name for hit in self.search(query, max(limit, NEAREST))]
        by_meaning = self._meaning.nearest("skills", query, self._texts)
        names = merge_rankings(by_words, by_meaning)
        exact_name = query.strip().lower()
        names.sort(key=lambda name: name != exact_name)
        return names[:limit]

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


class SkillsBudgetExceeded(RuntimeError):
    """A skill does not fit into the budget of loaded skills; the message is a sentence."""


class LoadedSkills:
    """The loaded skills, for any thread."""

    def __init__(
        self, skills: Callable[[], SkillLibrary], budget: int, log: logging.Logger | None = None
    ) -> None:
        """
        Args:
            skills: Returns the library.
            budget: Characters that the instructions of all loaded skills may have.
            log: Gets a record whenever a skill is loaded or unloaded.
        """
        self._skills = skills
        self._budget = budget
        self._log = log
        self._lock = threading.RLock()
        self._sizes: dict[str, int] = {}

    def fold(self, record: Record) -> None:
        """Apply a record of a resumed session."""
        if not isinstance(record, records.SkillRecord):
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
        """Load a skill. Raises `SkillNotFound`, `SkillsBudgetExceeded`."""
        size = len(self._skills().instructions(name))
        with self._lock:
            self._update_size(name, size)

    def _update_size(self, name: str, size: int) -> None:
        """Note how many characters a loaded skill has. Raises `SkillsBudgetExceeded`."""
        current_size = self._sizes.get(name)
        if current_size == size:
            return
        remaining_chars = self._budget - sum(self._sizes.values()) + (current_size or 0)
        if size > remaining_chars:
            sizes = (f"{loaded_name} ({chars:,})" for loaded_name, chars in self._sizes.items())
            loaded_names = ", ".join(sizes) or "none"
            raise SkillsBudgetExceeded(
                f"The skill {name} has {size:,} characters, but only {max(0, remaining_chars):,} of the {self._budget:,} for loaded skills are left. Loaded: {loaded_names}."
            )
        self._report(name, size)

    def unload(self, name: str) -> None:
        """Unload a skill. Raises `SkillNotFound`."""
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
                        self._update_size(name, len(text))
                        texts[name] = text
            except (SkillNotFound, SkillsBudgetExceeded) as error:
                with self._lock:
                    if name in self._sizes:
                        self._report(name, None)
                if self._log is not None:
                    warn(self._log, f"The skill {name} is no longer loaded. {error}")
        return texts

    def _report(self, name: str, size: int | None) -> None:
        """Note that a skill was loaded with this many characters, or unloaded (None)."""
        is_loaded = size is not None
        if size is None:
            size = self._sizes.pop(name, 0)
        else:
            self._sizes[name] = size
        if self._log is not None:
            record = records.SkillRecord(
                name=name, loaded=is_loaded, chars=size, budget=self._budget
            )
            emit(self._log, record)
