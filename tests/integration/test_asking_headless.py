"""A question without a screen, where nobody is there who could approve code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mahtab_tui.headless import ANSWERED, REFUSED, ask_once
from mahtab_tui.settings import load_settings

CODE = "open('made', 'w')"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """One that answers with code, and in words when that was refused."""
    answers = [{"text": f"```python\n{CODE}\n```"}, {"text": "In words.", "repeat": True}]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers))
    return f"replay:{path}"


def test_code_that_nobody_approves_is_told_and_not_run(
    model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert ask_once("Make it.", load_settings(model=model), [], as_json=False) == REFUSED
    told = capsys.readouterr()
    assert told.out == "In words.\n"
    assert told.err == f"mahtab-tui: Nobody could approve this code, so it was not run (--approval auto runs it):\n{CODE}\n"
    assert not (project / "made").exists()


def test_as_json_it_is_an_event(model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert ask_once("Make it.", load_settings(model=model), [], as_json=True) == REFUSED
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [CODE in event["text"] for event in events if event["tag"] == "notice"] == [True]


def test_approved_beforehand_it_runs(model: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", (project / "nothing").open("w+"))
    assert ask_once("Make it.", load_settings(model=model, approval="auto", reflection="never"), [], as_json=False) == ANSWERED
    assert (project / "made").exists()
    assert "approve" not in capsys.readouterr().err
