"""The messages of the Agent Client Protocol, written from our values and read into them, and the
editor that gets them.

No other file imports the protocol's library, of which only the messages and the connection are used.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from acp import Client, RequestError, schema
from acp.core import AgentSideConnection

from mahtab_tui.acp.cell_card import CellCard
from mahtab_tui.acp.editor_session import SessionUnavailable
from mahtab_tui.acp.questions import BadQuestion, Base64, PromptAttachment
from mahtab_tui.bus import StoreError
from mahtab_tui.bus.escaping import escape_controls, shorten_line
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.version import __version__

PROTOCOL_VERSION = 1
INTERNAL_ERROR = -32603
"""JSON-RPC's code for what the session refuses."""
META = {"mahtab": {"fork": "the namespace goes along", "rewind": "_mahtab/rewind"}}
"""What no other agent has: a copy of a session has its variables, and a session goes back together
with them."""
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
ANSWER_FIELD = "answer"
"""The only field of a form."""

ClientCapabilities = schema.ClientCapabilities
Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean
EditorServer = (
    schema.McpServerStdio | schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer
)
Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AvailableCommandsUpdate
    | schema.ConfigOptionUpdate
    | schema.UsageUpdate
)
InitializeResponse = schema.InitializeResponse
NewSessionResponse = schema.NewSessionResponse
LoadSessionResponse = schema.LoadSessionResponse
ResumeSessionResponse = schema.ResumeSessionResponse
ForkSessionResponse = schema.ForkSessionResponse
ListSessionsResponse = schema.ListSessionsResponse
SetOptionResponse = schema.SetSessionConfigOptionResponse
PromptResponse = schema.PromptResponse
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ApprovalChoice(NamedTuple):
    """An answer that the user may give."""

    id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once"]


class Editor:
    """The editor at the other end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.has_forms = False
        """Whether it can ask its user for a line of text."""

    async def show(self, session_id: str, update: Update) -> None:
        """Tell the editor something; does nothing if it is gone."""
        with suppress(ConnectionError):
            await self._client.session_update(session_id, update)

    async def choose(
        self, session_id: str, card: CellCard, choices: Sequence[ApprovalChoice]
    ) -> str:
        """Return the ID of what the user chooses.

        Empty if the user chooses nothing, the editor is gone, or its answer makes no sense.
        """
        options = [
            schema.PermissionOption(option_id=choice.id, name=choice.name, kind=choice.kind)
            for choice in choices
        ]
        try:
            response = await self._client.request_permission(
                session_id, schema.ToolCallUpdate(**_card_fields(card)), options
            )
        except (RequestError, ConnectionError, ValueError):
            return ""
        if isinstance(response.outcome, schema.DeniedOutcome):
            return ""
        choice_id = response.outcome.option_id
        return choice_id if choice_id in [choice.id for choice in choices] else ""

    async def ask_for_line(self, session_id: str, prompt: str) -> str | None:
        """Return what the user types; None if there is no answer."""
        prompt = escape_controls(prompt)
        field = schema.ElicitationStringPropertySchema(type="string", title=prompt)
        form = schema.ElicitationFormSessionMode(
            session_id=session_id,
            requested_schema=schema.ElicitationSchema(
                type="object", properties={ANSWER_FIELD: field}, required=[ANSWER_FIELD]
            ),
        )
        try:
            response = await self._client.create_elicitation(prompt, form)
        except (RequestError, ConnectionError, ValueError):
            return None
        if not isinstance(response, schema.AcceptElicitationResponse) or not response.content:
            return None
        return str(response.content.get(ANSWER_FIELD, ""))


def connect(
    agent: Any, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
) -> AgentSideConnection:
    """Return a connection, which does not listen yet.

    Args:
        agent: Has the library's methods.
    """
    return AgentSideConnection(agent, writer, reader, listening=False, use_unstable_protocol=True)


def refuse_errors(
    method: Callable[Arguments, Awaitable[Result]],
) -> Callable[Arguments, Awaitable[Result]]:
    """Turn the session's errors into one of the protocol with the same sentence."""

    @functools.wraps(method)
    async def answer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return await method(*args, **kwargs)
        except (
            SessionUnavailable,
            BadQuestion,
            KernelError,
            ModelError,
            SettingsError,
            StoreError,
            OSError,
        ) as error:
            sentence = escape_controls(str(error))
            # Toad shows the details only, others show the message.
            details = {"details": sentence}
            raise RequestError(INTERNAL_ERROR, sentence, details) from None

    return answer


# Updates


def user_words(text: str) -> Update:
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_text_block(text))


def words(text: str) -> Update:
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_text_block(text))


def thought(text: str) -> Update:
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_text_block(text))


def usage(used_tokens: int, context_tokens: int, cost: float) -> Update:
    """Return how full the context is, and what the session has cost in US dollars."""
    return schema.UsageUpdate(
        session_update="usage_update",
        used=used_tokens,
        size=context_tokens,
        cost=schema.Cost(amount=cost, currency="USD"),
    )


def commands_update(rows: Iterable[tuple[str, str, str]]) -> Update:
    """Return the commands.

    Args:
        rows: Their names, descriptions, and what may follow them.
    """
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=name,
                description=description,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint))
                if hint
                else None,
            )
            for name, description, hint in rows
        ],
    )


def options_update(options: Sequence[Option]) -> Update:
    return schema.ConfigOptionUpdate(
        session_update="config_option_update", config_options=list(options)
    )


def tool_call(card: CellCard) -> Update:
    """Return a cell as it is now. The editor knows it from then on."""
    fields = _card_fields(card)
    fields["raw_input"] = {"code": card.code} if card.code else None
    if card.is_announced:
        return schema.ToolCallProgress(session_update="tool_call_update", **fields)
    card.is_announced = True
    return schema.ToolCallStart(session_update="tool_call", **fields)


def _card_fields(card: CellCard) -> dict[str, Any]:
    blocks: list[schema.TextContentBlock | schema.ImageContentBlock] = []
    blocks += map(_text_block, card.texts())
    # Each update replaces the content, so pictures wait for the end.
    if card.is_finished:
        blocks += [
            schema.ImageContentBlock(type="image", mime_type=picture.mime, data=picture.data)
            for picture in card.pictures
        ]
    content = [schema.ContentToolCallContent(type="content", content=block) for block in blocks]
    return {
        "tool_call_id": card.id,
        "title": card.full_title,
        "kind": card.kind,
        "status": card.status,
        "content": content,
    }


def _text_block(text: str) -> schema.TextContentBlock:
    """Return a text in which control characters are visible."""
    return schema.TextContentBlock(type="text", text=escape_controls(text))


def option(
    option_id: str,
    name: str,
    category: Literal["mode", "model"],
    value: str,
    rows: Iterable[tuple[str, str, str]],
) -> Option:
    """Return an option of a session.

    Args:
        rows: The values that it may have, with names and descriptions.
    """
    return schema.SessionConfigOptionSelect(
        type="select",
        id=option_id,
        name=name,
        category=category,
        current_value=value,
        options=[
            schema.SessionConfigSelectOption(value=value, name=name, description=description)
            for value, name, description in rows
        ],
    )


# Requests and their answers


def has_forms(capabilities: schema.ClientCapabilities | None) -> bool:
    """Return whether an editor can ask its user for a line of text."""
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and elicitation.form is not None


def initialize_response() -> InitializeResponse:
    """Return what the program can do."""
    return InitializeResponse(
        protocol_version=PROTOCOL_VERSION,
        agent_info=schema.Implementation(name="mahtab-tui", title="mahtab", version=__version__),
        auth_methods=[
            schema.AuthMethodAgent(
                id="settings",
                name="The program's own settings",
                description="Choose a model and give its key with: mahtab-tui config, or the screen's /model.",
            )
        ],
        agent_capabilities=schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
            mcp_capabilities=schema.McpCapabilities(http=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                fork=schema.SessionForkCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
            field_meta=META,
        ),
    )


def list_response(rows: Iterable[SessionRow], next_cursor: str | None) -> ListSessionsResponse:
    """Return a page of saved sessions."""
    sessions = [
        schema.SessionInfo(
            session_id=row.id,
            cwd=row.project,
            title=shorten_line(row.heading),
            updated_at=datetime.fromtimestamp(row.last, UTC).isoformat(),
        )
        for row in rows
    ]
    return ListSessionsResponse(sessions=sessions, next_cursor=next_cursor)


def unknown_method(method: str) -> Exception:
    return RequestError.method_not_found(method)


def as_part(block: Any) -> str | PromptAttachment:
    """Return a part of a question. Raises `BadQuestion`."""
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return PromptAttachment(block.uri, None)
        case schema.ImageContentBlock():
            return PromptAttachment(
                f"picture{SUFFIXES.get(block.mime_type, '')}", Base64(block.data)
            )
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as text):
            # The editor's text, which need not be saved.
            return PromptAttachment(text.uri, text.text.encode("utf-8", "replace"))
        case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents() as blob):
            return PromptAttachment(blob.uri, Base64(blob.blob))
        case _:
            raise BadQuestion("Sound cannot be used.")


def as_settings(servers: Sequence[EditorServer] | None) -> dict[str, McpServer]:
    """Return an editor's MCP servers by name. Raises `SettingsError` if one cannot be used."""
    return {getattr(server, "name", ""): _as_setting(server) for server in servers or ()}


def _as_setting(server: EditorServer) -> McpServer:
    try:
        match server:
            case schema.McpServerStdio():
                variables = {variable.name: variable.value for variable in server.env}
                return McpServer(command=server.command, args=tuple(server.args), env=variables)
            case schema.HttpMcpServer():
                headers = {header.name: header.value for header in server.headers}
                return McpServer(url=server.url, headers=headers)
    except ValueError:
        raise SettingsError(
            f"The editor's MCP server '{server.name}' has an address or a command that cannot be used."
        ) from None
    raise SettingsError("MCP servers are reached by a command or over HTTP only.")
