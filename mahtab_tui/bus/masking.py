"""Keys of the configuration that come up in what happens: nobody is shown or told them, and nothing keeps them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from mahtab_tui.bus import tags

MASK = "••••••••"
_SHORTEST = 8
"""Characters below which a text is no key that could be told from a word."""
_BEGUN = 4
"""Characters of a key at the end of a stream's piece that are held back until it is known how they go on; fewer are shown at once."""
_STREAMS = 64
"""Streams at a time whose end is remembered."""


class _End(NamedTuple):
    """How a stream has ended so far, where that may be the beginning of a key."""

    shown: str = ""
    held: str = ""
    """What comes after it, and was not handed on yet."""


class Masking(logging.Filter):
    """On a session's logger: what it hands on, to any handler, is without the keys."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        """secrets: asked for each record; they may change. One that begins as another does comes after it."""
        super().__init__()
        self._secrets = secrets
        self._ends: OrderedDict[tuple[str, str], _End] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        secrets = [secret for secret in self._secrets() if len(secret) >= _SHORTEST]
        for secret in secrets:
            record.msg = masked(record.msg, secret)
            if attrs := getattr(record, "attrs", None):
                record.attrs = masked(attrs, secret)
        if secrets and record.msg and getattr(record, "tag", "") in tags.STREAMS:
            record.msg = self._piece(record, secrets)
            return bool(record.msg)
        return True

    def _piece(self, record: logging.LogRecord, secrets: Collection[str]) -> str:
        """What of a stream's piece is handed on. What is held back when the stream ends comes with its whole record."""
        name = (getattr(record, "tag", ""), str(sorted(getattr(record, "attrs", {}).items())))
        before = self._ends.pop(name, _End())
        text = f"{before.shown}{before.held}{record.msg}"
        for secret in secrets:
            text = masked(text, secret)
        shown = next(size for size in range(len(before.shown), -1, -1) if text.startswith(before.shown[:size]))
        begun = max((_begun(text, secret) for secret in secrets), default=0)
        end = max(shown, len(text) - begun) if begun >= _BEGUN else len(text)
        if begun:
            self._ends[name] = _End(text[len(text) - begun : end], text[end:])
            if len(self._ends) > _STREAMS:
                self._ends.popitem(last=False)
        return text[shown:end]


def _begun(text: str, secret: str) -> int:
    """How many of a key's first characters a text ends with."""
    return next((size for size in range(min(len(secret) - 1, len(text)), 0, -1) if text.endswith(secret[:size])), 0)


def masked(value: Any, secret: str) -> Any:
    """A JSON value without a key that is in it."""
    if len(secret) < _SHORTEST:
        return value
    if isinstance(value, str):
        return value.replace(secret, MASK) if secret in value else value
    if isinstance(value, dict):
        return {masked(name, secret): masked(each, secret) for name, each in value.items()}
    if isinstance(value, list):
        return [masked(each, secret) for each in value]
    return value
