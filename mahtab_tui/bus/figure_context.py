"""The words around the figures of an answer: whether it claims them about the data, and what they
say of how a figure was computed."""

from __future__ import annotations

import re
from bisect import bisect_right

from mahtab_tui.bus.figure_arithmetic import YEAR
from mahtab_tui.bus.figure_tokens import FigureToken

_CONTEXT_CHARS = 160
"""Characters before and after a figure that say what it is about."""
_MAX_LIST_CHARS = 320
"""Characters after a number in which a sentence may enumerate what it counts."""
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_NEGATION_BEFORE = re.compile(
    r"\b(?:no|none|neither|nor|never|nobody|nothing|without"
    r"|(?:not|\w+n['’]t)\b[^.,;:!?\n()]{0,30}\b(?:any|a\ssingle))\b"
    r"(?!\s(?:more|less|fewer|later|earlier)\sthan)[^.,;:!?\n()]{0,60}$",
    re.IGNORECASE,
)
"""Before a figure that is denied, as in "no row above 100"."""
_DEFINITE = re.compile(r"\b(?:the|all|these|those)\s\W{0,2}$", re.IGNORECASE)
"""Before the count of a whole, which a negation does not deny, as in "none of the 406"."""
_ABSENCE = re.compile(
    r"\b(?:no|not|none|never|without|missing|absent|lacks?|except|excluding|jumps?|skips?|gaps?)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
"""In a sentence about something that does not exist."""
_OFFER = re.compile(
    r"[\s>*-]{0,9}(?:if\syou\s(?:want|wish|like|prefer|need)|would\syou|shall\si|should\si|do\syou\swant|want\sme|i\sc(?:an|ould)"
    r"|you\sc(?:an|ould)|let\sme\sknow)\b",
    re.IGNORECASE,
)
"""At the start of a sentence that offers more work."""
_GENERAL = re.compile(
    r"\b(?:rules?\sof\sthumb|as\sa\srule|by\sconvention|conventional(?:ly)?|textbook|cut-?off"
    r"|customar(?:y|ily))\b",
    re.IGNORECASE,
)
"""In a sentence about what holds in general, and not for this data."""
_POWER_OF_TEN = re.compile(r"10[0,]*\s?%?|100\s?per\s?cent")
_UNIT_BASE_BEFORE = re.compile(r"\b(?:per|every|each)\s\W{0,2}$", re.IGNORECASE)
_UNIT_BASE_AFTER = re.compile(r"\s\w{1,20}\s(?:more|less|fewer|extra)\b", re.IGNORECASE)
"""With `_UNIT_BASE_BEFORE`: around a base that nobody computes, as in "per 100 people" or "100 cars
more"."""
_YEARLY = re.compile(r"\s(?:a|per|each)\s(?:year|month)\b|\s(?:annual|yearly|monthly)")
"""After a percentage that is a rate of growth."""
_TIMES = re.compile(r"[\s-](?:times|fold)\b", re.IGNORECASE)
"""After a ratio."""
_PART_OF = re.compile(r"\sof\s(?:the\s|these\s)?(\d{1,3})\b(?![.,]\d)")
"""After the count of a part; the group is the count of the whole."""


class FigureContext:
    """The sentences of an answer."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._sentence_ends = [match.end() for match in _SENTENCE_END.finditer(answer)]

    def sentence(self, token: FigureToken) -> int:
        """Return the number of a figure's sentence, from 0."""
        return bisect_right(self._sentence_ends, token.start)

    def is_claimed(self, token: FigureToken) -> bool:
        """Return whether the answer says that a figure is a fact about the data. It does not if it
        denies the figure, offers something, or speaks of what holds in general."""
        before = self._before(token)
        after = self._after(token)
        if _NEGATION_BEFORE.search(before) and not _DEFINITE.search(before):
            return False
        if _OFFER.match(self._answer, self._sentence_start(token)):
            return False
        sentence = _SENTENCE_END.split(before)[-1] + token.text + _SENTENCE_END.split(after)[0]
        if _GENERAL.search(sentence):
            return False

        # A year or a name may be what does not exist. Another number counts what does exist.
        is_name = token.ranges is None or YEAR.fullmatch(token.text) is not None
        if is_name and _ABSENCE.search(sentence):
            return False
        is_base = _UNIT_BASE_BEFORE.search(before) or _UNIT_BASE_AFTER.match(after)
        return not is_base or _POWER_OF_TEN.fullmatch(token.text) is None

    def is_yearly(self, token: FigureToken) -> bool:
        """Return whether a figure is a rate for each year or month."""
        return _YEARLY.match(self._after(token)) is not None

    def is_factor(self, token: FigureToken) -> bool:
        """Return whether a figure says how many times as large something is."""
        if token.text.endswith(("x", "×")):
            return True
        return _TIMES.match(self._after(token)) is not None

    def whole(self, token: FigureToken) -> int:
        """Return the number of which a figure is a part, as in "3 of the 406"; 0 if none is named."""
        match = _PART_OF.match(self._answer, token.end)
        return int(match[1]) if match else 0

    def rest_of_sentence(self, token: FigureToken) -> str:
        """Return the sentence from a figure on, where it may enumerate what the figure counts."""
        text = self._answer[token.start : token.start + _MAX_LIST_CHARS]
        return _SENTENCE_END.split(text)[0]

    def _before(self, token: FigureToken) -> str:
        return self._answer[max(0, token.start - _CONTEXT_CHARS) : token.start]

    def _after(self, token: FigureToken) -> str:
        return self._answer[token.end : token.end + _CONTEXT_CHARS]

    def _sentence_start(self, token: FigureToken) -> int:
        sentence = self.sentence(token)
        if sentence == 0:
            return 0
        return self._sentence_ends[sentence - 1]
