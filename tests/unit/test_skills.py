"""Skills: where they are found, and what is said of broken ones."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.knowledge.skills import load_skills, skill_folders


def write_skill(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    return path


def test_the_bundled_skills_load(project: Path) -> None:
    skills, problems = load_skills(skill_folders(project))
    assert {"debug", "explore-data"} <= skills.keys()
    assert not problems


def test_a_later_folder_wins_by_name(project: Path) -> None:
    write_skill(project / ".mahtab" / "skills", "debug", "---\nname: debug\ndescription: ours\n---\nOurs.\n")
    skills, _ = load_skills(skill_folders(project))
    assert skills["debug"].content == "Ours."


def test_a_broken_skill_is_said_and_the_others_load(project: Path) -> None:
    folder = project / ".mahtab" / "skills"
    write_skill(folder, "good", "---\nname: good\ndescription: fine\n---\nGood.\n")
    broken = {
        "no-frontmatter": "Words only.",
        "other-name": "---\nname: another\ndescription: x\n---\n",
        "no-description": "---\nname: no-description\n---\n",
        "no-yaml": "---\nname: [\n---\n",
    }
    for name, text in broken.items():
        write_skill(folder, name, text)
    skills, problems = load_skills(skill_folders(project))
    assert "good" in skills
    assert len(problems) == len(broken)
    assert all(any(name in problem for problem in problems) for name in broken)
