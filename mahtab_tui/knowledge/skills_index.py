"""A full-text index of skills."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mahtab_tui.knowledge.skill_file import Skill

MAX_INDEXED_CHARS = 20_000
"""At most this many characters of a skill's content are searched."""
MAX_QUERY_WORDS = 12
"""Only this many words of a query count: the longest, which are the most specific."""
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
    """How well it fits, from 0 to 1; comparable only within one search."""


class SkillsIndex:
    """A full-text index of skills, for any thread."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._lock = threading.Lock()
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self._names = list(self._skills)
        self._database = _create_index(self._skills.values())

    def get(self, name: str) -> Skill | None:
        """Return a skill; None if there is none of this name."""
        return self._skills.get(name)

    def search(self, query: str, limit: int = 5) -> list[SkillHit]:
        """Return the skills with words of the query, the best first.

        If there are none, return those with a part of a word.
        """
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
    """Return a database in memory with the words of skills, which are numbered from 0."""
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
