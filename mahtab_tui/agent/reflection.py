"""Whether a question has been answered: a small conversation of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mahtab_tui.agent.results import render_results
from mahtab_tui.agent.state import ExecutionResult, ReflectionResult
from mahtab_tui.llm.prompts import REFLECTION_PROMPT_TEMPLATE

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


def build_reflection_prompt(question: str, results: Sequence[ExecutionResult]) -> str:
    """The prompt that asks for a judgement of correctness and completeness."""
    return REFLECTION_PROMPT_TEMPLATE.format(question=question, results=render_results(results, with_code=True))


def parse_reflection(text: str) -> ReflectionResult | None:
    """The judgement in an answer; None where there is none that can be read."""
    matched = _OBJECT.search(text)
    try:
        value = json.loads(matched[0]) if matched else None
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("is_complete"), bool):
        return None
    return ReflectionResult(
        is_complete=value["is_complete"],
        reasoning=str(value.get("reasoning") or ""),
        next_action=str(value.get("next_action") or ""),
    )
