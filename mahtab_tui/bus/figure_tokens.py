"""Reads the figures of an answer: numbers, ISO dates and quoted values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


def figure_spans(text: str) -> Iterator[tuple[int, int]]:
    return ((token.start, token.end) for token in scan_figures(text))


class NumberRange(NamedTuple):
    """The numbers that are rounded to a figure."""

    middle: float
    half: float
    signed: bool


class FigureToken(NamedTuple):
    start: int
    end: int
    text: str
    ranges: list[NumberRange] | None = None
    """None for other figures; empty for a number that means "none" or "one"."""
    quoted: str = ""
    hedge: str = ""
    """Such as "about" or "<"."""

    @property
    def is_percent(self) -> bool:
        return "%" in self.text or "per" in self.text

    @property
    def value(self) -> float:
        """The number without its sign; a percentage as a fraction."""
        middles = [abs(candidate.middle) for candidate in self.ranges or ()]
        return min(middles) if self.is_percent else max(middles)

    def acceptor(self) -> Callable[[float], bool]:
        """Return a test whether a computed value, or a fraction, is rounded to the figure."""
        ranges = self.ranges or []
        most = max((abs(candidate.middle) for candidate in ranges), default=0.0)
        bounds = [
            (abs(candidate.middle), candidate.half * (1 + 1e-9))
            for candidate in ranges
            if not self.is_percent or abs(candidate.middle) * 10 < most  # not the one times 100
        ]
        return lambda value: any(abs(middle - value) <= half for middle, half in bounds)


_W = r"[^\W\u2e80-\ud7ff\uf900-\ufaff]"
"""A word character. Chinese has no space before a number."""
_GAPS = " \u00a0\u2009\u202f"
_NUMBER = rf"""(?<!{_W})(?<!\^)(?:
    (?P<sign>(?<![\w)\].])[-−])?(?:[$€£¥₹]\s?)?
    (?P<digits>(?>
        \d{{1,3}}(?P<gap>[,.'’_{_GAPS}])\d{{3}}(?:(?P=gap)\d{{3}}){{0,8}}+(?!\d)(?:[.,]\d++)?
        | \d++(?:[.,]\d++)? | \.\d++
    ))
    (?P<power>[eE][-+]?\d{{1,3}}(?!\w))?
    (?P<unit>\s?(?:%|per\s?cent(?:age\s+points?)?\b|(?i:thousand|million|billion|trillion)\b)
        | (?:[{_GAPS}]?(?:[kKMB]|bn|[kKMG]B)
            | st|nd|rd|th|ms|min|h|m|cm|mm|km|in|kg|mg|g|x|×|px|[°º][CF]?|W|kW|mph|mpg|[$€£¥]
        )(?!{_W})
    )?
    (?!{_W}|[\ufe0f\u20e3]|-[A-Za-z])
)"""
_TOKEN = re.compile(
    rf"""
    ^[ \t]{{0,3}}(?P<fence>`{{3,}}(?![^`\n]*`)|~{{3,}}).*+(?:\n(?![ \t]{{0,3}}(?P=fence)).*+)*+(?:\n.*+)?
    | ^[ \t]{{0,3}}\#{{1,6}}[ \t].*+
    | ^[ \t]*+(?:>[ \t]*+)*+(?:[-*+][ \t]++)?[*_]{{0,2}}\d{{1,9}}[.)][*_]{{0,2}}(?=[ \t])
    | ^[ \t]*+\|[ \t]*+\d{{1,3}}[ \t]*+(?=\|)
    | [A-Za-z][A-Za-z0-9+.-]{{1,20}}+://[^\s<>]++ | www\.[^\s<>]++
    | (?<![\w)])[~.]{{0,2}}/\w[\w./-]*+
    | (?P<ticks>`{{1,2}})(?P<ticked>[^`\n]{{1,300}})(?P=ticks)
    | (?<![\w"])"(?=\S)(?P<double>[^"\n]{{1,120}})(?<=\S)"
    | (?<![\w'’])'(?=[\w$€£])(?P<single>[^'\n]{{1,80}})(?<=\S)'(?!\w)
    | “(?P<curly>[^“”\n]{{1,120}})”
    | (?P<date>\b\d{{4}}-\d\d(?:-\d\d)?(?![\d-])) | \d{{1,2}}(?::\d\d){{1,2}} | \d{{1,2}}\s?[AaPp]\.?[Mm]\b
    | \b(?i:cells?)\s\#?\d++(?:(?:,\s?|\s?[-–]\s?|\s(?:and|or|to)\s)\d++\b)*+ | \b(?:In|Out)\s?\[\d++\]
    | \b(?i:steps?|sections?|parts?|options?|examples?|fig(?:ure)?s?\.?|tables?|questions?|versions?
        |python|pandas|numpy|top|first|last|next|previous|no\.)\s\#?\d++(?:\.\d++)*+(?![%\w])
    | \#\d++ | (?:80|90|95|99)\s?%\s(?:confidence|CI\b|prediction|credible)
    | \d++(?:\.\d++)?\s?[×x*·]\s?10(?:\^|\*\*|[⁻⁺⁰¹²³⁴-⁹])[\d⁻⁺⁰¹²³⁴-⁹{{}}+−-]*+
    | (?!\d{{1,3}}(?:\.\d{{3}}){{2,}}+(?![.\d]))\d++(?:\.\d++){{2,}}+
    | (?P<number>{_NUMBER})
    | (?!\d){_W}++(?:['’./@-]{_W}++)*+
    | \d{_W}*+(?:[./-]{_W}++)*+
    """,
    re.VERBOSE | re.MULTILINE,
)
"""Figures in named groups, and what is skipped."""
_QUOTES = ("ticked", "double", "single", "curly")
ONLY_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_HEDGE = re.compile(
    r"(?i:\b(?:about|around|approximately|roughly|nearly|almost|over|under"
    r"|(?:more|less|fewer)\sthan|at\s(?:least|most))|[~≈<>≤≥])\s?$"
)
_CODE = re.compile(
    r"[=<>{}\[\]\\|_;]|\w\(|\w\.\w|\*\*|^[.@%!/]|^(?:for|import|from|if|def|pip|return|not)\b"
)


def scan_figures(text: str) -> Iterator[FigureToken]:
    position = 0
    while match := _TOKEN.search(text, position):
        start, end = match.span()
        position = max(end, position + 1)
        if match["number"]:
            found = _HEDGE.search(text[max(0, start - 20) : start])
            hedge = found[0].strip() if found else ""
            yield FigureToken(start, end, match[0], number_ranges(match, hedge), hedge=hedge)
        elif match["date"]:
            yield FigureToken(start, end, match[0])
        elif quote := next((name for name in _QUOTES if match[name]), ""):
            inner = match[quote].strip().rstrip(",.;:!?")
            if number := ONLY_NUMBER.fullmatch(inner):
                yield FigureToken(start, end, match[0], number_ranges(number, ""))
            elif inner.count(" ") > 5 and quote != "ticked":  # a sentence
                position = match.start(quote)
            elif len(inner) > 1 and re.search(r"\w", inner) and not _CODE.search(inner):
                yield FigureToken(start, end, match[0], quoted=inner)


_UNITS = {
    0.01: "% th",
    1e3: "thousand k kb",
    1e6: "million m mb",
    1e9: "billion b bn gb",
    1e12: "trillion",
}
UNIT_SCALES = {unit: factor for factor, units in _UNITS.items() for unit in units.split()}


def number_ranges(match: re.Match[str], hedge: str) -> list[NumberRange]:
    """Return the numbers that are rounded to a figure: its last digit decides."""
    if match[0] in ("0", "1"):
        return []
    unit = (match["unit"] or "").strip()
    scale = (
        0.01 if unit.startswith("per") else 1.0 if unit == "m" else UNIT_SCALES.get(unit.lower(), 1)
    )
    power = float(f"1{match['power'] or 'e0'}") * (-1 if match["sign"] else 1)
    ranges = []
    for digits in _plain_digits(match["digits"], match["gap"]):
        value, decimals = float(digits), len(digits.partition(".")[2])
        steps = [10.0 ** -min(300, decimals)]
        if hedge and not decimals:
            steps.append(10.0 ** min(300, len(digits) - len(digits.rstrip("0"))))
        if hedge in ("<", "≤") and value <= 0.1:  # a p-value
            ranges.append(NumberRange(value / 2, value / 2, signed=False))
        factors = [power, power * scale]
        if scale > 1e3:  # of a table in thousands
            factors.append(power * scale / 1e3)
        for factor in factors:
            halves = [step * abs(factor) / 2 for step in steps]
            ranges += [NumberRange(value * factor, half, bool(match["sign"])) for half in halves]
    return ranges


def _plain_digits(digits: str, gap: str | None) -> list[str]:
    """Return digits for `float`: "1.234" is 1.234, or 1234 with grouped digits."""
    if gap is None:
        return [digits.replace(",", ".")]
    *groups, last = digits.split(gap)
    grouped = "".join(groups) + last.replace(",", ".")
    return [digits, grouped] if gap == "." and len(groups) == 1 and last.isdigit() else [grouped]
