"""Work of several steps, replayed from what a capable model answered. The recordings name no times
that a block took, because each run measures others, and the check of figures compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.steps.run import play
from tests.benchmarks.steps.tasks import TASKS, Task

RECORDINGS = Path(__file__).parents[1] / "recordings" / "steps"


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_recorded_work_is_done_in_the_steps_that_it_took(task: Task, tmp_path: Path) -> None:
    recording = RECORDINGS / f"{task.name.replace(' ', '_')}.jsonl"
    replies = recording.read_text("utf-8").splitlines()
    work_folder = tmp_path / "work"
    work_folder.mkdir()
    outcome = play(task, work_folder, f"replay:{recording}")
    assert outcome.problem == ""
    assert len(outcome.replies) == len(replies), "no reply too few, none asked for in vain"
    assert outcome.answer
