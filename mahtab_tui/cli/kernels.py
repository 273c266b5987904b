"""``mahtab-tui kernels`` cleans up on other machines."""

from __future__ import annotations

from typing import Annotated

import typer

from mahtab_tui.cli.printing import answer, fail, fail_on, say

kernels_app = typer.Typer(
    help="Kernels on other machines: remove what they left there.", no_args_is_help=True
)


@kernels_app.command()
def clean(
    address: Annotated[
        str,
        typer.Argument(
            help="As for --kernel: ssh://HOST, or command: and a program that runs Python"
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
) -> None:
    """Remove the files and saved variables that sessions left on another machine. Exit codes: 0
    removed, 1 not removed."""
    from mahtab_tui.bus.sanitize import one_line
    from mahtab_tui.kernel.base import KernelError
    from mahtab_tui.kernel.remote.address import parse
    from mahtab_tui.kernel.remote.transport import clean_up

    with fail_on(KernelError, code=1):
        place = parse(address)
        if not yes:
            typer.confirm(
                f"Remove mahtab-tui's files and saved variables from {one_line(place.label)}?",
                abort=True,
            )
        kernels, removed = clean_up(place, answer)
    if kernels:
        run = "1 kernel is running" if kernels == 1 else f"{kernels} kernels are running"
        fail(
            f"{run} there. Close their sessions first, or stop them: mahtab-tui sessions stop ID.",
            1,
        )
    say(f"Removed: {', '.join(map(one_line, removed))}.")
