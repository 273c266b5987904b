"""Finds secrets in a text: as they are, escaped as in code and data formats, or with invisible
characters between their letters."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

LONG = 8
"""A secret of at least this length, in characters, is found anywhere."""
SHORTEST_WORD = 4
"""A secret of at least this length is found as a word of its own; a shorter one only if it is the
whole text."""
PART = 20
"""Length of a secret's start or end that is found even if the rest was cut off."""
_SHORT = 100
"""Longest text that is compared with short secrets, written as literals, with blanks around
them."""
REACH = 4_096
"""Length of the text's end that is searched for the start of a secret."""

_SINGLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_INVISIBLE = re.compile(rf"[{_SINGLE}]")
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
# A newline too: programs break long lines.
_SINGLE_NOISE = re.compile(rf"[{_SINGLE}\n]+")
_NOISE = re.compile(rf"{_ESCAPES}|[{_SINGLE}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_SINGLE}\n]+")
_SINGLE_IN_LINE = re.compile(rf"[{_SINGLE}]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_SINGLE}]+")
_NEWLINES = re.compile("\n+")
_BEGINS_STRING = re.compile(r"\x1b[\]PX^_]")


class SecretSpan(NamedTuple):
    """The position of a secret in a text, in characters; `end` is exclusive."""

    start: int
    end: int


class SecretMatcher:
    """All forms of some secrets. Finding them takes time proportional to the text and the number of
    secrets."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = tuple(secrets)
        self._whole = {
            quoted
            for secret in secrets
            if len(secret) < SHORTEST_WORD
            for quoted in _quoted(secret)
        }
        self._words = _seen(
            form
            for secret in secrets
            if SHORTEST_WORD <= len(secret) < LONG
            for form in _escaped(secret)
        )
        written = _seen(
            form for secret in secrets if len(secret) >= LONG for form in _escaped(secret)
        )
        self._beginnings = (*written, *self._words)
        """The forms that a stream may begin with one piece and end with another."""
        encoded = {form for secret in secrets if len(secret) >= LONG for form in _encoded(secret)}
        self._long: dict[str, set[str]] = {}
        """Starts and ends of forms, to the forms: a truncated text may have only the start or the
        end of a secret."""
        for form in (*encoded, *written):
            self._long.setdefault(form[:PART], set()).add(form)
        for form in written:
            self._long.setdefault(form[-PART:], set()).add(form)
        self.longest = max(map(len, (*self._words, *encoded, *written)), default=SHORTEST_WORD)

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return where the secrets stand, in order, without overlaps. words: include those found
        only as a word or as the whole text."""
        if not self.secrets or not text:
            return []
        if words and self._whole and len(text) < _SHORT and text.strip() in self._whole:
            return [SecretSpan(0, len(text))]
        found = [
            span for noise in _noises(text) for span in self._long_ones(_ReducedText(noise, text))
        ]
        if words and self._words:
            noises = (_SINGLE_IN_LINE, _NOISE_IN_LINE) if "\x1b" in text else (_SINGLE_IN_LINE,)
            found += [
                span for noise in noises for span in self._single_words(_ReducedText(noise, text))
            ]
        return _merged(found)

    def begun(self, text: str) -> tuple[int, int]:
        """Find the longest start of a secret at the end of a text.

        Returns its position (the text's length if there is none), and how many of its characters
        may be displayed before more is known.
        """
        start, shown = len(text), 0
        near = max(0, len(text) - REACH)
        removed = _ReducedText(_NOISE_IN_LINE, text[near:])
        for form in self._beginnings:
            place = max(0, len(removed.bare) - len(form) + 1)
            while (place := removed.bare.find(form[0], place)) >= 0:
                if form.startswith(removed.bare[place:]):
                    if (found := near + removed.start(place)) < start:
                        start, shown = found, min(3, len(form) // 4)
                    break
                place += 1
        return start, shown

    def _long_ones(self, removed: _ReducedText) -> list[SecretSpan]:
        bare = removed.bare
        needles = [needle for needle in self._long if needle in bare]
        return [
            removed.span(place)
            for needle in needles
            for place in _places(bare, needle, self._long[needle])
        ]

    def _single_words(self, removed: _ReducedText) -> list[SecretSpan]:
        bare = removed.bare
        places = ((word, place) for word in self._words for place in _places(bare, word, (word,)))
        return [removed.span(place) for word, place in places if _stands_alone(bare, place, word)]


class _ReducedText:
    """A text without the matches of a pattern, and the original positions of its characters."""

    def __init__(self, noise: re.Pattern[str], text: str) -> None:
        self.text = text
        self.bare = text.replace("\n", "") if noise is _NEWLINES else noise.sub("", text)
        self._noise = noise

    def span(self, found: SecretSpan) -> SecretSpan:
        """Convert a span of `bare` to a span of the text."""
        return SecretSpan(self.start(found.start), self.start(found.end - 1) + 1)

    def start(self, place: int) -> int:
        """Convert a position in `bare` to a position in the text."""
        at, removed = self._removals
        return place + removed[bisect_right(at, place)]

    @cached_property
    def _removals(self) -> tuple[list[int], list[int]]:
        """The positions in `bare` where something was removed, and how many characters were removed
        before each and in all."""
        at, removed = [], [0]
        for found in self._noise.finditer(self.text):
            at.append(found.start() - removed[-1])
            removed.append(removed[-1] + len(found[0]))
        return at, removed


def _seen(forms: Iterable[str]) -> set[str]:
    """Remove from the forms what is removed from a text before it is searched."""
    bare = {_SINGLE_NOISE.sub("", form) for form in forms}
    return {form for form in bare if len(form) >= SHORTEST_WORD}


def _noises(text: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns of what may stand between the letters of a secret. A control sequence may also
    hide a whole secret."""
    yield _NEWLINES
    if _INVISIBLE.search(text):
        yield _SINGLE_NOISE
    if "\x1b" in text:
        yield _NOISE
        if _BEGINS_STRING.search(text):
            yield _NOISE_WITH_STRINGS


def _places(text: str, needle: str, forms: Collection[str]) -> Iterator[SecretSpan]:
    """Yield the positions of forms that start or end with a needle, as far as the text has them."""
    place = text.find(needle)
    while place >= 0:
        start, end = place, place + len(needle)
        for form in forms:
            if form.startswith(needle):
                end = max(end, place + _common(text[place : place + len(form)], form))
            if form.endswith(needle):
                last = place + len(needle)
                start = min(
                    start, last - _common(text[max(0, last - len(form)) : last][::-1], form[::-1])
                )
        yield SecretSpan(start, end)
        place = text.find(needle, end)


def _common(one: str, other: str) -> int:
    """Return the length of the common start of two texts."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _stands_alone(text: str, span: SecretSpan, form: str) -> bool:
    """Return whether a short form is not part of a longer word."""
    before, after = text[max(0, span.start - 1) : span.start], text[span.end : span.end + 1]
    return not (
        (_is_word(before) and _is_word(form[0])) or (_is_word(after) and _is_word(form[-1]))
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"  # false for ""


def _merged(spans: list[SecretSpan]) -> list[SecretSpan]:
    result: list[SecretSpan] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            result[-1] = SecretSpan(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def _quoted(secret: str) -> list[str]:
    """Return a secret as it is and as literals."""
    return [
        secret,
        repr(secret),
        repr(secret.encode("utf-8", "surrogatepass")),
        json.dumps(secret),
        f'"{secret}"',
        f"'{secret}'",
    ]


def _escaped(secret: str) -> Iterator[str]:
    """Yield a secret as literals of Python and JSON, as markup and as URLs write it. Most have one
    form."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    yield secret.encode("utf-8", "surrogatepass").decode("latin-1")  # bytes decoded as characters
    from urllib.parse import quote, quote_plus

    literals = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    data = secret.encode("utf-8", "surrogatepass")
    # Python chooses the quotes by the whole text: if it has both kinds, Python escapes the single
    # ones.
    for literal in (
        repr(f"'\"{secret}")[4:-1],
        ascii(f"'\"{secret}")[4:-1],
        repr(b"'\"" + data)[5:-1],
    ):
        literals += (literal, literal.replace("\\'", "'"))
    yield from literals
    for literal in literals:  # a literal in a literal
        escaped = literal.replace("\\", "\\\\")
        yield from (
            escaped,
            escaped.replace("'", "\\'"),
            json.dumps(literal, ensure_ascii=False)[1:-1],
        )
    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (
        markup,
        markup.replace('"', "&quot;"),
        markup.replace('"', "&quot;").replace("'", "&#x27;"),
    )
    yield from (quote(data, safe=""), quote(data), quote_plus(data))


def _encoded(secret: str) -> Iterator[str]:
    """Yield a long secret as base64, for each alignment, and as hexadecimal digits."""
    from base64 import b64encode

    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for before in range(3):
        # The first characters depend on what precedes the secret, the last ones on what follows it.
        whole = b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        if len(inner) >= LONG:
            yield from (inner, inner.translate(str.maketrans("+/", "-_")))
