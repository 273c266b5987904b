"""``mahtab-tui rlm``: the arguments of a search without a screen."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mahtab_tui.cli.options import Given, Json, Model, checked_settings
from mahtab_tui.cli.printing import fail


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
        Path | None, typer.Option(help="Write the events to this file, as JSON lines")
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Allow more than 50 sub-calls, which are refused otherwise"),
    ] = False,
    json: Json = False,
    given: Given = None,
) -> None:
    """Answer a question about a text too long to read: a model explores it with code in a sandbox
    and calls itself on parts.

    The answer goes to stdout, progress to stderr. Exit codes: 0 answered, 1 no answer, 2 wrong
    arguments, 4 a partial answer, 130 interrupted.
    """
    if query is None or not query.strip() or source is None:
        fail('Give a question and a file: mahtab-tui rlm "question" FILE, or - for piped input.')
    from mahtab_tui.bus.masking import Secrets
    from mahtab_tui.cli.rlm import search_once
    from mahtab_tui.llm.providers import default_model, get_llm
    from mahtab_tui.search.limits import limits_of

    settings = checked_settings(("model", "sub_model"), given, model=model, sub_model=sub_model)
    try:
        limits = limits_of(
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
    code = search_once(
        query,
        source,
        model=settings.model or default_model(),
        sub_model=settings.sub_model,
        limits=limits,
        log=log,
        as_json=json,
        yes=yes,
        make_llm=partial(get_llm, timeout=settings.model_timeout, **settings.model_access()),
        secrets=Secrets(settings.secrets),
    )
    raise typer.Exit(code)
