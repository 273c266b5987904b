"""The words around the figures of an answer: whether it claims them about the data, and what they
say of how a figure was computed.

The patterns are for English. They decide which figures are left alone, and which arithmetic is tried, so
that what they miss is looked up like any other figure.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from mahtab_tui.bus.figure_arithmetic import YEAR
from mahtab_tui.bus.figure_tokens import ONLY_NUMBER, FigureToken, whole_number

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
"""Words before a figure that is denied, as in "no row above 100"."""
_VERB = (
    r"(?:is|are|was|were|has|have|had|equals?|averages?|rises?|rose|falls?|fell|drops?|dropped"
    r"|becomes?|became|stays?|remains?|reach(?:es|ed)|comes?|came|goes|went|gives?|gave|leaves?|left"
    r"|makes?|made|would|will)"
)
_PREPOSITION = (
    r"(?:of|in|on|at|to|for|from|by|with|than|above|below|over|under|between|among|within|before"
    r"|after|like|as)"
)
_NEW_CLAUSE = re.compile(
    # "no outliers the mean is", but not "no value of the table is".
    rf"(?<![\w’'-])(?!{_PREPOSITION}\s)[\w’'-]+\s(?:the|its|their|these|those)\s(?:[\w’'-]+\s){{1,4}}{_VERB}\b"
    # "no outliers it is", but not "no row where it is".
    rf"|(?<![\w’'-])(?!(?:where|when|which|if|that)\s)[\w’'-]+\s(?:it|they|there)\s{_VERB}\b"
    # "no doubt that the", "nothing is missing and there".
    r"|\b(?:that|and|but|so|because|since|while)\s(?:the|its|their|these|those|it|they|there|we|i)\b",
    re.IGNORECASE,
)
"""The start of a clause after a negation that does not deny it."""
_WITHOUT = re.compile(rf"(?:without\b|with\sno\b).*\b{_VERB}\b", re.IGNORECASE)
"""An adverbial, and the verb of the sentence in which it stands."""
_LEADING_ADVERBIAL = re.compile(
    r"\W{0,9}(?:without|with\sno|excluding|except\sfor|not\scounting)\b[^.,;:!?\n()]{1,60}"
    r"(?:,|(?=\s(?:the|its|their|it|they|there|we)\b))",
    re.IGNORECASE,
)
"""The start of a sentence that says under which condition the rest holds."""
_DEFINITE = re.compile(r"\b(?:the|all|these|those)\s\W{0,2}$", re.IGNORECASE)
"""Words before the count of a whole, which a negation does not deny, as in "none of the 406"."""
_ABSENCE = re.compile(
    r"\b(?:no|not|none|never|without|missing|absent|lacks?|except|excluding|jumps?|skips?|gaps?)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
"""Words in a sentence about something that does not exist."""
_OFFER = re.compile(
    r"[\s>*-]{0,9}(?:if\syou\s(?:want|wish|like|prefer|need)|would\syou|shall\si|should\si"
    r"|do\syou\swant|want\sme|i\sc(?:an|ould)|you\sc(?:an|ould)|let\sme\sknow)\b",
    re.IGNORECASE,
)
"""The start of a sentence that offers more work."""
_REPORT = re.compile(
    r"[\s>*-]{0,9}(?:i|you)\s(?:"
    # "I could only find 3".
    r"could\s(?:only\s)?find\s\W{0,2}(?=\d)"
    r"|c(?:an|ould)\s(?:\w{1,12}\s){0,2}?(?:"
    # "you can check that the mean is", but not "I can drop that column".
    r"\w+(?:\s\w+){0,3}?\sthat\s(?:the|there|it|its|they|their|all|most|an?|no|on|in|these|those)\b"
    # "you can see here", "I can read from it".
    r"|(?:see|tell|read|say|notice|observe|confirm|conclude|infer)"
    r"(?:,|\s(?:here|above|below|in|from|it|there)\b|\W{1,3}(?=\d))))",
    re.IGNORECASE,
)
"""The start of a sentence like an offer that tells what is seen in the data."""
_STATED = re.compile(
    r"\b(?:is|are|was|were|equals?|comes\sto)\s"
    r"(?:(?:about|only|just|exactly|roughly|around|now|still)\s){0,2}[^\w\s]{0,3}$",
    re.IGNORECASE,
)
"""Words before a figure that something is said to be."""
_RELATIVE = re.compile(
    r"\b(?:whose|where|which|who|that|when|if|whether|assum\w+|until|so)\b(?!\s(?:want|need|wish|like|prefer))",
    re.IGNORECASE,
)
"""Words before a figure that is part of a condition, as in "cars whose power is 100"."""
_GENERAL = re.compile(
    r"\b(?:rules?\sof\sthumb|as\sa\srule|by\sconvention|conventional(?:ly)?|textbook|cut-?off"
    r"|customar(?:y|ily))\b",
    re.IGNORECASE,
)
"""Words in a sentence about what holds in general, and not for this data."""
_CONJECTURE = re.compile(
    # Not the month May, and not "you could see that it is".
    r"\b(?:(?-i:may)|might|could)\s(?:(?:well|also)\s)?(?:be|have|lie|equal)\b"
    r"|\b(?:perhaps|presumably|possibly|my\sguess|i\sguess)\b",
    re.IGNORECASE,
)
"""Words in a sentence about what is assumed, and not read from the data."""
_POWER_OF_TEN = re.compile(r"10[0,]*\s?%?|100\s?per\s?cent")
"""A number that may be the base of a unit."""
_UNIT_BASE_BEFORE = re.compile(r"\b(?:per|every|each)\s\W{0,2}$", re.IGNORECASE)
_UNIT_BASE_AFTER = re.compile(r"\s\w{1,20}\s(?:more|less|fewer|extra)\b", re.IGNORECASE)
"""What follows the base of a unit, which nobody computes, as in "100 cars more"; `_UNIT_BASE_BEFORE`
stands before it, as in "per 100 people"."""
_YEARLY = re.compile(r"\s(?:a|per|each)\s(?:year|month)\b|\s(?:annual|yearly|monthly)")
"""What follows a percentage that is a rate of growth."""
_TIMES = re.compile(r"[\s-](?:times|fold)\b", re.IGNORECASE)
"""What follows a ratio."""
_PART_OF = re.compile(r"\sof\s(?:(?:all|the|these|those|its|our|your)\s){0,2}")
"""What stands between the count of a part and that of the whole."""
_QUESTION_AFTER = re.compile(r"[^.!?\n]{0,160}\?")
"""What follows a figure in a question."""


class FigureContext:
    """What an answer says about its figures.

    Args:
        answer: The text from which the figures were read.
    """

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._sentence_ends = [match.end() for match in _SENTENCE_END.finditer(answer)]

    def sentence(self, token: FigureToken) -> int:
        """Return the number of a figure's sentence, from 0."""
        return bisect_right(self._sentence_ends, token.start)

    def is_claimed(self, token: FigureToken) -> bool:
        """Return whether the answer says that a figure is a fact about the data.

        It does not if it denies the figure, offers something, or speaks of what holds in general.
        """
        words_before = self._clause_before(token)
        if _is_denied(words_before) or self._is_offered(token):
            return False
        sentence = self._sentence_text(token)
        if _GENERAL.search(sentence):
            return False

        # A year or a name may be what does not exist. Another number counts what does exist.
        is_name = token.ranges is None or YEAR.fullmatch(token.text) is not None
        if is_name and _ABSENCE.search(sentence):
            return False
        is_power_of_ten = _POWER_OF_TEN.fullmatch(token.text) is not None
        is_base = _UNIT_BASE_BEFORE.search(words_before) or _UNIT_BASE_AFTER.match(
            self._after(token)
        )
        return not (is_power_of_ten and is_base)

    def is_conjecture(self, token: FigureToken) -> bool:
        """Return whether the answer only assumes a figure, as in "it may be 34.2"."""
        return _CONJECTURE.search(self._sentence_text(token)) is not None

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
        words_between = _PART_OF.match(self._answer, token.end)
        if words_between is None:
            return 0
        number_match = ONLY_NUMBER.match(self._answer, words_between.end())
        return 0 if number_match is None else whole_number(number_match)

    def rest_of_sentence(self, token: FigureToken) -> str:
        """Return the sentence from a figure on, where it may enumerate what the figure counts."""
        text = self._answer[token.start : token.start + _MAX_LIST_CHARS]
        return _SENTENCE_END.split(text)[0]

    def _is_offered(self, token: FigureToken) -> bool:
        """Return whether the sentence of a figure offers work, rather than telling a result."""
        start = self._sentence_start(token)
        offer = _OFFER.match(self._answer, start)
        if offer is None:
            return False
        report = _REPORT.match(self._answer, start)
        if report and report.end() <= token.start:
            return False
        if _QUESTION_AFTER.match(self._answer, token.end):
            return True
        # An offer may also state a figure, as in "I can drop them: the mean is 3.2 then".
        words_between = self._answer[offer.end() : token.start]
        is_stated = _STATED.search(words_between) is not None
        is_condition = _RELATIVE.search(words_between) is not None
        return not is_stated or is_condition

    def _clause_before(self, token: FigureToken) -> str:
        """Return the sentence up to a figure, without the adverbial with which it begins."""
        start = self._sentence_start(token)
        adverbial = _LEADING_ADVERBIAL.match(self._answer, start, token.start)
        if adverbial:
            start = adverbial.end()
        return self._answer[max(start, token.start - _CONTEXT_CHARS) : token.start]

    def _sentence_text(self, token: FigureToken) -> str:
        """Return a figure's sentence; of a long one, what is near the figure."""
        ending = _SENTENCE_END.split(self._after(token))[0]
        return self._clause_before(token) + token.text + ending

    def _after(self, token: FigureToken) -> str:
        return self._answer[token.end : token.end + _CONTEXT_CHARS]

    def _sentence_start(self, token: FigureToken) -> int:
        sentence = self.sentence(token)
        if sentence == 0:
            return 0
        return self._sentence_ends[sentence - 1]


def _is_denied(before: str) -> bool:
    """Return whether a figure is denied by the words before it."""
    negation = _NEGATION_BEFORE.search(before)
    if negation is None or _DEFINITE.search(before):
        return False
    denied_words = negation[0]
    return not _NEW_CLAUSE.search(denied_words) and not _WITHOUT.match(denied_words)
