"""The commands of the command line, each loaded when it runs: the screen waits for none of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from mahtab_tui.cli.printing import fail

COMMANDS = {
    "ask": "mahtab_tui.cli.main:ask",
    "rlm": "mahtab_tui.cli.searching:rlm",
    "export": "mahtab_tui.cli.sessions:export",
    "watch": "mahtab_tui.cli.main:watch",
    "help": "mahtab_tui.cli.main:help_",
    "doctor": "mahtab_tui.cli.main:doctor",
    "mcp": "mahtab_tui.cli.mcp:mcp_app",
    "skills": "mahtab_tui.cli.skills:skills_app",
    "config": "mahtab_tui.cli.config:config_app",
    "sessions": "mahtab_tui.cli.sessions:sessions_app",
    "kernels": "mahtab_tui.cli.kernels:kernels_app",
}
"""Each command's function, or a `Typer` of its subcommands, in the order of the help."""


class Commands(TyperGroup):
    """The group of all `COMMANDS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _sentence_about_unknown_option():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _sentence_about_unknown_option():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _loaded(cmd_name)
        return super().get_command(ctx, cmd_name)


@contextmanager
def _sentence_about_unknown_option() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (
            type(error).__name__ != "NoSuchOption"
        ):  # typer has a copy of click in some versions, so the class is not imported
            raise
        name, known = error.option_name, error.possibilities or ()  # type: ignore[attr-defined]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        fail(
            f"There is no option {name}.{f' Did you mean {near[0]}?' if near else ' --help lists the options.'}"
        )


def _loaded(name: str) -> Any:
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.callback()(lambda: None)  # keeps a single command one of a group
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name)
    else:
        group.command(name)(found)
    commands = typer.main.get_command(group)
    assert isinstance(commands, TyperGroup)
    return commands.commands[name]
