"""Options shared by several commands, and output and errors of all commands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from mahtab_tui.session.data_files import DataFile

LATEST_SESSION = "latest"
"""Stands for the ID of the session that was saved last."""
ALLOWED_SEQUENCES = re.compile(r"(\A\r\x1b\[K|\x1b\[[\d;]*m)")
"""Matches the control sequences that may be printed: at the beginning of a text the one that rewrites
the line, and anywhere those for colours and styles."""


class _FilteredStream(TextIOWrapper):
    """Replaces a standard stream.

    It passes only text, colours and styles, whoever prints: also the argument parser, and
    tracebacks.
    """

    def __init__(self, stream: TextIOWrapper) -> None:
        """Take over a stream's file. stream: must not be used any more."""
        stream.flush()
        super().__init__(
            stream.buffer,
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._stream = stream  # its destruction would close the file

    def write(self, text: str, /) -> int:
        # The text between allowed sequences is at even indexes, the sequences are at odd ones.
        pieces = ALLOWED_SEQUENCES.split(text)
        pieces[::2] = map(plain, pieces[::2])
        super().write("".join(pieces))
        return len(text)


def guard_terminal() -> None:
    """Filter what is written to stderr, and to stdout if it is a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper) and (name == "stderr" or stream.isatty()):
            setattr(sys, name, _FilteredStream(stream))


def echo(text: str, *, to_stderr: bool = False) -> None:
    """Print a text, which may come from elsewhere, without its control sequences."""
    typer.echo(plain(text), err=to_stderr)


def warn(sentence: str) -> None:
    """Print a sentence to stderr, after the program's name."""
    echo(f"mahtab-tui: {sentence}", to_stderr=True)


def require_working_folder() -> None:
    """End the command if the working directory cannot be used, for example after its deletion."""
    with fail_on(SettingsError):
        project_folder()


def fail(sentence: str, code: int = 2) -> NoReturn:
    """End the command with a sentence and an exit code."""
    warn(sentence)
    raise typer.Exit(code)


@contextmanager
def fail_on(*errors: type[Exception], code: int = 2) -> Iterator[None]:
    """End the command with the message of one of these errors, if the block raises it."""
    try:
        yield
    except errors as error:
        fail(str(error), code)


def parse_path(text: str) -> Path:
    """Return an argument as a path.

    Ends the command if it is empty, which `Path` would take for the working folder.
    """
    if not text:
        fail("The name of a file or folder is empty. For the working folder, give a dot.")
    return Path(text)


def enter_folder_and_inspect_files(paths: Sequence[Path] | None) -> list[DataFile]:
    """Return the files among the arguments of ``--load``, and work in the folder among them.

    Ends the command if there are several folders, or if something cannot be read.
    """
    if not paths:
        return []
    from mahtab_tui.session.data_files import CannotLoad, inspect_files

    folders = [path for path in paths if _is_folder(path)]
    file_paths = [path for path in paths if path not in folders]
    if len(folders) > 1:
        fail(f"Give only one folder to work in: {folders[0]} or {folders[1]}.")
    with fail_on(CannotLoad):
        files = inspect_files(file_paths)
    for folder in folders:
        try:
            os.chdir(folder)
        except OSError as error:
            fail(f"Cannot work in {folder}: {error.strerror}.")
    return files


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder. Ends the command if the system cannot say it."""
    try:
        return path.is_dir()
    except OSError as error:
        fail(f"Cannot read {path}: {error.strerror}.")


def check_reachable(files: Sequence[DataFile], kernel: str | None) -> None:
    """End the command if files are given to a kernel that has an address.

    It may run on a machine that does not have the files.

    Args:
        files: The files.
        kernel: The kernel's address; None if it has none.
    """
    if kernel and files:
        fail(
            f"The kernel at {kernel} does not see this machine's files. Load {files[0].path.name} in a cell, from a path that it sees."
        )


def names_kernel(python: str | None, kernel: str | None, assignments: list[str] | None) -> bool:
    """Return whether the options choose the kernel, so that a resumed session's own is not used.

    Args:
        python: The argument of ``--python``.
        kernel: The argument of ``--kernel``.
        assignments: The arguments of ``--set``.
    """
    keys = {assignment.partition("=")[0].strip() for assignment in assignments or ()}
    return bool(python or kernel or keys & {"python", "kernel"})


def prompt_answer(prompt: str, hidden: bool) -> str | None:
    """Ask on the terminal.

    Args:
        prompt: The question.
        hidden: Whether the terminal hides what is typed.

    Returns:
        The answer; None if the input has ended or the user has pressed Ctrl+C.
    """
    try:
        text = plain(prompt).strip()
        answer = typer.prompt(
            text, prompt_suffix=" ", default="", show_default=False, hide_input=hidden, err=True
        )
        return str(answer)
    except typer.Abort:
        return None


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="claude, claude:NAME, openai:NAME, llamacpp, ollama:NAME, demo … (mahtab-tui help models)",
    ),
]
Approval = Annotated[
    str | None,
    typer.Option(
        help="ask: the model's code waits for you; review: it runs, then you keep or undo its changes; auto: it just runs"
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        help="The kernel's Python: an interpreter, or the folder of a virtual environment"
    ),
]
KernelAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help='Where the kernel runs: ssh://HOST, "command: docker exec -i box python3", or jupyter:NAME',
    ),
]
MaxUsd = Annotated[
    float | None, typer.Option(help="The most that the session may cost, in US dollars")
]
CodeDir = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=parse_path,
        help="The folder that search_code and read_file cannot leave  [default: .]",
    ),
]
SkillsDir = Annotated[
    list[Path] | None,
    typer.Option(
        "--skills-dir",
        metavar="FOLDER",
        parser=parse_path,
        help="A folder of skills; may be repeated. If names clash, the last folder wins",
    ),
]
Load = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        parser=parse_path,
        help="Load a file as a variable named after it, or work in a folder",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print every event as one line of JSON")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any setting; may be repeated. mahtab-tui config lists the settings",
    ),
]


def load_checked_settings(
    models: Sequence[Literal["model", "sub_model"]], assignments: list[str] | None, **values: object
) -> Settings:
    """Load the settings. Ends the command if they are invalid or a model is unavailable.

    Args:
        models: The settings whose models must be available.
        assignments: The arguments of ``--set``.
        **values: Settings with options of their own, which override `assignments`; None if the option
            was not given.
    """
    options = {key: value for key, value in values.items() if value is not None}
    with fail_on(SettingsError):
        if assignments:
            from mahtab_tui.settings.values import parse_assignments

            options = parse_assignments(assignments) | options
        settings = load_settings(**options)
    for sentence in settings.untrusted:
        warn(sentence)

    for setting in models:
        model_name = getattr(settings, setting)
        if model_name is not None:
            _check_model(setting, model_name, settings)
    return settings


def _check_model(setting: str, model_name: str, settings: Settings) -> None:
    """End the command if a model is unavailable.

    Args:
        setting: The setting that names it.
        model_name: Its name.
        settings: The settings, which say how providers are reached.
    """
    # Imported late, so that the screen opens sooner.
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.providers import check_model

    try:
        check_model(model_name, **settings.model_access())
    except ModelError as error:
        fail(str(error) if setting == "model" else f"{setting}: {error}")
