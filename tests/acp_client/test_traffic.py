"""What agents have said, as it was recorded, becomes the recorded entries."""

from __future__ import annotations

import sys

import pytest

from tests.acp_client.conftest import OpenAnswering
from tests.acp_client.traffic import QUESTIONS, SERVERS, converse, recorded, recording


@pytest.mark.parametrize("name", QUESTIONS)
def test_recorded_answers_are_the_recorded_entries(answering: OpenAnswering, name: str) -> None:
    program = str(SERVERS / "replaying_agent.py")
    it = answering(command=[sys.executable, program, str(recording(name))])
    assert converse(it, QUESTIONS[name]) == recorded(name, "screen")
