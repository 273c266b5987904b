"""Finds secrets in texts, however they are escaped, encoded, broken or cut."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from mahtab_tui.bus.secret_forms import (
    MIN_SUBSTRING_CHARS,
    encoded_forms,
    escaped_forms,
    quoted_forms,
)

MIN_WORD_CHARS = 4
"""A secret of this length or more is found as a separate word; a shorter one must be the whole
text."""
NEEDLE_CHARS = 20
"""A start or end of a secret of this length is found even if the rest was cut off."""
MAX_WHOLE_TEXT_CHARS = 100
"""Only texts shorter than this may be a short secret as a whole."""
MAX_PARTIAL_CHARS = 4_096
"""Characters at the end of a text in which the start of a secret is looked for."""

_INVISIBLE_CHARACTERS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Single characters that are not drawn."""
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
_INVISIBLE = re.compile(rf"[{_INVISIBLE_CHARACTERS}]")
_STRING_START = re.compile(r"\x1b[\]PX^_]")
# Noise is what may stand unseen between the letters of a secret. Newlines are included, because
# programs break long lines.
_NEWLINES = re.compile("\n+")
_INVISIBLE_NOISE = re.compile(rf"[{_INVISIBLE_CHARACTERS}\n]+")
_NOISE = re.compile(rf"{_ESCAPES}|[{_INVISIBLE_CHARACTERS}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_INVISIBLE_CHARACTERS}\n]+")
# Within one line, for secrets that are found as words.
_INVISIBLE_IN_LINE = re.compile(rf"[{_INVISIBLE_CHARACTERS}]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_INVISIBLE_CHARACTERS}]+")


class SecretSpan(NamedTuple):
    """The position of a secret in a text."""

    start: int
    end: int


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

        self._whole_texts = {form for secret in whole_secrets for form in quoted_forms(secret)}
        self._words = _strip_noise(
            form for secret in word_secrets for form in escaped_forms(secret)
        )
        written = _strip_noise(form for secret in long_secrets for form in escaped_forms(secret))
        encoded = {form for secret in long_secrets for form in encoded_forms(secret)}

        self._stream_forms = (*written, *self._words)
        """Forms that may start in one piece of a stream and end in another."""
        self._forms_by_needle: dict[str, set[str]] = {}
        """Forms by their starts and ends, because a text may be cut within a secret."""
        for form in (*encoded, *written):
            self._forms_by_needle.setdefault(form[:NEEDLE_CHARS], set()).add(form)
        for form in written:
            self._forms_by_needle.setdefault(form[-NEEDLE_CHARS:], set()).add(form)
        lengths = map(len, (*self._words, *encoded, *written))
        self.max_form_chars = max(lengths, default=MIN_WORD_CHARS)
        """Characters of the longest form."""

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
            for needle, forms in self._forms_by_needle.items():
                for span in _find_forms(reduced.bare, needle, forms):
                    spans.append(reduced.original_span(span))
        if words and self._words:
            spans += self._find_words(text)
        return _merge_spans(spans)

    def find_partial(self, text: str) -> tuple[int, int]:
        """Find the longest start of a secret at the end of a text.

        Returns:
            Its position, and how many of its characters may be displayed before more is known.
        """
        partial_start = len(text)
        displayable_chars = 0
        tail_start = max(0, len(text) - MAX_PARTIAL_CHARS)
        reduced = _ReducedText(_NOISE_IN_LINE, text[tail_start:])
        for form in self._stream_forms:
            # A complete form is not partial, so the last `len(form) - 1` characters matter.
            position = max(0, len(reduced.bare) - len(form) + 1)
            while (position := reduced.bare.find(form[0], position)) >= 0:
                if not form.startswith(reduced.bare[position:]):
                    position += 1
                    continue
                start = tail_start + reduced.original_offset(position)
                if start < partial_start:
                    partial_start = start
                    displayable_chars = min(3, len(form) // 4)
                break
        return partial_start, displayable_chars

    def _find_words(self, text: str) -> Iterator[SecretSpan]:
        """Yield the positions of secrets that are only found as words."""
        patterns = [_INVISIBLE_IN_LINE]
        if "\x1b" in text:
            patterns.append(_NOISE_IN_LINE)
        for noise in patterns:
            reduced = _ReducedText(noise, text)
            for word in self._words:
                for span in _find_forms(reduced.bare, word, (word,)):
                    if _is_whole_word(reduced.bare, span, word):
                        yield reduced.original_span(span)


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


def _strip_noise(forms: Iterable[str]) -> set[str]:
    """Return forms without invisible characters, except those that become too short to find."""
    bare_forms = {_INVISIBLE_NOISE.sub("", form) for form in forms}
    return {form for form in bare_forms if len(form) >= MIN_WORD_CHARS}


def _noise_patterns(text: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns for noise between the letters of a secret, or around a hidden one."""
    yield _NEWLINES
    if _INVISIBLE.search(text):
        yield _INVISIBLE_NOISE
    if "\x1b" in text:
        yield _NOISE
        if _STRING_START.search(text):
            yield _NOISE_WITH_STRINGS


def _find_forms(text: str, needle: str, forms: Collection[str]) -> Iterator[SecretSpan]:
    """Yield the positions of forms that start or end with a needle, as far as they are there."""
    position = text.find(needle)
    while position >= 0:
        start = position
        end = position + len(needle)
        needle_end = end
        for form in forms:
            if form.startswith(needle):
                candidate = text[position : position + len(form)]
                end = max(end, position + _common_prefix_chars(candidate, form))
            if form.endswith(needle):
                candidate = text[max(0, needle_end - len(form)) : needle_end]
                start = min(start, needle_end - _common_prefix_chars(candidate[::-1], form[::-1]))
        yield SecretSpan(start, end)
        position = text.find(needle, end)


def _common_prefix_chars(first: str, second: str) -> int:
    """Return how many characters are equal at the starts of two texts, by bisection."""
    if first == second:
        return len(first)
    low = 0
    high = min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_whole_word(text: str, span: SecretSpan, form: str) -> bool:
    """Whether no word goes on beyond either end of a form."""
    preceding = text[max(0, span.start - 1) : span.start]
    following = text[span.end : span.end + 1]
    goes_on_before = _is_word_character(preceding) and _is_word_character(form[0])
    goes_on_after = _is_word_character(following) and _is_word_character(form[-1])
    return not goes_on_before and not goes_on_after


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"  # False for ""


def _merge_spans(spans: list[SecretSpan]) -> list[SecretSpan]:
    """Return spans in order; those that overlap become one."""
    merged: list[SecretSpan] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            merged[-1] = SecretSpan(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
