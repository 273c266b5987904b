"""The client's side of the Agent Client Protocol: requests to an agent, and its messages as our values.

No other file of the client imports the protocol's library, so that a change of it is felt here only.
What an agent sends is not trusted: texts and numbers have limits, and what cannot be read is left out.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from acp import RequestError, schema
from acp.core import ClientSideConnection
from pydantic import ValidationError

from mahtab_tui.acp_client.process import AgentProcess
from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.pictures import EncodedPicture
from mahtab_tui.version import __version__
from mahtab_tui.worker.tools.line_diff import unified_diff

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
"""The protocol's error for an agent that is not logged in."""
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
MAX_REASON_CHARS = 300
"""Characters of an agent's error in a sentence for the user."""
MAX_ID_CHARS = 500
"""Maximum length of a session's id, of an option's id, and of each of its values."""
# A file is only compared with its changed version if both together are not larger than this.
MAX_COMPARED_CHARS = 4_000_000
MAX_COMPARED_LINES = 50_000
MAX_OPTION_TEXTS = 1_000
"""Maximum number of an option's texts: its id, the value that it has, and those that it may have."""
MAX_TOKENS = 10**12
"""A larger number of tokens is taken for this one."""
MAX_COST_USD = 1e9
"""A higher cost is not believed."""
MODE_OPTION = "mode"
"""The id of the option by which the user sets an agent's mode, if the agent has no such option."""


class AnswerNews(NamedTuple):
    """A piece of an answer."""

    text: str


class ThoughtNews(NamedTuple):
    """A piece of an agent's thinking."""

    text: str


class ToolNews(NamedTuple):
    """What is new about a tool call. A field is None if it has not changed."""

    id: str
    title: str | None
    tool_name: str | None
    """The tool's own name, which few agents say."""
    kind: str | None
    status: str | None
    arguments: str | None
    """The arguments of the call as JSON."""
    text: str | None
    """What it has returned so far, or would change in files."""
    has_diff: bool
    """Whether the text shows changes of files."""


class PlanNews(NamedTuple):
    """An agent's plan as it is now."""

    steps: list[tuple[str, str]]
    """What each step is and its state: "pending", "in_progress" or "completed"."""


class UsageNews(NamedTuple):
    """How full an agent's context is, and what its session has cost."""

    used_tokens: int
    context_tokens: int
    cost: float | None
    """US dollars since the session began; None if they are unknown."""


class Option(NamedTuple):
    """Something that the user may set in an agent, such as its model."""

    id: str
    value: str
    choices: Sequence[str]
    is_mode: bool = False
    """Whether it is set as a mode, which older agents have beside options."""
    is_boolean: bool = False


class OptionsNews(NamedTuple):
    """All options as they are now."""

    options: Sequence[Option]


class ModeNews(NamedTuple):
    """The mode that an agent has taken."""

    mode: str


Update = AnswerNews | ThoughtNews | ToolNews | PlanNews | UsageNews | OptionsNews | ModeNews


class PermissionChoice(NamedTuple):
    """An answer to an agent that asks for permission."""

    id: str
    name: str
    allows: bool


class TurnEnd(NamedTuple):
    """How an agent has ended its answer."""

    reason: str
    """Such as "end_turn", "refusal" or "cancelled"."""
    usage: Usage
    """The tokens that it has named."""


class AcpSession(NamedTuple):
    """An agent's session."""

    id: str
    options: Sequence[Option]


AskPermission = Callable[[ToolNews, Sequence[PermissionChoice]], Awaitable[str]]
"""Returns the id of the user's choice; empty if the question was stopped."""


class AgentConnection:
    """The connection to an agent.

    Methods raise `ModelError` if the agent refuses or answers with something else, and
    `ConnectionError` if it is gone.
    """

    def __init__(self, name: str, process: AgentProcess, ask: AskPermission) -> None:
        self._name = name
        self._agent = ClientSideConnection(_Client(ask), process)  # type: ignore[arg-type]
        self._capabilities = schema.AgentCapabilities()
        self._login_advice = ""

    async def initialize(self) -> None:
        """Learn what the agent can do."""
        with self._errors_as_sentences("could not be started"):
            response = await self._agent.initialize(
                PROTOCOL_VERSION,
                client_info=schema.Implementation(
                    name="mahtab-tui", title="mahtab", version=__version__
                ),
            )
        if response.protocol_version != PROTOCOL_VERSION:
            raise ModelError(
                f"{self._name} speaks version {response.protocol_version} of the protocol, and not {PROTOCOL_VERSION}."
            )
        if response.agent_capabilities is not None:
            self._capabilities = response.agent_capabilities
        methods = [method.description or method.name for method in response.auth_methods or ()]
        self._login_advice = shorten_line("; or: ".join(methods), MAX_REASON_CHARS)

    @property
    def sees_pictures(self) -> bool:
        """Whether a question may have pictures."""
        prompts = self._capabilities.prompt_capabilities
        return prompts is not None and bool(prompts.image)

    async def new_session(self, folder: Path, server: Sequence[str]) -> AcpSession:
        """Begin a session.

        Args:
            folder: Where the agent works.
            server: The command of the MCP server that it gets.
        """
        with self._errors_as_sentences("could not begin a session"):
            session = await self._agent.new_session(
                str(folder), mcp_servers=[_describe_server(server)]
            )
        if len(session.session_id) > MAX_ID_CHARS:
            raise ModelError(f"{self._name} could not begin a session: its id is too long.")
        return AcpSession(session.session_id, _read_options(session))

    async def reopen_session(
        self, folder: Path, server: Sequence[str], session_id: str
    ) -> AcpSession | None:
        """Resume or load a session; return None if the agent cannot, or has forgotten it.

        Arguments are those of `new_session`.
        """
        servers: list[Any] = [_describe_server(server)]
        cwd = str(folder)
        sessions = self._capabilities.session_capabilities
        response: schema.ResumeSessionResponse | schema.LoadSessionResponse
        try:
            if sessions is not None and sessions.resume is not None:
                response = await self._agent.resume_session(session_id, cwd, mcp_servers=servers)
            elif self._capabilities.load_session:
                response = await self._agent.load_session(cwd, session_id, mcp_servers=servers)
            else:
                return None
        except (RequestError, ValidationError):
            return None
        return AcpSession(session_id, _read_options(response))

    async def set_mode(self, session_id: str, mode: str) -> None:
        """Set the mode of an agent that has no option for it."""
        with self._errors_as_sentences(f"did not set {MODE_OPTION}"):
            await self._agent.set_session_mode(session_id, mode)

    async def set_option(self, session_id: str, option: Option, value: str) -> Sequence[Option]:
        """Set an option that is not the mode; return all options."""
        with self._errors_as_sentences(f"did not set {option.id}"):
            new_value: str | bool = value == "true" if option.is_boolean else value
            response = await self._agent.set_config_option(option.id, session_id, new_value)
        return _read_options(response)

    async def prompt(
        self, session_id: str, text: str, pictures: Sequence[EncodedPicture]
    ) -> TurnEnd:
        """Ask, and wait for the end of the answer."""
        blocks: list[Any] = [schema.TextContentBlock(type="text", text=text)]
        for picture in pictures:
            blocks.append(
                schema.ImageContentBlock(type="image", mime_type=picture.mime, data=picture.data)
            )
        with self._errors_as_sentences("could not answer"):
            response = await self._agent.prompt(session_id, blocks)
        return TurnEnd(response.stop_reason, _read_usage(response.usage))

    async def cancel(self, session_id: str) -> None:
        """Ask the agent to stop its answer."""
        await self._agent.cancel(session_id)

    async def close(self) -> None:
        """End the agent."""
        await self._agent.close()

    @contextmanager
    def _errors_as_sentences(self, problem: str) -> Iterator[None]:
        """Turn an error of the library into `ModelError` with a sentence.

        Args:
            problem: What the agent did not do: the sentence goes on with it after the agent's name.
        """
        try:
            yield
        except ValidationError:
            raise ModelError(f"{self._name} {problem}: its answer cannot be read.") from None
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                advice = f" It says: {self._login_advice}." if self._login_advice else ""
                raise ModelError(f"{self._name} needs a login.{advice}") from None
            raise ModelError(f"{self._name} {problem}: {_describe_error(error)}.") from None


def _describe_server(command: Sequence[str]) -> schema.McpServerStdio:
    program, *arguments = command
    return schema.McpServerStdio(name="mahtab", command=program, args=arguments, env=[])


def _describe_error(error: RequestError) -> str:
    """Return what an agent says of its error, as the end of a sentence."""
    parts = [str(error)]
    if isinstance(error.data, dict):
        parts += [str(error.data[key]) for key in ("details", "message") if key in error.data]
    elif error.data:
        parts.append(str(error.data))
    return shorten_line(": ".join(dict.fromkeys(parts)), MAX_REASON_CHARS).rstrip(".")


class _Client:
    """The methods that an agent may call, by the names that the library expects."""

    def __init__(self, ask: AskPermission) -> None:
        self._ask = ask

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **meta: Any,
    ) -> schema.RequestPermissionResponse:
        # Permissions for always are not offered: agents write them into the project, or keep them
        # where the user does not see them.
        choices = [
            PermissionChoice(option.option_id, option.name, option.kind == "allow_once")
            for option in options
            if option.kind in ("allow_once", "reject_once")
        ]
        try:
            choice_id = await self._ask(_read_tool(tool_call), choices)
        except RecursionError:
            raise RequestError(INVALID_PARAMS, "The tool call is nested too deeply.") from None
        outcome: schema.AllowedOutcome | schema.DeniedOutcome
        outcome = schema.DeniedOutcome(outcome="cancelled")
        if choice_id:
            outcome = schema.AllowedOutcome(outcome="selected", option_id=choice_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: object, **meta: Any) -> None:
        """Do nothing: `AgentProcess` reads updates."""

    async def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RequestError(METHOD_NOT_FOUND, "This client has no files and no terminals.")

    read_text_file = _refuse
    write_text_file = _refuse
    create_terminal = _refuse
    terminal_output = _refuse
    release_terminal = _refuse
    wait_for_terminal_exit = _refuse
    kill_terminal = _refuse
    create_elicitation = _refuse


def read_update(params: object) -> Update | None:
    """Return what an agent tells about its work; None if it is unknown, or nothing for the user.

    Args:
        params: The parameters of a notification, as they came.
    """
    try:
        update = schema.SessionNotification.model_validate(params).update
    except ValidationError:
        return None
    match update:
        case schema.AgentMessageChunk():
            return AnswerNews(_read_block(update.content))
        case schema.AgentThoughtChunk():
            return ThoughtNews(_read_block(update.content))
        case schema.ToolCallStart() | schema.ToolCallProgress():
            # What is nested too deeply cannot be written.
            with suppress(RecursionError):
                return _read_tool(update)
        case schema.AgentPlanUpdate():
            return PlanNews([(entry.content, entry.status) for entry in update.entries])
        case schema.UsageUpdate():
            cost = _read_cost(update.cost)
            return UsageNews(_read_count(update.used), _read_count(update.size), cost)
        case schema.ConfigOptionUpdate():
            return OptionsNews(_read_options(update))
        case schema.CurrentModeUpdate():
            return ModeNews(update.current_mode_id)
    return None


def _read_count(tokens: int | None) -> int:
    """Return a number of tokens that can be calculated with and shown."""
    return min(tokens or 0, MAX_TOKENS)


def _read_cost(cost: schema.Cost | None) -> float | None:
    """Return a cost in US dollars; None if it is unknown, in other money, or not believed."""
    if cost is None or cost.currency != "USD":
        return None
    return cost.amount if 0 <= cost.amount <= MAX_COST_USD else None


def _read_usage(used: schema.Usage | None) -> Usage:
    """Return the tokens of a turn. An agent counts those of the cache beside the input."""
    if used is None:
        return Usage()
    cache_read_tokens = _read_count(used.cached_read_tokens)
    cache_creation_tokens = _read_count(used.cached_write_tokens)
    uncached_tokens = _read_count(used.input_tokens)
    return Usage(
        input_tokens=uncached_tokens + cache_read_tokens + cache_creation_tokens,
        output_tokens=_read_count(used.output_tokens) + _read_count(used.thought_tokens),
        cache_read_tokens=cache_read_tokens,
        cache_creation_tokens=cache_creation_tokens,
    )


def _read_tool(
    call: schema.ToolCallStart | schema.ToolCallProgress | schema.ToolCallUpdate,
) -> ToolNews:
    """Read a tool call. Raises `RecursionError` if its arguments are nested too deeply."""
    text: str | None = None
    has_diff = False
    if call.content is not None:
        texts: list[str] = []
        for part in call.content:
            if isinstance(part, schema.FileEditToolCallContent):
                texts.append(_describe_diff(part))
                has_diff = True
            elif isinstance(part, schema.ContentToolCallContent):
                texts.append(_read_block(part.content))
        text = "\n".join(filter(None, texts))
    arguments: str | None = None
    if call.raw_input is not None:
        arguments = json.dumps(call.raw_input, ensure_ascii=False)
    return ToolNews(
        id=call.tool_call_id,
        title=call.title,
        tool_name=_read_tool_name(call.field_meta),
        kind=call.kind,
        status=call.status,
        arguments=arguments,
        text=text,
        has_diff=has_diff,
    )


def _read_tool_name(meta: Mapping[str, Any] | None) -> str | None:
    """Return the name of a tool as Claude Code says it beside the protocol."""
    details = (meta or {}).get("claudeCode")
    name = details.get("toolName") if isinstance(details, dict) else None
    return name if isinstance(name, str) else None


def _describe_diff(change: schema.FileEditToolCallContent) -> str:
    """Return the changed lines of a file; of a very long one, all lines."""
    old_text = change.old_text or ""
    new_text = change.new_text
    if len(old_text) + len(new_text) <= MAX_COMPARED_CHARS:
        old_lines = old_text.splitlines()
        new_lines = new_text.splitlines()
        if len(old_lines) + len(new_lines) <= MAX_COMPARED_LINES:
            diff = unified_diff(old_lines, new_lines, context_lines=2)
            return "\n".join([f"{change.path}:", *diff])
    removed = old_text.replace("\n", "\n-")
    added = new_text.replace("\n", "\n+")
    return f"{change.path}:\n-{removed}\n+{added}"


def _read_block(block: Any) -> str:
    """Return what a part of a text says; of other things, what they are."""
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return block.uri
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as text):
            return text.text
        case schema.ImageContentBlock():
            return "[a picture]"
    return "[not a text]"


def _read_options(response: Any) -> list[Option]:
    """Return the options in a response or an update.

    If they include no mode, an agent's modes become an option, too. Options that are too long are left
    out.
    """
    options = [_read_option(option) for option in response.config_options or ()]
    # Only responses have modes.
    modes = getattr(response, "modes", None)
    if modes is not None and MODE_OPTION not in [option.id for option in options]:
        choices = [mode.id for mode in modes.available_modes]
        options.append(Option(MODE_OPTION, modes.current_mode_id, choices, is_mode=True))
    return [option for option in options if not _is_too_long(option)]


def _read_option(
    option: schema.SessionConfigOptionBoolean | schema.SessionConfigOptionSelect,
) -> Option:
    if isinstance(option, schema.SessionConfigOptionBoolean):
        value = str(option.current_value).lower()
        return Option(option.id, value, ("true", "false"), is_boolean=True)
    choices: list[str] = []
    for choice in option.options:
        if isinstance(choice, schema.SessionConfigSelectGroup):
            choices += [member.value for member in choice.options]
        else:
            choices.append(choice.value)
    return Option(option.id, option.current_value, choices)


def _is_too_long(option: Option) -> bool:
    texts = (option.id, option.value, *option.choices)
    return len(texts) > MAX_OPTION_TEXTS or max(map(len, texts)) > MAX_ID_CHARS
