"""Masks secrets in everything that is displayed, stored or sent to models and agents. A secret is a
configured key, or a line that the user typed hidden (`getpass`)."""

from __future__ import annotations

import json
import logging
import re
import threading
import typing
from base64 import b64encode
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from mahtab_tui.bus.marks import NAME, NULL, PICTURE, WORD
from mahtab_tui.bus.records import Record, Stream, get_record, hints

MASK = "••••••••"

MIN_SUBSTRING_CHARS = 8
"""A secret of this length or more is found anywhere."""
MIN_WORD_CHARS = 4
"""A secret of this length or more is found as a separate word; a shorter one must be the whole
text."""
NEEDLE_CHARS = 20
"""So much of a secret's start or end is found even if the rest was cut off."""
MAX_WHOLE_TEXT_CHARS = 100
"""Only texts shorter than this may be a short secret as a whole."""
MAX_PARTIAL_CHARS = 4_096
"""How far before the end of a text the start of a secret is looked for."""

MIN_PRIVATE_CHARS = 8
"""Shorter lines of private texts are too common to be hidden."""
PIECE_CHARS = 16
"""Length of the pieces by which a long private line is found: 31 characters of it contain a
complete piece."""
MIN_PIECEWISE_CHARS = 2 * PIECE_CHARS
"""Shorter private lines are only found as a whole."""
MAX_LINES_PER_PIECE = 8
"""A line of dashes contains the same piece many times."""

MAX_STREAMS = 64

UNMASKED_KEYS = frozenset(
    "op party call kind kinds status picture mime state request id mode change model source approval entry level tree node event parent "
    "batch pictures".split()
)
"""Keys whose values are the program's own words, which are not masked."""
IDENTIFIER_KEYS = frozenset({"name", "type", "was_type"})
"""Keys whose values are identifiers, which may equal a short secret."""
FOREIGN_MAPPING_KEY = "arguments"
"""The key of a mapping whose keys are masked, too."""

_SINGLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
_INVISIBLE = re.compile(rf"[{_SINGLE}]")
_STRING_START = re.compile(r"\x1b[\]PX^_]")
# Noise is what may stand between the letters of a secret without being seen. Newlines are included,
# because programs break long lines.
_NEWLINES = re.compile("\n+")
_SINGLE_NOISE = re.compile(rf"[{_SINGLE}\n]+")
_NOISE = re.compile(rf"{_ESCAPES}|[{_SINGLE}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_SINGLE}\n]+")
# Within one line, for secrets that are found as words.
_SINGLE_IN_LINE = re.compile(rf"[{_SINGLE}]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_SINGLE}]+")


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

        self._whole_texts = {form for secret in whole_secrets for form in _quoted_forms(secret)}
        self._words = _strip_noise(
            form for secret in word_secrets for form in _escaped_forms(secret)
        )
        written = _strip_noise(form for secret in long_secrets for form in _escaped_forms(secret))
        encoded = {form for secret in long_secrets for form in _encoded_forms(secret)}

        self._stream_forms = (*written, *self._words)
        """Forms that may start in one piece of a stream and end in another."""
        self._forms_by_needle: dict[str, set[str]] = {}
        """Forms by their starts and ends, because a text may be cut within a secret."""
        for form in (*encoded, *written):
            self._forms_by_needle.setdefault(form[:NEEDLE_CHARS], set()).add(form)
        for form in written:
            self._forms_by_needle.setdefault(form[-NEEDLE_CHARS:], set()).add(form)
        lengths = map(len, (*self._words, *encoded, *written))
        self.longest = max(lengths, default=MIN_WORD_CHARS)
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
        patterns = [_SINGLE_IN_LINE]
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
    bare_forms = {_SINGLE_NOISE.sub("", form) for form in forms}
    return {form for form in bare_forms if len(form) >= MIN_WORD_CHARS}


def _noise_patterns(text: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns for noise between the letters of a secret, or around a hidden one."""
    yield _NEWLINES
    if _INVISIBLE.search(text):
        yield _SINGLE_NOISE
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


def _quoted_forms(secret: str) -> list[str]:
    """Return a secret as a whole text, with and without quotes."""
    data = secret.encode("utf-8", "surrogatepass")
    return [secret, repr(secret), repr(data), json.dumps(secret), f'"{secret}"', f"'{secret}'"]


def _escaped_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is written in code, JSON, HTML and addresses."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield data.decode("latin-1")  # bytes decoded as characters

    literals = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    # Python chooses the quotes by the whole text: if it contains both kinds, Python escapes the
    # single ones.
    python_literals = (
        repr(f"'\"{secret}")[4:-1],
        ascii(f"'\"{secret}")[4:-1],
        repr(b"'\"" + data)[5:-1],
    )
    for literal in python_literals:
        literals += (literal, literal.replace("\\'", "'"))
    yield from literals

    # A literal within a literal.
    for literal in literals:
        escaped = literal.replace("\\", "\\\\")
        yield from (escaped, escaped.replace("'", "\\'"))
        yield json.dumps(literal, ensure_ascii=False)[1:-1]

    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted_markup = markup.replace('"', "&quot;")
    yield from (markup, quoted_markup, quoted_markup.replace("'", "&#x27;"))
    yield from (quote(data, safe=""), quote(data), quote_plus(data))


def _encoded_forms(secret: str) -> Iterator[str]:
    """Yield a long secret as base64, for each alignment, and as hexadecimal digits."""
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for preceding_bytes in range(3):
        encoded = b64encode(b"\0" * preceding_bytes + data).decode().rstrip("=")
        # The first characters depend on what precedes the secret, the last ones on what follows it.
        start = (0, 2, 3)[preceding_bytes]
        end = (preceding_bytes + len(data)) * 8 // 6
        inner = encoded[start:end]
        if len(inner) >= MIN_SUBSTRING_CHARS:
            yield inner
            yield inner.translate(str.maketrans("+/", "-_"))


def mask_spans(text: str, spans: Sequence[SecretSpan]) -> str:
    """Replace some spans by `MASK`. Line ends within them stay."""
    return mask_slice(text, spans, 0, len(text))


def mask_slice(text: str, spans: Sequence[SecretSpan], start: int, end: int) -> str:
    """Return a part of a text in which spans are replaced by `MASK`."""
    pieces: list[str] = []
    for span in spans:
        if start < end and start < span.end and span.start < end:
            newline_count = text.count("\n", span.start, span.end)
            pieces += (text[start : span.start], MASK, "\n" * newline_count)
            start = span.end
    pieces.append(text[start:end])
    return "".join(pieces)


class PrivateTexts:
    """Finds private texts in linear time. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: set[str] = set()
        self._short_lines: dict[str, dict[int, set[str]]] = {}
        """Lines that are only found as a whole, by first characters and length."""
        self._pieces: dict[str, list[tuple[str, int]]] = {}
        """Long lines by their pieces, with the piece's offset in the line."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def replace(self, texts: Iterable[str]) -> None:
        """Search for these texts only."""
        with self._lock:
            self._lines = set()
            self._short_lines = {}
            self._pieces = {}
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Search for the lines of texts, also as written in code and JSON."""
        for text in texts:
            for line in text.splitlines():
                line = line.strip()
                for form in {line, repr(line)[1:-1], json.dumps(line)[1:-1]}:
                    if len(form) >= MIN_PRIVATE_CHARS:
                        self._add_line(form)

    def _add_line(self, line: str) -> None:
        with self._lock:
            if line in self._lines:
                return
            self._lines.add(line)

            if len(line) < MIN_PIECEWISE_CHARS:
                lines_by_length = self._short_lines.setdefault(line[:MIN_PRIVATE_CHARS], {})
                lines_by_length.setdefault(len(line), set()).add(line)
                return
            for offset in range(0, len(line) - PIECE_CHARS + 1, PIECE_CHARS):
                owners = self._pieces.setdefault(line[offset : offset + PIECE_CHARS], [])
                if len(owners) < MAX_LINES_PER_PIECE:
                    owners.append((line, offset))

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return the positions of private texts, in order and without overlaps. `words` has no
        effect; `SecretMatcher.spans` has it."""
        if not self._lines:
            return []
        spans: list[SecretSpan] = []
        start = 0
        while start <= len(text) - MIN_PRIVATE_CHARS:
            span = self._longest_match_at(text, start)
            if span is None:
                start += 1
                continue
            # A match by a piece may begin before the piece, within earlier matches.
            while spans and span.start <= spans[-1].end:
                span = SecretSpan(min(span.start, spans.pop().start), span.end)
            spans.append(span)
            start = span.end
        return spans

    def _longest_match_at(self, text: str, start: int) -> SecretSpan | None:
        """Return the longest part of a private line that is equal to the text around a position."""
        match_start = start
        match_end = -1

        lines_by_length = self._short_lines.get(text[start : start + MIN_PRIVATE_CHARS], {})
        for length, lines in lines_by_length.items():
            if text[start : start + length] in lines:
                match_end = max(match_end, start + length)

        for line, offset in self._pieces.get(text[start : start + PIECE_CHARS], ()):
            # Extend the piece to both sides as far as line and text are equal.
            before = 0
            max_before = min(offset, start)
            while before < max_before and line[offset - before - 1] == text[start - before - 1]:
                before += 1
            after = PIECE_CHARS
            max_after = min(len(line) - offset, len(text) - start)
            while after < max_after and line[offset + after] == text[start + after]:
                after += 1
            match_start = min(match_start, start - before)
            match_end = max(match_end, start + after)

        if match_end >= 0:
            return SecretSpan(match_start, match_end)
        return None


class Secrets:
    """All secrets of a session. Any thread may call it."""

    def __init__(self, configured: Callable[[], Iterable[str]] = tuple) -> None:
        """
        Args:
            configured: Returns the configured keys. A key that it no longer returns stays a secret.
        """
        self.private = PrivateTexts()
        """Texts of private variables, hidden from models and agents, but not from the user."""
        self._configured = configured
        self._secrets: dict[str, None] = {}
        self._forms = SecretMatcher(())

    def add(self, typed: str) -> None:
        """Mask a text from now on, for example one that the user typed hidden."""
        for secret in (typed, typed.strip()):
            if secret:
                self._secrets[secret] = None

    def mask(self, text: str) -> str:
        """Mask the secrets of a text."""
        return mask_spans(text, self.spans(text))

    def redact_for_model(self, text: str) -> str:
        """Remove secrets and texts of private variables."""
        text = self.mask(text)
        return mask_spans(text, self.private.spans(text))

    @property
    def may_redact(self) -> bool:
        """Whether there is anything to remove from texts for models."""
        return bool(self.forms.secrets or self.private)

    def spans(self, text: str) -> list[SecretSpan]:
        """Return the positions of the secrets in a text."""
        return self.forms.spans(text)

    def mask_value(self, value: Any) -> Any:
        """Mask the texts of a JSON value. Keys of dicts and identifiers stay."""
        forms = self.forms
        if not forms.secrets:
            return value
        return _mask_json(value, forms)

    def redact_value(self, value: Any) -> Any:
        """Mask the texts of a JSON value, and remove texts of private variables."""
        value = self.mask_value(value)
        if self.private:
            return _mask_json(value, self.private)
        return value

    def mask_record(self, record: Record) -> Record:
        """Mask the fields of a record, except its pictures."""
        forms = self.forms
        is_picture = str(getattr(record, "mime", "")).startswith("image/")
        masked_fields: dict[str, Any] = {}
        for name, hint in hints(type(record)).items():
            if is_picture and PICTURE in str(hint):
                continue
            masked_fields[name] = _mask_field(getattr(record, name), hint, forms)
        return record.changed(**masked_fields)

    def mask_page(self, fetch: Callable[[int, int], str], start: int, end: int) -> str:
        """Return a part of a long text, with a dot for each character of a secret, even if the
        secret extends beyond the part.

        Args:
            fetch: Returns the text between two positions.
        """
        forms = self.forms
        if not forms.secrets:
            return fetch(start, end)
        preceding_chars = min(start, forms.longest)
        text = fetch(start - preceding_chars, end + forms.longest)
        dotted = replace_with_dots(text, forms.spans(text))
        return dotted[preceding_chars : preceding_chars + end - start]

    @property
    def forms(self) -> SecretMatcher:
        """The matcher of all secrets that are known now."""
        for key in self._configured():
            if len(key) >= MIN_SUBSTRING_CHARS:  # a shorter key looks like a word, such as "none"
                self._secrets[key] = None
        secrets = tuple(self._secrets)
        if secrets != self._forms.secrets:
            self._forms = SecretMatcher(secrets)
        return self._forms


class MaskedStream:
    """Masks a text that arrives in pieces. It holds back what may be the start of a secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tail = ""
        """The possible start of a secret."""
        self._displayed_chars = 0
        """How much of the tail was returned already."""

    def feed(self, text: str) -> str:
        """Return what may be displayed after a new piece."""
        text = self._tail + text
        forms = self._secrets.forms
        spans = forms.spans(text)
        tail_start, displayable_chars = forms.find_partial(text)
        # A complete secret may end like its own start.
        if spans and tail_start > spans[-1].start:
            tail_start = max(tail_start, spans[-1].end)

        if len(text) - tail_start <= displayable_chars:
            display_end = len(text)
        else:
            display_end = max(tail_start, self._displayed_chars)
        piece = mask_slice(text, spans, self._displayed_chars, display_end)
        self._tail = text[tail_start:]
        self._displayed_chars = display_end - tail_start
        return piece

    def finish(self) -> str:
        """Return what was held back."""
        text = self._tail
        if not text:
            return ""
        piece = mask_slice(text, self._secrets.spans(text), self._displayed_chars, len(text))
        self._tail = ""
        self._displayed_chars = 0
        return piece


class MaskingFilter(logging.Filter):
    """Masks all records of a log before its handlers get them."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._streams: OrderedDict[tuple[object, ...], MaskedStream] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._secrets.forms.secrets:
            return True
        original = get_record(record)
        masked = self.mask_record(original)
        record.msg = masked.text
        record.args = None
        record.__dict__["record"] = masked
        # Drop a piece of a stream that is held back as a whole.
        is_held_back = bool(original.text) and not masked.text and isinstance(original, Stream)
        return not is_held_back

    def mask_record(self, record: Record) -> Record:
        """Mask a record. Only the complete record has the text that a stream held back at its
        end."""
        if record.text and isinstance(record, Stream):
            return record.changed(text=self._stream(record.stream).feed(record.text))
        return self._secrets.mask_record(record)

    def _stream(self, key: tuple[object, ...]) -> MaskedStream:
        """Return the stream with this key; only those used last are kept."""
        stream = self._streams.setdefault(key, MaskedStream(self._secrets))
        self._streams.move_to_end(key)
        if len(self._streams) > MAX_STREAMS:
            self._streams.popitem(last=False)
        return stream


def mask_secret(text: str, secret: str) -> str:
    """Mask one secret in a text, if it is long enough to be found anywhere."""
    if len(secret) < MIN_SUBSTRING_CHARS:
        return text
    return mask_spans(text, SecretMatcher([secret]).spans(text))


def replace_with_dots(text: str, spans: Sequence[SecretSpan]) -> str:
    """Replace each character of some spans by a dot, so that no position changes."""
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces.append(text[position : span.start])
        pieces.append(re.sub(".", MASK[0], text[span.start : span.end]))
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)


def _mask_field(value: Any, hint: Any, forms: SecretMatcher) -> Any:
    """Mask the texts of a record's field, as its type annotation says."""
    hint_args = typing.get_args(hint)
    if type(None) in hint_args or NULL in hint_args:
        if value is None:
            return None
        return _mask_field(value, hint_args[0], forms)
    if isinstance(value, str):
        if WORD in hint_args:
            return value
        return mask_spans(value, forms.spans(value, words=NAME not in hint_args))
    if hasattr(value, "_fields") or is_dataclass(value):
        masked_fields = [
            _mask_field(getattr(value, name), field_hint, forms)
            for name, field_hint in hints(type(value)).items()
        ]
        return type(value)(*masked_fields)
    if isinstance(value, tuple):
        is_homogeneous = hint_args[1:] == (...,)
        item_hints = hint_args
        if is_homogeneous:
            item_hints = hint_args[:1] * len(value)
        return tuple(
            _mask_field(item, item_hint, forms)
            for item, item_hint in zip(value, item_hints, strict=True)
        )
    return value


def _mask_json(
    value: Any, forms: SecretMatcher | PrivateTexts, key: str = "", *, mask_keys: bool = False
) -> Any:
    """Mask the texts of a JSON value.

    Args:
        key: The key of the dict that holds the value; empty if its keys are not the program's own.
        mask_keys: Mask the keys of dicts, too.
    """
    if isinstance(value, str):
        if key in UNMASKED_KEYS:
            return value
        return mask_spans(value, forms.spans(value, words=key not in IDENTIFIER_KEYS))
    if isinstance(value, (list, tuple)):
        return [_mask_json(item, forms, key, mask_keys=mask_keys) for item in value]
    if not isinstance(value, dict):
        return value

    is_picture = str(value.get("mime", "")).startswith("image/")
    masked: dict[str, Any] = {}
    for item_key, item in value.items():
        if not (is_picture and item_key == "data"):
            own_key = "" if mask_keys else item_key
            is_foreign = mask_keys or item_key == FOREIGN_MAPPING_KEY
            item = _mask_json(item, forms, own_key, mask_keys=is_foreign)
        masked_key = item_key
        if mask_keys:
            masked_key = mask_spans(item_key, forms.spans(item_key))
        masked[masked_key] = item
    return masked
