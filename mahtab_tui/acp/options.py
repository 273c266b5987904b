"""The options of a session that an editor shows, its approval mode and its model; and the MCP
servers that an editor brings along."""

from __future__ import annotations

from typing import cast, get_args

from acp import schema

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.choices import offered_models
from mahtab_tui.session import Session
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import ApprovalMode, SettingsError

Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean
EditorServer = (
    schema.McpServerStdio | schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer
)

APPROVAL = "approval"
MODEL = "model"
_APPROVAL_WORDS = {
    "ask": ("Ask first", "The model's code waits for you"),
    "review": ("Review", "Code runs at once; you keep or undo what it has changed"),
    "auto": ("Run at once", "Code runs without asking"),
}


def config_options(session: Session) -> list[Option]:
    """Return the options with their present values."""
    approvals = [
        schema.SessionConfigSelectOption(value=mode, name=words[0], description=words[1])
        for mode, words in _APPROVAL_WORDS.items()
    ]
    return [
        schema.SessionConfigOptionSelect(
            type="select",
            id=APPROVAL,
            name="Approval",
            category="mode",
            current_value=session.info.approval,
            options=approvals,
        ),
        schema.SessionConfigOptionSelect(
            type="select",
            id=MODEL,
            name="Model",
            category="model",
            current_value=session.model,
            options=_model_choices(session),
        ),
    ]


def _model_choices(session: Session) -> list[schema.SessionConfigSelectOption]:
    configured = [(session.model, "answers now")]
    choices = offered_models(configured, (), session.settings.model_access())
    return [
        schema.SessionConfigSelectOption(
            value=choice.spec, name=choice.spec, description=choice.about
        )
        for choice in choices
        if not choice.problem and not choice.is_provider
    ]


def set_option(session: Session, option: str, value: str) -> None:
    """Set an option for this session. Raises `ModelError` if it is not one, or has no such value."""
    if option == MODEL:
        session.set_model(value)
    elif option == APPROVAL and value in get_args(ApprovalMode):
        session.info.set_approval(cast(ApprovalMode, value))
    else:
        raise ModelError(f"There is no option {option} with the value {value}.")


def as_setting(server: EditorServer) -> tuple[str, McpServer]:
    """Return the name of an editor's MCP server, and the server as a setting. Raises
    `SettingsError` if it cannot be one."""
    name = getattr(server, "name", "")
    try:
        match server:
            case schema.McpServerStdio():
                variables = {variable.name: variable.value for variable in server.env}
                return name, McpServer(
                    command=server.command, args=tuple(server.args), env=variables
                )
            case schema.HttpMcpServer():
                headers = {header.name: header.value for header in server.headers}
                return name, McpServer(url=server.url, headers=headers)
    except ValueError:
        raise SettingsError(
            f"The editor's MCP server '{name}' has an address or a command that cannot be used."
        ) from None
    raise SettingsError("MCP servers are reached by a command or over HTTP only.")
