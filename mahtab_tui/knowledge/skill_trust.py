"""Which texts of a project's skills the user trusts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.knowledge.skill_file import Skill, instructions_text, skill_files
from mahtab_tui.settings import trust

TRUST_KEY = "skill"
"""Key in the record of trust."""


def skill_texts(skill: Skill) -> dict[Path, str]:
    """Return what must be trusted for a skill: its instructions and its other files, by path."""
    texts = {skill.file: instructions_text(skill)}
    for name in skill_files(skill):
        assert skill.folder is not None
        try:
            texts[skill.folder / name] = ConfinedFolder(skill.folder).read_text(name)
        except ConfinedFolderError:  # the model cannot read it either
            continue
    return texts


def trust_texts(texts: Mapping[Path, str]) -> None:
    """Trust the texts of skills as they are now. Raises `SettingsError`."""
    from mahtab_tui.settings.values import trust_values

    trust_values({path: {TRUST_KEY: text} for path, text in texts.items()})


def is_trusted(record: Mapping[str, Mapping[str, Any]], path: Path, text: str) -> bool:
    """Whether a file was trusted with this text.

    Args:
        record: From `read_trust_record`.
    """
    return trust.trusted_digests(record, path).get(TRUST_KEY) == trust.value_digest(text)


def is_trusted_file(skill: Skill, name: str, text: str) -> bool:
    """Whether a model may read a file of a skill."""
    if not skill.of_project:
        return True
    assert skill.folder is not None
    path = skill.folder / os.path.normpath(name)
    return is_trusted(trust.read_trust_record(), path, text)
