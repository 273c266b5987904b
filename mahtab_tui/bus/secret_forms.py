"""Finds a secret in a text: as it is, escaped as code and data formats escape it, and with invisible characters between its letters."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LONG = 8
"""Characters from which a secret is found wherever it stands."""
WORD = 4
"""Characters from which a shorter one is found where it stands as a word of its own; below, only where it is the whole text."""
PART = 20
"""Characters of a secret's beginning or end that are found without the rest, which may have been cut off."""
REACH = 4_096
"""Characters of a text's end in which the beginning of a secret is looked for."""

_SINGLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_INVISIBLE = re.compile(rf"[{_SINGLE}]")
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
# A newline too: programs break long lines.
_NOISE = re.compile(rf"{_ESCAPES}|[{_SINGLE}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_SINGLE}\n]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_SINGLE}]+")
_BEGINS_STRING = re.compile(r"\x1b[\]PX^_]")


class Span(NamedTuple):
    """Where a secret stands in a text: from `start` up to `end`, in characters."""

    start: int
    end: int


class Forms:
    """All forms of some secrets, ready to be found. Finding costs time in proportion to the text, and to the number of secrets."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = tuple(secrets)
        self._whole = {quoted for secret in secrets if len(secret) < WORD for quoted in _quoted(secret)}
        words = [secret for secret in secrets if WORD <= len(secret) < LONG]
        self._words = sorted({form for secret in words for form in _escaped(secret)}, key=len, reverse=True)
        long = [secret for secret in secrets if len(secret) >= LONG]
        self._long = sorted({form for secret in long for form in (*_escaped(secret), *_encoded(secret))}, key=len, reverse=True)
        self.longest = max(map(len, (*self._long, *self._words)), default=0)

    def spans(self, text: str, *, words: bool = True) -> list[Span]:
        """Where the secrets stand, in order, none touching another. words: those too that are found only as a word or as the whole text."""
        if not self.secrets or not text:
            return []
        if words and self._whole and len(text) < 100 and text.strip() in self._whole:
            return [Span(0, len(text))]
        forms = (*self._long, *self._words) if words else self._long
        found = list(self._found(text, text, forms, None))
        if _INVISIBLE.search(text):
            found += self._without(_NOISE, text, forms)
            if _BEGINS_STRING.search(text):
                found += self._without(_NOISE_WITH_STRINGS, text, forms)
        elif "\n" in text:
            bare = text.replace("\n", "")
            if any(needle in bare for form in forms for needle in _needles(form)):
                found += self._without(_NOISE, text, forms)
        return _merged(found)

    def begun(self, text: str) -> tuple[int, int]:
        """The longest beginning of a secret that a text ends with: from where it goes, and how many characters may be shown before it is
        known how it goes on. The text's length where there is none."""
        start, shown = len(text), 0
        near = max(0, len(text) - REACH)
        removed = _Removed(_NOISE_IN_LINE, text[near:])
        for form in (*self._long, *self._words):
            place = max(0, len(removed.bare) - len(form) + 1)
            while (place := removed.bare.find(form[0], place)) >= 0:
                if form.startswith(removed.bare[place:]):
                    if (found := near + removed.start(place)) < start:
                        start, shown = found, min(3, len(form) // 4)
                    break
                place += 1
        return start, shown

    def _without(self, noise: re.Pattern[str], text: str, forms: Sequence[str]) -> Iterator[Span]:
        removed = _Removed(noise, text)
        return self._found(text, removed.bare, forms, removed)

    def _found(self, text: str, bare: str, forms: Sequence[str], removed: _Removed | None) -> Iterator[Span]:
        for form in forms:
            for start, end in _places(bare, form):
                span = Span(start, end) if removed is None else Span(removed.start(start), removed.end(end))
                if len(form) >= LONG or _stands_alone(text, span, form):
                    yield span


class _Removed:
    """A text without what a pattern matches, and where its characters stood."""

    def __init__(self, noise: re.Pattern[str], text: str) -> None:
        pieces: list[str] = []
        self._at: list[int] = []
        """Where in `bare` something was removed."""
        self._before: list[int] = [0]
        """Characters removed so far."""
        kept = size = 0
        for found in noise.finditer(text):
            pieces.append(text[kept : found.start()])
            size += found.start() - kept
            kept = found.end()
            self._at.append(size)
            self._before.append(kept - size)
        pieces.append(text[kept:])
        self.bare = "".join(pieces)

    def start(self, place: int) -> int:
        """Where the character of `bare` at a place stands in the text."""
        return place + self._before[bisect_right(self._at, place)]

    def end(self, place: int) -> int:
        """Where what ends before a place of `bare` ends in the text."""
        return self.start(place - 1) + 1


def _needles(form: str) -> tuple[str, ...]:
    """What is looked for: a long form's beginning and its end, so that one that was cut is found."""
    return (form[:PART], form[-PART:]) if len(form) >= PART + WORD else (form,)


def _places(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where a form stands, or the beginning or the end of a long one."""
    head, *tail = _needles(form)
    place = text.find(head)
    while place >= 0:
        end = place + len(head)
        if tail:
            end = place + _common(text[place : place + len(form)], form)
        yield place, end
        place = text.find(head, end)
    for needle in tail:
        place = text.find(needle)
        while place >= 0:
            end = place + len(needle)
            before = text[max(0, end - len(form)) : end]
            yield end - _common(before[::-1], form[::-1]), end
            place = text.find(needle, end)


def _common(one: str, other: str) -> int:
    """Characters that two texts have in common from their beginning."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _stands_alone(text: str, span: Span, form: str) -> bool:
    """Whether a short form is in one line, and no part of a longer word."""
    before, after = text[max(0, span.start - 1) : span.start], text[span.end : span.end + 1]
    inside = (_is_word(before) and _is_word(form[0])) or (_is_word(after) and _is_word(form[-1]))
    return not inside and "\n" not in text[span.start : span.end]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"  # of no character, neither


def _merged(spans: list[Span]) -> list[Span]:
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def _quoted(secret: str) -> list[str]:
    """A secret that is a whole text: as it is, and as a literal."""
    return [secret, repr(secret), repr(secret.encode("utf-8", "surrogatepass")), json.dumps(secret), f'"{secret}"', f"'{secret}'"]


def _escaped(secret: str) -> Iterator[str]:
    """A secret as the literals of Python and JSON, as markup and as addresses write it. Of most there is one form."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    yield secret.encode("utf-8", "surrogatepass").decode("latin-1")  # bytes that are taken for characters
    from urllib.parse import quote, quote_plus

    literals = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    data = secret.encode("utf-8", "surrogatepass")
    # Python chooses the quotes by the whole text: with both kinds in it, it escapes the single one.
    for literal in (repr(f"'\"{secret}")[4:-1], ascii(f"'\"{secret}")[4:-1], repr(b"'\"" + data)[5:-1]):
        literals += (literal, literal.replace("\\'", "'"))
    yield from literals
    yield from (literal.replace("\\", "\\\\") for literal in literals)
    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (markup, markup.replace('"', "&quot;"), markup.replace('"', "&quot;").replace("'", "&#x27;"))
    yield from (quote(data, safe=""), quote(data), quote_plus(data))


def _encoded(secret: str) -> Iterator[str]:
    """A long secret as base64, wherever it stands in what was encoded, and as hexadecimal digits."""
    from base64 import b64encode

    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for before in range(3):
        # The first characters depend on what stands before the secret, the last ones on what comes after it.
        whole = b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        if len(inner) >= LONG:
            yield from (inner, inner.translate(str.maketrans("+/", "-_")))
