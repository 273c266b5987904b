"""Tasks with known answers: what they plant is there, and answers are held against it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mahtab_tui.worker.answers import SearchUsage
from mahtab_tui.worker.search import SearchFailed
from tests.benchmarks.quality.policies import POLICIES, SKILLS, read
from tests.benchmarks.quality.score import HEADING, Score, row, score
from tests.benchmarks.quality.tasks import KINDS, Task, make

TASK = Task("needle", "Where?", "0123456789", int, 7, ((2, 4), (6, 8)))


def answer(value: object, *spans: tuple[int, int]) -> Any:
    return lambda *args, **options: SimpleNamespace(
        value=value, state="answered", usage=SearchUsage(3, 400, 0.5, 1.0), spans=spans
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("megabytes", [0.05, 0.3])
def test_task_is_reproducible_and_its_evidence_is_whole_lines(kind: str, megabytes: float) -> None:
    task = make(kind, megabytes)
    assert task == make(kind, megabytes)
    assert abs(len(task.text) - megabytes * 1e6) < 500
    assert task.spans == tuple(sorted(task.spans))
    for start, end in task.spans:
        assert task.text[end - 1] == "\n"
        assert start == 0 or task.text[start - 1] == "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_answer_follows_only_from_the_evidence(kind: str) -> None:
    task, skill = make(kind, 0.1), SKILLS[kind]
    code = f"import json, re\nvalues = json.loads(said)\nfound = {skill.combine}"
    for text in (task.text, "".join(task.text[start:end] for start, end in task.spans)):
        names = {"said": read(skill, text)}
        exec(code, names)
        assert names["found"] == task.answer


def test_every_policy_has_code_for_every_skill() -> None:
    for codes in POLICIES.values():
        for skill in SKILLS.values():
            for code in codes(skill)[-1:]:
                compile(code, "code", "exec")


def test_answer_is_scored_against_the_known_one_and_its_evidence() -> None:
    done = score(TASK, answer(7, (3, 7)), (SearchFailed,))
    assert done[:5] == (True, "answered", 3, 400, 0.5)
    assert (done.precision, done.recall) == (0.5, 0.5)
    assert score(TASK, answer(8), (SearchFailed,))[0] is False
    assert score(TASK, answer(8), (SearchFailed,)).precision is None


def test_text_is_compared_without_surrounding_blanks() -> None:
    task = TASK._replace(returns=str, answer="AB-1")
    assert score(task, answer(" AB-1\n"), (SearchFailed,)).exact
    assert not score(task, answer("It is AB-1."), (SearchFailed,)).exact


def test_search_without_an_answer_fails_and_the_rest_continues() -> None:
    def search(*args: object, **options: object) -> Any:
        raise SearchFailed("no")

    done = score(TASK, search, (SearchFailed,))
    assert (done.exact, done.state, done.recall) == (False, "failed", 0.0)


def test_table_columns_are_aligned() -> None:
    line = row(TASK, 0.1, Score(True, "answered", 12_345, 1_234_567, 12.5, 100.25, 0.5, 1.0))
    assert len(line) == len(HEADING)
    assert line.index("12,345") + 6 == HEADING.index("calls") + 5
