"""The tool ``eval``: formats the result of a cell."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from mahtab_tui.bus.escaping import OVERWRITTEN, escape_for_model
from mahtab_tui.kernel.bounded import GRACE
from mahtab_tui.kernel.results import pieces
from mahtab_tui.kernel.values import CHANGE_SIGNS, Change, Status
from mahtab_tui.mcp.connection import Evaluation
from mahtab_tui.mcp.formatting import AnswerFormat, fenced, short
from mahtab_tui.mcp.tools import Arguments, ToolAnswer

OUTPUT = 20_000
"""Default limit of an answer's output, in characters."""

FRAMES_HEAD, FRAMES_TAIL = 6, 24
"""Lines of a long traceback that are kept."""

ERROR = 4_000
"""Characters of a traceback that an answer may have even if the agent wants less output."""

CHANGES = 20
"""Changed names that an answer lists; of the others it says how many there are."""

SUMMARY = 60
"""Characters of a changed variable's summary."""


class EvalArguments(Arguments):
    code: str = Field(
        description="Python. The last expression's value is shown; top-level await, !command and %magic work"
    )
    timeout_s: float | None = Field(
        None,
        gt=0,
        description="Seconds after which the code is interrupted, counted from its start. Without it: no limit",
    )
    max_output: int = Field(
        OUTPUT,
        ge=0,
        description="Characters of output that the answer holds at most: its head and its tail",
    )


def answer(done: Evaluation, arguments: EvalArguments, format: AnswerFormat) -> ToolAnswer:
    """Format the answer to an agent: the value first, then the output, then the error."""
    result = done.result
    parts = {"value": "", "stdout": "", "traceback": "", "display": ""}
    for kind, text in pieces(result):
        parts[kind] += text
    value = shortened((parts["display"] + parts["value"]).rstrip("\n"), arguments.max_output)
    output = shortened(parts["stdout"], arguments.max_output)
    error = shortened(
        shorter_traceback(parts["traceback"].rstrip("\n")), max(arguments.max_output, ERROR)
    )
    sections = [
        ("The user edited the code. What ran:\n" + fenced(escape_for_model(done.edited), "python"))
        if done.edited
        else "",
        escape_for_model(how_it_ended(done, arguments.timeout_s)),
        format.code(value),
        format.output(output),
        OVERWRITTEN if result.rewritten else "",
        format.traceback(error),
        ("Printed since the last call:\n" + format.output(done.late)) if done.late else "",
        changes_line(result.changes),
    ]
    text = (
        "\n".join(section.rstrip("\n") for section in sections if section)
        or "(no value, no output)"
    )
    failed = result.status is not Status.OK or done.declined != "" or done.running or done.timed_out
    return ToolAnswer(text, done.pictures, failed=failed)


def how_it_ended(done: Evaluation, timeout: float | None) -> str:
    """Return a sentence for every end but the normal ones. After a timeout it says exactly what
    followed."""
    over = f"Timed out after {timeout:g} s: " if done.timed_out and timeout is not None else ""
    match done.result.status:
        case _ if done.declined:
            return f"The code did not run: {done.declined}."
        case _ if done.running:
            return f"{over}the code was interrupted, but did not end within {GRACE:g} s and is still running. Output so far:"
        case Status.INTERRUPTED:
            return f"{over}{'t' if over else 'T'}he code was interrupted. Variables are as it left them."
        case Status.KILLED:
            reason = (
                f"the code did not end within {GRACE:g} s after its interrupt, so the worker was killed."
                if over
                else done.result.detail
            )
            return f"{over}{reason} {_variables(done)}; a new worker is ready."
        case Status.DIED:
            return f"{over and over + 'the code was interrupted. '}{done.result.detail} {_variables(done)}; a new worker starts with the next call."
        case _:
            return f"{over}the code was interrupted, and then ended by itself." if over else ""


def _variables(done: Evaluation) -> str:
    return (
        "Only saved variables come back (info lists them)"
        if done.restores
        else "All variables are gone"
    )


def changes_line(changes: Sequence[Change]) -> str:
    """Format the changes of the namespace in a line: ``[+x int 5, ~rows list 3 items, −old]``."""
    if not changes:
        return ""
    listed = [_changed(change) for change in changes[:CHANGES]]
    more = len(changes) - len(listed)
    return f"[{', '.join(listed)}{f', and {more:,} more' if more else ''}]"


def _changed(change: Change) -> str:
    words = [CHANGE_SIGNS[change.change] + short(change.name)]
    if change.variable is not None:
        words += [short(change.variable.type), short(change.variable.summary, SUMMARY)]
    return " ".join(word for word in words if word)


def shortened(text: str, most: int) -> str:
    """Shorten a text to `most` characters of its head and tail, and say how many were left out."""
    if len(text) <= most:
        return text
    head = most // 2
    left_out = len(text) - most
    return (
        f"{text[:head]}\n… {left_out:,} characters left out …\n{text[len(text) - (most - head) :]}"
    )


def shorter_traceback(text: str) -> str:
    """Remove the middle of a long traceback, since the frames of a recursion repeat themselves."""
    lines = text.split("\n")
    left_out = len(lines) - FRAMES_HEAD - FRAMES_TAIL
    if left_out <= 1:
        return text
    return "\n".join(
        [*lines[:FRAMES_HEAD], f"  … {left_out} lines left out …", *lines[-FRAMES_TAIL:]]
    )
