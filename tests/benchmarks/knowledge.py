"""Figures of skills: how long it takes to make an index, and to search it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.knowledge.skill_file import Skill
from mahtab_tui.knowledge.skills_index import SkillsIndex
from tests.benchmarks.table import Row, timed

_SKILLS = 10_000
_WORDS = [
    f"{first}{last}"
    for first in ("data", "query", "batch", "screen", "index", "order", "claim", "policy")
    for last in ("", "s", "ing", "ed", "er")
]
_FILLER = (
    "use when file table model error check write read find load test column value report".split()
)


def _generate_skills() -> list[Skill]:
    """Make skills of some 1,000 characters, of common and rare words and a program's identifier."""
    chance = random.Random(0)
    rare = [f"{chance.choice(_FILLER)}{number}" for number in range(2_000)]
    skills = []
    for number in range(_SKILLS):
        content = " ".join(
            chance.choices(_FILLER, k=150)
            + chance.choices(_WORDS, k=30)
            + chance.choices(rare, k=5)
            + [f"CBP{number:05}C"]
        )
        description = f"How to {' '.join(chance.choices(_FILLER + _WORDS, k=12))}. Use when {chance.choice(rare)}."
        name = f"{chance.choice(_FILLER)}-{chance.choice(_WORDS)}-{number}"
        skills.append(Skill(name, description, Path(), content, Path(f"{number}.md")))
    return skills


def rows() -> Iterator[Row]:
    skills = _generate_skills()
    yield Row(f"index of {_SKILLS:,} skills", timed(SkillsIndex, 3, skills), "<= 3000")
    index = SkillsIndex(skills)
    for label, query in (
        ("a rare word", "CBP07777C"),
        ("a part of an identifier", "BP0777"),
        ("common words", "how do I check the values of a batch of orders"),
    ):
        yield Row(f"skill search: {label}", timed(index.search, 50, query), "<= 10")
