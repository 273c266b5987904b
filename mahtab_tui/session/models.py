"""The models of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.system import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

MAX_ANSWER_TOKENS = 8_192
"""Maximum tokens of an answer if the cost is limited, because the worst case must be known before
each call."""


class Models:
    """Creates the models of a session according to its settings."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def make(self, name: str | None = None) -> BaseChatModel:
        """Create a model by its full name; by default the session's. Raises `ModelError`."""
        with IMPORTS.turn():
            name = name or self._runtime.info.model
            return get_llm(name, on_notice=self._notice, **self.options())

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments for `get_llm`."""
        settings = self._runtime.settings
        return {
            "timeout": settings.model_timeout,
            "folder": lambda: self._runtime.kernel.info().local_folder,
            "max_tokens": None if settings.max_usd is None else MAX_ANSWER_TOKENS,
            **settings.model_access(),
        }

    def reflection(self) -> BaseChatModel | None:
        """Create the model for checks and summaries; None if none is set. Raises `ModelError`."""
        name = self._runtime.settings.reflection_model
        if not name:
            return None
        try:
            return self.make(name)
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _notice(self, level: str, text: str) -> None:
        emit(self._runtime.log, Notice(text, level=level))
