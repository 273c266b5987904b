"""The registry of the command line's commands."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup

from mahtab_tui.cli.commands import COMMANDS
from mahtab_tui.cli.main import app


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_loaded_from_where_it_is_said_to_be(name: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group)
    assert name in group.list_commands(context)
    found = group.get_command(context, name)
    assert found is not None
    assert found.name == name
    assert found.get_short_help_str()


def test_there_is_no_other_command() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    assert group.get_command(typer.Context(group), "no-command") is None
