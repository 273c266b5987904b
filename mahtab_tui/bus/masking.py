"""Secrets in what happens: `MASK` stands for them in everything that is shown, stored or told.

A secret is a key of the configuration, or what a person has typed without its being shown (`getpass`). How it is found: `secret_forms`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mahtab_tui.bus.covering import MASK, between, covered
from mahtab_tui.bus.masked_fields import masked_fields
from mahtab_tui.bus.records import Record, Stream, record_of
from mahtab_tui.bus.secret_forms import LONG, Forms, Span

_STREAMS = 64
"""Streams at a time whose end is remembered."""

_STRUCTURE = frozenset(
    "op party call kind kinds status picture mime state request id mode change model source approval entry level tree node event parent "
    "replaces how batch pictures".split()
)
"""Values that say what an answer to an agent is: the program's own words. A secret may be such a word, too. Of records, their fields say it."""
_NAMES = frozenset({"name", "type", "was_type"})
"""Values by which things are found again: a short secret may be such a name."""
_FOREIGN = "arguments"
"""The value whose keys are not the program's."""


class Secrets:
    """What nobody is shown or told in one session. Any thread may call it."""

    def __init__(self, configured: Callable[[], Iterable[str]] = tuple) -> None:
        """configured: the keys of the configuration; asked each time, since they may change. One that was a key stays a secret."""
        self._configured = configured
        self._known: dict[str, None] = {}
        self._forms = Forms(())

    def add(self, typed: str) -> None:
        """What was typed hidden is a secret from now on."""
        for secret in (typed, typed.strip()):
            if secret:
                self._known[secret] = None

    def mask(self, text: str) -> str:
        """The text with `MASK` in the place of each secret. Line ends within one stay."""
        return covered(text, self.spans(text))

    def spans(self, text: str) -> list[Span]:
        """Where the secrets stand in a text."""
        return self.forms.spans(text)

    def masked(self, value: Any) -> Any:
        """A JSON value without the secrets that are in its texts. The keys of its dicts, and what the program finds things by, stay."""
        return _masked(value, self.forms)

    def record(self, record: Record) -> Record:
        """A record without the secrets; its fields are declared with how each is masked."""
        forms = self.forms
        return record.changed(text=covered(record.text, forms.spans(record.text)), **masked_fields(record, forms))

    def page(self, fetch: Callable[[int, int], str], start: int, end: int) -> str:
        """A part of a long text, with a dot for each character of a secret, also of one that goes beyond the part.

        fetch: gives the text from one place up to another.
        """
        forms = self.forms
        if not forms.secrets:
            return fetch(start, end)
        before = min(start, forms.longest)
        text = fetch(start - before, end + forms.longest)
        return dotted(text, forms.spans(text))[before : before + end - start]

    @property
    def forms(self) -> Forms:
        """All that is known by now."""
        for key in self._configured():
            if len(key) >= LONG:  # a shorter one cannot be told from a word: "none"
                self._known[key] = None
        known = tuple(self._known)
        if known != self._forms.secrets:
            self._forms = Forms(known)
        return self._forms


class MaskedStream:
    """One text that comes in pieces, without the secrets, also where a piece ends within one."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tail = ""
        """The end of what came, where that may be the beginning of a secret."""
        self._shown = 0
        """Characters of it that were handed on already: too few to tell anything."""

    def piece(self, text: str) -> str:
        """What can be handed on now."""
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
        """What was held back, where nothing comes any more."""
        text, shown, self._tail, self._shown = self._tail, self._shown, "", 0
        return between(text, self._secrets.spans(text), shown, len(text))


class MaskingFilter(logging.Filter):
    """On a session's logger: what it hands on, to any handler, is without the secrets."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._streams: OrderedDict[tuple[object, ...], MaskedStream] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._secrets.forms.secrets:
            return True
        said = record_of(record)
        told = self.record(said)
        record.msg, record.args = told.text, None
        record.__dict__["record"] = told
        return bool(told.text) or not (said.text and isinstance(said, Stream))

    def record(self, record: Record) -> Record:
        """A record without the secrets. What is held back when a stream ends comes with its whole record."""
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
    """A text without one key."""
    return covered(text, Forms([secret]).spans(text)) if len(secret) >= LONG else text


def dotted(text: str, spans: Sequence[Span]) -> str:
    """A text with a dot over each character of some spans: no character changes its place."""
    pieces: list[str] = []
    done = 0
    for span in spans:
        pieces += (text[done : span.start], "".join("\n" if c == "\n" else MASK[0] for c in text[span.start : span.end]))
        done = span.end
    return "".join([*pieces, text[done:]])


def _masked(value: Any, forms: Forms, name: str = "", *, keys: bool = False) -> Any:
    if isinstance(value, str):
        return value if name in _STRUCTURE else covered(value, forms.spans(value, words=name not in _NAMES))
    if isinstance(value, dict):
        picture = str(value.get("mime", "")).startswith("image/")
        return {
            covered(key, forms.spans(key)) if keys else key: each
            if picture and key == "data"
            else _masked(each, forms, "" if keys else key, keys=keys or key == _FOREIGN)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_masked(each, forms, name, keys=keys) for each in value]
    return value
