"""Masks secrets in everything that is displayed, stored or sent to models and agents.

A secret is a key from the configuration, or a line that the user has typed hidden (`getpass`).
`secret_forms` finds them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mahtab_tui.bus.mask_spans import MASK, between, mask_spans
from mahtab_tui.bus.masked_fields import masked_fields
from mahtab_tui.bus.private_texts import PrivateTexts
from mahtab_tui.bus.records import Record, Stream, record_of
from mahtab_tui.bus.secret_forms import LONG, SecretMatcher, SecretSpan

_STREAMS = 64
"""Number of streams whose ends are remembered at a time."""

_STRUCTURE = frozenset(
    "op party call kind kinds status picture mime state request id mode change model source approval entry level tree node event parent "
    "replaces how batch pictures".split()
)
"""Keys of answers to agents whose values are the program's own words, and are not masked even if a
secret reads the same."""
_NAMES = frozenset({"name", "type", "was_type"})
"""Keys whose values identify things: a short secret may read the same."""
_FOREIGN = "arguments"
"""The key of a mapping whose own keys are masked, because the program did not choose them."""


class Secrets:
    """The secrets of one session. Any thread may call it."""

    def __init__(self, configured: Callable[[], Iterable[str]] = tuple) -> None:
        """configured: returns the keys of the configuration. It is called each time, since they may
        change; a former key stays a secret."""
        self.private = PrivateTexts()
        """Texts of private variables, which models and agents do not get, but the user does."""
        self._configured = configured
        self._known: dict[str, None] = {}
        self._forms = SecretMatcher(())

    def add(self, typed: str) -> None:
        """Add a line that the user typed hidden."""
        for secret in (typed, typed.strip()):
            if secret:
                self._known[secret] = None

    def mask(self, text: str) -> str:
        """Return the text with `MASK` in place of each secret. Line ends within a secret stay."""
        return mask_spans(text, self.spans(text))

    def told(self, text: str) -> str:
        """Return the text as models and agents get it: without secrets, and without texts of
        private variables."""
        text = self.mask(text)
        return mask_spans(text, self.private.spans(text))

    @property
    def hides_something(self) -> bool:
        """Whether `told` may change a text."""
        return bool(self.forms.secrets or self.private)

    def spans(self, text: str) -> list[SecretSpan]:
        """Return where the secrets stand in a text."""
        return self.forms.spans(text)

    def masked(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its texts masked. Keys of dicts and identifying
        values stay."""
        return _masked(value, self.forms)

    def told_value(self, value: Any) -> Any:
        """Return a JSON value as models and agents get it."""
        value = self.masked(value)
        return _masked(value, self.private) if self.private else value

    def record(self, record: Record) -> Record:
        """Return a record with the secrets masked."""
        forms = self.forms
        return record.changed(
            text=mask_spans(record.text, forms.spans(record.text)), **masked_fields(record, forms)
        )

    def page(self, fetch: Callable[[int, int], str], start: int, end: int) -> str:
        """Return a part of a long text, with a dot for each character of a secret, even if the
        secret reaches beyond the part.

        fetch: returns the text between two positions.
        """
        forms = self.forms
        if not forms.secrets:
            return fetch(start, end)
        before = min(start, forms.longest)
        text = fetch(start - before, end + forms.longest)
        return dotted(text, forms.spans(text))[before : before + end - start]

    @property
    def forms(self) -> SecretMatcher:
        """The forms of all secrets known so far."""
        for key in self._configured():
            if len(key) >= LONG:  # a shorter one cannot be told from a word: "none"
                self._known[key] = None
        known = tuple(self._known)
        if known != self._forms.secrets:
            self._forms = SecretMatcher(known)
        return self._forms


class MaskedStream:
    """Masks secrets in a text that comes in pieces, even if a piece ends within a secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tail = ""
        """The end of the text so far, if it could be the start of a secret."""
        self._shown = 0
        """Characters of the tail that were already returned: too few to reveal anything."""

    def piece(self, text: str) -> str:
        """Add a piece; return what can be displayed now."""
        text, shown = self._tail + text, self._shown
        forms = self._secrets.forms
        spans = forms.spans(text)
        begun, tolerated = forms.begun(text)
        if spans and begun > spans[-1].start:  # a whole secret may end as it begins
            begun = max(begun, spans[-1].end)
        end = len(text) if len(text) - begun <= tolerated else max(begun, shown)
        self._tail, self._shown = text[begun:], end - begun
        return between(text, spans, shown, end)

    def rest(self) -> str:
        """Return what was held back: the text has ended."""
        text, shown, self._tail, self._shown = self._tail, self._shown, "", 0
        return between(text, self._secrets.spans(text), shown, len(text))


class MaskingFilter(logging.Filter):
    """Masks secrets in every record of a session's logger."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._streams: OrderedDict[tuple[object, ...], MaskedStream] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._secrets.forms.secrets:
            return True
        before = record_of(record)
        after = self.record(before)
        record.msg, record.args = after.text, None
        record.__dict__["record"] = after
        return bool(after.text) or not (before.text and isinstance(before, Stream))

    def record(self, record: Record) -> Record:
        """Return a record with the secrets masked. If a stream ends with text held back, its whole
        record has it."""
        if record.text and isinstance(record, Stream):
            return record.changed(text=self._stream(record.stream).piece(record.text))
        return self._secrets.record(record)

    def _stream(self, name: tuple[object, ...]) -> MaskedStream:
        stream = self._streams.setdefault(name, MaskedStream(self._secrets))
        self._streams.move_to_end(name)
        if len(self._streams) > _STREAMS:
            self._streams.popitem(last=False)
        return stream


def masked(text: str, secret: str) -> str:
    """Return a text with one key masked."""
    return mask_spans(text, SecretMatcher([secret]).spans(text)) if len(secret) >= LONG else text


def dotted(text: str, spans: Sequence[SecretSpan]) -> str:
    """Return a text with a dot in place of each character of some spans: no character changes its
    position."""
    pieces: list[str] = []
    done = 0
    for span in spans:
        pieces += (
            text[done : span.start],
            "".join("\n" if c == "\n" else MASK[0] for c in text[span.start : span.end]),
        )
        done = span.end
    return "".join([*pieces, text[done:]])


def _masked(
    value: Any, forms: SecretMatcher | PrivateTexts, name: str = "", *, keys: bool = False
) -> Any:
    if isinstance(value, str):
        return (
            value
            if name in _STRUCTURE
            else mask_spans(value, forms.spans(value, words=name not in _NAMES))
        )
    if isinstance(value, dict):
        picture = str(value.get("mime", "")).startswith("image/")
        return {
            mask_spans(key, forms.spans(key)) if keys else key: each
            if picture and key == "data"
            else _masked(each, forms, "" if keys else key, keys=keys or key == _FOREIGN)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_masked(each, forms, name, keys=keys) for each in value]
    return value
