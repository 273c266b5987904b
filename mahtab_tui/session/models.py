"""The models of a session, its live settings, and suggestions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, emit, warn
from mahtab_tui.bus.sanitize import plain, visible
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Variable
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.prompts import suggestion_request
from mahtab_tui.llm.providers import check_model, default_model, get_llm
from mahtab_tui.llm.usage import Spending
from mahtab_tui.system import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AnyMessage

    from mahtab_tui.session.components import Components
    from mahtab_tui.session.session import Session

_MODEL_SETTINGS = frozenset(
    {"provider", "base_url", "api_keys", "claude_api_key", "model_timeout", "max_usd"}
)
"""Settings that require a new model."""
_AGENT_SETTINGS = _MODEL_SETTINGS | {
    "max_turns",
    "max_history",
    "reflection",
    "reflection_model",
    "output_answers",
}
"""Settings that require reconfiguring the agent."""
_IMMEDIATE_SETTINGS = _AGENT_SETTINGS | {
    "model",
    "approval",
    "approval_rules",
    "reload",
    "sub_model",
}
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


class Suggestions:
    """Requests inline suggestions, one at a time, until the first failure."""

    def __init__(
        self,
        log: logging.Logger,
        make_llm: Callable[[], BaseChatModel],
        variables: Callable[[], Sequence[Variable]],
        spending: Spending,
        secrets: Secrets,
    ) -> None:
        self._log = log
        self._make_llm = make_llm
        self._variables = variables
        self._spending = spending
        self._secrets = secrets
        self._llm: BaseChatModel | None = None
        self._failed = False

    def suggest(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        """Return the rest of the last line; empty if there is no suggestion, or if it is no longer
        wanted. Waits."""
        if self._failed:
            return ""
        try:
            return rest_of_line(text, self._completion(text, python, wanted))
        except Exception as error:  # the thread's outermost frame; models fail in many ways
            self._failed = True
            warn(self._log, f"Suggestions are off: {error}")
            return ""

    def close(self) -> None:
        close = getattr(self._llm, "close", None)
        if close is not None:
            close()

    def _completion(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        try:
            variables = self._variables()
        except KernelError:  # the kernel is busy
            variables = ()
        with IMPORTS.turn():
            from langchain_core.messages import HumanMessage, SystemMessage

            from mahtab_tui.agent.model_calls import call_model
        if self._llm is None:
            self._llm = self._make_llm()
        text = self._secrets.redact_for_model(text)
        (_, rules), (_, request) = suggestion_request(text, variables, python)
        host = _Suggesting(self._log, _Unwanted(wanted), self._secrets, self._spending)
        messages: list[AnyMessage] = [SystemMessage(rules), HumanMessage(request)]
        answer = call_model(host, self._llm, messages, None, "suggestion", lambda sentence: None)
        if answer.failure:
            raise ModelError(answer.failure)
        return "" if answer.stopped else answer.text


class _Unwanted(threading.Event):
    def __init__(self, wanted: Callable[[], bool]) -> None:
        super().__init__()
        self._wanted = wanted

    def is_set(self) -> bool:
        return not self._wanted()


@dataclass
class _Suggesting:
    log: logging.Logger
    cancelled: threading.Event
    secrets: Secrets
    spending: Spending


def rest_of_line(text: str, answer: str) -> str:
    """Return what a model's answer adds to the last line; empty if it contains hidden characters,
    which the user would submit unseen."""
    lines = [line for line in plain(answer).strip("\n").split("\n") if not line.startswith("```")]
    first = lines[0] if lines else ""
    line = text.rpartition("\n")[2].strip()
    if line and first.lstrip().startswith(line):
        first = first.lstrip()[len(line) :]
    return "" if visible(first) != first else first.rstrip()


ANSWER_TOKENS = 8_192
"""Maximum tokens of an answer if the cost is limited, because the worst case must be known before
each call."""


class Models:
    """Creates the session's models."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._settings = parts.settings
        self._info = parts.info
        self._kernel = parts.kernel

    def make(self, name: str | None = None, *, thinking: bool = True) -> BaseChatModel:
        """Create a model; by default the session's. Raises `ModelError`."""
        with IMPORTS.turn():
            return get_llm(
                name or self._info.model,
                on_notice=self._notice,
                thinking=thinking,
                **self.options(),
            )

    def options(self) -> dict[str, Any]:
        """Return the arguments for `get_llm`."""
        return {
            "timeout": self._settings.model_timeout,
            "folder": lambda: self._kernel.info().local_folder,
            "max_tokens": None if self._settings.max_usd is None else ANSWER_TOKENS,
            **self._settings.model_access(),
        }

    def reflection(self) -> BaseChatModel | None:
        """Create the model for checks and summaries; None if none is set. Raises `ModelError`."""
        name = self._settings.reflection_model
        try:
            return self.make(name) if name else None
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _notice(self, level: str, text: str) -> None:
        emit(self._log, Notice(text, level=level))
