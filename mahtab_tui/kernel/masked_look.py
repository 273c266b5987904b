"""What a screen sees inside objects, without the secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mahtab_tui.bus.covering import MASK
from mahtab_tui.bus.masking import Secrets

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""`Kernel.look`."""

_WORDS = {
    "open": ("summary", "shown", "problem"),
    "children": ("rows",),
    "evaluate": ("label", "summary"),
    "columns": ("columns",),
    "table": ("labels", "cells"),
    "figures": ("min", "max"),
    "source": ("signature", "doc", "where", "source"),
    "repr": ("text",),
}
"""What in the answer to a question is text; the rest leads to objects, or is numbers."""
_WAYS = ("step", "path", "expression", "known", "kind", "state", "views")
"""Inside of those, what leads to objects."""


def masked_look(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Ask, and answer without the secrets."""
    question = asked["do"]
    if question == "text":
        return _text(ask, asked, secrets)
    if question == "bytes":
        return _bytes(ask, asked, secrets)
    told = ask(asked)
    if not secrets.forms.secrets:
        return told
    return {**told, **{name: _masked(told[name], secrets) for name in _WORDS.get(question, ())}}


def _masked(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.mask(value)
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    if isinstance(value, dict):
        return {name: each if name in _WAYS else _masked(each, secrets) for name, each in value.items()}
    return value


def _text(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A part of a text, and how many line ends stand before it."""
    told: dict[str, Any] = {}

    def fetch(start: int, end: int) -> str:
        told.update(ask({**asked, "start": start, "end": end}))
        told["line"] += told["text"].count("\n", 0, asked["start"] - start)
        return str(told["text"])

    text = secrets.page(fetch, asked["start"], asked["end"])
    return {**told, "text": text}


def _bytes(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """A part of bytes, each of which is taken for a character; asterisks stand for those of a secret."""

    def fetch(start: int, end: int) -> str:
        return bytes.fromhex(ask({**asked, "start": start, "end": end})["hex"]).decode("latin-1")

    return {"hex": secrets.page(fetch, asked["start"], asked["end"]).replace(MASK[0], "*").encode("latin-1").hex()}
