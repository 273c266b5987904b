"""The command line: ``mahtab-tui`` and its subcommands."""

from __future__ import annotations

import difflib
import errno
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mahtab_tui import __version__
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.options import (
    Approval,
    Assignments,
    CodeDir,
    Json,
    KernelAddress,
    MaxUsd,
    Model,
    Python,
    SkillsDir,
    checked_settings,
    echo,
    ensure_folder,
    fail,
    fail_on,
    guard_terminal,
    warn,
)
from mahtab_tui.system import Lazy

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Record
    from mahtab_tui.export.reading import NotebookFile
    from mahtab_tui.session.info import SessionBackend
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.settings.model import Settings

COMMANDS = {
    "ask": "mahtab_tui.cli.main:ask",
    "rlm": "mahtab_tui.cli.headless:rlm",
    "export": "mahtab_tui.cli.sessions:export",
    "watch": "mahtab_tui.cli.main:watch",
    "help": "mahtab_tui.cli.main:help_",
    "doctor": "mahtab_tui.cli.main:doctor",
    "mcp": "mahtab_tui.cli.admin:mcp_app",
    "skills": "mahtab_tui.cli.admin:skills_app",
    "config": "mahtab_tui.cli.admin:config_app",
    "sessions": "mahtab_tui.cli.sessions:sessions_app",
}
"""A function or a `Typer` with subcommands, in the order of the help."""
_CELLS = (".ipynb", ".py", ".md")
_LATEST = "latest"
_DEFAULT_VALUES = {"--resume": _LATEST, "--attach": "."}


_REFUSALS = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS),
}
"""System limits and full disks: errors that a single sentence describes."""


class Commands(TyperGroup):
    """The group of all commands. If the first word is none, all words are files and folders for the
    screen, which finds them in the context's `args`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = _with_optional_value(args)
        with _sentence_about_unknown_option():
            _, words, _ = self.make_parser(ctx).parse_args(list(args))
            if not words or words[0] in COMMANDS:
                return super().parse_args(ctx, args)
            ctx.allow_interspersed_args = True
            # Not the group's own, which would take the first word for a command.
            return super(TyperGroup, self).parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _sentence_about_unknown_option():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _load_command(cmd_name)
        return super().get_command(ctx, cmd_name)


def _with_optional_value(words: list[str]) -> list[str]:
    """Give ``--resume`` and ``--attach`` their default values; Typer has no optional values."""
    for index, word in enumerate(words):
        following = words[index + 1 : index + 2]
        if word in _DEFAULT_VALUES and (not following or following[0].startswith("-")):
            return [*words[: index + 1], _DEFAULT_VALUES[word], *words[index + 1 :]]
    return words


@contextmanager
def _sentence_about_unknown_option() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Typer contains a copy of click in some versions, so the class is not imported.
        if type(error).__name__ != "NoSuchOption":
            raise
        name, known = error.option_name, error.possibilities or ()  # type: ignore[attr-defined]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}?" if near else "--help lists the options."
        fail(f"There is no option {name}. {hint}")


def _load_command(name: str) -> Any:
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(module), attribute)
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.callback()(lambda: None)  # makes even a single command a group
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name)
    else:
        group.command(name)(found)
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
Load = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH", help="Load a file as a variable named after it, or work in a folder"
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
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
            metavar="FILE.ipynb", help="Keep a new or existing notebook of the session up to date"
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version")
    ] = False,
) -> None:
    """You and a language model work in one live Python namespace. Without a command, opens the
    screen.

    mahtab-tui data.csv opens it with the file as a variable, mahtab-tui FOLDER in that folder;
    --load PATH is the same. mahtab-tui FILE.ipynb, FILE.py or FILE.md shows the file's cells, which
    can be run and saved.
    """
    if context.invoked_subcommand is not None:
        if any(context.params.values()):
            fail(
                f"Give the options after the command: mahtab-tui {context.invoked_subcommand} --help lists them."
            )
        # `mahtab_tui.__main__` has disabled it; the screen's `Collector` keeps it so for longer.
        gc.enable()
        return
    cells, load = _sort_paths(context.args, load)
    if query is not None:
        if theme or resume or continue_ or no_share or no_store or notebook:
            fail(
                "--query opens no screen: leave out --theme, --resume, --continue, --no-share, --no-store and --notebook."
            )
        gc.enable()
        load = [*load, *cells]
        ask(query, model, approval, python, load, skills_dir, code_dir, max_usd, assignments, json)
        return
    if no_store and (resume or continue_):
        fail("--no-store starts a session that is not saved: leave out --resume and --continue.")
    if no_store and notebook:
        fail("--no-store saves nothing of the session: leave out --notebook.")
    if json:
        fail("--json works only with --query or a command such as ask.")
    ensure_folder()
    opened: NotebookFile | None = None
    if cells or notebook:
        from mahtab_tui.cli.session_setup import open_notebook

        opened = open_notebook(cells, notebook)
    files = _open_paths(load)
    settings = checked_settings(
        (),
        assignments,
        model=model,
        approval=approval,
        python=python,
        kernel=kernel,
        theme=theme,
        share=False if no_share or no_store else None,
        skills_dir=skills_dir or None,
        code_dir=code_dir,
        max_usd=max_usd,
    )
    _check_reachable(files, settings.kernel)
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.providers import check_name, full_name

    # Ask mode reports a model that cannot be reached; Python works without it.
    with fail_on(ModelError):
        check_name(full_name(settings.model or "demo", settings.provider))
    from mahtab_tui.tui.terminal_app import Collector

    collector = Collector()
    from mahtab_tui.tui.open import ASK_HINT, TerminalUnavailable, check_terminal, open_screen

    with fail_on(TerminalUnavailable):
        check_terminal(ASK_HINT)
    show = partial(open_screen, settings, collector=collector)
    if no_store:
        from mahtab_tui.cli.session_setup import backend_without_store

        backend = Lazy.of(backend_without_store(settings))
        closed = show(backend, files=files, notebook=opened, no_trace=True)
        raise typer.Exit(closed.code)
    project = Path.cwd()
    named = {pair.partition("=")[0].strip() for pair in assignments or ()}
    names_kernel = bool(python or kernel or named & {"python", "kernel"})
    past: list[Record]
    kernel_notice = ""
    while True:  # one session after another, as the user switches between them
        name, past = project.name or "session", []
        if resume or continue_:
            from mahtab_tui.cli.session_setup import resume_backend

            found = resume_backend(
                settings,
                None if resume == _LATEST else resume,
                project if continue_ else None,
                opened,
                its_kernel=not names_kernel,
            )
            backend, name, past = Lazy.of(found.backend), found.name, found.past
            opened = found.notebook
            _check_reachable(files, found.kernel)
            kernel_notice = found.problem
        else:
            backend = Lazy(partial(_new_backend, settings, project))
            if settings.kernel is not None:
                backend.get()  # ends the command if the address is invalid
        try:
            closed = show(
                backend,
                name=name,
                past=past,
                kernel_notice=kernel_notice,
                files=files,
                notebook=opened,
            )
        finally:
            if backend.made:
                backend.get().release()
        if not closed.next_session:
            break
        resume, continue_, files, opened = closed.next_session, False, [], None
        kernel_notice, names_kernel = "", False
    if backend.made:
        from mahtab_tui.cli.session_setup import print_how_to_continue

        is_old = bool(resume or continue_)
        print_how_to_continue(backend.get(), name, resumed=is_old, cell=closed.running_cell)
    raise typer.Exit(closed.code)


def _sort_paths(words: Sequence[str], load: list[Path] | None) -> tuple[list[Path], list[Path]]:
    """Return the files that are opened as cells, and the other paths."""
    cells, loaded = list[Path](), list(load or ())
    for word in words:
        if not os.path.lexists(word):
            near = difflib.get_close_matches(word, COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            fail(
                f"There is no file, folder or command {word}.{hint} mahtab-tui --help lists the commands."
            )
        is_cells = word.lower().endswith(_CELLS) and not os.path.isdir(word)
        (cells if is_cells else loaded).append(Path(word))
    return cells, loaded


def _check_reachable(files: Sequence[DataFile], kernel: str | None) -> None:
    if kernel and files:
        fail(
            f"{files[0].path} is on this machine, but the kernel runs on another ({kernel}). Load it in a cell, from a path there."
        )


def _new_backend(settings: Settings, project: Path) -> SessionBackend:
    from mahtab_tui.cli.session_setup import new_backend

    return new_backend(settings, project)


def ask(
    question: Annotated[str, typer.Argument(help="The question")],
    model: Model = None,
    approval: Approval = None,
    python: Python = None,
    load: Load = None,
    skills_dir: SkillsDir = None,
    code_dir: CodeDir = None,
    max_usd: MaxUsd = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Ask without a screen: the answer goes to stdout, code and output to stderr.

    Piped input becomes the variable stdin_text. Exit codes: 0 answered, 1 the model or the kernel
    failed, 2 wrong arguments, 3 code was refused because nobody could approve it (give --approval
    auto), 130 interrupted.
    """
    if not question.strip():
        fail('Give a question: mahtab-tui ask "question".')
    files = _open_paths(load)
    settings = checked_settings(
        ("model",),
        assignments,
        model=model,
        approval=approval,
        python=python,
        skills_dir=skills_dir or None,
        code_dir=code_dir,
        max_usd=max_usd,
    )
    from mahtab_tui.cli.headless import ask_once

    raise typer.Exit(ask_once(question, settings, files, as_json=json))


def watch(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", help="Its name or process id  [default: this folder's]"
        ),
    ] = None,
) -> None:
    """Watch a session on another screen, read-only."""
    from mahtab_tui.tui.open import TerminalUnavailable, watch_live

    ensure_folder()
    with fail_on(TerminalUnavailable):
        raise typer.Exit(watch_live(what))


def help_(
    topic: Annotated[
        str | None, typer.Argument(help="A topic of the manual; without one, the list of topics")
    ] = None,
) -> None:
    """Show a page of the manual: keys, models, search, agents and more."""
    from mahtab_tui.cli.admin import overview, show_page
    from mahtab_tui.manual import TopicNotFound, page

    with fail_on(TopicNotFound):
        show_page(page(topic).text if topic else overview())


def doctor() -> None:
    """Check this machine, and show what to do about anything missing."""
    from mahtab_tui.cli.admin import report

    ensure_folder()
    for line in report():
        echo(line)


def _open_paths(paths: Sequence[Path] | None) -> list[DataFile]:
    """Change to the folder among the paths, and check the files."""
    if not paths:
        return []
    from mahtab_tui.session.loading import CannotLoad, inspect_files

    folders = [path for path in paths if path.is_dir()]
    if len(folders) > 1:
        fail(f"Give only one folder to work in: {folders[0]} or {folders[1]}.")
    try:
        files = inspect_files([path for path in paths if path not in folders])
        for folder in folders:
            os.chdir(folder)
    except CannotLoad as error:
        fail(str(error))
    except OSError as error:
        fail(f"Cannot work in {folders[0]}: {error.strerror}.")
    return files


def main() -> None:
    # An encoding that lacks a character must not lose the answer.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    guard_terminal()
    try:
        app(prog_name="mahtab-tui")
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        named = f": {error.filename}" if error.filename else ""
        why = f"{error.strerror}{named}"
        warn(one_line(f"The system refused a resource: {why}. See ulimit -a and df."))
        raise SystemExit(1) from None
