"""Tools of MCP servers in cells and searches, and the approval of calls."""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.records import Approval, Decision
from mahtab_tui.cli.doctor import report
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostCall
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.servers.state import ServerState
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.settings.approval_rules import parse_rules
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import start_thread
from tests import tags
from tests.integration.kernels import interpreters
from tests.integration.saving import SavedSession
from tests.integration.sessions import Opened, OpenSession, Watched
from tests.integration.test_session_search import LOG
from tests.servers import configure, friendly, plain
from tests.waiting import alive, descendants, wait_for

DEFAULTS = {"limit": 20_000, "ratio": 0.25, "order": "newest first", "all": True}

WHY = "demo calls a tool of the MCP server echo that may change something"
WRITE = "echo.write('a\\x1b[31m\\u202eb', )"

TASK = "import asyncio; go = asyncio.Event()\nasync def later(): await go.wait(); return echo.write('x')\nt = asyncio.create_task(later()); await asyncio.sleep(0); ok = True"


def start(kernel: Kernel, *, no_trace: bool = False) -> Opened:
    store = Watched()
    settings = load_settings(model="demo")
    session = Session(settings, kernel, HeadlessFrontend(), store=store, no_trace=no_trace)
    session.start()
    session.ready.result(60)
    return Opened(session, store)


@pytest.fixture
def open_with(home: Path, project: Path) -> Iterator[OpenSession]:
    opened: list[Opened] = []

    def make(**servers: dict[str, Any]) -> Opened:
        configure(home, **servers)
        opened.append(start(ProcessKernel()))
        return opened[-1]

    yield make
    for opened_session in opened:
        opened_session.session.close()


@pytest.fixture
def it(open_with: OpenSession) -> Opened:
    return open_with(echo=plain())


def was_asked(it: Opened) -> bool:
    return any(record.tag == tags.APPROVAL for record in it.store.records)


def state(it: Opened) -> ServerState:
    servers = it.session.knowledge.servers
    assert servers is not None
    return servers.states["echo"]


def test_server_starts_at_first_use_and_is_not_a_variable(open_with: OpenSession) -> None:
    it = open_with(echo=plain("exit"))
    assert "echo" in it.run("echo").text
    assert it.session.kernel.variables() == []
    failure = it.run("echo.say").text
    assert "could not be started: it exited with code 1 (there is no key)" in failure


def test_tool_results_are_converted_to_values(it: Opened) -> None:
    it.run("first, second, third, fourth = echo.parts()")
    assert it.value("first, second, third") == "({'n': 1}, 'words', <picture image/png, 70 bytes>)"
    assert it.value("bytes(third)[:4], third.mime, fourth") == (
        "(b'\\x89PNG', 'image/png', b'\\x00\\x01\\x02')"
    )
    display_types = [
        record.attrs["mime"] for record in it.store.records if record.tag == tags.DISPLAY
    ]
    assert display_types == ["image/png"]


def test_arguments_are_checked_before_they_are_sent(it: Opened) -> None:
    sentence = "The argument a is wrong: 'x' is not of type 'number'."
    assert f"ToolFailed: echo.add was not called. {sentence}" in it.run("echo.add('x')").text
    assert "An argument has a object in it" in it.run("echo.add(object())").text
    assert it.run("echo.add(2, from_='here')").text == "{'result': 3}\n"


def test_only_given_arguments_are_sent(open_with: OpenSession) -> None:
    properties = {name: {"default": default} for name, default in DEFAULTS.items()}
    schema = {"type": "object", "properties": properties}
    show = {"name": "show", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
    it = open_with(echo=plain("show", [show]))
    assert it.value("echo.show()") == "{}"
    assert it.value("echo.show(all=True, ratio=0.25)") == "{'ratio': 0.25, 'all': True}"
    explained = it.session.kernel.explain("echo.show(", 10)
    assert explained is not None
    assert "order: object = 'newest first'," in explained.signature


def test_tool_error_is_an_exception_with_its_text(it: Opened) -> None:
    it.run("try:\n    echo.fail()\nexcept ToolFailed as error:\n    text = str(error)")
    assert it.value("text") == repr("It \x1b[31mfailed\x1b[0m [bold]on purpose[/]")


def test_server_built_with_the_sdk_works(open_with: OpenSession) -> None:
    it = open_with(**{"my-friend": friendly()})
    assert it.value("my_friend.add(1), my_friend.cities('Norway')[0]['country']") == "(3, 'Norway')"


def test_servers_stop_with_the_session(open_with: OpenSession) -> None:
    it = open_with(echo=plain("deaf"))
    it.run("echo.say('x')")
    server = next(
        pid
        for pid in descendants(os.getpid())
        if b"plain.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    it.session.close()
    wait_for(lambda: not alive(server))


def by_the_model(it: Opened, code: str, **attrs: Any) -> Future[CellResult]:
    done: Future[CellResult] = Future()
    threading.Thread(
        target=lambda: done.set_result(
            it.session.cells.run(code, origin="assistant", party="demo", **attrs)
        ),
        daemon=True,
    ).start()
    return done


def asked(it: Opened) -> Approval:
    record = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(record, Approval)
    return record


def test_user_is_not_asked_about_their_own_cells(it: Opened) -> None:
    assert it.value("echo.write(text='x')") == "x"
    code = "import threading; r = []; t = threading.Thread(target=lambda: r.append(echo.write('y'))); t.start(); t.join(); r"
    assert it.value(code) == "['y']"
    assert not was_asked(it)


def test_read_only_tool_runs_with_the_models_cell(it: Opened) -> None:
    assert by_the_model(it, "echo.say('x')").result(60).output == "x\n"
    assert not was_asked(it)


@pytest.mark.parametrize("guest", [None, 2])
def test_user_is_asked_about_other_tools_with_every_character_visible(
    it: Opened, guest: int | None
) -> None:
    running = by_the_model(it, WRITE, **({} if guest is None else {"guest": guest}))
    approval = asked(it)
    assert approval.text == "echo.write(\n    text='a\\x1b[31m\\u202eb',\n)"
    assert (approval.is_code, approval.why) == (False, WHY)
    assert it.session.approvals.answer(approval.request, Decision("run"))
    assert running.result(60).status == "ok"
    assert it.store.wait(tags.APPROVAL, state="run").text == approval.text


def test_refusal_is_an_error_of_the_cell_with_the_reason(it: Opened) -> None:
    code = "try:\n    echo.write('x')\nexcept ToolFailed as error:\n    print(error)"
    running = by_the_model(it, code)
    it.session.approvals.answer(asked(it).request, Decision("skip", reason="not now"))
    assert running.result(60).output == "The user did not allow the call of echo.write: not now\n"


def test_auto_mode_asks_nobody(it: Opened) -> None:
    it.session.info.set_approval("auto")
    assert by_the_model(it, "echo.write('x')").result(60).output == "x\n"


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_rules_take_precedence_over_the_approval_mode(
    it: Opened, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    allow = 'allow: echo.write(*, text="fine*")'
    deny = 'deny: echo.write(*, text="never")'
    rules = parse_rules((allow, deny, 'ask: *.write(*, text="perhaps")'))
    monkeypatch.setattr(SessionInfo, "rules", property(lambda info: rules))
    it.session.info.set_approval(mode)  # type: ignore[arg-type]
    assert by_the_model(it, "echo.write('fine by me')").result(60).output == "fine by me\n"
    denied = by_the_model(it, "echo.write('never')").result(60).output
    assert f"echo.write was not called: the rule {deny} forbids it." in denied
    assert not was_asked(it)
    assert it.value("echo.write('never')") == "never"
    running = by_the_model(it, "echo.write('perhaps')")
    approval = asked(it)
    assert 'the rule ask: *.write(*, text="perhaps") asks' in (approval.why or "")
    it.session.approvals.answer(approval.request, Decision("run"))
    assert running.result(60).output == "perhaps\n"


def test_cell_in_a_locked_fork_cannot_call_tools(it: Opened) -> None:
    it.session.info.set_approval("auto")
    result = by_the_model(it, "echo.write('x')", lock="keep").result(60)
    assert result.needs == "wanted to call mcp_tools()"


def test_wrong_arguments_fail_without_asking(it: Opened) -> None:
    assert "The argument text is wrong" in by_the_model(it, "echo.write(3)").result(60).output


def test_an_interrupt_withdraws_the_question(it: Opened) -> None:
    running = by_the_model(it, "echo.write('x')")
    asked(it)
    it.session.kernel.interrupt()
    assert running.result(60).status == "interrupted"
    it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()


@pytest.mark.parametrize("later", ["go.set(); t.join()", "threading.Timer(0.2, go.set).start()"])
def test_models_thread_is_asked_about_after_its_cell(it: Opened, later: str) -> None:
    code = "import threading; go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), echo.write('x')), daemon=True); t.start()"
    by_the_model(it, code).result(60)
    it.session.submit("python", later)
    approval = asked(it)
    assert approval.why == WHY
    it.session.approvals.answer(approval.request, Decision("skip"))


def test_models_task_is_asked_about_while_a_user_cell_runs(it: Opened) -> None:
    by_the_model(it, TASK).result(60)
    it.session.submit("python", "go.set(); await t")
    it.session.approvals.answer(asked(it).request, Decision("run"))
    assert it.store.wait(tags.USER_REPL_OUT).text == "x\n"


def test_user_threads_and_tasks_are_not_asked_about_after_their_cell(it: Opened) -> None:
    it.run(
        "import threading; r = []; go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), r.append(echo.write('x')))); t.start()"
    )
    by_the_model(it, "1").result(60)
    it.run("threading.Timer(0.1, go.set).start()")
    wait_for(lambda: it.value("r") == "['x']")
    it.run(TASK)
    assert it.run("go.set(); await t").text == "x\n"
    assert not was_asked(it)


def test_dying_kernel_withdraws_the_question(it: Opened) -> None:
    by_the_model(it, "echo.write('x')")
    asked(it)
    it.session.kernel.kill()
    it.store.wait(tags.APPROVAL, state="stopped")
    wait_for(lambda: it.session.approvals.waiting == ())
    assert it.value("echo.say('again')") == "again"


def test_a_search_calls_a_tool(open_session: OpenSession, home: Path) -> None:
    configure(home, echo=plain())
    it = open_session(
        {"text": "```python\nFINAL(say(text='from the search') + str(add(2, b=3)['result']))\n```"}
    )
    it.run(LOG)
    assert it.run("rlm('Say it', log, tools=[echo.say, echo.add])").text == "from the search5\n"


def test_interrupted_search_ends_the_call_of_its_tool(
    open_session: OpenSession, home: Path
) -> None:
    configure(home, echo=plain())
    it = open_session({"text": "```python\nsleep()\n```"})
    it.run(LOG)
    it.session.submit("python", "rlm('Sleep', log, tools=[echo.sleep])")
    wait_for(
        lambda: it.session.knowledge.servers is not None and "sleep" in state(it).called_tool_names
    )
    assert it.session.stop() == "cell"
    it.store.wait(tags.USER_REPL_OUT, cell=2, status="interrupted")
    assert it.value("echo.say('goes on')") == "goes on"


def test_embedded_kernel_has_the_servers_until_closed(home: Path, project: Path) -> None:
    configure(home, echo=plain())
    namespace: dict[str, Any] = {}
    it = start(InProcessKernel(namespace))
    assert it.run("text = echo.say('x')").status == "ok"
    it.session.close()
    assert namespace["text"] == "x"
    assert not hasattr(builtins, "echo")


@pytest.mark.parametrize("python", interpreters())
def test_every_python_version_has_the_servers(home: Path, project: Path, python: str) -> None:
    configure(home, echo=plain())
    it = start(ProcessKernel(python))
    assert it.value("echo.add(1, b=2.5), dir(echo)[:2]") == "({'result': 3.5}, ['add', 'change'])"
    it.session.close()


def test_call_with_unreadable_arguments_is_not_asked_about(it: Opened) -> None:
    done = by_the_model(it, "echo.write('x' * 1_000_000)").result(60)
    assert "too long for the user to read" in done.output
    assert not was_asked(it)


def call_from_kernel(it: Opened, **args: Any) -> Future[Any]:
    """Call `echo.write` as a kernel may, with any arguments of the call."""
    result: Future[Any] = Future()
    call_args = {"server": "echo", "tool": "write", "arguments": {"text": "x"}, **args}

    def serve() -> None:
        try:
            result.set_result(it.session.host.call(HostCall("mcp_call", call_args, Cancellation())))
        except BaseException as error:
            result.set_exception(error)

    start_thread("call", serve)
    return result


def test_two_open_calls_cannot_have_the_same_key(it: Opened) -> None:
    first_call = call_from_kernel(it, call="key")
    approval = asked(it)
    with pytest.raises(RuntimeError, match=r"^There is already an open call with the key 'key'\.$"):
        call_from_kernel(it, call="key").result(20)
    it.session.approvals.answer(approval.request, Decision("run"))
    assert "failed" not in first_call.result(60)


@pytest.mark.parametrize("cell", [None, [1], {}, "1", True])
def test_call_of_no_known_cell_is_asked_about(it: Opened, cell: object) -> None:
    it.run("1")
    call = call_from_kernel(it, call="key", cell=cell)
    approval = asked(it)
    assert (approval.why or "").startswith("code that outlives its cell calls a tool")
    it.session.approvals.answer(approval.request, Decision("skip"))
    assert call.result(60) == {"failed": "The user did not allow the call of echo.write."}


def test_argument_names_cannot_forge_the_question(open_with: OpenSession) -> None:
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
    missing_program = (
        "! mcp         gone: there-is-none\n              There is no program there-is-none."
    )
    assert missing_program in lines
    assert "The variable NO_URL is not set in the environment." in lines
    assert not (project / "started").exists()


def test_saved_tool_results_and_tools_are_restored_with_a_session(
    open_session: OpenSession, home: Path
) -> None:
    configure(home, echo=plain())
    saved_namespace = SavedSession(home)
    first_session = open_session(keep=saved_namespace.location)
    first_session.run(
        "words, picture = echo.parts()[1:3]; tool = echo.say; server = echo; number = 1"
    )
    first_session.session.close()
    it = open_session(keep=saved_namespace.location, past=first_session.store.records)
    assert it.store.wait(tags.RESTORE).text == "5 variables restored."
    assert it.value("words, picture, bytes(picture)[:4], number") == (
        "('words', <picture image/png, 70 bytes>, b'\\x89PNG', 1)"
    )
    assert it.value("tool('x') + server.say('y'), server is echo") == "('xy', True)"


def test_the_first_dir_of_a_server_lists_its_tools(open_with: OpenSession) -> None:
    it = open_with(echo=plain(), gone={"command": "there-is-none"})
    assert it.value("'say' in dir(echo), dir(gone)") == "(True, [])"


def test_tools_of_a_server_are_completed_and_nothing_else(open_with: OpenSession) -> None:
    it = open_with(echo=plain())

    def offered() -> list[str]:
        completions = it.session.kernel.complete("echo.", 5)
        return [] if completions.pending else [item.label for item in completions.items]

    wait_for(lambda: "say" in offered())
    assert "load_in_background" not in offered()
    assert offered() == sorted(offered())


def test_help_describes_a_server_and_lists_its_tools(it: Opened) -> None:
    assert "It is started when a tool is first used." in it.run("help(echo)").text
    it.run("echo.say('x')")
    assert "Tools (help(echo.tool) shows more):\n" in (text := it.run("help(echo)").text)
    assert "    say: Say a text.\n" in text
    assert "load_in_background" not in text
    assert "write(text: 'str')" in it.run("help(echo.write)").text
    explained = it.session.kernel.explain("echo", 4)
    assert explained is not None
    assert "say: Say a text." in explained.doc
