"""Whether code has printed any value, and whether an answer names one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mahtab_tui.bus.figure_sources import MAX_SOURCE_END_CHARS, FigureSource
from mahtab_tui.bus.figures import find_figures

_WORD_STEM_CHARS = 5
"""Characters by which words are compared, so that "cheapest" and "cheaper" are one."""
_REPRESENTATION = re.compile(r"<[^<>\n]{1,200}>|Figure\(\d+x\d+\)")
"""The representation of an object, which is no value that an answer could name."""
_WARNING = re.compile(r"\S.*:\d+: \w*Warning: ")
"""How the first line of one of Python's warnings begins: the file, the line and the category."""
_WARNING_CODE = re.compile(r"  \S")
"""How the line of code begins that may follow it."""
_VALUE_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_][^\W_]{2,40}")
_LABEL_WORDS = frozenset(
    "name dtype count mean median std min max int32 int64 float32 float64 object str bool length"
    " rows columns row column index datetime64 nan the and are for has have was were with that this"
    " there from all".split()
)
"""Words that are not values: those that pandas writes beside values, and those of any sentence."""
_TRUTH_VALUES = ("true", "false")
_YES = re.compile(r"\byes\b", re.IGNORECASE)
_NEGATIVE_ANSWER = re.compile(
    r"\b(?:no|not|none|nothing|cannot|never|without)\b|n['’]t\b", re.IGNORECASE
)


def says_nothing(output: str) -> bool:
    """Return whether an output has nothing but representations of objects, warnings and ``None``."""
    remaining_words: list[str] = []
    follows_warning = False
    for line in output[:MAX_SOURCE_END_CHARS].splitlines():
        is_warning = _WARNING.match(line) is not None
        is_warning_code = follows_warning and _WARNING_CODE.match(line) is not None
        if not is_warning and not is_warning_code:
            remaining_words += _REPRESENTATION.sub("", line).split()
        follows_warning = is_warning
    return all(word == "None" for word in remaining_words)


def names_no_value(
    answer: str, outputs: Sequence[str], question: str, codes: Sequence[str] = ()
) -> bool:
    """Return whether an answer names nothing from the outputs: no figure and no word that is not
    already in the question or in the code. An answer that denies something need not name anything,
    so this returns False for it.

    Args:
        answer: The answer.
        outputs: The outputs of the code that ran for it.
        question: What was asked.
        codes: That code, whose words are labels of the values that it printed.
    """
    if _NEGATIVE_ANSWER.search(answer[:MAX_SOURCE_END_CHARS]):
        return False
    output_words: set[str] = set()
    for output in outputs:
        if not says_nothing(output):
            output_words.update(_value_words(output))
    for code in codes:
        output_words.difference_update(word for word in _value_words(code) if word.isalpha())
    if not output_words:
        return False

    # Figures may be written differently in the answer, so that their words alone do not match.
    question_words = set(_value_words(question))
    sources = [FigureSource(1, output) for output in outputs]
    for figure in find_figures(answer, sources, ""):
        if figure.has_source and not question_words.issuperset(_value_words(figure.text)):
            return False
    # "Yes" names a printed True or False.
    if _YES.search(answer[:MAX_SOURCE_END_CHARS]) and not output_words.isdisjoint(_TRUTH_VALUES):
        return False
    answer_words = set(_value_words(answer))
    return output_words.isdisjoint(answer_words - question_words)


def _value_words(text: str) -> Iterator[str]:
    """Yield what may be a value in a text: its numbers, and the stems of its words."""
    values = _REPRESENTATION.sub("", text[:MAX_SOURCE_END_CHARS])
    for word in _VALUE_WORD.findall(values.casefold()):
        if word[0].isdecimal():
            yield word
        elif word not in _LABEL_WORDS:
            yield word[:_WORD_STEM_CHARS]
