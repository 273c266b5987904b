"""Runs a cell without showing its output: `%%capture`."""

from __future__ import annotations

import contextlib
import io
import sys

from ..cells.compiling import compile_callable
from ..values.displays import Display, capture_displays, show
from .programs import split_words
from .state import MagicContext
from .syntax import transform

_CAPTURE_OPTIONS = frozenset({"--no-stdout", "--no-stderr", "--no-display"})
"""Options of `%%capture`: what is not captured."""


class CapturedOutput:
    """What a cell printed and displayed."""

    def __init__(self, stdout: str, stderr: str, outputs: list[Display]) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.outputs = outputs

    def __str__(self) -> str:
        return self.stdout

    def show(self) -> None:
        """Print it, and display what was displayed."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            show(output)

    __call__ = show


def capture_cell(text: str, caller: MagicContext) -> None:
    """`%%capture`: run the cell without showing its output, which a variable may get."""
    first_line, _, code = text.partition("\n")
    words = split_words(first_line)
    options = {word for word in words if word.startswith("-")}
    names = [word for word in words if not word.startswith("-")]
    if len(names) > 1 or not all(map(str.isidentifier, names)):
        raise ValueError("%%capture takes at most one name, as in %%capture printed")
    if unknown := sorted(options - _CAPTURE_OPTIONS):
        raise ValueError(
            f"%%capture does not take {unknown[0]}, only {', '.join(sorted(_CAPTURE_OPTIONS))}"
        )

    run = compile_callable(transform(code), "<%%capture>", *caller)
    stdout = io.StringIO()
    stderr = io.StringIO()
    outputs: list[Display] = []
    with contextlib.ExitStack() as redirections:
        if "--no-stdout" not in options:
            redirections.enter_context(contextlib.redirect_stdout(stdout))
        if "--no-stderr" not in options:
            redirections.enter_context(contextlib.redirect_stderr(stderr))
        if "--no-display" not in options:
            redirections.enter_context(capture_displays(outputs))
        try:
            run()
        finally:
            captured = CapturedOutput(stdout.getvalue(), stderr.getvalue(), outputs)
            caller.namespace.update(dict.fromkeys(names, captured))
