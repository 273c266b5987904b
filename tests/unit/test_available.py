"""Which models there are, and why some cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.llm.providers import availability_problem, found_models
from tests.fake_claude import install_fake_claude


def test_claude_is_offered_where_it_is_on_the_path(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    (claude,) = [model for model in found_models([], [], {}) if model.spec.startswith("claude")]
    assert "not on the PATH" in claude.problem
    fake = install_fake_claude(project / "bin", "answers", answers=["Hi."])
    monkeypatch.setenv("PATH", str(fake.folder))
    found = {model.spec: model.problem for model in found_models([], [], {})}
    assert (found["claude"], found["claude:opus"], found["demo"]) == ("", "", "")
    assert not fake.starts


def test_chosen_models_come_before_used_ones_without_duplicates(project: Path) -> None:
    found = found_models(
        [("openai:mine", "answers now"), ("demo", "set as sub_model")],
        ["demo", "replay:missing.jsonl"],
        {},
    )
    assert [(model.spec, model.about) for model in found[:3]] == [
        ("openai:mine", "answers now"),
        ("demo", "set as sub_model"),
        ("replay:missing.jsonl", "used before"),
    ]
    assert "missing.jsonl cannot be read" in found[2].problem
    specs = [model.spec for model in found]
    assert len(specs) == len(set(specs))


def test_missing_key_is_named_with_its_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "set OPENAI_API_KEY in the environment or in .env" in availability_problem("openai:", {})
    assert availability_problem("openai:", {"api_keys": {"openai": "sk"}}) == ""
    assert availability_problem("openai:", {"base_url": "http://127.0.0.1:1"}) == ""
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert availability_problem("openai:gpt-5", {}) == ""


def test_unknown_model_name_is_reported(project: Path) -> None:
    assert "There is no model 'nonsense'" in availability_problem("nonsense", {})
