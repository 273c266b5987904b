"""The options that several commands share, and the settings that result from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mahtab_tui.cli.printing import fail, fail_on, warn
from mahtab_tui.settings.model import Settings, SettingsError, load_settings

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
    typer.Option(help="The folder that search_code and read_file cannot leave  [default: .]"),
]
SkillsDir = Annotated[
    list[Path] | None,
    typer.Option(
        "--skills-dir",
        metavar="FOLDER",
        help="A folder of skills; may be repeated. If names clash, the last folder wins",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print every event as one line of JSON")]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any setting; may be repeated. mahtab-tui config lists the settings",
    ),
]


def given_by(pairs: list[str] | None) -> dict[str, Any]:
    """Return the values of ``--set`` for `load_settings`. Ends the command with a sentence if one
    is invalid."""
    if not pairs:
        return {}
    from mahtab_tui.settings.values import given_settings

    try:
        return given_settings(pairs)
    except SettingsError as error:
        fail(f"--set {error}")


def warn_of_held_back(settings: Settings) -> None:
    """Say on stderr which settings are not used until the user trusts them."""
    for sentence in settings.held_back:
        warn(sentence)


def checked_settings(
    models: Sequence[Literal["model", "sub_model"]], pairs: list[str] | None, **given: object
) -> Settings:
    """Load the settings. Ends the command with a sentence if they are invalid or a model is not
    available. Warns of untrusted settings.

    models: which models to check. pairs: the arguments of ``--set``.
    """
    from mahtab_tui.llm.base import ModelError
    from mahtab_tui.llm.providers import check_model

    with fail_on(SettingsError):
        settings = load_settings(
            **given_by(pairs) | {key: value for key, value in given.items() if value is not None}
        )
    warn_of_held_back(settings)
    for which in models:
        name = getattr(settings, which)
        try:
            if name is not None:
                check_model(name, **settings.model_access())
        except ModelError as error:
            fail(str(error) if which == "model" else f"{which}: {error}")
    return settings
