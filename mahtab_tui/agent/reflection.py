"""Asks a model to judge whether results answer a question, and reads its judgement."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mahtab_tui.agent.host import ExecutionResult
from mahtab_tui.agent.state import ReflectionResult
from mahtab_tui.agent.tool_calls import render_results
from mahtab_tui.llm.prompts import REFLECTION_PROMPT_TEMPLATE

_MAX_CHECKED_CHARS = 4_000
"""Maximum characters of each code block and output in the prompt of the check."""
_MAX_JUDGEMENT_CHARS = 20_000
"""Characters at the end of an answer to search for the judgement."""


def build_reflection_prompt(question: str, results: Sequence[ExecutionResult]) -> str:
    """Return the request to judge whether results answer a question."""
    return REFLECTION_PROMPT_TEMPLATE.format(
        question=question, results=render_results(results, _MAX_CHECKED_CHARS, with_code=True)
    )


def parse_reflection(text: str) -> ReflectionResult | None:
    """Return the last judgement in an answer; None if it has none."""
    # Models write words, and sometimes examples, around the object that was asked for.
    text = text[-_MAX_JUDGEMENT_CHARS:]
    decoder = json.JSONDecoder()
    start = text.rfind("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("is_complete"), bool):
            return ReflectionResult(
                is_complete=value["is_complete"],
                reasoning=str(value.get("reasoning") or ""),
                next_action=str(value.get("next_action") or ""),
            )
        start = text.rfind("{", 0, start)
    return None
