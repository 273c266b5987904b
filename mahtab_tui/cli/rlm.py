"""``mahtab-tui rlm``: a search over a long text, without a screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.cli.headless import FAILED_CODE, INTERRUPTED_CODE, WRONG_ARGUMENTS_CODE
from mahtab_tui.cli.options import Assignments, Json, Model, fail, load_checked_settings, parse_path
from mahtab_tui.cli.search_report import SearchReporter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.starting_model import default_model
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.search.limits import merge_limits
from mahtab_tui.search.search import Search, SearchSettings
from mahtab_tui.settings.model import Settings
from mahtab_tui.worker.rlm.answers import needs_code
from mahtab_tui.worker.rlm.contexts import ContextError

if TYPE_CHECKING:
    from mahtab_tui.search.chosen_models import ModelSpec
    from mahtab_tui.search.limits import SearchLimits


def rlm(
    query: Annotated[str | None, typer.Argument(help="What to find out")] = None,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-", help="A text file, a folder of text files, or - for piped input"
        ),
    ] = None,
    model: Model = None,
    sub_model: Annotated[str | None, typer.Option(help="A cheaper model for the parts")] = None,
    max_depth: Annotated[
        int | None,
        typer.Option(
            help="Max depth of calls; those at this depth run no code. The question is at depth 0  [default: 1]"
        ),
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Turns of one call")] = None,
    max_calls: Annotated[
        int | None, typer.Option(help="Model calls of the whole search  [default: 200]")
    ] = None,
    max_usd: Annotated[float | None, typer.Option(help="US dollars of the whole search")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Seconds of the whole search")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Model calls at once")] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=parse_path, help="Write the events to this file, as JSON lines"
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Allow more than 50 sub-calls, which are refused otherwise"),
    ] = False,
    json: Json = False,
    assignments: Assignments = None,
) -> None:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox
    and calls itself on parts.

    The answer goes to stdout, progress to stderr. Exit codes: 0 answered, 1 no answer, 2 wrong
    arguments, 4 a partial answer, 130 interrupted.
    """
    if query is None or not query.strip() or not source:
        fail('Give a question and a file: mahtab-tui rlm "question" FILE, or - for piped input.')

    settings = load_checked_settings(
        ("model", "sub_model"), assignments, model=model, sub_model=sub_model
    )
    try:
        limits = merge_limits(
            settings.rlm_limits(),
            max_depth=max_depth,
            max_turns=max_turns,
            max_calls=max_calls,
            max_usd=max_usd,
            max_seconds=max_seconds,
            concurrency=concurrency,
        )
    except ValueError as error:
        fail(f"--{str(error).replace('_', '-', 1)}")
    exit_code = search_once(
        query,
        source,
        settings,
        limits,
        model=settings.model or default_model(),
        log=log,
        as_json=json,
        yes=yes,
    )
    raise typer.Exit(exit_code)


def search_once(
    query: str,
    source: str,
    settings: Settings,
    limits: SearchLimits,
    *,
    model: ModelSpec,
    log: Path | None,
    as_json: bool,
    yes: bool,
) -> int:
    """Search, print the answer, and return the exit code.

    Args:
        query: What to find out.
        source: A file, a folder, or "-" for piped input.
        settings: The settings of the models.
        limits: What the search may use.
        model: Answers the question.
        log: Write the events to this file.
        as_json: Print every event instead of the answer.
        yes: Run large fan-outs, which are refused otherwise.
    """
    secrets = Secrets(settings.secrets)
    reporter = SearchReporter(secrets, as_json=as_json)
    try:
        if log is not None and not reporter.open_log(log):
            return WRONG_ARGUMENTS_CODE

        reporter.search = Search(
            reporter.send,
            model_options=lambda: {"timeout": settings.model_timeout, **settings.model_access()},
            secrets=secrets,
        )
        context = _read_stdin() if source == "-" else Path(source)
        answer = reporter.search.run(
            query,
            context,
            model=model,
            sub_model=settings.sub_model,
            limits=limits,
            settings=SearchSettings(
                fan_out_policy="run" if yes else "refuse", by_code=needs_code(query, None, ())
            ),
        )
    except KeyboardInterrupt:
        return INTERRUPTED_CODE
    except (ContextError, ModelError) as error:
        reporter.report_error(error)
        return WRONG_ARGUMENTS_CODE
    except SandboxError as error:
        reporter.report_error(error)
        return FAILED_CODE
    finally:
        if reporter.search is not None:
            reporter.search.close()
        reporter.close()
    return reporter.print_answer(answer)


def _read_stdin() -> bytes:
    """Return what is piped in. Raises `ContextError`."""
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise ContextError(f"stdin cannot be read: {error.strerror}.") from None
