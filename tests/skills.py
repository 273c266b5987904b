"""Skills on disk, for tests."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.knowledge.skills import SkillsLoader, skill_folders, skill_texts, trust_texts


def write_skill(
    directory: Path,
    name: str,
    description: str = "fine",
    content: str = "Good.",
    text: str | None = None,
) -> Path:
    """A ``SKILL.md`` in a folder of skills; `text` in place of a valid one."""
    path = directory / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"---\nname: {name}\ndescription: {description}\n---\n{content}\n"
        if text is None
        else text,
        "utf-8",
    )
    return path


def trust_skills(project: Path, *extra: Path, of_project: bool = False) -> None:
    """Trust all skills of a project as they are now, as the user may."""
    loader = SkillsLoader(*skill_folders(project, extra, of_project=of_project))
    loader.load_all()
    for skill in loader.untrusted:
        trust_texts(skill_texts(skill))
