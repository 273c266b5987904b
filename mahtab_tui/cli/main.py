"""The command line: ``mahtab-tui``, which opens the screen, and its commands, each loaded when it is
called."""

from __future__ import annotations

import difflib
import errno
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import (
    LATEST_SESSION,
    Approval,
    Assignments,
    CodeDir,
    KernelAddress,
    Load,
    MaxUsd,
    Model,
    Python,
    SkillsDir,
    fail,
    guard_terminal,
    parse_path,
    warn,
)

if TYPE_CHECKING:
    from mahtab_tui.cli.screen import ScreenOptions
    from mahtab_tui.session.open_session import Interface

COMMANDS = {
    "ask": "mahtab_tui.cli.ask:ask",
    "rlm": "mahtab_tui.cli.rlm:rlm",
    "export": "mahtab_tui.cli.sessions:export",
    "watch": "mahtab_tui.cli.sessions:watch",
    "check": "mahtab_tui.cli.check:check",
    "help": "mahtab_tui.cli.manual:help_",
    "doctor": "mahtab_tui.cli.doctor:doctor",
    "mcp": "mahtab_tui.cli.mcp:mcp_app",
    "acp": "mahtab_tui.cli.acp:acp_app",
    "skills": "mahtab_tui.cli.skills:skills_app",
    "config": "mahtab_tui.cli.config:config_app",
    "sessions": "mahtab_tui.cli.sessions:sessions_app",
}
"""A function or a `Typer` with subcommands, in the order of the help."""
CELL_FILE_SUFFIXES = (".ipynb", ".py", ".md")
"""Suffixes of files whose cells are shown; others become variables."""
OPTION_DEFAULTS = {"--resume": LATEST_SESSION, "--attach": "."}
"""Values of options that may be given without one."""
LINEAR_OPTION = "--linear"
LINEAR_FORMS: dict[str, Interface] = {"lines": "linear", "plain": "plain"}
"""The interfaces that `LINEAR_OPTION` names."""

RESOURCE_ERRNOS = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
}
"""System limits and full disks: errors that a single sentence describes."""


class Commands(TyperGroup):
    """The group of all commands. If the first word is not a command, all words are treated as paths
    to open: `screen` gets them as the context's `args`."""

    # `Any`, because Typer contains a copy of click in some versions, and click's types would be
    # others then.

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = _add_option_defaults(args)
        with _explain_unknown_option():
            _, words, _ = self.make_parser(ctx).parse_args(list(args))
            if not words or words[0] in COMMANDS:
                return super().parse_args(ctx, args)
            ctx.allow_interspersed_args = True
            # Skip the group's own parser, which would take the first word for a command.
            return super(TyperGroup, self).parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _explain_unknown_option():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _load_command(cmd_name)
        return super().get_command(ctx, cmd_name)


def _add_option_defaults(words: list[str]) -> list[str]:
    """Insert the value of the first option that has a default and was given without a value; Typer
    has no options with optional values."""
    # What follows this option is never its value, but perhaps a file.
    words = [f"{LINEAR_OPTION}=lines" if word == LINEAR_OPTION else word for word in words]
    for index, word in enumerate(words):
        if word not in OPTION_DEFAULTS:
            continue
        is_last = index + 1 == len(words)
        if is_last or words[index + 1].startswith("-"):
            return [*words[: index + 1], OPTION_DEFAULTS[word], *words[index + 1 :]]
    return words


@contextmanager
def _explain_unknown_option() -> Iterator[None]:
    """End the command with a sentence if it was given an option that does not exist."""
    try:
        yield
    except Exception as error:
        # Typer contains a copy of click in some versions, so the class is not imported.
        if type(error).__name__ != "NoSuchOption":
            raise
        name = error.option_name  # type: ignore[attr-defined]
        option_names = error.possibilities or ()  # type: ignore[attr-defined]
        similar = difflib.get_close_matches(name, option_names, n=1, cutoff=0.5)
        hint = f"Did you mean {similar[0]}?" if similar else "--help lists the options."
        fail(f"There is no option {name}. {hint}")


def _load_command(name: str) -> Any:
    """Import a command, and return it as click's command or group."""
    module, _, attribute = COMMANDS[name].partition(":")
    implementation = getattr(import_module(module), attribute)

    # Typer makes a group of a single command only if it has a callback.
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.callback()(lambda: None)
    if isinstance(implementation, typer.Typer):
        group.add_typer(implementation, name=name)
    else:
        group.command(name)(implementation)
    commands = typer.main.get_command(group)
    assert isinstance(commands, TyperGroup)
    return commands.commands[name]


app = typer.Typer(
    name="mahtab-tui",
    cls=Commands,
    help="You and a language model work in one live Python namespace. Without a command, opens the screen.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="[FILE|FOLDER]... | COMMAND [ARGS]...",
)


def _print_version(is_given: bool) -> None:
    if is_given:
        from mahtab_tui.version import __version__

        typer.echo(f"mahtab-tui {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def screen(
    context: typer.Context,
    model: Model = None,
    approval: Approval = None,
    python: Python = None,
    kernel: KernelAddress = None,
    theme: Annotated[str | None, typer.Option(help="A theme's name")] = None,
    linear: Annotated[
        str | None,
        typer.Option(
            LINEAR_OPTION,
            metavar="[=plain]",
            help="Print line by line, in the terminal's own scrollback; =plain for screen readers",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="[ID]",
            help="Resume a session with its saved variables; without ID, the last one",
        ),
    ] = None,
    no_share: Annotated[
        bool, typer.Option("--no-share", help="Do not let agents join the session")
    ] = False,
    no_store: Annotated[
        bool,
        typer.Option(
            "--no-store",
            help="Save nothing: no conversation, variables or inputs. Agents cannot join",
        ),
    ] = False,
    continue_: Annotated[
        bool, typer.Option("--continue", help="Continue this folder's last session")
    ] = False,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="QUESTION", help="Answer one question without a screen, like the command ask"
        ),
    ] = None,
    load: Load = None,
    notebook: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.ipynb",
            parser=parse_path,
            help="Keep a new or existing notebook of the session up to date",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="With --query: print every event as one line of JSON")
    ] = False,
    skills_dir: SkillsDir = None,
    code_dir: CodeDir = None,
    max_usd: MaxUsd = None,
    assignments: Assignments = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    """You and a language model work in one live Python namespace. Without a command, opens the
    screen.

    mahtab-tui data.csv opens it with the file as a variable, mahtab-tui FOLDER in that folder;
    --load PATH is the same. mahtab-tui FILE.ipynb, FILE.py or FILE.md shows the file's cells, which
    can be run and saved.
    """
    if context.invoked_subcommand is not None:
        _refuse_options_of_screen(context)
        # `mahtab_tui.__main__` has disabled it; the screen's `Collector` keeps it so for longer.
        gc.enable()
        return

    if resume == "":
        fail("--resume got an empty ID. Without an ID, it resumes the last session.")
    if linear is not None and linear not in LINEAR_FORMS:
        fail(f"--linear={linear} does not exist: use --linear or --linear=plain.")
    cell_files, other_paths = _sort_paths(context.args)

    from mahtab_tui.cli.screen import ScreenOptions, open_sessions

    options = ScreenOptions(
        model=model,
        approval=approval,
        python=python,
        kernel=kernel,
        theme=theme,
        linear=None if linear is None else LINEAR_FORMS[linear],
        resume=resume,
        continue_session=continue_,
        share=not no_share and not no_store,
        store=not no_store,
        load=[*(load or ()), *other_paths],
        cell_files=cell_files,
        notebook=notebook,
        skills_dir=skills_dir,
        code_dir=code_dir,
        max_usd=max_usd,
        assignments=assignments,
    )
    if query is not None:
        _answer_query(query, options, json=json)
        return
    _refuse_contradictions(options, json=json)
    raise typer.Exit(open_sessions(options))


def _refuse_options_of_screen(context: typer.Context) -> None:
    """End the command if options of the screen stand before the name of a command."""
    if any(context.params.values()):
        fail(
            f"Give the options after the command: mahtab-tui {context.invoked_subcommand} --help lists them."
        )


def _answer_query(query: str, options: ScreenOptions, *, json: bool) -> None:
    """Answer one question without a screen, as the command `ask` does.

    Args:
        query: The question.
        options: The options, of which those about the screen must not be given.
        json: Whether every event is printed as one line of JSON.
    """
    screen_options = (options.theme, options.linear, options.notebook)
    saves_and_shares = options.store and options.share
    if any(screen_options) or not saves_and_shares or options.resume == LATEST_SESSION:
        fail(
            "--query opens no screen: leave out --theme, --linear, --no-share, --no-store and --notebook, and give --resume an ID."
        )
    gc.enable()
    from mahtab_tui.cli.ask import ask

    ask(
        query,
        model=options.model,
        approval=options.approval,
        python=options.python,
        kernel=options.kernel,
        # Without a screen, files with cells are only loaded.
        load=[*options.load, *options.cell_files],
        continue_=options.continue_session,
        session=options.resume,
        skills_dir=options.skills_dir,
        code_dir=options.code_dir,
        max_usd=options.max_usd,
        assignments=options.assignments,
        json=json,
    )


def _refuse_contradictions(options: ScreenOptions, *, json: bool) -> None:
    """End the command if options of the screen contradict each other.

    Args:
        options: The options.
        json: Whether ``--json`` was given.
    """
    if not options.store and (options.resume or options.continue_session):
        fail("--no-store starts a session that is not saved: leave out --resume and --continue.")
    if not options.store and options.notebook:
        fail("--no-store saves nothing of the session: leave out --notebook.")
    if json:
        fail("--json works only with --query or a command such as ask.")


class _SortedPaths(NamedTuple):
    """The paths on the command line, by what is done with them."""

    cell_files: list[Path]
    """Files that are opened as cells."""
    other_paths: list[Path]
    """Files that become variables, and folders to work in."""


def _sort_paths(words: Sequence[str]) -> _SortedPaths:
    """Return what to do with each path. Ends the command if there is no such path."""
    paths = _SortedPaths([], [])
    for word in words:
        path = parse_path(word)
        if not os.path.lexists(word):
            similar = difflib.get_close_matches(word, COMMANDS, n=1)
            hint = f" Did you mean {similar[0]}?" if similar else ""
            fail(
                f"There is no file, folder or command {word}.{hint} mahtab-tui --help lists the commands."
            )
        if word.lower().endswith(CELL_FILE_SUFFIXES) and not os.path.isdir(word):
            paths.cell_files.append(path)
        else:
            paths.other_paths.append(path)
    return paths


def main() -> None:
    """Run the command line."""
    # An encoding that lacks a character must not lose the answer.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    guard_terminal()
    try:
        app(prog_name="mahtab-tui")
    except OSError as error:
        if error.errno not in RESOURCE_ERRNOS:
            raise
        reason = error.strerror
        if error.filename:
            reason = f"{reason}: {error.filename}"
        warn(one_line(f"The system refused a resource: {reason}. See ulimit -a and df."))
        raise SystemExit(1) from None
