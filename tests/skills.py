"""Skills on disk, for tests."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.knowledge.skill_trust import skill_texts, trust_texts
from mahtab_tui.knowledge.skills_loader import SkillsLoader, skill_folders


def write_skill(
    directory: Path,
    name: str,
    description: str = "fine",
    content: str = "Good.",
    text: str | None = None,
) -> Path:
    """Write a ``SKILL.md`` into a folder of skills. text: all of it."""
    path = directory / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    valid = f"---\nname: {name}\ndescription: {description}\n---\n{content}\n"
    path.write_text(valid if text is None else text, "utf-8")
    return path


def trust_skills(project: Path, *extra: Path, of_project: bool = False) -> None:
    """Trust all skills of a project as they are now."""
    loader = SkillsLoader(*skill_folders(project, extra, of_project=of_project))
    loader.load_all()
    for skill in loader.untrusted:
        trust_texts(skill_texts(skill))
