"""%%html, %%markdown, %%latex, %%svg, %%javascript, %%script and programs that run a cell: cells
that are not Python."""

from __future__ import annotations

import sys
from typing import Callable

from ..showing.displays import LARGEST_TEXT, Display, show
from ..stdlib import late_import
from .magics import Caller


def _shown_as(mime: str, text: str) -> None:
    text = text if text.endswith("\n") else text + "\n"
    show(Display(mime if len(text) <= LARGEST_TEXT else "", text, text))


def html(rest: str, caller: Caller) -> None:
    _shown_as("text/html", rest.partition("\n")[2])


def markdown(rest: str, caller: Caller) -> None:
    _shown_as("text/markdown", rest.partition("\n")[2])


def latex(rest: str, caller: Caller) -> None:
    _shown_as("text/markdown", f"```latex\n{rest.partition(chr(10))[2].strip()}\n```")


def _unsupported(name: str) -> Callable[[str, Caller], None]:
    def say(rest: str, caller: Caller) -> None:
        print(f"\x1b[2m%%{name} does nothing here: a terminal cannot run or draw it.\x1b[22m")

    return say


svg, javascript = _unsupported("svg"), _unsupported("javascript")
HTML, SVG, js = html, svg, javascript


def script(rest: str, caller: Caller) -> None:
    """Run a program with the cell as its input."""
    first, _, code = rest.partition("\n")
    words = [
        word
        for word in late_import("shlex").split(first)
        if word not in ("--no-raise-error", "--bg")
    ]
    if not words:
        raise ValueError("%%script needs a program, as in %%script perl")
    subprocess = late_import("subprocess")
    try:
        ended = subprocess.run(words, input=code.encode(), check=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no program {words[0]}.") from None
    if ended.returncode:
        print(f"exit code {ended.returncode}")


def _program(*words: str) -> Callable[[str, Caller], None]:
    def run(rest: str, caller: Caller) -> None:
        first, _, code = rest.partition("\n")
        script(f"{late_import('shlex').join(words)} {first}\n{code}", caller)

    return run


perl, ruby = _program("perl"), _program("ruby")
python = python3 = _program(sys.executable, "-")
