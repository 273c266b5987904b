"""Finds the figures of an answer (numbers, ISO dates, quoted values), and the output,
attachment or question that each comes from. The patterns prefer silence to a false alarm."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from math import isfinite
from typing import NamedTuple

from mahtab_tui.bus.records import AnswerFigure

SOURCE_END = 500_000
"""Characters to read at each end of a source."""
ALL_SOURCES = 8_000_000
MOST_DIFFERENT = 300


class FigureSource(NamedTuple):
    cell: int | None
    """None for an attachment or a tool's result."""
    text: str


def find_figures(
    answer: str, sources: Sequence[FigureSource], question: str, *, code: str = ""
) -> tuple[AnswerFigure, ...]:
    """Return the figures of an answer in order, each text once. code: quoted names in it are not
    reported as missing, nor are identifiers."""
    searched, names = _read_sources(sources, question), _fold(code)
    looked_up: dict[tuple[str, str], AnswerFigure] = {}
    figures: list[tuple[_Token, int, AnswerFigure]] = []
    operands: dict[int, dict[float, None]] = defaultdict(dict)
    ends = [match.start() for match in _SENTENCE_END.finditer(answer)]
    for token in _scan(answer):
        key = (token.text, token.hedge)
        if key not in looked_up:
            if len(looked_up) == MOST_DIFFERENT:
                break
            looked_up[key] = AnswerFigure(token.text, *_find(token, searched))
        figure, sentence = looked_up[key], bisect_left(ends, token.start)
        if figure.found and token.ranges:
            operands[sentence][abs(token.ranges[0].middle)] = None
        quoted = token.quoted
        if figure.found or not quoted or not (quoted.isidentifier() or _fold(quoted) in names):
            figures.append((token, sentence, figure))
    by_text: dict[str, AnswerFigure] = {}
    for token, sentence, figure in figures:
        if not figure.found and _follows(token, list(operands[sentence])[:8]):
            figure = figure._replace(found=True)
        if figure.text not in by_text or (figure.found and not by_text[figure.text].found):
            by_text[figure.text] = figure
    return tuple(by_text.values())


def figure_spans(text: str) -> Iterator[tuple[int, int]]:
    return ((token.start, token.end) for token in _scan(text))


# Reading an answer


class _Range(NamedTuple):
    """The numbers that are rounded to a figure."""

    middle: float
    half: float
    signed: bool


class _Token(NamedTuple):
    start: int
    end: int
    text: str
    ranges: list[_Range] | None = None
    """None for other figures; empty for a number that means "none" or "one"."""
    quoted: str = ""
    hedge: str = ""
    """Such as "about" or "<"."""


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
_ONLY_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_HEDGE = re.compile(
    r"(?i:\b(?:about|around|approximately|roughly|nearly|almost|over|under"
    r"|(?:more|less|fewer)\sthan|at\s(?:least|most))|[~≈<>≤≥])\s?$"
)
_CODE = re.compile(
    r"[=<>{}\[\]\\|_;]|\w\(|\w\.\w|\*\*|^[.@%!/]|^(?:for|import|from|if|def|pip|return|not)\b"
)


def _scan(text: str) -> Iterator[_Token]:
    position = 0
    while match := _TOKEN.search(text, position):
        start, end = match.span()
        position = max(end, position + 1)
        if match["number"]:
            found = _HEDGE.search(text[max(0, start - 20) : start])
            hedge = found[0].strip() if found else ""
            yield _Token(start, end, match[0], _ranges(match, hedge), hedge=hedge)
        elif match["date"]:
            yield _Token(start, end, match[0])
        elif quote := next((name for name in _QUOTES if match[name]), ""):
            inner = match[quote].strip().rstrip(",.;:!?")
            if number := _ONLY_NUMBER.fullmatch(inner):
                yield _Token(start, end, match[0], _ranges(number, ""))
            elif inner.count(" ") > 5 and quote != "ticked":  # a sentence
                position = match.start(quote)
            elif len(inner) > 1 and re.search(r"\w", inner) and not _CODE.search(inner):
                yield _Token(start, end, match[0], quoted=inner)


_UNITS = {
    0.01: "% th",
    1e3: "thousand k kb",
    1e6: "million m mb",
    1e9: "billion b bn gb",
    1e12: "trillion",
}
_SCALES = {unit: factor for factor, units in _UNITS.items() for unit in units.split()}


def _ranges(match: re.Match[str], hedge: str) -> list[_Range]:
    """Return the numbers that are rounded to a figure: its last digit decides."""
    if match[0] in ("0", "1"):
        return []
    unit = (match["unit"] or "").strip()
    scale = 0.01 if unit.startswith("per") else 1.0 if unit == "m" else _SCALES.get(unit.lower(), 1)
    power = float(f"1{match['power'] or 'e0'}") * (-1 if match["sign"] else 1)
    ranges = []
    for digits in _plain_digits(match["digits"], match["gap"]):
        value, decimals = float(digits), len(digits.partition(".")[2])
        steps = [10.0 ** -min(300, decimals)]
        if hedge and not decimals:
            steps.append(10.0 ** min(300, len(digits) - len(digits.rstrip("0"))))
        if hedge in ("<", "≤") and value <= 0.1:  # a p-value
            ranges.append(_Range(value / 2, value / 2, signed=False))
        for factor in (power, power * scale):
            halves = [step * abs(factor) / 2 for step in steps]
            ranges += [_Range(value * factor, half, bool(match["sign"])) for half in halves]
    return ranges


def _plain_digits(digits: str, gap: str | None) -> list[str]:
    """Return digits for `float`: "1.234" is 1.234, or 1234 with grouped digits."""
    if gap is None:
        return [digits.replace(",", ".")]
    *groups, last = digits.split(gap)
    grouped = "".join(groups) + last.replace(",", ".")
    return [digits, grouped] if gap == "." and len(groups) == 1 and last.isdigit() else [grouped]


# Sources

_SOURCE_NUMBER = re.compile(
    r"((?<![\w.)\]])[-−])?(\d{1,3}([,'’_])\d{3}(?:\3\d{3}){0,8}+(?!\d)(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
    r"([eE][-+]?\d{1,3})?(?:\s?(%|(?i:thousand|million|billion)|[kKMB](?!\w)))?"
)
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()


class _Source:
    def __init__(self, cell: int | None, text: str) -> None:
        self.cell = cell
        self.text = f"{text[:SOURCE_END]}\n{text[SOURCE_END:][-SOURCE_END:]}"

    @cached_property
    def folded(self) -> str:
        return _fold(self.text)

    @cached_property
    def numbers(self) -> list[float]:
        values: set[float] = set()
        for sign, digits, gap, power, unit in set(_SOURCE_NUMBER.findall(self.text)):
            grouped = digits.replace(gap, "") if gap else digits
            for each in (grouped, *(digits.split(gap) if gap else ())):  # or a list of numbers
                value = float(f"{'-' * bool(sign)}{each}{power}")
                values |= {value, value * _SCALES.get(unit.lower(), 1)}
        return sorted(filter(isfinite, values))

    def has_number(self, middle: float, half: float, signed: bool) -> bool:
        half += abs(middle) * 1e-12 + half * 1e-9
        return any(
            bisect_left(self.numbers, each - half) < bisect_right(self.numbers, each + half)
            for each in ((middle,) if signed else (middle, -middle))
            if isfinite(each)
        )


def _read_sources(sources: Sequence[FigureSource], question: str) -> list[_Source]:
    """Return the newest cell first, then attachments and tools, then the question."""
    room, chosen = ALL_SOURCES, list[_Source]()
    newest_first = list(reversed(sources))
    for cell, text in sorted(newest_first, key=lambda source: source.cell is None):
        source = _Source(cell, text)
        if len(source.text) <= room:
            room -= len(source.text)
            chosen.append(source)
    words = dict(zip(_NUMBER_WORDS, map(str, range(13)), strict=True))
    spoken = " ".join(words.get(word, "") for word in _fold(question[:SOURCE_END]).split())
    return [*chosen, _Source(None, f"{question} {spoken}")]


def _find(token: _Token, sources: Sequence[_Source]) -> tuple[bool, int | None]:
    """Return whether a figure occurs in a source, and in which cell; exact numbers come first."""
    if token.ranges == []:
        return True, None
    if (ranges := token.ranges) is not None:
        exact = [each._replace(half=0) for each in ranges]
        for wanted in (exact, ranges):
            for source in sources:
                if any(source.has_number(*each) for each in wanted):
                    return True, source.cell
        return False, None
    text = _fold(token.quoted or token.text)
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\d)" if text[-1].isdigit() else r"(?!\w)" if text[-1].isalnum() else ""
    pattern = re.compile(before + re.escape(text) + after)
    for source in sources:
        if text in source.folded and pattern.search(source.folded):
            return True, source.cell
    return False, None


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


_SENTENCE_END = re.compile(r"[.!?]\s|\n")


def _follows(token: _Token, values: Sequence[float]) -> bool:
    """Return whether a number is a sum, difference or ratio of two others, as in "8 of 406 (2 %)"."""
    made: set[float] = set()
    for a, b in combinations(values, 2):
        made |= {a + b, abs(a - b)}
        if a and b and re.search("[%.]|per", token.text):
            made |= {a / b, b / a}
    pairs = product(token.ranges or (), made)
    return any(abs(abs(each.middle) - x) <= each.half * (1 + 1e-9) for each, x in pairs)
