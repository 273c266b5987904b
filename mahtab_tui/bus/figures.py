"""Finds the figures of an answer (numbers, dates, times, quoted values), and the output, attachment
or question that each comes from. The patterns prefer silence to a false alarm."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice
from math import isfinite
from typing import NamedTuple

from mahtab_tui.bus.answers import opening
from mahtab_tui.bus.records import AnswerFigure

SOURCE_END = 500_000
"""Characters to read at each end of a source."""
ALL_SOURCES = 8_000_000
MOST, MOST_DIFFERENT = 5_000, 300
LONGEST = 400


class FigureSource(NamedTuple):
    cell: int | None
    """None for an attachment or a tool's result."""
    text: str


class Figure(NamedTuple):
    start: int
    end: int
    text: str
    cell: int | None
    """None if it comes from elsewhere."""
    found: bool


def find_figures(
    answer: str, sources: Sequence[FigureSource], question: str, *, code: str = ""
) -> list[Figure]:
    """Return the figures of an answer in order. code: quoted names in it are not reported as
    missing."""
    index = _Sources(sources, question)
    names = _fold(code)
    found: list[Figure] = []
    tokens: list[_Token] = []
    looked_up: dict[tuple[str, str], tuple[bool, int | None]] = {}
    for token in islice(_scan(_without_code(answer)), MOST):
        key = (token.text, token.hedge)
        if key not in looked_up:
            if len(looked_up) == MOST_DIFFERENT:
                break
            looked_up[key] = index.find(token)
        is_found, cell = looked_up[key]
        is_name = token.kind == "quoted" and (token.may_be_name or _fold(token.inner) in names)
        if is_found or not is_name:
            found.append(Figure(token.start, token.end, token.text, cell, is_found))
            tokens.append(token)
    return _with_derived(answer, found, tokens)


def distinct_figures(figures: Iterable[Figure]) -> tuple[AnswerFigure, ...]:
    by_text: dict[str, AnswerFigure] = {}
    for _, _, text, cell, found in figures:
        before = by_text.get(text)
        if before is None or (found and not before.found):
            by_text[text] = AnswerFigure(text, found, cell)
    return tuple(by_text.values())


def figure_spans(text: str) -> Iterator[tuple[int, int]]:
    return ((token.start, token.end) for token in _scan(text))


# Reading an answer


class _Token(NamedTuple):
    start: int
    end: int
    text: str
    kind: str
    """"number", "date", "time" or "quoted"."""
    match: re.Match[str]
    inner: str = ""
    may_be_name: bool = False
    """Whether it may name a column, a variable or the like."""
    hedge: str = ""
    """A word or sign before it, such as "about" or "<"."""


_W = r"[^\W\u2e80-\ud7ff\uf900-\ufaff]"
"""A word character. Chinese, Japanese and Korean have no space between a word and a number."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DATE = rf"""(?<![\w.])(?:
    \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?!\d)(?:T(?=\d\d:))?
    | \d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}}(?!\d)
    | \d{{4}}-(?:0[1-9]|1[0-2])(?![\d-])
    | \d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s\d{{4}})?(?!\w)
    | {_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?(?![\w:])
    | {_MONTH},?\s(?:of\s)?\d{{4}}(?!\w)
)"""
_TIME = r"""(?<![\w.:])(?:
    \d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?![\d:])(?:\s?[AaPp]\.?[Mm]\b)?
    | \d{1,2}\s?(?:[ap]m|[AP]M|[ap]\.m\.)(?!\w)
)"""
_GAPS = " \u00a0\u2009\u202f"
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_NUMBER = rf"""(?<!{_W})(?<!\^)(?:
    (?P<sign>(?<![\w)\].])[-−+])?(?:[$€£¥₹]\s?)?(?P<minus>[-−])?
    (?P<digits>(?>
        \d{{1,3}}(?P<gap>[,.'’_{_GAPS}])\d{{3}}(?:(?P=gap)\d{{3}}){{0,8}}+(?!\d)(?:[.,]\d++)?
        | \d++(?:[.,]\d++)?
        | \.\d++
    ))
    (?P<power>[eE][-−+]?\d{{1,4}}(?!\w)
        | \s?[×x*·]\s?10(?:[⁻⁺]?[{_SUPERSCRIPTS}]{{1,4}}|(?:\^|\*\*)\{{?[-−+]?\d{{1,4}}\}}?)
    )?
    (?P<unit>\s?(?:[%‰]|per\s?cent(?:age\s+points?)?\b|(?i:thousand|million|billion|trillion)\b)
        | (?:[{_GAPS}]?(?:[kKMBT]|bn|[kKMGT]i?B)
            | st|nd|rd|th|s|ms|min|h|m|cm|mm|km|mi|ft|in|kg|mg|g|lb|x|×|px|[°º][CF]?|W|kW|V|Hz
            | mph|mpg|hp|[$€£¥]
        )(?!{_W})
    )?
    (?!{_W}|[\ufe0f\u20e3]|-[A-Za-z])
)"""
_LABELS = (
    r"(?i:steps?|sections?|chapters?|parts?|options?|approach|methods?|examples?|fig(?:ure)?s?\.?|tables?"
    r"|questions?|versions?|python|pandas|numpy|polars|matplotlib|scipy|java|ubuntu|windows"
    r"|top|first|last|next|previous|pep|rfc|iso|no\.)"
)
_TOKEN = re.compile(
    rf"""
    ^[ \t]{{0,3}}\#{{1,6}}[ \t].*+
    | ^[ \t]*+(?:>[ \t]*+)*+(?:[-*+][ \t]++)?[*_]{{0,2}}\d{{1,9}}[.)][*_]{{0,2}}(?=[ \t])
    | ^[ \t]*+\|[ \t]*+\d{{1,3}}[ \t]*+(?=\|)
    | [A-Za-z][A-Za-z0-9+.-]{{1,20}}+://[^\s<>]++ | www\.[^\s<>]++
    | (?<![\w)])[~.]{{0,2}}/\w[\w./-]*+ | \b[A-Za-z]:\\\S++
    | (?P<ticks>`{{1,2}})(?P<ticked>[^`\n]{{1,300}})(?P=ticks)
    | (?<![\w"])"(?=\S)(?P<double>[^"\n]{{1,120}})(?<=\S)"
    | (?<![\w'’])'(?=[\w$€£])(?P<single>[^'\n]{{1,80}})(?<=\S)'(?!\w)
    | [“„](?P<curly>[^“”„\n]{{1,120}})[”“] | ‘(?P<curl>[^‘’\n]{{1,80}})’(?!\w)
    | «\s?(?P<angle>[^«»\n]{{1,120}}?)\s?»
    | (?P<date>{_DATE}) | (?P<time>{_TIME})
    | \b(?i:cells?)\s\#?\d++(?:(?:,\s?|\s?[-–]\s?|\s(?:and|or|to)\s)\d++\b)*+ | \b(?:In|Out)\s?\[\d++\]
    | \b{_LABELS}\s\#?\d++(?:\.\d++)*+(?![%\w]) | \#\d++
    | (?:80|90|95|99)\s?%\s(?:confidence|CI\b|prediction|credible)
    | (?!\d{{1,3}}(?:\.\d{{3}}){{2,}}+(?![.\d]))\d++(?:\.\d++){{2,}}+
    | (?P<number>{_NUMBER})
    | (?!\d){_W}++(?:['’./@-]{_W}++)*+
    | \d{_W}*+(?:[./-]{_W}++)*+
    """,
    re.VERBOSE | re.MULTILINE,
)

_QUOTES = ("ticked", "double", "single", "curly", "curl", "angle")
_ONLY_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_HEDGE = re.compile(
    r"(?i:\b(?:about|around|approximately|approx\.|roughly|nearly|almost|over|under|below|above|circa|ca\."
    r"|(?:more|less|fewer)\sthan|at\s(?:least|most)|some)|[~≈<>≤≥])\s?$"
)
_NAMED = (
    r"(?:columns?|variables?|fields?|features?|functions?|methods?|parameters?|arguments?|attributes?|keys?|options?"
    r"|files?|packages?|modules?|library|index|frames?)"
)
_NAMED_BEFORE = re.compile(
    rf"(?i:\b{_NAMED}(?:\snames?)?:?\s\(?(?:['\"`“‘]\w{{1,40}}['\"`”’](?:,\s|,?\s(?:and|or)\s)){{0,9}})$"
)
_NAMED_AFTER = re.compile(rf"(?i:\s{_NAMED}\b)")
_CODE = re.compile(
    r"[=<>{}\[\]\\|_;]|\w\(|\w\.\w|\*\*|^[.@%!/]|^(?:for|import|from|if|def|pip|return|not|lambda)\b"
)
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_MOST_WORDS = 6


def _without_code(answer: str) -> str:
    lines, fence, in_tag = answer.split("\n"), None, False
    for number, line in enumerate(lines):
        if fence is not None:
            fence = None if fence.closed_by(line) else fence
        elif (fence := opening(line)) is None:
            in_tag = in_tag or line.lstrip().startswith("<assistant-repl-in")
            if not in_tag:
                continue
            in_tag = "</assistant-repl-in>" not in line
        lines[number] = " " * len(line)
    return "\n".join(lines)


def _scan(text: str) -> Iterator[_Token]:
    position = 0
    while match := _TOKEN.search(text, position):
        position = max(match.end(), position + 1)
        kind = match.lastgroup if match.lastgroup in ("date", "time") else ""
        if match["number"] is not None:
            kind = "number"
        start, end = match.span()
        if end - start > LONGEST:
            continue
        if kind:
            before = text[max(0, start - 20) : start]
            hedge = _HEDGE.search(before)
            yield _Token(start, end, match[0], kind, match, hedge=hedge[0].strip() if hedge else "")
        elif name := next((name for name in _QUOTES if match[name] is not None), ""):
            if match[name].count(" ") >= _MOST_WORDS and name != "ticked":
                position = match.start(name)
            elif token := _quoted(text, match, name):
                yield token


def _quoted(text: str, match: re.Match[str], name: str) -> _Token | None:
    start, end = match.span()
    inner = match[name].strip().rstrip(",.;:!?")
    if number := _ONLY_NUMBER.fullmatch(inner):
        return _Token(start, end, match[0], "number", number)
    is_word = inner.isidentifier()
    if len(inner) < 2 or _CODE.search(inner) or (is_word and inner.islower() and name == "ticked"):
        return None
    if not any(map(str.isalnum, inner)):
        return None
    near_name = _NAMED_BEFORE.search(text[max(0, start - 120) : start]) or _NAMED_AFTER.match(
        text[end : end + 16]
    )
    may_be_name = is_word and (name == "ticked" or inner.islower() or near_name is not None)
    return _Token(start, end, match[0], "quoted", match, inner, may_be_name)


# Numbers

_UNITS: dict[float, str] = {
    0.01: "% th st nd rd",
    0.001: "‰",
    1e3: "thousand k K kB KB",
    1e6: "million M MB",
    1e9: "billion B bn GB",
    1e12: "trillion T TB",
    **{2.0 ** (10 * power): f"{letter}iB" for power, letter in enumerate("KMGT", 1)},
}
_SCALES: dict[str, tuple[float, ...]] = {
    unit: (1, factor) for factor, units in _UNITS.items() for unit in units.split()
}


class _Range(NamedTuple):
    """Numbers that may be rounded to a figure."""

    middle: float
    half: float
    signed: bool


_MOST_P_VALUE = 0.1
"""Up to this, "p < 0.001" matches a smaller number."""


def _ranges(match: re.Match[str], hedge: str = "") -> list[_Range]:
    """Return the numbers that are rounded to a figure: its last digit decides."""
    unit = (match["unit"] or "").strip()
    unit = "%" if unit.startswith("per") else unit
    scales = _SCALES.get(unit) or _SCALES.get(unit.lower(), (1,))
    power = _power(match["power"] or "")
    signed = (match["sign"] or match["minus"] or "") in ("-", "−")
    ranges = []
    for digits in _plain_digits(match["digits"], match["gap"]):
        steps = [_step(digits)]
        if hedge and "." not in digits and digits.strip("0"):
            steps.append(10.0 ** (len(digits) - len(digits.rstrip("0"))))
        if unit == "s" and len(digits) == 4 and digits.endswith("0"):  # a decade
            ranges.append(_Range(float(digits) + 4.5, 4.5, signed))
        if hedge in ("<", "≤") and float(digits) <= _MOST_P_VALUE:
            ranges.append(_Range(float(digits) / 2, float(digits) / 2, signed))
        for step in steps:
            for scale in scales:
                factor = scale * power
                middle = float(digits) * factor
                ranges.append(_Range(-middle if signed else middle, step * factor / 2, signed))
    return ranges


def _is_trivial(match: re.Match[str]) -> bool:
    return match["digits"] in ("0", "1") and match["digits"] == match[0]


def _plain_digits(digits: str, gap: str | None) -> list[str]:
    """Return digits for `float`: "1,234" is 1234, or 1.234 with a decimal comma."""
    if gap is None:
        return [digits.replace(",", ".")]
    whole, _, rest = digits.rpartition(gap)
    ending = re.split(r"[.,]", rest, maxsplit=1)
    grouped = ".".join([re.sub(r"\D", "", whole) + ending[0], *ending[1:]])
    decimal = f"{whole}.{rest}" if gap in ".," and whole.isdecimal() and rest.isdecimal() else ""
    if gap == "." and decimal:
        return [decimal, *([grouped] if not whole.startswith("0") else [])]
    return [grouped, *([decimal] if decimal else [])]


def _step(digits: str) -> float:
    return 10.0 ** -min(300, len(digits.partition(".")[2]))


_EXPONENTS = str.maketrans(_SUPERSCRIPTS + "⁻−⁺", "0123456789--+", "^*{}")


def _power(text: str) -> float:
    if not text:
        return 1.0
    exponent = text[1:] if text[0] in "eE" else text.partition("10")[2]
    return 10.0 ** max(-300, min(300, int(exponent.translate(_EXPONENTS))))


# Sources

_PLAIN_NUMBER = re.compile(
    r"((?<![\w.)\]])[-−])?(\d++(?:\.\d++)?|\.\d++)(?:[eE]([-+]?\d{1,4}))?(?:\s?(%|(?i:thousand|million|billion)|[kKMB](?!\w)))?"
)
_GROUPED_NUMBER = re.compile(
    r"(?<![\d.,'’_])\d{1,3}([,'’_\u00a0\u2009\u202f])\d{3}(?:\1\d{3}){0,8}+(?!\d)(?:\.\d++)?"
)

_Date = tuple[int | None, int, int | None]
"""Year, month and day."""


class _Source:
    def __init__(self, cell: int | None, text: str) -> None:
        self.cell = cell
        is_short = len(text) <= 2 * SOURCE_END
        self._text = text if is_short else f"{text[:SOURCE_END]}\n{text[-SOURCE_END:]}"

    def __len__(self) -> int:
        return len(self._text)

    @cached_property
    def folded(self) -> str:
        return _fold(self._text)

    @cached_property
    def numbers(self) -> list[float]:
        values: set[float] = set()
        for sign, digits, exponent, unit in set(_PLAIN_NUMBER.findall(self._text)):
            if len(digits) <= LONGEST:
                power = _power(f"e{exponent}" if exponent else "")
                value = float(digits) * power * (-1 if sign else 1)
                scales = _SCALES.get(unit.lower(), _SCALES.get(unit, (1,)))
                values.update(value * scale for scale in scales)
        for match in _GROUPED_NUMBER.finditer(self._text):
            values.add(float(re.sub(r"[^\d.]", "", match[0])))
        return sorted(filter(isfinite, values))

    def has_number(self, middle: float, half: float = 0, signed: bool = False) -> bool:
        if not isfinite(middle):
            return False
        half += abs(middle) * 1e-12 + half * 1e-9
        return any(
            bisect_left(self.numbers, each - half) < bisect_right(self.numbers, each + half)
            for each in ((middle,) if signed else (middle, -middle))
        )

    def has_text(self, folded: str) -> bool:
        if folded not in self.folded:
            return False
        before = r"(?<!\w)" if folded[0].isalnum() else ""
        after = r"(?!\w)" if folded[-1].isalnum() else ""
        return self.has_match(before + re.escape(folded) + after)

    def has_match(self, pattern: str) -> bool:
        return re.search(pattern, self.folded) is not None

    def has_date(self, date: _Date) -> bool:
        year, month, day = date
        if self.has_match(_date_pattern(date)):
            return True
        if year is None or day is not None:
            return False
        named = _MONTHS[month - 1] in self.folded or self.has_number(month)
        return named and self.has_number(year)

    def has_time(self, time: tuple[int, int, int | None]) -> bool:
        hour, minute, second = time
        seconds = "" if second is None else f":{second:02}"
        return self.has_match(rf"(?<![\d.:])0?{hour}:{minute:02}{seconds}(?!\d)") or (
            second is None and self.has_number(hour * 100 + minute)
        )


def _date_pattern(date: _Date) -> str:
    year, month, day = date
    y, m = year or r"\d{4}", f"0?{month}"
    d = r"\d{1,2}" if day is None else f"0?{day}"
    name, nth = rf"{_MONTHS[month - 1]}[a-z]*\.?", "(?:st|nd|rd|th)?"
    gap = "(?:[-/.]|, ?)"
    forms = [rf"{y}{gap}{m}{gap}{d}(?!\d)", f"{m}[/.]{d}[/.]{y}", f"{d}[/.]{m}[/.]{y}"]
    forms += [f"{d}{nth} (?:of )?{name},? {y}", f"{name} {d}{nth},? {y}"]
    if day is None:
        forms += [rf"{y}-{m}(?![\d-])", f"{name},? (?:of )?{y}"]
    return rf"(?<![\w.])(?:{'|'.join(forms)})"


class _Sources:
    """All sources: the newest cell first, then attachments and tools, then the question."""

    def __init__(self, sources: Sequence[FigureSource], question: str) -> None:
        self._all: list[_Source] = []
        room = ALL_SOURCES
        numbers = {word: str(value) for value, word in enumerate(_NUMBER_WORDS)}
        spoken = " ".join(numbers.get(word, "") for word in _fold(question[:SOURCE_END]).split())
        newest = [*reversed(sources)]
        for cell, text in sorted(newest, key=lambda source: source.cell is None):
            source = _Source(cell, text)
            if len(source) <= room:
                room -= len(source)
                self._all.append(source)
        self._all.append(_Source(None, f"{question} {spoken}"))

    def find(self, token: _Token) -> tuple[bool, int | None]:
        folded = _fold(token.inner or token.text)
        tries: list[Callable[[_Source], bool]] = [lambda source: source.has_text(folded)]
        if token.kind == "number":
            if _is_trivial(token.match):
                return True, None
            ranges = _ranges(token.match, token.hedge)
            tries = [
                lambda source: any(source.has_number(m, 0, signed) for m, _, signed in ranges),
                lambda source: any(source.has_number(*each) for each in ranges),
            ]
        elif token.kind == "date":
            dates = _read_date(token.text)
            tries.insert(0, lambda source: any(map(source.has_date, dates)))
        elif token.kind == "time":
            times = _read_time(token.text)
            tries = [lambda source: any(map(source.has_time, times))]
        found = (source for has in tries for source in filter(has, self._all))
        source = next(found, None)
        return source is not None, None if source is None else source.cell


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


_DATE_FORMS = [
    re.compile(form)
    for form in (
        r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})T?",
        r"(?P<m>\d{1,2})[/.](?P<d>\d{1,2})[/.](?P<y>\d{4})",
        r"(?P<d>\d{1,2})[/.](?P<m>\d{1,2})[/.](?P<y>\d{4})",
        r"(?P<y>\d{4})-(?P<m>\d{2})(?P<d>)",
        r"(?P<d>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<m>[A-Z][a-z]+)\.?(?:,?\s(?P<y>\d{4}))?",
        r"(?P<m>[A-Z][a-z]+)\.?\s(?P<d>\d{1,2})(?:st|nd|rd|th)?(?:,?\s(?P<y>\d{4}))?",
        r"(?P<m>[A-Z][a-z]+)\.?,?\s(?:of\s)?(?P<y>\d{4})(?P<d>)",
    )
]


def _read_date(text: str) -> list[_Date]:
    """Return the meanings of a date: 1/3/2024 has two."""
    dates: list[_Date] = []
    for match in (form.fullmatch(text) for form in _DATE_FORMS):
        if match is not None:
            name = match["m"].lower()
            month = int(name) if name.isdecimal() else _MONTHS.index(name[:3]) + 1
            if 1 <= month <= 12:
                year, day = (int(match[part]) if match[part] else None for part in "yd")
                dates.append((year, month, day))
    return dates


def _read_time(text: str) -> list[tuple[int, int, int | None]]:
    hour, *rest = [int(number) for number in re.findall(r"\d+", text)]
    minute, second = rest[0] if rest else 0, rest[1] if rest[1:] else None
    letters = re.sub(r"[^ap]", "", text.lower())
    times = [(hour, minute, second)]
    if letters[:1] == "p" and hour < 12:
        times.append((hour + 12, minute, second))
    elif letters[:1] == "a" and hour == 12:
        times.append((0, minute, second))
    return times


# Figures that follow from others

_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_MOST_OPERANDS = 8


def _with_derived(answer: str, figures: list[Figure], tokens: Sequence[_Token]) -> list[Figure]:
    """Accept sums, differences and shares of found numbers, as in "8 of 406 (2 %)"."""
    ends = [match.start() for match in _SENTENCE_END.finditer(answer)]
    operands: dict[int, dict[float, None]] = {}
    for figure, token in zip(figures, tokens, strict=True):
        if figure.found:
            found = operands.setdefault(bisect_left(ends, figure.start), {})
            found.update(dict.fromkeys(_operands(token)))
    results = list(figures)
    for number, (figure, token) in enumerate(zip(figures, tokens, strict=True)):
        if not figure.found and token.kind == "number":
            values = list(operands.get(bisect_left(ends, figure.start), ()))[:_MOST_OPERANDS]
            follows = _follows(_ranges(token.match), values, token.match)
            results[number] = figure._replace(found=follows)
    return results


def _operands(token: _Token) -> list[float]:
    """Return the numbers in a figure; of a date, the year."""
    if token.kind == "date":
        return [float(year) for year, _, _ in _read_date(token.text)[:1] if year is not None]
    is_operand = token.kind == "number" and not _is_trivial(token.match)
    return [abs(_ranges(token.match)[0].middle)] if is_operand else []


def _follows(ranges: Sequence[_Range], values: Sequence[float], match: re.Match[str]) -> bool:
    made = {sum(values)} if len(values) > 1 else set()
    for a, b in combinations(values, 2):
        made |= {a + b, abs(a - b)}
        if "%" in match[0] or "per" in match[0] or "." in match["digits"]:
            made |= {top / bottom for top, bottom in ((a, b), (b, a)) if bottom}
    return any(
        abs(abs(each.middle) - value) <= each.half * (1 + 1e-9) for each in ranges for value in made
    )
