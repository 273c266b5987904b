"""An agent of another program, by the protocol's own library. The last line of a question says what
it does: a word, and what that is about."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from acp import RequestError, run_agent, schema

from tests import warm

SESSIONS = Path(".outside-sessions.json")
"""What its sessions remember, if it can resume them."""
MODES = ("default", "bold")


def text_block(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)


async def appearance(name: str) -> None:
    """Wait until there is a file."""
    while not Path(name).exists():
        await asyncio.sleep(0.01)


class OutsideAgent:
    def __init__(self, *abilities: str) -> None:
        self._abilities = abilities
        self._client: Any = None
        self._servers: list[Any] = []
        self._questions: list[str] = []
        self._cancelled = asyncio.Event()
        self._mode = "bold"
        self._cost = 0.0
        self._stack = AsyncExitStack()
        self._session: Any = None
        self._later: asyncio.Task[Any]

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **meta: Any) -> schema.InitializeResponse:
        if "hang" in self._abilities:
            await asyncio.Event().wait()
        resume = schema.SessionResumeCapabilities() if "resume" in self._abilities else None
        return schema.InitializeResponse(
            protocol_version=9 if "old" in self._abilities else protocol_version,
            auth_methods=[schema.AuthMethodAgent(id="login", name="Run outside login")],
            agent_capabilities=schema.AgentCapabilities(
                load_session="load" in self._abilities,
                prompt_capabilities=schema.PromptCapabilities(image="pictures" in self._abilities),
                session_capabilities=schema.SessionCapabilities(resume=resume),
            ),
        )

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **meta: Any
    ) -> schema.NewSessionResponse:
        if "login" in self._abilities:
            raise RequestError.auth_required()
        self._servers = list(mcp_servers or ())
        return schema.NewSessionResponse(
            session_id="outside-1", modes=self._modes(), config_options=self._options("small")
        )

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[Any] | None = None, **meta: Any
    ) -> schema.ResumeSessionResponse:
        self._servers = list(mcp_servers or ())
        self._questions = json.loads(SESSIONS.read_text())
        return schema.ResumeSessionResponse(modes=self._modes())

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **meta: Any
    ) -> schema.LoadSessionResponse:
        self._servers = list(mcp_servers or ())
        self._questions = json.loads(SESSIONS.read_text())
        for question in self._questions:
            await self._say(f"(again: {question})", session_id)
        return schema.LoadSessionResponse(modes=self._modes())

    def _modes(self) -> schema.SessionModeState:
        modes = [schema.SessionMode(id=mode, name=mode) for mode in MODES]
        return schema.SessionModeState(current_mode_id=self._mode, available_modes=modes)

    def _options(self, model: str) -> list[Any]:
        choices = [schema.SessionConfigSelectOption(value=m, name=m) for m in ("small", "large")]
        return [
            schema.SessionConfigOptionSelect(
                type="select", id="model", name="Model", current_value=model, options=choices
            )
        ]

    async def set_session_mode(self, mode_id: str, session_id: str, **meta: Any) -> None:
        self._mode = mode_id

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> schema.SetSessionConfigOptionResponse:
        if "stubborn" in self._abilities:
            raise RequestError.internal_error({"details": "not on this plan"})
        return schema.SetSessionConfigOptionResponse(config_options=self._options(str(value)))

    async def cancel(self, session_id: str, **meta: Any) -> None:
        self._cancelled.set()

    async def prompt(
        self, session_id: str, prompt: list[Any], **meta: Any
    ) -> schema.PromptResponse:
        self._cancelled.clear()
        text = prompt[0].text
        last_line = text.strip().rpartition("\n")[2]
        verb, _, rest = last_line.removeprefix("Question: ").partition(" ")
        work = asyncio.create_task(getattr(self, f"_do_{verb}")(rest, session_id, prompt))
        stop = asyncio.create_task(self._cancelled.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        self._questions.append(rest)
        SESSIONS.write_text(json.dumps(self._questions))
        if not work.done():
            work.cancel()
            if "fails-at-stop" in self._abilities:
                raise RequestError.internal_error()
            return schema.PromptResponse(stop_reason="cancelled")
        reason: Any = work.result() or "end_turn"
        usage = schema.Usage(total_tokens=15, input_tokens=10, output_tokens=5)
        return schema.PromptResponse(stop_reason=reason, usage=usage)

    async def _tell(self, update: Any, session_id: str) -> None:
        await self._client.session_update(session_id, update)

    async def _say(self, text: str, session_id: str) -> None:
        chunk = schema.AgentMessageChunk(
            session_update="agent_message_chunk", content=text_block(text)
        )
        await self._tell(chunk, session_id)

    async def _tool(self, session_id: str, *, start: bool, **fields: Any) -> None:
        if start:
            update: Any = schema.ToolCallStart(session_update="tool_call", **fields)
        else:
            update = schema.ToolCallProgress(session_update="tool_call_update", **fields)
        await self._tell(update, session_id)

    # What it does

    async def _do_say(self, words: str, session_id: str, prompt: list[Any]) -> None:
        for word in words.replace("\\n", "\n").split(" "):
            await self._say(f"{word} ", session_id)

    async def _do_echo(self, words: str, session_id: str, prompt: list[Any]) -> None:
        await self._say(f"{prompt[0].text} and {len(prompt) - 1} pictures", session_id)

    async def _do_recall(self, words: str, session_id: str, prompt: list[Any]) -> None:
        await self._say(f"I remember {self._questions}; mode {self._mode}", session_id)

    async def _do_environment(self, names: str, session_id: str, prompt: list[Any]) -> None:
        values = {name: os.environ.get(name) for name in names.split()}
        await self._say(json.dumps(values), session_id)

    async def _do_think(self, words: str, session_id: str, prompt: list[Any]) -> None:
        thought = schema.AgentThoughtChunk(
            session_update="agent_thought_chunk", content=text_block(words)
        )
        await self._tell(thought, session_id)
        await self._say("I have thought.", session_id)

    async def _do_eval(self, code: str, session_id: str, prompt: list[Any]) -> None:
        call: dict[str, Any] = {
            "tool_call_id": "ours",
            "title": "mcp__mahtab__eval",
            "raw_input": {"code": code},
        }
        await self._tool(session_id, start=True, kind="other", status="pending", **call)
        options = [schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
        answer = await self._client.request_permission(
            session_id, schema.ToolCallUpdate(**call), options
        )
        if answer.outcome.outcome != "selected":
            return
        output = await self._call_server(f"eval {json.dumps({'code': code})}")
        await self._tool(session_id, start=False, tool_call_id="ours", status="completed")
        await self._say(f"It says: {output}", session_id)

    async def _do_call(self, call: str, session_id: str, prompt: list[Any]) -> None:
        await self._say(await self._call_server(call), session_id)

    async def _do_later(self, calls: str, session_id: str, prompt: list[Any]) -> None:
        """Call tools of the session's server once the answer has ended. calls: between bars."""

        async def work() -> None:
            await appearance("go")
            outputs = [await self._call_server(call) for call in calls.split(" | ")]
            Path("said.part").write_text("\n".join(outputs))
            Path("said.part").rename("said")

        self._later = asyncio.create_task(work())

    async def _do_tools(self, words: str, session_id: str, prompt: list[Any]) -> None:
        """Name the tools of the session's server."""
        result = await (await self._server()).list_tools()
        await self._say(" ".join(tool.name for tool in result.tools), session_id)

    async def _do_both(self, calls: str, session_id: str, prompt: list[Any]) -> None:
        """Call two tools of the session's server: the second once the first has made a file. calls:
        between bars."""
        await self._server()
        first, second = calls.split(" | ")
        first_output = asyncio.create_task(self._call_server(first))
        await appearance("first")
        second_output = asyncio.create_task(self._call_server(second))
        await self._say(f"{await first_output} | {await second_output}", session_id)

    async def _call_server(self, call: str) -> str:
        """Call a tool of the session's server; return what it says. call: its name, and its
        arguments as JSON if it has any."""
        name, _, arguments = call.partition(" ")
        result = await (await self._server()).call_tool(name, json.loads(arguments or "{}"))
        return str(result.content[0].text)

    async def _server(self) -> Any:
        """Start the session's MCP server."""
        if self._session is None:
            # Most tests do not need it, and it takes long to load.
            from mcp import ClientSession, StdioServerParameters
            from mcp.client.stdio import stdio_client

            server = self._servers[0]
            # The program itself, but forked: all that comes before its own arguments starts it.
            arguments = server.args[server.args.index("mahtab_tui") + 1 :]
            command, *starting = warm.bound_command()
            parameters = StdioServerParameters(
                command=command, args=[*starting, *arguments], env=dict(os.environ)
            )
            streams = await self._stack.enter_async_context(stdio_client(parameters))
            self._session = await self._stack.enter_async_context(ClientSession(*streams[:2]))
            await self._session.initialize()
        return self._session

    async def _do_write(self, name: str, session_id: str, prompt: list[Any]) -> None:
        content: list[Any] = [
            schema.FileEditToolCallContent(
                type="diff", path=name, old_text="one\n", new_text="one\ntwo\n"
            )
        ]
        call: dict[str, Any] = {"tool_call_id": f"write-{name}", "title": f"Write {name}"}
        await self._tool(session_id, start=True, kind="edit", status="pending", **call)
        kinds: tuple[Any, ...] = ("allow_always", "allow_once", "reject_once")
        answer = await self._client.request_permission(
            session_id,
            schema.ToolCallUpdate(content=content, raw_input={"path": name}, **call),
            [schema.PermissionOption(option_id=kind, name=kind, kind=kind) for kind in kinds],
        )
        chosen = getattr(answer.outcome, "option_id", "nothing")
        if chosen == "allow_once":
            Path(name).write_text("one\ntwo\n")
        status = "completed" if chosen == "allow_once" else "failed"
        await self._tool(session_id, start=False, content=content, status=status, **call)
        await self._say(f"You chose {chosen}.", session_id)

    async def _do_rename(self, title: str, session_id: str, prompt: list[Any]) -> None:
        call: dict[str, Any] = {"tool_call_id": "named"}
        await self._tool(session_id, start=True, kind="read", title="Preparing", **call)
        await self._tool(session_id, start=False, title=title, raw_input={"command": "ls"}, **call)
        await self._tool(session_id, start=False, status="completed", **call)
        await self._say("Named.", session_id)

    async def _do_plan(self, steps: str, session_id: str, prompt: list[Any]) -> None:
        for state in ("pending", "completed"):
            entries = [
                schema.PlanEntry(content=step, priority="medium", status=state)
                for step in steps.split(",")
            ]
            await self._tell(
                schema.AgentPlanUpdate(session_update="plan", entries=entries), session_id
            )
        await self._say("Planned.", session_id)

    async def _do_spend(self, dollars: str, session_id: str, prompt: list[Any]) -> None:
        self._cost += float(dollars)
        cost = schema.Cost(amount=self._cost, currency="USD")
        usage = schema.UsageUpdate(session_update="usage_update", used=100, size=1000, cost=cost)
        await self._tell(usage, session_id)
        await asyncio.sleep(0.2)
        await self._say("Spent.", session_id)

    async def _do_report(self, costs: str, session_id: str, prompt: list[Any]) -> None:
        for amount in map(float, costs.split()):
            cost = schema.Cost(amount=amount, currency="USD")
            usage = schema.UsageUpdate(
                session_update="usage_update", used=100, size=1000, cost=cost
            )
            await self._tell(usage, session_id)

    async def _do_wait(self, words: str, session_id: str, prompt: list[Any]) -> None:
        await self._say("I wait. ", session_id)
        await asyncio.Event().wait()

    async def _do_refuse(self, words: str, session_id: str, prompt: list[Any]) -> str:
        return "refusal"

    async def _do_fail(self, words: str, session_id: str, prompt: list[Any]) -> None:
        raise RequestError(-32603, "Internal error", {"details": words})

    async def _do_abandon(self, code: str, session_id: str, prompt: list[Any]) -> None:
        """Run code, and end the answer without its result once there is a file."""
        await self._do_leave(f"eval {json.dumps({'code': code})}", session_id, prompt)

    async def _do_leave(self, call: str, session_id: str, prompt: list[Any]) -> None:
        """Call a tool of the session's server, and end the answer without its result once there is a
        file."""
        self._later = asyncio.create_task(self._call_server(call))
        await appearance("go")

    async def _do_die(self, words: str, session_id: str, prompt: list[Any]) -> None:
        await self._say("Half of an ans", session_id)
        print(words, file=sys.stderr, flush=True)
        await asyncio.sleep(0.1)
        os._exit(3)


def main() -> None:
    """Serve the client at stdin and stdout."""
    agent: Any = OutsideAgent(*sys.argv[1:])
    asyncio.run(run_agent(agent, use_unstable_protocol=True))


if __name__ == "__main__":
    main()
