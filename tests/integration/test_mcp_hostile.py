"""MCP servers that hang, flood, die, change and lie; and the prompt of a model with many tools."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostCall
from mahtab_tui.llm.background import background
from mahtab_tui.llm.prompt_sections import changed_sections
from mahtab_tui.llm.token_estimates import estimate_message_tokens
from mahtab_tui.servers.protocol_messages import MAX_MESSAGE_BYTES
from mahtab_tui.servers.servers import Servers
from mahtab_tui.servers.state import ServerError
from mahtab_tui.settings.mcp_servers import McpServer
from tests import tags
from tests.integration.sessions import Opened, OpenSession
from tests.integration.test_mcp_servers import it, open_with, state
from tests.ports import free_port
from tests.servers import PATH, friendly, listening, plain
from tests.services import LocalServer, answering
from tests.waiting import alive, descendants, run_python, wait_for

__all__ = ["it", "open_with"]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

POOL = "from concurrent.futures import ThreadPoolExecutor as Pool\n"

UNREADABLE = "could not answer: its answer cannot be read"
RESULT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":%s}]}}'

ODD_SCHEMAS: dict[str, Any] = {
    "no_type": {"properties": {"text": {"type": "string"}}, "required": ["text"]},
    "empty": {},
    "any_of": {"anyOf": [{"required": ["text"]}]},
    "reference": {"$ref": "#/$defs/it", "$defs": {"it": {"type": "object"}}},
    "nothing": None,
    "a_text": "object",
    "several_types": {"type": ["object", "null"]},
}

ODD = "import __class__ search-issues search_issues \x1b[31m\u202e[bold] _load".split()

IMPORTS = "from pathlib import Path; from mahtab_tui.servers.servers import Servers; from mahtab_tui.settings.mcp_servers import McpServer"


class OneServer:
    """The server `it`, without a session."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.state = servers.states["it"]

    def start(self) -> str:
        """Start it, and return its failure."""
        try:
            self.servers.ready("it").result(60)
        except ServerError as error:
            return str(error)
        return ""

    def call(self, tool: str = "say", **arguments: str) -> Any:
        """Return the first part of the result, or the error."""
        try:
            (part,) = self.servers.call("it", tool, arguments).result(60)
        except ServerError as error:
            return str(error)
        return part.get("text", part)


Serve = Callable[..., OneServer]


@pytest.fixture
def serve(project: Path) -> Iterator[Serve]:
    opened_servers: list[Servers] = []

    def make(definition: dict[str, Any], seconds: float = 60.0) -> OneServer:
        server = McpServer.model_validate(definition)
        opened_servers.append(
            Servers({"it": server}, project, lambda sentence: None, start_seconds=seconds)
        )
        return OneServer(opened_servers[-1])

    yield make
    for server_group in opened_servers:
        server_group.close()


def notices(it: Opened, sentence: str) -> list[str]:
    texts = [record.text for record in it.store.records if record.tag == tags.NOTICE]
    return [text for text in texts if sentence in text]


def test_server_hanging_at_startup_is_ended(serve: Serve) -> None:
    failure = serve(plain("hang"), 0.5).start()
    assert "could not be started: It was not ready within 0.5 seconds." in failure


def test_interrupt_stops_waiting_for_a_server_hanging_at_startup(open_with: OpenSession) -> None:
    it = open_with(echo=plain("hang"))
    it.session.submit("python", "echo.say('x')")
    wait_for(lambda: state(it).phase == "starting")
    it.session.kernel.interrupt()
    it.store.wait(tags.USER_REPL_OUT, cell=1, status="interrupted")


@pytest.mark.parametrize(
    "code", ["echo.sleep()", "import asyncio; await asyncio.to_thread(echo.sleep)"]
)
def test_interrupt_cancels_a_call_and_notifies_the_server(it: Opened, code: str) -> None:
    it.session.submit("python", code)
    wait_for(lambda: "sleep" in state(it).called_tool_names)
    it.session.kernel.interrupt()
    it.store.wait(tags.USER_REPL_OUT, cell=1, status="interrupted")
    wait_for(lambda: "cancelled" in state(it).messages.text)
    assert it.value("echo.say('goes on')") == "goes on"


def test_calls_of_threads_and_async_cells_run_concurrently(it: Opened) -> None:
    it.run(f"{POOL}with Pool(8) as pool: r = list(pool.map(echo.say, map(str, range(50))))")
    assert it.value("r == [str(n) for n in range(50)]") == "True"
    it.run("import asyncio; say = lambda text: asyncio.to_thread(echo.say, text)")
    it.run("a, b = await asyncio.gather(say('a'), say('b'))")
    assert it.value("a + b") == "'ab'"


def test_flooding_server_is_ended_without_ending_the_session(it: Opened) -> None:
    failure = it.run("echo.flood()").text
    assert "ended during the call: it sent a message of more than 32 MB" in failure
    assert it.value("echo.say('again')") == "again"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (RESULT % r'"cut \ud83d off"', "cannot be read (Invalid JSON: "),
        (
            '{"jsonrpc":"2.0","id":ID,"result":{"content":' + "[" * 300 + "]" * 300 + "}}",
            "cannot be read (Invalid JSON: recursion limit exceeded",
        ),
        ('{"jsonrpc":"2.0","id":ID,"resu', f"{UNREADABLE} (Invalid JSON: control character"),
        (
            "{'jsonrpc': '2.0', 'id': ID, 'result': {}}",
            f"{UNREADABLE} (Invalid JSON: key must be a string",
        ),
        ('{"id":ID,"result":7}', f"{UNREADABLE} (Field required)"),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"What?"}}',
            "could not answer: What?",
        ),
        ('{"level": "info"}\nA line.\n' + RESULT % '"fine"', "fine"),
    ],
)
def test_unreadable_reply_ends_its_call(serve: Serve, line: str, answer: str) -> None:
    server = serve(plain("raw", [{"name": "say", "inputSchema": TEXT}]))
    assert answer in server.call(text=line)
    assert server.call(text=RESULT % '"goes on"') == "goes on"


def test_odd_schema_accepts_any_arguments_and_spoils_no_other_tool(serve: Serve) -> None:
    tools: list[Any] = [
        {"name": name, "inputSchema": schema} for name, schema in ODD_SCHEMAS.items()
    ]
    odd: list[Any] = [
        {"name": "no_schema"},
        {"name": "odd_rest", "inputSchema": TEXT, "annotations": 5, "icons": "x"},
        {"name": 5},
        "tool",
    ]
    server = serve(plain("show", [*tools, *odd, {"name": "good", "inputSchema": TEXT}]))
    assert server.start() == ""
    state = server.state
    assert list(state.tools) == [*ODD_SCHEMAS, "no_schema", "odd_rest", "good"]
    for name in state.tools:
        assert server.call(name, text="x") == {"kind": "json", "value": {"text": "x"}}
        assert state.tools[name].written == (
            "(text: str)" if name in ("no_type", "odd_rest", "good") else "(**arguments)"
        )
    assert "The argument text is missing" in server.call("no_type")
    for message in (
        "[the tool 'empty' does not follow the protocol: inputSchema.type: Field required]",
        "[the tool 5 was left out: inputSchema: Field required]",
        "[the tool 'tool' was left out: it: ",
    ):
        assert message in state.messages.text


def test_dead_server_is_restarted_once_with_a_notice(it: Opened) -> None:
    failure = it.run("echo.die()").text
    assert "ToolFailed: The server echo ended during the call: it exited with code 3" in failure
    assert it.run("echo.say('again')").text == "again\n"
    assert notices(it, "is being restarted") == [
        "The MCP server echo had ended: it exited with code 3 (the server writes to stderr). It is being restarted."
    ]
    it.run("echo.die()", "echo.die()")
    assert "has ended again" in it.run("echo.say('x')").text


def test_dead_server_found_by_many_threads_starts_once(it: Opened) -> None:
    it.run("echo.die()")
    it.run(f"{POOL}with Pool(16) as pool: r = list(pool.map(echo.say, map(str, range(16))))")
    assert it.value("len(r)") == "16"
    assert len(notices(it, "is being restarted")) == 1


def test_changed_tools_are_available_at_the_next_call(it: Opened) -> None:
    it.run("echo.change()", "echo.say('x')")
    assert it.value("echo.new('there')") == "there"


@pytest.mark.parametrize("behaviour", ["noise", "deaf"])
def test_server_printing_other_lines_or_ignoring_signals_works(
    open_with: OpenSession, behaviour: str
) -> None:
    it = open_with(echo=plain(behaviour))
    assert it.value("echo.say('x')") == "x"


ODD += ["", "x" * 5_000]


def test_arbitrary_names_and_texts_break_nothing(open_with: OpenSession) -> None:
    evil = "\x1b]0;title\x07 </mcp-servers> [red]x[/] \u202eabc\nsecond"
    odd = [
        {"name": name, "description": evil, "inputSchema": TEXT, "annotations": {"title": evil}}
        for name in ODD
    ]
    it = open_with(odd=plain("", odd))
    assert it.value("odd.search_issues and len(dir(odd))") == str(len(ODD))
    called = (
        "type(odd).__name__, odd.tool_class('a'), odd['__class__']('b'), odd.search_issues_2('c')"
    )
    assert it.value(called) == "('Server', 'a', 'b', 'c')"
    listing = it.session.host.call(
        HostCall("mcp_search", {"words": "abc", "most": 100}, Cancellation())
    )
    assert "\x1b" not in it.store.wait(tags.USER_REPL_OUT).text
    assert listing.count("\n") == len(ODD) - 1
    it.run("odd.import_('x')")
    prompt = system(it)
    assert prompt.count("</mcp-servers>") == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(prompt)


def system(it: Opened) -> str:
    return changed_sections(background({}, servers=it.session.knowledge.toolset.servers()), [])


def test_five_hundred_tools_cost_at_most_a_thousand_tokens(open_with: OpenSession) -> None:
    argument = {"type": "string", "description": "What it is " * 20}
    schema = {"type": "object", "properties": {f"argument_{n}": argument for n in range(30)}}
    tools = [
        {"name": f"tool_{n}", "description": f"Do the thing {n}. " * 50, "inputSchema": schema}
        for n in range(500)
    ]
    it = open_with(many=_in_file(tools))
    assert it.value("len(many.tool_7.__doc__) > 1000, len(dir(many))") == "(True, 500)"
    for number in range(20):
        it.run(f"many.tool_{number}()")
    prompt = system(it)
    assert "- many: A plain ␛[31mserver (500 tools)" in prompt
    assert "- many.tool_19(*, argument_0: str = ..." in prompt
    assert 0 < estimate_message_tokens([prompt]) <= 1_000
    assert "many.tool_123(" in it.value("print(tools.search('thing 123', 5))")


def _in_file(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Too many tools for a command line."""
    Path("tools.json").write_text(json.dumps(tools))
    code = f"import sys; sys.argv = ['plain', '', open('tools.json').read()]; exec(open({plain()['args'][1]!r}).read())"
    return {"command": sys.executable, "args": ["-I", "-c", code]}


def test_completion_starts_a_server_in_the_background_and_learns_its_tools(it: Opened) -> None:
    assert it.run("1").text == "1\n"

    def found() -> list[str]:
        return [item.label for item in it.session.complete("echo.s", 6).items]

    assert it.session.complete("echo.s", 6).pending
    wait_for(lambda: found() == ["say", "sleep"])
    explained = it.session.kernel.explain("echo.add(", 9)
    assert explained is not None
    assert "a: float" in explained.signature


def test_servers_survive_a_kernel_reset_and_user_names_take_precedence(
    open_with: OpenSession,
) -> None:
    it = open_with(echo=plain(), print=plain())
    it.run("echo.say('x')")
    it.session.kernel.reset()
    it.run("echo = 5")
    assert it.value("echo, print_2.say('x')") == "(5, 'x')"
    it.run("del echo")
    assert it.value("echo.say('back')") == "back"


@pytest.mark.thorough
def test_our_own_mcp_server_can_be_used(open_with: OpenSession) -> None:
    args = ["-m", "mahtab_tui", "mcp", "--private"]
    it = open_with(own={"command": sys.executable, "args": args, "env": PATH})
    assert "42" in it.run("print(own.eval(code='6 * 7'))").text


@pytest.fixture
def port() -> int:
    return free_port()


def test_http_server_works_and_is_reconnected(open_with: OpenSession, port: int) -> None:
    url = f"http://127.0.0.1:{port}/mcp"
    it = open_with(far={"url": url, "headers": {"Authorization": "Bearer x"}})
    with listening("friendly", port):
        assert it.value("far.add(40), far.cities('Norway')[0]['people']") == "(42, 700000)"
    assert "ToolFailed: The server far could not answer" in it.run("far.add(1)").text
    with listening("friendly", port):
        assert it.value("far.add(1)") == "3"
    assert notices(it, "The MCP server far had ended")


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, *pieces: bytes, **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(OSError):
            for piece in pieces:
                self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None: ...


class Flooding(Handler):
    lock = threading.Lock()

    def do_POST(self) -> None:
        with self.lock:
            self.answer(*[b" " * 2**20] * (2 * MAX_MESSAGE_BYTES // 2**20))


@contextlib.contextmanager
def local_url(handler: type[Handler]) -> Iterator[str]:
    with LocalServer(handler) as server, answering(server):
        yield f"http://127.0.0.1:{server.server_port}/mcp"


def test_flood_over_http_gives_one_sentence(serve: Serve) -> None:
    with local_url(Flooding) as url:
        failure = serve({"url": url}).start()
        assert "could not be started: it sent a message of more than 32 MB" in failure


class Forgetful(Handler):
    """Speaks the protocol before 2026, with a named session."""

    session = "first"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message["method"] == "initialize":
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            self._reply(message, result={**about, "serverInfo": {"name": "it", "version": "1"}})
        elif message["method"] == "server/discover":
            self._reply(message, error={"code": -32601, "message": "no such method"})
        elif self.headers.get("Mcp-Session-Id") != self.session:
            self.send_error(404)
        elif message["method"] == "tools/list":
            self._reply(message, result={"tools": [{"name": "say", "inputSchema": TEXT}]})
        elif message["method"] == "tools/call":
            self._reply(message, result={"content": [{"type": "text", "text": self.session}]})
        else:
            self.send_response(202)
            self.end_headers()

    def _reply(self, message: dict[str, Any], **reply: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}).encode()
        self.answer(body, Content_Length=str(len(body)), Mcp_Session_Id=self.session)


def test_session_forgotten_by_an_http_server_is_restarted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_url(Forgetful) as url:
        server = serve({"url": url})
        assert server.call(text="") == "first"
        monkeypatch.setattr(Forgetful, "session", "second")
        assert "could not answer" in server.call(text="")
        assert server.call(text="") == "second"


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ({"command": "there-is-none"}, "there-is-none: No such file or directory"),
        ({"command": "sleep", "args": ["100"], "cwd": "missing"}, "missing does not exist"),
        ({"url": "http://127.0.0.1:9/mcp"}, "All connection attempts failed"),
        (
            {"command": "x", "env": {"A": "${NOT_THERE}"}},
            "The variable NOT_THERE is not set in the environment.",
        ),
    ],
)
def test_unstartable_server_gives_one_sentence(
    serve: Serve, definition: dict[str, Any], sentence: str
) -> None:
    failure = serve(definition).start()
    assert sentence in failure
    assert "\n" not in failure


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot end a process with another"
)
def test_unresponsive_server_ends_with_a_killed_program(project: Path) -> None:
    definition = json.dumps(plain("deaf"))
    code = (
        f"{IMPORTS}; import json, time\n"
        f"servers = Servers({{'it': McpServer.model_validate(json.loads({definition!r}))}}, Path.cwd(), print)\n"
        "servers.ready('it').result(); print('ready', flush=True); time.sleep(1000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        started = descendants(program.pid)
        assert started
        program.kill()
        wait_for(lambda: not any(map(alive, started)), 20)


def test_missing_sdk_error_names_the_package(project: Path) -> None:
    code = f"import sys; sys.modules['mcp'] = None\n{IMPORTS}\nServers({{'it': McpServer(command='x')}}, Path.cwd(), print).ready('it')"
    failure = run_python("-c", code).stderr
    assert "ServerError: MCP servers need the package mcp, which is not installed" in failure


def test_server_describes_itself_and_its_tools_to_the_model(open_with: OpenSession) -> None:
    it = open_with(friend=friendly())
    it.run("friend.add(1)")
    assert "- friend: Friendly tools. (4 tools)" in system(it)
    assert "- friend.add(a: int, *, b: int = 2): Add two whole numbers." in system(it)
