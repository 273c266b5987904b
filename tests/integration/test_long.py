"""Long conversations, replayed from what a capable model answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.long.conversations import CONVERSATIONS
from tests.benchmarks.long.questions import Conversation
from tests.benchmarks.long.run import play

RECORDINGS = Path(__file__).parents[1] / "recordings" / "long"
RECORDED = [
    conversation
    for conversation in CONVERSATIONS
    if (RECORDINGS / f"{conversation.name}.jsonl").exists()
]


@pytest.mark.sample(1)
@pytest.mark.parametrize("conversation", RECORDED, ids=lambda candidate: candidate.name)
def test_recorded_conversation_is_right_in_the_replies_that_it_took(
    conversation: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = RECORDINGS / f"{conversation.name}.jsonl"
    outcome = play(conversation, tmp_path, f"replay:{recording}", None)
    assert [answer.status for answer in outcome.answers] == ["right"] * len(conversation.steps)
    assert len(outcome.replies) == len(recording.read_text("utf-8").splitlines())
