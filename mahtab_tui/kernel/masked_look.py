"""Masks secrets in the answers to a screen's questions about objects."""

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
"""The fields with text in each answer; the others are numbers or identify objects."""
_WAYS = ("step", "path", "expression", "known", "kind", "state", "views")
"""Fields inside those that identify objects."""


def masked_look(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
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
    """Return a masked part of a text, with the number of line breaks before it."""
    told: dict[str, Any] = {}

    def fetch(start: int, end: int) -> str:
        told.update(ask({**asked, "start": start, "end": end}))
        told["line"] += told["text"].count("\n", 0, asked["start"] - start)
        return str(told["text"])

    text = secrets.page(fetch, asked["start"], asked["end"])
    return {**told, "text": text}


def _bytes(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Return a part of bytes, treated as characters, with asterisks for the bytes of secrets."""

    def fetch(start: int, end: int) -> str:
        return bytes.fromhex(ask({**asked, "start": start, "end": end})["hex"]).decode("latin-1")

    return {"hex": secrets.page(fetch, asked["start"], asked["end"]).replace(MASK[0], "*").encode("latin-1").hex()}
