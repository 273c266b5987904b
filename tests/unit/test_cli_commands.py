"""The registry of the command line's commands."""

from __future__ import annotations

import sys

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from mahtab_tui.cli.main import COMMANDS, app, main


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_loads(name: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group)
    assert name in group.list_commands(context)
    found = group.get_command(context, name)
    assert found is not None
    assert found.name == name
    assert found.get_short_help_str()


def test_there_are_no_other_commands() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    assert group.get_command(typer.Context(group), "no-command") is None


@pytest.mark.parametrize(
    "words", [["--modle", "demo"], ["ask", "--modle", "demo", "why?"], ["--modle=demo"]]
)
def test_misspelt_option_suggests_the_right_one(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "There is no option --modle. Did you mean --model?" in done.output


def test_misspelt_screen_option_is_reported_before_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mahtab-tui", "--modle", "demo"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "There is no option --modle. Did you mean --model?" in capsys.readouterr().err
