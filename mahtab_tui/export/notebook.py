"""Converts entries to a Jupyter notebook."""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import nbformat

from mahtab_tui.bus.entries import (
    AnswerText,
    Cell,
    Entry,
    Note,
    Question,
    ToolUse,
    describe_doubt,
    describe_staleness,
)
from mahtab_tui.bus.plans import PLAN_HEADING
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.export.entries import has_run
from mahtab_tui.export.markdown import code_block, escape_markdown, make_inert
from mahtab_tui.export.outputs import OutputPart, outputs, shorten
from mahtab_tui.export.reading import Node
from mahtab_tui.export.selection import ExportedEntries, to_title

MAX_ID_CHARS = 40

AUTHOR_METADATA = "mahtab"
"""Metadata that notebooks do not have: who wrote a cell."""
PRIVATE_CELL_TEXT = "# This cell uses a private variable, so it is left out."
NEW_METADATA: Node = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "version": platform.python_version(),
    },
}

_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9-]+")
_CHAIN_LINE = re.compile(
    "^(?:During handling of the above exception, another exception occurred"
    "|The above exception was the direct cause of the following exception):$",
    re.MULTILINE,
)
"""Stands between the tracebacks of two errors; the last one was raised."""
_ERROR_LINE = re.compile(r"(?:  \| )?([^\W\d](?:\w|\.|<locals>)*)(?:: (.*))?$")
"""The name of an error with the first line of its message; groups have a bar before it."""


def build_notebook(selected: ExportedEntries) -> Any:
    """Return an nbformat 4.5 `NotebookNode` with stable cell ids."""
    content = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": NEW_METADATA,
        "cells": list(build_cells(selected)),
    }
    node = nbformat.from_dict(content)
    nbformat.validate(node)
    return node


def build_cells(selected: ExportedEntries, used_ids: Collection[str] = ()) -> Iterator[Node]:
    """Yield a cell for each entry, with an id of its own.

    Args:
        used_ids: Ids of other cells.
    """
    all_ids = set(used_ids)
    last_numbers: dict[str, int] = {}
    for entry in selected.entries:
        name = _NOT_IN_ID.sub("-", entry.key)[:MAX_ID_CHARS] or "text"
        number = last_numbers.get(name, 0) + 1
        while _numbered_id(name, number) in all_ids:
            number += 1
        last_numbers[name] = number
        cell_id = _numbered_id(name, number)
        all_ids.add(cell_id)

        author = {"by": author_name(entry), "name": entry.author}
        cell: Node = {"id": cell_id, "metadata": {AUTHOR_METADATA: author}}
        if has_run(entry):
            cell |= code_cell(entry, selected)
        else:
            cell |= {"cell_type": "markdown", "source": render_text_entry(entry)}
        yield cell


def _numbered_id(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def author_name(entry: Entry) -> str:
    """Return who wrote an entry: "user", "model", "agent" or "program"."""
    match entry:
        case Question() | Cell(person=True):
            return "user"
        case Note():
            return "program"
        case Cell(agent_index=int()):
            return "agent"
    return "model"


def render_text_entry(entry: Entry) -> str:
    """Return an entry as Markdown."""
    match entry:
        case Note():
            return f"*{escape_markdown(to_title(entry.text))}*"
        case Cell():
            code = code_block(entry.code, "python")
            return f"*This code of {escape_markdown(entry.author)} did not run:*\n\n{code}"
        case ToolUse():
            return _render_tool_use(entry)
        case Question():
            labels = ", ".join(chip.label for chip in entry.attachments if not chip.problem)
            heading = f"Question (with {labels})" if labels else "Question"
            text = _question_text(entry)
        case _:
            heading = entry.author[:1].upper() + entry.author[1:]
            text = entry.source if isinstance(entry, AnswerText) else entry.plain_text
    rendered = f"**{escape_markdown(heading)}**\n\n{make_inert(text)}"
    if isinstance(entry, AnswerText) and entry.doubtful_cells:
        rendered += f"\n\n*{escape_markdown(describe_doubt(entry.doubtful_cells))}*"
    return rendered


def _question_text(question: Question) -> str:
    """Return a question; the steps of a plan with their states."""
    if not question.plan:
        return question.text
    steps = [
        f"{number}. {step.text} · {step.state}" for number, step in enumerate(question.plan, 1)
    ]
    return "\n".join([PLAN_HEADING, "", *steps])


def _render_tool_use(entry: ToolUse) -> str:
    """Return a call of a tool, whose result unfolds at a click."""
    result = code_block(shorten(entry.text), "text") if entry.text else ""
    summary = to_title(f"{entry.name} {entry.arguments}")
    if entry.state not in ("ok", "running"):
        summary += f" · {entry.state}"
    return f"<details><summary>{html.escape(summary)}</summary>\n\n{result}\n\n</details>"


def code_cell(cell: Cell, selected: ExportedEntries) -> Node:
    """Return a cell that has run, without its id and metadata."""
    if selected.is_private(cell):
        return {
            "cell_type": "code",
            "source": PRIVATE_CELL_TEXT,
            "execution_count": None,
            "outputs": [],
        }
    # From another program's session, or a damaged one; notebooks count from 0.
    number = cell.number if (cell.number or 0) >= 0 else None
    return {
        "cell_type": "code",
        "source": cell.code,
        "execution_count": number,
        "outputs": [
            *(_output_node(output, number) for output in outputs(cell)),
            *_stale_node(cell),
        ],
    }


def _stale_node(cell: Cell) -> Iterator[Node]:
    """Yield a warning if the cell is stale.

    It is an output, so that Jupyter removes it when the cell runs again.
    """
    if staleness := describe_staleness(cell):
        yield {"output_type": "stream", "name": "stderr", "text": f"{plain(staleness)}\n"}


def _output_node(output: OutputPart, execution_count: int | None) -> Node:
    """Return an output as Jupyter stores it.

    Args:
        execution_count: Of its cell.
    """
    if output.kind == "traceback":
        name, message = parse_error(output.text)
        lines = output.text.rstrip("\n").split("\n")
        return {"output_type": "error", "ename": name, "evalue": message, "traceback": lines}
    if output.kind not in ("value", "display"):
        return {"output_type": "stream", "name": "stdout", "text": output.text}

    data = {"text/plain": output.text.removesuffix("\n")}
    if output.mime and output.mime != "text/plain":
        data[output.mime] = output.data
    if output.kind == "display":
        return {"output_type": "display_data", "data": data, "metadata": {}}
    return {
        "output_type": "execute_result",
        "data": data,
        "metadata": {},
        "execution_count": execution_count,
    }


class NamedError(NamedTuple):
    """An error as a notebook names it."""

    name: str
    message: str
    """Its first line."""


def parse_error(traceback: str) -> NamedError:
    """Return the error that a traceback ends with."""
    last_traceback = _CHAIN_LINE.split(traceback)[-1]
    # Frames and their code are indented. What follows the error's name is its message and notes.
    for line in last_traceback.split("\n"):
        if match := _ERROR_LINE.match(line):
            return NamedError(match[1], match[2] or "")
    return NamedError("Error", "")
