"""What the demo model makes of a search's query: the words to look for, and the form of the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Form = Literal["count", "values", "most", "lines"]

ONE_A_LINE = "Answer with one value a line and nothing else."
"""What the demo adds to the query of a sub-call whose values it will join."""
TEN_LINES = "Answer with the ten lines that say most, each as 'line N: its words'."

MOST_WORDS = 8

_WORD = re.compile(r"\"([^\"]+)\"|'([^'\s][^']*)'|`([^`]+)`|([^\W_][\w./:@-]*[^\W_]|[^\W_])")
_STOP = frozenset(
    "a about above all also am an and any appear appears are as at be because been before below both but by can contain containing contains could count"
    " did different distinct do does doing down during each every file find first for found from further get give had happen happened has have having"
    " here how i if in into is it its itself know last least line lines list log logs many me mention mentioned mentions more most much my name no nor"
    " not number occur occurred occurs of often on once only or other our out over own please print same say says show so some such summarise summarize"
    " tell text than that the their them then there these they this those through times to too under unique until up us very was we were what when"
    " where which while who whom whose why will with within without word words would you your".split()
)
_VARIANTS = {
    "timeout": r"(?i)\btim(?:e|ed|es|ing)[ _-]?outs?\b",
    "error": r"(?i)\berr(?:or)?s?\b",
    "fail": r"(?i)\bfail",
    "warn": r"(?i)\bwarn",
}
_ENDINGS = ("ations", "ation", "ures", "ure", "ings", "ing", "ied", "ies", "ed", "es", "s")
_VALUES = {
    "ip": r"\b(\d{1,3}(?:\.\d{1,3}){3})\b",
    "address": r"\b(\d{1,3}(?:\.\d{1,3}){3})\b",
    "email": r"([\w.+-]+@[\w-]+\.[\w.-]+)",
    "mail": r"([\w.+-]+@[\w-]+\.[\w.-]+)",
    "url": r"(https?://[^\s\"'<>]+)",
    "date": r"\b(\d{4}-\d\d-\d\d)\b",
    "day": r"\b(\d{4}-\d\d-\d\d)\b",
}
"""What some nouns look like, wherever they stand."""

_NO_VALUES = frozenset("causes errors events exceptions failures happens issues messages parts problems reasons sort things warnings".split())

_NOUN = re.compile(
    r"\b(which|what|list|name|find|show|give|distinct|different|unique)\s+(?:(?:me|all|of|the|each|every|distinct|different|unique)\s+)*(.+)",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:(more|longer|larger|greater|higher|slower|over|above|less|shorter|smaller|lower|faster|under|below)(?:\s+than)?|(at least)|(at most))"
    r"\s+(\d+(?:\.\d+)?)\s?([a-z%]+)?\b",
    re.IGNORECASE,
)
_LESS = frozenset("less shorter smaller lower faster under below".split())


class Limit(NamedTuple):
    """A number that a line must have, above or below another."""

    words: str
    """As the query says it."""
    pattern: str
    """With one group, for the number."""
    sign: str
    number: float

    def code(self) -> str:
        """A test of a line, in Python."""
        return f"(lambda line: any(float(n) {self.sign} {self.number:g} for n in re.findall({self.pattern!r}, line)))"

    def holds(self, line: str) -> bool:
        """The same test."""
        numbers = map(float, re.findall(self.pattern, line))
        compare = {">": float.__gt__, "<": float.__lt__, ">=": float.__ge__, "<=": float.__le__}[self.sign]
        return any(compare(number, self.number) for number in numbers)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, taken apart."""

    query: str
    """Without what the demo itself adds for a sub-call."""
    patterns: dict[str, str]
    """The words to look for, and a regular expression for each."""
    form: Form
    fields: tuple[str, ...] = ()
    """Regular expressions with one group for the values that are asked for, the best first."""
    noun: str = ""
    """What the values are: "request ids"."""
    limit: Limit | None = None
    bare: bool = False
    """Whether another program reads the answer: values or lines without a word around them."""


def understand(query: str) -> Asked:
    """The parts of a query."""
    bare = ONE_A_LINE in query or TEN_LINES in query
    query = query.replace(ONE_A_LINE, "").replace(TEN_LINES, "").strip()
    noun = _noun(query)
    limit = _limit(query)
    patterns: dict[str, str] = {}
    for found in _WORD.finditer(query.replace(limit.words, " ") if limit else query):
        quoted = found[1] or found[2] or found[3]
        word = quoted or found[4]
        if quoted or word.lower() not in _STOP:
            name, pattern = (word, f"(?i){re.escape(word)}") if quoted else _pattern(word)
            patterns.setdefault(name, pattern)
    fields = _fields(noun)
    if fields:
        # "ids" of "request ids" names what is asked for, and need not stand in the line; neither need "ip".
        unneeded = {_pattern(word)[0] for word in noun if word in _VALUES or word == noun[-1]}
        patterns = {name: pattern for name, pattern in patterns.items() if name not in unneeded} or patterns
    if limit and not patterns:
        patterns = {"a number": limit.pattern}
    return Asked(query, dict(list(patterns.items())[:MOST_WORDS]), _form(query, bool(fields)), fields, _plural(noun), limit, bare)


def _form(query: str, has_fields: bool) -> Form:
    if has_fields and re.search(r"\bmost\b|\bleast\b|\boften\b|\btop\b", query, re.IGNORECASE):
        return "most"
    if re.search(r"\bhow many\b|\bhow often\b|\bcount\b|\bnumber of\b", query, re.IGNORECASE):
        return "count"
    return "values" if has_fields else "lines"


def _noun(query: str) -> tuple[str, ...]:
    """What is asked for: ("request", "ids") of "Which request ids failed?"; empty where the query names nothing of that kind."""
    found = _NOUN.search(query)
    words: list[str] = []
    for word in re.findall(r"[A-Za-z]+", found[2])[:3] if found else []:
        if word.lower() in _STOP or re.search(r"(?:ed|ing)$", word):
            break
        words.append(word.lower())
        if word.endswith("s") and not word.endswith("ss"):
            break
    # "What went wrong" names nothing; "which host" and "what hosts" do.
    if found and found[1].lower() != "which" and not any(word.endswith("s") or word in _VALUES for word in words):
        return ()
    return () if _NO_VALUES.intersection(words) or _NO_VALUES.intersection(f"{word}s" for word in words) else tuple(words)


def _limit(query: str) -> Limit | None:
    """The bound of "more than 800 ms"."""
    found = _LIMIT.search(query)
    if found is None:
        return None
    sign = ">=" if found[2] else "<=" if found[3] else "<" if found[1].lower() in _LESS else ">"
    number = r"(?<![\w.])(\d+(?:\.\d+)?)"
    unit = found[5] if found[5] and found[5].lower() not in _STOP else None
    return Limit(found[0], rf"{number}\s?{re.escape(unit)}(?!\w)" if unit else rf"{number}(?![\w.])", sign, float(found[4]))


def _plural(noun: tuple[str, ...]) -> str:
    words = " ".join(noun)
    return words if not words or words.endswith("s") else f"{words}s"


def _fields(noun: tuple[str, ...]) -> tuple[str, ...]:
    """How values of a noun may be written: ``request_id=…``, ``"request id": …``, ``id …``."""
    words = [re.sub(r"(?<=[a-z])(?<!s)s$", "", re.sub(r"sses$", "ss", word)) for word in noun]
    if not words:
        return ()
    names = dict.fromkeys(["[ _-]?".join(words), words[-1], words[0]])
    forms = (r"(?i)\b{}[\"']?\s*[=:#]\s*[\"']?([\w./@-]+)", r"(?i)\b{}\s+[\"'#]?([\w./@-]*\d[\w./@-]*)")
    known = [_VALUES[word] for word in words if word in _VALUES]
    return (*known, *(form.format(name) for name in names for form in forms))


def _pattern(word: str) -> tuple[str, str]:
    """A word's name and the regular expression that finds it and its other forms."""
    if word.isupper() and len(word) > 1:
        return word, rf"\b{re.escape(word)}\b"
    stem = word.lower()
    if not stem.isalpha():
        return stem, rf"(?i)(?<!\w){re.escape(stem)}(?!\w)"
    ending = next((ending for ending in _ENDINGS if stem.endswith(ending) and len(stem) - len(ending) >= 4 and not stem.endswith("ss")), "")
    stem = re.sub(r"([bdgmnprt])\1$", r"\1", stem.removesuffix(ending)) if ending else stem
    if stem in _VARIANTS:
        return stem, _VARIANTS[stem]
    return stem, rf"(?i)\b{stem}" if ending or len(stem) > 3 else rf"(?i)\b{stem}\b"
