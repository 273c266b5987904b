"""Keys of the configuration that come up in what happens: nobody is shown or told them, and nothing keeps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

MASK = "••••••••"
_SHORTEST = 8
"""Characters below which a text is no key that could be told from a word."""


class Masking(logging.Filter):
    """On a session's logger: what it hands on, to any handler, is without the keys."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        """secrets: asked for each record; they may change. One that begins as another does comes after it."""
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        for secret in self._secrets():
            record.msg = masked(record.msg, secret)
            if attrs := getattr(record, "attrs", None):
                record.attrs = masked(attrs, secret)
        return True


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
