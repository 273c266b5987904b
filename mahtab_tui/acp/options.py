"""The options of a session that an editor shows: its approval mode and its model."""

from __future__ import annotations

from typing import cast, get_args

from mahtab_tui.acp.protocol import Option, option
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.choices import ConfiguredModel, offered_models
from mahtab_tui.session import Session
from mahtab_tui.settings.model import ApprovalMode

APPROVAL = "approval"
MODEL = "model"
_APPROVAL_MODES = (
    ("ask", "Ask first", "The model's code waits for you"),
    ("review", "Review", "Code runs at once; you keep or undo what it has changed"),
    ("auto", "Run at once", "Code runs without asking"),
)


def config_options(session: Session) -> list[Option]:
    """Return the options with their present values."""
    configured = [ConfiguredModel(session.model, "answers now")]
    models = [
        (choice.spec, choice.spec, choice.about)
        for choice in offered_models(configured, (), session.settings.model_access())
        if not choice.problem and not choice.is_provider
    ]
    return [
        option(APPROVAL, "Approval", "mode", session.info.approval, _APPROVAL_MODES),
        option(MODEL, "Model", "model", session.model, models),
    ]


def set_option(session: Session, option_id: str, value: str) -> None:
    """Set an option for this session. Raises `ModelError` if it is not one, or has no such value."""
    if option_id == MODEL:
        session.set_model(value)
    elif option_id == APPROVAL and value in get_args(ApprovalMode):
        session.info.set_approval(cast(ApprovalMode, value))
    else:
        raise ModelError(f"There is no option {option_id} with the value {value}.")
