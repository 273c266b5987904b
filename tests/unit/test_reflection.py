"""The check of a result: its prompt, and what is read from its answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.agent import REFLECTION_PROMPT_TEMPLATE, build_reflection_prompt
from mahtab_tui.agent.nodes import parse_reflection
from mahtab_tui.agent.state import ExecutionResult


def result(code: str, output: str) -> ExecutionResult:
    return ExecutionResult(
        step=0, block=0, cell=4, code=code, output=output, is_error=False, status="ok", note=""
    )


def test_the_prompt_has_the_question_the_code_and_the_output() -> None:
    prompt = build_reflection_prompt("how many {rows}?", [result("len(df)", "42")])
    assert "how many {rows}?" in prompt
    assert '<assistant-repl-in cell="4">len(df)</assistant-repl-in>' in prompt
    assert '<assistant-repl-out cell="4" status="ok">42</assistant-repl-out>' in prompt


def test_the_template_asks_for_correctness_and_completeness() -> None:
    assert "Correctness" in REFLECTION_PROMPT_TEMPLATE
    assert "Completeness" in REFLECTION_PROMPT_TEMPLATE
    assert "is_complete" in REFLECTION_PROMPT_TEMPLATE


def test_long_output_is_judged_by_both_ends() -> None:
    prompt = build_reflection_prompt("how many?", [result("x", "a" * 9_000 + "z")])
    assert len(prompt) < 6_000
    assert "z</assistant-repl-out>" in prompt


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ('{"is_complete": true, "reasoning": "yes", "next_action": ""}', True),
        ('```json\n{"is_complete": false}\n```', False),
        ('I think {x} is right.\n{"is_complete": true} That is all {…}.', True),
        (
            'First {"is_complete": false}, but in the end {"is_complete": true, "reasoning": "a } and a {"}',
            True,
        ),
    ],
)
def test_judgement_is_found_in_surrounding_text(text: str, complete: bool) -> None:
    found = parse_reflection(text)
    assert found is not None
    assert found["is_complete"] is complete


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "{",
        "{}",
        '{"is_complete": "true"}',
        '{"is_complete": 1}',
        '["is_complete"]',
        '{"a":' * 3_000,
        "{" * 20_000,
        '{"is_complete": true',
    ],
)
def test_malformed_judgement_is_none(text: str) -> None:
    assert parse_reflection(text) is None


@given(st.booleans(), st.text(), st.text(), st.text(st.characters(blacklist_characters="{")))
def test_every_judgement_can_be_parsed(
    complete: bool, reasoning: str, action: str, after: str
) -> None:
    given = {"is_complete": complete, "reasoning": reasoning, "next_action": action}
    assert parse_reflection(f"So: {json.dumps(given)}{after}") == given
