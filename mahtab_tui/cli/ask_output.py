"""The forms in which `mahtab-tui ask` prints an answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.cli.headless import ANSWERED_CODE, FAILED_CODE, INTERRUPTED_CODE, REFUSED_CODE
from mahtab_tui.cli.options import warn

STATUS_BY_CODE = {
    ANSWERED_CODE: "answered",
    FAILED_CODE: "failed",
    REFUSED_CODE: "refused",
    INTERRUPTED_CODE: "interrupted",
}


class OutputForm(StrEnum):
    """What is printed to stdout."""

    TEXT = "text"
    """The answer; rendered on a terminal."""
    CODE = "code"
    """The code that ran for it, as a script."""
    JSON = "json"
    """One line for each question."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question with what came of it. Secrets are masked."""

    question: str
    answer: str
    """Empty if there is none."""
    code: Sequence[str]
    """The model's cells that ran without an error, in order."""
    uncomputed_figures: Sequence[str]
    """Figures of the answer that no code has computed."""
    failures: Sequence[str]
    """Why there is no answer, as sentences."""
    exit_code: int
    session: str
    """The session's ID; empty if it is not saved."""

    @property
    def json_line(self) -> str:
        """It as one line of JSON."""
        values = {
            "question": self.question,
            "status": STATUS_BY_CODE[self.exit_code],
            "answer": self.answer or None,
            "code": [*self.code],
            "not_computed": [*self.uncomputed_figures],
            "error": " ".join(self.failures) or None,
            "session": self.session or None,
        }
        return json.dumps(values)


def print_answer(asked: AskedQuestion, form: OutputForm, *, is_quiet: bool) -> None:
    """Print an answer to stdout.

    Args:
        asked: The question and its answer.
        form: What is printed of the answer.
        is_quiet: Print nothing to stderr, such as doubts about figures.
    """
    if form is OutputForm.JSON:
        print(asked.json_line, flush=True)
    elif form is OutputForm.CODE:
        if asked.code:
            print("\n\n".join(map(plain, asked.code)), flush=True)
    elif asked.answer:
        _print_text(asked.answer)

    if asked.answer and asked.uncomputed_figures and not is_quiet:
        warn(one_line(f"not computed: {', '.join(asked.uncomputed_figures)}"))


def _print_text(answer: str) -> None:
    """Print an answer as text, rendered on a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        # Show addresses as text, because a link's text may differ from its target.
        Console().print(Markdown(plain(answer), hyperlinks=False))
    else:
        print(plain(answer), flush=True)
