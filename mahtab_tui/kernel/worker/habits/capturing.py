"""%%capture."""

from __future__ import annotations

import contextlib
import io
import sys

from ..compiling import compiled
from ..stdlib import late_import
from .magics import Caller


class CapturedOutput:
    """Output of a cell."""

    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return self.stdout

    def __repr__(self) -> str:
        return (
            f"<captured: {len(self.stdout):,} characters of stdout, {len(self.stderr):,} of stderr>"
        )

    def show(self) -> None:
        """Print the output again."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)


def capture(rest: str, caller: Caller) -> None:
    """Run the lines below without showing their output and value; the first line may name a
    variable for the output.

    An exception is still raised, after the variable has been set.
    """
    first, _, code = rest.partition("\n")
    words = late_import("shlex").split(first)
    names = [word for word in words if not word.startswith("-")]
    unknown = set(words) - set(names) - {"--no-stdout", "--no-stderr", "--no-display"}
    if len(names) > 1 or not all(map(str.isidentifier, names)) or unknown:
        raise ValueError(
            "%%capture takes at most one name, and --no-stdout or --no-stderr for output to be shown, as in %%capture printed"
        )
    run = compiled(code, "<%%capture>", *caller)
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        if "--no-stdout" not in words:
            stack.enter_context(contextlib.redirect_stdout(stdout))
        if "--no-stderr" not in words:
            stack.enter_context(contextlib.redirect_stderr(stderr))
        try:
            run()
        finally:
            caller.namespace.update(
                dict.fromkeys(names, CapturedOutput(stdout.getvalue(), stderr.getvalue()))
            )
