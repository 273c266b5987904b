"""The screen of skills."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from mahtab_tui.tui.screens.skills import MAX_PREVIEW_CHARS, MarkdownPreview, SkillsScreen
from tests.skills import trust_skills, write_skill
from tests.tui.editor_app import until, wait_for_close, wait_for_screen, write
from tests.tui.scripted_session import MakeApp, drawn, sales_records, scripted

SIZE = (100, 30)
TEXT = "# Tidy\n\n1. Put **things** away.\n2. Sweep with `broom(room)`.\n\n| what | where |\n|---|---|\n| books | shelf |\n"
SIX = ["debug", "explore-data", "refactor", "repl-tools", "rlm-strategies", "write-tests"]


@pytest.fixture(autouse=True)
def skills(project: Path) -> Path:
    description = "How to tidy a room. Use when [b]nothing[/b] can be found."
    write_skill(project / "skills", "tidy", description, TEXT)
    trust_skills(project)
    return project / "skills"


def screen(pilot: Pilot[int]) -> SkillsScreen:
    assert isinstance(pilot.app.screen, SkillsScreen)
    return pilot.app.screen


def names(pilot: Pilot[int]) -> list[str]:
    return [row.name for row in screen(pilot).rows]


def status(pilot: Pilot[int], selector: str = ".listing-said") -> str:
    return str(screen(pilot).query_one(selector, Static).content)


def text(pilot: Pilot[int]) -> str:
    rows = screen(pilot).query_one(MarkdownPreview).rows
    return "\n".join(rows[index].text for index in range(len(rows)))


def loaded(pilot: Pilot[int]) -> list[str]:
    return scripted(pilot)[1].knowledge.loaded.names


async def opened(pilot: Pilot[int]) -> None:
    await drawn(pilot)
    await pilot.app.run_action("command('skills')")
    await wait_for_screen(pilot, SkillsScreen)
    await until(pilot, lambda: bool(screen(pilot).rows))
    await pilot.pause()


async def searched(pilot: Pilot[int], words: str, names_found: list[str]) -> None:
    await write(pilot, words)
    await until(pilot, lambda: names(pilot)[: len(names_found)] == names_found)
    await pilot.pause()


@asynccontextmanager
async def listing(make_app: MakeApp) -> AsyncIterator[Pilot[int]]:
    async with make_app(*sales_records()).run_test(size=SIZE) as pilot:
        await opened(pilot)
        yield pilot


@pytest.fixture
async def pilot(make_app: MakeApp) -> AsyncIterator[Pilot[int]]:
    async with listing(make_app) as pilot:
        yield pilot


def row(pilot: Pilot[int], index: int) -> str:
    return str(screen(pilot).query_one(OptionList).get_option_at_index(index).prompt)


async def test_skills_are_listed_and_searched_with_a_preview_of_the_first(
    pilot: Pilot[int],
) -> None:
    assert names(pilot) == sorted([*SIX, "tidy"])
    assert "Read the last line of the traceback" in text(pilot)
    assert status(pilot, ".listing-about").endswith("bundled with the program")
    await searched(pilot, "tidying room", ["tidy"])
    assert "Use when [b]nothing[/b] can be found." in text(pilot)
    assert "**" not in text(pilot)
    assert status(pilot, ".listing-about") == "106 characters · ./skills/tidy/SKILL.md"


async def test_enter_loads_and_unloads(pilot: Pilot[int]) -> None:
    await searched(pilot, "tidy", ["tidy"])
    await pilot.press("enter")
    await until(pilot, lambda: "is loaded" in status(pilot))
    assert loaded(pilot) == ["tidy"]
    assert names(pilot)[0] == "tidy"
    assert status(pilot, ".listing-count") == "1 loaded: 106 of 60,000 characters (about 26 tokens)"
    await pilot.press("tab", "enter")
    await until(pilot, lambda: "is no longer loaded" in status(pilot))
    assert loaded(pilot) == []


async def test_file_name_is_one_line_without_markup(make_app: MakeApp, skills: Path) -> None:
    write_skill(skills, "a\nb\x1b[31m[red]c", text="x")
    async with listing(make_app) as pilot:
        last_row = row(pilot, len(names(pilot)) - 1)
        assert last_row.startswith("✗ a b[red]c")
        assert "\n" not in last_row


async def test_skill_over_the_budget_is_reported_and_not_loaded(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_SKILLS_BUDGET", "100")
    async with listing(make_app) as pilot:
        await searched(pilot, "tidy", ["tidy"])
        await pilot.press("enter")
        await until(pilot, lambda: "has 106 characters, but only 100 of the 100" in status(pilot))
        assert loaded(pilot) == []


async def test_unusable_skill_is_listed_with_its_problem(make_app: MakeApp, skills: Path) -> None:
    write_skill(skills, "broken", text="x")
    async with listing(make_app) as pilot:
        assert names(pilot)[-1] == "broken"
        await pilot.press("up")
        await until(pilot, lambda: "does not begin with frontmatter" in text(pilot))
        await pilot.press("enter")
        problem = "This file cannot be used: see what is wrong with it."
        await until(pilot, lambda: status(pilot) == problem)


async def test_project_skill_is_withheld_until_trusted_here(
    make_app: MakeApp, skills: Path
) -> None:
    (write_skill(skills, "zebra", content="Their words.").parent / "more.md").write_text("More.")
    async with listing(make_app) as pilot:
        await searched(pilot, "zebra", ["zebra"])
        assert "held back" in row(pilot, 0)
        assert "Their words." in text(pilot)
        await pilot.press("enter")
        await wait_for_close(pilot, SkillsScreen)
        await pilot.press("y")
        await wait_for_screen(pilot, SkillsScreen)
        library = scripted(pilot)[1].knowledge.skills
        await until(pilot, lambda: library.skills().get("zebra") is not None)
        assert library.file("zebra", "more.md") == "More."


async def test_long_skill_is_previewed_from_its_start(
    make_app: MakeApp, project: Path, skills: Path
) -> None:
    write_skill(skills, "long", content="word " * MAX_PREVIEW_CHARS)
    trust_skills(project)
    async with listing(make_app) as pilot:
        await searched(pilot, "long", ["long"])
        await until(pilot, lambda: text(pilot).endswith("characters more."))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "content",
    [
        "> " * 9_000,
        "- " * 9_000,
        "[" * 19_000,
        "\x1b[2J\x1b]0;t\x07 [red]x[/red]",
        "|" * 19_000,
        "\u202e\ud7ff" * 5_000,
    ],
)
async def test_hostile_markdown_is_drawn(
    make_app: MakeApp, project: Path, skills: Path, content: str
) -> None:
    write_skill(skills, "hostile", content=content)
    trust_skills(project)
    async with listing(make_app) as pilot:
        await searched(pilot, "hostile", ["hostile"])
        assert "\x1b" not in text(pilot)


def test_skills_screen_snapshot(
    make_app: MakeApp, snap_compare: Callable[..., bool], skills: Path
) -> None:
    async def before(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await write(pilot, "tidy")
        await until(pilot, lambda: len(screen(pilot).rows) < 2)
        await pilot.press("enter")
        await until(pilot, lambda: "is loaded" in status(pilot))
        await pilot.pause()

    assert snap_compare(make_app(*sales_records()), terminal_size=(200, 50), run_before=before)
