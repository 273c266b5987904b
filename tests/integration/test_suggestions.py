"""Suggestions of a model, by the session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.models import rest_of_line
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.fake_claude import install_fake_claude
from tests.integration.sessions import Watched


@pytest.mark.parametrize(
    ("text", "suggestion", "rest"),
    [
        ("x = su", "m(y)", "m(y)"),
        ("x = su", "x = sum(y)", "m(y)"),
        ("a\n    x = su", "```python\nx = sum(y)\nz\n```", "m(y)"),
        ("x = ", " 3  \nmore", " 3"),
        ("x", "", ""),
        ("x", "\x1b]52;c;eA==\x07y", "y"),
    ],
)
def test_rest_of_the_line_is_suggested(text: str, suggestion: str, rest: str) -> None:
    assert rest_of_line(text, suggestion) == rest


def test_suggestions_are_off_by_default(home: Path) -> None:
    assert load_settings().suggestion_model is None


def session_with(project: Path, line: str, store: Watched) -> Session:
    (project / "cheap.jsonl").write_text(line + "\n", "utf-8")
    settings = load_settings(model="demo", suggestion_model=f"replay:{project / 'cheap.jsonl'}")
    return Session(settings, ProcessKernel(), HeadlessFrontend(), store=store, name="test")


def test_suggestions_use_their_own_model_and_are_counted(project: Path) -> None:
    store = Watched()
    session = session_with(project, '{"text": "m(y)", "repeat": true}', store)
    session.start()
    try:
        assert session.suggest is not None
        assert session.suggest("x = su", True, lambda: True) == "m(y)"
        store.wait(tags.USAGE, source="suggestion")
        assert session.suggest("x = su", True, lambda: False) == ""
    finally:
        session.close()


def test_claude_suggests_without_thinking_and_within_the_cost_limit(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = install_fake_claude(
        project / "bin",
        "answers",
        answers=["m(y)"],
        watched=["CLAUDE_CODE_DISABLE_THINKING", "CLAUDE_CODE_MAX_OUTPUT_TOKENS"],
    )
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    session = Session(
        load_settings(model="demo", suggestion_model="claude:haiku", max_usd=5.0),
        ProcessKernel(),
        HeadlessFrontend(),
        store=Watched(),
    )
    session.start()
    try:
        assert session.suggest is not None
        assert session.suggest("x = su", True, lambda: True).strip() == "m(y)"
        assert fake.starts[0]["env"] == {
            "CLAUDE_CODE_DISABLE_THINKING": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
        }
    finally:
        session.close()


def test_failing_suggestion_model_is_reported_once(project: Path) -> None:
    store = Watched()
    session = session_with(project, '{"text": "m(y)"}', store)
    session.start()
    try:
        assert session.suggest is not None
        answers = [session.suggest("x = su", True, lambda: True) for _ in range(4)]
        assert answers == ["m(y)", "", "", ""]
        store.wait(tags.NOTICE, level="warning")
        assert (
            len([record for record in store.records if "Suggestions are off" in record.text]) == 1
        )
    finally:
        session.close()
