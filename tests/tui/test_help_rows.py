"""The help: its keys in a room of any width, its topics, and what is found in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from mahtab_tui.manual import TOPICS, filter_page, page
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.commands.registry import COMMANDS
from mahtab_tui.tui.screens.help import HelpScreen, help_rows
from tests.tui.editor_app import until


@pytest.mark.parametrize("width", [50, 74, 120])
def test_no_row_is_wider_than_its_space(width: int) -> None:
    rows = HelpScreen(help_rows(COMMANDS, {}))._keys("", width).plain.split("\n")
    assert max(map(len, rows)) <= width


def test_help_starts_with_the_keys_everybody_needs_first() -> None:
    assert [keys for _, keys, _ in help_rows(COMMANDS, {})][:3] == ["enter", "tab", "`"]
    groups = [group for group, _, _ in help_rows(COMMANDS, {})]
    assert groups == sorted(groups, key=groups.index), "each group stands once"


def seen(pilot: Pilot[int]) -> str:
    """Return the text of the help, on one line."""
    return (
        " ".join(str(pilot.app.screen.query_one("#help-rows", Static).content).split())
        if isinstance(pilot.app.screen, HelpScreen)
        else ""
    )


def topics(pilot: Pilot[int]) -> list[str]:
    return [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]


async def test_arrows_walk_the_topics_and_each_shows_its_page(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("f1")
        await until(pilot, lambda: "Run complete code" in seen(pilot))
        assert topics(pilot) == TOPICS
        await pilot.press("up")
        await until(pilot, lambda: page("start").title in seen(pilot))
        await pilot.press("up")
        await until(pilot, lambda: page("trouble").title in seen(pilot))


async def test_typing_filters_topics_and_their_lines(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("f1")
        await until(pilot, lambda: bool(seen(pilot)))
        await pilot.press(*"ollama")
        await until(pilot, lambda: set(topics(pilot)) == {"start", "models", "configuration"})
        assert "Ollama" in seen(pilot)
        first = page(topics(pilot)[0]).summary
        assert first not in seen(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: first in seen(pilot))
        assert topics(pilot) == TOPICS
        app.screen.query_one(Input).value = "no such word anywhere"
        await until(pilot, lambda: seen(pilot) == "Nothing matches.")


async def test_slash_help_opens_a_topic_and_suggests_similar_ones(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("f2", *"/help agents", "enter")
        await until(pilot, lambda: page("agents").title in seen(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press(*"/help agnets", "enter")
        await until(
            pilot,
            lambda: any("Did you mean agents" in notice.message for notice in app._notifications),
        )
        assert app.editor.text == "/help agnets"


def test_matches_include_their_heading_and_table_header() -> None:
    text = "# One\n\nwords\n\n## Two\n\n| a | b |\n| --- | --- |\n| x | 1 |\n| y | 2 |\n\n- x\n- y\n\n```sh\nx\n\ny\n```"
    assert (
        filter_page(text, "Y")
        == "## Two\n\n| a | b |\n| --- | --- |\n| y | 2 |\n\n- y\n\n```sh\nx\n\ny\n```"
    )
    assert filter_page(text, "two").startswith("## Two\n\n| a | b |\n| --- | --- |\n| x | 1 |")
    assert filter_page(text, "nothing") == ""


@pytest.mark.parametrize("topic", TOPICS)
def test_page_starts_with_a_title_and_a_sentence(topic: str) -> None:
    shown = page(topic)
    assert shown.title
    assert shown.summary.endswith(".")
    assert "\n" not in shown.summary
    assert "<!--" not in shown.text
