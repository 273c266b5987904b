"""The models of a session, and its live settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import check_model, default_model, get_llm
from mahtab_tui.system import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.session.components import Components
    from mahtab_tui.session.session import Session

_MODEL_SETTINGS = frozenset(
    "provider base_url api_keys claude_api_key model_timeout max_usd".split()
)
"""Settings that require a new model."""
_AGENT_SETTINGS = _MODEL_SETTINGS.union(
    "max_turns max_history reflection reflection_model output_answers".split()
)
"""Settings that require reconfiguring the agent."""
_IMMEDIATE_SETTINGS = _AGENT_SETTINGS.union(
    "model approval approval_rules reload sub_model".split()
)
"""Settings that take effect at once, as do those that start with ``rlm_``."""


def change_setting(session: Session, key: str, value: Any) -> bool:
    """Change a setting; returns whether it takes effect before the next start. Raises
    `ModelError`."""
    settings, agent = session.settings, session.agent
    if value is not None and key.endswith("_model") and key != "embedding_model":
        check_model(value, **settings.model_access())
    if key == "model":
        session.set_model(value or default_model())
    elif key == "approval":
        session.info.set_approval(value)
    settings.change(key, value)
    if key in _MODEL_SETTINGS:
        session.renew_model()
    if key in _AGENT_SETTINGS:
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
    return key in _IMMEDIATE_SETTINGS or key.startswith("rlm_")


ANSWER_TOKENS = 8_192
"""Maximum tokens of an answer if the cost is limited, because the worst case must be known before
each call."""


class Models:
    def __init__(self, parts: Components) -> None:
        self._parts = parts

    def make(self, name: str | None = None) -> BaseChatModel:
        """Create a model; by default the session's. Raises `ModelError`."""
        with IMPORTS.turn():
            name = name or self._parts.info.model
            return get_llm(name, on_notice=self._notice, **self.options())

    def options(self) -> dict[str, Any]:
        """Return the arguments for `get_llm`."""
        return {
            "timeout": self._parts.settings.model_timeout,
            "folder": lambda: self._parts.kernel.info().local_folder,
            "max_tokens": None if self._parts.settings.max_usd is None else ANSWER_TOKENS,
            **self._parts.settings.model_access(),
        }

    def reflection(self) -> BaseChatModel | None:
        """Create the model for checks and summaries; None if none is set. Raises `ModelError`."""
        name = self._parts.settings.reflection_model
        try:
            return self.make(name) if name else None
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _notice(self, level: str, text: str) -> None:
        emit(self._parts.log, Notice(text, level=level))
