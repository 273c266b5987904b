"""How the results of an agent's calls are written for it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.escaping import OVERWRITTEN, escape_controls, escape_output, shorten_line
from mahtab_tui.bus.fences import fenced
from mahtab_tui.bus.pens import strip_colours
from mahtab_tui.bus.values import Status, describe_files
from mahtab_tui.kernel.bounded_cell import INTERRUPT_GRACE_S
from mahtab_tui.kernel.cell_results import pictures, pieces
from mahtab_tui.kernel.environments import environment_prefix
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.mcp.arguments import EvalArguments, Mode
from mahtab_tui.mcp.output_form import ResultForm
from mahtab_tui.mcp.packages import find_project
from mahtab_tui.mcp.tools import ToolAnswer
from mahtab_tui.session.agent_cell import Evaluation
from mahtab_tui.session.agent_view import SessionContents
from mahtab_tui.worker.cells.capture import shorten

MAX_VARIABLES = 200
"""Variables, and modules, that `info` lists."""

TRACEBACK_HEAD_LINES = 6
TRACEBACK_TAIL_LINES = 24
"""Lines at the beginning and at the end of a traceback that are kept."""
MIN_TRACEBACK_CHARS = 4_000
"""Characters of a traceback that are always allowed."""


def describe_contents(contents: SessionContents, mode: Mode) -> str:
    """Return the text of `info`."""
    lines = _describe_session(contents, mode)
    named = _name_variables(contents)
    lines.append(f"modules: {', '.join(_limit_rows(named.modules)) or 'none'}")
    lines.append("variables:" if named.others else "variables: none")
    lines += [f"  {row}" for row in _limit_rows(named.others)]

    if contents.stale:
        lines.append("stale, because a variable is different now:")
        lines += [f"  {line}" for line in contents.stale]
    if contents.others:
        lines.append("run by others since you last asked:")
        lines += [f"  {line}" for line in contents.others]
    return escape_controls("\n".join(lines))


def _describe_session(contents: SessionContents, mode: Mode) -> list[str]:
    """Return the lines about the kernel, its environment and its cells."""
    kernel = contents.kernel
    environment = environment_prefix(kernel.executable) or "none of its own"
    project = find_project(Path(kernel.cwd)) or "none"
    cell_count = f"{contents.cells:,} {'cell' if contents.cells == 1 else 'cells'}"
    start_event = "you joined" if mode == "shared" else "your session started"
    return [
        f"Python {kernel.python} · {kernel.executable} · worker {kernel.pid} · {mode}",
        f"environment: {environment}",
        f"project: {project} · working directory: {kernel.cwd}",
        f"{cell_count} in {round(contents.busy, 3):g} s · {contents.alive:,.1f} s since {start_event}",
    ]


class _NamedVariables(NamedTuple):
    """The variables of a session, in words."""

    modules: list[str]
    """Names."""
    others: list[str]
    """A row for each: name, type, summary, and a mark if there is one."""


def _name_variables(contents: SessionContents) -> _NamedVariables:
    """Return the variables of a session, without those whose names begin with an underscore."""
    named = _NamedVariables([], [])
    for variable in contents.variables:
        if variable.underscored:
            continue
        name = shorten_line(variable.name)
        if variable.kind == "module":
            named.modules.append(name)
            continue
        row = f"{name}: {shorten_line(variable.type)} {shorten_line(variable.summary)}".rstrip()
        mark = contents.marks.get(variable.name, "")
        if mark and variable.kind == "data":
            row += f" · {mark}"
        named.others.append(row)
    return named


def _limit_rows(rows: list[str]) -> list[str]:
    """Return the first rows, and how many more there are."""
    omitted_count = len(rows) - MAX_VARIABLES
    if omitted_count <= 0:
        return rows
    return [*rows[:MAX_VARIABLES], f"… and {omitted_count:,} more"]


def format_answer(
    done: Evaluation,
    arguments: EvalArguments,
    form: ResultForm | None = None,
    *,
    names_cell: bool = False,
) -> ToolAnswer:
    """Write the result of a cell for the agent.

    Args:
        done: The result.
        arguments: Those of the call.
        form: How its value, output and traceback are written; by default as plain text.
        names_cell: Whether the number that the user sees at the cell (In 7) is told as well.
    """
    form = form or ResultForm()
    result = done.result
    sections: list[str] = []
    if done.edited:
        edited_code = fenced(escape_controls(done.edited))
        sections.append(f"The user edited the code. What ran:\n{edited_code}")
    sections.append(escape_controls(describe_end(done, arguments.timeout_s)))
    sections += _format_texts(result, form, arguments.max_output)
    if done.late:
        sections.append(f"Printed since the last call:\n{format_output(done.late)}")
    cell_label = f"In {result.cell}" if names_cell and not done.declined else ""
    sections.append(format_changes(result.changes, done.omitted_changes, cell_label))
    sections.append(escape_controls(describe_files(result.files)))

    text = "\n".join(section.rstrip("\n") for section in sections if section)
    text = text or "(no value, no output)"
    failed = result.status is not Status.OK or done.declined != "" or done.running or done.timed_out
    return ToolAnswer(text, pictures(result), failed=failed)


def _format_texts(result: CellResult, form: ResultForm, max_chars: int) -> list[str]:
    """Return the value, the output and the traceback of a cell; empty texts for what it lacks."""
    texts = {"value": "", "stdout": "", "traceback": "", "display": ""}
    for kind, text in pieces(result):
        texts[kind] += text

    value = (texts["display"] + texts["value"]).rstrip("\n")
    traceback = shorten_traceback(texts["traceback"].rstrip("\n"))
    max_traceback_chars = max(max_chars, MIN_TRACEBACK_CHARS)
    # `shorten` takes the characters of the head and of the tail, each.
    return [
        form.write("value", shorten(value, max_chars // 2)),
        form.write("stdout", shorten(texts["stdout"], max_chars // 2)),
        OVERWRITTEN if result.rewritten else "",
        form.write("traceback", shorten(traceback, max_traceback_chars // 2)),
    ]


def format_output(text: str) -> str:
    """Return printed text without colours, and with symbols for control characters."""
    if not text:
        return ""
    return escape_output(strip_colours(text))


def describe_end(done: Evaluation, timeout_s: float | None) -> str:
    """Return a sentence for any end except a normal one.

    Args:
        done: The result.
        timeout_s: The time limit of the call; None if it had none.
    """
    timeout_note = ""
    if done.timed_out and timeout_s is not None:
        timeout_note = f"Timed out after {timeout_s:g} s: "
    variables_note = "All variables are gone"
    if done.restores:
        variables_note = "Only saved variables come back (info lists them)"

    if done.declined:
        return f"The code did not run: {done.declined}."
    if done.running:
        return f"{timeout_note}the code was interrupted, but did not end within {INTERRUPT_GRACE_S:g} s and is still running. Output so far:"
    match done.result.status:
        case Status.INTERRUPTED:
            article = "the" if timeout_note else "The"
            return f"{timeout_note}{article} code was interrupted. Variables are as it left them."
        case Status.KILLED:
            reason = done.result.detail
            if timeout_note:
                reason = f"the code did not end within {INTERRUPT_GRACE_S:g} s after its interrupt, so the worker was killed."
            return f"{timeout_note}{reason} {variables_note}; a new worker is ready."
        case Status.DIED:
            interrupt = f"{timeout_note}the code was interrupted. " if timeout_note else ""
            return f"{interrupt}{done.result.detail} {variables_note}; a new worker starts with the next call."
        case _:
            if timeout_note:
                return f"{timeout_note}the code was interrupted, and then ended by itself."
            return ""


def shorten_traceback(text: str) -> str:
    """Remove the middle, because the frames of a recursion repeat themselves."""
    lines = text.split("\n")
    omitted_count = len(lines) - TRACEBACK_HEAD_LINES - TRACEBACK_TAIL_LINES
    if omitted_count <= 1:
        return text
    middle = f"  … {omitted_count:,} lines left out …"
    return "\n".join([*lines[:TRACEBACK_HEAD_LINES], middle, *lines[-TRACEBACK_TAIL_LINES:]])
