"""Finds skills by words, with two full-text tables in memory: of word stems, and of parts of
identifiers."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable
from heapq import nsmallest
from typing import NamedTuple

from mahtab_tui.knowledge.skills import Skill

INDEXED = 20_000
"""Characters of a skill's instructions that are indexed."""
QUERY_WORDS = 12
"""Words of a query that are searched: the longest, which are the most specific."""

_HASH_SIZE = 32 * 1024 * 1024
"""Bytes that FTS5 collects before it writes to a table; with less, it spends most of its time on
merging."""
_WEIGHTS = "10.0, 5.0, 1.0"
"""Weights of a hit in name, description, content."""
_COLUMNS = ("name", "name description", "name description content")
"""Columns to search, from the most specific to all."""
_WORDS = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NO_WORD = re.compile(r"[A-Z0-9_]")
"""Occurs after the first letter of identifiers, but not of ordinary words."""
_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its me my not of on or our so than that the their them then there these "
    "this to use was we what when where which who why will with you your".split()
)
_PARTS = 0.4
"""Weight of a hit in the table of parts, relative to the table of stems."""
_PARTS_OF_IDENTIFIERS = 2.0
"""Weight of a hit there for a query with an identifier such as `read_file`, which the table of stems
treats as two words."""
_FREQUENT = 500
"""A word that more skills have is not specific."""
_RANKED = 500
"""How many skills of each table are ranked, the best ones."""
_SHORTEST = 3
"""The shortest word that the trigram table can find."""


class Hit(NamedTuple):
    """A skill that was found."""

    name: str
    description: str
    score: float
    """From 0 to 1, higher is better; comparable only within one search."""


class SkillsIndex:
    """A full-text index of skills (SQLite FTS5, ranked by bm25). May be used from any thread."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._lock = threading.Lock()
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self._names = list(self._skills)
        self._database = _filled(self._skills.values())

    def get(self, name: str) -> Skill | None:
        return self._skills.get(name)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return the skills that match a query best, the best first, equal ones by name. Any text
        is a valid query.

        A match within a longer word (`CBPAUP` in `CBPAUP0C`) counts less than a whole word.
        """
        words = _query_words(query)
        if not words or limit < 1:
            return []
        identifiers = any("_" in word for word in words)
        parts = _PARTS_OF_IDENTIFIERS if identifiers else _PARTS
        scores: dict[int, float] = {}
        with self._lock:
            of_parts = self._found("parts", words, limit, _COLUMNS)
            of_stems = self._found(
                "stems", words, limit, _COLUMNS[:2] if identifiers and of_parts else _COLUMNS
            )
        for found, factor in ((of_stems, 1.0), (of_parts, parts)):
            best = found[0][1] if found else 0.0
            for row, score in found:
                scores[row] = scores.get(row, 0.0) + factor * (score / best if best else 1.0)
        exact = query.strip().lower()
        ranked = (
            (self._names[row] != exact, -round(score / (1.0 + parts), 6), self._names[row])
            for row, score in scores.items()
        )
        return [
            Hit(name, self._skills[name].description, -score)
            for _, score, name in nsmallest(limit, ranked)
        ]

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _found(
        self, table: str, words: list[str], limit: int, columns: tuple[str, ...]
    ) -> list[tuple[int, float]]:
        """Return row and score, the best first. Frequent words are searched only if there is no
        rarer one, and column by column."""
        counts = self._counts(table, words)
        if rare := [word for word, count in counts if count <= _FREQUENT]:
            return self._ranked(table, rare, _COLUMNS[-1])
        found: list[tuple[int, float]] = []
        for where in columns if counts else ():
            found = self._ranked(table, [word for word, _ in counts[:2]], where)
            if len(found) >= max(limit, _FREQUENT):
                break
        return found

    def _counts(self, table: str, words: list[str]) -> list[tuple[str, int]]:
        """Return the words that a table has, with the number of skills for each, the rarest
        first."""
        statement = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {_FREQUENT + 1})"
        long_enough = [word for word in words if table == "stems" or len(word) >= _SHORTEST]
        counted = [
            (word, int(self._database.execute(statement, (_quoted(word),)).fetchone()[0]))
            for word in long_enough
        ]
        return sorted((pair for pair in counted if pair[1]), key=lambda pair: pair[1])

    def _ranked(self, table: str, words: list[str], columns: str) -> list[tuple[int, float]]:
        """Return the skills that have one of the words in these columns."""
        statement = f"SELECT rowid, -bm25({table}, {_WEIGHTS}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score DESC, rowid LIMIT {_RANKED}"
        phrases = " OR ".join(map(_quoted, words))
        return [
            (int(row), float(score))
            for row, score in self._database.execute(statement, (f"{{{columns}}} : ({phrases})",))
        ]


def _quoted(word: str) -> str:
    return f'"{word}"'  # a word has no quotes, since `_WORDS` does not match them


def _filled(skills: Iterable[Skill]) -> sqlite3.Connection:
    rows = [
        (row, skill.name, skill.description, skill.content[:INDEXED])
        for row, skill in enumerate(skills)
    ]
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for table, tokenizer in (
        ("stems", "porter unicode61 remove_diacritics 2"),
        ("parts", "trigram"),
    ):
        database.execute(
            f"CREATE VIRTUAL TABLE {table} USING fts5(name, description, content, content='', tokenize='{tokenizer}')"
        )
        database.execute(f"INSERT INTO {table}({table}, rank) VALUES ('hashsize', {_HASH_SIZE})")
    database.execute("BEGIN")
    insert = "INSERT INTO {}(rowid, name, description, content) VALUES (?, ?, ?, ?)"
    database.executemany(insert.format("stems"), rows)
    # Only identifiers of the content, since ordinary words are found by their stems.
    database.executemany(
        insert.format("parts"), [(*row[:3], " ".join(_identifiers(row[3]))) for row in rows]
    )
    database.execute("COMMIT")
    return database


def _identifiers(text: str) -> dict[str, None]:
    """Return the identifiers in order, without duplicates."""
    return dict.fromkeys(name for name in _NAME.findall(text) if _NO_WORD.search(name, 1))


def _query_words(query: str) -> list[str]:
    """Return the specific words of a query; all words if none is specific."""
    words = list(dict.fromkeys(_WORDS.findall(query.replace("\0", " ").lower())))
    specific = [word for word in words if word not in _COMMON] or words
    return sorted(specific, key=len, reverse=True)[:QUERY_WORDS]
