"""Asks a model, in a separate conversation, whether a question has been answered."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mahtab_tui.agent.results import render_results
from mahtab_tui.agent.state import ExecutionResult, ReflectionResult
from mahtab_tui.llm.prompts import REFLECTION_PROMPT_TEMPLATE

_LIMIT = 4_000
"""Characters of each block and output in the prompt."""
_LAST = 20_000
"""Characters at an answer's end that are searched for the judgement."""


def build_reflection_prompt(question: str, results: Sequence[ExecutionResult]) -> str:
    """Return the prompt that asks for a judgement of correctness and completeness."""
    return REFLECTION_PROMPT_TEMPLATE.format(
        question=question, results=render_results(results, with_code=True, limit=_LIMIT)
    )


def parse_reflection(text: str) -> ReflectionResult | None:
    """Return the last judgement in an answer; None if there is no readable one."""
    text = text[-_LAST:]
    start = text.rfind("{")
    while start >= 0:
        if (found := _judgement(text, start)) is not None:
            return found
        start = text.rfind("{", 0, start)
    return None


def _judgement(text: str, start: int) -> ReflectionResult | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("is_complete"), bool):
        return None
    return ReflectionResult(
        is_complete=value["is_complete"],
        reasoning=str(value.get("reasoning") or ""),
        next_action=str(value.get("next_action") or ""),
    )
