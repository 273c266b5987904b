"""Masks secrets in everything that is displayed, stored or sent to models and agents. A secret is a
configured key, or a line that the user typed hidden (`getpass`)."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from mahtab_tui.bus.marks import NAME, NULL, PICTURE, WORD
from mahtab_tui.bus.private_texts import PrivateTexts
from mahtab_tui.bus.records import Record, hints
from mahtab_tui.bus.secret_forms import MIN_SUBSTRING_CHARS
from mahtab_tui.bus.secret_matching import SecretMatcher, SecretSpan

MASK = "••••••••"
"""What stands in place of a secret."""
UNMASKED_KEYS = frozenset(
    "op party call kind kinds status picture mime state request id mode change model source approval"
    " entry level tree node event parent batch pictures".split()
)
"""Keys whose values are the program's own words, which are not masked."""
IDENTIFIER_KEYS = frozenset({"name", "type", "was_type"})
"""Keys whose values are identifiers, which may equal a short secret."""
FOREIGN_MAPPING_KEY = "arguments"
"""The key of a mapping whose keys are masked like its values."""


def mask_spans(text: str, spans: Sequence[SecretSpan]) -> str:
    """Replace some spans by `MASK`. Line ends within them stay."""
    return mask_slice(text, spans, 0, len(text))


def mask_slice(text: str, spans: Sequence[SecretSpan], start: int, end: int) -> str:
    """Return a part of a text in which spans are replaced by `MASK`.

    Args:
        text: The whole text.
        spans: Positions in the text, in order and without overlaps.
        start: Where the part begins.
        end: Where it ends.
    """
    pieces: list[str] = []
    position = start
    for span in spans:
        overlaps_rest = position < end and position < span.end and span.start < end
        if overlaps_rest:
            # Line ends stay, so that whoever counts lines finds the same ones.
            newline_count = text.count("\n", span.start, span.end)
            pieces += (text[position : span.start], MASK, "\n" * newline_count)
            position = span.end
    pieces.append(text[position:end])
    return "".join(pieces)


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
        self._matcher = SecretMatcher(())

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
        return bool(self.matcher.secrets or self.private)

    def spans(self, text: str) -> list[SecretSpan]:
        """Return the positions of the secrets in a text, in order and without overlaps."""
        return self.matcher.spans(text)

    def mask_value(self, value: Any) -> Any:
        """Mask the texts of a JSON value. Keys of dicts and identifiers stay."""
        matcher = self.matcher
        if not matcher.secrets:
            return value
        return _mask_json(value, matcher)

    def redact_value(self, value: Any) -> Any:
        """Mask the texts of a JSON value, and remove texts of private variables."""
        value = self.mask_value(value)
        if self.private:
            return _mask_json(value, self.private)
        return value

    def mask_record(self, record: Record) -> Record:
        """Mask the fields of a record, except its pictures."""
        matcher = self.matcher
        is_picture = str(getattr(record, "mime", "")).startswith("image/")
        masked_fields: dict[str, Any] = {}
        for name, hint in hints(type(record)).items():
            if is_picture and PICTURE in str(hint):
                continue
            masked_fields[name] = _mask_field(getattr(record, name), hint, matcher)
        return record.changed(**masked_fields)

    def mask_page(self, fetch: Callable[[int, int], str], start: int, end: int) -> str:
        """Return a part of a long text, with a dot for each character of a secret, even if the
        secret extends beyond the part.

        Args:
            fetch: Returns the text between two positions.
            start: Where the part begins, in characters.
            end: Where it ends.
        """
        matcher = self.matcher
        if not matcher.secrets:
            return fetch(start, end)
        # A secret that extends beyond the part is only recognised as a whole.
        preceding_chars = min(start, matcher.max_form_chars)
        text = fetch(start - preceding_chars, end + matcher.max_form_chars)
        dotted = replace_with_dots(text, matcher.spans(text))
        return dotted[preceding_chars : preceding_chars + end - start]

    @property
    def matcher(self) -> SecretMatcher:
        """The matcher of all secrets that are known now."""
        for key in self._configured():
            if len(key) >= MIN_SUBSTRING_CHARS:  # a shorter key looks like a word, such as "none"
                self._secrets[key] = None
        secrets = tuple(self._secrets)
        if secrets != self._matcher.secrets:
            self._matcher = SecretMatcher(secrets)
        return self._matcher


def mask_secret(text: str, secret: str) -> str:
    """Mask one secret in a text, if it is long enough to be found anywhere."""
    if len(secret) < MIN_SUBSTRING_CHARS:
        return text
    return mask_spans(text, SecretMatcher([secret]).spans(text))


def _mask_field(value: Any, hint: Any, matcher: SecretMatcher) -> Any:
    """Mask the texts of a record's field, as its type annotation says.

    Args:
        value: The value of the field.
        hint: Its annotation, with the marks of `bus.marks`.
        matcher: Finds the secrets.
    """
    hint_args = typing.get_args(hint)
    if type(None) in hint_args or NULL in hint_args:
        if value is None:
            return None
        return _mask_field(value, hint_args[0], matcher)
    if isinstance(value, str):
        if WORD in hint_args:
            return value
        return mask_spans(value, matcher.spans(value, words=NAME not in hint_args))
    if hasattr(value, "_fields") or is_dataclass(value):
        masked_fields = [
            _mask_field(getattr(value, name), field_hint, matcher)
            for name, field_hint in hints(type(value)).items()
        ]
        return type(value)(*masked_fields)
    if isinstance(value, tuple):
        item_hints = hint_args
        if hint_args[1:] == (...,):  # `tuple[str, ...]`
            item_hints = hint_args[:1] * len(value)
        return tuple(
            _mask_field(item, item_hint, matcher)
            for item, item_hint in zip(value, item_hints, strict=True)
        )
    return value


def _mask_json(value: Any, matcher: SecretMatcher | PrivateTexts, key: str = "") -> Any:
    """Mask the texts of a JSON value.

    Args:
        value: The value.
        matcher: Finds what is masked.
        key: The key of the dict that holds the value; empty if no dict does.
    """
    if isinstance(value, str):
        if key in UNMASKED_KEYS:
            return value
        return mask_spans(value, matcher.spans(value, words=key not in IDENTIFIER_KEYS))
    if isinstance(value, (list, tuple)):
        return [_mask_json(item, matcher, key) for item in value]
    if not isinstance(value, dict):
        return value

    masked: dict[str, Any] = {}
    for item_key, item in value.items():
        if _is_picture_data(item_key, value):
            masked[item_key] = item
        elif item_key == FOREIGN_MAPPING_KEY:
            masked[item_key] = _mask_foreign_json(item, matcher)
        else:
            masked[item_key] = _mask_json(item, matcher, item_key)
    return masked


def _mask_foreign_json(value: Any, matcher: SecretMatcher | PrivateTexts) -> Any:
    """Mask the texts of a JSON value, and the keys of its dicts, which are not the program's own."""
    if isinstance(value, str):
        return mask_spans(value, matcher.spans(value))
    if isinstance(value, (list, tuple)):
        return [_mask_foreign_json(item, matcher) for item in value]
    if not isinstance(value, dict):
        return value

    masked: dict[str, Any] = {}
    for key, item in value.items():
        masked_item = item
        if not _is_picture_data(key, value):
            masked_item = _mask_foreign_json(item, matcher)
        masked[mask_spans(key, matcher.spans(key))] = masked_item
    return masked


def _is_picture_data(key: str, fields: Mapping[str, Any]) -> bool:
    """Return whether a key of a dict is that of the data of a picture, which are base64."""
    return key == "data" and str(fields.get("mime", "")).startswith("image/")
