"""Finds secrets in texts, however they are escaped, encoded, broken or cut."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from mahtab_tui.bus import secret_forms
from mahtab_tui.bus.secret_forms import MIN_SUBSTRING_CHARS

MIN_WORD_CHARS = 4
"""A secret of this length or more is found as a separate word; a shorter one must be the whole
text."""
NEEDLE_CHARS = 20
"""A start or end of a secret of this length is found even if the rest was cut off."""
MAX_WHOLE_TEXT_CHARS = 100
"""Only texts shorter than this may be a short secret as a whole."""
MAX_PARTIAL_CHARS = 4_096
"""Characters at the end of a text in which the start of a secret is looked for."""
MAX_DISPLAYABLE_CHARS = 3
"""Characters of the start of a secret that are displayed before more is known; of a secret with fewer
than twelve, a quarter."""

_INVISIBLE_CHARACTERS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Single characters that are not drawn."""
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
_INVISIBLE = re.compile(rf"[{_INVISIBLE_CHARACTERS}]")
_STRING_START = re.compile(r"\x1b[\]PX^_]")

# Noise is what may stand unseen between the letters of a secret. Programs break long lines, so
# newlines are noise, too, except around short secrets, which must stand within one line.
#
#   pattern              what it removes                     the texts it is used on
#   _NEWLINES            newlines                            all
#   _INVISIBLE_NOISE     newlines, invisible characters      with invisible characters
#   _NOISE               these and escape sequences          with escape sequences
#   _NOISE_WITH_STRINGS  these and the terminal's strings    with such strings
#   _INVISIBLE_IN_LINE   invisible characters                all, for short secrets
#   _NOISE_IN_LINE       these and escape sequences          with escape sequences, likewise
_NEWLINES = re.compile("\n+")
_INVISIBLE_NOISE = re.compile(rf"[{_INVISIBLE_CHARACTERS}\n]+")
_NOISE = re.compile(rf"{_ESCAPES}|[{_INVISIBLE_CHARACTERS}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_INVISIBLE_CHARACTERS}\n]+")
_INVISIBLE_IN_LINE = re.compile(rf"[{_INVISIBLE_CHARACTERS}]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_INVISIBLE_CHARACTERS}]+")


class SecretSpan(NamedTuple):
    """The position of a secret in a text."""

    start: int
    end: int


class PartialSecret(NamedTuple):
    """The possible start of a secret at the end of a text."""

    start: int
    """Its position; the length of the text if there is none."""
    displayable_chars: int
    """How many of its characters may be displayed before more is known."""


class SecretMatcher:
    """Finds secrets in texts, however they are escaped, encoded, broken or cut."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = tuple(secrets)

        # The shorter a secret is, the more ordinary text looks like it.
        whole_secrets: list[str] = []
        word_secrets: list[str] = []
        long_secrets: list[str] = []
        for secret in secrets:
            if len(secret) < MIN_WORD_CHARS:
                whole_secrets.append(secret)
            elif len(secret) < MIN_SUBSTRING_CHARS:
                word_secrets.append(secret)
            else:
                long_secrets.append(secret)

        self._whole_texts = {
            form for secret in whole_secrets for form in secret_forms.quoted_forms(secret)
        }
        self._word_forms = _literal_forms(word_secrets)
        literal_forms = _literal_forms(long_secrets)
        encoded_forms = {
            form for secret in long_secrets for form in secret_forms.encoded_forms(secret)
        }
        all_forms = (*self._word_forms, *literal_forms, *encoded_forms)
        self.max_form_chars = max(map(len, all_forms), default=MIN_WORD_CHARS)
        """Characters of the longest form."""

        self._stream_forms = (*literal_forms, *self._word_forms)
        """Forms that may start in one piece of a stream and end in another."""
        self._long_forms = _group_by_needle((*literal_forms, *encoded_forms))
        self._reversed_forms = _group_by_needle(
            form[::-1] for form in literal_forms if len(form) > NEEDLE_CHARS
        )
        """Forms that are also found by their ends, because a text may be cut within one."""

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return the positions of the secrets, in order and without overlaps.

        Args:
            words: Also find the short secrets, as words or as the whole text.
        """
        if not self.secrets or not text:
            return []
        if words and len(text) < MAX_WHOLE_TEXT_CHARS and text.strip() in self._whole_texts:
            return [SecretSpan(0, len(text))]

        spans: list[SecretSpan] = []
        for noise in _noise_patterns(text):
            reduced = _ReducedText(noise, text)
            spans += map(reduced.original_span, self._find_long_forms(reduced.bare))
        if words and self._word_forms:
            spans += self._find_words(text)
        return _merge_spans(spans)

    def find_partial(self, text: str) -> PartialSecret:
        """Find the longest start of a secret at the end of a text."""
        partial = PartialSecret(len(text), 0)
        tail_start = max(0, len(text) - MAX_PARTIAL_CHARS)
        reduced = _ReducedText(_NOISE_IN_LINE, text[tail_start:])
        for form in self._stream_forms:
            position = _find_partial_form(form, reduced.bare)
            if position < 0:
                continue
            start = tail_start + reduced.original_offset(position)
            if start < partial.start:
                displayable_chars = min(MAX_DISPLAYABLE_CHARS, len(form) // 4)
                partial = PartialSecret(start, displayable_chars)
        return partial

    def _find_long_forms(self, text: str) -> Iterator[SecretSpan]:
        """Yield the positions of secrets that are found anywhere, whole or cut."""
        yield from _find_starts(text, self._long_forms)
        for start, end in _find_starts(text[::-1], self._reversed_forms):
            yield SecretSpan(len(text) - end, len(text) - start)

    def _find_words(self, text: str) -> Iterator[SecretSpan]:
        """Yield the positions of secrets that are only found as words."""
        patterns = [_INVISIBLE_IN_LINE]
        if "\x1b" in text:
            patterns.append(_NOISE_IN_LINE)
        for noise in patterns:
            reduced = _ReducedText(noise, text)
            for word in self._word_forms:
                word_spans = _merge_ordered(_find_whole_words(reduced.bare, word))
                yield from map(reduced.original_span, word_spans)


class _ReducedText:
    """A text without the matches of a pattern, and where its characters were."""

    def __init__(self, noise: re.Pattern[str], text: str) -> None:
        self.text = text
        self.bare = text.replace("\n", "") if noise is _NEWLINES else noise.sub("", text)
        self._noise = noise

    def original_span(self, span: SecretSpan) -> SecretSpan:
        """Return the position in the text of a position in `bare`."""
        # From the last character: noise after it does not belong to the secret.
        end = self.original_offset(span.end - 1) + 1
        return SecretSpan(self.original_offset(span.start), end)

    def original_offset(self, offset: int) -> int:
        """Return where a character of `bare` is in the text."""
        offsets, removed_chars = self._removals
        return offset + removed_chars[bisect_right(offsets, offset)]

    @cached_property
    def _removals(self) -> tuple[list[int], list[int]]:
        """The offsets in `bare` where something was removed; and how many characters were removed
        before the first of them, the second, and so on."""
        offsets: list[int] = []
        removed_chars = [0]
        for match in self._noise.finditer(self.text):
            offsets.append(match.start() - removed_chars[-1])
            removed_chars.append(removed_chars[-1] + len(match[0]))
        return offsets, removed_chars


def _literal_forms(secrets: Iterable[str]) -> set[str]:
    """Return secrets as they are written in code and data, without invisible characters, except
    those that become too short to find."""
    forms = (form for secret in secrets for form in secret_forms.escaped_forms(secret))
    bare_forms = {_INVISIBLE_NOISE.sub("", form) for form in forms}
    return {form for form in bare_forms if len(form) >= MIN_WORD_CHARS}


def _group_by_needle(forms: Iterable[str]) -> dict[str, list[str]]:
    """Return forms by their first characters, by which they are found."""
    forms_by_needle: dict[str, list[str]] = {}
    for form in forms:
        forms_by_needle.setdefault(form[:NEEDLE_CHARS], []).append(form)
    return forms_by_needle


def _noise_patterns(text: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns for noise between the letters of a secret, or around a hidden one."""
    yield _NEWLINES
    if _INVISIBLE.search(text):
        yield _INVISIBLE_NOISE
    if "\x1b" in text:
        yield _NOISE
        if _STRING_START.search(text):
            yield _NOISE_WITH_STRINGS


def _find_starts(text: str, forms_by_needle: dict[str, list[str]]) -> Iterator[SecretSpan]:
    """Yield where forms start with their needles, each as far as it is there."""
    for needle, forms in forms_by_needle.items():
        if needle in text:
            for form in forms:
                yield from _merge_ordered(_find_start(text, form, len(needle)))


def _find_start(text: str, form: str, needle_chars: int) -> Iterator[SecretSpan]:
    """Yield where at least the needle of a form is, as far as the form is there.

    An occurrence may begin within another, or within a false start: "0001" occurs in "00001". This
    is the algorithm of Knuth, Morris and Pratt, which never goes back in the text.
    """
    border_chars = _border_chars(form)
    needle = form[:needle_chars]
    start = text.find(needle)
    while start >= 0:
        matched_chars = needle_chars
        end = start + needle_chars
        while matched_chars >= needle_chars:
            goes_on = end < len(text) and matched_chars < len(form)
            if goes_on and text[end] == form[matched_chars]:
                matched_chars += 1
                end += 1
            else:
                matched_chars = border_chars[matched_chars]
        yield SecretSpan(start, end)
        start = text.find(needle, end - matched_chars)


def _border_chars(form: str) -> list[int]:
    """Return, for the first 0, 1, 2, … characters of a form, how many of them are both its start and
    its end, without being all of it: 0, 0, 0, 1, 2 for "abab"."""
    border_chars = [0, 0]
    for character in form[1:]:
        length = border_chars[-1]
        while length and form[length] != character:
            length = border_chars[length]
        if form[length] == character:
            length += 1
        border_chars.append(length)
    return border_chars


def _find_partial_form(form: str, text: str) -> int:
    """Return where the longest start of a form at the end of a text is; -1 if there is none."""
    # A complete form is not partial, so the last `len(form) - 1` characters matter.
    position = text.find(form[0], max(0, len(text) - len(form) + 1))
    while position >= 0 and not form.startswith(text[position:]):
        position = text.find(form[0], position + 1)
    return position


def _find_whole_words(text: str, word: str) -> Iterator[SecretSpan]:
    """Yield where a form is a word of its own; occurrences may overlap."""
    position = text.find(word)
    while position >= 0:
        span = SecretSpan(position, position + len(word))
        if _is_whole_word(text, span, word):
            yield span
        position = text.find(word, position + 1)


def _is_whole_word(text: str, span: SecretSpan, form: str) -> bool:
    """Whether no word goes on beyond either end of a form."""
    preceding = text[max(0, span.start - 1) : span.start]
    following = text[span.end : span.end + 1]
    goes_on_before = _is_word_character(preceding) and _is_word_character(form[0])
    goes_on_after = _is_word_character(following) and _is_word_character(form[-1])
    return not goes_on_before and not goes_on_after


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"  # False for ""


def _merge_spans(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return spans in order; those that overlap become one."""
    return list(_merge_ordered(sorted(spans)))


def _merge_ordered(spans: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield spans that are in order by their starts; those that overlap become one."""
    merged: SecretSpan | None = None
    for span in spans:
        if merged is None:
            merged = span
        elif span.start < merged.end:
            merged = SecretSpan(merged.start, max(merged.end, span.end))
        else:
            yield merged
            merged = span
    if merged is not None:
        yield merged
