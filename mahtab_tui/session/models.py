"""Creates the models of a session from the current settings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import OnNotice, get_llm
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.settings.model import Settings
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ANSWER_TOKENS = 8_192
"""Maximum tokens of an answer if the session's cost is limited: the worst cost of a call must be
known before it."""


class Models:
    """Any thread may call it."""

    def __init__(
        self, log: logging.Logger, settings: Settings, profile: SessionInfo, kernel: Kernel
    ) -> None:
        """kernel: models of the `claude` CLI run in its working directory."""
        self._log = log
        self._settings = settings
        self._profile = profile
        self._kernel = kernel

    def make(
        self, name: str | None = None, *, on_notice: OnNotice | None = None, thinking: bool = True
    ) -> BaseChatModel:
        """Create a model by its name, by default the session's. Raises `ModelError`."""
        with IMPORTS.turn():
            return get_llm(
                name or self._profile.model,
                timeout=self._settings.model_timeout,
                on_notice=on_notice or self._notice,
                folder=lambda: self._kernel.info().folder_here,
                max_tokens=None if self._settings.max_usd is None else ANSWER_TOKENS,
                thinking=thinking,
                **self._settings.model_access(),
            )

    def reflection(self) -> BaseChatModel | None:
        """Create the model for checks and summaries; None if no separate model is set. Raises
        `ModelError`."""
        name = self._settings.reflection_model
        try:
            return self.make(name) if name else None
        except ModelError as error:
            raise ModelError(f"reflection_model: {error}") from None

    def _notice(self, level: str, text: str) -> None:
        emit(self._log, Notice(text, level=level))
