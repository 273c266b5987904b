"""Changes a setting while a session runs."""

from __future__ import annotations

from typing import Any

from mahtab_tui.llm.providers import check_model, default_model
from mahtab_tui.session.session import Session

_OF_THE_MODEL = frozenset(
    {"provider", "base_url", "api_keys", "claude_api_key", "model_timeout", "max_usd"}
)
"""Settings that require a new model."""
_OF_THE_AGENT = _OF_THE_MODEL | {
    "max_turns",
    "max_history",
    "reflection",
    "reflection_model",
    "output_answers",
}
"""Settings that require to configure the agent again."""
_AT_ONCE = _OF_THE_AGENT | {
    "model",
    "approval",
    "approval_rules",
    "reload",
    "sub_model",
    "agent_gone",
}
"""Settings that take effect at once, as do those that start with ``rlm_``."""


def change_setting(session: Session, key: str, value: Any) -> bool:
    """Change a setting for this session; returns whether it takes effect before the next start.
    Raises `ModelError`."""
    settings, agent = session.settings, session.agent
    if value is not None and key.endswith("_model") and key != "embedding_model":
        check_model(value, **settings.model_access())
    if key == "model":
        session.set_model(value or default_model())
    elif key == "approval":
        session.set_approval(value)
    settings.change(key, value)
    if key in _OF_THE_MODEL:
        session.renew_model()
    if key in _OF_THE_AGENT:
        agent.change(
            lambda it: it.configure(
                settings.max_turns,
                settings.reflection,
                session.models.reflection(),
                settings.max_history,
                output_answers=settings.output_answers,
            )
        )
    elif key == "reload":
        session.kernel.set_reload(value)
    return key in _AT_ONCE or key.startswith("rlm_")
