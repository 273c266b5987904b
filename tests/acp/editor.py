"""An editor: the protocol's own client, which starts the program and keeps what it is told."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from acp import RequestError, connect_to_agent, schema

from tests.warm import Piped, command

MAX_LINE_BYTES = 50_000_000
T = TypeVar("T")


class Editor:
    """What a user of the editor does and sees."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        """Those since the last question."""
        self.all_updates: list[Any] = []
        self.questions: list[schema.ToolCallUpdate] = []
        """What the user was asked to allow."""
        self.answers: list[str] = []
        """The options that the user chooses, in turn; the last one from then on. Empty to cancel."""
        self.form_lines: list[str] = []
        """What the user types into forms."""
        self.agent: Any = None
        self.session = ""

    # What the program calls

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.updates.append(update)
        self.all_updates.append(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **meta: Any,
    ) -> Any:
        self.questions.append(tool_call)
        if not self.answers:
            raise RequestError.internal_error()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not answer:
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        assert answer in [option.option_id for option in options]
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=answer)
        )

    async def create_elicitation(
        self, message: str, mode: Any, **meta: Any
    ) -> schema.AcceptElicitationResponse:
        assert message
        return schema.AcceptElicitationResponse(
            action="accept", content={"answer": self.form_lines.pop(0)}
        )

    # What the user does

    async def begin(self, *servers: schema.McpServerStdio) -> None:
        """Begin a session in this folder. servers: MCP servers of the editor."""
        response = await self.agent.new_session(os.getcwd(), mcp_servers=list(servers))
        self.session = response.session_id

    async def ask(self, words: str, *others: Any) -> str:
        """Ask, and return why the turn ended."""
        self.updates.clear()
        blocks = [schema.TextContentBlock(type="text", text=words), *others]
        response = await self.agent.prompt(self.session, blocks)
        return str(response.stop_reason)

    async def failure(self, words: str) -> str:
        """Ask, and return the sentence with which the program refuses."""
        try:
            await self.ask(words)
        except RequestError as error:
            return str(error)
        raise AssertionError("it was not refused")

    # What the user sees

    @property
    def said(self) -> str:
        """The words of the answer."""
        return "".join(
            update.content.text
            for update in self.updates
            if isinstance(update, schema.AgentMessageChunk)
        )

    @property
    def asked(self) -> str:
        """The user's words in a conversation that is told again."""
        return "".join(
            update.content.text
            for update in self.updates
            if isinstance(update, schema.UserMessageChunk)
        )

    @property
    def calls(self) -> dict[str, Any]:
        """The last update of each tool call, by its id, in the order of their beginnings."""
        return {
            update.tool_call_id: update
            for update in self.updates
            if isinstance(update, schema.ToolCallStart | schema.ToolCallProgress)
        }

    @property
    def cell(self) -> Any:
        """The newest tool call."""
        return list(self.calls.values())[-1]

    async def until(self, look: Callable[[], T | None]) -> T:
        """Wait until something is there, and return it."""
        while not (what := look()):
            await asyncio.sleep(0.01)
        return what


class SilentEditor(Editor):
    """An editor whose user answers no question."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[str] = []

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, *args: Any, **meta: Any
    ) -> Any:
        self.questions.append(tool_call)
        await asyncio.Event().wait()

    async def create_elicitation(self, message: str, mode: Any, **meta: Any) -> Any:
        self.forms.append(message)
        await asyncio.Event().wait()


def text_of(call: Any) -> str:
    """Return the texts of a tool call."""
    blocks = [item.content for item in call.content or ()]
    return "\n".join(block.text for block in blocks if isinstance(block, schema.TextContentBlock))


def send(program: Piped, method: str, **params: object) -> None:
    """Send a request, whose id is the method."""
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    program.stdin.write(f"{json.dumps(message)}\n")
    program.stdin.flush()


def call(program: Piped, method: str, **params: object) -> dict[str, Any]:
    """Send a request, and return the result."""
    send(program, method, **params)
    while (answer := json.loads(program.stdout.readline())).get("id") != method:
        pass
    return dict(answer["result"])


@asynccontextmanager
async def editor(
    user: Editor | None = None, *, forms: bool = True, cwd: Path | None = None, **environment: str
) -> AsyncIterator[Editor]:
    """Start the program as an editor does, and end it.

    Args:
        user: The editor; by default one whose user answers.
        forms: Whether the editor can ask for a line of text.
        cwd: The folder in which it is started; by default this one.
        environment: Further variables.
    """
    process = await asyncio.create_subprocess_exec(
        *command(),
        "acp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        cwd=cwd,
        env={"MAHTAB_MODEL": "demo", **os.environ, **environment},
    )
    user = user or Editor()
    user.agent = connect_to_agent(
        cast(Any, user), process.stdin, process.stdout, use_unstable_protocol=True
    )
    form = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    capabilities = schema.ClientCapabilities(elicitation=form if forms else None)
    try:
        await user.agent.initialize(1, client_capabilities=capabilities)
        yield user
    finally:
        assert process.stdin is not None
        process.stdin.close()
        code = await process.wait()
        await user.agent.close()
    assert code == 0
