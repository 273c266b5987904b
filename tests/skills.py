"""Skills on disk, for tests."""

from __future__ import annotations

from pathlib import Path


def write_skill(place: Path, name: str, description: str = "fine", content: str = "Good.", text: str | None = None) -> Path:
    """A ``SKILL.md`` in a folder of skills; `text` in place of a valid one."""
    path = place / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{content}\n" if text is None else text, "utf-8")
    return path
