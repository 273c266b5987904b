"""The order of a traceback's lines, and their colours.

Python prints the error last. On the screen it comes first, because a traceback may be longer than the view.
"""

from __future__ import annotations

import re

from mahtab_tui.bus.output_lines import LOCATION, OutputLine
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.theme import BOLD, Palette

_ERROR_MARKS = re.compile(r"^\s*[~^]+\s*$")
"""Marks the place of the error in the line above."""
_TRACEBACK_HEADING = "Traceback (most recent call last):"
_CHAIN_LINES = {
    "The above exception was the direct cause of the following exception:": "caused by ",
    "During handling of the above exception, another exception occurred:": "raised while handling ",
}
"""Python's lines between chained errors, and what introduces the earlier error."""
_MUTED_STARTS = (_TRACEBACK_HEADING, "  [Previous line", "  … ")
"""Starts of lines that one may skip."""
_HINT_START = "Hint: "
"""Starts a line that helps to fix the error."""
ERROR_LEAD = "error"
"""The lead of the first line of the last error."""

LineWithLead = tuple[OutputLine, str]
"""A line of an output, and its lead: words that are drawn before it, or how it is drawn; empty for
most. A plain tuple, because a flood of output makes a thousand of them in each frame."""


def error_first(lines: list[OutputLine]) -> list[LineWithLead]:
    """Reorder a traceback at the end: the error, its frames, then each error that led to it.

    The first line of the last error has the lead `ERROR_LEAD`; that of an earlier one has words.
    """
    kinds = [line.kind for line in lines]
    start = kinds.index("traceback") if "traceback" in kinds else len(lines)
    ordered: list[LineWithLead] = [(line, "") for line in lines]
    if start == len(lines):
        return ordered
    # A traceback may have another form, as in IPython.
    first_text = lines[start].text
    if first_text != _TRACEBACK_HEADING and not LOCATION.match(first_text):
        return ordered
    del ordered[start:]
    lead = ERROR_LEAD
    block: list[OutputLine] = []
    for line in reversed(lines[start:]):
        if line.text in _CHAIN_LINES:
            ordered += _one_error(block[::-1], lead)
            lead = _CHAIN_LINES[line.text]
            block = []
        else:
            block.append(line)
    return ordered + _one_error(block[::-1], lead)


def _one_error(block: list[OutputLine], lead: str) -> list[LineWithLead]:
    """Return the lines of one error, without blank lines at its ends: the error, then its frames.

    Args:
        block: The lines, with the error after its frames.
        lead: The lead of the first line.
    """
    while block and not block[0].text.strip():
        del block[0]
    while block and not block[-1].text.strip():
        del block[-1]
    if block and block[0].text == _TRACEBACK_HEADING:
        del block[0]
    # The error is the first line that is not indented; its frames stand before it.
    error_index = 0
    for index, line in enumerate(block):
        if line.text[:1] not in ("", " "):
            error_index = index
            break
    ordered = [*block[error_index:], *block[:error_index]]
    return [(line, "" if index else lead) for index, line in enumerate(ordered)]


def traceback_spans(text: str, palette: Palette, lead: str) -> list[Span]:
    """Colour a line of a traceback.

    Args:
        text: The line, with its lead if this is words.
        palette: The colours.
        lead: The lead of the line, as `error_first` has returned it.
    """
    if lead == ERROR_LEAD:
        return [(text, palette.bad + BOLD)]
    if lead:
        return [(lead, palette.muted), *traceback_spans(text[len(lead) :], palette, "")]
    match = LOCATION.match(text)
    if match:
        # The file and the line number stand out.
        muted = palette.muted
        styles = (muted, palette.person, muted, palette.highlight, muted)
        return list(zip(match.groups(), styles, strict=True))
    if text.startswith(_MUTED_STARTS):
        return [(text, palette.muted)]
    if _ERROR_MARKS.match(text):
        return [(text, palette.bad)]
    if text[:1].isspace():
        return [(text, palette.text)]
    if text.startswith(_HINT_START):
        return [(_HINT_START, palette.highlight), (text[len(_HINT_START) :], palette.text)]
    exception, colon, message = text.partition(":")
    return [(exception, palette.bad + BOLD), (colon + message, palette.bad)]
