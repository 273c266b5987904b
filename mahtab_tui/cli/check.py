"""``mahtab-tui check``: run a session or a notebook again, and compare."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.cli.headless import INTERRUPTED_CODE, write_stderr
from mahtab_tui.cli.options import (
    Assignments,
    Python,
    echo,
    fail,
    fail_on,
    load_checked_settings,
    require_working_folder,
)
from mahtab_tui.cli.stop_signals import STOP_SIGNALS
from mahtab_tui.export.reading import ENDINGS
from mahtab_tui.session.checking.check import (
    Check,
    CheckReport,
    notebook_check,
    session_check,
    unprotected_reason,
)
from mahtab_tui.session.checking.check_folder import CheckError
from mahtab_tui.session.checking.comparison import Comparison
from mahtab_tui.session.checking.fresh_run import CheckStopped
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import SessionNotFound, find_session

HOLDS_CODE = 0
BROKEN_CODE = 1
"""The exit code if something is different, or has failed."""
NOT_RUN_CODE = 2
"""The exit code if no cell could run."""
NAME_WIDTH = 12
"""The width of the names of cells and variables, in columns."""


def check(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION|FILE]",
            help="The beginning of a session's ID, its title, or a file ending in .ipynb, .py or .md; without it, this folder's last session",
        ),
    ] = None,
    python: Python = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="The most that a cell may take  [default: 600, or ten times as long as it took]",
        ),
    ] = None,
    unprotected: Annotated[
        bool,
        typer.Option(
            "--unprotected",
            help="Run even where the system cannot keep cells from changing files outside the copy",
        ),
    ] = False,
    assignments: Assignments = None,
) -> None:
    """Run the cells of a session or a notebook again, in a copy of the folder, and say what is still
    the same. Exit codes: 0 nothing differs, 1 something differs or failed, 2 no cell could run."""
    require_working_folder()
    settings = load_checked_settings((), assignments, python=python)
    with fail_on(CheckError, SessionNotFound, code=NOT_RUN_CODE):
        checked = _make_check(target, settings)
        if not checked.is_confined and not unprotected:
            fail(
                "The cells were not run, because they could change your files by absolute paths:"
                f" preventing that {unprotected_reason()}. --unprotected runs them.",
                NOT_RUN_CODE,
            )
        report = _run(checked, timeout)
    for line in _lines(report):
        echo(line)
    raise typer.Exit(_exit_code(report))


def _exit_code(report: CheckReport) -> int:
    if not report.holds:
        return BROKEN_CODE
    return HOLDS_CODE if report.has_run else NOT_RUN_CODE


def _make_check(target: str | None, settings: Settings) -> Check:
    """Return the check of a session or a file. Raises `CheckError` and `SessionNotFound`."""
    if target is not None and target.lower().endswith(ENDINGS):
        return notebook_check(Path(target), settings)
    return session_check(find_session(target, Path.cwd() if target is None else None), settings)


def _run(checked: Check, timeout: float | None) -> CheckReport:
    """Run a check with its progress on stderr. Ends the command if a signal stops it."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()

    def report(text: str) -> None:
        if is_terminal:
            write_stderr(f"\r\x1b[K{one_line(text)} …", end="")
        else:
            write_stderr(one_line(text))

    # `nohup` ignores SIGHUP, and that stays so.
    signals = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    old_handlers = {number: signal.signal(number, lambda *_: checked.stop()) for number in signals}
    try:
        return checked.run(report, timeout=timeout)
    except CheckStopped as error:
        fail(str(error), INTERRUPTED_CODE)
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        if is_terminal:
            write_stderr("\r\x1b[K", end="")


def _lines(report: CheckReport) -> Iterator[str]:
    for comparison in report.comparisons:
        yield from _comparison_lines(comparison)
    yield from map(one_line, report.remarks)
    yield f"{report.summary()}."


def _comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line, and below it both sides of a difference."""
    line = f"{comparison.name:<{NAME_WIDTH}} {comparison.verdict}"
    if comparison.reason:
        line += f": {comparison.reason}"
    yield one_line(line)
    for mark, text in (("-", comparison.before), ("+", comparison.now)):
        if text:
            yield from (f"  {mark} {one_line(text_line)}" for text_line in text.split("\n"))
