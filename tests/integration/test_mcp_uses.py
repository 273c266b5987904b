"""Tools of MCP servers in searches, in other kernels, in kept variables; and what doctor says of
servers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.cli.doctor import report
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.kernels import interpreters
from tests.integration.saving import SavedSession
from tests.integration.sessions import Opened, Watched
from tests.integration.test_mcp_approvals import by_the_model
from tests.integration.test_mcp_hostile import state
from tests.integration.test_mcp_servers import Open, open_with
from tests.integration.test_session_search import LOG
from tests.servers import configure, plain
from tests.waiting import wait_for

__all__ = ["open_with"]


def test_a_search_calls_a_tool(open_session: Callable[..., Opened], home: Path) -> None:
    configure(home, echo=plain())
    it = open_session(
        {"text": "```python\nFINAL(say(text='from the search') + str(add(2, b=3)['result']))\n```"}
    )
    it.run(LOG)
    assert it.run("rlm('Say it', log, tools=[echo.say, echo.add])").text == "from the search5\n"


def test_interrupted_search_ends_the_call_of_its_tool(
    open_session: Callable[..., Opened], home: Path
) -> None:
    configure(home, echo=plain())
    it = open_session({"text": "```python\nsleep()\n```"})
    it.run(LOG)
    it.session.submit("python", "rlm('Sleep', log, tools=[echo.sleep])")
    wait_for(lambda: it.session.knowledge.servers is not None and "sleep" in state(it).used)
    assert it.session.stop() == "cell"
    it.store.wait(tags.USER_REPL_OUT, cell=2, status="interrupted")
    assert it.value("echo.say('goes on')") == "goes on"


def test_embedded_kernel_has_the_servers_until_closed(home: Path, project: Path) -> None:
    import builtins

    configure(home, echo=plain())
    namespace: dict[str, Any] = {}
    session = Session(
        load_settings(model="demo"),
        InProcessKernel(namespace),
        HeadlessFrontend(),
        store=(store := Watched()),
    )
    session.start()
    assert Opened(session, store).run("said = echo.say('x')").status == "ok"
    session.close()
    assert namespace["said"] == "x"
    assert not hasattr(builtins, "echo")


@pytest.mark.parametrize("python", interpreters())
def test_every_python_version_has_the_servers(home: Path, project: Path, python: str) -> None:
    from mahtab_tui.kernel.process import ProcessKernel

    configure(home, echo=plain())
    session = Session(
        load_settings(model="demo"),
        ProcessKernel(python),
        HeadlessFrontend(),
        store=(store := Watched()),
    )
    session.start()
    it = Opened(session, store)
    session.ready.result(60)
    assert it.value("echo.add(1, b=2.5), dir(echo)[:2]") == "({'result': 3.5}, ['add', 'change'])"
    session.close()


def test_call_with_unreadable_arguments_is_not_asked_about(open_with: Open) -> None:
    it = open_with(echo=plain())
    done = by_the_model(it, "echo.write('x' * 1_000_000)").result(60)
    assert "too long for the user to read" in done.output
    assert not [record for record in it.store.records if record.tag == tags.APPROVAL]


def test_argument_names_cannot_forge_the_question(open_with: Open) -> None:
    name = "text='safe'\n)\n# "
    odd = [{"name": "go", "inputSchema": {"type": "object", "additionalProperties": True}}]
    it = open_with(odd=plain("", odd))
    by_the_model(it, f"odd.go(**{{{name!r}: 1, 'text': 'x'}})")
    assert it.store.wait(tags.APPROVAL).text == f"odd.go(\n    {name!r}=1,\n    text='x',\n)"


def test_doctor_lists_the_servers_and_starts_none(home: Path, project: Path) -> None:
    configure(
        home,
        echo={"command": sys.executable, "args": ["-c", "open('started', 'w')"]},
        gone={"command": "there-is-none"},
        a={"url": "${NO_URL}"},
    )
    lines = "\n".join(report())
    assert f"✓ mcp         echo: {sys.executable} -c open('started', 'w')" in lines
    assert (
        "! mcp         gone: there-is-none\n              There is no program there-is-none."
        in lines
    )
    assert "The variable NO_URL is not set in the environment." in lines
    assert not (project / "started").exists()


def test_saved_tool_results_and_tools_are_restored_with_a_session(
    open_session: Callable[..., Opened], home: Path
) -> None:
    configure(home, echo=plain())
    saved_namespace = SavedSession(home)
    first = open_session(keep=saved_namespace.location)
    first.run("words, picture = echo.parts()[1:3]; tool = echo.say; server = echo; number = 1")
    first.session.close()
    it = open_session(keep=saved_namespace.location, past=first.store.records)
    restored = it.store.wait(tags.RESTORE)
    assert restored.text == "5 variables restored."
    assert (
        it.value("words, picture, bytes(picture)[:4], number")
        == "('words', <picture image/png, 70 bytes>, b'\\x89PNG', 1)"
    )
    assert it.value("tool('x') + server.say('y'), server is echo") == "('xy', True)"


def test_the_first_dir_of_a_server_lists_its_tools(open_with: Open) -> None:
    it = open_with(echo=plain(), gone={"command": "there-is-none"})
    assert it.value("'say' in dir(echo), dir(gone)") == "(True, [])"


def test_help_describes_a_server_and_lists_its_tools(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert "It is started when a tool is first used." in it.run("help(echo)").text
    it.run("echo.say('x')")
    assert "Tools (help(echo.tool) shows more):\n" in (text := it.run("help(echo)").text)
    assert "    say: Say a text.\n" in text
    assert "load_in_background" not in text
    assert "write(text: 'str')" in it.run("help(echo.write)").text
    explained = it.session.kernel.explain("echo", 4)
    assert explained is not None
    assert "say: Say a text." in explained.doc
