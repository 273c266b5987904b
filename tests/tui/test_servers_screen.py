"""The screen of MCP servers: state, tools, messages, starting again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.output import PagerScreen
from mahtab_tui.tui.screens.session_info import ServersScreen
from tests.servers import configure, plain
from tests.tui.editor_app import until, write
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]
SIZE = (120, 30)


def shown(pilot: Pilot[int], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


async def opened(pilot: Pilot[int]) -> ServersScreen:
    await drawn(pilot)
    await pilot.app.run_action("command('mcp')")
    await until(pilot, lambda: isinstance(pilot.app.screen, ServersScreen))
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, ServersScreen)
    return screen


async def test_missing_servers_explain_how_to_configure_some(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert "No MCP server is configured." in shown(pilot, ".listing-about")


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_a_server_is_started_and_its_tools_and_messages_are_shown(
    make_app: MakeApp, home: Path, size: tuple[int, int]
) -> None:
    configure(home, echo=plain(), broken=plain("exit"))
    async with make_app(*story()).run_test(size=size) as pilot:
        screen = await opened(pilot)
        assert [(row.python, row.phase) for row in screen.listing.rows] == [
            ("echo", "not started"),
            ("broken", "not started"),
        ]
        assert "Its tools are known once it has started" in shown(pilot, "#server-tools-text")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "echo runs." in shown(pilot, ".listing-said"))
        tools = shown(pilot, "#server-tools-text")
        assert "say(text: str) reads\n  Say a text." in tools
        assert "write(text: str) may change something" in tools
        assert "\x1b" not in str(screen.line(screen.listing.rows[0], 100))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, PagerScreen))
        await until(pilot, lambda: shown(pilot, "#output-title") == "Messages of echo  ·  1 lines")
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("down", "ctrl+r")
        await until(pilot, lambda: "broken could not be started." in shown(pilot, ".listing-said"))
        assert "it exited with code 1 (there is no key)." in shown(pilot, ".listing-about")


def test_servers_screen_snapshot(
    snap_compare: Callable[..., bool], make_app: MakeApp, home: Path
) -> None:
    github = {
        "command": "github-mcp-server",
        "args": ["stdio", "--toolsets", "issues,pull_requests"],
    }
    configure(home, github=github, weather={"url": "https://weather.example/mcp"})

    async def run(pilot: Pilot[int]) -> None:
        await opened(pilot)

    run_before: Callable[[Pilot[int]], Awaitable[None]] = run
    assert snap_compare(make_app(*story()), terminal_size=(80, 24), run_before=run_before)


async def test_server_waiting_for_a_login_shows_the_address(make_app: MakeApp, home: Path) -> None:
    configure(home, far={"url": "http://127.0.0.1:9/mcp"})
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        screen = await opened(pilot)
        screen.listing.rows[0].login = "http://127.0.0.1:4321/"
        await until(
            pilot,
            lambda: (
                "It waits for your login: open http://127.0.0.1:4321/ in a browser"
                in shown(pilot, ".listing-about")
            ),
        )


async def test_typing_filters_servers_and_tools(make_app: MakeApp, home: Path) -> None:
    configure(home, echo=plain(), other=plain())
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        screen = await opened(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "echo runs." in shown(pilot, ".listing-said"))
        await write(pilot, "flood")
        await until(pilot, lambda: [row.python for row in screen.listing.rows] == ["echo"])
        assert shown(pilot, "#server-tools-text").startswith("flood(**arguments) reads\n")
