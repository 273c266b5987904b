"""Finding a skill by words: two full-text tables in memory, of word stems and of parts of identifiers."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable
from heapq import nsmallest
from typing import NamedTuple

from mahtab_tui.knowledge.skills import Skill

INDEXED = 20_000
"""Characters of a skill's instructions that are searched."""
QUERY_WORDS = 12
"""Words of a query that are looked for; the longest, which tell the most apart."""

_HASH_SIZE = 32 * 1024 * 1024
"""Bytes that are gathered before they are sorted into the table; with little of it, most of the time goes into merging."""
_WEIGHTS = "10.0, 5.0, 1.0"
"""Of a hit in the name, the description, the content."""
_COLUMNS = ("name", "name description", "name description content")
"""Where is looked, from few hits that tell much to many."""
_WORDS = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NO_WORD = re.compile(r"[A-Z0-9_]")
"""What an identifier has behind its first letter, and an ordinary word has not."""
_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its me my not of on or our so than that the their them then there these "
    "this to use was we what when where which who why will with you your".split()
)
_PARTS = 0.4
"""What a hit in the table of parts counts beside one in the table of stems."""
_PARTS_OF_IDENTIFIERS = 2.0
"""The same for a query with an identifier like `read_file`, which among stems is no more than two words in a row."""
_FREQUENT = 500
"""Skills from which on a word that they all have tells little."""
_LOOKED_AT = 500
"""Skills that count at the most, the best ones of each table."""
_SHORTEST = 3
"""Characters of which the trigram table needs that many in a row."""


class Hit(NamedTuple):
    """A skill that was found."""

    name: str
    description: str
    score: float
    """The greater the better; between 0 and 1, comparable within one search only."""


class SkillsIndex:
    """The skills by what stands in them (SQLite FTS5, ranked by bm25). May be used from any thread."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._lock = threading.Lock()
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self._names = list(self._skills)
        self._database = _filled(self._skills.values())

    def get(self, name: str) -> Skill | None:
        """A skill by its name."""
        return self._skills.get(name)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The skills that answer the words of a query best, the best first; equals by name. Any text is a query.

        Where a word is found as a part of longer ones only (`CBPAUP` in `CBPAUP0C`), that counts less than a word.
        """
        words = _query_words(query)
        if not words or limit < 1:
            return []
        identifiers = any("_" in word for word in words)
        parts = _PARTS_OF_IDENTIFIERS if identifiers else _PARTS
        scores: dict[int, float] = {}
        with self._lock:
            of_parts = self._found("parts", words, limit, _COLUMNS)
            of_stems = self._found("stems", words, limit, _COLUMNS[:2] if identifiers and of_parts else _COLUMNS)
        for found, factor in ((of_stems, 1.0), (of_parts, parts)):
            best = found[0][1] if found else 0.0
            for row, score in found:
                scores[row] = scores.get(row, 0.0) + factor * (score / best if best else 1.0)
        exact = query.strip().lower()
        ranked = ((self._names[row] != exact, -round(score / (1.0 + parts), 6), self._names[row]) for row, score in scores.items())
        return [Hit(name, self._skills[name].description, -score) for _, score, name in nsmallest(limit, ranked)]

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._database.close()

    def _found(self, table: str, words: list[str], limit: int, columns: tuple[str, ...]) -> list[tuple[int, float]]:
        """Row and score, the best first. The frequent ones of the words are looked for only where none is rarer, and in these columns one after the other."""
        there = self._there(table, words)
        if rare := [word for word, count in there if count <= _FREQUENT]:
            return self._ranked(table, rare, _COLUMNS[-1])
        found: list[tuple[int, float]] = []
        for where in columns if there else ():
            found = self._ranked(table, [word for word, _ in there[:2]], where)
            if len(found) >= max(limit, _FREQUENT):
                break
        return found

    def _there(self, table: str, words: list[str]) -> list[tuple[str, int]]:
        """Those of the words that are in a table, and how many skills have each, the rarest first."""
        statement = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {_FREQUENT + 1})"
        long_enough = [word for word in words if table == "stems" or len(word) >= _SHORTEST]
        counted = [(word, int(self._database.execute(statement, (_quoted(word),)).fetchone()[0])) for word in long_enough]
        return sorted((pair for pair in counted if pair[1]), key=lambda pair: pair[1])

    def _ranked(self, table: str, words: list[str], columns: str) -> list[tuple[int, float]]:
        """The skills that have one of the words in these columns."""
        statement = (
            f"SELECT rowid, -bm25({table}, {_WEIGHTS}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score DESC, rowid LIMIT {_LOOKED_AT}"
        )
        phrases = " OR ".join(map(_quoted, words))
        return [(int(row), float(score)) for row, score in self._database.execute(statement, (f"{{{columns}}} : ({phrases})",))]


def _quoted(word: str) -> str:
    return f'"{word}"'  # it has no quotes: `_WORDS` leaves them out


def _filled(skills: Iterable[Skill]) -> sqlite3.Connection:
    rows = [(row, skill.name, skill.description, skill.content[:INDEXED]) for row, skill in enumerate(skills)]
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for table, tokenizer in (("stems", "porter unicode61 remove_diacritics 2"), ("parts", "trigram")):
        database.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(name, description, content, content='', tokenize='{tokenizer}')")
        database.execute(f"INSERT INTO {table}({table}, rank) VALUES ('hashsize', {_HASH_SIZE})")
    database.execute("BEGIN")
    insert = "INSERT INTO {}(rowid, name, description, content) VALUES (?, ?, ?, ?)"
    database.executemany(insert.format("stems"), rows)
    # Of the content its identifiers only: parts of ordinary words are found by their stems.
    database.executemany(insert.format("parts"), [(*row[:3], " ".join(_identifiers(row[3]))) for row in rows])
    database.execute("COMMIT")
    return database


def _identifiers(text: str) -> dict[str, None]:
    """Each once, in the order of the text."""
    return dict.fromkeys(name for name in _NAME.findall(text) if _NO_WORD.search(name, 1))


def _query_words(query: str) -> list[str]:
    """What is looked for: the words that tell skills apart; where there are none such, all words."""
    words = list(dict.fromkeys(_WORDS.findall(query.replace("\0", " ").lower())))
    telling = [word for word in words if word not in _COMMON] or words
    return sorted(telling, key=len, reverse=True)[:QUERY_WORDS]
