"""Reads the figures of an answer: numbers, ISO dates and quoted values.

One pattern reads the text from left to right. It also matches what has digits and is no figure, such as
code, paths, times and versions, so that these are passed over as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_WORD_CHAR = r"[^\W\u2e80-\ud7ff\uf900-\ufaff]"
"""A word character, except of Chinese, Japanese and Korean, which have no space before a number."""
_GROUP_SPACES = " \u00a0\u2009\u202f"
"""Spaces that separate groups of digits."""
_NUMBER = rf"""(?<!{_WORD_CHAR})(?<!\^)(?:
    (?P<sign>(?<![\w)\].])[-−])?(?:[$€£¥₹]\s?)?
    (?P<digits>(?>
        \d{{1,3}}(?P<gap>[,.'’_{_GROUP_SPACES}])\d{{3}}(?:(?P=gap)\d{{3}}){{0,8}}+(?!\d)(?:[.,]\d++)?
        | \d++(?:[.,]\d++)? | \.\d++
    ))
    (?P<power>[eE][-+]?\d{{1,3}}(?!\w))?
    (?P<unit>\s?(?:%|per\s?cent(?:age\s+points?)?\b|(?i:thousand|million|billion|trillion)\b)
        | (?:[{_GROUP_SPACES}]?(?:[kKMB]|bn|[kKMG]B)
            | st|nd|rd|th|ms|min|h|m|cm|mm|km|in|kg|mg|g|x|×|px|[°º][CF]?|W|kW|mph|mpg|[$€£¥]
        )(?!{_WORD_CHAR})
    )?
    (?!{_WORD_CHAR}|[\ufe0f\u20e3]|-[A-Za-z])
)"""
_SKIPPED_MARKDOWN = (
    # A block of code, up to its closing fence or the end of the text.
    r"^[ \t]{0,3}(?P<fence>`{3,}(?![^`\n]*`)|~{3,}).*+"
    r"(?:\n(?![ \t]{0,3}(?P=fence)).*+)*+(?:\n.*+)?",
    # A heading.
    r"^[ \t]{0,3}\#{1,6}[ \t].*+",
    # The number of an item in a list.
    r"^[ \t]*+(?:>[ \t]*+)*+(?:[-*+][ \t]++)?[*_]{0,2}\d{1,9}[.)][*_]{0,2}(?=[ \t])",
    # The first cell of a table's row, if it counts the rows.
    r"^[ \t]*+\|[ \t]*+\d{1,3}[ \t]*+(?=\|)",
)
_SKIPPED_PLACES = (
    # Addresses and paths.
    r"[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^\s<>]++",
    r"www\.[^\s<>]++",
    r"(?<![\w)])[~.]{0,2}/\w[\w./-]*+",
)
_QUOTED = (
    r"(?P<ticks>`{1,2})(?P<ticked>[^`\n]{1,300})(?P=ticks)",
    r"(?<![\w\"])\"(?=\S)(?P<double>[^\"\n]{1,120})(?<=\S)\"",
    r"(?<![\w'’])'(?=[\w$€£])(?P<single>[^'\n]{1,80})(?<=\S)'(?!\w)",
    r"“(?P<curly>[^“”\n]{1,120})”",
)
_DATE = r"(?P<date>\b\d{4}-\d\d(?:-\d\d)?(?![\d-]))"
_SKIPPED_NUMBERS = (
    # Times, as in 12:30 and 5 p.m.
    r"\d{1,2}(?::\d\d){1,2}",
    r"\d{1,2}\s?[AaPp]\.?[Mm]\b",
    # Cells, as in "cells 3, 4 and 5" and "In [3]".
    r"\b(?i:cells?)\s\#?\d++(?:(?:,\s?|\s?[-–]\s?|\s(?:and|or|to)\s)\d++\b)*+",
    r"\b(?:In|Out)\s?\[\d++\]",
    # Numbers that name something, as in "step 2", "pandas 3.1" and "#4".
    r"\b(?i:steps?|sections?|parts?|options?|examples?|fig(?:ure)?s?\.?|tables?|questions?|versions?"
    r"|python|pandas|numpy|top|first|last|next|previous|no\.)\s\#?\d++(?:\.\d++)*+(?![%\w])",
    r"\#\d++",
    # The usual levels of confidence.
    r"(?:80|90|95|99)\s?%\s(?:confidence|CI\b|prediction|credible)",
    # Powers of ten, whose parts are no figures by themselves.
    r"\d++(?:\.\d++)?\s?[×x*·]\s?10(?:\^|\*\*|[⁻⁺⁰¹²³⁴-⁹])[\d⁻⁺⁰¹²³⁴-⁹{}+−-]*+",
    # Versions and addresses, as in 1.2.3, but not groups of digits, as in 1.234.567.
    r"(?!\d{1,3}(?:\.\d{3}){2,}+(?![.\d]))\d++(?:\.\d++){2,}+",
)
_SKIPPED_WORDS = (
    # Words, also those with digits, as in "CO2" and "7zip".
    rf"(?!\d){_WORD_CHAR}++(?:['’./@-]{_WORD_CHAR}++)*+",
    rf"\d{_WORD_CHAR}*+(?:[./-]{_WORD_CHAR}++)*+",
)
_TOKEN = re.compile(
    "|".join(
        (
            *_SKIPPED_MARKDOWN,
            *_SKIPPED_PLACES,
            *_QUOTED,
            _DATE,
            *_SKIPPED_NUMBERS,
            f"(?P<number>{_NUMBER})",
            *_SKIPPED_WORDS,
        )
    ),
    re.VERBOSE | re.MULTILINE,
)
"""Figures in named groups; what matches without one is skipped. The first alternative counts."""
_QUOTES = ("ticked", "double", "single", "curly")
ONLY_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_HEDGE = re.compile(
    r"(?i:\b(?:about|around|approximately|roughly|nearly|almost|over|under"
    r"|(?:more|less|fewer)\sthan|at\s(?:least|most))|[~≈<>≤≥])\s?$"
)
_CODE = re.compile(
    r"[=<>{}\[\]\\|_;]|\w\(|\w\.\w|\*\*|^[.@%!/]|^(?:for|import|from|if|def|pip|return|not)\b"
)
_UNITS_BY_SCALE = {
    0.01: "% th",  # the 5th percentile is the quantile 0.05
    1e3: "thousand k kb",
    1e6: "million m mb",
    1e9: "billion b bn gb",
    1e12: "trillion",
}
UNIT_SCALES = {unit: scale for scale, units in _UNITS_BY_SCALE.items() for unit in units.split()}
"""What a number is multiplied by, by its unit."""
_MAX_HEDGE_CHARS = 20
"""Characters before a number in which a hedge is looked for."""
_MAX_QUOTED_SPACES = 5
"""A quotation with more spaces is a sentence rather than a value."""
_MAX_P_VALUE = 0.1
"""A number up to this, with "<" before it, may stand for all numbers below."""
_MAX_EXPONENT = 300
"""Powers of ten that a float can hold."""
_ROUNDING_MARGIN = 1e-9
"""The inexactness of floats that is allowed for, relative to the half of a range."""


class NumberRange(NamedTuple):
    """The numbers that are rounded to a figure."""

    middle: float
    half: float
    """Half the width of the range."""
    signed: bool
    """Whether the figure has a sign; without one, it may also be a negative number."""


class FigureToken(NamedTuple):
    """A figure in an answer."""

    start: int
    """Where it begins in the answer, in characters."""
    end: int
    text: str
    """The figure as it is written, with its unit or quotation marks."""
    ranges: list[NumberRange] | None = None
    """None for a date or a quoted value; empty for 0 and 1, which mean "none" and "one"."""
    quoted: str = ""
    """A quoted value, without its quotation marks."""
    hedge: str = ""
    """What stands before a rounded number, such as "about" or "<"."""

    @property
    def is_percent(self) -> bool:
        """Whether it is a percentage, or a number of percentage points."""
        return "%" in self.text or "per" in self.text  # "per cent"

    @property
    def value(self) -> float:
        """The number without its sign; a percentage as a fraction."""
        middles = [abs(candidate.middle) for candidate in self.ranges or ()]
        if self.is_percent:
            return min(middles)
        return max(middles)

    def acceptor(self) -> Callable[[float], bool]:
        """Return a function that tells whether a computed value is rounded to the figure."""
        ranges = self.ranges or []
        if self.is_percent:
            # Arithmetic gives a percentage as a fraction, not as the number before the sign.
            largest = max((abs(candidate.middle) for candidate in ranges), default=0.0)
            ranges = [candidate for candidate in ranges if abs(candidate.middle) * 10 < largest]
        bounds = [
            (abs(candidate.middle), candidate.half * (1 + _ROUNDING_MARGIN)) for candidate in ranges
        ]
        return lambda value: any(abs(middle - value) <= half for middle, half in bounds)


def figure_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return where each figure of an answer begins and ends."""
    return ((token.start, token.end) for token in scan_figures(text))


def scan_figures(text: str) -> Iterator[FigureToken]:
    """Return the figures of a text in order."""
    position = 0
    while match := _TOKEN.search(text, position):
        position = max(match.end(), position + 1)
        if match["number"]:
            yield _number_token(match, text)
        elif match["date"]:
            yield FigureToken(match.start(), match.end(), match[0])
        elif quote := next((name for name in _QUOTES if match[name]), ""):
            token = _quoted_token(match, quote)
            if token is not None:
                yield token
            elif _is_sentence(match[quote], quote):
                # Its own figures are read.
                position = match.start(quote)


def _number_token(match: re.Match[str], text: str) -> FigureToken:
    """Return a number of a text, with the hedge before it."""
    start = match.start()
    hedge_match = _HEDGE.search(text[max(0, start - _MAX_HEDGE_CHARS) : start])
    hedge = hedge_match[0].strip() if hedge_match else ""
    return FigureToken(start, match.end(), match[0], number_ranges(match, hedge), hedge=hedge)


def _quoted_token(match: re.Match[str], quote: str) -> FigureToken | None:
    """Return a quoted number or value; None for a sentence, code, or a single character."""
    start, end = match.span()
    quoted = match[quote].strip().rstrip(",.;:!?")
    number = ONLY_NUMBER.fullmatch(quoted)
    if number is not None:
        return FigureToken(start, end, match[0], number_ranges(number, ""))
    if _is_sentence(match[quote], quote) or len(quoted) < 2:
        return None
    if not re.search(r"\w", quoted) or _CODE.search(quoted):
        return None
    return FigureToken(start, end, match[0], quoted=quoted)


def _is_sentence(quoted: str, quote: str) -> bool:
    """Return whether a quotation is longer than a value. What stands between backticks never is one.

    Args:
        quoted: The text in quotation marks.
        quote: The name of its group in `_TOKEN`.
    """
    return quote != "ticked" and quoted.strip().count(" ") > _MAX_QUOTED_SPACES


def number_ranges(match: re.Match[str], hedge: str) -> list[NumberRange]:
    """Return the numbers that are rounded to a figure: its last digit decides.

    Args:
        match: A match of `ONLY_NUMBER`, or of a pattern that contains it.
        hedge: As in `FigureToken`.
    """
    if match[0] in ("0", "1"):
        return []

    signed = bool(match["sign"])
    ranges: list[NumberRange] = []
    for digits in _plain_digits(match["digits"], match["gap"]):
        value = float(digits)
        if hedge in ("<", "≤") and value <= _MAX_P_VALUE:  # a p-value
            ranges.append(NumberRange(value / 2, value / 2, signed=False))
        for factor in _factors(match):
            for step in _rounding_steps(digits, hedge):
                half = step * abs(factor) / 2
                ranges.append(NumberRange(value * factor, half, signed))
    return ranges


def whole_number(match: re.Match[str]) -> int:
    """Return the value of a match of `ONLY_NUMBER` that is a whole number without sign and unit, such
    as "1,203"; 0 for others."""
    if match["sign"] or match["power"] or match["unit"]:
        return 0
    whole_digits = filter(str.isdigit, _plain_digits(match["digits"], match["gap"]))
    return int(next(whole_digits, "0"))


def _factors(match: re.Match[str]) -> list[float]:
    """Return the factors by which the digits of a number may be multiplied: that of its power of ten,
    and that of its unit."""
    power = float(f"1{match['power'] or 'e0'}")
    if match["sign"]:
        power = -power

    scale = _unit_scale((match["unit"] or "").strip())
    factors = [power, power * scale]
    if scale > 1e3:  # a source may be a table in thousands
        factors.append(power * scale / 1e3)
    return factors


def _unit_scale(unit: str) -> float:
    """Return what a number with this unit is multiplied by; 1 for a unit without a scale."""
    if unit.startswith("per"):
        return 0.01
    if unit == "m":  # metres; "M" is a million
        return 1.0
    return UNIT_SCALES.get(unit.lower(), 1.0)


def _rounding_steps(digits: str, hedge: str) -> list[float]:
    """Return the steps to which a number may be rounded: that of its last digit, and that of its
    last digit before the zeros if it is approximate, as in "about 1,500"."""
    decimals = len(digits.partition(".")[2])
    steps = [10.0 ** -min(_MAX_EXPONENT, decimals)]
    if hedge and not decimals:
        zeros = len(digits) - len(digits.rstrip("0"))
        steps.append(10.0 ** min(_MAX_EXPONENT, zeros))
    return steps


def _plain_digits(digits: str, gap: str | None) -> list[str]:
    """Return how digits may be read, as texts for `float`: "1.234" is 1.234, or 1234 in groups.

    Args:
        digits: The digits of a number, with separators.
        gap: What separates groups of thousands; None if there are none.
    """
    if gap is None:
        return [digits.replace(",", ".")]
    *groups, last_group = digits.split(gap)
    grouped = "".join(groups) + last_group.replace(",", ".")
    is_ambiguous = gap == "." and len(groups) == 1 and last_group.isdigit()
    if is_ambiguous:
        return [digits, grouped]
    return [grouped]
