"""A project's skills reach the model only after the user has trusted their texts, as instructions
do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, HeldError
from mahtab_tui.knowledge.skills import Skill
from mahtab_tui.settings import trust
from mahtab_tui.settings.sources import trust_record

_KEY = "skill"
"""The name of a text in the record of what the user trusts."""
_FILES = 50
"""Further files of a skill that are named at most."""


def skill_files(skill: Skill) -> list[str]:
    """List the other files in a skill's folder by relative path, without those with unprintable
    names."""
    if skill.folder is None:
        return []
    found: list[str] = []
    for folder, folders, names in os.walk(skill.folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        found += [
            os.path.relpath(os.path.join(folder, name), skill.folder)
            for name in sorted(names)
            if not name.startswith(".")
        ]
        if len(found) > _FILES:
            break
    return [name for name in found if name != skill.file.name and name.isprintable()][:_FILES]


def skill_texts(skill: Skill) -> dict[Path, str]:
    """Return everything that a model can read of a skill, by file: instructions, then other
    texts."""
    texts = {skill.file: instructions_text(skill)}
    for name in skill_files(skill):
        assert skill.folder is not None
        try:
            texts[skill.folder / name] = ConfinedFolder(skill.folder).read_text(name)
        except HeldError:  # the model cannot read it either
            continue
    return texts


def trust_texts(texts: Mapping[Path, str]) -> None:
    """Trust texts of skills as they are given. Raises `SettingsError`."""
    from mahtab_tui.settings.writing import allow_files

    allow_files({path: {_KEY: text} for path, text in texts.items()})


def is_trusted(record: Mapping[str, Mapping[str, Any]], skill: Skill) -> bool:
    """Return whether the user has trusted the instructions as they are now. record: from
    `read_record`."""
    return _is_trusted(record, skill.file, instructions_text(skill))


def is_trusted_file(skill: Skill, name: str, text: str) -> bool:
    """Return whether the model may read a further file of a skill with this text."""
    assert skill.folder is not None
    path = skill.folder / os.path.normpath(name)
    return not skill.of_project or _is_trusted(trust.read_record(trust_record()), path, text)


def _is_trusted(record: Mapping[str, Mapping[str, Any]], path: Path, text: str) -> bool:
    return trust.allowed_in(record, path).get(_KEY) == trust.digest(text)


def instructions_text(skill: Skill) -> str:
    """Return what a model gets of a skill without its further files."""
    return f"{skill.name}: {skill.description}\n\n{skill.content}"
