"""Looks up the figures of an answer in the conversation before it.

A figure is a number, a date or a quoted value. It may come from what was printed, attached, run or said
before; where it comes from is shown beside the answer, and a figure without a source is underlined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import AnyMessage

from mahtab_tui.agent.code_blocks import find_code
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.figure_sources import FigureSource
from mahtab_tui.bus.figures import find_figures
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.llm import prompts

_CELL_NUMBER = re.compile(r' cell="([0-9]+)"')
"""The number of a cell, in the start tag of its output."""
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
_ZERO_OR_ONE = re.compile(r"(?<![\w.,])[01](?![\w%]|[.,]\d)")
"""The number 0 or 1, and not a digit of another."""
_CHALLENGE_WORDS = prompts.CORRECT_FIGURES.removeprefix("{figures}")
_CHALLENGE_LINE = re.compile(f"^.*{re.escape(_CHALLENGE_WORDS)}.*$", re.MULTILINE)
"""A request to correct figures, which names the wrong ones."""


def look_up_figures(
    state: AgentState,
    answer: str,
    messages: Sequence[AnyMessage],
    *,
    has_ended: bool = True,
    reads_descriptions: bool = True,
) -> tuple[AnswerFigure, ...]:
    """Look up an answer's figures in all that was printed, attached, run and said.

    Args:
        state: The state of the turn.
        answer: The answer, as the model wrote it.
        messages: The conversation before it.
        has_ended: Whether the model completed the answer.
        reads_descriptions: Whether figures of an answer whose code does not run may also come from the
            descriptions of variables, from code and from earlier answers. They may not for a small
            model, which takes the smallest value of a column, which it reads there, for the mean that
            was asked.

    Returns:
        The figures in the order of the answer. There are none for a plan, because its figures are
        proposals.
    """
    question = state["original_prompt"]
    if _is_plan(messages, question):
        return ()
    parsed = parse_response(answer, has_ended=has_ended)
    # Words before code tell what the code does.
    reads_descriptions = reads_descriptions or bool(find_code(parsed))
    code = "\n".join(_code_blocks(state, answer, messages))
    sources = list(_sources(messages, state["turn"], reads_descriptions=reads_descriptions))
    users_words = [*state["earlier_questions"], *state["added_words"]]
    other_texts = [code] if reads_descriptions else users_words
    sources += [FigureSource(None, text, printed=False) for text in other_texts]

    # The user reads only the words of the new answer (`prose`), so its thoughts are not looked up.
    figures = find_figures(parsed.prose, sources, question, code=code)
    if reads_descriptions:
        return figures
    return _mark_unprinted_digits(figures, [question, *(source.text for source in sources)])


def _code_blocks(state: AgentState, answer: str, messages: Sequence[AnyMessage]) -> Iterator[str]:
    """Yield the code that has run, or was proposed. Comments without code are words, and no source.

    Args:
        state: The state of the turn.
        answer: The answer, as the model wrote it.
        messages: The conversation before it.
    """
    yield from find_code(parse_response(answer))
    for message in messages:
        if message.type == "ai":
            yield from find_code(parse_response(str(message.text)))
    for result in state["execution_results"]:
        yield result["code"]


def _sources(
    messages: Sequence[AnyMessage], turn: int, *, reads_descriptions: bool
) -> Iterator[FigureSource]:
    """Yield what a figure may come from in a conversation, in order.

    Args:
        messages: The conversation before the answer.
        turn: The number of the question that is being answered.
        reads_descriptions: Whether what was not printed counts as well.
    """
    for message in messages:
        text = str(message.text)
        if message.type != "ai":
            for source in _message_sources(text):
                if source.printed or reads_descriptions:
                    yield source
            continue
        # An earlier answer of this turn may have the same wrong figure.
        is_of_this_turn = (message.id or "").startswith(f"{turn}.")
        if reads_descriptions and not is_of_this_turn:
            # Thoughts count as a source (`chat` has them), because the figure was there before.
            yield FigureSource(None, parse_response(text).chat, printed=False)


def _mark_unprinted_digits(
    figures: Sequence[AnswerFigure], texts: Sequence[str]
) -> tuple[AnswerFigure, ...]:
    """Return the figures, of which a 0 or 1 has a source only if it stands in one of the texts.

    By `find_figures`, these two always have a source, because they occur in most sentences.
    """
    digits = {digit for text in texts for digit in _ZERO_OR_ONE.findall(text)}
    return tuple(
        figure._replace(
            found=figure.has_source and (figure.text not in ("0", "1") or figure.text in digits)
        )
        for figure in figures
    )


def _is_plan(messages: Sequence[AnyMessage], question: str) -> bool:
    """Return whether a turn asks for a plan.

    Args:
        messages: The conversation, which may have other human messages after the question: outputs
            and requests to correct something.
        question: The user's question, which stands in a message with what else the model is told.
    """
    for message in reversed(messages):
        text = str(message.text)
        has_question = message.type == "human" and question in text
        if has_question:
            return prompts.PLANNING in text
    return False


def _message_sources(text: str) -> Iterator[FigureSource]:
    """Yield the outputs, tool results and attachments of a message, and then all its other text.

    The other text has the user's words and code, descriptions of variables, and notes on what was
    skipped and undone. It was not printed.
    """
    other_texts: list[str] = []
    last_record_end = 0
    for record in _source_records(text):
        cell_match = _CELL_NUMBER.search(record.tag)
        cell = int(cell_match[1]) if cell_match else None
        yield FigureSource(cell, record.content)
        other_texts.append(text[last_record_end : record.start])
        last_record_end = record.end
    other_texts.append(text[last_record_end:])

    # A request to correct a figure repeats the wrong figure, and must not become its source.
    other_text = _CHALLENGE_LINE.sub("", "\n".join(other_texts))
    yield FigureSource(None, _NOT_RESULTS.sub("", other_text), printed=False)


class _SourceRecord(NamedTuple):
    """A record in a message, in which figures may occur."""

    tag: str
    """Its start tag, without the closing bracket."""
    content: str
    """What stands between its start tag and its end tag."""
    start: int
    """The index in the message where its start tag begins."""
    end: int
    """The index in the message where its content ends, and its end tag begins."""


def _source_records(text: str) -> Iterator[_SourceRecord]:
    """Yield the outputs, tool results and attachments of a message, in order.

    A start tag without an end tag begins no record, and neither does one within a record.
    """
    search_start = 0
    unclosed_names = set[str]()
    """The names of tags for which the message has no further end tag."""
    while opening := _SOURCE_TAG.search(text, search_start):
        name = opening[1]
        start = opening.start()
        search_start = opening.end()
        # Looking again and again for an end tag that does not exist would take long.
        if name in unclosed_names:
            continue
        end = text.find(f"</{name}>", search_start)
        if end < 0:
            unclosed_names.add(name)
            continue
        tag, _, content = text[start:end].partition(">")
        # Go on after the content, so that a start tag in it begins no record.
        search_start = end
        yield _SourceRecord(tag, content, start, end)
