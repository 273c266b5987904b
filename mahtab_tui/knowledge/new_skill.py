"""Makes a new skill from a template."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mahtab_tui.knowledge.skills import DESCRIPTION_LENGTH, SKILL_FILE, SkillError, name_problem

_DESCRIPTION = "What this skill does. Use when the words of the question say so."

_TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

1. **First step.** What to look at, and with which call.
2. **Second step.** What to do about it.
3. **Check.** How to see that it is right.
"""


def create_skill(place: Path, name: str, description: str | None = None) -> Path:
    """Make ``NAME/SKILL.md`` in a folder of skills and return its path. Raises `SkillError`."""
    if problem := name_problem(name):
        raise SkillError(f"The name {name!r} cannot be used: {problem}.")
    words = " ".join((description or _DESCRIPTION).split())
    if any("\ud800" <= character <= "\udfff" for character in words):
        raise SkillError("The description is not valid text.")
    if len(words) > DESCRIPTION_LENGTH:
        raise SkillError(f"The description has {len(words):,} characters; at most {DESCRIPTION_LENGTH:,} are allowed.")
    path = place / name / SKILL_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE.format(name=name, description=_as_yaml(words), title=name.replace("-", " ").capitalize()))
    except FileExistsError:
        raise SkillError(f"{path} already exists.") from None
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # it may be incomplete, on a full disk
        raise SkillError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def _as_yaml(words: str) -> str:
    """Quote a text, because a colon or a # has a meaning in YAML."""
    import yaml

    quoted: str = yaml.dump(words, default_style='"', allow_unicode=True, width=10_000)
    return quoted.strip()
