"""The benchmark of long conversations: its truths are computed, and differ from outdated
answers."""

from __future__ import annotations

from io import StringIO

import pandas as pd
import pytest

from tests.benchmarks.answers.tables import SOURCES
from tests.benchmarks.long.conversations import CONVERSATIONS
from tests.benchmarks.long.questions import PATTERNS, Conversation, PatternQuestion
from tests.benchmarks.long.run import is_right

QUESTIONS = 15


def questions_of(conversation: Conversation) -> list[PatternQuestion]:
    return conversation.questions(pd.read_csv(StringIO(SOURCES[conversation.table]())))


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda candidate: candidate.name)
def test_truths_differ_from_outdated_answers(conversation: Conversation) -> None:
    questions = questions_of(conversation)
    assert len(questions) == QUESTIONS
    for question in questions:
        assert question.truth == question.truth, "a number"
        assert is_right(question, f"It is {question.truth}.")
        if question.stale is not None:
            assert not is_right(question, f"It is {question.stale}."), question.text
    with_stale = [question for question in questions if question.stale is not None]
    assert len(with_stale) >= 8, "most questions can be answered from an outdated definition"


def test_each_pattern_occurs_in_several_conversations_at_several_positions() -> None:
    for pattern in PATTERNS:
        positions = [
            position
            for conversation in CONVERSATIONS
            for position, step in enumerate(conversation.steps)
            if step.pattern == pattern
        ]
        assert len(positions) >= 6
        assert len(set(positions)) >= 4


def test_questions_say_what_they_change() -> None:
    texts = [question.text for question in questions_of(CONVERSATIONS[0])]
    assert (
        texts[0] == "Call a day warm if its temp_max is at least 20. How many warm days are there?"
    )
    assert texts[5].startswith("Suppose, for this question only, that a day is warm if ")
    assert texts[11].startswith("Go back to the definition of warm before its last change. ")
    assert texts[8] == "How many days that are both warm and windy are there?"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("There are 1,234.57 of them.", True),
        ("1234.568", True),
        ("It was 99.", False),
        ("", False),
    ],
)
def test_number_is_right_if_the_answer_states_it(answer: str, right: bool) -> None:
    assert is_right(PatternQuestion("inherit", "?", 1234.57, None), answer) is right


def test_name_is_right_if_the_answer_states_it_as_a_word() -> None:
    question = PatternQuestion("inherit", "?", "AK", "TX")
    assert is_right(question, "Most are in AK.")
    assert not is_right(question, "Most are in TX.")
    assert not is_right(question, "They are in ALASKA.")
