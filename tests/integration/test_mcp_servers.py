"""Cells call the tools of MCP servers: real servers, real kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.sessions import Opened, Watched
from tests.servers import configure, friendly, plain
from tests.waiting import wait_for

Open = Callable[..., Opened]


@pytest.fixture
def open_with(home: Path, project: Path) -> Iterator[Open]:
    """Opens a session with these servers in the user's configuration."""
    opened: list[Opened] = []

    def make(**servers: dict[str, Any]) -> Opened:
        configure(home, **servers)
        session = Session(
            load_settings(model="demo"),
            ProcessKernel(),
            HeadlessFrontend(),
            store=(store := Watched()),
        )
        session.start()
        session.ready.result(60)
        opened.append(Opened(session, store))
        return opened[-1]

    yield make
    for each in opened:
        each.session.close()


def test_cell_calls_a_tool_and_stores_its_result(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert it.run('said = echo.say(text="hi")', "said + '!'").text == "'hi!'\n"


def test_server_starts_at_first_use_and_is_not_a_variable(open_with: Open) -> None:
    it = open_with(echo=plain("exit"))
    assert "echo" in it.run("echo").text
    assert it.session.kernel.variables() == []
    assert (
        "could not be started: it exited with code 1 (there is no key)" in it.run("echo.say").text
    )


def test_tool_results_are_converted_to_values(open_with: Open) -> None:
    it = open_with(echo=plain())
    it.run("first, second, third, fourth = echo.parts()")
    assert it.value("first, second, third, bytes(third)[:4], third.mime, fourth") == (
        "({'n': 1}, 'words', <picture image/png, 70 bytes>, b'\\x89PNG', 'image/png', b'\\x00\\x01\\x02')"
    )
    assert [record.attrs["mime"] for record in it.store.records if record.tag == tags.DISPLAY] == [
        "image/png"
    ]


def test_arguments_are_checked_before_they_are_sent(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert (
        "ToolFailed: echo.add was not called. The argument a is wrong: 'x' is not of type 'number'."
        in it.run("echo.add('x')").text
    )
    assert "An argument has a object in it" in it.run("echo.add(object())").text
    assert it.run("echo.add(2, from_='here')").text == "{'result': 3}\n"


DEFAULTS = {"limit": 20_000, "ratio": 0.25, "order": "newest first", "all": True}


def test_only_given_arguments_are_sent(open_with: Open) -> None:
    properties = {name: {"default": default} for name, default in DEFAULTS.items()}
    echo = {
        "name": "show",
        "inputSchema": {"type": "object", "properties": properties},
        "annotations": {"readOnlyHint": True},
    }
    it = open_with(echo=plain("show", [echo]))
    assert it.value("echo.show()") == "{}"
    assert it.value("echo.show(all=True, ratio=0.25)") == "{'ratio': 0.25, 'all': True}"
    explained = it.session.kernel.explain("echo.show(", 10)
    assert explained is not None
    assert "order: object = 'newest first'," in explained.signature


def test_tool_error_is_an_exception_with_its_text(open_with: Open) -> None:
    it = open_with(echo=plain())
    it.run("try:\n    echo.fail()\nexcept ToolFailed as error:\n    text = str(error)")
    assert it.value("text") == repr("It \x1b[31mfailed\x1b[0m [bold]on purpose[/]")


def test_server_built_with_the_sdk_works(open_with: Open) -> None:
    it = open_with(
        **{"my-friend": {**friendly(), "env": {"PYTHONPATH": str(Path(__file__).parents[2])}}}
    )
    assert it.value("my_friend.add(1), my_friend.cities('Norway')[0]['country']") == "(3, 'Norway')"


def test_servers_stop_with_the_session(open_with: Open) -> None:
    from tests.waiting import alive, descendants

    it = open_with(echo=plain("deaf"))
    it.run("echo.say('x')")
    import os

    server = next(
        pid
        for pid in descendants(os.getpid())
        if b"plain.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    it.session.close()
    wait_for(lambda: not alive(server))
