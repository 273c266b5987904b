"""The skills' figures: how long an index takes to make and to answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from mahtab_tui.knowledge.library import SkillsIndex
from mahtab_tui.knowledge.skills import Skill
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


def generated_skills(count: int, words: int = 150) -> list[Skill]:
    """Skills of common and of rare words, some 1,000 characters each, with a program's identifiers
    among them."""
    chance = random.Random(0)
    rare = [f"{chance.choice(_FILLER)}{number}" for number in range(2_000)]
    skills = []
    for number in range(count):
        content = " ".join(
            chance.choices(_FILLER, k=words)
            + chance.choices(_WORDS, k=words // 5)
            + chance.choices(rare, k=5)
            + [f"CBP{number:05}C"]
        )
        description = f"How to {' '.join(chance.choices(_FILLER + _WORDS, k=12))}. Use when {chance.choice(rare)}."
        name = f"{chance.choice(_FILLER)}-{chance.choice(_WORDS)}-{number}"
        skills.append(Skill(name, description, Path(), content, Path(f"{number}.md")))
    return skills


def rows() -> Iterator[Row]:
    """Making an index of many skills, and asking it."""
    skills = generated_skills(_SKILLS)
    took = timed(lambda: SkillsIndex(skills), 3)
    yield Row(f"index of {_SKILLS:,} skills", took, "<= 3000")
    index = SkillsIndex(skills)
    common = "how do I check the values of a batch of orders"
    for what, query in (
        ("a rare word", "CBP07777C"),
        ("a part of an identifier", "BP0777"),
        ("common words", common),
    ):
        took = timed(lambda query=query: index.search(query), 50)  # type: ignore[misc]
        yield Row(f"skill search: {what}", took, "<= 10")
