"""Masks the fields of a record. The annotation of a field says how it is masked
(`records.base`)."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from mahtab_tui.bus.mask_spans import mask_spans
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.base import NAME, PICTURE, WORD
from mahtab_tui.bus.secret_forms import SecretMatcher

_Mask = Callable[[Any, SecretMatcher], Any]
"""Returns a value that is not None without its secrets."""


def masked_fields(record: Record, forms: SecretMatcher) -> dict[str, Any]:
    """Return the fields that may hold a secret, except the text, with the secrets masked."""
    kind: Any = type(record)
    pictures = _pictures(kind) if str(getattr(record, "mime", "")).startswith("image/") else ()
    return {
        name: mask(value, forms)
        for name, mask in _masks(kind).items()
        if name not in pictures and (value := getattr(record, name)) is not None
    }


@cache
def _masks(kind: type[Any]) -> Mapping[str, _Mask]:
    return {
        name: mask
        for name, hint in kind.hints().items()
        if name != "text" and (mask := _mask(hint)) is not None
    }


@cache
def _pictures(kind: type[Any]) -> frozenset[str]:
    return frozenset(name for name, hint in kind.hints().items() if PICTURE in str(hint))


def _mask(hint: Any) -> _Mask | None:
    """Return how to mask values of a type; None if they hold no text, or only the program's own
    words."""
    args = typing.get_args(hint)
    if hint is str:
        return _text
    if typing.get_origin(hint) is Annotated:
        return None if WORD in args else _name if NAME in args else _mask(args[0])
    if hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint, include_extras=True)
        return _row_mask(
            {name: mask for name in hint._fields if (mask := _mask(hints[name])) is not None}
        )
    masks = [_mask(arg) for arg in args if arg is not ...]
    if not any(masks) or typing.get_origin(hint) is Mapping:
        return None
    if typing.get_origin(hint) is not tuple:  # one type, or None
        return next(mask for mask in masks if mask is not None)
    return (
        _list_mask(masks[0]) if args[1:] == (...,) and masks[0] is not None else _places_mask(masks)
    )


def _text(value: str, forms: SecretMatcher) -> str:
    return mask_spans(value, forms.spans(value))


def _name(value: str, forms: SecretMatcher) -> str:
    return mask_spans(value, forms.spans(value, words=False))


def _list_mask(mask: _Mask) -> _Mask:
    return lambda value, forms: tuple(mask(each, forms) for each in value)


def _places_mask(masks: list[_Mask | None]) -> _Mask:
    return lambda value, forms: tuple(
        each if mask is None else mask(each, forms) for mask, each in zip(masks, value, strict=True)
    )


def _row_mask(masks: Mapping[str, _Mask]) -> _Mask:
    def mask_row(value: Any, forms: SecretMatcher) -> Any:
        return value._replace(
            **{
                name: mask(each, forms)
                for name, mask in masks.items()
                if (each := getattr(value, name)) is not None
            }
        )

    return mask_row
