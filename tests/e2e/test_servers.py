"""An MCP server, from its line in the configuration to a value in the namespace, in a real
terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.servers import configure, plain

IDLE = r"● kernel .*idle"


@pytest.mark.parametrize(("columns", "lines"), [(120, 40), (80, 24)])
def test_server_is_inspected_started_and_used(
    start: Start, home: Path, columns: int, lines: int
) -> None:
    configure(home, echo=plain(), broken=plain("exit"))
    screen = start("--model", "demo", columns=columns, lines=lines)
    screen.wait(IDLE)
    screen.enter("`/mcp")
    screen.wait("MCP servers")
    screen.wait(r"○ echo +not started")
    screen.send("\x12")  # Ctrl+R
    screen.wait("echo runs")
    screen.wait(r"● echo +running")
    screen.press("escape")
    screen.wait_gone("MCP servers")
    screen.type("`")
    screen.enter("print(echo.say(text='it ' + 'works'))")
    screen.wait("it works")
    assert screen.leave() == 0
