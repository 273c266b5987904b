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
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from mahtab_tui.bus.records import (
    NAME,
    NULL,
    PICTURE,
    WORD,
    Record,
    Stream,
    get_record,
    hints,
)

LONG = 8
"""Characters of a secret that is found anywhere."""
SHORTEST_WORD = 4
"""Characters of a secret that is found as a separate word; a shorter one must be the whole text."""
PART = 20
"""Characters of a secret's start or end that are found even if the rest was cut off."""
_SHORT = 100
REACH = 4_096

_SINGLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_INVISIBLE = re.compile(rf"[{_SINGLE}]")
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?"
_STRINGS = r"\x1b[\]PX^_][^\x1b\x07\x9c]*(?:\x07|\x1b\\|\x9c)?"
# Newlines are included, because programs break long lines.
_SINGLE_NOISE = re.compile(rf"[{_SINGLE}\n]+")
_NOISE = re.compile(rf"{_ESCAPES}|[{_SINGLE}\n]+")
_NOISE_WITH_STRINGS = re.compile(rf"{_STRINGS}|{_ESCAPES}|[{_SINGLE}\n]+")
_SINGLE_IN_LINE = re.compile(rf"[{_SINGLE}]+")
_NOISE_IN_LINE = re.compile(rf"{_ESCAPES}|[{_SINGLE}]+")
_NEWLINES = re.compile("\n+")
_BEGINS_STRING = re.compile(r"\x1b[\]PX^_]")


class SecretSpan(NamedTuple):
    start: int
    end: int


class SecretMatcher:
    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = tuple(secrets)
        long = [secret for secret in secrets if len(secret) >= LONG]
        middle = [secret for secret in secrets if SHORTEST_WORD <= len(secret) < LONG]
        short = [secret for secret in secrets if len(secret) < SHORTEST_WORD]
        self._whole = {form for secret in short for form in _quoted(secret)}
        self._words = _strip_noise(form for secret in middle for form in _escaped(secret))
        written = _strip_noise(form for secret in long for form in _escaped(secret))
        encoded = {form for secret in long for form in _encoded(secret)}
        self._beginnings = (*written, *self._words)
        """Forms that may start in one piece of a stream and end in another."""
        self._long: dict[str, set[str]] = {}
        """Forms by their starts and ends, because a text may be cut within a secret."""
        for form in (*encoded, *written):
            self._long.setdefault(form[:PART], set()).add(form)
        for form in written:
            self._long.setdefault(form[-PART:], set()).add(form)
        self.longest = max(map(len, (*self._words, *encoded, *written)), default=SHORTEST_WORD)

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return the positions of the secrets, in order and without overlaps. words: also of those
        found only as words or as the whole text."""
        if not self.secrets or not text:
            return []
        if words and self._whole and len(text) < _SHORT and text.strip() in self._whole:
            return [SecretSpan(0, len(text))]
        found: list[SecretSpan] = []
        for noise in _noises(text):
            reduced = _ReducedText(noise, text)
            for needle, forms in self._long.items():
                found += map(reduced.span, _positions(reduced.bare, needle, forms))
        if words and self._words:
            for noise in (_SINGLE_IN_LINE, _NOISE_IN_LINE)[: 1 + ("\x1b" in text)]:
                reduced = _ReducedText(noise, text)
                for word in self._words:
                    for span in _positions(reduced.bare, word, (word,)):
                        if _is_whole_word(reduced.bare, span, word):
                            found.append(reduced.span(span))
        return _merged(found)

    def find_partial(self, text: str) -> tuple[int, int]:
        """Find the longest start of a secret at the end of a text: its position, and how many of
        its characters may be displayed before more is known."""
        start, shown = len(text), 0
        near = max(0, len(text) - REACH)
        removed = _ReducedText(_NOISE_IN_LINE, text[near:])
        for form in self._beginnings:
            first = max(0, len(removed.bare) - len(form) + 1)
            while (first := removed.bare.find(form[0], first)) >= 0:
                if form.startswith(removed.bare[first:]):
                    if (found := near + removed.start(first)) < start:
                        start, shown = found, min(3, len(form) // 4)
                    break
                first += 1
        return start, shown


class _ReducedText:
    """A text without the matches of a pattern, and where its characters were."""

    def __init__(self, noise: re.Pattern[str], text: str) -> None:
        self.text = text
        self.bare = text.replace("\n", "") if noise is _NEWLINES else noise.sub("", text)
        self._noise = noise

    def span(self, found: SecretSpan) -> SecretSpan:
        return SecretSpan(self.start(found.start), self.start(found.end - 1) + 1)

    def start(self, offset: int) -> int:
        at, removed = self._removals
        return offset + removed[bisect_right(at, offset)]

    @cached_property
    def _removals(self) -> tuple[list[int], list[int]]:
        """The positions in `bare` where something was removed, and how many characters before
        each."""
        at, removed = [], [0]
        for found in self._noise.finditer(self.text):
            at.append(found.start() - removed[-1])
            removed.append(removed[-1] + len(found[0]))
        return at, removed


def _strip_noise(forms: Iterable[str]) -> set[str]:
    bare = {_SINGLE_NOISE.sub("", form) for form in forms}
    return {form for form in bare if len(form) >= SHORTEST_WORD}


def _noises(text: str) -> Iterator[re.Pattern[str]]:
    """Yield patterns for noise between the letters of a secret, or around a hidden one."""
    yield _NEWLINES
    if _INVISIBLE.search(text):
        yield _SINGLE_NOISE
    if "\x1b" in text:
        yield _NOISE
        if _BEGINS_STRING.search(text):
            yield _NOISE_WITH_STRINGS


def _positions(text: str, needle: str, forms: Collection[str]) -> Iterator[SecretSpan]:
    """Yield the positions of forms that start or end with a needle, as far as they are there."""
    found = text.find(needle)
    while found >= 0:
        start, end = found, found + len(needle)
        for form in forms:
            if form.startswith(needle):
                end = max(end, found + _common(text[found : found + len(form)], form))
            if form.endswith(needle):
                last = found + len(needle)
                before = text[max(0, last - len(form)) : last]
                start = min(start, last - _common(before[::-1], form[::-1]))
        yield SecretSpan(start, end)
        found = text.find(needle, end)


def _common(one: str, other: str) -> int:
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _is_whole_word(text: str, span: SecretSpan, form: str) -> bool:
    before, after = text[max(0, span.start - 1) : span.start], text[span.end : span.end + 1]
    pairs = (before, form[0]), (after, form[-1])
    return not any(_is_word(outside) and _is_word(inside) for outside, inside in pairs)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"  # False for ""


def _merged(spans: list[SecretSpan]) -> list[SecretSpan]:
    result: list[SecretSpan] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            result[-1] = SecretSpan(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def _quoted(secret: str) -> list[str]:
    data = secret.encode("utf-8", "surrogatepass")
    return [secret, repr(secret), repr(data), json.dumps(secret), f'"{secret}"', f"'{secret}'"]


def _escaped(secret: str) -> Iterator[str]:
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield data.decode("latin-1")  # bytes decoded as characters
    literals = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    # Python chooses the quotes by the whole text: if it contains both kinds, Python escapes the
    # single ones.
    for literal in (
        repr(f"'\"{secret}")[4:-1],
        ascii(f"'\"{secret}")[4:-1],
        repr(b"'\"" + data)[5:-1],
    ):
        literals += (literal, literal.replace("\\'", "'"))
    yield from literals
    for literal in literals:  # a literal within a literal
        escaped = literal.replace("\\", "\\\\")
        yield from (escaped, escaped.replace("'", "\\'"))
        yield json.dumps(literal, ensure_ascii=False)[1:-1]
    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quoted = markup.replace('"', "&quot;")
    yield from (markup, quoted, quoted.replace("'", "&#x27;"))
    yield from (quote(data, safe=""), quote(data), quote_plus(data))


def _encoded(secret: str) -> Iterator[str]:
    """Yield a long secret as base64, for each alignment, and as hexadecimal digits."""
    data = secret.encode("utf-8", "surrogatepass")
    yield data.hex()
    for before in range(3):
        # The first characters depend on what precedes the secret, the last ones on what follows it.
        whole = b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        if len(inner) >= LONG:
            yield from (inner, inner.translate(str.maketrans("+/", "-_")))


MASK = "••••••••"


def mask_spans(text: str, spans: Sequence[SecretSpan]) -> str:
    """Replace some spans by `MASK`. Line ends within them stay."""
    return mask_slice(text, spans, 0, len(text))


def mask_slice(text: str, spans: Sequence[SecretSpan], start: int, end: int) -> str:
    pieces: list[str] = []
    for span in spans:
        if start < end and start < span.end and span.start < end:
            lines = text.count("\n", span.start, span.end)
            pieces += (text[start : span.start], MASK, "\n" * lines)
            start = span.end
    return "".join([*pieces, text[start:end]])


_SHORT_TEXT = 8
_LONG = 16
"""Characters of the pieces by which a long text is found: 31 of it contain a complete piece."""
_WHOLE = 2 * _LONG
"""Shorter texts are only found as a whole."""


class PrivateTexts:
    """Finds private texts in linear time. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._whole: dict[str, dict[int, set[str]]] = {}
        """Lines that are only found as a whole, by first characters and length."""
        self._pieces: dict[str, list[tuple[str, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def replace(self, texts: Iterable[str]) -> None:
        with self._lock:
            self._known, self._whole, self._pieces = set(), {}, {}
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Search for the lines of texts, also as written in code and JSON."""
        for text in texts:
            for line in text.splitlines():
                line = line.strip()
                for form in {line, repr(line)[1:-1], json.dumps(line)[1:-1]}:
                    if len(form) >= _SHORT_TEXT:
                        self._add(form)

    def _add(self, line: str) -> None:
        with self._lock:
            if line in self._known:
                return
            self._known.add(line)
            if len(line) < _WHOLE:
                lengths = self._whole.setdefault(line[:_SHORT_TEXT], {})
                lengths.setdefault(len(line), set()).add(line)
                return
            for start in range(0, len(line) - _LONG + 1, _LONG):
                owners = self._pieces.setdefault(line[start : start + _LONG], [])
                if len(owners) < 8:  # a line of dashes contains the same piece many times
                    owners.append((line, start))

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        if not self._known:
            return []
        found: list[SecretSpan] = []
        start = 0
        while start <= len(text) - _SHORT_TEXT:
            span = self._longest_match_at(text, start)
            if span is None:
                start += 1
                continue
            while found and span.start <= found[-1].end:
                span = SecretSpan(min(span.start, found.pop().start), span.end)
            found.append(span)
            start = span.end
        return found

    def _longest_match_at(self, text: str, start: int) -> SecretSpan | None:
        lengths = self._whole.get(text[start : start + _SHORT_TEXT], {})
        ends = [
            start + length
            for length, lines in lengths.items()
            if text[start : start + length] in lines
        ]
        starts = [start]
        for line, offset in self._pieces.get(text[start : start + _LONG], ()):
            before = 0
            while (
                before < min(offset, start)
                and line[offset - before - 1] == text[start - before - 1]
            ):
                before += 1
            after = _LONG
            while (
                line[offset + after : offset + after + 1]
                == text[start + after : start + after + 1]
                != ""
            ):
                after += 1
            starts.append(start - before)
            ends.append(start + after)
        return SecretSpan(min(starts), max(ends)) if ends else None


def _mask_field(value: Any, hint: Any, forms: SecretMatcher) -> Any:
    args = typing.get_args(hint)
    if type(None) in args or NULL in args:
        return None if value is None else _mask_field(value, args[0], forms)
    if isinstance(value, str):
        if WORD in args:
            return value
        return mask_spans(value, forms.spans(value, words=NAME not in args))
    if hasattr(value, "_fields"):
        types = hints(type(value)).values()  # in the order of the fields
        return type(value)(*map(_mask_field, value, types, repeat(forms)))
    if isinstance(value, tuple):
        kinds = args[:1] * len(value) if args[1:] == (...,) else args
        pairs = zip(value, kinds, strict=True)
        return tuple(_mask_field(each, kind, forms) for each, kind in pairs)
    return value


_STREAMS = 64

_STRUCTURE = frozenset(
    "op party call kind kinds status picture mime state request id mode change model source approval entry level tree node event parent "
    "batch pictures".split()
)
"""Keys whose values are the program's own words, which are not masked."""
_NAMES = frozenset({"name", "type", "was_type"})
"""Keys whose values are identifiers, which may equal a short secret."""
_FOREIGN = "arguments"
"""The key of a mapping whose keys are masked, too."""


class Secrets:
    def __init__(self, configured: Callable[[], Iterable[str]] = tuple) -> None:
        """configured: returns the configured keys; a former key stays a secret."""
        self.private = PrivateTexts()
        """Texts of private variables, hidden from models and agents, but not from the user."""
        self._configured = configured
        self._known: dict[str, None] = {}
        self._forms = SecretMatcher(())

    def add(self, typed: str) -> None:
        for secret in (typed, typed.strip()):
            if secret:
                self._known[secret] = None

    def mask(self, text: str) -> str:
        return mask_spans(text, self.spans(text))

    def redact_for_model(self, text: str) -> str:
        """Remove secrets and texts of private variables."""
        text = self.mask(text)
        return mask_spans(text, self.private.spans(text))

    @property
    def may_redact(self) -> bool:
        return bool(self.forms.secrets or self.private)

    def spans(self, text: str) -> list[SecretSpan]:
        return self.forms.spans(text)

    def mask_value(self, value: Any) -> Any:
        """Mask the texts of a JSON value. Keys of dicts and identifiers stay."""
        return _masked(value, self.forms)

    def redact_value(self, value: Any) -> Any:
        value = self.mask_value(value)
        return _masked(value, self.private) if self.private else value

    def mask_record(self, record: Record) -> Record:
        forms, is_picture = self.forms, str(getattr(record, "mime", "")).startswith("image/")
        masked = {
            name: _mask_field(getattr(record, name), hint, forms)
            for name, hint in hints(type(record)).items()
            if not (is_picture and PICTURE in str(hint))
        }
        return record.changed(**masked)

    def mask_page(self, fetch: Callable[[int, int], str], start: int, end: int) -> str:
        """Return a part of a long text, with a dot for each character of a secret, even if the
        secret extends beyond the part. fetch: returns the text between two positions."""
        forms = self.forms
        if not forms.secrets:
            return fetch(start, end)
        before = min(start, forms.longest)
        text = fetch(start - before, end + forms.longest)
        return replace_with_dots(text, forms.spans(text))[before : before + end - start]

    @property
    def forms(self) -> SecretMatcher:
        for key in self._configured():
            if len(key) >= LONG:  # a shorter key looks like a word, such as "none"
                self._known[key] = None
        known = tuple(self._known)
        if known != self._forms.secrets:
            self._forms = SecretMatcher(known)
        return self._forms


class MaskedStream:
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tail = ""
        self._shown = 0

    def feed(self, text: str) -> str:
        text, shown = self._tail + text, self._shown
        forms = self._secrets.forms
        spans = forms.spans(text)
        begun, tolerated = forms.find_partial(text)
        if spans and begun > spans[-1].start:  # a complete secret may end like its own start
            begun = max(begun, spans[-1].end)
        end = len(text) if len(text) - begun <= tolerated else max(begun, shown)
        self._tail, self._shown = text[begun:], end - begun
        return mask_slice(text, spans, shown, end)

    def finish(self) -> str:
        text, shown, self._tail, self._shown = self._tail, self._shown, "", 0
        return mask_slice(text, self._secrets.spans(text), shown, len(text))


class MaskingFilter(logging.Filter):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._streams: OrderedDict[tuple[object, ...], MaskedStream] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._secrets.forms.secrets:
            return True
        before = get_record(record)
        after = self.mask_record(before)
        record.msg, record.args = after.text, None
        record.__dict__["record"] = after
        return bool(after.text) or not (before.text and isinstance(before, Stream))

    def mask_record(self, record: Record) -> Record:
        """Mask a record. Only the complete record has the text that a stream held back at its
        end."""
        if record.text and isinstance(record, Stream):
            return record.changed(text=self._stream(record.stream).feed(record.text))
        return self._secrets.mask_record(record)

    def _stream(self, name: tuple[object, ...]) -> MaskedStream:
        stream = self._streams.setdefault(name, MaskedStream(self._secrets))
        self._streams.move_to_end(name)
        if len(self._streams) > _STREAMS:
            self._streams.popitem(last=False)
        return stream


def masked(text: str, secret: str) -> str:
    return mask_spans(text, SecretMatcher([secret]).spans(text)) if len(secret) >= LONG else text


def replace_with_dots(text: str, spans: Sequence[SecretSpan]) -> str:
    """Replace each character of some spans by a dot, so that no position changes."""
    pieces: list[str] = []
    done = 0
    for span in spans:
        pieces += (text[done : span.start], re.sub(".", MASK[0], text[span.start : span.end]))
        done = span.end
    return "".join([*pieces, text[done:]])


def _masked(
    value: Any, forms: SecretMatcher | PrivateTexts, name: str = "", *, keys: bool = False
) -> Any:
    if isinstance(value, str):
        if name in _STRUCTURE:
            return value
        return mask_spans(value, forms.spans(value, words=name not in _NAMES))
    if isinstance(value, dict):
        picture = str(value.get("mime", "")).startswith("image/")
        masked: dict[str, Any] = {}
        for key, each in value.items():
            if not (picture and key == "data"):
                inner = "" if keys else key
                each = _masked(each, forms, inner, keys=keys or key == _FOREIGN)
            masked[mask_spans(key, forms.spans(key)) if keys else key] = each
        return masked
    if isinstance(value, (list, tuple)):
        return [_masked(each, forms, name, keys=keys) for each in value]
    return value
