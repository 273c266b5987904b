"""Looks up the figures of an answer in the conversation before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import AnyMessage

from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.figure_sources import FigureSource
from mahtab_tui.bus.figures import find_figures
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.llm import prompts

_CELL_NUMBER = re.compile(r' cell="([0-9]+)"')
_SOURCE_TAG = re.compile(r"<((?:user|assistant)-repl-out|assistant-tool|user-attachment)[ >]")
"""The start of a record that figures may come from."""
_NOT_RESULTS = re.compile(
    r"""
    ^ \w+ \.head\(\d+\): \n .*? (?= \n\n | \Z )    # example rows of a table
    | ^ \w+ :[ ]module[ ]=[ ] [^\n]* $               # a module and its version
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Parts of descriptions of variables whose numbers are not those of a result."""
_CHALLENGE_WORDS = prompts.CORRECT_FIGURES.removeprefix("{figures}")
_CHALLENGE_LINE = re.compile(f"^.*{re.escape(_CHALLENGE_WORDS)}.*$", re.MULTILINE)
"""A request to correct figures, which names the wrong ones."""


def look_up_figures(
    state: AgentState, answer: str, messages: Sequence[AnyMessage]
) -> tuple[AnswerFigure, ...]:
    """Look up an answer's figures in all that was printed, attached, run and said.

    Args:
        state: The state of the turn.
        answer: The answer.
        messages: The conversation before it.

    Returns:
        The figures; none of a plan, whose figures are proposals.
    """
    if _is_plan(messages, state["original_prompt"]):
        return ()
    parsed = parse_response(answer)
    code_blocks = list(parsed.code_blocks)
    sources: list[FigureSource] = []
    for message in messages:
        text = str(message.text)
        if message.type != "ai":
            sources += _message_sources(text)
            continue
        earlier_answer = parse_response(text)
        code_blocks += earlier_answer.code_blocks
        # An earlier answer of this turn may have the same wrong figure.
        if not (message.id or "").startswith(f"{state['turn']}."):
            sources.append(FigureSource(None, earlier_answer.chat, printed=False))

    code_blocks += [result["code"] for result in state["execution_results"]]
    code = "\n".join(code_blocks)
    sources.append(FigureSource(None, code, printed=False))
    return find_figures(parsed.prose, sources, state["original_prompt"], code=code)


def _is_plan(messages: Sequence[AnyMessage], question: str) -> bool:
    """Return whether the newest message with the question asks for a plan."""
    for message in reversed(messages):
        text = str(message.text)
        if message.type == "human" and question in text:
            return prompts.PLANNING in text
    return False


def _message_sources(text: str) -> Iterator[FigureSource]:
    """Return the outputs and attachments of a message, and its other text: the user's words and
    code, descriptions of variables, and notes on what was skipped and undone."""
    other_texts: list[str] = []
    end = 0
    for record in _source_records(text):
        cell_match = _CELL_NUMBER.search(record.tag)
        cell = int(cell_match[1]) if cell_match else None
        yield FigureSource(cell, record.content)
        other_texts.append(text[end : record.start])
        end = record.end
    other_texts.append(text[end:])

    # A wrong figure that the model was asked to correct does not become right by that.
    words = _CHALLENGE_LINE.sub("", "\n".join(other_texts))
    yield FigureSource(None, _NOT_RESULTS.sub("", words), printed=False)


class _SourceRecord(NamedTuple):
    """A record in a message, in which figures may occur."""

    tag: str
    """Its start tag, without the closing bracket."""
    content: str
    start: int
    """Where its start tag begins in the message."""
    end: int
    """Where its content ends."""


def _source_records(text: str) -> Iterator[_SourceRecord]:
    """Yield the outputs, tool results and attachments of a message, in order."""
    position = 0
    unclosed_names = set[str]()
    while opening := _SOURCE_TAG.search(text, position):
        name = opening[1]
        start = opening.start()
        position = opening.end()
        # Looking again and again for an end tag that does not exist would take long.
        if name in unclosed_names:
            continue
        end = text.find(f"</{name}>", position)
        if end < 0:
            unclosed_names.add(name)
            continue
        tag, _, content = text[start:end].partition(">")
        position = end
        yield _SourceRecord(tag, content, start, end)
