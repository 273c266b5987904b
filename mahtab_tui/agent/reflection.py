"""Asks a model to judge whether results answer a question, and reads its judgement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mahtab_tui.agent.host import ExecutionResult
from mahtab_tui.agent.state import ReflectionResult
from mahtab_tui.agent.step_results import render_results
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
    ending = text[-_MAX_JUDGEMENT_CHARS:]
    start = ending.rfind("{")
    while start >= 0:
        judgement = _read_object(ending, start)
        if isinstance(judgement.get("is_complete"), bool):
            return ReflectionResult(
                is_complete=judgement["is_complete"],
                reasoning=str(judgement.get("reasoning") or ""),
                next_action=str(judgement.get("next_action") or ""),
            )
        start = ending.rfind("{", 0, start)
    return None


def _read_object(text: str, start: int) -> dict[str, Any]:
    """Return the JSON object that begins at a place in a text; an empty one if none does."""
    try:
        value = json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
