"""How an input may go on, by a model that the person chose for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError, Variable
from mahtab_tui.llm.prompts import suggestion_request
from mahtab_tui.llm.spending import Spending
from mahtab_tui.llm.usage import estimated_usage, is_priced, model_name, told_usage, worst_cost

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk


class Suggestions:
    """Asks one model, one text after the other. Its first failure is told, and ends it."""

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
        """The rest of the last line; empty where there is none to suggest, or it is no longer wanted. Waits for the model."""
        if self._failed:
            return ""
        try:
            return rest_of_line(text, self._said(text, python, wanted))
        except Exception as error:  # the outermost frame of the editor's thread: a model fails in its own ways
            self._failed = True
            emit(self._log, Notice(f"There are no suggestions from now on: {error}", level="warning"))
            return ""

    def close(self) -> None:
        """Let go of the model."""
        close = getattr(self._llm, "close", None)
        if close is not None:
            close()

    def _said(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        try:
            variables = self._variables()
        except KernelError:  # it is busy: the model does without
            variables = ()
        if self._llm is None:
            self._llm = self._make_llm()
        llm, request = self._llm, suggestion_request(self._secrets.mask(text), variables, python)
        with self._spending.afford(model_name(llm) or llm._llm_type, lambda: worst_cost(llm, (words for _, words in request))):
            whole: AIMessageChunk | None = None
            try:
                for chunk in llm.stream(request):
                    whole = chunk if whole is None else whole + chunk
                    if not wanted():
                        break
            finally:
                if whole is not None:
                    self._count(llm, request, whole, only_if_told=wanted() and not is_priced(llm))
        return str(whole.response_metadata.get("final_text") or whole.text) if whole is not None and wanted() else ""

    def _count(self, llm: BaseChatModel, request: Sequence[tuple[str, str]], whole: AIMessageChunk, *, only_if_told: bool) -> None:
        """Count a call, also one that failed. only_if_told: count it only where the model has told what it has used."""
        used = told_usage(llm, whole.usage_metadata, whole.response_metadata)
        if used is None and not only_if_told:
            used = estimated_usage(llm, (words for _, words in request), str(whole.text))
        if used is not None:
            self._spending.count(used)
            emit(self._log, used.changed(source="suggestion"))


def rest_of_line(text: str, said: str) -> str:
    """What a model's words add to the last line of a text: without fences, without the line itself said again, one line.
    Nothing where characters hide in it: the person would enter what they have not seen."""
    lines = [line for line in plain(said).strip("\n").split("\n") if not line.startswith("```")]
    first = lines[0] if lines else ""
    line = text.rpartition("\n")[2].strip()
    if line and first.lstrip().startswith(line):
        first = first.lstrip()[len(line) :]
    return "" if visible(first) != first else first.rstrip()
