"""Suggests how an input may continue, by a model that the user has set for this."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Variable
from mahtab_tui.llm.prompts import suggestion_request
from mahtab_tui.llm.spending import Spending
from mahtab_tui.llm.usage import estimated_usage, is_priced, model_name, told_usage, worst_cost

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk


@dataclass(eq=False, repr=False)
class Suggestions:
    """Asks a model for suggestions, one at a time. After its first failure, which is reported,
    there are no more."""

    _log: logging.Logger
    _make_llm: Callable[[], BaseChatModel]
    _variables: Callable[[], Sequence[Variable]]
    _spending: Spending
    _secrets: Secrets

    def __post_init__(self) -> None:
        self._llm: BaseChatModel | None = None
        self._failed = False

    def suggest(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        """Return the rest of the last line; empty if there is no suggestion, or it is no longer
        wanted. Waits for the model."""
        if self._failed:
            return ""
        try:
            return rest_of_line(text, self._said(text, python, wanted))
        except (
            Exception
        ) as error:  # the outermost frame of the editor's thread: models fail in many ways
            self._failed = True
            emit(self._log, Notice(f"Suggestions are off: {error}", level="warning"))
            return ""

    def close(self) -> None:
        close = getattr(self._llm, "close", None)
        if close is not None:
            close()

    def _said(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        try:
            variables = self._variables()
        except KernelError:  # the kernel is busy
            variables = ()
        if self._llm is None:
            self._llm = self._make_llm()
        llm, request = self._llm, suggestion_request(self._secrets.told(text), variables, python)
        with self._spending.afford(
            model_name(llm) or llm._llm_type,
            lambda: worst_cost(llm, (words for _, words in request)),
        ):
            whole: AIMessageChunk | None = None
            try:
                for chunk in llm.stream(request):
                    whole = chunk if whole is None else whole + chunk
                    if not wanted():
                        break
            finally:
                if whole is not None:  # even if the call has failed
                    used = told_usage(llm, whole.usage_metadata, whole.response_metadata)
                    if used is None and (is_priced(llm) or not wanted()):
                        used = estimated_usage(
                            llm, (words for _, words in request), str(whole.text)
                        )
                    if used is not None:
                        self._spending.count(used)
                        emit(self._log, used.changed(source="suggestion"))
        return (
            str(whole.response_metadata.get("final_text") or whole.text)
            if whole is not None and wanted()
            else ""
        )


def rest_of_line(text: str, said: str) -> str:
    """Return what a model's answer adds to the last line of a text: one line, without fences and
    without repeating the line.

    Empty if it holds hidden characters: the user would enter what they cannot see.
    """
    lines = [line for line in plain(said).strip("\n").split("\n") if not line.startswith("```")]
    first = lines[0] if lines else ""
    line = text.rpartition("\n")[2].strip()
    if line and first.lstrip().startswith(line):
        first = first.lstrip()[len(line) :]
    return "" if visible(first) != first else first.rstrip()
